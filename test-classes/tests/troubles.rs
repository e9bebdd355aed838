//! A service with a lock that is fought over, an export that allocates, and an endpoint that throws: reports name all
//! three, and JFR and async-profiler agree, each in the same run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use test_classes::{
    Finished, Java, Jdk, Profile, Running, artifacts, async_profiler, classes, jdks, lock_waits,
};

const LOCK: &str = "programs.Trouble$Stock";
const EXCEPTION: &str = "programs.Trouble$NoSuchSymbol";

/// Starts the service, with another profiler before our agent.
fn start(jdk: &Jdk, logs: &Path, other: Option<String>) -> Running {
    let options = format!("port=off,alloc=256k,exception_messages=on,logs={}", logs.display());
    let java = Java::new(jdk).args(other).agent(&options).main(classes(), "programs.Trouble");
    java.arg("6").start()
}

/// Runs the service; the numbers that it printed.
fn run(jdk: &Jdk, logs: &Path, other: Option<String>) -> BTreeMap<String, f64> {
    let finished = start(jdk, logs, other).wait();
    assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
    printed(&finished)
}

fn printed(finished: &Finished) -> BTreeMap<String, f64> {
    let line = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    finished.stdout.lines().filter_map(line).collect()
}

/// JFR's recording to a file.
fn jfr(file: &Path) -> String {
    let events = "jdk.JavaMonitorEnter#threshold=1ms,jdk.JavaExceptionThrow#enabled=true";
    format!("-XX:StartFlightRecording:settings=profile,{events},filename={}", file.display())
}

/// The stack with the greatest weight, from the outermost frame, and the weight of all.
fn heaviest(collapsed: &str) -> (&str, u64) {
    let lines = collapsed.lines().filter_map(|line| {
        let (stack, weight) = line.rsplit_once(' ')?;
        Some((stack, weight.parse::<u64>().ok()?))
    });
    let all = lines.clone().map(|(_, weight)| weight).sum();
    (lines.max_by_key(|(_, weight)| *weight).unwrap_or_default().0, all)
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
        check(jdk, &logs, &truth, true);
        // Flame graphs lead to the same places.
        for (of, frames) in [
            ("lock", ["programs.Trouble.handle", "programs.Trouble$Stock.reserve"]),
            ("alloc", ["programs.Trouble$Export.run;programs.Trouble$Export.row", "[new char[]]"]),
            ("exceptions", ["Trouble$Quotes.quote;programs.Trouble$Quotes.price", "NoSuchSymbol]"]),
        ] {
            let text = report(&logs, &["--flame", of, "--format", "collapsed"]);
            let (stack, _) = heaviest(&text);
            assert!(frames.iter().all(|frame| stack.contains(frame)), "{jdk}: {of}: {stack}");
        }
    }
}

/// What the report says first is right; it has nothing of allocations if another profiler samples them.
fn check(jdk: &Jdk, logs: &Path, truth: &BTreeMap<String, f64>, is_alloc_ours: bool) {
    let json: Value =
        serde_json::from_str(&report(logs, &["--format", "json"])).expect("a report in JSON");
    let lock = &json["lock_waits"]["locks"][0];
    assert_eq!(lock["lock"], LOCK, "{jdk}: {lock}");
    // The lock is that of a `synchronized` method, so its caller waits.
    assert_eq!(lock["site"]["method"], "handle", "{jdk}: {lock}");
    // Waits take 10 ms, so only some owners are asked for. They are in what the method calls that took the lock.
    let holder = lock["longest_holder"].as_str().unwrap_or_default();
    assert!(holder.starts_with("pool-1-thread-"), "{jdk}: {lock}");
    assert_eq!(lock["held_in"][0]["method"], "pause", "{jdk}: {lock}");
    assert_eq!(lock["held_in"][1]["method"], "reserve", "{jdk}: {lock}");
    let waits = lock["waits"].as_f64().expect("a number");
    assert!(waits <= truth["reservations"] && waits > truth["reservations"] / 4.0, "{jdk}: {lock}");
    if is_alloc_ours {
        let class = &json["allocations"]["classes"][0];
        assert_eq!(class["class"], "char[]", "{jdk}: {class}");
        assert_eq!(class["site"]["method"], "row", "{jdk}: {class}");
        let share = class["bytes"].as_f64().expect("bytes") / truth["exported"];
        assert!((0.8..1.2).contains(&share), "{jdk}: {share} of the bytes");
    } else {
        assert!(json["allocations"]["classes"][0].is_null(), "{jdk}: {}", json["allocations"]);
    }
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
        let truth = run(jdk, &logs, Some(jfr(&recording)));
        check(jdk, &logs, &truth, true);
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

#[test]
fn async_profiler_agrees_on_the_same_run() {
    let jdk = jdks().last().expect("a JDK");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = async_profiler(folder.path());
    let path = |name: &str, what: &str| folder.path().join(format!("{name}.{what}"));
    // It takes one of these events at a time, unless it writes JFR.
    let runs = [
        ("lock", "event=lock,lock=1ms,total"),
        ("alloc", "event=alloc,alloc=256k,total"),
        ("throws", "event=programs.Trouble$NoSuchSymbol.<init>"),
    ];
    let started = runs.map(|(name, event)| {
        let (library, file) = (library.display(), path(name, "collapsed"));
        let other = format!("-agentpath:{library}=start,{event},collapsed,file={}", file.display());
        start(jdk, &path(name, "logs"), Some(other))
    });
    for ((name, _), running) in runs.iter().zip(started) {
        let finished = running.wait();
        assert_eq!(finished.status, Some(0), "{name}: {}", finished.stderr);
        let truth = printed(&finished);
        // One agent can sample allocations, the first.
        let is_alloc_ours = *name != "alloc";
        let reported = "the JVM refuses to sample allocations: another agent does";
        assert_ne!(
            finished.stderr.contains(reported),
            is_alloc_ours,
            "{name}: {}",
            finished.stderr
        );
        check(jdk, &path(name, "logs"), &truth, is_alloc_ours);
        let theirs = fs::read_to_string(path(name, "collapsed")).expect("collapsed stacks");
        let (stack, all) = heaviest(&theirs);
        let frames = match *name {
            "lock" => ["Trouble.handle", "Trouble$Stock"],
            "alloc" => ["Trouble$Export.row", "char[]"],
            _ => ["Trouble$Quotes.price", "NoSuchSymbol.<init>"],
        };
        assert!(frames.iter().all(|frame| stack.contains(frame)), "{name}: {stack}");
        if *name == "throws" {
            assert_eq!(all as f64, truth["unknown"], "{theirs}");
        }
    }
}
