//! Two JVMs write into one log folder while somebody reads it.

use std::fs;
use std::process::Command;

use test_classes::{Java, Profile, artifacts, classes, jdks, wait_until};

/// Calls of `outer` in the report of `analyze`, 0 if there is none.
fn calls_of_outer(logs: &std::path::Path) -> u64 {
    let output = Command::new(&artifacts().analyze)
        .arg(logs)
        .args(["--format", "json", "--method", "programs.Busy$Worker.outer"])
        .output()
        .expect("analyze runs");
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["methods"]
        .as_array()
        .expect("methods")
        .iter()
        .map(|m| m["calls"].as_u64().expect("calls"))
        .sum()
}

#[test]
fn both_runs_are_whole_and_can_be_read_meanwhile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let logs = folder.path().join("logs");
    // The oldest and the newest; each has its own ids.
    let jdks = [jdks().first().expect("a JDK"), jdks().last().expect("a JDK")];
    let includes = ["include=programs.Busy", "include=programs"];
    let mut programs = Vec::new();
    for (index, (jdk, include)) in jdks.into_iter().zip(includes).enumerate() {
        let options = format!("{include},threshold=20us,logs={},port=off", logs.display());
        let stop = folder.path().join(format!("stop{index}"));
        programs.push(
            Java::new(jdk)
                .agent(&options)
                .main(classes(), "programs.Busy")
                .arg("2")
                .arg(stop)
                .start(),
        );
    }
    wait_until("two runs with records", || {
        logs.exists()
            && Profile::runs(&logs).len() == 2
            && Profile::runs(&logs)
                .iter()
                .all(|run| fs::read_dir(run).is_ok_and(|files| files.count() >= 5))
    });
    for _ in 0..20 {
        // Never an error, whatever the two are writing.
        calls_of_outer(&logs);
    }
    let mut truth = 0;
    for (index, program) in programs.into_iter().enumerate() {
        fs::write(folder.path().join(format!("stop{index}")), "").expect("a file");
        let finished = program.wait();
        finished.expect_quiet_success(index);
        let outer =
            finished.stdout.lines().find_map(|l| l.strip_prefix("outer ")).expect("a count");
        truth += outer.parse::<u64>().expect("a count");
    }
    assert_eq!(calls_of_outer(&logs), truth);
    let pids: Vec<String> = Profile::runs(&logs)
        .iter()
        .map(|run| run.to_string_lossy().rsplit('-').next().expect("a pid").to_owned())
        .collect();
    assert_ne!(pids[0], pids[1]);
}
