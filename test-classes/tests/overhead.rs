//! Methods that cost more than they are worth are left out and named, whatever is kept stays exact, and one
//! that turns slow is measured again.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use log_format::rows::counter;
use serde_json::Value;
use test_classes::{
    Dialogue, Java, Jdk, Profile, artifacts, classes, free_port, jdks, tprofiler,
    tprofiler_json as ask, wait_until,
};

/// Calls of a method at a time, some tens of milliseconds.
const ERRANDS: u64 = 1_000_000;

/// Names of the methods that are left out.
fn left_out(port: u16) -> Vec<String> {
    let answer = ask(port, &["overhead"]);
    let methods = answer["left_out"].as_array().expect("a list").iter();
    methods.map(|method| method["method"].as_str().expect("a name").to_owned()).collect()
}

fn has(port: u16, method: &str) -> bool {
    left_out(port).iter().any(|name| name == method)
}

fn start(jdk: &Jdk, logs: &std::path::Path, port: u16, thresholds: &str) -> Dialogue {
    let options = format!(
        "include=programs.Turning,exclude=**.pause,{thresholds},overhead=2%,logs={},port={port}",
        logs.display()
    );
    let mut program = Java::new(jdk).agent(&options).main(classes(), "programs.Turning").talk();
    program.ask("begin");
    program
}

#[test]
fn a_method_that_turns_slow_is_measured_again() {
    let jdk = jdks().last().expect("a JDK");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let logs = folder.path().join("logs");
    let port = free_port();
    // What is slow is said by each method's own threshold.
    let thresholds = "threshold=1s,threshold=programs.Turning:1ms";
    let mut program = start(jdk, &logs, port, thresholds);
    wait_until("both are left out", || ["lookup", "step", "mixed"].iter().all(|m| has(port, m)));
    // Nothing is left of how the program began.
    thread::sleep(Duration::from_secs(60));
    for method in ["lookup", "step"] {
        // But for the moment of a look.
        wait_until("it is left out, for it is not slow yet", || has(port, method));
        program.ask(&format!("slow {method}"));
        let told = Instant::now();
        // A look that comes by chance is not enough.
        let is_slow = || {
            let top = ask(port, &["top", "1000", "--minute"]);
            let methods = top["methods"].as_array().expect("a list").iter();
            let is_slow =
                |m: &Value| m["method"] == method && m["max_ns"].as_u64() > Some(2_000_000);
            methods.clone().any(is_slow)
        };
        while has(port, method) || !is_slow() {
            let waited = told.elapsed();
            let answer = || ask(port, &["overhead"]);
            assert!(waited < Duration::from_secs(60), "{method} is not found: {}", answer());
            thread::sleep(Duration::from_millis(100));
        }
        println!("{method} was found after {:?}", told.elapsed());
        // It stays, however often it is called.
        thread::sleep(Duration::from_secs(3));
        assert!(!has(port, method), "{method} is slow: {:?}", left_out(port));
    }
    assert!(!has(port, "request"));
    let requests: u64 = program.end().stdout.trim().parse().expect("a number");
    let profile = Profile::only_run(&logs);
    let counted = profile.counts["programs.Turning$Serving request ()J"];
    assert_eq!((counted.calls, counted.throws), (requests, 0));
    for method in ["Serving lookup (I)J", "Looping step (I)J"] {
        let name = format!("programs.Turning${method}");
        assert!(profile.is_costly(&name), "{name}");
        assert!(profile.records.iter().any(|record| record.method == name), "{name}");
    }
    assert!(profile.counter(counter::PROBE_NS) > 0);
    assert_eq!(profile.counter(counter::UNSEEN_ENDS), 0);
    let report = Command::new(&artifacts().analyze).arg(&logs).output().expect("it runs");
    let report = String::from_utf8(report.stdout).expect("text");
    let says = report.split_whitespace().collect::<Vec<_>>().join(" ");
    for method in ["lookup", "step"] {
        assert!(says.contains(&format!("{method}(I)J was left out for its cost")), "{report}");
    }
    assert!(says.contains("Probes took"), "{report}");
}

/// On each JDK; the budget is changed while the program runs.
#[test]
fn what_is_left_out_is_named_and_all_else_is_exact() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        let port = free_port();
        let mut program = start(jdk, &logs, port, "threshold=1ms");
        wait_until("it is left out", || has(port, "step"));
        let status = ask(port, &["status"]);
        assert_eq!(status["overhead_budget"], 0.02, "{jdk}");
        assert!(status["methods_left_out_for_cost"].as_u64() > Some(0), "{jdk}: {status}");
        wait_until("the budget is kept to", || {
            ask(port, &["status"])["overhead_estimated"].as_f64().expect("a share") < 0.02
        });
        let mut errands = 0;
        wait_until("errand is left out", || {
            errands += ERRANDS;
            program.ask(&format!("errands {ERRANDS}"));
            has(port, "errand")
        });
        let answer = ask(port, &["overhead", "off"]);
        assert_eq!(answer["overhead_budget"], Value::Null, "{jdk}");
        assert_eq!(answer["methods_left_out_for_cost"], 0, "{jdk}");
        // Left out before, exact from then on; and marked as one that had more calls.
        let counted = || {
            let top = ask(port, &["top", "1000"]);
            let methods = top["methods"].as_array().expect("a list").iter();
            let errand = methods.clone().find(|m| m["method"] == "errand").expect("a method");
            assert_eq!(errand["was_left_out"], true, "{jdk}");
            errand["calls"].as_u64().expect("a number")
        };
        let before = counted();
        assert!(before < errands, "{jdk}: {before} of {errands}");
        program.ask("errands 12345");
        assert_eq!(counted(), before + 12_345, "{jdk}");
        let seen = || ask(port, &["status"])["calls_seen"].as_u64().expect("a number");
        let before = seen();
        wait_until("it is measured again", || seen() > before + 1_000_000);
        ask(port, &["overhead", "5%"]);
        wait_until("it is left out again", || has(port, "step"));
        let wrong = tprofiler(port, &["overhead", "lots"]);
        assert!(!wrong.status.success(), "{jdk}");
        let finished = program.end();
        assert_eq!(finished.stderr, "", "{jdk}");
        let requests: u64 = finished.stdout.trim().parse().expect("a number");
        let profile = Profile::only_run(&logs);
        let counted = profile.counts["programs.Turning$Serving request ()J"];
        assert_eq!((counted.calls, counted.throws), (requests, 0), "{jdk}");
        assert!(profile.is_costly("programs.Turning$Looping step (I)J"), "{jdk}");
        assert!(profile.is_costly("programs.Turning errand (J)J"), "{jdk}");
        assert_eq!(profile.counter(counter::UNSEEN_ENDS), 0, "{jdk}");
    }
}
