//! Separate thresholds for the methods that patterns match, changed while the program runs.

use std::collections::BTreeMap;
use std::fs;

use log_format::rows::{Exit, event};
use test_classes::{Java, Profile, classes, free_port, jdks, tprofiler, wait_until};

/// The lines of an answer, after those that identify the agent.
fn threshold(port: u16, value: &[&str]) -> String {
    let output = tprofiler(port, &[&["threshold"], value].concat());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().skip(3).map(|line| format!("{line}\n")).collect()
}

/// Recorded calls of each method that returned.
fn records(profile: &Profile) -> BTreeMap<&str, u64> {
    let mut records = BTreeMap::new();
    for record in profile.records.iter().filter(|record| record.exit == Exit::Return) {
        let name = record.method.split(' ').nth(1).expect("a method");
        *records.entry(name).or_default() += 1;
    }
    records
}

/// The last threshold of a pattern.
fn own_threshold(profile: &Profile, pattern: &str) -> Option<u64> {
    let of_pattern = profile.events(event::THRESHOLD).filter(|row| row.pattern == pattern);
    of_pattern.last()?.threshold_ns
}

#[test]
fn each_pattern_has_its_own() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        let options = format!(
            "include=programs.Times,threshold=0,threshold=programs.Times.l*:1h,\
             threshold=**.sleeper:4ms,threshold=**.branch:1h,threshold=**.branch:0,\
             threshold=**.main:1h,logs={},port=off",
            logs.display()
        );
        let finished =
            Java::new(jdk).agent(&options).main(classes(), "programs.Times").arg("3").run();
        finished.expect_quiet_success(jdk);
        let profile = Profile::only_run(&logs);
        let records = records(&profile);
        assert_eq!(profile.counts["programs.Times leaf (J)V"].calls, 6, "{jdk}");
        assert_eq!(records.get("leaf"), None, "{jdk}: above its threshold none took");
        assert_eq!(records.get("main"), None, "{jdk}");
        for (method, expected) in [("sleeper", 3), ("branch", 3), ("root", 3), ("recursive", 12)] {
            assert_eq!(records.get(method), Some(&expected), "{jdk}: {method}");
        }
        assert_eq!(own_threshold(&profile, "**.sleeper"), Some(4_000_000), "{jdk}");
        let run: serde_json::Value = serde_json::from_str(
            &fs::read_to_string(profile.folder.join("run.json")).expect("run.json"),
        )
        .expect("JSON");
        assert_eq!(
            run["options"]["threshold"],
            "0,programs.Times.l*:1h,**.sleeper:4ms,**.branch:0,**.main:1h"
        );
    }
}

#[test]
fn they_are_changed_while_the_program_runs() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, stop) = (folder.path().join("logs"), folder.path().join("stop"));
        let port = free_port();
        let options =
            format!("include=programs.Waits,threshold=1ms,logs={},port={port}", logs.display());
        let program =
            Java::new(jdk).agent(&options).main(classes(), "programs.Waits").arg(&stop).start();
        let mut seen = BTreeMap::new();
        let records_so_far = || {
            // The file must not be written while it is read.
            assert!(tprofiler(port, &["stop"]).status.success());
            let profile = Profile::read(&Profile::runs(&logs)[0]);
            assert!(tprofiler(port, &["start"]).status.success());
            records(&profile)
                .into_iter()
                .map(|(name, n)| (name.to_owned(), n))
                .collect::<BTreeMap<_, u64>>()
        };
        wait_until("the control port", || tprofiler(port, &["status"]).status.success());
        wait_until("records of both methods", || {
            seen = records_so_far();
            seen.contains_key("two") && seen.contains_key("eight")
        });
        assert_eq!(threshold(port, &[]), "threshold: 1ms\n");
        assert_eq!(threshold(port, &["6ms"]), "threshold: 6ms\n");
        let before = records_so_far();
        wait_until("more records", || {
            seen = records_so_far();
            seen["eight"] > before["eight"] + 10
        });
        // Two milliseconds may become six on a busy machine, but not usually.
        assert!(seen["two"] - before["two"] < 5, "{jdk}: {before:?} {seen:?}");

        let own = "threshold: 6ms\nthreshold programs.*.two: 1500us\n";
        assert_eq!(threshold(port, &["programs.*.two:1500us"]), own);
        assert_eq!(threshold(port, &["**.eight:1h"]), format!("{own}threshold **.eight: 1h\n"));
        let before = records_so_far();
        wait_until("more records", || {
            seen = records_so_far();
            seen["two"] > before["two"] + 10
        });
        assert!(seen["eight"] <= before["eight"], "{jdk}: {before:?} {seen:?}");

        for (wrong, message) in [
            ("soon", "threshold: 'soon' is not a duration like 500us, 1ms or 2s"),
            ("a..b:1ms", "threshold: 'a..b' is not a pattern like"),
        ] {
            let output = tprofiler(port, &["threshold", wrong]);
            assert_eq!(output.status.code(), Some(1), "{jdk}: {wrong}");
            let error = String::from_utf8(output.stderr).expect("text");
            assert!(error.contains(message), "{jdk}: {error}");
        }
        fs::write(&stop, "").expect("a file");
        program.wait().expect_quiet_success(jdk);
        // Unfinished calls too: `main` is over the common threshold, and `eight` never is.
        let profile = Profile::only_run(&logs);
        assert_eq!(own_threshold(&profile, "**.eight"), Some(3_600_000_000_000), "{jdk}");
    }
}
