//! Faults of a JVM: the service's own output is the same as without the agent, the log can be read, counts are exact,
//! and the agent's memory does not grow.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use log_format::rows::{Exit, counter};
use test_classes::{
    Counts, Finished, Java, Jdk, Profile, Record, classes, ends_of_jdks, faults, jdks,
    jdks_by_turns,
};

/// Runs `programs.Faults` under the agent, which instruments only that program.
fn run(jdk: &Jdk, jvm_options: &[&str], arguments: &[&str]) -> (Profile, Finished) {
    let logs = tempfile::tempdir().expect("a temporary folder");
    run_in(logs.path(), jdk, jvm_options, arguments)
}

fn run_in(logs: &Path, jdk: &Jdk, jvm_options: &[&str], arguments: &[&str]) -> (Profile, Finished) {
    // Shown if the test fails.
    println!("{jdk} {arguments:?}");
    let options = format!("include=programs,logs={},port=off", logs.display());
    let mut java = Java::new(jdk).args(jvm_options);
    if jdk.major >= 24 {
        // Otherwise the JVM warns about the program's own library.
        java = java.arg("--enable-native-access=ALL-UNNAMED");
    }
    let finished =
        java.agent(&options).main(classes(), "programs.Faults").args(arguments).arg(faults()).run();
    finished.expect_quiet_success(jdk);
    assert!(finished.stdout.ends_with("ended\n"), "{jdk}: {}", finished.stdout);
    (Profile::only_run(logs), finished)
}

/// The program's own counts of its methods.
fn truth(finished: &Finished) -> BTreeMap<String, Counts> {
    let lines = finished.stdout.lines().filter_map(|line| {
        let (rest, throws) = line.rsplit_once(' ')?;
        let (name, calls) = rest.rsplit_once(' ')?;
        let counts = Counts { calls: calls.parse().ok()?, throws: throws.parse().ok()? };
        Some((name.to_owned(), counts))
    });
    lines.collect()
}

fn expect_exact(jdk: &Jdk, profile: &Profile, finished: &Finished, class: &str) {
    let truth = truth(finished);
    assert!(!truth.is_empty(), "{jdk}: {}", finished.stdout);
    for (method, counts) in truth {
        assert_eq!(profile.counts.get(&format!("{class} {method}")), Some(&counts), "{jdk}");
    }
    for lost in [counter::LOST_CALLS, counter::UNSEEN_ENDS, counter::RECORDED_CALLS_DROPPED] {
        assert_eq!(profile.counter(lost), 0, "{jdk}: {lost}");
    }
}

#[test]
fn twenty_thousand_threads_that_end_are_counted_and_forgotten() {
    for jdk in jdks_by_turns() {
        let (profile, finished) = run(jdk, &[], &["threads", "20000"]);
        expect_exact(jdk, &profile, &finished, "programs.Faults");
        // Threads without a recorded call have no row.
        assert!(profile.threads.len() < 2_000, "{jdk}: {}", profile.threads.len());
    }
}

#[test]
fn calls_that_end_for_lack_of_memory_are_counted() {
    for jdk in jdks() {
        let (profile, finished) = run(jdk, &["-Xmx24m"], &["memory", "30"]);
        expect_exact(jdk, &profile, &finished, "programs.Faults");
        let fill = &profile.counts["programs.Faults fill (Ljava/util/List;I)V"];
        assert!(fill.throws >= 30 * 6, "{jdk}: {fill:?}");
    }
}

/// The exception comes wherever the thread is: in a probe too, before the call has begun or after it has ended. So
/// the count may be off by one call for each thread that was stopped.
#[test]
fn exceptions_from_elsewhere_end_calls() {
    const STOPPED: u64 = 100;
    for jdk in jdks() {
        let (profile, finished) = run(jdk, &[], &["stop", &STOPPED.to_string()]);
        let truth = truth(&finished)["step ()V"].calls;
        let step = profile.counts["programs.Faults$Steps step ()V"];
        assert!(step.calls.abs_diff(truth) <= STOPPED, "{jdk}: {step:?} of {truth}");
        assert!(step.throws <= STOPPED, "{jdk}: {step:?}");
        let run = profile.counts["programs.Faults$Steps run ()V"];
        assert_eq!((run.calls, run.throws), (STOPPED, STOPPED), "{jdk}");
        let open = profile.records.iter().filter(|record| record.exit == Exit::Unfinished);
        assert_eq!(open.map(|record| &*record.method).collect::<Vec<_>>(), [""; 0], "{jdk}");
        assert_eq!(profile.counter(counter::LOST_CALLS), 0, "{jdk}");
    }
}

/// A probe may take more stack than the one at the entry of the same call, here because only that one is compiled.
/// While calls are recorded, recursions are kept from the end of the stack, and no probe meets it.
#[test]
fn handlers_run_where_a_probe_overflows_the_stack() {
    let start = "-XX:CompileCommand=compileonly,java/lang/invoke/$TProfiler.Start";
    for jdk in ends_of_jdks() {
        for form in ["auto", "plain"] {
            let logs = tempfile::tempdir().expect("a temporary folder");
            // With probes of its own, this one's error would take the place of what it throws.
            let options = "exclude=programs.Overflowing.instead,port=off,start=off,debug=classes";
            let options = format!("{options},probe={form}");
            let options = format!("include=programs,{options},logs={}", logs.path().display());
            let java = Java::new(jdk).args(["-XX:CompileCommand=quiet", start]).agent(&options);
            let finished = java.main(classes(), "programs.Overflowing").arg("2").run();
            finished.expect_quiet_success(jdk);
            let rounds = finished.stdout.strip_suffix(" rounds\n").and_then(|n| n.parse().ok());
            // The entry's probe is compiled in the first.
            assert!(rounds.is_some_and(|n: u32| n > 3), "{jdk} {form}: {}", finished.stdout);
            let run = Profile::only_run(logs.path()).folder;
            let said = std::fs::read_to_string(run.join("classes.log")).expect("its decisions");
            let is_it = |line: &str| {
                line.starts_with("programs.Overflowing: ") && line.contains("methods instrumented")
            };
            assert!(said.lines().any(is_it), "{jdk} {form}: {said}");
        }
    }
}

/// An application that is redeployed repeatedly.
#[test]
fn classes_that_are_unloaded_leave_nothing_behind() {
    for jdk in jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        // C2's own memory comes and goes, and a heap grows as it likes.
        let heap = ["-Xms32m", "-Xmx32m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC"];
        let options = [&heap[..], &["-XX:TieredStopAtLevel=1"]].concat();
        let (profile, finished) = run_in(logs.path(), jdk, &options, &["classes", "6000"]);
        expect_exact(jdk, &profile, &finished, "programs.Deployed");
        let one = profile.counts["programs.Deployed one ()V"];
        assert_eq!(one, Counts { calls: 60_000, throws: 0 }, "{jdk}");
        // As many ids as there were loaders at the same time, not in total.
        let methods = std::fs::read_dir(&profile.folder).expect("a run");
        let methods = methods.map(|entry| entry.expect("a file").path());
        let methods = methods.filter(|path| path.to_string_lossy().ends_with(".methods.csv"));
        let ids: BTreeSet<String> = methods
            .flat_map(|path| {
                let text = std::fs::read_to_string(path).expect("a file");
                let rows = text.lines().filter(|line| line.contains("programs.Deployed,"));
                rows.filter_map(|row| Some(row.split_once(',')?.0.to_owned())).collect::<Vec<_>>()
            })
            .collect();
        assert!(ids.len() < 3_000, "{jdk}: {} ids of 18,000 methods", ids.len());
        let resident: Vec<i64> = finished
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix("resident ")?.parse().ok())
            .collect();
        // What is there once, as the names of native functions in samples, comes in one thousand classes or two. A leak
        // is in each. After the first thousand: 0.2 to 0.6 kilobytes a class.
        let mut growth: Vec<i64> = resident.windows(2).map(|two| two[1] - two[0]).collect();
        growth.remove(0);
        growth.sort_unstable();
        assert!(growth[1] < 1_000, "{jdk}: kilobytes {resident:?}");
    }
}

#[test]
fn processes_that_are_started_or_forked_have_nothing_of_the_agent() {
    for jdk in jdks() {
        let (profile, finished) = run(jdk, &[], &["children", "20"]);
        expect_exact(jdk, &profile, &finished, "programs.Faults");
    }
}

#[test]
fn a_busy_jvm_that_ends_itself_has_its_calls_on_disk() {
    for jdk in jdks() {
        for how in ["exit", "halt"] {
            let logs = tempfile::tempdir().expect("a temporary folder");
            let options = format!("include=programs,logs={},port=off", logs.path().display());
            let java = Java::new(jdk).agent(&options).main(classes(), "programs.Faults");
            let finished = java.args([how, "3"]).run();
            assert_eq!((finished.status, &*finished.stderr), (Some(3), ""), "{jdk}: {how}");
            let profile = Profile::only_run(logs.path());
            let before = truth(&finished)["step ()V"].calls;
            // The others go on until the JVM has ended; each may have had a call in its probe.
            let step = profile.counts["programs.Faults$Steps step ()V"];
            assert!(step.calls + 4 > before && before > 100_000, "{jdk}: {how}: {step:?} {before}");
            let open = |method: &str| {
                let is_open = |r: &&Record| r.exit == Exit::Unfinished && r.method.contains(method);
                profile.records.iter().filter(is_open).count()
            };
            assert_eq!(open("Steps run ()V"), 4, "{jdk}: {how}");
            assert_eq!(open("Faults main "), 1, "{jdk}: {how}");
            assert_eq!(profile.counter(counter::LOST_CALLS), 0, "{jdk}: {how}");
        }
    }
}
