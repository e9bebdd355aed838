//! `tprofiler profile` attaches for a while, prints a report, and leaves the JVM as it was, whatever happens meanwhile.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use test_classes::attaching::{command, end, expect_calls, fails, make_calls, phases, succeeds};
use test_classes::{Jdk, Profile, free_port, jdks, wait_until};

/// Runs `tprofiler profile`, with a thread that makes the program call methods meanwhile.
fn profile(pid: &str, folder: &Path, duration: &str) -> Child {
    let port = free_port();
    let options = format!("include=programs.Phases$*,leaves=keep,overhead=off,port={port}");
    command(&["profile", pid, "-d", duration, &options])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tprofiler runs")
}

fn expect_report(output: &Output, folder: &Path, jdk: &Jdk) {
    let report = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{jdk}: {stderr}");
    assert!(report.contains("programs.Phases$Work.outer(int)"), "{jdk}: {report}");
    assert!(stderr.contains("more reports: analyze "), "{jdk}: {stderr}");
    expect_calls(&Profile::only_run(&folder.join("logs")), 200, jdk);
}

fn wait_until_attached(pid: &str) {
    let row = format!("{pid}  attached");
    wait_until("the agent", || succeeds(&["list"]).contains(&row));
}

#[test]
fn profile_records_for_a_while_and_leaves_the_jvm_as_it_was() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut program = phases(jdk, &[]);
        let pid = program.program.pid().to_string();
        let profiling = profile(&pid, folder.path(), "3s");
        wait_until_attached(&pid);
        let refused = fails(&["profile", &pid, "-d", "1s"]);
        assert!(refused.contains("the agent is in it already"), "{jdk}: {refused}");
        // A report that could not be written costs no attachment.
        let refused = fails(&["profile", &pid, "-d", "1s", "-o", "/no-such-folder/report.html"]);
        let why = format!("tprofiler: {pid}: /no-such-folder/report.html: No such file");
        assert!(refused.starts_with(&why) && refused.lines().count() == 1, "{jdk}: {refused}");
        make_calls(&mut program, 200);
        let output = profiling.wait_with_output().expect("tprofiler runs");
        make_calls(&mut program, 10);
        expect_report(&output, folder.path(), jdk);
        assert!(succeeds(&["list"]).contains(&format!("{pid}  detached")), "{jdk}");
        end(program, jdk);
    }
}

#[test]
fn profile_ends_on_a_signal_and_leaves_the_jvm_as_it_was() {
    for jdk in jdks() {
        for signal in ["-INT", "-TERM"] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut program = phases(jdk, &[]);
            let pid = program.program.pid().to_string();
            let profiling = profile(&pid, folder.path(), "10m");
            wait_until_attached(&pid);
            make_calls(&mut program, 200);
            let sent = Command::new("kill").args([signal, &profiling.id().to_string()]).status();
            assert!(sent.is_ok_and(|status| status.success()));
            let output = profiling.wait_with_output().expect("tprofiler runs");
            make_calls(&mut program, 10);
            expect_report(&output, folder.path(), jdk);
            assert!(succeeds(&["list"]).contains(&format!("{pid}  detached")), "{jdk}");
            end(program, jdk);
        }
    }
}

#[test]
fn profile_of_a_jvm_that_ends_prints_what_there_is() {
    let jdk = &jdks()[0];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut program = phases(jdk, &[]);
    let pid = program.program.pid().to_string();
    let profiling = profile(&pid, folder.path(), "10m");
    wait_until_attached(&pid);
    make_calls(&mut program, 200);
    end(program, jdk);
    let output = profiling.wait_with_output().expect("tprofiler runs");
    expect_report(&output, folder.path(), jdk);
    assert!(String::from_utf8_lossy(&output.stderr).contains("the JVM has ended"));
}

#[test]
fn profile_of_nothing_says_why() {
    let jdk = &jdks()[0];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = phases(jdk, &[]);
    let pid = program.program.pid().to_string();
    let options = format!("include=programs.Phasen,port={}", free_port());
    let mut profile = command(&["profile", &pid, "-d", "1s", &options]);
    let output = profile.current_dir(folder.path()).output().expect("tprofiler runs");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let hint =
        "tprofiler: include=programs.Phasen has met no class so far; nearest: programs.Phases";
    // At once, and not again at the end.
    let mut lines = said.lines().skip_while(|line| !line.starts_with("tprofiler: recording "));
    assert!(lines.nth(1).is_some_and(|line| line.starts_with(hint)), "{said}");
    assert_eq!(said.matches(hint).count(), 1, "{said}");
    // The service's own stderr has it too.
    let finished = program.end();
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    assert!(finished.stderr.contains(hint), "{}", finished.stderr);
}

#[test]
fn profile_of_a_jvm_that_somebody_else_detaches_prints_what_there_is() {
    let jdk = &jdks()[0];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut program = phases(jdk, &[]);
    let pid = program.program.pid().to_string();
    let profiling = profile(&pid, folder.path(), "4s");
    wait_until_attached(&pid);
    make_calls(&mut program, 200);
    succeeds(&["detach", &pid]);
    let output = profiling.wait_with_output().expect("tprofiler runs");
    expect_report(&output, folder.path(), jdk);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the agent was detached by somebody else"), "{said}");
    end(program, jdk);
    let nothing = fails(&["profile", &pid, "start=off"]);
    assert!(nothing.contains("with start=off there is nothing to report"), "{nothing}");
}
