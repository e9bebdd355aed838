//! Report formats for other tools, and call trees: their content for one set of logs, and that their times agree.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;

use crate::common::shop::shop;
use crate::common::*;
use flate2::read::GzDecoder;
use log_format::rows::{CallRow, StatsRow, counter as name};
use serde_json::Value;

fn form(format: &str, more: &[&str]) -> Outcome {
    shop().analyze(&[&["logs", "--format", format], more].concat())
}

/// Writes a format. Its stderr may only say that an unfinished call does not count.
fn golden(name: &str, format: &str, more: &[&str]) -> String {
    let outcome = form(format, more);
    assert_eq!(outcome.status, 0, "{outcome:?}");
    assert_golden(name, &outcome.stdout);
    outcome.stdout
}

/// The sum of the times of collapsed stacks, by frame.
fn times_by_frame(collapsed: &str) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for line in collapsed.lines() {
        let (stack, ns) = line.rsplit_once(' ').unwrap();
        let mut frames: Vec<&str> = stack.split(';').collect();
        frames.sort_unstable();
        frames.dedup();
        for frame in frames {
            *times.entry(frame.to_owned()).or_default() += ns.parse::<u64>().unwrap();
        }
    }
    times
}

/// Like `tprofiler profile -o`.
#[test]
fn a_files_name_says_its_format() {
    let logs = shop();
    for (file, format) in [
        ("out.html", "html"),
        ("out.svg", "flamegraph"),
        ("out.collapsed", "collapsed"),
        ("out.json", "json"),
        ("out.csv", "csv"),
        ("out.txt", "text"),
        ("out", "text"),
    ] {
        let read = |arguments: &[&str]| {
            let outcome = logs.analyze(&[&["logs", "-o", file], arguments].concat());
            assert_eq!(outcome.status, 0, "{file}");
            fs::read_to_string(logs.root().join(file)).unwrap()
        };
        let by_name = read(&[]);
        assert_eq!(by_name, read(&["--format", format]), "{file}");
        assert_eq!(by_name != read(&["--format", "text"]), format != "text", "{file}");
    }
    for arguments in [&["logs", "-o", "out.pdf"][..], &["diff", "logs", "logs", "-o", "out.pdf"]] {
        let refused = logs.analyze(arguments);
        assert_eq!((refused.status, logs.root().join("out.pdf").exists()), (2, false));
        assert!(
            refused.stderr.starts_with("analyze: --output: 'out.pdf' ends in no format's name")
        );
    }
}

#[test]
fn collapsed_stacks_add_up_to_the_total_times() {
    let text = golden("formats.collapsed", "collapsed", &[]);
    let times = times_by_frame(&text);
    let pay = "com.shop.order.OrderService.pay(int, String)";
    assert_eq!(times[pay], 100 * MS);
    assert_eq!(times["com.shop.stock.Stock.count(int)"], 30 * MS);
    assert_eq!(times["com.shop.order.Order.<init>()"], 5 * MS);
    assert_eq!(times["(calls < 1 ms)"], 6 * MS);
    assert_eq!(times["com.shop.Worker.run()"], 40 * MS);
    let outcome = form("collapsed", &[]);
    assert_eq!(outcome.stderr, "analyze: 1 unfinished call is not counted\n");
    let open = form("collapsed", &["--unfinished"]);
    assert_eq!(open.stderr, "");
    // Once, as it was last written; 3 s are self time, 40 ms those of a recorded callee.
    assert_eq!(times_by_frame(&open.stdout)["com.shop.Worker.run()"], 20 * S);
}

#[test]
fn a_call_without_a_path_counts_within_its_callers_only() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "outer", "()V"), method(2, "C", "deep", "()V")]);
    // 2 stands for every path that was not kept.
    run.rows(T14, &[stack(1, 0, 1), stack(2, 0, 0)]);
    let inner = call(T14 + MS, 1, 2, 2, 5 * MS);
    let outer = CallRow { self_ns: MS, ..call(T14, 1, 1, 1, 10 * MS) };
    run.rows(T14, &[inner, outer]);
    run.rows(T14, &[counter(T14, name::RECORDED_CALLS_DROPPED, 7)]);
    run.rows::<StatsRow>(T14, &[]);
    let outcome = logs.analyze(&["logs", "--format", "collapsed"]);
    assert_eq!(outcome.stdout, "C.outer() 1000000\nC.outer();(other calls) 9000000\n");
    let trace = logs.analyze(&["logs", "--format", "chrome-trace"]);
    let dropped =
        "7 recorded calls dropped: their thread's ring was full; method statistics include them";
    for (said, of) in [(&outcome.stderr, "collapsed"), (&trace.stderr, "chrome-trace")] {
        assert!(said.contains(dropped), "{of}: {said}");
    }
    let fate = "are not in call trees; their time is in their callers: 1\n";
    assert!(outcome.stderr.contains(fate), "{}", outcome.stderr);
}

#[test]
fn speedscope_has_the_collapsed_stacks() {
    let text = golden("formats.speedscope.json", "speedscope", &[]);
    let json: Value = serde_json::from_str(&text).unwrap();
    let profile = &json["profiles"][0];
    let frames = json["shared"]["frames"].as_array().unwrap();
    let samples = profile["samples"].as_array().unwrap().iter();
    let mut lines: Vec<String> = samples
        .zip(profile["weights"].as_array().unwrap())
        .map(|(sample, weight)| {
            let places = sample.as_array().unwrap().iter();
            let names = places
                .map(|p| frames[usize::try_from(p.as_u64().unwrap()).unwrap()]["name"].as_str());
            format!("{} {weight}", names.map(Option::unwrap).collect::<Vec<_>>().join(";"))
        })
        .collect();
    lines.sort();
    assert_eq!(lines.join("\n") + "\n", form("collapsed", &[]).stdout);
    assert_eq!(profile["endValue"], 100 * MS);
}

#[test]
fn the_flame_graph_has_every_frame() {
    let svg = golden("formats.svg", "flamegraph", &[]);
    for label in ["Stock.count(int)", "(calls &lt; 1 ms)", "Order.&lt;init&gt;()", "100,000,000 ns"]
    {
        assert!(svg.contains(label), "{label}");
    }
}

#[test]
fn the_trace_has_every_call_in_time() {
    let text = golden("formats.trace.json", "chrome-trace", &[]);
    let json: Value = serde_json::from_str(&text).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let calls: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(calls.len(), 6);
    // The earliest run begins at T14 + 17 ns.
    assert_eq!(json["otherData"]["start_unix_ns"], (T14 + 17).to_string());
    let pay = calls.iter().find(|event| event["args"]["exit"] == "throw").unwrap();
    assert_eq!((pay["ts"].as_f64(), pay["dur"].as_f64()), (Some(4_999_999.983), Some(50_000.0)));
    let outcome = form("chrome-trace", &[]);
    assert_eq!(outcome.stderr, "analyze: 1 unfinished call is not counted\n");
    let outcome = form("chrome-trace", &["--unfinished"]);
    assert_eq!(outcome.stderr, "");
    let open = outcome.stdout;
    let json: Value = serde_json::from_str(&open).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let open: Vec<_> =
        events.iter().filter(|event| event["args"]["exit"] == "unfinished").collect();
    assert_eq!(open.len(), 1);
    assert_eq!(open[0]["dur"].as_f64(), Some(20_000_000.0));
}

#[test]
fn the_profile_for_pprof() {
    let logs = shop();
    let output = logs.command(&["logs", "--format", "pprof"]).output().unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(output.stdout.as_slice()).read_to_end(&mut bytes).unwrap();
    let mut text = String::new();
    fields(&bytes, 0, &mut text);
    assert_golden("formats.pprof.txt", &text);
}

/// The fields of a protobuf message as text, read independently: fields 1, 2, 4 and 5 of the outermost message are
/// messages, and so is field 4 of those in field 4 (locations' lines).
fn fields(mut bytes: &[u8], within: u64, text: &mut String) {
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = key >> 3;
        let indent = if within == 0 { "" } else { "  " };
        if key & 7 == 0 {
            text.push_str(&format!("{indent}{field}: {}\n", varint(&mut bytes)));
            continue;
        }
        assert_eq!(key & 7, 2, "lengths and numbers only");
        let length = usize::try_from(varint(&mut bytes)).unwrap();
        let (inside, rest) = bytes.split_at(length);
        bytes = rest;
        match (within, field) {
            (0, 1 | 2 | 4 | 5) | (4, 4) => {
                text.push_str(&format!("{indent}{field}:\n"));
                fields(inside, if within == 0 { field } else { 99 }, text);
            }
            (0, 6) => text.push_str(&format!("6: {:?}\n", std::str::from_utf8(inside).unwrap())),
            _ => {
                let mut packed = inside;
                let mut numbers = Vec::new();
                while !packed.is_empty() {
                    numbers.push(varint(&mut packed).to_string());
                }
                text.push_str(&format!("{indent}{field}: [{}]\n", numbers.join(", ")));
            }
        }
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

#[test]
fn figures_for_prometheus() {
    let text = golden("formats.prom", "prometheus", &["--unfinished"]);
    assert!(text.contains(
        "tprofiler_method_calls_total{class=\"com.shop.order.OrderService\",method=\"pay\",\
         descriptor=\"(ILjava/lang/String;)Z\"} 3\n"
    ));
    let by_hour = form("prometheus", &["--by", "hour"]).stdout;
    assert!(by_hour.contains("_calls_total{hour=\"2026-11-20T15:00Z\",class="), "{by_hour}");
    assert!(!by_hour.contains("unfinished"), "{by_hour}");
}

#[test]
fn the_files_of_tprofiler() {
    let logs = shop();
    let text = logs.analyze(&["logs", "--format", "tprofiler"]).stdout;
    assert_golden("formats.topmethod.log", &text);
    let written = logs.analyze(&["logs", "--format", "tprofiler", "-o", "out"]);
    assert_eq!((written.status, written.stdout.as_str()), (0, ""));
    let file = |name| fs::read_to_string(logs.root().join("out").join(name)).unwrap();
    assert_eq!(file("topmethod.log"), text);
    // 4.5 ms of self time round to 5; two calls average 3 each.
    assert_eq!(file("topobject.log"), "com/shop/order/Order:<init>:12\t2\t3\t5\n");
}

#[test]
fn call_trees_both_ways() {
    let logs = shop();
    for (order, file) in [("top-down", "tree_down.txt"), ("bottom-up", "tree_up.txt")] {
        let tree = logs.analyze(&["logs", "--tree", order]).quiet();
        assert_golden(file, &tree);
    }
    let open = logs.analyze(&["logs", "--tree", "top-down", "--unfinished"]).quiet();
    assert!(
        open.contains("    20.0 s   99.7%    3.00 s          1  com.shop.Worker.run()"),
        "{open}"
    );
}

#[test]
fn a_tree_below_a_method() {
    let logs = shop();
    let tree = logs.analyze(&["logs", "--tree", "top-down", "--root", "com.shop.stock"]).quiet();
    assert_golden("tree_root.txt", &tree);
    // Callers of the matching method stay, without self time.
    let through =
        logs.analyze(&["logs", "--format", "collapsed", "--method", "com.shop.stock"]).stdout;
    let pay = "com.shop.order.OrderService.pay(int, String)";
    let count = "com.shop.stock.Stock.count(int)";
    assert_eq!(through, format!("{pay};{count} 10000000\n{pay};{count};{count} 20000000\n"));
}

#[test]
fn the_slowest_calls_have_their_trees() {
    let logs = shop();
    let text = logs.analyze(&["logs", "--slowest", "2"]).quiet();
    assert_golden("slowest.txt", &text);
    // A third is from the other run; the callees of the first do not count on their own.
    let three = logs.analyze(&["logs", "--slowest", "3"]).quiet();
    assert!(three.contains(" 3 10.0 ms  com.shop.order.OrderService.pay"), "{three}");
    let count = logs.analyze(&["logs", "--slowest", "9", "--method", "com.shop.stock"]).quiet();
    assert!(count.contains(" 1 30.0 ms  com.shop.stock.Stock.count") && !count.contains("\n  2 "));
    let open = logs.analyze(&["logs", "--slowest", "1", "--unfinished", "--top", "0"]).quiet();
    assert!(open.contains(" 1 20.0 s  com.shop.Worker.run(), unfinished"), "{open}");
    assert!(open.contains("com.shop.order.OrderService.pay(int, String)"), "{open}");
}

#[test]
fn many_callees_do_not_push_a_slow_call_out() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "outer", "()V"), method(2, "C", "inner", "()V")]);
    run.rows(T14, &[stack(1, 0, 1), stack(2, 1, 2), stack(3, 0, 2)]);
    // A call of 4 ms, then one of 20 ms that made three of 6 ms, then an `inner` whose caller was not recorded,
    // before an `outer` that began later.
    run.rows(
        T14,
        &[
            call(T14, 1, 3, 2, 4 * MS),
            call(T14 + 11 * MS, 1, 2, 2, 6 * MS),
            call(T14 + 18 * MS, 1, 2, 2, 6 * MS),
            call(T14 + 24 * MS, 1, 2, 2, 6 * MS),
            // Its path was not kept: it says nothing about the others.
            call(T14 + 25 * MS, 1, 9, 2, MS),
            CallRow { self_ns: 2 * MS, ..call(T14 + 10 * MS, 1, 1, 1, 20 * MS) },
            call(T14 + 40 * MS, 1, 2, 2, 3 * MS),
            call(T14 + 50 * MS, 1, 1, 1, 2 * MS),
        ],
    );
    let text = logs.analyze(&["logs", "--slowest", "4"]).quiet();
    let calls: Vec<&str> = text.lines().filter(|l| l.contains(" at ")).collect();
    assert_eq!(calls.len(), 4, "{text}");
    for rank in ["  1 20.0 ms  C.outer()", "  2 4.00 ms  C.inner()", "  3 3.00 ms  C.inner()"] {
        assert!(text.contains(rank), "{text}");
    }
}

#[test]
fn filters_of_calls() {
    let logs = shop();
    let methods = |args: &[&str]| {
        let csv = logs.analyze(&[&["logs", "--format", "csv"], args].concat());
        let rows = csv.csv_column("method").into_iter().zip(csv.csv_column("calls"));
        rows.map(|(method, calls)| format!("{method} {calls}")).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(methods(&["--thread", "worker"]), "pay 1");
    assert_eq!(methods(&["--thread", "e*-1"]), "count 2, pay 2, <init> 1");
    assert_eq!(methods(&["--exit", "throw"]), "pay 1");
    assert_eq!(methods(&["--above", "30ms"]), "pay 2, count 1");
    assert_eq!(methods(&["--host", "web08"]), "pay 1");
    assert_eq!(methods(&["--run", "*web07*"]), "pay 2, count 3, <init> 2");
    let text = logs.analyze(&["logs", "--thread", "worker"]).quiet();
    assert!(text.contains("With --thread, --exit and --above only calls"), "{text}");
    assert!(!text.contains("--exit and --above select"), "{text}");
    let text = logs.analyze(&["logs", "--above", "30ms"]).quiet();
    assert!(text.contains("--exit and --above select"), "{text}");
    let none = logs.analyze(&["logs", "--host", "db*"]);
    assert_eq!(none.stderr, "analyze: --host, --run: none of 2 runs matches\n");
    assert_eq!(none.status, 2);
    let above = form("collapsed", &["--above", "30ms"]).stdout;
    assert!(above.contains("Stock.count(int);(calls < 30 ms) 20000000\n"), "{above}");
    let threw = form("collapsed", &["--exit", "throw"]).stdout;
    assert!(threw.contains("pay(int, String);(other calls) 38000000\n"), "{threw}");
}

#[test]
fn groups_of_minutes_hosts_classes_and_packages() {
    let logs = shop();
    let groups = |key: &str| {
        let csv = logs.analyze(&["logs", "--format", "csv", "--by", key]);
        let rows = csv.csv_column(key).into_iter().zip(csv.csv_column("calls"));
        rows.map(|(key, calls)| format!("{key} {calls}")).collect::<Vec<_>>()
    };
    assert_eq!(
        groups("minute"),
        [
            "2026-11-20T14:00Z 2",
            "2026-11-20T14:00Z 3",
            "2026-11-20T14:00Z 2",
            "2026-11-20T15:01Z 1"
        ]
    );
    assert_eq!(groups("host"), ["web07 2", "web07 3", "web07 2", "web08 1"]);
    assert_eq!(groups("package"), ["com.shop.order 3", "com.shop.order 2", "com.shop.stock 3"]);
    let of_class = ["com.shop.order.OrderService 3", "com.shop.stock.Stock 3"];
    assert_eq!(groups("class")[..2], of_class);
    // The class is a column already; no name occurs twice.
    let plain = logs.analyze(&["logs", "--format", "csv"]).csv();
    assert_eq!(logs.analyze(&["logs", "--format", "csv", "--by", "class"]).csv()[0], plain[0]);
    for key in ["minute", "host", "class", "package"] {
        let json = logs.analyze(&["logs", "--format", "json", "--by", key]).json();
        assert!(json["methods"][0][key].is_string(), "{key}");
    }
    assert_golden("by_package.txt", &logs.analyze(&["logs", "--by", "package"]).quiet());
}

#[test]
fn a_report_goes_to_a_file_whole_or_not_at_all() {
    let logs = shop();
    for format in ["text", "csv", "json", "collapsed", "chrome-trace", "prometheus"] {
        let said = logs.analyze(&["logs", "--format", format]);
        let written = logs.analyze(&["logs", "--format", format, "-o", "report"]);
        assert_eq!((written.status, written.stdout.as_str()), (0, ""), "{format}");
        assert_eq!(written.stderr, said.stderr, "{format}");
        assert_eq!(fs::read_to_string(logs.root().join("report")).unwrap(), said.stdout);
    }
    let refused = logs.analyze(&["nowhere", "--format", "chrome-trace", "-o", "report"]);
    assert_eq!(refused.status, 2);
    let kept = fs::read_to_string(logs.root().join("report")).unwrap();
    assert_eq!(kept, form("prometheus", &[]).stdout);
    // Before anything is read: nothing is reported about unreadable inputs.
    let no_folder = logs.analyze(&["logs", "nowhere", "-o", "no/report"]);
    assert_eq!(no_folder.status, 2);
    let reason = "analyze: no/report: cannot be written: No such file or directory (os error 2)\n";
    assert_eq!(no_folder.stderr, reason);
    let folder = logs.analyze(&["nowhere", "-o", "logs"]);
    let reason = "analyze: logs: cannot be written: Is a directory (os error 21)\n";
    assert_eq!((folder.status, &*folder.stderr), (2, reason));
    assert_eq!(fs::read_dir(logs.root()).unwrap().count(), 2);
}

#[test]
fn options_without_effect_are_refused() {
    let logs = shop();
    for args in [
        &["--tree", "top-down", "--format", "csv"][..],
        &["--slowest", "3", "--format", "json"],
        &["--slowest", "0"],
        &["--root", "com.shop"],
        &["--by", "hour", "--format", "collapsed"],
        &["--by", "hour", "--tree", "top-down"],
        &["--by", "hour", "--format", "tprofiler"],
        &["--unfinished", "--format", "csv"],
        &["--above", "soon"],
        &["--thread", ""],
    ] {
        let refused = logs.analyze(&[&["logs"], args].concat());
        assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{args:?}");
        assert!(!refused.stderr.is_empty(), "{args:?}");
    }
}

const OF_CALLS: [&str; 5] = ["collapsed", "flamegraph", "speedscope", "chrome-trace", "pprof"];

/// Neither stdout nor a file gets anything, and stderr has one line, which begins like this.
fn expect_nothing(logs: &Logs, args: &[&str], line: &str) {
    for output in [&[][..], &["-o", "report"]] {
        let args = [&["logs"], args, output].concat();
        let outcome = logs.analyze(&args);
        assert_eq!((outcome.status, &*outcome.stdout), (2, ""), "{args:?}");
        assert!(outcome.stderr.starts_with(&format!("analyze: {line}")), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert!(!logs.root().join("report").exists(), "{args:?}");
    }
}

#[test]
fn a_format_of_calls_without_any_is_an_error() {
    let logs = shop();
    for format in OF_CALLS {
        expect_nothing(&logs, &["--format", format, "--method", "com.nobody"], "no ");
        expect_nothing(&logs, &["--format", format, "--above", "1h"], "no ");
        let unfinished =
            ["--format", format, "--method", "com.shop.Worker.run", "--thread", "worker"];
        let only_unfinished = [&unfinished[..], &["--above", "1s"]].concat();
        expect_nothing(&logs, &only_unfinished, "no ");
    }
    expect_nothing(
        &logs,
        &["--format", "pprof", "--root", "com.nobody"],
        "no recorded call was made ",
    );
}

#[test]
fn logs_without_recorded_calls_have_no_call_paths() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "m", "()V")]);
    run.rows(T14, &[stats(T14, 1, 0, 100 * US, &[100 * US])]);
    for format in OF_CALLS {
        let why = if format == "chrome-trace" { "no recorded calls" } else { "no calls: none was" };
        expect_nothing(&logs, &["--format", format], why);
    }
    let why = "no CPU samples in these logs; attach or start the agent with cpu=10ms\n";
    expect_nothing(&logs, &["--flame", "cpu"], why);
    expect_nothing(&logs, &["--flame", "cpu", "--format", "collapsed"], why);
    expect_nothing(&logs, &["--flame", "calls"], "no calls: none was recorded");
    let tree = logs.analyze(&["logs", "--tree", "bottom-up"]).quiet();
    assert!(tree.contains("no calls: none was recorded"), "{tree}");
}

#[test]
fn a_flame_graph_says_which_formats_it_has() {
    let logs = shop();
    for flame in ["calls", "cpu", "wall"] {
        for format in ["csv", "html", "json", "speedscope", "chrome-trace"] {
            let refused = logs.analyze(&["logs", "--flame", flame, "--format", format]);
            assert_eq!(refused.status, 2);
            let line = "analyze: --flame has only --format flamegraph (the default), collapsed and pprof\n";
            assert_eq!(refused.stderr, line, "{flame} {format}");
        }
    }
}

#[test]
fn rubbish_in_a_log_is_no_harm() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "a;b\\\"\u{e9}<&", "m", "(;"), method(2, "", "", "")]);
    // Parents of each other, a missing parent, one that is its own parent.
    run.rows(T14, &[stack(1, 2, 1), stack(2, 1, 2), stack(3, 77, 1), stack(4, 4, 2)]);
    let rubbish = [
        call(u64::MAX, 1, 1, 1, u64::MAX),
        CallRow { self_ns: u64::MAX, ..call(0, 1, 3, 1, 5) },
        CallRow { self_ns: u64::MAX, ..call(T14, 2, 4, 2, 0) },
        call(T14, 9, 3, 1, u64::MAX),
        call(T14, 9, 88, 99, 1),
    ];
    run.rows(T14, &rubbish);
    let drawn =
        ["collapsed", "speedscope", "pprof", "chrome-trace", "jfr", "prometheus", "tprofiler"];
    for format in drawn {
        let args = ["logs", "--format", format, "--above", "0"];
        let output = logs.command(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{format}: {output:?}");
    }
    for args in [&["--tree", "top-down"][..], &["--tree", "bottom-up"], &["--slowest", "9"]] {
        let outcome = logs.analyze(&[&["logs"], args].concat());
        assert_eq!(outcome.status, 0, "{args:?}: {outcome:?}");
    }
    let picture = logs.analyze(&["logs", "--format", "flamegraph", "-o", "graph.svg"]);
    assert_eq!(picture.status, 2);
    assert!(picture.stderr.contains("too large to be drawn"), "{picture:?}");
    assert!(!logs.root().join("graph.svg").exists());
    let collapsed = logs.analyze(&["logs", "--format", "collapsed"]).stdout;
    assert!(collapsed.lines().all(|line| !line.contains("a;b")), "{collapsed}");
    let trace = logs.analyze(&["logs", "--format", "chrome-trace"]).json();
    assert_eq!(trace["traceEvents"].as_array().unwrap().len(), 1 + 3 + 5);
}

#[test]
fn local_times_are_those_of_the_machine() {
    let logs = shop();
    let run = |args: &[&str]| {
        let args = [&["logs", "--local"], args].concat();
        // India's offset has half an hour, given as a zone that needs no file.
        let output = logs.command(&args).env("TZ", "IST-5:30").output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let csv = run(&["--by", "hour", "--format", "csv"]).1;
    let hours: Vec<&str> =
        csv.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    let first = "2026-11-20T19:00+05:30";
    assert_eq!(hours, [first, first, first, "2026-11-20T20:00+05:30"]);
    // 15:01 UTC is 20:31 there; a time with Z is still UTC.
    let calls = |from: &str| {
        let csv = run(&["--format", "csv", "--from", from]).1;
        csv.lines().skip(1).map(str::to_owned).collect::<Vec<_>>().len()
    };
    assert_eq!([calls("20:31"), calls("2026-11-20T20:32"), calls("2026-11-20T15:00Z")], [1, 0, 1]);
    let text = run(&["--slowest", "1", "--from", "19:00"]).1;
    assert!(text.contains("selected  from 2026-11-20T19:00:00+05:30\n"), "{text}");
    assert!(text.contains("    at 2026-11-20T19:30:05.000+05:30 in thread"), "{text}");
    let refused = logs.command(&["logs", "--local"]).env("TZ", "Nowhere/At all").output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.starts_with("analyze: --local: TZ=Nowhere/At all: "), "{said}");
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(run(&["--format", "collapsed"]).0, Some(2));
}
