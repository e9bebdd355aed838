//! Exceptions that left methods: by class and site, as flame graphs, in JSON and JFR, and compared.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::io::Read;

use crate::common::jfr::{chunks, events};
use crate::common::sampled_shop::RUN;
use crate::common::throwing_shop::{OUT_OF_STOCK, TIMEOUT, exceptions, shop};
use crate::common::*;
use flate2::read::GzDecoder;
use log_format::file_names::Table;
use log_format::rows::counter as name;
use serde_json::{Value, json};

const NULL_POINTER: &str = "java.lang.NullPointerException";

fn of_json(logs: &Logs, more: &[&str]) -> Value {
    let json = logs.analyze(&[&["logs", "--format", "json"], more].concat()).json();
    json["exceptions"].clone()
}

/// Of each row: class, method of the site, began, calls that they ended, calls.
fn rows(found: &Value) -> Vec<Value> {
    let row = |row: &Value| {
        let site = &row["site"]["method"];
        json!([row["class"], site, row["began"], row["thrown"], row["calls"]])
    };
    found["rows"].as_array().into_iter().flatten().map(row).collect()
}

#[test]
fn exceptions_are_counted_by_class_and_by_where_they_began() {
    let logs = shop();
    let text = logs.analyze(&["logs"]).quiet();
    let (_, found) = text.rsplit_once("\nExceptions").unwrap();
    assert_golden("exceptions.txt", found);
    let top = logs.analyze(&["logs", "--top", "1"]).quiet();
    let (_, top) = top.rsplit_once("\nExceptions").unwrap();
    assert!(top.contains("    and 2 more rows\n") && !top.contains(TIMEOUT), "{top}");
    let found = of_json(&logs, &[]);
    assert_eq!((&found["figures_of"], &found["began"]), (&"statistics".into(), &86.into()));
    assert!((found["per_s"].as_f64().unwrap() - 86.0 / 7_200.0).abs() < 1e-9, "{found}");
    assert_eq!(
        rows(&found),
        [
            json!([OUT_OF_STOCK, "count", 80, 80, 160]),
            json!([TIMEOUT, "pay", 5, 5, 2_000]),
            json!([OUT_OF_STOCK, "pay", 1, 81, 2_000]),
        ]
    );
    let exit = |row: &Value| json!([row["class"], row["method"]["method"], row["thrown"]]);
    let exits: Vec<Value> = found["exits"].as_array().unwrap().iter().map(exit).collect();
    assert_eq!(
        exits,
        [
            json!([OUT_OF_STOCK, "pay", 81]),
            json!([OUT_OF_STOCK, "count", 80]),
            json!([TIMEOUT, "pay", 5])
        ]
    );
}

#[test]
fn the_last_hour_is_compared_with_the_hour_before() {
    let hours = |found: &Value, place: usize| {
        let row = &found["rows"][place];
        json!([row["last_hour"], row["hour_before"], row["rose"]])
    };
    let logs = shop();
    let found = of_json(&logs, &[]);
    assert_eq!(hours(&found, 0), json!([60, 20, true]));
    assert_eq!(hours(&found, 1), json!([5, 0, false]));
    // Half of the hour before is not selected, then more.
    assert_eq!(hours(&of_json(&logs, &["--from", "14:30"]), 0), json!([60, 20, true]));
    assert_eq!(hours(&of_json(&logs, &["--from", "15:00"]), 0), json!([null, null, false]));
    assert_eq!(hours(&of_json(&logs, &["--to", "15:00"]), 0), json!([null, null, false]));
    // Three JVMs have three times as many.
    for host in ["web08", "web09"] {
        let run = logs.run(&format!("20261120T150000Z-{host}-17"), host, 17);
        let end = counter(T15 + HOUR - 1, name::THRESHOLD_NS, MS);
        run.rows(T15, &[counter(T15, name::RECORDED_NS, HOUR), end]);
    }
    assert_eq!(hours(&of_json(&logs, &[]), 0), json!([60, 20, false]));
}

#[test]
fn examples_have_their_messages_and_stacks() {
    let logs = shop();
    let found = of_json(&logs, &[]);
    let stack = |example: &Value| -> Vec<String> {
        let frames = example["stack"].as_array().unwrap().iter();
        frames.map(|frame| frame["method"].as_str().unwrap().to_owned()).collect()
    };
    let [newest, oldest] = &found["rows"][0]["examples"].as_array().unwrap()[..] else {
        panic!("{found}");
    };
    assert_eq!(stack(newest), ["count", "pay", "handle", "filter", "run", "run"]);
    assert_eq!(stack(oldest), ["count", "pay"]);
    let about = ["run", "start", "start_ns", "thread", "message"].map(|key| &newest[key]);
    let expected =
        json!([RUN, "2026-11-20T15:00:01Z", T15 + S, "exec-2 #3", "no item 17\\u000ain any store"]);
    assert_eq!(json!(about), expected);
    assert_eq!((&oldest["thread"], &oldest["message"]), (&"exec-1 #1".into(), &Value::Null));
    assert_eq!(found["rows"][2]["examples"], json!([]));
}

#[test]
fn exceptions_are_selected_by_time_and_method() {
    let logs = shop();
    let began = |more: &[&str]| of_json(&logs, more)["began"].as_u64().unwrap_or_default();
    assert_eq!(began(&["--from", "15:00"]), 66);
    assert_eq!(began(&["--to", "15:00"]), 20);
    assert_eq!(began(&["--method", "count"]), 80);
    assert_eq!(began(&["--method", "com.shop.order"]), 6);
    assert_eq!(began(&["--method", "nothing"]), 0);
    let of_method = of_json(&logs, &["--method", "count"]);
    assert_eq!(of_method["exits"].as_array().unwrap().len(), 1);
    // Without a rate: what was recorded of the selected time is not known.
    assert_eq!(of_json(&logs, &["--from", "15:00"])["per_s"], Value::Null);
    // Recorded calls are not all calls.
    let thrown = of_json(&logs, &["--exit", "throw"]);
    assert_eq!(rows(&thrown)[0], json!([OUT_OF_STOCK, "count", 80, 80, null]));
}

#[test]
fn json_has_exceptions_by_group() {
    let logs = shop();
    let groups = |by: &str| {
        let row = |row: &Value| {
            json!([row[by], row["class"], row["site"]["method"], row["began"], row["thrown"]])
        };
        let found = of_json(&logs, &["--by", by]);
        found["groups"].as_array().into_iter().flatten().map(row).collect::<Vec<Value>>()
    };
    let hours = groups("hour");
    let began = |hour: &str| -> u64 {
        let rows = hours.iter().filter(|row| row[0] == hour);
        rows.map(|row| row[3].as_u64().unwrap()).sum()
    };
    assert_eq!([began("2026-11-20T14:00Z"), began("2026-11-20T15:00Z")], [20, 66]);
    assert_eq!([&hours[0][0], &hours[0][1]], [&json!("2026-11-20T14:00Z"), &json!(OUT_OF_STOCK)]);
    // Only examples have threads.
    let threads = groups("thread");
    let of_thread: Vec<&Value> = threads.iter().filter(|row| row[0] == "exec-2 #3").collect();
    assert_eq!(of_thread.len(), 2, "{threads:?}");
    assert_eq!(*of_thread[0], json!(["exec-2 #3", OUT_OF_STOCK, "count", 1, null]));
}

#[test]
fn only_examples_have_threads_and_moments() {
    let logs = shop();
    let of_thread = of_json(&logs, &["--thread", "exec-2"]);
    assert_eq!((&of_thread["figures_of"], &of_thread["began"]), (&"examples".into(), &2.into()));
    assert_eq!(
        rows(&of_thread),
        [json!([OUT_OF_STOCK, "count", 1, null, null]), json!([TIMEOUT, "pay", 1, null, null]),]
    );
    assert_eq!((&of_thread["per_s"], &of_thread["exits"]), (&Value::Null, &json!([])));
    let text = logs.analyze(&["logs", "--thread", "exec-2"]).quiet();
    assert!(
        text.contains("Exceptions with --thread are the examples: the first of each"),
        "{text}"
    );
    let heading = "\nExceptions, examples alone: 2 began to leave instrumented methods\n";
    assert!(text.contains(heading), "{text}");
    assert_eq!(of_json(&logs, &["--thread", "nobody"]), Value::Null);
    let short = ["--from", "14:00:00", "--to", "14:00:02"];
    assert_eq!(rows(&of_json(&logs, &short)), [json!([OUT_OF_STOCK, "count", 1, null, null])]);
    let text = logs.analyze(&[&["logs"], &short[..]].concat()).quiet();
    assert!(text.contains("Exceptions in a time shorter than an interval"), "{text}");
}

#[test]
fn without_examples_there_are_counts_and_the_reverse() {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    let examples = [T14, T15].map(|at_ns| run.file(at_ns, Table::ExceptionExamples));
    let kept = examples.each_ref().map(|path| fs::read(path).unwrap());
    examples.iter().for_each(|path| fs::remove_file(path).unwrap());
    let found = of_json(&logs, &[]);
    assert_eq!((&found["began"], &found["rows"][0]["examples"]), (&86.into(), &json!([])));
    assert!(!logs.analyze(&["logs"]).quiet().contains("example"));
    let flame = logs.analyze(&["logs", "--flame", "exceptions", "--format", "collapsed"]);
    let count = format!("com.shop.stock.Stock.count;[throw {OUT_OF_STOCK}] 80\n");
    assert!(flame.stdout.contains(&count), "{}", flame.stdout);
    for (path, text) in examples.iter().zip(kept) {
        fs::write(path, text).unwrap();
    }
    for at_ns in [T14, T15] {
        fs::remove_file(run.file(at_ns, Table::Exceptions)).unwrap();
    }
    let found = of_json(&logs, &[]);
    assert_eq!((&found["figures_of"], &found["began"]), (&"examples".into(), &3.into()));
}

#[test]
fn flame_graphs_of_exceptions_have_the_class_on_top() {
    let logs = shop();
    let flame = |more: &[&str]| logs.analyze(&[&["logs", "--flame", "exceptions"], more].concat());
    let (pay, count) = ("com.shop.order.OrderService.pay", "com.shop.stock.Stock.count");
    let callers = "java.lang.Thread.run;com.shop.Worker.run;com.shop.web.Filter.filter;com.shop.web.Handler.handle";
    let expected = [
        format!("{pay};[throw {OUT_OF_STOCK}] 1\n"),
        format!("{pay};[throw {TIMEOUT}] 5\n"),
        format!("{pay};{count};[throw {OUT_OF_STOCK}] 40\n"),
        format!("{callers};{pay};{count};[throw {OUT_OF_STOCK}] 40\n"),
    ];
    assert_eq!(flame(&["--format", "collapsed"]).stdout, expected.concat());
    let svg = flame(&[]).stdout;
    assert!(svg.contains("Exceptions, where they began") && svg.contains(" exceptions,"), "{svg}");
    let pprof = ["logs", "--flame", "exceptions", "--format", "pprof"];
    let pprof = logs.command(&pprof).output().unwrap();
    let mut profile = Vec::new();
    GzDecoder::new(&pprof.stdout[..]).read_to_end(&mut profile).unwrap();
    let profile = String::from_utf8_lossy(&profile);
    for text in ["examples", "exceptions", "count", "[throw java.net.SocketTimeoutException]"] {
        assert!(profile.contains(text), "{text}");
    }
    let of_thread = flame(&["--thread", "exec-1", "--format", "collapsed"]).stdout;
    assert_eq!(of_thread, format!("{pay};{count};[throw {OUT_OF_STOCK}] 1\n"));
    let nobody = flame(&["--thread", "nobody"]);
    assert!(nobody.stderr.contains("no exceptions are selected"), "{}", nobody.stderr);
    let none = sampled_shop::shop().analyze(&["logs", "--flame", "exceptions"]);
    assert!(none.stderr.contains("no exceptions in these logs; none left"), "{}", none.stderr);
}

#[test]
fn every_example_is_an_event() {
    let logs = shop();
    let recorded = |more: &[&str]| {
        let outcome = logs.analyze(&[&["logs", "--format", "jfr", "-o", "out.jfr"], more].concat());
        assert_eq!(outcome.status, 0, "{outcome:?}");
        let chunks = chunks(&fs::read(logs.root().join("out.jfr")).unwrap());
        events(&chunks, "jdk.JavaExceptionThrow")
    };
    let event = |event: &Value| {
        let [class, thread] =
            [("thrownClass", "name"), ("eventThread", "osName")].map(|(of, key)| &event[of][key]);
        let frames = event["stackTrace"]["frames"].as_array().unwrap();
        let top = &frames[0]["method"]["name"];
        let start = event["startTime"].as_u64().unwrap() - T14;
        json!([start, class, event["message"], thread, top, frames.len()])
    };
    let class = OUT_OF_STOCK.replace('.', "/");
    let second = (HOUR + S, "no item 17\\u000ain any store");
    assert_eq!(
        recorded(&[]).iter().map(event).collect::<Vec<_>>(),
        [
            json!([S, class, null, "exec-1", "count", 2]),
            json!([second.0, class, second.1, "exec-2", "count", 6]),
            json!([HOUR + MIN, TIMEOUT.replace('.', "/"), "Read timed out", "exec-2", "pay", 1]),
        ]
    );
    assert_eq!(recorded(&["--method", "count"]).len(), 2);
    assert_eq!(recorded(&["--thread", "exec-1"]).len(), 1);
    assert_eq!(recorded(&["--from", "15:01"]).len(), 1);
}

#[test]
fn a_throttled_method_may_have_thrown_more() {
    let logs = shop();
    let count = "com.shop.stock.Stock.count(I)J";
    logs.run(RUN, "web07", 4242).rows(T15, &[throttled(T15, count, 1_000_000, 50)]);
    let text = logs.analyze(&["logs"]).quiet();
    let (_, found) = text.rsplit_once("\nExceptions").unwrap();
    assert!(found.contains("         80+ "), "{found}");
    assert!(found.contains("\n+: at least so many; the method was throttled"), "{found}");
    let found = of_json(&logs, &[]);
    let was_throttled = [0, 1].map(|row: usize| found["rows"][row]["was_throttled"].clone());
    assert_eq!(was_throttled, [true, false]);
}

/// Exceptions of an hour of recording, the largest change first.
#[test]
fn a_comparison_has_exceptions() {
    // In as much time 20 more in `count`, fewer timeouts, and a class that is new.
    let after = shop();
    let run = after.run(RUN, "web07", 4242);
    fs::remove_file(run.file(T15, Table::Exceptions)).unwrap();
    run.rows(
        T15,
        &[
            exceptions(T15, 1, OUT_OF_STOCK, [81, 1]),
            exceptions(T15, 2, OUT_OF_STOCK, [80, 80]),
            exceptions(T15, 1, TIMEOUT, [2, 2]),
            exceptions(T15, 1, NULL_POINTER, [9, 9]),
        ],
    );
    let logs = sampled_shop::compared(&shop(), &after);
    let diff = |more: &[&str]| logs.analyze(&[&["diff"], more].concat());
    let text = diff(&["before", "after"]).quiet();
    let (_, found) = text.split_once("\nExceptions that").unwrap();
    assert_golden("diff_exceptions.txt", found);
    let json = diff(&["before", "after", "--per", "call", "--format", "json"]).json();
    let row = |row: &Value| {
        let of = ["was_per_hour", "is_per_hour", "before_began", "after_began"];
        json!([row["class"], row["site"]["method"], of.map(|key| &row[key])])
    };
    assert_eq!(
        json["exceptions"].as_array().unwrap().iter().map(row).collect::<Vec<_>>(),
        [
            json!([OUT_OF_STOCK, "count", [40.0, 50.0, 80, 100]]),
            json!([NULL_POINTER, "pay", [0.0, 4.5, 0, 9]]),
            json!([TIMEOUT, "pay", [2.5, 1.0, 5, 2]]),
            json!([OUT_OF_STOCK, "pay", [0.5, 0.5, 1, 1]]),
        ]
    );
    let top = diff(&["before", "after", "--top", "1"]).quiet();
    assert!(top.ends_with("    and 2 more rows\n"), "{top}");
    let same = diff(&["before", "before"]).quiet();
    assert!(same.ends_with("\nExceptions: no change\n"), "{same}");
    let one = diff(&["none", "after"]).quiet();
    assert!(one.contains("instrumented methods, per hour; none before, or not counted\n"), "{one}");
    assert!(!diff(&["none", "none"]).quiet().contains("Exceptions"));
    // CSV has methods only.
    let csv = diff(&["before", "after", "--format", "csv"]);
    assert!(!csv.stdout.contains(TIMEOUT) && !csv.stderr.contains("xceptions"), "{}", csv.stderr);
}

#[test]
fn lost_exceptions_and_dropped_examples_are_reported() {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    let counters = [(name::EXCEPTIONS_LOST, 7), (name::EXCEPTION_EXAMPLES_DROPPED, 1)];
    run.rows(T14, &counters.map(|(name, value)| counter(T14, name, value)));
    let text = logs.analyze(&["logs", "--notes"]).quiet();
    assert!(text.contains("7 exceptions not counted, for lack of memory"), "{text}");
    assert!(text.contains("1 example of an exception dropped; counts"), "{text}");
    let missing = &logs.analyze(&["logs", "--format", "json"]).json()["missing"];
    assert_eq!(missing["exceptions_lost"], 7);
    assert_eq!(missing["exception_examples_dropped"], 1);
}

#[test]
fn logs_without_exceptions_have_no_section() {
    let logs = sampled_shop::shop();
    assert!(!logs.analyze(&["logs"]).quiet().contains("\nExceptions"));
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    assert!(json.get("exceptions").is_none() && json["missing"].get("exceptions_lost").is_none());
}
