//! However a program ends, its calls are on disk, and those in progress are written as unfinished.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use log_format::rows::Exit;
use serde_json::Value;
use test_classes::{Java, Profile, artifacts, classes, jdks, wait_until};

const MAIN: &str = "programs.Exits main ([Ljava/lang/String;)V";
const WORK: &str = "programs.Exits work ()V";
const END: &str = "programs.Exits end (Ljava/lang/String;)V";
const IDLE: &str = "programs.Exits idle ()V";
const HOOK: &str = "programs.Exits hook ()V";

fn assert_profile(profile: &Profile, open: &[&str], ended: &[&str], what: &str) {
    let is_open =
        |name: &str| profile.records.iter().any(|r| r.method == name && r.exit == Exit::Unfinished);
    for name in open {
        assert!(is_open(name), "{what}: {name} is not open");
        assert!(!profile.counts.contains_key(*name), "{what}: {name} is counted");
    }
    for name in ended {
        assert_eq!(profile.counts.get(*name).map(|c| c.calls), Some(1), "{what}: {name}");
        assert!(!is_open(name), "{what}: {name} is open");
    }
    let work = profile.records.iter().find(|r| r.method == WORK).expect("a record");
    assert!(work.total_ns >= 30_000_000, "{what}");
}

/// How long the runs recorded, according to reports.
fn recorded(logs: &Path) -> Duration {
    let report = Command::new(&artifacts().analyze).args(["--format", "json"]).arg(logs).output();
    let report: Value = serde_json::from_slice(&report.expect("it runs").stdout).expect("JSON");
    Duration::from_nanos(report["recorded_ns"].as_u64().expect("a duration"))
}

#[test]
fn calls_are_on_disk_after_every_kind_of_end() {
    for jdk in jdks() {
        for (how, open, ended) in [
            ("return", &[IDLE][..], &[MAIN, WORK, END, HOOK][..]),
            ("exit", &[IDLE, MAIN, END], &[WORK, HOOK]),
            // The hook does not run.
            ("halt", &[IDLE, MAIN, END], &[WORK]),
            ("throw", &[IDLE], &[MAIN, WORK, END, HOOK]),
        ] {
            let logs = tempfile::tempdir().expect("a temporary folder");
            let options = format!("threshold=0,logs={},port=off", logs.path().display());
            let began = Instant::now();
            Java::new(jdk).agent(&options).main(classes(), "programs.Exits").arg(how).run();
            let (took, recorded) = (began.elapsed(), recorded(logs.path()));
            let work = Duration::from_millis(30);
            assert!(work <= recorded && recorded <= took, "{jdk}: {how}: {recorded:?} of {took:?}");
            let profile = Profile::only_run(logs.path());
            assert_profile(&profile, open, ended, &format!("{jdk}: {how}"));
            let throws = profile.counts.get(MAIN).map_or(0, |c| c.throws);
            assert_eq!(throws, u64::from(how == "throw"), "{jdk}: {how}");
        }
    }
}

#[test]
fn a_signal_ends_as_well() {
    for jdk in jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options = format!("threshold=0,logs={},port=off", logs.path().display());
        let program =
            Java::new(jdk).agent(&options).main(classes(), "programs.Exits").arg("wait").start();
        // A recorded call reaches the file within a second: that of `work` shows where the program is.
        wait_until("a record of work", || {
            Profile::runs(logs.path()).first().is_some_and(|run| {
                let calls = std::fs::read_dir(run).into_iter().flatten().flatten();
                calls.map(|e| e.path()).any(|p| p.to_string_lossy().ends_with(".calls.csv"))
            })
        });
        std::thread::sleep(Duration::from_millis(100));
        program.signal("TERM");
        let finished = program.wait();
        assert_eq!(finished.status, Some(143), "{jdk}: {}", finished.stderr);
        let profile = Profile::only_run(logs.path());
        assert_profile(&profile, &[IDLE, MAIN, END], &[WORK, HOOK], &format!("{jdk}: SIGTERM"));
    }
}
