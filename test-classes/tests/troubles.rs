//! A service with a lock that is fought over, an export that allocates, and an endpoint that throws: reports name all
//! three, and JFR's own recording of the same run agrees.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use test_classes::{Java, Jdk, Profile, artifacts, classes, jdks, lock_waits};

const LOCK: &str = "programs.Trouble$Stock";
const EXCEPTION: &str = "programs.Trouble$NoSuchSymbol";

/// Runs the service; the numbers that it printed.
fn run(jdk: &Jdk, logs: &Path, recording: Option<&Path>) -> BTreeMap<String, f64> {
    let options = format!("port=off,alloc=256k,exception_messages=on,logs={}", logs.display());
    let jfr = recording.map(|file| {
        let events = "jdk.JavaMonitorEnter#threshold=1ms,jdk.JavaExceptionThrow#enabled=true";
        let file = file.display();
        format!("-XX:StartFlightRecording:settings=profile,{events},filename={file}")
    });
    let java = Java::new(jdk).args(jfr).agent(&options).main(classes(), "programs.Trouble");
    let finished = java.arg("6").run();
    assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
    let line = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    finished.stdout.lines().filter_map(line).collect()
}

fn report(logs: &Path, arguments: &[&str]) -> String {
    let out = Command::new(&artifacts().analyze).args(arguments).arg(logs).output();
    String::from_utf8(out.expect("analyze runs").stdout).expect("text")
}

#[test]
fn a_report_names_the_lock_the_class_and_the_exception() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        let truth = run(jdk, &logs, None);
        check(jdk, &logs, &truth);
        // Flame graphs lead to the same places.
        let heaviest = |of: &str| {
            let text = report(&logs, &["--flame", of, "--format", "collapsed"]);
            let weight = |line: &&str| {
                line.rsplit_once(' ').and_then(|(_, weight)| weight.parse::<u64>().ok())
            };
            text.lines().max_by_key(weight).unwrap_or_default().to_owned()
        };
        for (of, frames) in [
            ("lock", ["programs.Trouble.handle", "programs.Trouble$Stock.reserve"]),
            ("alloc", ["programs.Trouble$Export.run;programs.Trouble$Export.row", "[new char[]]"]),
            ("exceptions", ["Trouble$Quotes.quote;programs.Trouble$Quotes.price", "NoSuchSymbol]"]),
        ] {
            let stack = heaviest(of);
            assert!(frames.iter().all(|frame| stack.contains(frame)), "{jdk}: {of}: {stack}");
        }
    }
}

/// What the report says first is right.
fn check(jdk: &Jdk, logs: &Path, truth: &BTreeMap<String, f64>) {
    let json: Value =
        serde_json::from_str(&report(logs, &["--format", "json"])).expect("a report in JSON");
    let lock = &json["lock_waits"]["locks"][0];
    assert_eq!(lock["lock"], LOCK, "{jdk}: {lock}");
    // The lock is that of a `synchronized` method, so its caller waits.
    assert_eq!(lock["site"]["method"], "handle", "{jdk}: {lock}");
    let waits = lock["waits"].as_f64().expect("a number");
    assert!(waits <= truth["reservations"] && waits > truth["reservations"] / 4.0, "{jdk}: {lock}");
    let class = &json["allocations"]["classes"][0];
    assert_eq!(class["class"], "char[]", "{jdk}: {class}");
    assert_eq!(class["site"]["method"], "row", "{jdk}: {class}");
    let share = class["bytes"].as_f64().expect("bytes") / truth["exported"];
    assert!((0.8..1.2).contains(&share), "{jdk}: {share} of the bytes");
    let thrown = &json["exceptions"]["rows"][0];
    assert_eq!(thrown["class"], EXCEPTION, "{jdk}: {thrown}");
    assert_eq!(thrown["site"]["method"], "price", "{jdk}: {thrown}");
    assert_eq!(thrown["began"].as_f64(), Some(truth["unknown"]), "{jdk}: {thrown}");
    let message = thrown["examples"][0]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("no such symbol: ?"), "{jdk}: {thrown}");
}

#[test]
fn jfr_agrees_on_the_same_run() {
    for jdk in jdks().iter().filter(|jdk| jdk.has_compiler()) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, recording) = (folder.path().join("logs"), folder.path().join("own.jfr"));
        let truth = run(jdk, &logs, Some(&recording));
        check(jdk, &logs, &truth);
        let events = |name: &str| {
            let mut jfr = Command::new(jdk.home.join("bin/jfr"));
            let out = jfr.args(["print", "--json", "--events", name]).arg(&recording).output();
            let json: Value =
                serde_json::from_slice(&out.expect("jfr runs").stdout).expect("JSON of jfr");
            let events = json["recording"]["events"].as_array().expect("events").clone();
            events.into_iter().map(|event| event["values"].clone()).collect::<Vec<Value>>()
        };
        let of = |event: &Value, field: &str, class: &str| event[field]["name"] == class;
        // Its threshold is that of our recorded waits; some are near it.
        let enters = events("jdk.JavaMonitorEnter");
        let theirs = enters.iter().filter(|e| of(e, "monitorClass", "programs/Trouble$Stock"));
        let theirs = theirs.count() as f64;
        let waits = lock_waits(&Profile::only_run(&logs).folder);
        let ours = waits.iter().filter(|wait| wait.class == LOCK).count() as f64;
        assert!((theirs - ours).abs() < 0.05 * ours, "{jdk}: {theirs} waits, ours are {ours}");
        let thrown = events("jdk.JavaExceptionThrow");
        let is_ours = |e: &&Value| of(e, "thrownClass", "programs/Trouble$NoSuchSymbol");
        let thrown = thrown.iter().filter(is_ours).count() as f64;
        assert_eq!(thrown, truth["unknown"], "{jdk}");
        let mut weights: BTreeMap<String, f64> = BTreeMap::new();
        for event in events("jdk.ObjectAllocationSample") {
            let class = event["objectClass"]["name"].as_str().unwrap_or_default().to_owned();
            *weights.entry(class).or_default() += event["weight"].as_f64().unwrap_or_default();
        }
        let first = weights.iter().max_by(|one, other| one.1.total_cmp(other.1));
        assert_eq!(first.map(|(class, _)| class.as_str()), Some("[C"), "{jdk}: {weights:?}");
    }
}
