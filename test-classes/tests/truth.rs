//! The profile has exactly the counts that the programs of `java/truth` keep themselves: calls and exceptional exits
//! of every method, on every JVM, compiled and interpreted.

use std::collections::HashSet;

use log_format::ids::ThreadId;
use log_format::rows::{Exit, counter};
use test_classes::{Java, Jdk, Profile, TRUTH, classes, ends_of_jdks, is_full, jdks, run_truth};

const ROUNDS: u32 = 2_000;

/// Runs the programs with the agent, compares the result with the truth, and returns it.
fn profile(jdk: &Jdk, jvm_options: &[&str], agent_options: &str) -> Profile {
    let what = format!("{jdk} {jvm_options:?} {agent_options}");
    let java = Java::new(jdk).args(jvm_options);
    let launch = |java: Java| java.main(classes(), TRUTH);
    let (profile, finished) = run_truth(java, &what, agent_options, ROUNDS, launch);
    finished.expect_quiet_success(&what);
    assert_eq!(finished.stdout, "done\n", "{what}");
    assert!(profile.counts.values().map(|c| c.throws).sum::<u64>() > 100_000, "{what}");
    profile
}

#[test]
fn counts_are_the_truth_on_every_jvm() {
    for jdk in jdks() {
        let profile = profile(jdk, &[], "");
        calls_after_100_000_failed_constructors_are_in_place(&profile, jdk);
        threads_have_their_names(&profile, jdk);
    }
}

/// `Constructors.run` has caught 100,000 exceptions out of `super(...)`; then it calls a method that
/// sleeps for 20 ms.
fn calls_after_100_000_failed_constructors_are_in_place(profile: &Profile, jdk: &Jdk) {
    let sleeps = "truth.Constructors sleepsLater (I)V";
    let run = "truth.Constructors run (I)V";
    let record =
        profile.records.iter().find(|r| r.method == sleeps).expect("a record of the sleep");
    assert_eq!(record.path, ["truth.Main main ([Ljava/lang/String;)V", run, sleeps], "{jdk}");
    assert!((20_000_000..200_000_000).contains(&record.total_ns), "{jdk}: {}", record.total_ns);
    let run = profile.records.iter().find(|r| r.method == run).expect("a record of the loop");
    assert_eq!((run.path.len(), run.exit), (2, Exit::Return), "{jdk}");
    assert!(run.start_ns < record.start_ns && run.total_ns > record.total_ns, "{jdk}");
    assert!(run.self_ns < run.total_ns - record.total_ns, "{jdk}: the sleep is not its own");
}

fn threads_have_their_names(profile: &Profile, jdk: &Jdk) {
    for name in ["main", "alpha", "beta", "gamma, with a comma", "delta \"quoted\"", "short-199"] {
        let pauses = |r: &&test_classes::Record| r.thread == name && r.total_ns >= 1_000_000;
        assert!(profile.records.iter().any(|r| pauses(&r)), "{jdk}: no record of thread {name}");
    }
    // Others were sampled, such as the JIT's.
    let recorded: HashSet<ThreadId> = profile.records.iter().map(|r| r.thread_id).collect();
    for thread in profile.threads.values().filter(|thread| recorded.contains(&thread.id)) {
        assert!(!thread.java_id.is_none() && !thread.os_id.is_none(), "{jdk}: {thread:?}");
    }
}

/// With default options: none of these methods is a trivial leaf, and throttled ones are named.
#[test]
fn counts_are_the_truth_with_the_defaults() {
    for jdk in jdks() {
        let what = format!("{jdk} with the defaults");
        let options = ",leaves=skip,overhead=2%";
        let launch = |java: Java| java.main(classes(), TRUTH);
        let (profile, finished) = run_truth(Java::new(jdk), &what, options, 3 * ROUNDS, launch);
        finished.expect_quiet_success(&what);
        let (throttled, counted): (Vec<_>, Vec<_>) =
            profile.counts.keys().partition(|name| profile.is_throttled(name));
        assert!(!throttled.is_empty(), "{what}: nothing is throttled");
        assert!(counted.len() > 20, "{what}: {} methods counted", counted.len());
        assert!(profile.counter(counter::CPU_NS) > profile.counter(counter::PROBE_NS), "{what}");
    }
}

#[test]
fn counts_are_the_truth_interpreted_and_compiled_at_once() {
    let compiled =
        ["-Xcomp", "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,truth/*.*"];
    let modes = [&["-Xint"][..], &compiled, &["-XX:TieredStopAtLevel=1"]];
    let ends = ends_of_jdks();
    for (index, jdk) in ends.iter().enumerate() {
        // In the fast lane, each on one of two runtimes.
        let of_jdk = |(mode, _): &(usize, _)| is_full() || ends.len() != 2 || mode % 2 == index;
        for (_, mode) in modes.iter().enumerate().filter(of_jdk) {
            profile(jdk, mode, "");
        }
    }
}

#[test]
fn counts_are_the_truth_when_every_call_is_recorded() {
    // More recorded calls than the rings can hold: some may be dropped, and are counted; method statistics lose
    // nothing.
    for jdk in jdks() {
        let profile = profile(jdk, &[], ",threshold=0");
        let calls: u64 = profile.counts.values().map(|c| c.calls).sum();
        let records = u64::try_from(profile.records.len()).expect("a count");
        assert_eq!(records + profile.counter(counter::RECORDED_CALLS_DROPPED), calls, "{jdk}");
        assert_eq!(records, profile.counter(counter::RECORDED_CALLS), "{jdk}");
    }
}

/// An instrumented method is compiled like an uninstrumented one: HotSpot refuses those whose monitors seem out of
/// order, and logs that here.
#[test]
fn methods_with_synchronized_blocks_are_compiled() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = format!("include=truth,logs={},port=off", folder.path().display());
        let finished = Java::new(jdk)
            .args(["-Xlog:monitormismatch=info", "-XX:+PrintCompilation"])
            .agent(&options)
            .main(classes(), TRUTH)
            .arg(folder.path().join("counts"))
            .arg(ROUNDS.to_string())
            .run();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
        let said = |what: &str| finished.stdout.lines().any(|line| line.contains(what));
        for method in ["block", "throwing", "catching", "nested"] {
            assert!(said(&format!("truth.Monitors::{method} ")), "{jdk}: {method} is not compiled");
        }
        // If the JVM is compiling a guard when its call site changes, it compiles the guard again.
        let is_skipped = |line: &str| line.contains("COMPILE SKIPPED") && line.contains(" truth.");
        assert!(
            !finished.stdout.lines().any(is_skipped) && !said("Monitor mismatch"),
            "{jdk}: {}",
            finished.stdout
        );
    }
}
