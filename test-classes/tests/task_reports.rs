//! What `analyze --task` says of requests of a program that knows its own times, with samples of its waits.

use std::process::Command;

use serde_json::Value;
use test_classes::{Java, Jdk, artifacts, at_once, classes, free_port, jdks, tprofiler_json};

/// Time between two snapshots, in milliseconds.
const PERIOD_MS: u64 = 10;

/// An element of a tree: its path of methods, its duration, its self time and its snapshots.
type Row = (String, u64, u64, u64);

fn analyze(arguments: &[&str]) -> String {
    let output = Command::new(&artifacts().analyze).args(arguments).output().expect("analyze runs");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && err.is_empty(), "{arguments:?}: {out}{err}");
    out.into_owned()
}

fn rows(json: &Value) -> Vec<Row> {
    let [tree] = &json["trees"].as_array().expect("trees")[..] else { panic!("one tree: {json}") };
    let mut paths: Vec<String> = Vec::new();
    let elements = tree["elements"].as_array().expect("elements").iter();
    elements
        .map(|element| {
            let number = |key: &str| element[key].as_u64().expect(key);
            let signature = element["code_signature"].as_str().expect("a name");
            let name = signature.rsplit('.').next().unwrap_or_default();
            let name = name.split(':').next().unwrap_or_default();
            let caller = usize::try_from(number("parent_id")).expect("an id").checked_sub(1);
            let path = caller.map_or(name.to_owned(), |caller| format!("{} {name}", paths[caller]));
            paths.push(path.clone());
            (path, number("duration_ms"), number("self_ms"), number("count"))
        })
        .collect()
}

fn find<'r>(rows: &'r [Row], path: &str) -> &'r Row {
    rows.iter().find(|row| row.0 == path).unwrap_or_else(|| panic!("{path} is not in {rows:?}"))
}

/// A duration is that of the call less up to a period, as its first and last snapshot lie in it; scheduling may take
/// another one.
fn expect_duration(row: &Row, known_us: u64) {
    let known_ms = known_us / 1_000;
    assert!(row.1 <= known_ms && known_ms <= row.1 + 2 * PERIOD_MS, "{row:?}: {known_ms} ms");
}

/// The words after a request's start: names and microseconds.
fn times(answer: &str) -> Vec<(String, u64)> {
    let words: Vec<&str> = answer.split(' ').skip(1).collect();
    let pair = |pair: &[&str]| (pair[0].to_owned(), pair[1].parse().expect("a number"));
    words.chunks(2).map(pair).collect()
}

/// The exact calls of the request that waits for a monitor have the wait, and the caller's time without it.
fn expect_wait(folder: &str, times: &[(String, u64)]) {
    let known = |name: &str| times.iter().find(|(of, _)| of == name).expect("a time").1 * 1_000;
    let json = analyze(&["--task=locked", "--format=json", folder]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let rows = json["exact"].as_array().expect("rows");
    let of = |kind: &str, end: &str| {
        let is_it = |row: &&Value| {
            row["kind"] == kind && row["name"].as_str().is_some_and(|name| name.contains(end))
        };
        rows.iter().find(is_it).unwrap_or_else(|| panic!("{kind} {end}: {json}"))
    };
    let wait = of("wait", "blocked on programs.Endpoints$Monitor by holder");
    let (waited, known_wait) = (wait["total_ns"].as_u64().expect("ns"), known("waited"));
    assert!(waited <= known_wait && waited * 10 >= known_wait * 9, "{waited} of {known_wait}");
    let guarded = of("call", ".guarded:");
    assert_eq!(wait["depth"].as_u64(), guarded["depth"].as_u64().map(|depth| depth + 1), "{json}");
    let [total, alone] =
        ["total_ns", "self_ns"].map(|key| guarded[key].as_u64().expect("nanoseconds"));
    assert!(total >= waited && alone <= total - waited, "{json}");
    let text = analyze(&["--task=locked", folder]);
    assert!(text.contains("exact, with waits\n") && text.contains(" blocked on "), "{text}");
}

fn report_has_the_program_s_times(jdk: &Jdk) {
    let (logs, port) = (tempfile::tempdir().expect("a temporary folder"), free_port());
    let folder = logs.path().to_str().expect("a name");
    let options = format!(
        "include=programs.Endpoints,port={port},logs={folder},exclude=programs.Endpoints$Times,\
         exclude=programs.Endpoints.rest,overhead=off,wall=50ms"
    );
    let java = Java::new(jdk).agent(&options).main(classes(), "programs.Endpoints");
    let mut dialogue = java.talk();
    // It listens then.
    dialogue.ask("short");
    let order = ["task", "--endpoint=programs.Endpoints.pay", "--id=t", "--min-duration=100ms"];
    assert_eq!(tprofiler_json(port, &order)["task"]["state"], "running");
    let known: Vec<Vec<(String, u64)>> =
        ["pay", "throwing", "pay"].iter().map(|line| times(&dialogue.ask(line))).collect();
    tprofiler_json(port, &["task", "--cancel=t"]);
    let order = ["task", "--endpoint=programs.Endpoints.pay", "--id=locked"];
    assert_eq!(tprofiler_json(port, &order)["task"]["state"], "running");
    let locked = times(&dialogue.ask("locked"));
    tprofiler_json(port, &["task", "--cancel=locked"]);
    dialogue.end().expect_quiet_success("programs.Endpoints");
    let first = analyze(&[folder]);
    let next = first.lines().find(|line| line.starts_with("Next: ")).expect("what to run next");
    assert!(next.contains(", --tasks, "), "{next}");
    let list = analyze(&["--tasks", folder]);
    assert!(
        list.contains("\nt  finished ") && list.contains(" (cancelled), 3 requests\n"),
        "{list}"
    );
    for (number, known) in (1..).zip(&known) {
        let request = format!("--request={number}");
        let json = analyze(&["--task=t", &request, "--format=json", folder]);
        let rows = rows(&serde_json::from_str(&json).expect("JSON"));
        let us = |name: &str| known.iter().find(|(of, _)| of == name).map(|(_, us)| *us);
        for (name, path) in [("pay", "pay"), ("stock", "pay stock"), ("price", "pay price")] {
            if let Some(us) = us(name) {
                expect_duration(find(&rows, path), us);
            }
        }
        // It slept in them, which no probe sees. What is not known of a moment is self time.
        let slept: u64 =
            rows.iter().filter(|row| row.0.ends_with(" rest sleep")).map(|r| r.1).sum();
        let total = find(&rows, "pay").1;
        assert!(slept <= total && slept * 3 >= total * 2, "{jdk}: {slept} of {total}: {rows:?}");
        assert!(rows.iter().all(|row| !row.0.contains("TProfiler")), "{jdk}: {rows:?}");
    }
    expect_wait(folder, &locked);
    let all = analyze(&["--task=t", "--format=json", folder]);
    let all = rows(&serde_json::from_str(&all).expect("JSON"));
    let pays = known.iter().flatten().filter(|(name, _)| name == "pay").map(|(_, us)| *us);
    let (pay, known_ms) = (find(&all, "pay").1, pays.sum::<u64>() / 1_000);
    assert!(pay <= known_ms && known_ms <= pay + 6 * PERIOD_MS, "{jdk}: {pay} of {known_ms}");
}

#[test]
fn a_task_s_report_has_the_program_s_times() {
    at_once(jdks(), report_has_the_program_s_times);
}
