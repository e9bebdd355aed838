//! Waits for locks are counted exactly, and recorded with their stacks and who had the lock.

use std::path::Path;
use std::process::Command;

use log_format::rows::{LockKind, LockRow, counter};
use test_classes::{
    Finished, Java, Jdk, LockWait, Profile, artifacts, at_once, classes, ends_of_jdks, free_port,
    has_thread, jdks, jdks_by_turns, jdks_from, lock_waits, rows, tprofiler_json, tprofiler_text,
    wait_until,
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
    let options = format!("include=programs,port=off,logs={},parks=on,{options}", logs.display());
    // JDKs with biased locks stop all threads before the first wait for one, which is no wait for the monitor: some
    // milliseconds on a busy machine, for each waiter.
    let unbiased: &[&str] = if jdk.major < 15 { &["-XX:-UseBiasedLocking"] } else { &[] };
    let java = Java::new(jdk).args(unbiased).agent(&options);
    let java = java.main(classes(), "programs.Contended");
    let finished = java.args(arguments).run();
    finished.expect_quiet_success(jdk);
    let profile = Profile::only_run(logs);
    let [rounds, waiters] = [0, 1].map(|index| arguments[index].parse::<u64>().expect("a number"));
    let taken = rounds * (waiters + 1);
    let waits = lock_waits(&profile.folder);
    let sums = rows(&profile.folder);
    Ran { taken, finished, profile, waits, sums }
}

/// Locks by the names that the program prints: their kind, their class, and the method that waits.
const LOCKS: [(&str, LockKind, &str, &str); 7] = [
    ("shelf", LockKind::Monitor, "programs.Contended$Shelf", "programs.Contended$Shelf.reserve"),
    ("class", LockKind::Monitor, "programs.Contended.class", "programs.Contended.reserveClass"),
    ("array", LockKind::Monitor, "long[]", "programs.Contended.reserveArray"),
    (
        "lock",
        LockKind::Lock,
        "java.util.concurrent.locks.ReentrantLock$NonfairSync",
        "programs.Contended.reserveLock",
    ),
    (
        "permit",
        LockKind::Lock,
        "java.util.concurrent.Semaphore$NonfairSync",
        "programs.Contended.reservePermit",
    ),
    (
        "door",
        LockKind::Park,
        "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject",
        "programs.Contended.awaitDoor",
    ),
    (
        "latch",
        LockKind::Park,
        "java.util.concurrent.CountDownLatch$Sync",
        "programs.Contended.awaitLatch",
    ),
];

const PARK: &str = "java.util.concurrent.locks.LockSupport.park";

/// Compares what was recorded with what the program knows.
fn compare(jdk: &Jdk, ran: &Ran) {
    for (name, kind, class, method) in LOCKS {
        let start = format!("waits {name} ");
        let line = ran.finished.stdout.lines().find_map(|line| line.strip_prefix(&start));
        let words: Vec<&str> = line.expect("a line").split(' ').collect();
        let [count, ns, near] =
            [0, 1, 2].map(|index| words[index].parse::<u64>().expect("a number"));
        let ns = ns as f64;
        assert!(count > 4, "{jdk}: {name}: {count} waits");
        let (declaring, simple) = method.rsplit_once('.').expect("a method");
        let is_it = |wait: &&LockWait| {
            let innermost = wait.path.last().map_or("", String::as_str);
            (wait.kind, wait.class.as_str()) == (kind, class)
                && innermost.starts_with(&format!("{declaring} {simple} "))
        };
        let waits: Vec<&LockWait> = ran.waits.iter().filter(is_it).collect();
        // A thread that is woken may find that another one came before it, and parks again.
        let again = if kind == LockKind::Monitor { 0 } else { 1 + count / 50 };
        // The thread may lose its processor between its clock and the agent's.
        let range = count.saturating_sub(near)..=count + near + again;
        let found = waits.len() as u64;
        assert!(range.contains(&found), "{jdk}: {name}: {found}, not {range:?}");
        let recorded = waits.iter().map(|wait| wait.wait_ns).sum::<u64>() as f64;
        let near_ns = near as f64 * 20e6;
        // A lock of java.util.concurrent takes more than its parks: the queue, and a processor after each.
        let most = if kind == LockKind::Monitor { 0.02 } else { 0.06 };
        let differs = (recorded - ns).abs() > most * ns + near_ns;
        assert!(!differs, "{jdk}: {name}: {recorded} of {ns} ns, {near_ns} ns are uncertain");
        for LockWait { thread, frames, .. } in &waits {
            assert!(thread.starts_with("waiter-"), "{jdk}: {thread}");
            let last = if kind == LockKind::Monitor { method } else { PARK };
            assert_eq!(frames.last().map(String::as_str), Some(last), "{jdk}: {frames:?}");
            for caller in [method, "programs.Contended$Rounds.lambda$run$"] {
                assert!(frames.iter().any(|f| f.starts_with(caller)), "{jdk}: {frames:?}");
            }
        }
        // Shorter waits count too.
        let is_it = |sum: &&LockRow| {
            let of = ran.profile.methods.get(&sum.method);
            (sum.kind, sum.class.as_str()) == (kind, class)
                && of.is_some_and(|of| of.starts_with(&format!("{declaring} {simple} ")))
        };
        let sums: Vec<&LockRow> = ran.sums.iter().filter(is_it).collect();
        let [all, total_ns] = [|sum: &LockRow| sum.waits, |sum: &LockRow| sum.total_ns]
            .map(|of| sums.iter().map(|sum| of(sum)).sum::<u64>());
        // A thread may park again before it has the lock.
        let most = if kind == LockKind::Monitor { ran.taken } else { 4 * ran.taken };
        assert!((found..=most).contains(&all), "{jdk}: {name}: {all} of {found}");
        let shorter_ns = total_ns as f64 - recorded;
        // The length of a tick is measured again each second.
        let tolerance = recorded / 1e4;
        let most_ns = (all - found) as f64 * 5e6 + tolerance;
        assert!((-tolerance..most_ns).contains(&shorter_ns), "{jdk}: {name}: {shorter_ns}");
        assert!(sums.iter().all(|sum| sum.hist.count() == sum.waits), "{jdk}: {sums:?}");
        assert!(sums.iter().all(|s| s.max_ns >= s.total_ns / s.waits), "{jdk}: {sums:?}");
    }
    let all = ran.sums.iter().map(|sum| sum.waits).sum::<u64>();
    assert_eq!(ran.profile.counter(counter::LOCK_WAITS), all, "{jdk}");
    assert_eq!(ran.profile.counter(counter::LOCK_WAITS_DROPPED), 0, "{jdk}");
}

/// One in twenty may be unknown. Permits have no owner.
fn compare_owners(jdk: &Jdk, waits: &[LockWait]) {
    let has_owner = |wait: &&LockWait| match wait.kind {
        LockKind::Monitor => true,
        LockKind::Lock => wait.class.starts_with("java.util.concurrent.locks.Reentrant"),
        LockKind::Park => false,
    };
    let is_long = |wait: &&LockWait| wait.wait_ns >= 200_000_000;
    let long: Vec<&LockWait> = waits.iter().filter(has_owner).filter(is_long).collect();
    assert!(long.len() > 10, "{jdk}: {} waits", long.len());
    let right = long.iter().filter(|wait| wait.owner.as_deref() == Some("holder")).count();
    assert!(right * 20 >= long.len() * 19, "{jdk}: {right} of {}", long.len());
    let held: Vec<_> = long.iter().filter(|wait| wait.owner.as_deref() == Some("holder")).collect();
    for wait in held.iter().filter(|wait| !wait.owner_frames.is_empty()) {
        let holds = match wait.kind {
            LockKind::Monitor => "programs.Contended.holdMonitor",
            _ => "programs.Contended.holdLock",
        };
        assert!(wait.owner_frames.iter().any(|frame| frame.starts_with(holds)), "{jdk}: {wait:?}");
    }
    // It may have let go just then.
    let with_stack = held.iter().filter(|wait| !wait.owner_frames.is_empty()).count();
    assert!(with_stack * 10 >= held.len() * 9, "{jdk}: {with_stack} of {}", held.len());
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
        // Some have a sample before their first wait, and a name all the same.
        let options = "lock=5ms,cpu=100us,sampler_cap=off";
        let ran = run(jdk, logs.path(), options, &["4", "4", "250", "virtual"]);
        compare(jdk, &ran);
        compare_owners(jdk, &ran.waits);
    }
}

/// With many waits at once, the JVM is asked for few owners; all waits count.
/// Before JDK 22, `parkNanos` of a virtual thread may wait for a lock of the scheduler's: a wait within the park.
#[test]
fn parks_of_virtual_threads_are_all_counted() {
    const THREADS: u64 = 400;
    const NAPS: u64 = 200;
    for jdk in jdks_from(21) {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options =
            format!("include=virtual,port=off,logs={},sampler_cap=off", logs.path().display());
        let many = ["parallelism=64", "maxPoolSize=256"]
            .map(|option| format!("-Djdk.virtualThreadScheduler.{option}"));
        let java = Java::new(jdk).args(&many).agent(&options).main(classes(), "virtual.Naps");
        let finished = java.args(&[THREADS.to_string(), NAPS.to_string()]).run();
        finished.expect_quiet_success(jdk);
        let profile = Profile::only_run(logs.path());
        let nap = "virtual.Naps nap ()V";
        let naps = profile.counts[nap].calls;
        assert_eq!(naps, THREADS * NAPS, "{jdk}");
        let sums: Vec<LockRow> = rows(&profile.folder);
        let parks = sums.iter().filter(|row| {
            row.kind == LockKind::Park && profile.methods.get(&row.method).is_some_and(|m| m == nap)
        });
        let lost = profile.counter(counter::LOCK_WAITS_LOST);
        let parks: u64 = parks.map(|row| row.waits).sum();
        assert_eq!(parks + lost, naps, "{jdk}");
        assert_eq!(lost, 0, "{jdk}");
    }
}

#[test]
fn many_waits_are_all_counted() {
    for jdk in jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let ran = run(jdk, logs.path(), "lock=5ms,wall=off", &["5", "40", "100"]);
        compare(jdk, &ran);
    }
}

/// Where waits cost more than the cap, they are counted part of the time, and `status` says so.
#[test]
fn very_many_waits_keep_to_the_cap() {
    for jdk in jdks_by_turns() {
        for (cap, is_over) in [("0.1%", true), ("off", false)] {
            let logs = tempfile::tempdir().expect("a temporary folder");
            let path = logs.path().display();
            let options = format!("include=programs,port=off,logs={path},sampler_cap={cap}");
            let java = Java::new(jdk).agent(&options).main(classes(), "programs.TakingTurns");
            let finished = java.arg("6").run();
            finished.expect_quiet_success(jdk);
            let taken = finished.numbers()["taken"];
            let profile = Profile::only_run(logs.path());
            let skipped = profile.counter(counter::LOCK_SECONDS_SKIPPED);
            assert_eq!(skipped > 0, is_over, "{jdk}, {cap}: {skipped} s");
            let waits = profile.counter(counter::LOCK_WAITS);
            assert!(waits > 100, "{jdk}, {cap}: {waits} waits");
            // Each time, but for the first of the 16 pairs and when the program ends; joining threads is a lock, too.
            let is_all = waits.abs_diff(taken) <= 64;
            assert_eq!(is_all, !is_over, "{jdk}, {cap}: {waits} waits of {taken}");
            let sums: Vec<LockRow> = rows(&profile.folder);
            assert_eq!(sums.iter().map(|sum| sum.waits).sum::<u64>(), waits, "{jdk}, {cap}");
            let report =
                Command::new(&artifacts().analyze).arg("--notes").arg(logs.path()).output();
            let report = String::from_utf8(report.expect("it runs").stdout).expect("text");
            let is_said = report.contains("in which lock waits were not counted");
            assert_eq!(is_said, is_over, "{jdk}, {cap}: {report}");
        }
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

/// What live threads wait for is shown, and those that wait for each other are named. They still wait when the agent
/// goes and comes back.
#[test]
fn a_deadlock_is_named() {
    at_once(jdks(), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = format!("include=programs,port={port},logs={}", logs.path().display());
        let attaches =
            if jdk.major >= 21 { vec!["-XX:+EnableDynamicAgentLoading"] } else { vec![] };
        let java = Java::new(jdk).args(attaches).agent(&options);
        let mut program = java.main(classes(), "programs.Deadlock").talk();
        program.ask("lock");
        let circles = || {
            let threads = tprofiler_json(port, &["threads"]);
            threads["deadlocks"].as_array().map_or(0, Vec::len)
        };
        wait_until("the deadlock is found", || circles() == 1);
        let text = tprofiler_text(&["--addr", &format!("127.0.0.1:{port}"), "threads"]);
        let named = ["left waits for right waits for left", "right waits for left waits for right"];
        assert!(named.iter().any(|named| text.contains(named)), "{jdk}: {text}");
        assert!(text.contains("blocked on programs.Deadlock$Side for "), "{jdk}: {text}");
        assert!(text.contains("held by left"), "{jdk}: {text}");
        // Calls in progress say it too.
        let text = tprofiler_text(&["--addr", &format!("127.0.0.1:{port}"), "inflight", "0"]);
        assert!(named.iter().any(|named| text.contains(named)), "{jdk}: {text}");
        assert!(text.contains("waits: blocked on programs.Deadlock$Side for "), "{jdk}: {text}");
        let calls = tprofiler_json(port, &["inflight", "0"]);
        let owner = |thread: &serde_json::Value| thread["blocked_on"]["owner"] == "left";
        let threads = calls["threads"].as_array().expect("threads");
        assert!(threads.iter().any(owner), "{jdk}: {calls}");
        // Waits that have not ended are in no row, and leave nothing behind.
        let pid = program.program.pid().to_string();
        tprofiler_text(&["detach", &pid]);
        tprofiler_text(&["attach", &pid, &options]);
        wait_until("the agent is back", || circles() == 0);
        program.ask("contend");
        program.end().expect_quiet_success(jdk);
        let runs = Profile::runs(logs.path());
        let is_monitor = |wait: &LockWait| wait.kind == LockKind::Monitor;
        let waits = runs.iter().flat_map(|run| lock_waits(run));
        let waits: Vec<LockWait> = waits.filter(is_monitor).collect();
        assert_eq!(waits.len(), 1, "{jdk}: {waits:?}");
        assert_eq!(waits[0].class, "programs.Deadlock", "{jdk}");
    });
}

#[test]
fn a_call_in_progress_in_a_virtual_thread_has_the_lock_that_it_waits_for() {
    for jdk in jdks_from(21) {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options =
            format!("include=programs,leaves=keep,port={port},logs={}", logs.path().display());
        let java = Java::new(jdk).agent(&options);
        let mut program = java.main(classes(), "programs.Deadlock").talk();
        program.ask("lock");
        program.ask("virtual");
        let waits = || {
            let calls = tprofiler_json(port, &["inflight", "0"]);
            let threads = calls["threads"].as_array().cloned().unwrap_or_default();
            let mut waiting = threads.into_iter().filter(|thread| thread["virtual"] == true);
            waiting.find(|thread| thread["calls"][1]["method"] == "takeTaken")
        };
        wait_until("its owner is known", || {
            waits().is_some_and(|thread| thread["blocked_on"]["owner"] == "left")
        });
        let blocked_on = &waits().expect("a thread")["blocked_on"];
        assert_eq!(blocked_on["class"], "programs.Deadlock$Side", "{jdk}: {blocked_on}");
        assert!(blocked_on["waited_ns"].as_u64() > Some(1_000_000), "{jdk}: {blocked_on}");
        let text = tprofiler_text(&["--addr", &format!("127.0.0.1:{port}"), "inflight", "0"]);
        let of_virtual = text.split("\nthread: ").find(|thread| thread.contains("takeTaken"));
        let waits = "waits: blocked on programs.Deadlock$Side for ";
        assert!(of_virtual.is_some_and(|thread| thread.contains(waits)), "{jdk}: {text}");
        program.end();
    }
}

/// While very many waits are not counted, a deadlock is still one, and the log knows how long that was, to its end.
#[test]
fn a_deadlock_outlives_a_pause() {
    at_once(ends_of_jdks(), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let path = logs.path().display();
        let options = format!("include=programs,port={port},sampler_cap=0.1%,logs={path}");
        let java = Java::new(jdk).agent(&options);
        let mut program = java.main(classes(), "programs.Deadlock").talk();
        let circles = || {
            let threads = tprofiler_json(port, &["threads"]);
            threads["deadlocks"].as_array().map_or(0, Vec::len)
        };
        let skipped = || tprofiler_json(port, &["status"])["lock_seconds_skipped"].as_u64();
        program.ask("lock");
        wait_until("the deadlock is found", || circles() == 1);
        assert_eq!(skipped(), Some(0), "{jdk}");
        program.ask("swap");
        wait_until("seconds are skipped", || skipped() > Some(0));
        assert_eq!(circles(), 1, "{jdk}");
        wait_until("waits were counted again", || skipped() > Some(3));
        assert_eq!(circles(), 1, "{jdk}");
        // A queue's parks are no waits for locks.
        let status = tprofiler_json(port, &["status"]);
        let [waits, parks] =
            ["lock_waits", "other_parks"].map(|name| status[name].as_u64().expect("a number"));
        assert!(parks > 100 && (parks..parks + 10).contains(&waits), "{jdk}: {status}");
        let before = skipped().expect("a number");
        program.end().expect_quiet_success(jdk);
        let reported = Profile::only_run(logs.path()).counter(counter::LOCK_SECONDS_SKIPPED);
        assert!(reported >= before, "{jdk}: {reported} of {before} s");
    });
}

/// Where the walker of stacks is off, as on arm64, the JVM says where a thread waits.
#[test]
fn waits_have_stacks_without_the_walker() {
    for jdk in ends_of_jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options =
            format!("include=programs,port=off,logs={},debug=fails:walker", logs.path().display());
        let java = Java::new(jdk).agent(&options).main(classes(), "programs.Contended");
        let finished = java.args(["20", "2", "20"]).run();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
        let lines: Vec<&str> = finished.stderr.lines().collect();
        let is_reported = |line: &&str| line.ends_with(": samples have no Java stacks");
        assert!(lines.len() == 1 && lines.iter().all(is_reported), "{jdk}: {lines:?}");
        let waits = lock_waits(&Profile::only_run(logs.path()).folder);
        let [_, _, (_, kind, class, method), ..] = LOCKS;
        let is_array = |wait: &&LockWait| (wait.kind, &*wait.class) == (kind, class);
        let of_array: Vec<_> = waits.iter().filter(is_array).collect();
        assert!(!of_array.is_empty(), "{jdk}: {waits:?}");
        for wait in of_array {
            assert_eq!(wait.frames.last().map(String::as_str), Some(method), "{jdk}: {wait:?}");
            assert!(wait.frames[0].contains("Thread.run"), "{jdk}: {wait:?}");
        }
    }
}

/// HotSpot names the monitor for which a platform thread waits only to agents that came with it.
#[test]
fn an_agent_that_was_attached_knows_owners() {
    for jdk in ends_of_jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let java = Java::new(jdk).main(classes(), "programs.Contended");
        let running = java.args(["40", "2", "250"]).start();
        wait_until("it waits", || has_thread(running.pid(), "waiter-0"));
        let options = format!("include=programs,port=off,lock=5ms,logs={}", logs.path().display());
        tprofiler_text(&["attach", &running.pid().to_string(), &options]);
        std::thread::sleep(std::time::Duration::from_secs(4));
        tprofiler_text(&["detach", &running.pid().to_string()]);
        let waits = lock_waits(&Profile::only_run(logs.path()).folder);
        let is_long =
            |wait: &&LockWait| wait.kind == LockKind::Monitor && wait.wait_ns >= 200_000_000;
        let long: Vec<&LockWait> = waits.iter().filter(is_long).collect();
        let known = long.iter().filter(|wait| wait.owner.as_deref() == Some("holder")).count();
        assert!(long.len() > 5 && known * 10 >= long.len() * 9, "{jdk}: {known} of {long:?}");
        running.signal("KILL");
        running.wait();
    }
}
