//! A running loop stays as fast as without the agent, whatever the budget or the user does: HotSpot never compiles a
//! running loop again if its method was replaced.
//!
//! `programs.Loops` runs five loops. Their rounds per CPU second are compared with a JVM without the agent.
//! `LOOP_SECONDS=30` holds each phase for that long; without it, a phase ends when all loops are as fast.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use test_classes::{
    Control, Dialogue, Java, Jdk, Loops, Plain, Profile, RECOVERY, SHARE, artifacts, at_once,
    classes, ends_of_jdks, error_line, field, free_port, has_thread, jdks, jdks_from, rounds,
    tprofiler, tprofiler_json, tprofiler_text, wait_until,
};

/// Ends a program; its output must be the same as without the agent.
fn end(program: Dialogue, jdk: &Jdk) {
    let finished = program.end();
    assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
}

/// Options for the loops' classes; the method that waits for commands has a loop too.
fn options(logs: &Path, port: u16, more: &str) -> String {
    let logs = logs.display();
    format!("include=programs,exclude=programs.Loops.main,logs={logs},port={port}{more}")
}

/// The counted calls of the helper of a loop, by the loop's class.
fn helper_calls(port: u16, class: &str) -> Option<u64> {
    let top = tprofiler_json(port, &["top", "1000"]);
    let methods = top["methods"].as_array().expect("a list").iter();
    let class = format!("programs.Loops${class}");
    let is_helper = |m: &&Value| m["class"] == *class && m["method"] == "helper";
    methods.clone().find(is_helper).map(|m| m["calls"].as_u64().expect("a number"))
}

/// The budget, `mute`, `unmute`, `stop`, `start`, `detach` and `attach` do not slow running loops.
#[test]
fn loops_stay_fast_with_the_agent_from_the_start() {
    at_once(ends_of_jdks(), |jdk| {
        let mut plain = Plain::start(Java::new(jdk));
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = options(logs.path(), port, ",overhead=2%,leaves=skip");
        let mut loops = Loops::start(Java::new(jdk).agent(&options));
        let ask = |arguments: &[&str]| tprofiler_json(port, arguments);
        let what = |phase: &str| format!("{jdk}, {phase}");
        plain.expect_as_fast(&mut loops, &what("throttled"));
        // Old compiled code is discarded once, four seconds after the start.
        thread::sleep(Duration::from_secs(5));
        plain.expect_as_fast(&mut loops, &what("throttled and compiled again"));
        assert!(ask(&["status"])["methods_throttled"].as_u64() > Some(3), "{jdk}");
        ask(&["mute", "**.help*"]);
        plain.expect_as_fast(&mut loops, &what("muted"));
        wait_until("classes with loops are postponed", || {
            ask(&["status"])["classes_postponed"].as_u64() == Some(4)
        });
        plain.expect_as_fast(&mut loops, &what("muted and postponed"));
        ask(&["unmute", "**"]);
        plain.expect_as_fast(&mut loops, &what("unmuted"));
        ask(&["overhead", "off"]);
        let before = helper_calls(port, "SameClass");
        wait_until("helpers are measured again", || helper_calls(port, "SameClass") > before);
        ask(&["overhead", "2%"]);
        plain.expect_as_fast(&mut loops, &what("throttled again"));
        thread::sleep(Duration::from_secs(5));
        plain.expect_as_fast(&mut loops, &what("throttled and compiled again"));
        ask(&["stop"]);
        // After ten seconds, compiled code is discarded.
        thread::sleep(Duration::from_secs(11));
        plain.expect_as_fast(&mut loops, &what("stopped"));
        ask(&["start"]);
        plain.expect_as_fast(&mut loops, &what("started"));
        let pid = loops.pid.to_string();
        let answer = tprofiler_text(&["detach", &pid]);
        assert_eq!(field(&answer, "classes left running"), "6", "{jdk}: {answer}");
        plain.expect_as_fast(&mut loops, &what("detached"));
        let logs = logs.path().display();
        let again = format!("include=programs,exclude=programs.Loops.main,logs={logs},port={port}");
        tprofiler_text(&["attach", &pid, &again]);
        plain.expect_as_fast(&mut loops, &what("attached again"));
        let status = ask(&["status"]);
        assert_eq!(status["loops_possibly_caught"], 0, "{jdk}: {status}");
        end(loops.program, jdk);
    });
}

/// Processes that keep all processors busy, until they are dropped or a minute has passed.
struct Busy(Vec<Child>);

impl Busy {
    fn start() -> Self {
        let busy = |_| {
            let mut command = Command::new("timeout");
            command.args(["60", "sh", "-c", "while :; do :; done"]).spawn().expect("sh runs")
        };
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        Self((0..rounds(1, 2)).flat_map(|_| 0..processors).map(busy).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // `timeout` passes this on.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
    }
}

/// Loops that ran through a detach keep their probes. The next attachment does not use them, and they cost nothing,
/// whenever the JIT comes to compile the loops.
#[test]
fn probes_of_an_earlier_attachment_cost_nothing() {
    let jdk = jdks().last().expect("a JDK");
    let busy = Busy::start();
    let mut plain = Plain::start(Java::new(jdk));
    let logs = tempfile::tempdir().expect("a temporary folder");
    let mut both = ["2%", "off"].map(|overhead| {
        let options =
            options(logs.path(), free_port(), &format!(",overhead={overhead},leaves=skip"));
        let java = Java::new(jdk).arg("-XX:+EnableDynamicAgentLoading");
        (overhead, Loops::start(java.agent(&options)), options)
    });
    thread::sleep(RECOVERY);
    for (_, loops, options) in &both {
        let pid = loops.pid.to_string();
        tprofiler_text(&["detach", &pid]);
        tprofiler_text(&["attach", &pid, options]);
    }
    thread::sleep(RECOVERY);
    drop(busy);
    for (overhead, loops, _) in &mut both {
        // The helper of loop `other` is instrumented; with a budget, it is throttled.
        let without: &[&str] = if *overhead == "off" { &["other"] } else { &[] };
        let (share, name) = plain.recovered_but(without, loops);
        println!("{overhead}: {name} is at {share:.2} of plain");
        assert!(share >= SHARE, "{overhead}: {name} is at {share:.2} of plain");
    }
    for (_, loops, _) in both {
        end(loops.program, jdk);
    }
}

/// An attach postpones classes with running loops, and instruments them when the loops have ended. A detach leaves
/// them alone.
#[test]
fn attach_postpones_classes_with_loops_until_they_have_ended() {
    for jdk in ends_of_jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let mut loops = Loops::start(Java::new(jdk));
        let mut plain = Plain::start(Java::new(jdk));
        let pid = loops.pid.to_string();
        let options = options(logs.path(), port, ",overhead=off,leaves=keep");
        let attach = ["attach", &pid, &options];
        let attached = Command::new(&artifacts().tprofiler).args(attach).output();
        let attached = attached.expect("tprofiler runs");
        let waits = "tprofiler: waiting until classes are instrumented; it takes some seconds to see which loops are \
                     running\n";
        assert_eq!(String::from_utf8_lossy(&attached.stderr), waits, "{jdk}");
        let attached = String::from_utf8(attached.stdout).expect("text");
        assert!(attached.contains("postponed: programs.Loops$SameClass: run runs in thread same"));
        assert!(!attached.contains("programs.Loops$Helper"), "{attached}");
        // A postponed class does not hide that a name of another class is wrong.
        let mistyped = tprofiler(port, &["mute", "programs.Loops$Helper.nosuch"]);
        let why = "mute: programs.Loops$Helper has no method nosuch";
        assert!(error_line(&mistyped).contains(why), "{jdk}: {mistyped:?}");
        loops.program.ask("call 1000");
        assert_eq!(helper_calls(port, "SameClass"), None, "{jdk}");
        thread::sleep(RECOVERY);
        // The helper of loop `other` is instrumented.
        let (share, name) = plain.recovered_but(&["other"], &mut loops);
        assert!(share >= SHARE, "{jdk}: {name} is at {share:.2} of plain");
        loops.program.ask("end same");
        wait_until("the class is instrumented when its loop has ended", || {
            let status = tprofiler_json(port, &["status"]);
            let postponed = status["postponed"].as_array().expect("a list");
            !postponed.iter().any(|p| p.as_str().is_some_and(|p| p.contains("SameClass")))
        });
        loops.program.ask("call 1000");
        assert_eq!(helper_calls(port, "SameClass"), Some(1_000), "{jdk}");
        // The report names the others, and when this one was instrumented.
        let mut analyze = Command::new(&artifacts().analyze);
        let report = analyze.arg(logs.path()).args(["--format", "json"]).output();
        let report = report.expect("analyze runs").stdout;
        let report: Value = serde_json::from_slice(&report).expect("JSON");
        let of = |class: &str| {
            let postponed = report["missing"]["classes_postponed"].as_array();
            let class = format!("programs.Loops${class}");
            let found = postponed.into_iter().flatten().find(|found| found["class"] == class);
            found.unwrap_or_else(|| panic!("{jdk}: {class} in {report}")).clone()
        };
        assert_eq!(of("OtherClass")["reason"], "run runs in thread other", "{jdk}");
        assert_eq!(of("OtherClass")["to_ns"], Value::Null, "{jdk}");
        assert!(of("SameClass")["to_ns"].as_u64() > of("SameClass")["from_ns"].as_u64(), "{jdk}");
        let detached = tprofiler_text(&["detach", &pid]);
        assert_eq!(field(&detached, "classes not restored"), "0", "{jdk}: {detached}");
        end(loops.program, jdk);
    }
}

/// A class that is never free is given up after a minute, and reported. The thread that restores classes after a
/// detach ends too.
#[test]
#[ignore = "full lane: it waits for a minute"]
fn after_a_minute_the_agent_gives_up() {
    let jdk = jdks().last().expect("a JDK");
    let logs = tempfile::tempdir().expect("a temporary folder");
    let of = |port| options(logs.path(), port, ",overhead=off,leaves=keep");
    let (port, left_port) = (free_port(), free_port());
    let postponed = Loops::start_resting(Java::new(jdk));
    let left = Loops::start_resting(Java::new(jdk).agent(&of(left_port)));
    let [pid, left_pid] = [&postponed, &left].map(|loops| loops.pid.to_string());
    tprofiler_text(&["attach", &pid, &of(port)]);
    let detached = tprofiler_text(&["detach", &left_pid]);
    assert_ne!(field(&detached, "classes left running"), "0", "{detached}");
    thread::sleep(Duration::from_secs(30));
    let status = || tprofiler_text(&["--pid", &pid, "status"]);
    assert!(!status().contains("given up"), "{}", status());
    assert!(has_thread(left.pid, "tprofiler-end"));
    wait_until("classes are given up", || {
        status().contains("SameClass: run runs in thread same; given up")
    });
    wait_until("the thread that restores classes ends", || !has_thread(left.pid, "tprofiler-end"));
    // A class that was given up is instrumented by the next attachment.
    tprofiler_text(&["detach", &pid]);
    let again = tprofiler_text(&["attach", &left_pid, &of(left_port)]);
    assert!(again.contains("postponed: programs.Loops$SameClass"), "{again}");
    let stderr = postponed.program.end().stderr;
    assert!(stderr.contains("SameClass: run runs in thread same; the class was not"), "{stderr}");
    end(left.program, jdk);
}

/// Loops that were running at a detach end later. The remaining classes pass the hook at the next attach, and count
/// nothing until then.
#[test]
fn what_a_detach_leaves_is_restored_later_and_never_counts_for_others() {
    at_once(jdks(), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = options(logs.path(), port, ",overhead=off");
        let mut loops = Loops::start_resting(Java::new(jdk).agent(&options));
        let pid = loops.pid.to_string();
        let detached = tprofiler_text(&["detach", &pid]);
        let left = "left running: programs.Loops$SameClass: run runs in thread same";
        assert!(detached.contains(left), "{jdk}: {detached}");
        // Another attachment makes the agent continue with that.
        tprofiler_text(&["detach", &pid]);
        // Another attachment, which does not select the classes that still have probes.
        let other = format!(
            "include=programs.Loops$Calls,leaves=keep,overhead=off,logs={},port={port}",
            logs.path().display()
        );
        tprofiler_text(&["attach", &pid, &other]);
        loops.program.ask("call 1000");
        let top = tprofiler_json(port, &["top", "1000"]);
        let methods = top["methods"].as_array().expect("a list").iter();
        let counts: Vec<(&Value, u64)> =
            methods.map(|m| (&m["method"], m["calls"].as_u64().expect("a number"))).collect();
        assert_eq!(counts, [(&Value::from("same"), 1)], "{jdk}");
        for name in ["same", "other", "lambda", "virtual", "pool"] {
            loops.program.ask(&format!("end {name}"));
        }
        wait_until("all classes that were left are restored", || {
            tprofiler_json(port, &["status"])["classes_postponed"].as_u64().is_some_and(|n| n <= 1)
        });
        tprofiler_text(&["detach", &pid]);
        end(loops.program, jdk);
        // No id belongs to two methods, in any run.
        let mut names = BTreeMap::new();
        let runs = Profile::runs(logs.path());
        assert_eq!(runs.len(), 2, "{jdk}");
        for run in runs {
            for (id, name) in Profile::read(&run).methods {
                let other = names.insert(id, name.clone()).filter(|other| *other != name);
                assert_eq!(other, None, "{jdk}: {id} is {name} too");
            }
        }
        assert!(names.len() > 5, "{jdk}: {names:?}");
    });
}

#[test]
fn a_class_may_be_retransformed_even_running_or_never() {
    let jdk = jdks().last().expect("a JDK");
    for (retransform, arguments) in
        [("even-running", vec!["--even-running"]), ("off", vec![]), ("even-running", vec![])]
    {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let mut loops = Loops::start_resting(Java::new(jdk));
        let pid = loops.pid.to_string();
        let more = if arguments.is_empty() {
            format!(",retransform={retransform}")
        } else {
            String::new()
        };
        let options = options(logs.path(), port, &format!(",leaves=keep,overhead=off{more}"));
        let attached = tprofiler_text(&[&["attach", &pid, &options], &arguments[..]].concat());
        assert_eq!(field(&attached, "classes postponed"), "0", "{attached}");
        loops.program.ask("call 1000");
        if retransform == "off" {
            assert_eq!(field(&attached, "classes instrumented"), "0", "{attached}");
            assert_eq!(field(&attached, "classes retransformed"), "0", "{attached}");
            // Classes that are loaded later are instrumented, and stay so.
            loops.program.ask("brief 1");
            wait_until("a new class is instrumented", || {
                tprofiler_json(port, &["status"])["classes_instrumented"].as_u64() > Some(0)
            });
            let detached = tprofiler_text(&["detach", &pid]);
            assert_eq!(field(&detached, "classes restored"), "0", "{detached}");
            assert_ne!(field(&detached, "classes not restored"), "0", "{detached}");
        } else {
            assert!(helper_calls(port, "SameClass") >= Some(1_000));
            let status = || tprofiler_json(port, &["status"]);
            wait_until("the loops are counted", || {
                status()["loops_possibly_caught"].as_u64() >= Some(3)
            });
        }
        loops.program.end();
    }
}

/// A parked virtual thread has no stack to look at. The agent knows its calls, and remembers those of the moment when
/// recording stopped.
#[test]
fn a_loop_of_a_parked_virtual_thread_keeps_its_class_waiting() {
    at_once(jdks_from(21), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = options(logs.path(), port, ",leaves=keep,overhead=off");
        let mut loops = Loops::start_resting(Java::new(jdk).agent(&options));
        loops.program.ask("park");
        let parking = "programs.Loops$Parking: run runs in thread #";
        let is_postponed = || {
            let status = tprofiler_json(port, &["status"]);
            let postponed = status["postponed"].as_array().expect("a list").clone();
            postponed.iter().any(|p| p.as_str().is_some_and(|p| p.starts_with(parking)))
        };
        // Methods with few calls are not worth it.
        wait_until("it was called often", || helper_calls(port, "Parking") >= Some(1_100));
        tprofiler_json(port, &["mute", "programs.Loops$Parking.helper"]);
        wait_until("the class of the loop is postponed", is_postponed);
        tprofiler_json(port, &["stop"]);
        thread::sleep(Duration::from_secs(2));
        let detached = tprofiler_text(&["detach", &loops.pid.to_string()]);
        assert!(detached.contains(&format!("left running: {parking}")), "{jdk}: {detached}");
        // The next attachment does not touch it either.
        let attached = tprofiler_text(&["attach", &loops.pid.to_string(), &options]);
        assert!(attached.contains(&format!("postponed: {parking}")), "{jdk}: {attached}");
        end(loops.program, jdk);
    });
}

/// A muted call leaves the shadow stack at its thread's next probe; the agent remembers it too.
#[test]
fn a_muted_loop_of_a_parked_virtual_thread_keeps_its_class_waiting() {
    at_once(jdks_from(21), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = options(logs.path(), port, ",leaves=keep,overhead=off");
        let mut loops = Loops::start_resting(Java::new(jdk).agent(&options));
        loops.program.ask("park");
        wait_until("it was called often", || helper_calls(port, "Parking") >= Some(1_100));
        tprofiler_json(port, &["mute", "programs.Loops$Parking"]);
        // Its probes would be removed a second later.
        thread::sleep(Duration::from_secs(4));
        let detached = tprofiler_text(&["detach", &loops.pid.to_string()]);
        let parking = "left running: programs.Loops$Parking: run runs in thread #";
        assert!(detached.contains(parking), "{jdk}: {detached}");
        end(loops.program, jdk);
    });
}

/// A loop that began before any recording is not mistaken for a short call of its own method.
#[test]
fn short_calls_of_a_method_do_not_hide_its_loop() {
    at_once(ends_of_jdks(), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = options(logs.path(), port, ",start=off,overhead=off");
        let mut walks = Java::new(jdk).agent(&options).main(classes(), "programs.Walks").talk();
        assert_eq!(walks.hear(), "ready");
        tprofiler_json(port, &["start"]);
        thread::sleep(Duration::from_secs(2));
        for _ in 0..8 {
            tprofiler_json(port, &["mute", "programs.Walks$Walk.step"]);
            wait_until("its class would be retransformed", || {
                let status = tprofiler_json(port, &["status"]);
                let postponed = status["classes_postponed"].as_u64().expect("a number");
                let retransformed = status["classes_retransformed"].as_u64().expect("a number");
                postponed + retransformed > 0
            });
            thread::sleep(Duration::from_millis(1_500));
            let status = tprofiler_json(port, &["status"]);
            assert_eq!(status["classes_retransformed"], 0, "{jdk}: {status}");
            tprofiler_json(port, &["unmute", "**"]);
        }
        end(walks, jdk);
    });
}

/// The method with the loop is not instrumented itself, and the JVM does not call it obsolete.
#[test]
fn loops_whose_own_code_stays_the_same_are_counted_too() {
    at_once(jdks(), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = format!(
            "include=programs.Loops$SameClass.helper,leaves=keep,overhead=off,port={port},logs={},\
             retransform=even-running",
            logs.path().display()
        );
        let loops = Loops::start_resting(Java::new(jdk));
        tprofiler_text(&["attach", &loops.pid.to_string(), &options]);
        wait_until("the loop is counted", || {
            tprofiler_json(port, &["status"])["loops_possibly_caught"].as_u64() == Some(1)
        });
        let finished = loops.program.end();
        let named = "programs.Loops$SameClass.run in thread same was running when";
        assert!(finished.stderr.contains(named), "{jdk}: {}", finished.stderr);
    });
}

/// Methods with loops that are called repeatedly, and are nearly always on some stack, do not make any class wait.
#[test]
fn short_calls_keep_no_class_from_being_instrumented() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, stop) = (folder.path().join("logs"), folder.path().join("stop"));
        let port = free_port();
        let busy = Java::new(jdk).main(classes(), "programs.Busy").arg("4").arg(&stop).start();
        thread::sleep(Duration::from_secs(2));
        let options = format!("include=programs.Busy$Worker,port={port},logs={}", logs.display());
        tprofiler_text(&["attach", &busy.pid().to_string(), &options]);
        wait_until("its calls are counted", || {
            tprofiler_json(port, &["status"])["calls_seen"].as_u64() > Some(1_000)
        });
        let status = tprofiler_json(port, &["status"]);
        assert_eq!(status["classes_postponed"], 0, "{jdk}: {status}");
        fs::write(&stop, "").expect("a file");
        assert_eq!(busy.wait().status, Some(0), "{jdk}");
    }
}

/// A loop of three seconds is never in five looks, so its class is retransformed. Loops running then are named.
#[test]
fn loops_that_slip_in_are_counted_and_named() {
    at_once(jdks(), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let mut loops = Loops::start_resting(Java::new(jdk));
        loops.program.ask("brief 40");
        let pid = loops.pid.to_string();
        let options = options(logs.path(), port, ",leaves=keep,overhead=off");
        let attached = tprofiler_text(&["attach", &pid, &options]);
        assert!(!attached.contains("postponed: programs.Loops$Looping"), "{attached}");
        wait_until("loops that slipped in are counted", || {
            tprofiler_json(port, &["status"])["loops_possibly_caught"].as_u64() > Some(0)
        });
        let finished = loops.program.end();
        let named = "programs.Loops$Looping.loop in thread brief began just before";
        assert!(finished.stderr.contains(named), "{jdk}: {}", finished.stderr);
    });
}

/// At a detach they are named on stderr, a second after the answer.
#[test]
fn loops_that_a_detach_catches_are_named() {
    at_once(jdks(), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = options(logs.path(), port, ",leaves=keep,overhead=off");
        let mut loops = Loops::start_resting(Java::new(jdk).agent(&options));
        // On a busy machine the agent begins after the program.
        drop(Control::connect(port));
        loops.program.ask("brief 40");
        // Without a recording, only looks tell how long a loop has run.
        tprofiler_json(port, &["stop"]);
        let detached = tprofiler_text(&["detach", &loops.pid.to_string()]);
        assert!(!detached.contains("left running: programs.Loops$Looping"), "{jdk}: {detached}");
        thread::sleep(Duration::from_secs(5));
        let finished = loops.program.end();
        let named = "programs.Loops$Looping.loop in thread brief began just before";
        assert!(finished.stderr.contains(named), "{jdk}: {}", finished.stderr);
    });
}

/// A report lacks the methods of postponed classes, so `profile` names them. Its time is that of the recording,
/// without the seconds of looks at stacks before it.
#[test]
fn profile_names_the_classes_that_it_does_not_measure() {
    let jdk = jdks().last().expect("a JDK");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let loops = Loops::start_resting(Java::new(jdk));
    let options = options(&folder.path().join("logs"), free_port(), "");
    let arguments = ["profile", &loops.pid.to_string(), "-d", "3s", &options];
    let begun = Instant::now();
    let output = Command::new(&artifacts().tprofiler).args(arguments).output();
    let (output, took) = (output.expect("tprofiler runs"), begun.elapsed());
    let stderr = String::from_utf8_lossy(&output.stderr);
    let named = "tprofiler: postponed: programs.Loops$SameClass: run runs in thread same; tried again for a minute";
    assert!(output.status.success() && stderr.contains(named), "{stderr}");
    let report = Command::new(&artifacts().analyze)
        .args(["--format", "json"])
        .arg(folder.path().join("logs"))
        .output()
        .expect("analyze runs");
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let recorded_ns = report["recorded_ns"].as_u64().expect("a time");
    // A long-lived loop takes five looks in five seconds.
    assert!(Duration::from_nanos(recorded_ns) + Duration::from_secs(4) < took, "{took:?} {report}");
    end(loops.program, jdk);
}

/// With `retransform=off` no loaded class is instrumented, whatever its name, and the message says so.
#[test]
fn what_retransform_off_leaves_out_is_reported() {
    let jdk = jdks().last().expect("a JDK");
    let logs = tempfile::tempdir().expect("a temporary folder");
    let loops = Loops::start_resting(Java::new(jdk));
    let options = options(logs.path(), free_port(), ",retransform=off");
    let attached = tprofiler_text(&["attach", &loops.pid.to_string(), &options]);
    let hint = "hint: classes that were loaded before the agent came are not instrumented (retransform=off)";
    assert!(attached.contains(hint), "{attached}");
    end(loops.program, jdk);
}

/// If all classes that an include matches are postponed, the hint says that.
#[test]
fn a_hint_counts_postponed_classes() {
    let jdk = jdks().last().expect("a JDK");
    let logs = tempfile::tempdir().expect("a temporary folder");
    let loops = Loops::start_resting(Java::new(jdk));
    let (port, logs) = (free_port(), logs.path().display());
    let options = format!("include=programs.Loops$SameClass,logs={logs},port={port}");
    let attached = tprofiler_text(&["attach", &loops.pid.to_string(), &options]);
    let hint = "hint: classes that an include matches are postponed: 1\n";
    assert!(attached.contains(hint), "{options}: {attached}");
    end(loops.program, jdk);
}
