//! A suspended machine: CLOCK_MONOTONIC stands still or jumps while the processor's counter runs on. Later calls have
//! their true times, and the jump is counted.

use std::fs;
use std::ops::RangeBounds;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use log_format::rows::counter;
use log_format::run::Run;
use serde_json::Value;
use test_classes::{
    Control, Dialogue, Java, Jdk, Profile, Record, artifacts, classes, free_port, jdks, set_clock,
    skipped, tprofiler_json, wait_until,
};

const TENTH: &str = "programs.Jumps tenth ()V";
const HOLD: &str = "programs.Jumps hold (Ljava/lang/String;J)V";
/// How long the clock is held, in seconds.
const HELD_S: u64 = 2;

/// `programs.Jumps` under the agent, with clocks that it can set.
struct Program {
    folder: tempfile::TempDir,
    port: u16,
    java: Dialogue,
}

impl Program {
    fn start(jdk: &Jdk, options: &str) -> Self {
        // Shown if the test fails.
        println!("{jdk} {options}");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clock = folder.path().join("clock");
        fs::write(&clock, [0; 24]).expect("a clock");
        let port = free_port();
        let logs = folder.path().join("logs");
        let options = format!(
            "include=programs,threshold=10ms,logs={},port={port},{options}",
            logs.display()
        );
        let mut java = Java::new(jdk)
            .variable("LD_PRELOAD", set_clock())
            .variable("SET_CLOCK", &clock)
            .agent(&options)
            .main(classes(), "programs.Jumps")
            .arg(&clock)
            .talk();
        assert_eq!(java.ask("wait"), "ready");
        Self { folder, port, java }
    }

    fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }

    /// Makes calls of a tenth of a second; returns the duration of one by the program's clock, in nanoseconds.
    fn calls(&mut self, count: u64) -> u64 {
        let nanos: u64 = self.java.ask(&format!("calls {count}")).parse().expect("a number");
        nanos / count
    }

    /// Holds CLOCK_MONOTONIC; returns the time of day at which that began, in nanoseconds.
    fn hold(&mut self) -> u64 {
        let began: u64 = self.java.ask(&format!("hold {HELD_S}")).parse().expect("a number");
        assert_eq!(self.java.hear(), "held");
        began * 1_000_000
    }

    fn flush(&self) {
        tprofiler_json(self.port, &["flush"]);
    }

    fn status(&self) -> Value {
        tprofiler_json(self.port, &["status"])
    }

    /// Ends it. Returns its stderr and its log.
    fn end(self, what: &Jdk) -> (String, Profile) {
        let logs = self.logs();
        let finished = self.java.end();
        assert_eq!(finished.status, Some(0), "{what}: {}", finished.stderr);
        (finished.stderr, Profile::only_run(&logs))
    }
}

/// Within 5% of the truth.
fn assert_close(found: u64, truth: u64, what: &str) {
    assert!(found.abs_diff(truth) <= truth / 20, "{what}: {found} ns, truth {truth} ns");
}

/// The average duration of the 100 ms calls in the intervals that began in a range.
fn mean(profile: &Profile, began_ns: impl RangeBounds<u64>) -> u64 {
    let of_tenth = profile.intervals.iter().filter(|(name, _)| name == TENTH);
    let rows = of_tenth.filter(|(_, row)| began_ns.contains(&row.start_ns));
    let sum = rows.fold((0, 0), |sum, (_, row)| (sum.0 + row.total_ns, sum.1 + row.calls));
    sum.0 / sum.1
}

fn records<'p>(profile: &'p Profile, method: &str) -> Vec<&'p Record> {
    profile.records.iter().filter(|record| record.method == method).collect()
}

/// The median of the 100 ms calls. They took at least that long.
fn expect_true_median(profile: &Profile, slowest_mean: u64, what: &Jdk) {
    let mut all: Vec<u64> = records(profile, TENTH).iter().map(|call| call.total_ns).collect();
    all.sort_unstable();
    let median = all[all.len() / 2];
    assert!((95_000_000..=slowest_mean * 11 / 10).contains(&median), "{what}: {median} ns");
}

/// The durations of 100 ms calls by the program's clock, before the clock was set and afterwards, and the start of
/// the later ones.
struct Truth {
    before: u64,
    after: u64,
    after_from: u64,
}

/// Asserts that all times are true, except in the seconds around a jump.
fn expect_true_times(profile: &Profile, truth: &Truth, set_at: u64, what: &Jdk) {
    let Truth { before, after, after_from } = *truth;
    let (found_before, found_after) = (mean(profile, ..set_at), mean(profile, after_from..));
    println!("{what}: {found_before} ns for {before}, and {found_after} ns for {after}");
    assert_close(found_before, before, &format!("{what}: before the jump"));
    assert_close(found_after, after, &format!("{what}: after the jump"));
    expect_true_median(profile, before.max(after), what);
}

#[test]
fn a_suspended_machine_leaves_later_times_true() {
    for jdk in jdks() {
        let mut program = Program::start(jdk, "");
        let before = program.calls(10);
        let set_at = now_ns();
        program.flush();
        let held = program.hold();
        // The agent compares its clocks each second.
        program.calls(15);
        let after_from = now_ns();
        program.flush();
        let truth = Truth { before, after: program.calls(10), after_from };
        let status = program.status();
        let jumps = u64::from(status["clock"] == "tsc");
        let (stderr, profile) = program.end(jdk);
        expect_true_times(&profile, &truth, set_at, jdk);
        assert_eq!(status["clock_jumps"], jumps, "{jdk}: {status}");
        assert_eq!(profile.counter(counter::CLOCK_JUMPS), jumps, "{jdk}");
        let reported = stderr.lines().filter(|line| line.contains("clock jumped")).count();
        assert_eq!(reported as u64, jumps, "{jdk}: {stderr}");
        if jumps == 0 {
            continue;
        }
        // The call during the jump has its true start, and its duration by the counter.
        let [call] = records(&profile, HOLD)[..] else { panic!("{jdk}: one call") };
        assert!(call.start_ns.abs_diff(held) < 500_000_000, "{jdk}: {call:?} {held}");
        assert!(call.total_ns >= HELD_S * 900_000_000, "{jdk}: {call:?}");
        let latest = profile.records.iter().map(|record| record.start_ns).max();
        assert!(latest.is_some_and(|start_ns| start_ns <= now_ns()), "{jdk}: {latest:?}");
    }
}

fn now_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time");
    u64::try_from(now.as_nanos()).expect("not that late")
}

#[test]
fn a_clock_that_jumps_ahead_leaves_later_times_true() {
    for jdk in jdks() {
        let mut program = Program::start(jdk, "");
        if program.status()["clock"] != "tsc" {
            continue;
        }
        let before = program.calls(10);
        let set_at = now_ns();
        program.flush();
        // The agent's waits take that much longer from then on, because the kernel's clock does not jump.
        assert_eq!(program.java.ask("ahead 1500000000"), "ahead");
        wait_until("a jump", || program.status()["clock_jumps"] == 1);
        let after_from = now_ns();
        program.flush();
        let truth = Truth { before, after: program.calls(10), after_from };
        let (_, profile) = program.end(jdk);
        expect_true_times(&profile, &truth, set_at, jdk);
        assert_eq!(profile.counter(counter::CLOCK_JUMPS), 1, "{jdk}");
    }
}

#[test]
fn the_monotonic_clock_can_be_chosen_and_does_not_jump() {
    for jdk in jdks() {
        let mut program = Program::start(jdk, "clock=monotonic");
        let before = program.calls(10);
        program.hold();
        let after = program.calls(10);
        let status = program.status();
        let run = Run::read(&Profile::runs(&program.logs())[0]).expect("a run");
        let (stderr, profile) = program.end(jdk);
        assert_eq!((&status["clock"], &status["clock_jumps"]), (&"monotonic".into(), &0.into()));
        assert_eq!((&*run.clock, &*run.options["clock"]), ("monotonic", "monotonic"), "{jdk}");
        assert_eq!(stderr, "", "{jdk}");
        assert_close(mean(&profile, ..), before.midpoint(after), &jdk.to_string());
        // By this clock, the call that held it took only as long as writing a file.
        for call in records(&profile, HOLD) {
            assert!(call.total_ns < HELD_S * 500_000_000, "{jdk}: {call:?}");
        }
    }
}

/// The clock is chosen at each attachment.
#[test]
fn another_attachment_may_have_another_clock() {
    for jdk in jdks() {
        println!("{jdk}");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut program = Java::new(jdk).main(classes(), "programs.Jumps").talk();
        assert_eq!(program.ask("wait"), "ready");
        let pid = program.program.pid().to_string();
        let tprofiler = |arguments: &[&str]| {
            let output = Command::new(&artifacts().tprofiler).args(arguments).output();
            let output = output.expect("tprofiler runs");
            assert!(output.status.success(), "{jdk}: {arguments:?}: {output:?}");
        };
        for (run, clock) in ["auto", "monotonic", "auto"].into_iter().enumerate() {
            let port = free_port();
            let logs = folder.path().join(run.to_string());
            let options = format!(
                "include=programs,overhead=off,threshold=0,port={port},clock={clock},logs={}",
                logs.display()
            );
            // The class has a running loop.
            tprofiler(&["attach", &pid, &options, "--even-running"]);
            let source = tprofiler_json(port, &["status"])["clock"].clone();
            assert!(clock == "auto" || source == "monotonic", "{jdk}: {clock}: {source}");
            let truth: u64 = program.ask("calls 10").parse().expect("a number");
            tprofiler(&["detach", &pid]);
            let profile = Profile::only_run(&logs);
            assert_eq!(profile.counts[TENTH].calls, 10, "{jdk}: {clock}");
            assert_close(profile.times[TENTH].0, truth, &format!("{jdk}: {clock}"));
        }
        assert_eq!(program.end().status, Some(0), "{jdk}");
    }
}

/// A process that keeps a processor busy until dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        Self(command.spawn().expect("a shell"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "full lane: it keeps all processors busy for a minute"]
fn no_jump_is_counted_in_a_minute_under_load() {
    let jdk = jdks().last().expect("a JDK");
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let busy: Vec<Busy> = (0..2 * processors).map(|_| Busy::start()).collect();
    let mut program = Program::start(jdk, "");
    let began = Instant::now();
    while began.elapsed() < Duration::from_mins(1) {
        program.calls(20);
    }
    let status = program.status();
    drop(busy);
    assert_eq!(status["clock_jumps"], 0, "{status}");
    let (stderr, profile) = program.end(jdk);
    assert_eq!((stderr.as_str(), profile.counter(counter::CLOCK_JUMPS)), ("", 0));
}

/// The kernel finds out while the JVM runs that the counter is unreliable.
#[test]
fn a_counter_that_the_kernel_drops_is_reported_once() {
    let sources = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let jdk = jdks().last().expect("a JDK");
    let (folder, port) = (tempfile::tempdir().expect("a temporary folder"), free_port());
    let current = folder.path().join("current");
    fs::write(&current, "tsc\n").expect("a file");
    let mount = format!("mount --bind '{}' {sources}", current.display());
    let logs = folder.path().join("logs");
    let options = format!("include=programs,port={port},logs={}", logs.display());
    let java = Java::with_mounts(jdk, &mount).agent(&options);
    let mut program = java.main(classes(), "programs.Phases").talk();
    assert_eq!(program.ask("wait"), "ready");
    let mut control = Control::connect(port);
    if control.ask("status")["clock"] != "tsc" {
        program.end().expect_quiet_success(jdk);
        return skipped("the processor's counter is not the clock here");
    }
    // Each flush renews the clock, as each second does.
    let mut renew = || {
        for _ in 0..100 {
            control.ask("flush");
        }
    };
    renew();
    fs::write(&current, "hpet\n").expect("a file");
    renew();
    renew();
    let finished = program.end();
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    let reported = finished.stderr.matches("the kernel no longer trusts").count();
    assert_eq!(reported, 1, "{}", finished.stderr);
}
