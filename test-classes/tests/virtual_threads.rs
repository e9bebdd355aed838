//! Virtual threads block, change carriers and end during other threads' calls: counts are exact, times are wall time,
//! and their data is freed.

use std::fs;

use log_format::rows::{Exit, counter};
use test_classes::{Java, Jdk, Profile, classes, free_port, jdks_from, tprofiler, wait_until};

fn with_virtual_threads() -> Vec<&'static Jdk> {
    jdks_from(21)
}

/// Runs the program and returns what was recorded of `threads` threads.
fn profile(jdk: &Jdk, threads: u64, options: &str) -> Profile {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (logs, counts) = (folder.path().join("logs"), folder.path().join("counts"));
    let agent = format!("include=virtual,logs={},port=off{options}", logs.display());
    let program = Java::new(jdk).agent(&agent).main(classes(), "virtual.Main");
    program.arg(&counts).arg(threads.to_string()).run().expect_quiet_success(jdk);
    let counts = fs::read_to_string(&counts).expect("counts");
    assert_eq!(counts, format!("{threads} {} {threads}", 4 * threads + threads), "{jdk}");

    let profile = Profile::only_run(&logs);
    let work = |name: &str| {
        let counts = profile.counts.get(&format!("virtual.Main$Work {name}"));
        counts.map_or((0, 0), |c| (c.calls, c.throws))
    };
    for (name, expected) in [
        ("<init> (I)V", (threads, 0)),
        ("run ()V", (threads, 0)),
        ("outer (I)V", (5 * threads, threads)),
        ("inner (I)V", (5 * threads, threads)),
        ("waits ()V", (threads, 0)),
        ("recurse (I)V", (4 * threads, 0)),
        ("pinned ()V", (threads.div_ceil(10), 0)),
    ] {
        assert_eq!(work(name), expected, "{jdk}: {name}");
    }
    for lost in [counter::LOST_CALLS, counter::UNSEEN_ENDS] {
        assert_eq!(profile.counter(lost), 0, "{jdk}: {lost}");
    }
    profile
}

#[test]
fn calls_of_virtual_threads_are_counted_and_timed_across_carriers() {
    for jdk in with_virtual_threads() {
        let profile = profile(jdk, 1_000, ",threshold=50ms");
        // Time without a carrier counts: all wait for the last to arrive.
        let waits: Vec<_> =
            profile.records.iter().filter(|r| r.method.contains(" waits ")).collect();
        // They continue all at once, on a carrier or two: recorded calls may find the ring full.
        let dropped = profile.counter(counter::RECORDED_CALLS_DROPPED);
        assert!(waits.len() as u64 + dropped >= 1_000, "{jdk}: {} and {dropped}", waits.len());
        assert!(waits.len() > 500, "{jdk}: {}", waits.len());
        for call in &waits {
            assert_eq!(call.exit, Exit::Return);
            assert!(call.total_ns >= 100_000_000, "{jdk}: {call:?}");
            let path = ["virtual.Main$Work run ()V", "virtual.Main$Work waits ()V"];
            assert_eq!(call.path, path, "{jdk}");
            assert!(call.thread.starts_with("virtual-"), "{jdk}: {call:?}");
        }
        let mut names: Vec<&str> = waits.iter().map(|call| &*call.thread).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), waits.len(), "{jdk}: each thread has its own name");
        let kinds = profile.threads.values().filter(|t| t.kind == "virtual").count();
        assert!(kinds >= waits.len(), "{jdk}: {kinds}");
        // `recurse` calls itself: its total is the outermost call's, which no self time exceeds.
        let (total, own) = profile.times["virtual.Main$Work recurse (I)V"];
        assert!(own <= total, "{jdk}: {own} of {total}");
    }
}

#[test]
fn a_hundred_thousand_virtual_threads_at_once_are_exact() {
    for jdk in with_virtual_threads() {
        profile(jdk, 100_000, ",threshold=10s");
    }
}

/// A virtual thread is logged with an unfinished call before it has a recorded one, and so before its name is read.
#[test]
fn a_virtual_thread_has_its_name_after_a_stop_too() {
    for jdk in with_virtual_threads() {
        let (logs, port) = (tempfile::tempdir().expect("a temporary folder"), free_port());
        let options = format!("include=virtual,logs={},port={port}", logs.path().display());
        let program = Java::new(jdk).agent(&options).main(classes(), "virtual.Names");
        let mut program = program.talk();
        wait_until("control", || tprofiler(port, &["status"]).status.success());
        for command in ["stop", "start"] {
            // The loop must be unfinished for a threshold's time, and so must the pause.
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(tprofiler(port, &[command]).status.success(), "{jdk}");
        }
        for line in ["one", "two", "three"] {
            assert_eq!(program.ask(line), line, "{jdk}");
        }
        program.end().expect_quiet_success(jdk);
        let profile = Profile::only_run(logs.path());
        let pauses = profile.records.iter().filter(|r| r.method == "virtual.Names pause ()V");
        let names: Vec<&str> = pauses.map(|r| &*r.thread).collect();
        assert_eq!(names, ["payments"; 3], "{jdk}");
    }
}

/// Virtual threads seldom have names. Mounted again, each is the same thread in the log, with or without one.
#[test]
fn a_virtual_thread_without_a_name_is_one_thread() {
    const THREADS: u64 = 200;
    for jdk in with_virtual_threads() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options = format!("include=virtual,logs={},port=off", logs.path().display());
        let program = Java::new(jdk).agent(&options).main(classes(), "virtual.Requests");
        program.arg(THREADS.to_string()).run().expect_quiet_success(jdk);
        let profile = Profile::only_run(logs.path());
        assert_eq!(profile.counter(counter::RECORDED_CALLS_DROPPED), 0, "{jdk}");
        let rows = profile.threads.values().filter(|thread| thread.kind == "virtual");
        assert_eq!(rows.count() as u64, THREADS, "{jdk}");
        for request in profile.records.iter().filter(|r| r.method.contains(" request ")) {
            let steps = profile
                .records
                .iter()
                .filter(|r| r.method.contains(" step ") && r.thread_id == request.thread_id);
            assert_eq!(steps.count(), 3, "{jdk}: {request:?}");
        }
    }
}

/// Calls that take longer than those of another method fill the rings and use up the hour's budget.
#[test]
fn each_method_with_slow_calls_has_one_in_the_log() {
    for jdk in with_virtual_threads() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options = "include=virtual,threshold=10ms,max_mb_per_hour=0.5,port=off";
        let agent = format!("{options},logs={}", logs.path().display());
        let program = Java::new(jdk).agent(&agent).main(classes(), "virtual.Flood");
        program.arg("200000").run().expect_quiet_success(jdk);
        let profile = Profile::only_run(logs.path());
        let dropped = [counter::RECORDED_CALLS_DROPPED, counter::RECORDED_CALLS_OVER_BUDGET]
            .map(|c| profile.counter(c));
        println!("{jdk}: {dropped:?}");
        assert!(dropped.iter().sum::<u64>() > 50_000, "{jdk}: {dropped:?}");
        for (method, calls) in [("noisy", 199_800), ("rare", 200), ("pausesRarely", 200)] {
            let method = format!("virtual.Flood {method} ()V");
            assert_eq!(profile.counts[&method].calls, calls, "{jdk}: {method}");
            let intervals = profile.intervals.iter().filter(|(name, _)| *name == method);
            let slowest = intervals.map(|(_, row)| row.max_ns).max().expect("an interval");
            let records = profile.records.iter().filter(|record| record.method == method);
            let recorded = records.map(|record| record.total_ns).max();
            // While a ring is full, a call must be slower by an eighth than the slowest of its method.
            let least = slowest / 9 * 8;
            assert!(recorded >= Some(least), "{jdk}: {method}: {recorded:?} of {slowest}");
        }
    }
}
