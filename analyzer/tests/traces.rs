//! Calls of traced methods: by caller, as flame graphs and in JSON.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::io::Read;

use crate::common::sampled_shop::{self, RUN};
use crate::common::traced_shop::{shop, traced};
use crate::common::*;
use flate2::read::GzDecoder;
use log_format::rows::counter as name;
use serde_json::{Value, json};

#[test]
fn traced_methods_have_their_callers() {
    let logs = shop();
    let text = logs.analyze(&["logs"]).quiet();
    let (_, found) = text.split_once("\nTraced").unwrap();
    assert_golden("traces.txt", found);
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let row = |row: &Value| {
        let callers = row["callers"].as_array().unwrap().iter();
        let callers: Vec<Value> =
            callers.map(|caller| json!([caller["method"]["method"], caller["calls"]])).collect();
        json!([row["method"]["method"], row["calls"], row["samples"], callers])
    };
    let rows: Vec<Value> = json["traced"].as_array().unwrap().iter().map(row).collect();
    assert_eq!(
        rows,
        [
            json!(["count", 8_000, 80, [["pay", 6_000], ["count", 2_000]]]),
            json!(["pay", 800, 8, [["[no caller]", 800]]]),
        ]
    );
    let minutes = json!([
        { "start": "2026-11-20T14:00:00Z", "calls": 500 },
        { "start": "2026-11-20T14:01:00Z", "calls": 300 },
    ]);
    assert_eq!(json["traced"][1]["minutes"], minutes);
}

#[test]
fn traced_calls_are_selected_by_time_thread_and_method() {
    let logs = shop();
    let calls = |more: &[&str]| -> u64 {
        let json = logs.analyze(&[&["logs", "--format", "json"], more].concat()).json();
        let rows = json["traced"].as_array().map(Vec::as_slice).unwrap_or_default();
        rows.iter().map(|row| row["calls"].as_u64().unwrap()).sum()
    };
    assert_eq!(calls(&[]), 8_800);
    assert_eq!(calls(&["--from", "14:01"]), 300);
    assert_eq!(calls(&["--thread", "exec-1"]), 8_500);
    assert_eq!(calls(&["--method", "count"]), 8_000);
    assert_eq!(calls(&["--method", "nothing"]), 0);
}

#[test]
fn json_has_traced_calls_by_group() {
    let logs = shop();
    let groups = |by: &str| {
        let json = logs.analyze(&["logs", "--format", "json", "--by", by]).json();
        let rows = json["traced"][1]["groups"].as_array().unwrap().clone();
        rows.iter().map(|row| json!([row[by], row["calls"]])).collect::<Vec<Value>>()
    };
    assert_eq!(
        groups("minute"),
        [json!(["2026-11-20T14:00Z", 500]), json!(["2026-11-20T14:01Z", 300])]
    );
    let threads = groups("thread");
    assert_eq!(threads.iter().map(|row| row[1].as_u64().unwrap()).sum::<u64>(), 800);
}

#[test]
fn flame_graphs_have_traced_calls_by_stack() {
    let logs = shop();
    let flame = |more: &[&str]| logs.analyze(&[&["logs", "--flame", "trace"], more].concat());
    let collapsed = flame(&["--format", "collapsed"]).stdout;
    let (pay, count) = ("com.shop.order.OrderService.pay", "com.shop.stock.Stock.count");
    for line in
        [format!("{pay} 800\n"), format!("{pay};{count} 6000\n"), format!("{count};{count} 2000\n")]
    {
        assert!(collapsed.contains(&line), "{collapsed}");
    }
    let svg = flame(&[]).stdout;
    assert!(
        svg.contains("Calls of traced methods, by samples") && svg.contains(" calls,"),
        "{svg}"
    );
    let pprof = logs.command(&["logs", "--flame", "trace", "--format", "pprof"]).output().unwrap();
    let mut profile = Vec::new();
    GzDecoder::new(&pprof.stdout[..]).read_to_end(&mut profile).unwrap();
    assert!(String::from_utf8_lossy(&profile).contains("traced_calls"));
    let nobody = flame(&["--thread", "nobody"]);
    assert!(nobody.stderr.contains("no traced calls are selected"), "{}", nobody.stderr);
    let none = sampled_shop::shop().analyze(&["logs", "--flame", "trace"]);
    assert!(none.stderr.contains("no traced calls in these logs"), "{}", none.stderr);
}

/// A comparison shows which caller of a traced method calls it more often. Methods traced on one side only have nothing
/// to be compared with.
#[test]
fn a_comparison_has_callers_of_traced_methods() {
    let logs = Logs::new();
    for (side, more) in [("before", 1), ("after", 60), ("none", 0)] {
        let shop = if more > 0 { shop() } else { sampled_shop::shop() };
        let run = shop.run(RUN, "web07", 4242);
        run.rows(T14, &[counter(T14, name::RECORDED_NS, MIN)]);
        if more > 0 {
            run.rows(T14, &[traced(T14 + S, 1, 2, more, 3)]);
        }
        fs::rename(shop.root().join("logs"), logs.root().join(side)).unwrap();
    }
    let diff = |more: &[&str]| logs.analyze(&[&["diff"], more].concat());
    let text = diff(&["before", "after"]).quiet();
    let (_, found) = text.split_once("\nCalls of traced").unwrap();
    assert_golden("diff_traces.txt", found);
    let json = diff(&["before", "after", "--format", "json"]).json();
    let row = |row: &Value| {
        let of = ["was_per_hour", "is_per_hour", "before_samples", "after_samples"];
        let names = ["method", "caller"].map(|key| &row[key]["method"]);
        json!([names, of.map(|key| &row[key]), row["is_clear"]])
    };
    let rows: Vec<Value> = json["traced"].as_array().unwrap().iter().map(row).collect();
    assert_eq!(
        rows,
        [
            json!([["count", "pay"], [366_000, 720_000, 61, 120], true]),
            json!([["pay", "[no caller]"], [48_000, 48_000, 8, 8], false]),
            json!([["count", "count"], [120_000, 120_000, 20, 20], false]),
        ]
    );
    let same = diff(&["before", "before"]).quiet();
    assert!(same.ends_with("\nCalls of traced methods: no clear change\n"), "{same}");
    for sides in [["none", "after"], ["before", "none"]] {
        assert!(!diff(&sides).quiet().contains("traced"), "{sides:?}");
    }
}

#[test]
fn dropped_samples_are_reported_and_logs_without_any_have_no_section() {
    let logs = sampled_shop::shop();
    assert!(!logs.analyze(&["logs"]).quiet().contains("Traced"));
    assert!(logs.analyze(&["logs", "--format", "json"]).json().get("traced").is_none());
    let run = logs.run(RUN, "web07", 4242);
    run.rows(T14, &[counter(T14, name::TRACE_SAMPLES_DROPPED, 7)]);
    let text = logs.analyze(&["logs", "--notes"]).quiet();
    assert!(text.contains("7 sampled calls of traced methods dropped"), "{text}");
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    assert_eq!(json["missing"]["trace_samples_dropped"], 7);
}
