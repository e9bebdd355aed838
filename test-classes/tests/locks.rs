//! Waits for monitors are counted exactly, and recorded with their stacks and who had the monitor.

use std::path::Path;

use log_format::rows::{LockRow, counter};
use test_classes::{
    Finished, Java, Jdk, LockWait, Profile, classes, jdks, jdks_from, lock_waits, rows,
};

/// What a run of the program printed, counted and recorded.
struct Ran {
    /// How often each lock was taken.
    taken: u64,
    finished: Finished,
    profile: Profile,
    waits: Vec<LockWait>,
    sums: Vec<LockRow>,
}

fn run(jdk: &Jdk, logs: &Path, options: &str, arguments: &[&str]) -> Ran {
    let options = format!("include=programs,port=off,logs={},{options}", logs.display());
    let java = Java::new(jdk).agent(&options).main(classes(), "programs.Contended");
    let finished = java.args(arguments).run();
    finished.expect_quiet_success(jdk);
    let profile = Profile::only_run(logs);
    let [rounds, waiters] = [0, 1].map(|index| arguments[index].parse::<u64>().expect("a number"));
    let taken = rounds * (waiters + 1);
    let waits = lock_waits(&profile.folder);
    let sums = rows(&profile.folder);
    Ran { taken, finished, profile, waits, sums }
}

/// Locks by the names that the program prints: their class, and the method that waits.
const LOCKS: [(&str, &str, &str); 3] = [
    ("shelf", "programs.Contended$Shelf", "programs.Contended$Shelf.reserve"),
    ("class", "programs.Contended.class", "programs.Contended.reserveClass"),
    ("array", "long[]", "programs.Contended.reserveArray"),
];

/// Compares what was recorded with what the program knows.
fn compare(jdk: &Jdk, ran: &Ran) {
    for (name, class, method) in LOCKS {
        let start = format!("waits {name} ");
        let line = ran.finished.stdout.lines().find_map(|line| line.strip_prefix(&start));
        let (count, ns) = line.and_then(|line| line.split_once(' ')).expect("two numbers");
        let (count, ns): (u64, f64) = (count.parse().expect("a count"), ns.parse().expect("ns"));
        assert!(count > 4, "{jdk}: {name}: {count} waits");
        let waits: Vec<&LockWait> = ran.waits.iter().filter(|wait| wait.class == class).collect();
        assert_eq!(waits.len() as u64, count, "{jdk}: {name}");
        let recorded = waits.iter().map(|wait| wait.wait_ns).sum::<u64>() as f64;
        assert!((recorded / ns - 1.0).abs() < 0.02, "{jdk}: {name}: {recorded} of {ns} ns");
        for LockWait { thread, frames, path, .. } in &waits {
            assert!(thread.starts_with("waiter-"), "{jdk}: {thread}");
            assert_eq!(frames.last().map(String::as_str), Some(method), "{jdk}: {frames:?}");
            let (class, last) = method.rsplit_once('.').expect("a method");
            let innermost = path.last().map_or("", String::as_str);
            assert!(innermost.starts_with(&format!("{class} {last} ")), "{jdk}: {innermost}");
        }
        // Shorter waits count too.
        let sums: Vec<&LockRow> = ran.sums.iter().filter(|sum| sum.class == class).collect();
        let [all, total_ns] = [|sum: &LockRow| sum.waits, |sum: &LockRow| sum.total_ns]
            .map(|of| sums.iter().map(|sum| of(sum)).sum::<u64>());
        assert!((count..=ran.taken).contains(&all), "{jdk}: {name}: {all} of {count}");
        assert!((total_ns as f64 / recorded - 1.0).abs() < 0.02, "{jdk}: {name}: {total_ns}");
        assert!(sums.iter().all(|sum| sum.hist.count() == sum.waits), "{jdk}: {sums:?}");
        assert!(sums.iter().all(|s| s.max_ns >= s.total_ns / s.waits), "{jdk}: {sums:?}");
    }
    let all = ran.sums.iter().map(|sum| sum.waits).sum::<u64>();
    assert_eq!(ran.profile.counter(counter::LOCK_WAITS), all, "{jdk}");
    assert_eq!(ran.profile.counter(counter::LOCK_WAITS_DROPPED), 0, "{jdk}");
}

/// One in twenty may be unknown.
fn compare_owners(jdk: &Jdk, waits: &[LockWait]) {
    let long: Vec<&LockWait> = waits.iter().filter(|w| w.wait_ns >= 200_000_000).collect();
    let right = long.iter().filter(|wait| wait.owner.as_deref() == Some("holder")).count();
    assert!(right * 20 >= long.len() * 19, "{jdk}: {right} of {}", long.len());
}

#[test]
fn waits_of_platform_threads_are_the_truth() {
    for jdk in jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let ran = run(jdk, logs.path(), "lock=5ms", &["4", "4", "250"]);
        compare(jdk, &ran);
        compare_owners(jdk, &ran.waits);
    }
}

/// Before JDK 24, a virtual thread that waits for a monitor keeps its carrier; after that, it may go on on another.
#[test]
fn waits_of_virtual_threads_are_the_truth() {
    for jdk in jdks_from(21) {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let ran = run(jdk, logs.path(), "lock=5ms", &["4", "4", "250", "virtual"]);
        compare(jdk, &ran);
        compare_owners(jdk, &ran.waits);
    }
}

/// With many waits at once, the JVM is asked for few owners; all waits count.
#[test]
fn many_waits_are_all_counted() {
    for jdk in jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let ran = run(jdk, logs.path(), "lock=5ms,wall=off", &["10", "40", "30"]);
        compare(jdk, &ran);
    }
}

#[test]
fn without_the_option_nothing_is_counted() {
    for jdk in jdks() {
        for options in ["lock=off", "cpu=off"] {
            let logs = tempfile::tempdir().expect("a temporary folder");
            let ran = run(jdk, logs.path(), options, &["1", "2", "30"]);
            assert!(ran.waits.is_empty() && ran.sums.is_empty(), "{jdk}: {options}");
            assert_eq!(ran.profile.counter(counter::LOCK_WAITS), 0, "{jdk}: {options}");
        }
    }
}
