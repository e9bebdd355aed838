//! Loops of virtual threads that park never become slow, and ended threads do not make any class wait.

use std::path::Path;
use std::thread;
use std::time::Duration;

use test_classes::{
    Dialogue, Java, Jdk, at_once, classes, field, free_port, jdks, jdks_from, tprofiler_json,
    tprofiler_text, wait_until,
};

/// Runtimes with virtual threads.
fn able() -> Vec<&'static Jdk> {
    jdks_from(21)
}

fn options(logs: &Path, port: u16) -> String {
    let logs = logs.display();
    format!("include=virtual.Loops$*,leaves=keep,overhead=off,logs={logs},port={port}")
}

fn start(java: Java) -> Dialogue {
    java.main(classes(), "virtual.Loops").talk()
}

/// Its output must be the same as without the agent.
fn end(program: Dialogue, jdk: &Jdk) {
    let finished = program.end();
    assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
}

/// The loop is mounted at some looks and parked at others.
#[test]
fn a_loop_that_parks_now_and_then_is_seen_by_an_attach() {
    at_once(able(), |jdk| {
        for work in ["work 8000 1000", "work 30 10"] {
            let logs = tempfile::tempdir().expect("a temporary folder");
            let options = options(logs.path(), free_port());
            let mut program = start(Java::new(jdk));
            program.ask(work);
            thread::sleep(Duration::from_millis(500));
            let attached =
                tprofiler_text(&["attach", &program.program.pid().to_string(), &options]);
            let postponed = "postponed: virtual.Loops$Work: run runs in thread #";
            assert!(attached.contains(postponed), "{jdk}: {work}: {attached}");
            end(program, jdk);
        }
    });
}

/// The loop is parked at each moment when the agent asks which virtual threads are running.
#[test]
fn a_loop_that_parks_most_of_the_time_is_seen() {
    at_once(able(), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let of = |include: &str, port: u16| {
            format!(
                "include=virtual.Loops${include},leaves=keep,overhead=off,port={port},logs={}",
                logs.path().display()
            )
        };
        // By an attach, which selects it, and retransforms another class at once.
        let mut program = start(Java::new(jdk));
        program.ask("wait 1 0");
        program.ask("wake");
        program.ask("poll 500 400");
        thread::sleep(Duration::from_millis(500));
        let pid = program.program.pid().to_string();
        let port = free_port();
        let attached = tprofiler_text(&["attach", &pid, &of("*", port)]);
        let postponed = "postponed: virtual.Loops$Poll: run runs in thread #";
        assert!(attached.contains(postponed), "{jdk}: {attached}");
        assert_eq!(field(&attached, "classes retransformed"), "1", "{jdk}: {attached}");
        // Also after the look that counts loops that were caught.
        thread::sleep(Duration::from_secs(4));
        let status = tprofiler_json(port, &["status"]);
        assert!(
            status["postponed"].to_string().contains("run runs in thread #"),
            "{jdk}: {status}"
        );
        assert_eq!(
            (&status["classes_retransformed"], &status["loops_possibly_caught"]),
            (&1.into(), &0.into())
        );
        end(program, jdk);
        // By a mute, while it is not instrumented itself.
        let port = free_port();
        let mut program = start(Java::new(jdk).agent(&of("Poll.helper", port)));
        program.ask("poll 500 400");
        // Probes of methods with fewer calls are not worth removing.
        wait_until("calls", || {
            tprofiler_json(port, &["status"])["calls_seen"].as_u64() > Some(2_000)
        });
        tprofiler_json(port, &["mute", "virtual.Loops$Poll.helper"]);
        wait_until("its class is postponed", || {
            let postponed = tprofiler_json(port, &["status"])["postponed"].clone();
            postponed.to_string().contains("run runs in thread #")
        });
        thread::sleep(Duration::from_secs(5));
        assert_eq!(tprofiler_json(port, &["status"])["classes_retransformed"], 0, "{jdk}");
        end(program, jdk);
    });
}

/// While the agent reads the calls of many threads, other threads are mounted and unmounted.
#[test]
fn a_stop_remembers_each_loop_among_many_parked_threads() {
    at_once(able(), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let mut program = start(Java::new(jdk).agent(&options(logs.path(), port)));
        program.ask("wait 20000 20");
        program.ask("naps 0");
        thread::sleep(Duration::from_secs(2));
        tprofiler_json(port, &["stop"]);
        thread::sleep(Duration::from_secs(1));
        let detached = tprofiler_text(&["detach", &program.program.pid().to_string()]);
        for nap in 0..8 {
            let left = format!("left running: virtual.Loops$Nap{nap}: run runs in thread #");
            assert!(detached.contains(&left), "{jdk}: {detached}");
        }
        end(program, jdk);
    });
}

#[test]
fn a_loop_that_has_just_begun_is_remembered_at_a_stop() {
    at_once(able(), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let mut program = start(Java::new(jdk).agent(&options(logs.path(), port)));
        program.ask("naps 0");
        thread::sleep(Duration::from_millis(300));
        tprofiler_json(port, &["stop"]);
        // It is long-lived by now.
        thread::sleep(Duration::from_secs(2));
        let detached = tprofiler_text(&["detach", &program.program.pid().to_string()]);
        assert_eq!(field(&detached, "classes left running"), "8", "{jdk}: {detached}");
        end(program, jdk);
    });
}

#[test]
fn threads_that_have_ended_keep_no_class_waiting_however_many_there_were() {
    at_once(able(), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = options(logs.path(), port);
        let mut program = start(Java::new(jdk).agent(&options));
        let pid = program.program.pid().to_string();
        program.ask("wait 12000 0");
        thread::sleep(Duration::from_millis(1_500));
        tprofiler_json(port, &["stop"]);
        program.ask("wake");
        let detached = tprofiler_text(&["detach", &pid]);
        assert_eq!(field(&detached, "classes left running"), "0", "{jdk}: {detached}");
        end(program, jdk);
    });
}

/// The agent notices the ends of threads after a detach too.
#[test]
fn a_class_that_a_detach_left_is_restored_when_its_threads_have_ended() {
    at_once(able(), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options = options(logs.path(), free_port());
        let mut program = start(Java::new(jdk).agent(&options));
        let pid = program.program.pid().to_string();
        program.ask("wait 3 0");
        thread::sleep(Duration::from_millis(1_500));
        let detached = tprofiler_text(&["detach", &pid]);
        assert_eq!(field(&detached, "classes left running"), "1", "{jdk}: {detached}");
        program.ask("wake");
        let attached = tprofiler_text(&["attach", &pid, &options]);
        assert_eq!(field(&attached, "classes postponed"), "0", "{jdk}: {attached}");
        end(program, jdk);
    });
}

/// The time of a look grows with the depth of the stack, not with its square.
#[test]
fn a_deep_recursion_does_not_hold_the_agent_up() {
    at_once(jdks(), |jdk| {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let mut program = start(Java::new(jdk).agent(&options(logs.path(), port)));
        program.ask("deep 8000");
        thread::sleep(Duration::from_secs(4));
        tprofiler_json(port, &["mute", "virtual.Loops$Idle.helper"]);
        // The agent looks at stacks from a second later on, and still answers.
        for _ in 0..6 {
            thread::sleep(Duration::from_millis(500));
            tprofiler_json(port, &["flush"]);
        }
        wait_until("the class of the loop is postponed", || {
            tprofiler_json(port, &["status"])["classes_postponed"] == 1
        });
        end(program, jdk);
    });
}
