//! TProfiler's own logs: correct sums of their content, and messages about the rest.

// A panic in the helpers is the test's failure.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::io::Write;

use crate::common::*;
use flate2::write::GzEncoder;

const METHODS: &str = "\
instrumentclass:2 instrumentmethod:5
0 com/shop/Order:<init>:10
1 com/shop/Order:pay:42
2 com/shop/Order:pay:57
3 com/shop/Stock:count:20
4 null:null:0
";

/// Two periods. In thread 15, an exception passed through a call that `pay` made before this one: not all rows deeper
/// than `pay` are its callees.
///
/// ```text
/// thread 12   pay:42 100 { count 60 { count 40 } <init> 10 }       thread 15   pay:42 10 { count 4 }
///             pay:57 20, in the second period                                  pay:57 30, earlier
/// ```
const CALLS: &str = "\
12\t0\t1\t100
12\t1\t0\t10
12\t1\t3\t60
12\t2\t3\t40
15\t1\t1\t10
15\t2\t3\t4
15\t2\t2\t30
=
12\t0\t2\t20
";

fn shop() -> Logs {
    let logs = Logs::new();
    logs.file("tprofiler.log", CALLS);
    logs.file("tmethod.log", METHODS);
    logs
}

/// Method with its line, calls, total and self time, by name.
fn rows(outcome: &Outcome) -> Vec<String> {
    let columns = ["method", "descriptor", "calls", "total_ns", "self_ns"];
    let columns = columns.map(|name| outcome.csv_column(name));
    let mut rows: Vec<String> = (0..columns[0].len())
        .map(|i| {
            let cells: Vec<&str> = columns.iter().map(|column| column[i].as_str()).collect();
            format!("{}{} {} {} {}", cells[0], cells[1], cells[2], cells[3], cells[4])
        })
        .collect();
    rows.sort();
    rows
}

fn csv(logs: &Logs, args: &[&str]) -> Outcome {
    logs.analyze(&[args, &["--format", "csv"]].concat())
}

const IN_MS: [&str; 4] = [
    "<init> 1 10000000 10000000",
    // Of the recursion, only the outermost call is in the total.
    "count 3 64000000 64000000",
    "pay:42 2 110000000 36000000",
    "pay:57 2 50000000 50000000",
];

#[test]
fn every_call_counts_and_no_self_time_is_below_zero() {
    let logs = shop();
    assert_eq!(rows(&csv(&logs, &["logs"])), IN_MS);
    assert_golden("tprofiler.txt", &logs.analyze(&["logs"]).quiet());
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    assert_eq!(json["read"]["tprofiler_logs"], 1);
    assert_eq!(json["read"]["recorded_calls"], 8);
}

#[test]
fn logs_are_found_in_folders_and_by_name_each_once() {
    let logs = shop();
    logs.file("deep/tprofiler.log", "1\t0\t3\t7\n");
    logs.file("deep/tmethod.log", METHODS);
    logs.file("deep/mysqlProfiler.log", "host\t3306\tdb\tselect\tfalse\n");
    let calls = |paths: &[&str]| csv(&logs, paths).csv_column("calls").join(" ");
    assert_eq!(calls(&["logs/deep"]), "1");
    assert_eq!(calls(&["logs/deep/tprofiler.log", "logs/deep", "logs/deep/tmethod.log"]), "1");
    let all = csv(&logs, &["logs"]);
    assert_eq!(rows(&all)[1], "count 4 71000000 71000000");
    // Together with runs of this profiler.
    let run = logs.run("run", "web07", 1);
    run.rows(T14, &[method(1, "C", "m", "()V")]).rows(T14, &[stats(T14, 1, 0, MS, &[MS])]);
    let json = logs.analyze(&["logs", "--by", "run", "--format", "json"]).json();
    assert_eq!(json["read"]["runs"], 3);
    assert_eq!(json["read"]["jvms"], 3);
    let names = json["read"]["run_names"].as_array().unwrap();
    assert_eq!(names[1], "logs/tprofiler.log");
    let rows: Vec<&str> =
        json["methods"].as_array().unwrap().iter().map(|m| m["run"].as_str().unwrap()).collect();
    assert_eq!(rows.iter().filter(|run| **run == "logs/deep/tprofiler.log").count(), 1);
    assert_eq!(rows.iter().filter(|run| **run == "run").count(), 1);
}

#[test]
fn a_day_s_log_has_the_names_of_its_day() {
    let logs = Logs::new();
    logs.file("tprofiler.log.2012-01-30", "1\t0\t0\t7\n=\n");
    logs.file("tprofiler.log.2012-01-31", "1\t0\t0\t7\n=\n");
    logs.file("tprofiler.log", "1\t0\t0\t7\n=\n");
    logs.file("tmethod.log.2012-01-31", "0 A:of31st:1\n");
    logs.file("tmethod.log", "0 A:today:1\n");
    let outcome = csv(&logs, &["logs"]);
    assert_eq!(rows(&outcome), ["of31st 1 7000000 7000000", "today 2 14000000 14000000"]);
    // Names from another folder.
    fs::create_dir(logs.root().join("names")).unwrap();
    let elsewhere = logs.root().join("names/tmethod.log");
    fs::rename(logs.root().join("logs/tmethod.log"), elsewhere).unwrap();
    let outcome = csv(&logs, &["logs/tprofiler.log", "names/tmethod.log"]);
    assert_eq!(rows(&outcome), ["today 1 7000000 7000000"]);
    let alone = logs.analyze(&["names/tmethod.log"]);
    assert_eq!(alone.status, 2);
    let line = "names/tmethod.log: names methods, but there is no tprofiler.log, ignored\n";
    assert_eq!(alone.stderr, format!("analyze: {line}"));
}

#[test]
fn times_are_what_they_can_be_or_what_is_given() {
    let logs = shop();
    let at = |unit: &str| csv(&logs, &["logs", "--tprofiler-unit", unit]);
    assert_eq!(rows(&at("ms")), IN_MS);
    let ns = at("ns");
    assert_eq!(rows(&ns)[3], "pay:57 2 50 50");
    assert!(
        ns.stderr.contains(
            "logs/tprofiler.log: taken for nanoseconds, but TProfiler writes none under 500001: 8 rows"
        ),
        "{}",
        ns.stderr
    );
    logs.file("tprofiler.log", "1\t0\t3\t600000\n1\t0\t3\t500001\n=\n");
    let found = csv(&logs, &["logs"]);
    assert_eq!((found.status, rows(&found)), (0, vec!["count 2 1100001 1100001".to_owned()]));
    assert!(found.stderr.contains("taken for nanoseconds; --tprofiler-unit"), "{}", found.stderr);
    assert_eq!(rows(&at("ms")), ["count 2 1100001000000 1100001000000"]);
    // A line that TProfiler's own analysis understands.
    logs.file("tprofiler.log", "##nano:true\n1\t0\t3\t400000\n=\n");
    assert_eq!(rows(&csv(&logs, &["logs"])), ["count 1 400000 400000"]);
    assert_eq!(logs.analyze(&["logs", "--tprofiler-unit", "s"]).status, 2);
}

#[test]
fn rubbish_and_torn_lines_are_counted_and_harm_no_other() {
    let logs = shop();
    let with = |calls: &str| {
        logs.file("tprofiler.log", calls);
        csv(&logs, &["logs"])
    };
    // A torn row's time would be too short.
    let torn = with(&format!("{CALLS}12\t0\t2\t99"));
    assert_eq!((torn.status, rows(&torn)), (0, IN_MS.map(str::to_owned).to_vec()));
    let text = logs.analyze(&["logs"]).quiet();
    assert!(
        text.contains("8 recorded calls, 0 rows of method statistics, 1 torn line\n"),
        "{text}"
    );
    let rubbish = "x\ty\tz\t1\n\n12\t0\t2\n1\t2\t3\t99999999999999999\n";
    let bad = with(&format!("{rubbish}{CALLS}"));
    assert_eq!((bad.status, rows(&bad)), (0, IN_MS.map(str::to_owned).to_vec()));
    for (number, reason) in [
        (1, "not thread, depth, method and time"),
        (2, "not thread, depth, method and time"),
        (3, "not thread, depth, method and time"),
        (4, "longer than any call"),
    ] {
        let line = format!("analyze: logs/tprofiler.log:{number}: {reason}\n");
        assert!(bad.stderr.contains(&line), "{}", bad.stderr);
    }
    logs.file("tmethod.log", &format!("{METHODS}3 com/shop/Other:count:1\nrubbish\n9 a/B:m"));
    let bad = with(CALLS);
    assert_eq!(rows(&bad), IN_MS);
    assert!(
        bad.stderr.contains("tmethod.log:7: method 3 has another name in an earlier row"),
        "{}",
        bad.stderr
    );
    assert!(bad.stderr.contains("tmethod.log:8: not number, class, method"), "{}", bad.stderr);
    // If the file is cut at any point, its whole rows are read.
    for length in 0..CALLS.len() {
        let cut = with(&CALLS[..length]);
        assert_eq!(cut.status, 0, "cut at {length}: {}", cut.stderr);
        let calls: u64 = cut.csv_column("calls").iter().map(|n| n.parse::<u64>().unwrap()).sum();
        let whole = CALLS[..length].matches('\n').count() - CALLS[..length].matches("=\n").count();
        assert_eq!(calls, whole as u64, "cut at {length}");
    }
}

#[test]
fn without_names_methods_are_shown_by_number() {
    let logs = Logs::new();
    logs.file("tprofiler.log", CALLS);
    let outcome = logs.analyze(&["logs"]);
    assert_eq!(outcome.status, 0);
    let line = "logs/tprofiler.log: no tmethod.log beside it, its methods are shown by number\n";
    assert_eq!(outcome.stderr, format!("analyze: {line}"));
    assert!(outcome.stdout.contains("missing   logs/tmethod.log\n"), "{}", outcome.stdout);
    assert!(
        outcome.stdout.contains("  1 method #3 (unknown, run logs/tprofiler.log)\n"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn threads_and_patterns_select_and_times_of_day_leave_out() {
    let logs = shop();
    let threads = csv(&logs, &["logs", "--by", "thread"]);
    assert_eq!(threads.csv_column("thread").concat().matches("thread #15").count(), 3);
    let pay = csv(&logs, &["logs", "--method", "com.shop.Order.pay"]);
    assert_eq!(rows(&pay), IN_MS[2..]);
    let none = logs.analyze(&["logs", "--method", "com.other"]).quiet();
    assert!(none.contains("no calls in methods named by com.other"), "{none}");
    let from = logs.analyze(&["logs", "--from", "2012-01-31"]);
    let line = "--from, --to: these are only TProfiler's logs, which have no times\n";
    assert_eq!((from.status, from.stderr), (2, format!("analyze: {line}")));
    let run = logs.run("run", "web07", 1);
    run.rows(T14, &[method(1, "C", "m", "()V")]).rows(T14, &[stats(T14, 1, 0, MS, &[MS])]);
    for (args, what) in [
        (["--by", "hour"], "hours"),
        (["--by", "minute"], "minutes"),
        (["--from", "14:00"], "--from and --to"),
    ] {
        let outcome = csv(&logs, &[&["logs"], args.as_slice()].concat());
        assert_eq!((outcome.status, outcome.csv_column("method")), (1, vec!["m".to_owned()]));
        let line = format!("tprofiler.log: TProfiler's logs have no times, not part of {what}\n");
        assert!(outcome.stderr.contains(&line), "{}", outcome.stderr);
    }
    let packages = csv(&logs, &["logs/tprofiler.log", "--by", "package"]);
    assert_eq!(packages.csv_column("package"), vec!["com.shop"; packages.csv().len() - 1]);
}

#[test]
fn logs_without_paths_and_times_are_skipped_by_formats_that_need_them() {
    let logs = shop();
    for (args, of, status) in [
        (&["--format", "collapsed"][..], "of single calls and call paths", 2),
        (&["--tree", "top-down"], "of single calls and call paths", 1),
        (&["--slowest", "2"], "of single calls and call paths", 1),
        (&["--format", "chrome-trace"], "of a trace: they have no times", 2),
        (&["--format", "jfr", "-o", "out.jfr"], "of a recording: they have no times", 2),
        (&["--exit", "throw"], "of --thread and --exit: they do not tell", 1),
    ] {
        let outcome = logs.analyze(&[&["logs"], args].concat());
        let line = format!("tprofiler.log: TProfiler's logs are not part {of}\n");
        assert!(outcome.stderr.contains(&line), "{args:?}: {}", outcome.stderr);
        assert_eq!(outcome.status, status, "{args:?}");
    }
    // Its own reports come out unchanged, with the line of tmethod.log.
    let top = logs.analyze(&["logs", "--format", "tprofiler"]);
    assert!(top.stdout.contains("com/shop/Order:pay:57\t"), "{}", top.stdout);
    let above = logs.analyze(&["logs", "--format", "tprofiler", "--above", "1h"]);
    assert_eq!((above.status, above.stdout.as_str()), (0, ""));
    let refused = logs.analyze(&["diff", "logs", "logs", "--format", "pprof"]);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("possible values: text, csv, json"), "{}", refused.stderr);
}

#[test]
fn compressed_logs_and_a_comparison_by_call() {
    let logs = shop();
    logs.file("after/tmethod.log", METHODS);
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(CALLS.replace("\t20\n", "\t40\n").as_bytes()).unwrap();
    fs::write(logs.root().join("logs/after/tprofiler.log.gz"), encoder.finish().unwrap()).unwrap();
    let args = ["diff", "logs/tprofiler.log", "logs/after", "--format", "csv"];
    let by_hour = logs.analyze(&args);
    assert_eq!(by_hour.status, 2);
    let line = "logs/tprofiler.log: these logs have no recorded time; use --per call\n";
    assert_eq!(by_hour.stderr, format!("analyze: {line}"));
    let by_call = logs.analyze(&[&args[..], &["--per", "call"]].concat());
    assert_eq!(by_call.status, 0);
    assert_eq!(
        by_call.csv()[1][..6],
        ["com.shop.Order", "pay", ":57", "slower", "20000000", "40.000"]
    );
    let text = logs.analyze(&["diff", "logs/tprofiler.log", "logs/after", "--per", "call"]);
    assert!(text.stdout.contains("Slower, by time added in all"), "{}", text.stdout);
    let failing = ["--per", "call", "--fail-above", "30%", "--min-time", "20ms"];
    assert_eq!(logs.analyze(&[&args[..], &failing].concat()).status, 3);
}
