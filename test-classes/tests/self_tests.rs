//! The agent tests the features of HotSpot and the C library that it relies on in each process, and `status` shows
//! the results. Without any of them, counts are exact too: see the table in docs/architecture.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use log_format::rows::counter;
use serde_json::Value;
use test_classes::{
    Dialogue, Java, Jdk, Profile, TRUTH, artifacts, classes, ends_of_jdks, free_port, is_full,
    jdks, jdks_from, run_truth, tprofiler, tprofiler_json, wait_until,
};

/// Most CPU time that self-tests may take at the start of a JVM.
const MOST_CPU_NS: u64 = 20_000_000;

/// The lines of `status` about self-tests.
const COMPILED_OUT: &str = "compiled_out_probes";
const CALL_SITE: &str = "probe_call_site";
const THREAD_WORD: &str = "thread_word";
const EVENTS: &str = "virtual_thread_events";
const ALLOCATED: &str = "allocated_bytes_of_calls";

/// A program that takes commands, under the agent.
struct Talk {
    program: Dialogue,
    port: u16,
}

impl Talk {
    fn start(jdk: &Jdk, jvm_options: &[&str], main: &str, options: &str) -> Self {
        // Shown if the test fails.
        println!("{jdk} {jvm_options:?} {options}");
        let port = free_port();
        let java = Java::new(jdk).args(jvm_options).agent(&format!("{options},port={port}"));
        let program = java.main(classes(), main).talk();
        wait_until("the control port", || tprofiler(port, &["status"]).status.success());
        Self { program, port }
    }

    fn status(&self) -> Value {
        tprofiler_json(self.port, &["status"])
    }

    fn expect(&self, results: &[(&str, &str)]) {
        let status = self.status();
        for (key, expected) in results {
            assert_eq!(status[key], *expected, "{key}: {status}");
        }
    }
}

/// The expected mode of the thread word: a near one requires reading the processor's counter.
fn near(logs: &Path) -> &'static str {
    let run = fs::read_to_string(Profile::runs(logs)[0].join("run.json")).expect("run.json");
    let run: Value = serde_json::from_str(&run).expect("JSON");
    let is_near = cfg!(target_arch = "x86_64") && run["clock"] == "tsc";
    if is_near { "near" } else { "far" }
}

/// Attaches the agent to a JVM; returns `false` if it is refused.
fn attach(pid: &str, options: &str) -> bool {
    let mut command = Command::new(&artifacts().tprofiler);
    command.args(["attach", pid, options]).status().expect("tprofiler runs").success()
}

/// Whether a JVM has begun to run virtual threads.
fn has_carriers(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.any(|name| name.starts_with("ForkJoinPool-1-"))
}

fn events_before_any(jdk: &Jdk) -> &'static str {
    if jdk.major < 21 { "not needed" } else { "unknown" }
}

fn with_virtual_threads() -> Vec<&'static Jdk> {
    jdks_from(21)
}

#[test]
fn every_trick_works_on_every_tested_jdk_and_its_test_takes_little() {
    for jdk in jdks() {
        let mut costs: Vec<u64> = Vec::new();
        for jvm_options in [&[][..], &["-XX:-TieredCompilation"], &["-XX:TieredStopAtLevel=1"]] {
            let logs = tempfile::tempdir().expect("a temporary folder");
            let options = format!("include=programs.Muted,logs={}", logs.path().display());
            let talk = Talk::start(jdk, jvm_options, "programs.Muted", &options);
            let at_start = talk.status();
            costs.push(at_start["self_tests_ns"].as_u64().expect("a number"));
            // A machine with other work may need longer than the start.
            wait_until("compiled-out probes are folded", || {
                talk.status()[COMPILED_OUT] == "folded"
            });
            talk.expect(&[
                (CALL_SITE, "works"),
                (THREAD_WORD, near(logs.path())),
                (EVENTS, events_before_any(jdk)),
                (ALLOCATED, "read"),
            ]);
            let text = tprofiler(talk.port, &["status"]).stdout;
            let text = String::from_utf8(text).expect("text");
            for line in ["compiled-out probes: folded", "probe call site: works", "self-tests: "] {
                assert!(text.lines().any(|l| l.starts_with(line)), "{jdk}: {text}");
            }
            talk.program.end().expect_quiet_success(jdk);
        }
        println!("{jdk}: CPU time of self-tests at the start: {costs:?} ns");
        assert!(costs.iter().all(|cost| *cost <= MOST_CPU_NS), "{jdk}: {costs:?}");
    }
}

#[test]
fn virtual_thread_events_are_known_to_arrive_once_there_is_a_virtual_thread() {
    for jdk in with_virtual_threads() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options = format!("include=virtual,logs={}", logs.path().display());
        let mut talk = Talk::start(jdk, &[], "virtual.Names", &options);
        assert_eq!(talk.program.ask("one"), "one", "{jdk}");
        talk.expect(&[(EVENTS, "yes")]);
        talk.program.end().expect_quiet_success(jdk);
    }
}

/// Runs the programs of `java/truth`, and compares what was recorded with their counts.
fn expect_truth(jdk: &Jdk, jvm_options: &[&str], options: &str, stderr: &str) {
    let what = format!("{jdk} {jvm_options:?} {options}");
    println!("{what}");
    let java = Java::new(jdk).args(jvm_options);
    let launch = |java: Java| java.main(classes(), TRUTH);
    let (_, finished) = run_truth(java, &what, options, 2_000, launch);
    assert_eq!((&*finished.stdout, &*finished.stderr), ("done\n", stderr), "{what}");
}

#[test]
fn without_a_trick_status_says_so_and_counts_are_exact() {
    let ends = ends_of_jdks();
    for (index, jdk) in ends.iter().enumerate() {
        let tricks = [
            ("compiled-out", [(COMPILED_OUT, "unknown"), (CALL_SITE, "unknown")]),
            ("call-site", [(COMPILED_OUT, "folded"), (CALL_SITE, "fails")]),
            ("thread-word", [(COMPILED_OUT, "folded"), (THREAD_WORD, "far")]),
        ];
        // In the fast lane, each on one of the runtimes.
        let of_jdk = |(trick, _): &(usize, _)| is_full() || trick % ends.len() == index;
        for (_, (fails, results)) in tricks.into_iter().enumerate().filter(of_jdk) {
            let logs = tempfile::tempdir().expect("a temporary folder");
            let debug = format!("debug=fails:{fails}");
            let options = format!("include=programs.Muted,{debug},logs={}", logs.path().display());
            let talk = Talk::start(jdk, &[], "programs.Muted", &options);
            if results[0].1 == "folded" {
                wait_until("it is folded", || talk.status()[COMPILED_OUT] == "folded");
            }
            talk.expect(&results);
            talk.program.end().expect_quiet_success(jdk);
            expect_truth(jdk, &[], &format!(",{debug}"), "");
            expect_truth(jdk, &[], &format!(",{debug},leaves=skip,overhead=2%"), "");
        }
    }
}

#[test]
fn without_the_counter_of_allocated_bytes_status_says_so() {
    let jdk = jdks().last().expect("a JDK");
    for (option, result) in [("debug=fails:allocated-bytes", "not read"), ("probe=plain", "plain")]
    {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options = format!("include=programs.Muted,{option},logs={}", logs.path().display());
        let talk = Talk::start(jdk, &[], "programs.Muted", &options);
        talk.expect(&[(ALLOCATED, result)]);
        talk.program.end().expect_quiet_success(jdk);
    }
}

/// An interpreter compiles nothing, which cannot be told from a JIT that folds nothing.
#[test]
fn what_is_not_folded_for_half_a_minute_never_is() {
    thread::scope(|scope| {
        for jdk in jdks() {
            for (jvm_options, debug) in [(&["-Xint"][..], ""), (&[], ",debug=fails:compiled-out")] {
                scope.spawn(move || {
                    let logs = tempfile::tempdir().expect("a temporary folder");
                    let options =
                        format!("include=programs.Muted{debug},logs={}", logs.path().display());
                    let talk = Talk::start(jdk, jvm_options, "programs.Muted", &options);
                    talk.expect(&[(COMPILED_OUT, "unknown"), (CALL_SITE, "unknown")]);
                    thread::sleep(Duration::from_secs(31));
                    wait_until("a verdict", || talk.status()[COMPILED_OUT] == "not folded");
                    talk.program.end().expect_quiet_success(jdk);
                });
            }
        }
    });
}

#[test]
fn plain_probes_are_exact_interpreted_and_compiled() {
    let ends = ends_of_jdks();
    for (index, jdk) in ends.iter().enumerate() {
        expect_truth(jdk, &[], ",probe=plain", "");
        let others: [(&[&str], &str); 4] = [
            (&[], ",probe=plain,leaves=skip,overhead=2%"),
            (&[], ",probe=plain,threshold=0"),
            (&["-Xint"], ",probe=plain"),
            (&["-XX:TieredStopAtLevel=1"], ",probe=plain"),
        ];
        // In the fast lane, each on one of the runtimes.
        let of_jdk = |(other, _): &(usize, _)| is_full() || other % ends.len() == index;
        for (_, (jvm_options, options)) in others.iter().enumerate().filter(of_jdk) {
            expect_truth(jdk, jvm_options, options, "");
        }
    }
}

/// The agent's message on a JDK that is newer than all tested ones.
fn newer(jdk: &Jdk) -> String {
    format!(
        "tprofiler: JDK {} is newer than JDK {}, the newest that the agent was tested on: probes are plain, and \
         throttled methods cost more; probe=fast overrides this\n",
        jdk.major,
        jdk.major - 1
    )
}

fn newest_before(jdk: &Jdk) -> String {
    format!("debug=newest-tested:{}", jdk.major - 1)
}

#[test]
fn a_newer_jdk_is_named_once_and_gets_plain_probes_that_are_exact() {
    for jdk in ends_of_jdks() {
        let debug = newest_before(jdk);
        expect_truth(jdk, &[], &format!(",{debug}"), &newer(jdk));
        expect_truth(jdk, &[], &format!(",{debug},leaves=skip,overhead=2%"), &newer(jdk));
        // Overridden: as on a tested JDK.
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options =
            format!("include=programs.Muted,{debug},probe=fast,logs={}", logs.path().display());
        let talk = Talk::start(jdk, &[], "programs.Muted", &options);
        wait_until("it is folded", || talk.status()[COMPILED_OUT] == "folded");
        talk.program.end().expect_quiet_success(jdk);
    }
}

/// The output of `programs.Muted`: calls of each method.
fn calls(line: &str) -> BTreeMap<String, u64> {
    let words: Vec<&str> = line.split(' ').collect();
    let counts = words.chunks(3);
    counts.map(|word| (word[0].to_owned(), word[1].parse().expect("a number"))).collect()
}

fn calls_of(profile: &Profile, name: &str) -> u64 {
    profile.counts.get(name).map_or(0, |counts| counts.calls)
}

/// The same JVM with the agent from its start, without it, and again by attach.
#[test]
fn on_a_newer_jdk_muting_switching_detach_and_attach_are_exact() {
    const CATCHER: &str = "programs.Muted$Work catcher (I)V";
    const PASSER: &str = "programs.Muted$Work passer (I)V";
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = |name: &str| folder.path().join(name);
        let filters = format!("include=programs.Muted$Work,{}", newest_before(jdk));
        let options = format!("{filters},logs={}", logs("first").display());
        let mut talk = Talk::start(jdk, &[], "programs.Muted", &options);
        let port = talk.port;
        let plain = [(COMPILED_OUT, "plain"), (CALL_SITE, "plain")];
        talk.expect(&plain);
        let command = |arguments: &[&str]| {
            assert!(tprofiler(port, arguments).status.success(), "{jdk}: {arguments:?}");
        };
        let (mut catcher, mut passer) = (0, 0);
        let steps: [(&[&str], bool, bool); 6] = [
            (&["status"], true, true),
            (&["mute", "**.passer"], true, false),
            (&["unmute", "**.passer"], true, true),
            (&["stop"], false, false),
            (&["start"], true, true),
            (&["flush"], true, true),
        ];
        for (step, counts_catcher, counts_passer) in steps {
            command(step);
            let made = calls(&talk.program.ask("calls 20000"));
            catcher += if counts_catcher { made["catcher"] } else { 0 };
            passer += if counts_passer { made["passer"] } else { 0 };
        }
        command(&["detach"]);
        talk.program.ask("calls 20000");
        let profile = Profile::only_run(&logs("first"));
        assert_eq!(calls_of(&profile, CATCHER), catcher, "{jdk}");
        assert_eq!(calls_of(&profile, PASSER), passer, "{jdk}");

        let pid = talk.program.program.pid().to_string();
        // The class was defined in its plain form, and stays so.
        let options = format!(
            "{filters},probe=fast,leaves=keep,overhead=off,port={port},logs={}",
            logs("second").display()
        );
        assert!(attach(&pid, &options), "{jdk}: {options}");
        talk.expect(&plain);
        let made = calls(&talk.program.ask("calls 20000"));
        command(&["detach"]);
        let profile = Profile::only_run(&logs("second"));
        assert_eq!(calls_of(&profile, CATCHER), made["catcher"], "{jdk}");
        for lost in [counter::LOST_CALLS, counter::UNSEEN_ENDS] {
            assert_eq!(profile.counter(lost), 0, "{jdk}: {lost}");
        }
        let finished = talk.program.end();
        // Newer JVMs warn about a dynamically loaded agent.
        let said: Vec<&str> =
            finished.stderr.lines().filter(|line| !line.starts_with("WARNING: ")).collect();
        assert_eq!((finished.status, said), (Some(0), vec![newer(jdk).trim_end()]), "{jdk}");
    }
}

#[test]
fn on_a_newer_jdk_the_overhead_budget_throttles_and_the_rest_is_exact() {
    for jdk in jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options = format!(
            "include=programs.Turning,exclude=**.pause,overhead=2%,{},logs={}",
            newest_before(jdk),
            logs.path().display()
        );
        let mut talk = Talk::start(jdk, &[], "programs.Turning", &options);
        talk.program.ask("begin");
        wait_until("step is throttled", || {
            let answer = tprofiler_json(talk.port, &["overhead"]);
            let methods = answer["throttled"].as_array().expect("a list");
            methods.iter().any(|method| method["method"] == "step")
        });
        let answer = tprofiler_json(talk.port, &["overhead", "off"]);
        assert_eq!(answer["methods_throttled"], 0, "{jdk}");
        let before = talk.status()["calls_seen"].as_u64().expect("a number");
        wait_until("it is measured again", || {
            talk.status()["calls_seen"].as_u64().expect("a number") > before + 1_000_000
        });
        let finished = talk.program.end();
        assert_eq!(finished.stderr, newer(jdk), "{jdk}");
        let requests: u64 = finished.stdout.trim().parse().expect("a number");
        let profile = Profile::only_run(logs.path());
        let counted = calls_of(&profile, "programs.Turning$Serving request ()J");
        assert_eq!(counted, requests, "{jdk}");
        assert!(profile.is_throttled("programs.Turning$Looping step (I)J"), "{jdk}");
    }
}

/// Runs `virtual.Main` with this many virtual threads. Returns what was recorded, and stderr.
fn run_virtual(jdk: &Jdk, jvm_options: &[&str], threads: u64, options: &str) -> (Profile, String) {
    println!("{jdk} {jvm_options:?} {options}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (logs, counts) = (folder.path().join("logs"), folder.path().join("counts"));
    let agent = format!("include=virtual,port=off{options},logs={}", logs.display());
    let program = Java::new(jdk).args(jvm_options).agent(&agent).main(classes(), "virtual.Main");
    let finished = program.arg(&counts).arg(threads.to_string()).run();
    assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
    let counts = fs::read_to_string(&counts).expect("counts");
    assert_eq!(counts, format!("{threads} {} {threads}", 5 * threads), "{jdk}");
    (Profile::only_run(&logs), finished.stderr)
}

const WORK: &str = "virtual.Main$Work";

/// The calls that each virtual thread makes.
fn calls_in(threads: u64) -> [(&'static str, u64); 6] {
    [
        ("run ()V", threads),
        ("outer (I)V", 5 * threads),
        ("inner (I)V", 5 * threads),
        ("waits ()V", threads),
        ("recurse (I)V", 4 * threads),
        ("pinned ()V", threads.div_ceil(10)),
    ]
}

fn expect_all_counted(profile: &Profile, threads: u64, what: &str) {
    for (name, expected) in calls_in(threads) {
        assert_eq!(calls_of(profile, &format!("{WORK} {name}")), expected, "{what}: {name}");
    }
    for lost in [counter::LOST_CALLS, counter::UNSEEN_ENDS] {
        assert_eq!(profile.counter(lost), 0, "{what}: {lost}");
    }
}

/// Without events, the agent does not know which virtual thread makes a call. So these calls are counted as lost, and
/// those of other threads are exact.
#[test]
fn without_events_calls_in_virtual_threads_are_lost_to_the_last_one() {
    const THREADS: u64 = 500;
    for jdk in with_virtual_threads() {
        let missing =
            "tprofiler: calls in virtual threads are not measured, and are counted as lost";
        for (fails, why) in [
            (
                "mount-extension",
                "no com.sun.hotspot.events.VirtualThreadMount (debug=fails:mount-extension)",
            ),
            ("mount-events", "the JVM does not say when they run"),
        ] {
            let debug = format!(",debug=fails:{fails}");
            let (profile, stderr) = run_virtual(jdk, &[], THREADS, &debug);
            assert_eq!(stderr, format!("{missing}: {why}\n"), "{jdk}");
            let lost: u64 = calls_in(THREADS).iter().map(|(_, calls)| calls).sum();
            assert_eq!(profile.counter(counter::LOST_CALLS), lost, "{jdk}: {fails}");
            assert_eq!(profile.counter(counter::UNSEEN_ENDS), 0, "{jdk}: {fails}");
            for (name, _) in calls_in(THREADS) {
                assert_eq!(calls_of(&profile, &format!("{WORK} {name}")), 0, "{jdk}: {name}");
            }
            assert_eq!(calls_of(&profile, &format!("{WORK} <init> (I)V")), THREADS, "{jdk}");
        }
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options =
            format!("include=virtual,debug=fails:mount-events,logs={}", logs.path().display());
        let mut talk = Talk::start(jdk, &[], "virtual.Names", &options);
        assert_eq!(talk.program.ask("one"), "one", "{jdk}");
        talk.expect(&[(EVENTS, "no")]);
        assert_eq!(talk.program.end().status, Some(0), "{jdk}");
    }
}

/// A virtual thread that is running at an attach was mounted without an event. The first one that ends shows that
/// there are no events.
#[test]
fn an_agent_that_came_late_sees_that_there_are_no_events() {
    for jdk in with_virtual_threads() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str| folder.path().join(name);
        let java = Java::new(jdk).main(classes(), "virtual.Again").arg(file("counts"));
        let program = java.arg("1000").arg(file("stop")).start();
        let (pid, port) = (program.pid().to_string(), free_port());
        wait_until("virtual threads", || has_carriers(program.pid()));
        for (debug, expected) in [(",debug=fails:mount-events", "no"), ("", "yes")] {
            let options = format!(
                "include=virtual,retransform=even-running,overhead=off,port={port},logs={}{debug}",
                file(expected).display()
            );
            assert!(attach(&pid, &options), "{jdk}: {options}");
            let status = || tprofiler_json(port, &["status"]);
            wait_until("a verdict", || status()[EVENTS] == expected);
            let seen = |key: &str| status()[key].as_u64().expect("a number");
            let before = (seen("calls_lost"), seen("calls_seen"));
            if expected == "no" {
                wait_until("lost calls", || seen("calls_lost") > before.0 + 1_000);
            } else {
                wait_until("calls", || seen("calls_seen") > before.1 + 1_000);
                assert_eq!(seen("calls_lost"), 0, "{jdk}");
            }
            assert!(tprofiler(port, &["detach"]).status.success(), "{jdk}");
        }
        fs::write(file("stop"), "").expect("a file");
        assert_eq!(program.wait().status, Some(0), "{jdk}");
    }
}

#[test]
fn virtual_threads_are_exact_with_plain_probes_and_without_continuations() {
    const THREADS: u64 = 500;
    for jdk in with_virtual_threads() {
        for options in [",probe=plain".to_owned(), format!(",{}", newest_before(jdk))] {
            let (profile, _) = run_virtual(jdk, &[], THREADS, &options);
            expect_all_counted(&profile, THREADS, &format!("{jdk} {options}"));
        }
        // Each virtual thread is a platform thread there.
        let jvm_options = ["-XX:+UnlockExperimentalVMOptions", "-XX:-VMContinuations"];
        let (profile, stderr) = run_virtual(jdk, &jvm_options, THREADS, "");
        expect_all_counted(&profile, THREADS, &format!("{jdk} without continuations"));
        assert_eq!(stderr, "", "{jdk}");
    }
}

/// No JVM is known to refuse the class. If one does, nothing is recorded, and the service runs.
#[test]
fn a_jvm_that_refuses_the_probe_class_runs_without_profiling() {
    const REFUSED: &str = "tprofiler: the JVM refuses java/lang/invoke/$TProfiler";
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        let options = format!(
            "include=programs.Muted,debug=fails:probe-class,port=off,logs={}",
            logs.display()
        );
        let java = Java::new(jdk).agent(&options).main(classes(), "programs.Muted");
        let mut program = java.talk();
        assert_eq!(calls(&program.ask("calls 100"))["catcher"], 100, "{jdk}");
        let finished = program.end();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
        let is_one_line = finished.stderr.lines().count() == 1
            && finished.stderr.starts_with(REFUSED)
            && finished.stderr.ends_with("; profiling is off\n");
        assert!(is_one_line, "{jdk}: {}", finished.stderr);
        assert_eq!(fs::read_dir(&logs).map_or(0, Iterator::count), 0, "{jdk}: a run was begun");

        // The same by attach, and then with a JVM that accepts the class.
        let mut program = Java::new(jdk).main(classes(), "programs.Muted").talk();
        let pid = program.program.pid().to_string();
        assert_eq!(program.ask("wait"), "ready", "{jdk}");
        assert!(!attach(&pid, &options), "{jdk}");
        assert_eq!(calls(&program.ask("calls 100"))["catcher"], 100, "{jdk}");
        let options = options.replace("debug=fails:probe-class,", "overhead=off,");
        assert!(attach(&pid, &options), "{jdk}");
        program.ask("calls 100");
        let finished = program.end();
        assert_eq!(finished.status, Some(0), "{jdk}");
        let ours = finished.stderr.lines().filter(|line| line.starts_with("tprofiler"));
        assert_eq!(ours.filter(|line| line.starts_with(REFUSED)).count(), 1, "{jdk}");
        let profile = Profile::only_run(&logs);
        assert_eq!(calls_of(&profile, "programs.Muted$Work catcher (I)V"), 100, "{jdk}");
    }
}
