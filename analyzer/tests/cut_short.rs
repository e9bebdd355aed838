//! Runs whose end is missing: the JVM was killed, or a file was cut.

use crate::common::{Logs, MS, RunFolder, S, T14, call, counter, method, stack, stats, thread};
use log_format::file_names::Table;
use log_format::rows::{CallRow, Exit, counter as name};

fn run_of_one_method(logs: &Logs) -> RunFolder {
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "com.shop.Dao", "find", "()V")])
        .rows(T14, &[thread(1, "main")])
        .rows(T14, &[stack(1, 0, 1)]);
    run
}

/// A run with an interval of ten seconds with statistics, and a recorded call of 2 ms in each of the first `seconds`.
fn run(logs: &Logs, seconds: u64) -> RunFolder {
    let run = run_of_one_method(logs);
    run.rows(
        T14,
        &[
            counter(T14, name::THRESHOLD_NS, MS),
            counter(T14, name::RECORDED_NS, 10 * S),
            counter(T14, name::RECORDED_CALLS, 10),
        ],
    )
    .rows(T14, &[stats(T14, 1, 0, 20 * MS, &[2 * MS; 10])]);
    let calls: Vec<_> = (0..seconds).map(|s| call(T14 + s * S, 1, 1, 1, 2 * MS)).collect();
    run.rows(T14, &calls);
    run
}

#[test]
fn a_killed_jvm_is_distinguished_from_one_that_ended() {
    let logs = Logs::new();
    let whole = run(&logs, 10);
    let report = logs.analyze(&["logs"]).quiet();
    assert!(!report.contains("missing"), "{report}");
    // These formats read the calls as they write them.
    for format in ["jfr", "chrome-trace"] {
        let out = logs.root().join(format);
        let out = out.to_str().unwrap();
        let outcome = logs.analyze(&["logs", "--format", format, "-o", out]);
        assert_eq!((outcome.status, outcome.stderr.contains("gone")), (0, false), "{outcome:?}");
    }
    // One that was idle for a minute before it ended is whole, too.
    let unfinished = CallRow { exit: Exit::Unfinished, ..call(T14, 1, 1, 1, 70 * S) };
    whole.rows(T14, &[unfinished]);
    let report = logs.analyze(&["logs"]).quiet();
    assert!(!report.contains("missing"), "{report}");

    let logs = Logs::new();
    run(&logs, 26);
    let report = logs.analyze(&["logs"]).quiet();
    let line =
        "method statistics end at 2026-11-20T14:00:10Z, 15.0 s before the last recorded call";
    assert!(report.split_whitespace().collect::<Vec<_>>().join(" ").contains(line), "{report}");
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let cut = &json["missing"]["cut_short"][0];
    assert_eq!(cut["statistics_to"], "2026-11-20T14:00:10Z", "{cut}");
    assert_eq!(cut["recorded_calls_gone"], 0, "{cut}");
    // As the line says.
    let all = logs.analyze(&["logs", "--above", "0ns", "--format", "json"]).json();
    assert_eq!(all["methods"][0]["calls"], 26, "{all}");
    // After the statistics, recorded calls count.
    let later = logs.analyze(&["logs", "--from", "14:00:15", "--format", "json"]).json();
    assert_eq!(later["figures_of"], "recorded_calls", "{later}");
    assert_eq!(later["methods"][0]["calls"], 11, "{later}");
}

#[test]
fn recorded_calls_that_are_gone_are_counted() {
    let logs = Logs::new();
    let run = run(&logs, 10);
    let file = run.file(T14, Table::Calls);
    let text = std::fs::read_to_string(&file).unwrap();
    let cut: String = text.split_inclusive('\n').take(5).collect();
    std::fs::write(&file, cut).unwrap();
    let report = logs.analyze(&["logs"]).quiet();
    let line = "6 recorded calls were written and are gone: a calls.csv was cut or deleted";
    assert!(report.contains(line), "{report}");
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    assert_eq!(json["missing"]["cut_short"][0]["recorded_calls_gone"], 6);
    std::fs::remove_file(&file).unwrap();
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    assert_eq!(json["missing"]["cut_short"][0]["recorded_calls_gone"], 10);
}

/// Of the agent's own logs: other programs need not write counters.
#[test]
fn counters_that_are_gone_are_reported() {
    let frozen = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen/v1/before");
    let run = std::fs::read_dir(frozen).unwrap().next().unwrap().unwrap().path();
    let logs = Logs::new();
    let copy = logs.root().join("logs");
    std::fs::create_dir_all(&copy).unwrap();
    for file in std::fs::read_dir(run).unwrap().flatten() {
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    let report = logs.analyze(&["logs", "--notes"]).quiet();
    assert!(!report.contains("no counters"), "{report}");
    for file in std::fs::read_dir(&copy).unwrap().flatten() {
        if file.file_name().to_string_lossy().contains(".counters.csv") {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
    let report = logs.analyze(&["logs", "--notes"]).quiet();
    assert!(report.contains("no counters: a counters.csv was cut or deleted"), "{report}");
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let without = &json["missing"]["cut_short"][0]["intervals_without_counters"];
    assert!(without.as_u64() > Some(0), "{json}");
}

/// Percentiles are of the calls that are counted: those recorded since the last statistics change nothing.
#[test]
fn calls_after_the_last_statistics_are_in_no_percentile() {
    // In one bucket of the histogram.
    const DURATIONS: [u64; 10] = [22, 22, 22, 22, 22, 22, 25, 25, 25, 25];
    let p50_of = |later: u64| {
        let logs = Logs::new();
        let run = run_of_one_method(&logs);
        let durations = DURATIONS.map(|tenths| tenths * MS / 10);
        run.rows(
            T14,
            &[
                counter(T14, name::THRESHOLD_NS, MS),
                counter(T14, name::RECORDED_NS, 10 * S),
                counter(T14, name::RECORDED_CALLS, 10 + later),
                counter(T14 + 10 * S, name::THRESHOLD_NS, MS),
            ],
        )
        .rows(T14, &[stats(T14, 1, 0, durations.iter().sum(), &durations)]);
        let own = (0..).zip(durations).map(|(s, ns)| call(T14 + s * S, 1, 1, 1, ns));
        let others = (0..later).map(|n| call(T14 + 11 * S + n * MS, 1, 1, 1, 25 * MS / 10));
        run.rows(T14, &own.chain(others).collect::<Vec<_>>());
        let report = logs.analyze(&["logs", "--format", "json"]).json();
        report["methods"][0]["p50_ns"].as_u64().unwrap()
    };
    assert!(p50_of(0).abs_diff(22 * MS / 10) <= MS / 20, "{}", p50_of(0));
    assert_eq!(p50_of(30), p50_of(0));
}
