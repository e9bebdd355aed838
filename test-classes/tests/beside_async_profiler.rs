//! async-profiler comes after the agent, and replaces its handler of faults. Samples keep their stacks, both profilers
//! see the same, and faults of the program reach the JVM.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use log_format::rows::counter;
use test_classes::{
    Java, Jdk, Profile, Sampled, async_profiler, classes, jdks, jdks_by_turns, samples,
};

use crate::signal_handler::expect_report_of_crash;

/// A JVM with the agent, and async-profiler behind it, which writes `theirs.txt` into this folder.
fn java(jdk: &Jdk, folder: &Path) -> Java {
    let library = async_profiler(folder);
    let (logs, theirs) = (folder.join("logs"), folder.join("theirs.txt"));
    let options =
        format!("include=programs,port=off,logs={},cpu=1ms,sampler_cap=off", logs.display());
    let theirs = format!("start,event=cpu,interval=1ms,collapsed,file={}", theirs.display());
    Java::new(jdk).agent(&options).arg(format!("-agentpath:{}={theirs}", library.display()))
}

#[test]
fn both_see_the_same_shares() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let finished = java(jdk, folder.path()).main(classes(), "programs.Shares").arg("6").run();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
        let profile = Profile::only_run(&folder.path().join("logs"));
        let all = samples(&profile.folder);
        // A second may pass until the agent sees the other handler.
        let in_java: u64 = all.iter().filter(|s| s.is_java()).map(|s| s.samples).sum();
        let unguarded = profile.counter(counter::SAMPLES_UNGUARDED);
        assert!(in_java > 1_000 && unguarded * 3 < in_java, "{jdk}: {unguarded} of {in_java}");
        let of = |part: usize| format!("programs.Shares.m{part}");
        let weight = |name: &str| {
            let at_top = all.iter().filter(|s: &&Sampled| s.top() == Some(name));
            at_top.map(|s| s.weight_ns).sum::<u64>() as f64
        };
        let mut theirs: BTreeMap<String, f64> = BTreeMap::new();
        for line in fs::read_to_string(folder.path().join("theirs.txt")).expect("stacks").lines() {
            let (stack, count) = line.rsplit_once(' ').expect("a count");
            let top = stack.rsplit(';').next().unwrap_or_default().replace('/', ".");
            *theirs.entry(top).or_default() += count.parse::<f64>().expect("a number");
        }
        let their = |name: &str| theirs.get(name).copied().unwrap_or_default();
        let ours_ns: f64 = (0..10).map(|part| weight(&of(part))).sum();
        let theirs_count: f64 = (0..10).map(|part| their(&of(part))).sum();
        assert!(theirs_count > 1_000.0, "{jdk}: {theirs:?}");
        for part in 0..10 {
            let (ours, theirs) = (weight(&of(part)) / ours_ns, their(&of(part)) / theirs_count);
            assert!((ours - theirs).abs() < 0.05, "{jdk}: m{part}: {ours:.3}, theirs {theirs:.3}");
        }
    }
}

/// Compiled code finds null, and the end of a stack, by faults.
#[test]
fn faults_of_compiled_code_reach_the_jvm() {
    for jdk in jdks_by_turns() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("stop");
        let running = java(jdk, folder.path()).main(classes(), "programs.Chaos").arg(&file).start();
        thread::sleep(Duration::from_secs(5));
        fs::write(&file, "").expect("a file");
        let finished = running.wait();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
        // Each result was right.
        let done = finished.stdout.lines().find_map(|line| line.strip_prefix("done "));
        let done: u64 = done.and_then(|done| done.parse().ok()).expect("a number");
        assert!(done > 10, "{jdk}: {}", finished.stdout);
    }
}

/// Within a second, the agent has a handler in front of async-profiler's.
#[test]
fn a_crash_still_has_its_report() {
    for jdk in jdks_by_turns() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let java = java(jdk, folder.path());
        expect_report_of_crash(jdk, java, folder.path(), Duration::from_secs(2));
    }
}
