//! The signal handler leaves crashes to the JVM, and its code calls nothing that may not run in a handler.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use log_format::rows::counter;
use test_classes::{
    Java, Jdk, Profile, classes, fault_handler, jdks, jdks_by_turns, project, timers, wait_until,
};

/// Runs a program, and has it crash once the agent samples it, `after` some time. The JVM's report of it must be there.
pub(crate) fn expect_report_of_crash(jdk: &Jdk, java: Java, folder: &Path, after: Duration) {
    let (file, report) = (folder.join("stop"), folder.join("hs_err.log"));
    let java =
        java.arg("-XX:-CreateCoredumpOnCrash").arg(format!("-XX:ErrorFile={}", report.display()));
    let running = java.main(classes(), "programs.Busy").arg("2").arg(&file).start();
    let pid = running.pid();
    wait_until("threads have timers", || timers(pid) >= 4);
    thread::sleep(after);
    running.signal("SEGV");
    assert_ne!(running.wait().status, Some(0), "{jdk}");
    let report = fs::read_to_string(&report).expect("a report of the crash");
    assert!(report.contains("SIGSEGV"), "{jdk}: {report}");
}

/// A crash that is not the agent's reaches the JVM as before, which writes its report.
#[test]
fn a_crash_still_has_its_report() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        let options = format!("include=programs,port=off,logs={},cpu=1ms", logs.display());
        let java = Java::new(jdk).agent(&options);
        expect_report_of_crash(jdk, java, folder.path(), Duration::ZERO);
    }
}

/// Another agent that passes faults on, and installs its handler again wherever it finds another, has no circle.
#[test]
fn a_handler_that_comes_again_and_again_changes_nothing() {
    for jdk in jdks_by_turns() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, file) = (folder.path().join("logs"), folder.path().join("stop"));
        let options = format!("include=programs,port=off,logs={},cpu=1ms", logs.display());
        let other = format!("-agentpath:{}", fault_handler().display());
        let java = Java::new(jdk).agent(&options).arg(other);
        let running = java.main(classes(), "programs.Chaos").arg(&file).start();
        thread::sleep(Duration::from_secs(4));
        fs::write(&file, "").expect("a file");
        let finished = running.wait();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
        assert!(finished.numbers()["done"] > 10, "{jdk}: {}", finished.stdout);
        let profile = Profile::only_run(&logs);
        assert!(profile.counter(counter::SAMPLES_UNGUARDED) > 0, "{jdk}: the handler was there");
    }
}

/// What may run in the signal handler calls nothing of the C library, of `std` or of `alloc`, and cannot panic.
#[test]
fn the_handler_refers_to_nothing_that_is_not_signal_safe() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let object = folder.path().join("handler.o");
    let built = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["rustc", "--quiet", "-p", "sampling-handler", "--release", "--target-dir"])
        .arg(folder.path())
        .args(["--config", "profile.release.lto=false"])
        // All in one file.
        .args(["--config", "profile.release.codegen-units=1", "--"])
        .arg(format!("--emit=obj={}", object.display()))
        .current_dir(project())
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let listed = Command::new("nm").arg(&object).output().expect("nm runs, of binutils");
    let listed = String::from_utf8(listed.stdout).expect("text");
    assert!(listed.contains("on_signal"), "{listed}");
    // Copies, which compilers make of loops.
    let allowed = ["memcpy", "memmove", "memset", "memcmp", "bcmp"];
    let undefined = listed.lines().filter_map(|line| line.trim_start().strip_prefix("U "));
    let bad: Vec<&str> = undefined.filter(|name| !allowed.contains(name)).collect();
    assert!(bad.is_empty(), "{bad:?}");
    assert!(!listed.contains("panic"), "{listed}");
}
