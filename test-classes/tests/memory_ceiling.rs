//! The ceiling of the agent's memory: the service gets as many threads as without the agent, calls beyond
//! `max_memory` are counted as lost, and all figures are exact.

use std::fs;
use std::process::Command;

use log_format::rows::counter;
use serde_json::Value;
use test_classes::{
    Control, Dialogue, Java, Jdk, Profile, classes, ends_of_jdks, free_port, jdks, jdks_by_turns,
    jdks_from, tprofiler, tprofiler_json, wait_until,
};

const MB: u64 = 1 << 20;

/// Kilobytes of anonymous memory.
fn anonymous_kb(program: &Dialogue) -> u64 {
    let path = format!("/proc/{}/status", program.program.pid());
    let status = fs::read_to_string(path).expect("a process");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

/// Bytes in use and the ceiling.
fn memory(status: &Value) -> (u64, u64) {
    let of = |key: &str| status[key].as_u64().expect("a number");
    (of("memory_bytes"), of("max_memory_bytes"))
}

/// The agent's message on stderr when it has no more memory.
const MESSAGE: &str = "no more memory for profiling";

#[test]
fn a_service_gets_its_threads_under_a_limit_of_address_space() {
    const THREADS: u64 = 5_000;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let limited = |jdk: &Jdk| Java::with_address_space(jdk, 12 << 30).arg("-Xmx256m");
    for jdk in ends_of_jdks() {
        let threads = THREADS.to_string();
        let run = |java: Java| java.main(classes(), "programs.Throng").args([&*threads, "1"]).run();
        let logs = folder.path().join(jdk.major.to_string());
        let options =
            format!("include=programs.Throng,max_memory=200m,port=off,logs={}", logs.display());
        let plain = run(limited(jdk));
        assert_eq!(plain.numbers()["threads"], THREADS, "{jdk}: the test needs more threads");
        let finished = run(limited(jdk).agent(&options));
        finished.expect_quiet_success(jdk);
        assert_eq!(finished.numbers(), plain.numbers(), "{jdk}");
        let profile = Profile::only_run(&logs);
        for (name, calls) in [("first (I)I", 1), ("second (I)I", 3), ("third ()I", 2)] {
            let counts = profile.counts[&format!("programs.Throng {name}")];
            assert_eq!(counts.calls, calls * THREADS, "{jdk}: {name}");
        }
        assert_eq!(profile.counter(counter::LOST_CALLS), 0, "{jdk}");
    }
}

/// The kernel refuses memory for most of the threads: their calls are lost, and the service goes on. JDK 11 itself ends
/// without memory; the others are interpreted here, because compilers end the JVM too.
#[test]
fn a_kernel_without_memory_costs_calls_and_nothing_else() {
    const THREADS: u64 = 2_000;
    let folder = tempfile::tempdir().expect("a temporary folder");
    for jdk in jdks_from(17) {
        let logs = folder.path().join(jdk.major.to_string());
        let options = format!("include=programs.Poised$Work,port=off,logs={}", logs.display());
        let java = Java::new(jdk).args(["-Xint", "-Xmx64m"]).agent(&options);
        let mut program = java.main(classes(), "programs.Poised").arg(THREADS.to_string()).talk();
        assert_eq!(program.hear(), "ready", "{jdk}");
        let pid = program.program.pid().to_string();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
        let line = status.lines().find(|line| line.starts_with("VmSize:")).expect("its size");
        let kb: u64 =
            line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number");
        let limit = format!("--as={}:unlimited", (kb << 10) + MB);
        let limited = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
        assert!(limited.is_ok_and(|status| status.success()), "prlimit of util-linux is needed");
        assert_eq!(program.ask("go"), format!("calls {}", 4 * THREADS), "{jdk}");
        let finished = program.end();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
        let profile = Profile::only_run(&logs);
        let lost = profile.counter(counter::LOST_CALLS);
        println!("{jdk}: {lost} calls lost");
        assert!(lost > 0, "{jdk}: the kernel has refused nothing");
        assert_eq!(calls_of(&profile, "programs.Poised$Work") + lost, 4 * THREADS, "{jdk}");
        assert_eq!(finished.stderr.matches(MESSAGE).count(), 1, "{jdk}");
    }
}

#[test]
fn threads_beyond_the_ceiling_are_counted_as_lost_and_later_ones_are_measured() {
    const THREADS: u64 = 1_000;
    let folder = tempfile::tempdir().expect("a temporary folder");
    for jdk in jdks() {
        let measured = ["1", "2"].map(|rounds| {
            let logs = folder.path().join(format!("{}-{rounds}", jdk.major));
            let options =
                format!("include=programs.Throng,max_memory=2m,port=off,logs={}", logs.display());
            let program = Java::new(jdk).agent(&options).main(classes(), "programs.Throng");
            let finished = program.args([&*THREADS.to_string(), rounds]).run();
            let rounds: u64 = rounds.parse().expect("a number");
            assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
            assert_eq!(finished.stderr.matches(MESSAGE).count(), 1, "{jdk}: {}", finished.stderr);
            assert_eq!(finished.numbers()["threads"], rounds * THREADS, "{jdk}");
            let profile = Profile::only_run(&logs);
            // A thread with data has all of its calls counted.
            let calls = |name: &str| profile.counts[&format!("programs.Throng {name}")].calls;
            let first = calls("first (I)I");
            assert_eq!((calls("second (I)I"), calls("third ()I")), (3 * first, 2 * first), "{jdk}");
            // Each thread's lambda, these three, and an `await` of its own and of `main`, which also calls `round`.
            let all = rounds * (9 * THREADS + 1) + 1;
            let lost = profile.counter(counter::LOST_CALLS);
            assert_eq!(calls_of(&profile, "programs.Throng") + lost, all, "{jdk}: {lost}");
            first
        });
        println!("{jdk}: of {THREADS} threads {} are measured", measured[0]);
        // When the first thousand have ended, there is memory for as many of the next.
        assert!((50..200).contains(&measured[0]), "{jdk}: {measured:?}");
        assert!(measured[1] > measured[0] + measured[0] / 2, "{jdk}: {measured:?}");
    }
}

#[test]
fn lost_calls_have_their_price_in_the_overhead() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for jdk in ends_of_jdks() {
        let (logs, port) = (folder.path().join(jdk.major.to_string()), free_port());
        // Samples and events come and go: with what they give back, the working thread would be measured after all.
        let options = format!(
            "include=programs.Crowded,max_memory=1m,overhead=2%,cpu=off,wall=off,lock=off,exceptions=off,\
             port={port},logs={}",
            logs.display()
        );
        let java = Java::new(jdk).agent(&options).main(classes(), "programs.Crowded").arg("100");
        let mut program = java.talk();
        assert_eq!(program.hear(), "ready", "{jdk}");
        let mut control = Control::connect(port);
        // That many calls take several of the budget's periods.
        wait_until("lost calls", || {
            let status = control.ask("status");
            let lost = status.get("calls lost").map(|lost| lost.parse::<u64>().expect("a number"));
            lost.is_some_and(|lost| lost > 40_000_000)
        });
        // The only working thread has no data: the budget counts its lost calls.
        let share = control.ask("status")["overhead estimated"].clone();
        println!("{jdk}: {share}");
        let percent: f64 = share.trim_end_matches('%').parse().expect("a number");
        assert!(percent > 20.0, "{jdk}: {share}");
        let finished = program.end();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
    }
}

/// The calls of all methods of a class.
fn calls_of(profile: &Profile, class: &str) -> u64 {
    let of_class = profile.counts.iter().filter(|(name, _)| name.starts_with(class));
    of_class.map(|(_, counts)| counts.calls).sum()
}

#[test]
fn a_hundred_thousand_parked_virtual_threads_stay_under_the_ceiling() {
    const THREADS: u64 = 100_000;
    const MAX: u64 = 4 * MB;
    let folder = tempfile::tempdir().expect("a temporary folder");
    // What the recorder keeps of recorded lock waits stays longer: more of it on a busy machine.
    let limits = |jdk| [(jdk, "off", MAX / 2), (jdk, "1ms", MAX / 4 * 3)];
    let cases = jdks_from(21).into_iter().flat_map(limits);
    for (jdk, lock, bound) in cases {
        let start = |start: &str, port: u16| {
            let logs = folder.path().join(format!("{}-{start}-{lock}", jdk.major));
            let options = format!(
                "include=virtual.Parked,threshold=10s,lock={lock},max_memory={MAX},start={start},port={port},logs={}",
                logs.display()
            );
            let heap = ["-Xms512m", "-Xmx512m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC"];
            let java = Java::new(jdk).args(heap).agent(&options).main(classes(), "virtual.Parked");
            let mut program = java.arg(THREADS.to_string()).talk();
            assert_eq!(program.ask("park"), "park", "{jdk}");
            (program, logs)
        };
        let port = free_port();
        let (plain, _) = start("off", port);
        let plain_kb = anonymous_kb(&plain);
        plain.end().expect_quiet_success(jdk);

        let port = free_port();
        let (mut program, logs) = start("on", port);
        let kb = anonymous_kb(&program);
        let status = tprofiler_json(port, &["status"]);
        let (used, max) = memory(&status);
        println!("{jdk}: {} kB more, {used} of {max} bytes", kb.saturating_sub(plain_kb));
        assert!(max == MAX && used <= MAX && used > MAX / 2, "{jdk}: {status:?}");
        let lost = status["calls_lost"].as_u64().expect("a number");
        assert!(lost > 0, "{jdk}: {status:?}");
        // The JVM's own memory differs by some megabytes between runs.
        assert!(kb < plain_kb + (MAX >> 10) + 32_768, "{jdk}: {kb} of {plain_kb} kB");
        assert_eq!(program.ask("wake"), "wake", "{jdk}");
        // The frames are gone, and so is their memory.
        wait_until("the memory is given back", || {
            memory(&tprofiler_json(port, &["status"])).0 < bound
        });
        let finished = program.end();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
        assert_eq!(finished.stderr.matches(MESSAGE).count(), 1, "{jdk}: {}", finished.stderr);

        let profile = Profile::only_run(&logs);
        let calls = |name: &str| {
            profile.counts.get(&format!("virtual.Parked {name}")).map_or(0, |counts| counts.calls)
        };
        // Calls that do not park are all counted; of those that park, the ones whose frames were kept.
        assert_eq!((calls("before ()V"), calls("after ()V")), (THREADS, 2 * THREADS), "{jdk}");
        let latch = "(Ljava/util/concurrent/CountDownLatch;)V";
        let parked = ["lambda$main$0", "outer", "middle", "inner"];
        let kept = parked.map(|name| calls(&format!("{name} {latch}")));
        assert!(kept.iter().all(|kept| *kept < THREADS && *kept > 1_000), "{jdk}: {kept:?}");
        let lost = profile.counter(counter::LOST_CALLS);
        assert_eq!(kept.iter().sum::<u64>() + lost, 4 * THREADS, "{jdk}: {kept:?} and {lost}");
        let main = 1;
        assert_eq!(calls_of(&profile, "virtual.Parked") + lost, 7 * THREADS + main, "{jdk}");
    }
}

#[test]
fn recursions_are_exact_while_others_read_their_stacks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for jdk in jdks_by_turns() {
        let (logs, port) = (folder.path().join(jdk.major.to_string()), free_port());
        let options = format!(
            "include=programs.Depths.recurse,threshold=10s,port={port},logs={}",
            logs.display()
        );
        let java = Java::new(jdk).agent(&options).main(classes(), "programs.Depths").arg("3");
        let mut program = java.talk();
        assert_eq!(program.hear(), "ready", "{jdk}");
        wait_until("control", || tprofiler(port, &["status"]).status.success());
        let mut control = Control::connect(port);
        let mut deepest = 0;
        for round in 0..300 {
            let answer = control.answer("inflight 0ns");
            deepest = deepest.max(answer.matches("Depths.recurse").count());
            if round % 8 == 0 {
                control.answer("flush");
            }
        }
        assert!(deepest > 16, "{jdk}: {deepest}");
        let calls = program.ask("over");
        program.end().expect_quiet_success(jdk);
        let profile = Profile::only_run(&logs);
        let recurse = profile.counts["programs.Depths recurse (I)I"];
        assert_eq!(calls, format!("calls {}", recurse.calls), "{jdk}");
        assert_eq!((recurse.throws, profile.counter(counter::LOST_CALLS)), (0, 0), "{jdk}");
    }
}
