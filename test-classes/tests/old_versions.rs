//! Calls that run in versions of their classes from before an attach have their names in samples.

use std::thread::sleep;
use std::time::Duration;

use test_classes::{Java, Profile, Sampled, classes, jdks, off_cpu, samples, tprofiler_text};

/// The JVM gives an old version of a method an id of its own, from the second attach on; before, it has none.
#[test]
fn calls_in_old_versions_have_their_names_in_each_attach() {
    for jdk in jdks() {
        let mut program = Java::new(jdk).main(classes(), "programs.Lasting").talk();
        assert_eq!(program.hear(), "ready", "{jdk}");
        let pid = program.program.pid().to_string();
        for attach in 1..=3 {
            let logs = tempfile::tempdir().expect("a temporary folder");
            let options = format!(
                "include=programs,retransform=even-running,port=off,cpu=10ms,wall=100ms,logs={}",
                logs.path().display()
            );
            tprofiler_text(&["attach", &pid, &options]);
            sleep(Duration::from_secs(3));
            tprofiler_text(&["detach", &pid]);
            let run = Profile::only_run(logs.path()).folder;
            let what = format!("{jdk}, attach {attach}");
            let (runs, waits) = (samples(&run), off_cpu(&run));
            expect_names(&runs, "computes", &["programs.Lasting.computes"], &what);
            let parks = ["programs.Lasting.parks", "java.util.concurrent.locks.LockSupport.park"];
            expect_names(&waits, "parks", &parks, &what);
            expect_names(&waits, "waits", &["programs.Lasting.waits"], &what);
            expect_names(&waits, "main", &["programs.Lasting.main"], &what);
        }
        let finished = program.end();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
    }
}

/// Nearly all that a thread's samples stand for has whole stacks with these frames.
fn expect_names(samples: &[Sampled], thread: &str, frames: &[&str], what: &str) {
    let of_thread = samples.iter().filter(|sample| sample.thread == thread);
    let is_named = |sample: &&Sampled| {
        let has = |name: &str| sample.frames.iter().any(|frame| frame == name);
        frames.iter().all(|frame| has(frame)) && !has("[unloaded]") && !sample.is_truncated()
    };
    let (named, others): (Vec<_>, Vec<_>) = of_thread.partition(is_named);
    let sum = |samples: &[&Sampled]| samples.iter().map(|s| s.weight_ns).sum::<u64>();
    assert!(sum(&named) > 0 && sum(&others) * 20 <= sum(&named), "{what}: {thread}: {others:#?}");
}
