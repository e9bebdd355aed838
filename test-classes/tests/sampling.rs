//! Samples say where CPU time goes, with whole Java stacks, and harm nothing.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use log_format::rows::counter;
use test_classes::{
    Java, Jdk, Profile, Record, Sampled, TRUTH, artifacts, classes, ends_of_jdks, faults, field,
    free_port, is_full, jdks, jdks_by_turns, project, run_truth, samples, skipped, timers,
    tprofiler_json, tprofiler_text, wait_until,
};

/// A user that the kernel refuses perf events, unless it allows them to all.
const NOBODY: u32 = 65_534;
/// Users that have no other processes, because timers are limited for all of a user's.
const OF_TIMERS: u32 = 64_013;
const OF_NO_TIMERS: u32 = 64_014;

/// Runs a program with samples; returns what it printed, what was recorded, and the samples.
fn sampled(jdk: &Jdk, options: &str, arguments: &[&str]) -> (String, Profile, Vec<Sampled>) {
    let logs = tempfile::tempdir().expect("a temporary folder");
    let options = format!("include=programs,port=off,logs={}{options}", logs.path().display());
    let java = Java::new(jdk).agent(&options).main(classes(), arguments[0]);
    let finished = java.args(&arguments[1..]).run();
    finished.expect_quiet_success(jdk);
    let profile = Profile::only_run(logs.path());
    let samples = samples(&profile.folder);
    (finished.stdout, profile, samples)
}

/// The sum of the weights of samples, in nanoseconds, and their number.
fn sum<'s>(samples: impl Iterator<Item = &'s Sampled>) -> (f64, f64) {
    let both = samples.fold((0, 0), |(ns, count), s| (ns + s.weight_ns, count + s.samples));
    (both.0 as f64, both.1 as f64)
}

/// The fewest samples of a millisecond that CPU time may have: with the slowest kernel, there is one each 10 ms.
fn least(cpu_ns: f64) -> f64 {
    cpu_ns / 12_000_000.0
}

/// The program's own clocks say what its methods spend.
#[test]
fn shares_of_cpu_time_are_right() {
    const ENGINES: [&str; 3] = ["perf", "ctimer", "itimer"];
    for (index, jdk) in jdks().iter().enumerate() {
        // The full lane tries each engine on each JDK.
        let engines = if is_full() { &ENGINES[..] } else { &ENGINES[index % 3..=index % 3] };
        engines.iter().for_each(|engine| shares_are_right(jdk, engine));
    }
}

fn shares_are_right(jdk: &Jdk, engine: &str) {
    let options = format!(",cpu=1ms,sampler_cap=off,engine={engine}");
    // In the full lane, over 10,000 samples also of timers at which the kernel looks 250 times a second.
    let seconds = if is_full() { "25" } else { "5" };
    let (printed, profile, samples) = sampled(jdk, &options, &["programs.Shares", seconds]);
    let run = &profile.run;
    let has_engine = run.cpu.engine.as_deref() == Some(engine);
    let reason = run.cpu.engine_reason.as_deref().unwrap_or_default();
    assert!(has_engine || reason.contains("perf_event_open is refused"), "{jdk}: {run:?}");
    let mut spent: BTreeMap<&str, BTreeMap<&str, f64>> = BTreeMap::new();
    for line in printed.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let ns: f64 = words[2].parse().expect("nanoseconds");
        *spent.entry(words[0]).or_default().entry(words[1]).or_default() += ns;
    }
    for thread in ["main", "second"] {
        let spent = &spent[thread];
        let of = |s: &&Sampled| s.thread == thread && s.path.len() + s.frames.len() > 0;
        let own: Vec<&Sampled> = samples.iter().filter(of).collect();
        let program = |s: &&&Sampled| s.frames.iter().any(|f| f == "programs.Shares.spend");
        let (all_ns, count) = sum(own.iter().filter(program).copied());
        let total = all_ns / spent["all"];
        let error = 3.0 / count.sqrt();
        // The process's timer prefers the thread whose processor looks at it first.
        let is_of_thread = engine != "itimer";
        let is_right = (total - 1.0).abs() < error.max(0.03);
        assert!(is_right || !is_of_thread, "{jdk}, {thread}: {total:.3} of all");
        let is_enough = count > least(spent["all"]);
        assert!(is_enough || !is_of_thread, "{jdk}: {count} samples");
    }
    // Both threads together. Of 30 comparisons, one in ten runs would be over 3 standard errors by chance.
    let ours = |s: &&Sampled| s.frames.iter().any(|f| f == "programs.Shares.spend");
    let (all_ns, count) = sum(samples.iter().filter(ours));
    let of = |name: &str| spent["main"][name] + spent["second"][name];
    for part in 0..10 {
        let method = format!("m{part}");
        let real = of(&method) / of("all");
        let name = format!("programs.Shares.{method}");
        let at_top = |s: &&Sampled| s.top() == Some(&name);
        let found = sum(samples.iter().filter(ours).filter(at_top)).0 / all_ns;
        let error = 4.5 * (real * (1.0 - real) / count).sqrt();
        assert!(
            (found - real).abs() <= error.max(0.005),
            "{jdk}: {name} has {real:.3}, samples say {found:.3}"
        );
    }
    // GC, JIT and all other threads of the JVM have samples too. Sampling begins shortly before `main`.
    let (all_ns, count) = sum(samples.iter());
    let error = (3.0 / count.sqrt()).max(0.03);
    let [start, end] = ["start", "end"].map(|when| spent["process"][when]);
    assert!(
        all_ns > (end - start) * (1.0 - error) && all_ns < end * (1.0 + error),
        "{jdk}: samples of {all_ns} ns; the process used {start} before main, {end} in all"
    );
    // Instrumented callers are known exactly, and agree with the walk.
    let with_path = |s: &&Sampled| s.thread == "second" && !s.path.is_empty();
    let in_run = samples.iter().filter(with_path).filter(|s| s.path[0].contains("lambda$main"));
    assert!(sum(in_run).1 > least(spent["second"]["all"]), "{jdk}");
    assert_eq!(profile.counter(counter::SAMPLES_DROPPED), 0, "{jdk}");
}

/// Threads of two to three milliseconds. The kernel looks at timers once in four, so they see part of it.
#[test]
fn short_threads_have_samples() {
    let jdks = ends_of_jdks();
    let [oldest, newest] = [jdks.first(), jdks.last()].map(|jdk| *jdk.expect("a JDK"));
    let seconds = if is_full() { "30" } else { "6" };
    for (jdk, engine, interval, least) in
        [(newest, "ctimer", "10ms", 0.25), (oldest, "perf", "1ms", 0.65)]
    {
        let options = format!(",cpu={interval},sampler_cap=off,engine={engine}");
        let (printed, profile, samples) =
            sampled(jdk, &options, &["programs.ShortThreads", seconds]);
        if profile.run.cpu.engine.as_deref() != Some(engine) {
            skipped(&format!("no {engine}: {:?}", profile.run.cpu.engine_reason));
            continue;
        }
        let (spent_ns, threads) = printed.trim().split_once(' ').expect("two numbers");
        let [spent_ns, threads]: [f64; 2] =
            [spent_ns, threads].map(|n| n.parse().expect("a number"));
        assert!((2e6..3.5e6).contains(&(spent_ns / threads)), "{jdk}: {printed}");
        let computes = |s: &&Sampled| s.frames.iter().any(|f| f == "programs.ShortThreads.compute");
        let (found_ns, count) = sum(samples.iter().filter(computes));
        let share = found_ns / spent_ns;
        println!("{jdk}, {engine}: {share:.3} of {threads} threads' CPU time, {count} samples");
        assert!(share * (1.0 + 3.0 / count.sqrt()) >= least, "{jdk}, {engine}: {share}");
        assert!(share * (1.0 - 3.0 / count.sqrt()) <= 1.0, "{jdk}, {engine}: {share}");
    }
}

#[test]
fn stacks_of_a_large_program_are_whole() {
    for jdk in jdks().iter().filter(|jdk| jdk.has_compiler()) {
        let (_, samples) = compiled(jdk, ",cpu=1ms,sampler_cap=off");
        let java = || samples.iter().filter(|s| s.is_java());
        let all = sum(java()).1;
        let failed = sum(java().filter(|s| s.lacks_stack())).1;
        let truncated = sum(java().filter(|s| s.is_truncated())).1;
        println!("{jdk}: {all} samples in Java, {failed} without stack, {truncated} truncated");
        for reason in
            samples.iter().filter(|s| s.is_java() && (s.lacks_stack() || s.is_truncated()))
        {
            println!("  {} {:?} {:?}", reason.samples, reason.state, reason.frames);
        }
        assert!(all > 300.0, "{jdk}: {all}");
        // A few samples more or less are chance.
        assert!(failed <= 0.005 * all + 3.0, "{jdk}: {failed} of {all} failed");
        assert!(truncated <= 0.01 * all + 3.0, "{jdk}: {truncated} of {all} truncated");
        let compiler = |s: &&Sampled| s.frames[0] == "[jit]";
        assert!(sum(samples.iter().filter(compiler)).1 > 100.0, "{jdk}: no samples of the JIT");
    }
}

/// Compiles the test programs; returns what was recorded, and the samples.
fn compiled(jdk: &Jdk, options: &str) -> (Profile, Vec<Sampled>) {
    let sources = project().join("test-classes/java/programs");
    let sources = fs::read_dir(sources).expect("sources");
    let sources: Vec<PathBuf> = sources.map(|entry| entry.expect("a source").path()).collect();
    let output = tempfile::tempdir().expect("a temporary folder");
    let seconds = if is_full() { "60" } else { "8" };
    let mut arguments = vec!["programs.Compile", seconds, output.path().to_str().expect("a path")];
    arguments.extend(sources.iter().filter_map(|path| path.to_str()));
    let (_, profile, samples) = sampled(jdk, options, &arguments);
    (profile, samples)
}

/// Samples of javac's deep stacks take more than a thousandth of its CPU time at first. The sum of all samples is the
/// same with longer intervals.
#[test]
fn samples_over_their_cap_get_longer_intervals() {
    let jdk = jdks().iter().rfind(|jdk| jdk.has_compiler()).expect("a JDK with a compiler");
    let all = |cap: &str| {
        let (profile, samples) = compiled(jdk, &format!(",cpu=100us,sampler_cap={cap}"));
        let interval_ns = profile.gauges[counter::SAMPLE_INTERVAL_NS];
        let [cost_ns, cpu_ns] =
            [counter::SAMPLING_NS, counter::CPU_NS].map(|name| profile.counter(name) as f64);
        let share = sum(samples.iter()).0 / cpu_ns;
        println!("cap {cap}: {interval_ns} ns, took {:.2}%, {share:.3}", 100.0 * cost_ns / cpu_ns);
        assert!(cost_ns > 0.0 && (0.7..1.4).contains(&share), "{cap}: {share} of the CPU time");
        interval_ns
    };
    assert_eq!(all("off"), 100_000);
    // More than the four milliseconds of the kernel's own clock.
    assert!(all("0.1%") > 4_000_000);
}

/// Exceptions, stack overflows, deoptimisation and thousands of threads go on as before under the handler.
#[test]
fn counts_stay_exact_while_threads_are_sampled() {
    for jdk in jdks() {
        let launch = |java: Java| java.main(classes(), TRUTH);
        let (profile, finished) =
            run_truth(Java::new(jdk), &format!("{jdk} sampled"), ",cpu=100us", 300, launch);
        finished.expect_quiet_success(jdk);
        assert!(profile.counter(counter::SAMPLES) > 50, "{jdk}");
    }
}

/// Also those that live for less than a round of the agent thread.
#[test]
fn each_java_thread_with_samples_has_one_name() {
    for (program, arguments) in [("programs.Brief", ["300", "2"]), (TRUTH, ["/dev/null", "300"])] {
        for jdk in jdks_by_turns() {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let logs = folder.path().join("logs");
            let (package, _) = program.split_once('.').expect("a package");
            let options = format!("include={package},port=off,cpu=100us,logs={}", logs.display());
            let java = Java::new(jdk).agent(&options).main(classes(), program).args(&arguments);
            java.run().expect_quiet_success(jdk);
            let profile = Profile::only_run(&logs);
            let samples = samples(&profile.folder);
            let package = format!("{package}.");
            let runs = |s: &&Sampled| s.frames.iter().any(|frame| frame.starts_with(&package));
            assert!(samples.iter().any(|s| runs(&s)), "{jdk}: {:?}", profile.threads);
            for sample in samples.iter().filter(runs) {
                assert!(
                    !sample.java_id.is_none() && !sample.thread.is_empty(),
                    "{jdk}: {sample:?}"
                );
            }
            let is_brief = |s: &Sampled| s.thread.starts_with("brief-") && !s.java_id.is_none();
            let has_brief = samples.iter().any(is_brief);
            assert!(has_brief || program == TRUTH, "{jdk}: {:?}", profile.threads);
            let mut known = HashSet::new();
            let java =
                profile.threads.values().filter(|t| t.kind == "platform" && !t.java_id.is_none());
            for thread in java {
                assert!(known.insert(thread.java_id), "{jdk}: twice: {thread:?}");
            }
        }
    }
}

/// What probes cannot afford to measure has its CPU time by samples, at the right method.
#[test]
fn a_throttled_method_has_its_cpu_time() {
    for jdk in ends_of_jdks() {
        let options = ",cpu=1ms,sampler_cap=off,overhead=2%";
        let (_, profile, samples) = sampled(jdk, options, &["programs.Tree", "12"]);
        const TREE: &str = "programs.Tree.tree";
        assert!(profile.is_throttled("programs.Tree tree (I)I"), "{jdk}: {:?}", profile.events);
        // Some of its calls, which are nested, were in progress then. Nobody muted any.
        let not_counted =
            [counter::THROTTLED_CALLS, counter::MUTED_CALLS].map(|c| profile.counter(c));
        assert!(not_counted[0] > 0 && not_counted[1] == 0, "{jdk}: {not_counted:?}");
        let own = || samples.iter().filter(|s| s.thread == "trees");
        let (all_ns, _) = sum(own());
        let (tree_ns, count) = sum(own().filter(|s| s.top() == Some(TREE)));
        assert!(count > 100.0, "{jdk}: {count} samples");
        assert!(tree_ns >= 0.95 * all_ns, "{jdk}: {tree_ns} of {all_ns} ns");
    }
}

#[test]
fn of_a_long_name_the_log_has_the_beginning() {
    for jdk in ends_of_jdks() {
        let (_, profile, _) = sampled(jdk, ",cpu=off", &["programs.LongNames", "5000000"]);
        let is_slow = |r: &&Record| r.method.starts_with("programs.LongNames slow ");
        let slow = profile.records.iter().find(is_slow).expect("a record");
        assert!((100..=512).contains(&slow.thread.len()), "{jdk}: {}", slow.thread.len());
        let longest = profile.threads.values().map(|thread| thread.name.len()).max();
        assert!(longest <= Some(512), "{jdk}: {longest:?}");
    }
}

/// Somebody else sends the sampling signal; recording stops and starts, the agent detaches and attaches: the program
/// goes on, and no timer stays.
#[test]
fn foreign_signals_and_coming_and_going_leave_nothing() {
    for (index, jdk) in ends_of_jdks().into_iter().enumerate() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (file, logs) = (folder.path().join("stop"), folder.path().join("logs"));
        let port = free_port();
        let engine = if index % 2 == 0 { "perf" } else { "ctimer" };
        let options =
            format!("include=programs,port={port},logs={},cpu=1ms,engine={engine}", logs.display());
        let attaches =
            if jdk.major >= 21 { vec!["-XX:+EnableDynamicAgentLoading"] } else { vec![] };
        let java = Java::new(jdk).args(attaches).agent(&options);
        let running = java.main(classes(), "programs.Busy").arg("2").arg(&file).start();
        let pid = running.pid();
        wait_until("threads have timers", || timers(pid) >= 4);
        for _ in 0..200 {
            running.signal("STKFLT");
        }
        for _ in 0..3 {
            tprofiler_json(port, &["stop"]);
            assert_eq!(timers(pid), 0, "{jdk}: after a stop");
            running.signal("STKFLT");
            tprofiler_json(port, &["start"]);
            wait_until("threads have timers again", || timers(pid) >= 4);
        }
        tprofiler_text(&["detach", &pid.to_string()]);
        assert_eq!(timers(pid), 0, "{jdk}: after a detach");
        running.signal("STKFLT");
        tprofiler_text(&["attach", &pid.to_string(), &options]);
        wait_until("threads have timers after an attach", || timers(pid) >= 4);
        std::thread::sleep(Duration::from_secs(1));
        fs::write(&file, "").expect("a file");
        let finished = running.wait();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
        assert!(finished.stdout.contains("threads 2"), "{jdk}: {}", finished.stdout);
        let runs = Profile::runs(&logs);
        let foreign: u64 =
            runs.iter().map(|run| Profile::read(run).counter(counter::FOREIGN_SIGNALS)).sum();
        assert!(foreign > 0, "{jdk}: no foreign signal was counted");
        for run in &runs {
            let is_known =
                |s: &Sampled| s.top().is_some_and(|top| top.starts_with("programs.Busy"));
            assert!(samples(run).iter().any(is_known), "{jdk}: no samples in {}", run.display());
        }
    }
}

/// Something else may set the process's timer, as other profilers do, even to the same interval: sampling ends, and the
/// timer stays as it was set.
#[test]
fn a_process_timer_that_somebody_sets_stays() {
    let jdk = &jdks()[0];
    for takes_signal in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let logs = folder.path().join("logs");
        let options = format!("include=programs,port={port},logs={},engine=itimer", logs.display());
        let java = Java::new(jdk).agent(&options).main(classes(), "programs.SetsTimer");
        let mut program = java.arg(faults()).talk();
        wait_until("samples", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
                && tprofiler_json(port, &["status"])["cpu_samples"].as_u64() > Some(10)
        });
        let (interval, why) = if takes_signal {
            let ours = program.ask("interval");
            assert_eq!(program.ask("take"), "taken");
            (ours, "the program has replaced the handler of SIGPROF")
        } else {
            ("123000000".to_owned(), "something else uses the process's timer")
        };
        assert_eq!(program.ask(&format!("set {interval}")), "set");
        wait_until("sampling has ended", || {
            let status = tprofiler_json(port, &["status"]);
            let stopped = status["cpu_samples_stopped"].as_str().unwrap_or_default().to_owned();
            stopped.contains(why)
        });
        tprofiler_json(port, &["stop"]);
        assert_eq!(program.ask("interval"), interval, "takes the signal: {takes_signal}");
        assert_eq!(program.end().status, Some(0));
    }
}

/// A program may take the sampling signal for itself: sampling ends within a second, and says so. It ends well.
#[test]
fn a_signal_that_the_program_takes_ends_sampling() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (file, logs) = (folder.path().join("stop"), folder.path().join("logs"));
        let port = free_port();
        let options = format!("include=programs,port={port},logs={},cpu=1ms", logs.display());
        let java = Java::new(jdk).agent(&options).main(classes(), "programs.TakesSignal");
        let running = java.arg("STKFLT").arg(&file).start();
        let pid = running.pid();
        wait_until("threads have timers", || timers(pid) >= 2);
        fs::write(folder.path().join("take"), "").expect("a file");
        wait_until("sampling has ended", || timers(pid) == 0);
        let status = tprofiler_json(port, &["status"]);
        let stopped = status["cpu_samples_stopped"].as_str().expect("why").to_owned();
        assert!(stopped.contains("replaced the handler of SIGSTKFLT"), "{jdk}: {stopped}");
        assert!(status["cpu_samples"].as_u64() > Some(0), "{jdk}: {status}");
        // It stays off, and says why again.
        tprofiler_json(port, &["stop"]);
        tprofiler_json(port, &["start"]);
        assert_eq!(timers(pid), 0, "{jdk}");
        fs::write(&file, "").expect("a file");
        let finished = running.wait();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
        assert!(finished.stderr.contains("sampling stopped"), "{jdk}");
    }
}

/// JFR's CPU-time samples of JDK 25 and ours do not use the same signal.
#[test]
fn jfr_samples_cpu_time_beside_the_agent() {
    let jdk = jdks().iter().find(|jdk| jdk.major >= 25 && jdk.has_compiler());
    let jdk = jdk.expect("JDK 25 with its tools");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recording = folder.path().join("own.jfr");
    let options =
        format!("include=programs,port=off,logs={},cpu=10ms", folder.path().join("logs").display());
    let java = Java::new(jdk).agent(&options).arg(format!(
        "-XX:StartFlightRecording:filename={},jdk.CPUTimeSample#enabled=true",
        recording.display()
    ));
    let finished = java.main(classes(), "programs.Shares").arg("3").run();
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    let summary = Command::new(jdk.home.join("bin/jfr"))
        .arg("summary")
        .arg(&recording)
        .output()
        .expect("jfr runs");
    let summary = String::from_utf8_lossy(&summary.stdout).into_owned();
    let count = summary.lines().find_map(|line| line.trim().strip_prefix("jdk.CPUTimeSample "));
    let count = count.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    assert!(count > Some(50), "{summary}");
    let profile = Profile::only_run(&folder.path().join("logs"));
    assert!(profile.counter(counter::SAMPLES) > 50);
}

/// Threads without a timer are not sampled: `status` and reports say so.
#[test]
fn refused_timers_are_reported() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        if chown(folder.path(), Some(OF_TIMERS), Some(OF_TIMERS)).is_err() {
            return skipped("only root can run a program as another user");
        }
        let (file, logs) = (folder.path().join("stop"), folder.path().join("logs"));
        let port = free_port();
        let options =
            format!("include=programs,port={port},logs={},cpu=1ms,engine=ctimer", logs.display());
        let java = Java::with_few_timers(jdk, 4).user(OF_TIMERS).agent(&options);
        let running = java.main(classes(), "programs.Busy").arg("2").arg(&file).start();
        let refused = || tprofiler_json(port, &["status"])["cpu_timers_refused"].as_u64();
        wait_until("a timer is refused", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok() && refused() > Some(0)
        });
        // Half of the four are the service's.
        assert_eq!(timers(running.pid()), 2, "{jdk}");
        let status = tprofiler_text(&["status", "--addr", &format!("127.0.0.1:{port}")]);
        let line = field(&status, "cpu timers refused");
        let end = " (ulimit -i), so some threads are not sampled; engine=itimer needs none";
        assert!(line.ends_with(end), "{jdk}: {line}");
        fs::write(&file, "").expect("a file");
        assert_eq!(running.wait().status, Some(0), "{jdk}");
        let report = Command::new(&artifacts().analyze).arg(&logs).output().expect("analyze runs");
        let report = String::from_utf8(report.stdout).expect("text");
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(report.contains(" refused by the kernel (ulimit -i): "), "{jdk}: {report}");
    }
}

/// Where there may be timers of a few threads only, the process's timer takes their place.
#[test]
fn without_timers_there_is_one_of_the_process() {
    let jdk = &jdks()[0];
    let folder = tempfile::tempdir().expect("a temporary folder");
    if chown(folder.path(), Some(OF_NO_TIMERS), Some(OF_NO_TIMERS)).is_err() {
        return skipped("only root can run a program as another user");
    }
    let logs = folder.path().join("logs");
    let options = format!("include=programs,port=off,logs={}", logs.display());
    let java = Java::with_few_timers(jdk, 4).user(OF_NO_TIMERS).agent(&options);
    let finished = java.main(classes(), "programs.Shares").arg("2").run();
    finished.expect_quiet_success(jdk);
    let profile = Profile::only_run(&logs);
    assert_eq!(profile.run.cpu.engine.as_deref(), Some("itimer"));
    let reason = profile.run.cpu.engine_reason.as_deref().unwrap_or_default();
    assert!(reason.starts_with("ulimit -i leaves 2 timers, and there are "), "{reason}");
    // Two threads of two seconds each.
    let spent = samples(&profile.folder).into_iter();
    let spent_ns: u64 = spent.filter(|s| s.is_java()).map(|s| s.weight_ns).sum();
    assert!(spent_ns > 3_600_000_000, "{spent_ns}");
}

/// Perf events take at most a quarter of the files that a process may still open; other threads get timers.
#[test]
fn perf_events_leave_files_to_the_service() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (file, logs) = (folder.path().join("stop"), folder.path().join("logs"));
        let port = free_port();
        let options =
            format!("include=programs,port={port},logs={},cpu=1ms,engine=perf", logs.display());
        let java = Java::with_few_files(jdk, 64).agent(&options).main(classes(), "programs.Busy");
        let running = java.arg("30").arg(&file).start();
        let pid = running.pid();
        // All threads of the program, and some of the JVM.
        wait_until("threads have timers", || timers(pid) > 30);
        let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("a list of descriptors");
        let links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        let events = links.filter(|link| link.as_os_str() == "anon_inode:[perf_event]").count();
        let status = tprofiler_json(port, &["status"]);
        let is_perf = status["cpu_engine"] == "perf";
        let expected = if is_perf { 8..=16 } else { 0..=0 };
        assert!(expected.contains(&events), "{jdk}: {events}, {status}");
        fs::write(&file, "").expect("a file");
        assert_eq!(running.wait().status, Some(0), "{jdk}");
        let profile = Profile::only_run(&logs);
        let share = samples(&profile.folder).iter().map(|s| s.weight_ns).sum::<u64>();
        assert!(share > 0, "{jdk}");
    }
}

/// Where the kernel refuses perf events, timers take their place, and `status` says why.
#[test]
fn without_perf_events_there_are_timers() {
    let jdk = &jdks()[0];
    let folder = tempfile::tempdir().expect("a temporary folder");
    if chown(folder.path(), Some(NOBODY), Some(NOBODY)).is_err() {
        return skipped("only root can run a program as another user");
    }
    let (file, logs) = (folder.path().join("stop"), folder.path().join("logs"));
    let options = format!("include=programs,port=off,logs={},cpu=1ms", logs.display());
    let java = Java::new(jdk).user(NOBODY).agent(&options).main(classes(), "programs.Busy");
    let running = java.arg("2").arg(&file).start();
    wait_until("threads have timers", || timers(running.pid()) >= 4);
    fs::write(&file, "").expect("a file");
    assert_eq!(running.wait().status, Some(0));
    let profile = Profile::only_run(&logs);
    let reason = profile.run.cpu.engine_reason.as_deref().unwrap_or_default();
    let is_explained = reason.starts_with("perf_event_open is refused (");
    let is_ctimer = profile.run.cpu.engine.as_deref() == Some("ctimer");
    assert_eq!(is_ctimer, is_explained, "{:?}", profile.run);
    assert!(profile.counter(counter::SAMPLES) > 0);
}

/// Whether the JVM notes exact debug information, as its own tool says.
fn has_debug_info(jdk: &Jdk, pid: u32) -> bool {
    let output = Command::new(jdk.command("jcmd"))
        .args([&pid.to_string(), "VM.flags", "-all"])
        .output()
        .expect("jcmd runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().find(|line| line.contains(" DebugNonSafepoints "));
    line.expect("the switch").contains("= true")
}

/// The agent sets the JVM's switch and restores it; what the user has set counts.
#[test]
fn debug_information_is_exact_as_long_as_the_agent_is_there() {
    let with_jcmd: Vec<&Jdk> = jdks().iter().filter(|jdk| jdk.command("jcmd").exists()).collect();
    assert!(!with_jcmd.is_empty());
    for jdk in with_jcmd {
        for (own, expected) in [(None, true), (Some("-XX:-DebugNonSafepoints"), false)] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let file = folder.path().join("stop");
            let logs = folder.path().join("logs");
            // Without a class with probes, nobody waits for loops.
            let options = format!("include=com.nobody,port=off,logs={}", logs.display());
            let java = Java::new(jdk).arg("-XX:+UnlockDiagnosticVMOptions").args(own);
            let attaches = (jdk.major >= 21).then_some("-XX:+EnableDynamicAgentLoading");
            let java = java.args(attaches).agent(&options).main(classes(), "programs.Busy");
            let running = java.arg("1").arg(&file).start();
            let pid = running.pid();
            wait_until("threads have timers", || timers(pid) > 0);
            assert_eq!(has_debug_info(jdk, pid), expected, "{jdk}: at the start");
            tprofiler_text(&["detach", &pid.to_string()]);
            assert!(!has_debug_info(jdk, pid), "{jdk}: after a detach");
            tprofiler_text(&["attach", &pid.to_string(), &options]);
            wait_until("threads have timers", || timers(pid) > 0);
            assert_eq!(has_debug_info(jdk, pid), expected, "{jdk}: after an attach");
            fs::write(&file, "").expect("a file");
            assert_eq!(running.wait().status, Some(0), "{jdk}");
        }
    }
}
