//! Recording is switched on and off while threads make calls as fast as they can.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use log_format::rows::Exit;
use test_classes::{
    Control, Java, Jdk, Profile, classes, free_port, jdks, random, rounds, wait_until,
};

#[test]
fn random_switches_lose_and_invent_nothing() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, stop) = (folder.path().join("logs"), folder.path().join("stop"));
        let port = free_port();
        let options =
            format!("include=programs.Busy,threshold=50us,logs={},port={port}", logs.display());
        let begun = Instant::now();
        let program = Java::new(jdk)
            .agent(&options)
            .main(classes(), "programs.Busy")
            .arg("4")
            .arg(&stop)
            .start();
        let mut control = Control::connect(port);
        let mut state = 1;
        for _ in 0..rounds(300, 1_000) {
            // Repeated commands too.
            let command = if random(&mut state).is_multiple_of(2) { "start" } else { "stop" };
            let expected = if command == "start" { "on" } else { "off" };
            assert_eq!(control.ask(command)["profiling"], expected, "{jdk}");
            thread::sleep(Duration::from_micros(random(&mut state) % 2_000));
        }
        control.ask("start");
        let seen = control.calls_seen();
        fs::write(&stop, "").expect("a file");
        let finished = program.wait();
        let run = begun.elapsed();
        finished.expect_quiet_success(jdk);
        let truth = finished.numbers();
        assert_eq!(truth["threads"], 4, "{jdk}: a thread was lost");

        let profile = Profile::only_run(&logs);
        let all = count_all(jdk, &profile, &truth);
        assert!(all >= seen, "{jdk}: status said {seen}, the log says {all}");
        for record in &profile.records {
            assert!(Duration::from_nanos(record.total_ns) <= run, "{jdk}: {record:?}");
            assert!(record.self_ns <= record.total_ns, "{jdk}: {record:?}");
            assert_eq!(record.path.last(), Some(&record.method), "{jdk}: {record:?}");
        }
        assert!(
            profile.records.iter().any(|r| r.exit == Exit::Unfinished),
            "{jdk}: nothing was open at any stop"
        );
    }
}

/// The calls of all methods, each at most as many as the program made.
fn count_all(jdk: &Jdk, profile: &Profile, truth: &BTreeMap<&str, u64>) -> u64 {
    let mut all = 0;
    for (name, truth_name) in
        [("outer (I)V", "outer"), ("middle (I)V", "middle"), ("leaf (I)V", "leaf")]
    {
        let counts = profile
            .counts
            .get(&format!("programs.Busy$Worker {name}"))
            .copied()
            .unwrap_or_default();
        assert!(
            counts.calls <= truth[truth_name],
            "{jdk}: {name}: {} of {}",
            counts.calls,
            truth[truth_name]
        );
        assert!(counts.calls > 0, "{jdk}: {name} was never seen");
        if truth_name == "middle" {
            assert!(counts.throws <= truth["thrown"] && counts.throws > 0, "{jdk}: {name}");
        } else {
            assert_eq!(counts.throws, 0, "{jdk}: {name}");
        }
        all += counts.calls;
    }
    all
}

#[test]
fn a_compiled_loop_sees_a_switch_at_once() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, stop) = (folder.path().join("logs"), folder.path().join("stop"));
        let port = free_port();
        let options =
            format!("include=programs.Loop,logs={},port={port},start=off", logs.display());
        let program =
            Java::new(jdk).agent(&options).main(classes(), "programs.Loop").arg(&stop).start();
        let mut control = Control::connect(port);
        assert_eq!(control.ask("status")["profiling"], "off", "{jdk}");
        // Long enough for the loop to be compiled with the switch off.
        thread::sleep(Duration::from_secs(2));
        assert_eq!(control.calls_seen(), 0, "{jdk}");
        for round in 0..3 {
            let before = control.calls_seen();
            control.ask("start");
            wait_until("calls", || control.calls_seen() > before + 1000);
            control.ask("stop");
            let after = control.calls_seen();
            thread::sleep(Duration::from_millis(50));
            // One may have been in its probe, preempted.
            let later = control.calls_seen();
            assert!(later <= after + 1, "{jdk}: round {round}: {after}, then {later}");
            thread::sleep(Duration::from_millis(50));
            assert_eq!(control.calls_seen(), later, "{jdk}: round {round}: calls after the stop");
        }
        fs::write(&stop, "").expect("a file");
        program.wait().expect_quiet_success(jdk);
        assert_has_no_calls_of_main(&logs);
    }
}

/// While recording is off for long, newly compiled code contains no probes: compiled code is discarded at both
/// changes, and HotSpot does not count that against it.
#[test]
fn a_long_stop_takes_the_guard_out_and_a_start_puts_it_back() {
    thread::scope(|scope| {
        for jdk in jdks() {
            scope.spawn(move || stop_for_long(jdk));
        }
    });
}

fn stop_for_long(jdk: &Jdk) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let in_folder = |name: &str| folder.path().join(name);
    let (logs, stop, jit_log) = (in_folder("logs"), in_folder("stop"), in_folder("jit.log"));
    let compilations = in_folder("compilations.xml");
    let port = free_port();
    let options = format!("include=programs.Busy,logs={},port={port},start=off", logs.display());
    let program = Java::new(jdk)
        .agent(&options)
        .arg(format!("-Xlog:jit+compilation=debug:file={}", jit_log.display()))
        .args(["-XX:+UnlockDiagnosticVMOptions", "-XX:+LogCompilation"])
        .arg(format!("-XX:LogFile={}", compilations.display()))
        .main(classes(), "programs.Busy")
        .arg("2")
        .arg(&stop)
        .arg("4")
        .start();
    // Compilations that HotSpot began before and then abandoned cannot be told apart.
    let compiled = |before: &Compiled| Compiled::read(&jit_log).since(before);
    let mut control = Control::connect(port);
    assert_eq!(control.ask("status")["profiling"], "off", "{jdk}");
    let mut seen = 0;
    let mut before = Compiled::default();
    for _ in 0..2 {
        wait_until("compiled without probes", || !compiled(&before).live().is_empty());
        thread::sleep(Duration::from_millis(500));
        let without = compiled(&before).live();
        assert_eq!(control.calls_seen(), seen, "{jdk}: calls while it is off");
        let at_start = Compiled::read(&jit_log);
        control.ask("start");
        wait_until("what was compiled is gone", || compiled(&before).threw_away(&without));
        before = at_start;
        wait_until("calls", || control.calls_seen() > seen + 1000);
        wait_until("compiled with probes", || !compiled(&before).live().is_empty());
        thread::sleep(Duration::from_millis(500));
        let with = compiled(&before).live();
        // Ten seconds later. Repeated stops do not delay it.
        let mut at_stop = Compiled::default();
        wait_until("what was compiled with probes is gone", || {
            let now = Compiled::read(&jit_log);
            let is_gone = now.clone().since(&before).threw_away(&with);
            if !is_gone {
                at_stop = now;
                control.ask("stop");
            }
            is_gone
        });
        before = at_stop;
        seen = control.calls_seen();
    }
    fs::write(&stop, "").expect("a file");
    let finished = program.wait();
    finished.expect_quiet_success(jdk);
    let counts = Profile::only_run(&logs).counts;
    assert_eq!(counts.values().map(|of| of.calls).sum::<u64>(), seen, "{jdk}: {counts:?}");
    assert_eq!(finished.numbers()["threads"], 2, "{jdk}: a thread was lost");
    // Four changes until then: HotSpot discards it once or twice for its own reasons.
    let counts = leaf_decompilations(&compilations);
    assert!(counts.len() > 2, "{jdk}: {counts:?}");
    assert!(counts.iter().all(|count| *count < 3), "{jdk}: {counts:?}");
}

/// How often `leaf` had been discarded at each of its compilations.
fn leaf_decompilations(log: &Path) -> Vec<u32> {
    let text = fs::read_to_string(log).expect("a log");
    let leaf = text.lines().filter(|l| l.starts_with("<task ") && l.contains("Busy$Worker leaf "));
    let count = |line: &str| {
        let (_, count) = line.split_once("decompiles='")?;
        count.split('\'').next()?.parse::<u32>().ok()
    };
    leaf.map(|line| count(line).unwrap_or(0)).collect()
}

/// The program's workers that HotSpot's best compiler compiled, by compilation number, and those that were discarded.
#[derive(Clone, Debug, Default)]
struct Compiled {
    all: BTreeSet<u32>,
    gone: BTreeSet<u32>,
}

impl Compiled {
    fn read(jit_log: &Path) -> Self {
        let mut compiled = Self::default();
        for line in fs::read_to_string(jit_log).unwrap_or_default().lines() {
            // [3.014s][info][jit,compilation]   87   !   4       programs.Busy$Worker::leaf (41 bytes)
            let Some((_, line)) = line.split_once("[jit,compilation]") else { continue };
            let Some((head, _)) = line.split_once(" programs.Busy$Worker::") else { continue };
            let mut words = head.split_whitespace();
            let number = words.next().and_then(|word| word.parse().ok()).expect("a number");
            if words.next_back() == Some("4") {
                compiled.all.insert(number);
                if line.contains("made not entrant") {
                    compiled.gone.insert(number);
                }
            }
        }
        compiled
    }

    fn since(self, before: &Self) -> Self {
        let all = self.all.difference(&before.all).copied().collect();
        Self { all, ..self }
    }

    fn live(&self) -> BTreeSet<u32> {
        self.all.difference(&self.gone).copied().collect()
    }

    /// Whether half of it is gone: the log shows the start of a compilation, which may be abandoned, and there may be
    /// only two.
    fn threw_away(&self, live: &BTreeSet<u32>) -> bool {
        !live.is_empty() && 2 * self.gone.intersection(live).count() >= live.len()
    }
}

/// `main` was entered before any recording: it must not appear, neither counted nor unfinished.
fn assert_has_no_calls_of_main(logs: &Path) {
    let profile = Profile::only_run(logs);
    assert!(profile.counts.keys().all(|name| name.contains(" work ")), "{:?}", profile.counts);
    assert!(profile.records.iter().all(|r| r.method.contains(" work ")), "{:?}", profile.records);
}

#[test]
fn a_run_that_never_recorded_says_so() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        let options =
            format!("include=programs.Filtered,start=off,port=off,logs={}", logs.display());
        let program = Java::new(jdk).agent(&options).main(classes(), "programs.Filtered");
        let finished = program.folder(folder.path()).run();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
        let profile = Profile::read(&Profile::runs(&logs)[0]);
        assert_eq!(profile.counters.get("recorded_ns"), Some(&0), "{jdk}");
        assert!(profile.counts.is_empty(), "{jdk}");
    }
}
