//! Looks at threads say where they wait and how, and stop no thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use log_format::rows::counter;
use test_classes::{
    Finished, Java, Jdk, Profile, Sampled, classes, ends_of_jdks, free_port, jdks, jdks_from,
    off_cpu, samples, sources, tprofiler_json, wait_until,
};

/// A run of the program: what it printed, what was counted, and its samples.
struct Ran {
    finished: Finished,
    profile: Profile,
    waits: Vec<Sampled>,
    runs: Vec<Sampled>,
    sources: BTreeMap<String, String>,
}

fn run(jdk: &Jdk, arguments: &[&str]) -> Ran {
    let logs = tempfile::tempdir().expect("a temporary folder");
    let options =
        format!("include=programs,port=off,logs={},cpu=10ms,wall=100ms", logs.path().display());
    let java = Java::new(jdk).arg("-Xss256k").agent(&options).main(classes(), "programs.Waiting");
    let finished = java.args(arguments).run();
    finished.expect_quiet_success(jdk);
    let profile = Profile::only_run(logs.path());
    let (waits, runs) = (off_cpu(&profile.folder), samples(&profile.folder));
    let sources = sources(&profile.folder);
    Ran { finished, profile, waits, runs, sources }
}

fn sum<'s>(samples: impl Iterator<Item = &'s Sampled>) -> f64 {
    samples.map(|sample| sample.weight_ns).sum::<u64>() as f64
}

/// Eight threads wait in eight ways.
#[test]
fn each_way_to_wait_has_its_state_and_its_stack() {
    let expected = [
        ("sleeps", "sleeping", "programs.Waiting.sleeps"),
        ("holds", "sleeping", "programs.Waiting.holds"),
        ("blocks", "blocked", "programs.Waiting.blocks"),
        ("waits", "waiting", "programs.Waiting.waits"),
        ("waits-briefly", "timed_waiting", "programs.Waiting.waitsBriefly"),
        ("takes", "parked", "programs.Waiting.takes"),
        ("reads", "native", "programs.Waiting.reads"),
        ("works", "sleeping", "programs.Waiting.works"),
    ];
    for jdk in jdks() {
        let Ran { finished, profile, waits, runs, sources } = run(jdk, &["8000"]);
        assert_eq!(sources["programs.Waiting"], "Waiting.java", "{jdk}");
        let lived: BTreeMap<&str, f64> = finished
            .stdout
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(name, ns)| (name, ns.parse().expect("nanoseconds")))
            .collect();
        for (name, state, method) in expected {
            let of = |s: &&Sampled| s.thread == name;
            let (all, ran) = (sum(waits.iter().filter(of)), sum(runs.iter().filter(of)));
            let lived = lived[name];
            // CPU time comes in steps of 10 ms, and a thread may end between two looks.
            assert!(
                (lived - 0.3e9..lived + 0.2e9).contains(&(all + ran)),
                "{jdk}: {name} lived {lived} ns, waited {all} and ran {ran}"
            );
            let right = |s: &&Sampled| {
                s.thread == name && s.state == state && s.frames.iter().any(|frame| frame == method)
            };
            let right = sum(waits.iter().filter(right));
            // On a busy machine, threads wait for a processor too.
            let ready = sum(waits.iter().filter(of).filter(|s| s.state == "runnable"));
            assert!(
                right >= 0.9 * (all - ready),
                "{jdk}: {name} {state} in {method}: {right} of {all}, {ready} for a processor"
            );
        }
        let missing: Vec<_> =
            waits.iter().filter(|s| s.is_truncated() || s.lacks_stack()).collect();
        let missing_ns = sum(missing.iter().copied());
        assert!(missing_ns <= 0.01 * sum(waits.iter()), "{jdk}: {missing:?}");
        assert!(profile.counter(counter::OFF_CPU_LOOKS) > 100, "{jdk}");
    }
}

/// However many threads there are, looks take little of a processor, and the sum of the times stays right.
#[test]
fn thousands_of_threads_are_looked_at_in_turn() {
    let jdk = jdks().first().expect("a JDK");
    let Ran { finished, waits, .. } = run(jdk, &["20000", "5000"]);
    let idle = |s: &&Sampled| s.thread.starts_with("idle-");
    let lived: f64 = finished
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("idle "))
        .and_then(|ns| ns.parse().ok())
        .expect("how long the threads lived");
    let of_one = sum(waits.iter().filter(idle)) / 5_000.0;
    println!("a thread waited {of_one} ns of {lived}");
    assert!((0.95 * lived..1.05 * lived).contains(&of_one), "{of_one} of {lived}");
    // Rows last up to a minute, so there is about one for each thread.
    assert!(waits.len() < 20_000, "{} rows", waits.len());
}

/// Between two looks, a minute apart.
#[test]
fn what_threads_do_is_what_they_do_now() {
    const NEXT_LOOK: Duration = Duration::from_secs(60);
    for jdk in jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let path = logs.path().display();
        let options = format!("include=programs,port={port},logs={path},wall=1m");
        let mut program = Java::new(jdk).agent(&options).main(classes(), "programs.Phases").talk();
        assert_eq!(program.ask("wait"), "ready");
        let main_is = |expected: &str| {
            let threads = tprofiler_json(port, &["threads"]);
            let all = threads["threads"].as_array().expect("threads").iter();
            all.filter(|one| one["name"] == "main").any(|main| main["state"] == expected)
        };
        wait_until("main is known", || main_is("native"));
        let begun = Instant::now();
        let was_seen = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !was_seen.load(Ordering::Relaxed) {
                    program.ask("calls 1000000");
                }
            });
            wait_until("main runs", || main_is("running"));
            was_seen.store(true, Ordering::Relaxed);
        });
        wait_until("main reads", || main_is("native"));
        assert!(begun.elapsed() < NEXT_LOOK, "{jdk}: {:?}", begun.elapsed());
        program.end().expect_quiet_success(jdk);
    }
}

/// The JVM says of each carrier that it waits for its virtual thread; these wait for a processor.
#[test]
fn carriers_wait_for_a_processor() {
    for jdk in jdks_from(21) {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options = format!("include=virtual,port=off,logs={}", logs.path().display());
        let java = Java::new(jdk).arg("-Djdk.virtualThreadScheduler.parallelism=8");
        let java = java.agent(&options).main(classes(), "virtual.Burning");
        java.args(["8", "5"]).run().expect_quiet_success(jdk);
        let waits = off_cpu(&Profile::only_run(logs.path()).folder);
        let of_carriers = |state: &str| {
            let is_it = |wait: &&Sampled| wait.thread.starts_with("ForkJoinPool-1");
            sum(waits.iter().filter(is_it).filter(|wait| wait.state == state))
        };
        let [runnable, waiting] = ["runnable", "waiting"].map(of_carriers);
        println!("{jdk}: {runnable} ns runnable, {waiting} waiting");
        // With two processors, three quarters of 40 s.
        assert!(runnable > 10.0 * waiting.max(1e8), "{jdk}: {runnable} and {waiting}");
    }
}

/// A wait that goes on is in the log a minute later, or when the log is flushed.
#[test]
fn a_flush_writes_waits_in_progress() {
    for jdk in ends_of_jdks() {
        let (logs, port) = (tempfile::tempdir().expect("a temporary folder"), free_port());
        let options = format!("include=programs,port={port},logs={}", logs.path().display());
        let java = Java::new(jdk).agent(&options).main(classes(), "programs.Endpoints");
        let mut dialogue = java.talk();
        dialogue.ask("hang");
        let began = Instant::now();
        std::thread::sleep(Duration::from_secs(3));
        tprofiler_json(port, &["flush"]);
        let hung = began.elapsed().as_secs_f64() * 1e9;
        let run = Profile::runs(logs.path()).remove(0);
        let waits = off_cpu(&run);
        let is_there = |s: &&Sampled| s.thread == "hanging" && s.state == "parked";
        let waited = sum(waits.iter().filter(is_there));
        assert!((0.8 * hung..1.1 * hung).contains(&waited), "{jdk}: {waited} of {hung}");
        // What follows adds up with it.
        std::thread::sleep(Duration::from_secs(3));
        dialogue.ask("release");
        let hung = began.elapsed().as_secs_f64() * 1e9;
        dialogue.end().expect_quiet_success(jdk);
        let waited = sum(off_cpu(&run).iter().filter(is_there));
        assert!((0.8 * hung..1.1 * hung).contains(&waited), "{jdk}: {waited} of {hung}");
    }
}
