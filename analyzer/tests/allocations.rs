//! Sampled allocations: by class and site, as flame graphs, in JSON and JFR, and compared.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::io::Read;

use crate::common::allocating_shop::{allocated, shop};
use crate::common::jfr::{chunks, events};
use crate::common::sampled_shop::RUN;
use crate::common::*;
use flate2::read::GzDecoder;
use log_format::rows::{CallRow, counter as name};
use serde_json::{Value, json};

/// The stack of `hash` alone.
const HASH: u32 = 9;

#[test]
fn allocations_are_summed_up_by_class_and_by_site() {
    let logs = shop();
    let text = logs.analyze(&["logs"]).quiet();
    let (_, allocations) = text.split_once("\nAllocations").unwrap();
    assert_golden("allocations.txt", allocations);
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let found = &json["allocations"];
    let sums = ["bytes", "objects", "samples"].map(|key| found[key].as_u64().unwrap());
    assert_eq!(sums, [10_000_000, 44_350, 20]);
    let row =
        |row: &Value| json!([row["class"], row["site"]["method"], row["bytes"], row["samples"]]);
    let rows = |key: &str| found[key].as_array().unwrap().iter().map(row).collect::<Vec<_>>();
    assert_eq!(
        rows("classes"),
        [
            json!(["byte[]", "pay", 8_500_000, 17]),
            json!(["com.shop.Item", "pay", 1_000_000, 2]),
            json!(["java.util.HashMap$Node[]", "count", 500_000, 1]),
        ]
    );
    // What the JDK allocates counts for its caller.
    assert_eq!(
        rows("sites"),
        [json!(["byte[]", "pay", 7_500_000, 15]), json!(["byte[]", "count", 2_500_000, 5])]
    );
}

/// What outermost recorded calls allocated is summed up by their method, and told of each of the slowest.
#[test]
fn recorded_calls_say_what_they_allocated() {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    let of =
        |at, thread, bytes| CallRow { allocated_bytes: bytes, ..call(at, thread, 1, 1, 3 * S) };
    run.rows(
        T14,
        &[
            of(T14 + S, 1, Some(1_000_000)),
            of(T14 + 9 * S, 1, Some(400_000_000)),
            of(T14 + 2 * S, 2, None),
        ],
    );
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let [row] = json["allocated_in_recorded_calls"].as_array().unwrap().as_slice() else {
        panic!("{json}")
    };
    let figures = ["calls", "allocated_bytes", "max_allocated_bytes"].map(|of| row[of].as_u64());
    assert_eq!(figures, [Some(2), Some(401_000_000), Some(400_000_000)]);
    let text = logs.analyze(&["logs"]).quiet();
    let name = row["method"].as_str().unwrap();
    assert!(
        text.contains("Allocated in recorded calls of platform threads: 401 MB, most in ")
            && text.contains(name),
        "{text}"
    );
    let text = logs.analyze(&["logs", "--slowest", "5"]).quiet();
    let figures = text.lines().filter_map(|line| line.split_once("allocated ")).map(|(_, of)| of);
    assert_eq!(figures.collect::<Vec<_>>(), ["1.00 MB", "400 MB"], "{text}");
    let trace = logs.analyze(&["logs", "--format", "chrome-trace"]).stdout;
    assert!(trace.contains("\"allocated_bytes\":400000000"), "{trace}");
    // The time selects calls.
    let from = ["logs", "--format", "json", "--from", "14:00:05"];
    let json = logs.analyze(&from).json();
    assert_eq!(json["allocated_in_recorded_calls"][0]["calls"], 1);
}

/// Rates are of the time in the hour in which allocations were sampled.
#[test]
fn several_hours_have_their_rates() {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    for hour in 0..8 {
        let at = T14 + hour * HOUR;
        run.rows(at, &[counter(at, name::RECORDED_NS, 2_000 * S)]);
        let sampled_s = if hour == 0 { 950 } else { 1_000 };
        run.rows(at, &[counter(at, name::ALLOCATION_NS, sampled_s * S)]);
        if hour > 0 {
            run.rows(at, &[allocated(at + MIN, 1, "byte[]", [hour * 2_000_000, 1, 1], 1)]);
        }
    }
    let end = T14 + 7 * HOUR + 1_000 * S;
    run.rows(end, &[counter(end, name::THRESHOLD_NS, MS)]);
    let rates = |more: &[&str]| {
        let text = logs.analyze(&[&["logs"], more].concat()).quiet();
        let (_, found) = text.split_once("\nAllocations").unwrap();
        found.split("\n\n").nth(1).unwrap().to_owned()
    };
    assert_eq!(
        rates(&[]),
        "  2026-11-20T14:00Z        10.0 kB a second\n  \
           2026-11-20T17:00Z        6.00 kB a second\n  \
           2026-11-20T18:00Z        8.00 kB a second\n  \
           2026-11-20T19:00Z        10.0 kB a second\n  \
           2026-11-20T20:00Z        12.0 kB a second\n  \
           2026-11-20T21:00Z        14.0 kB a second\n    and 2 hours with less"
    );
    // A part of an hour: 940 s of it with allocations sampled.
    assert_eq!(
        rates(&["--from", "20:01", "--to", "21:30"]),
        "  2026-11-20T20:00Z        12.8 kB a second\n  \
           2026-11-20T21:00Z        14.0 kB a second"
    );
    assert!(!rates(&["--from", "21:00"]).contains("a second"));
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let minutes = json["allocations"]["minutes"].as_array().unwrap();
    assert_eq!(minutes.len(), 9);
    assert_eq!(minutes[0], json!({"start": "2026-11-20T14:00:00Z", "bytes": 9_500_000}));
    assert_eq!(minutes[8], json!({"start": "2026-11-20T21:01:00Z", "bytes": 14_000_000}));
}

#[test]
fn allocations_are_selected_by_time_thread_and_method() {
    let logs = shop();
    let bytes = |more: &[&str]| {
        let json = logs.analyze(&[&["logs", "--format", "json"], more].concat()).json();
        json["allocations"]["bytes"].as_u64().unwrap_or_default()
    };
    assert_eq!(bytes(&["--from", "14:01"]), 500_000);
    assert_eq!(bytes(&["--thread", "exec-1"]), 9_500_000);
    assert_eq!(bytes(&["--method", "count"]), 2_500_000);
    assert_eq!(bytes(&["--method", "nothing"]), 0);
}

#[test]
fn json_has_allocations_by_group() {
    let logs = shop();
    let rows = |by: &str, rows: &str| -> Vec<Value> {
        let json = logs.analyze(&["logs", "--format", "json", "--by", by]).json();
        let found = json["allocations"][rows].as_array().unwrap();
        let of = |row: &Value| match rows {
            "classes" => json!([row[by], row["class"], row["bytes"]]),
            _ => json!([row[by], row["site"]["method"], row["bytes"]]),
        };
        found.iter().map(of).collect()
    };
    let exec = "exec-1 #1";
    assert_eq!(
        rows("thread", "classes"),
        [
            json!(["GC Thread#0 #2", "byte[]", 500_000]),
            json!([exec, "byte[]", 8_000_000]),
            json!([exec, "com.shop.Item", 1_000_000]),
            json!([exec, "java.util.HashMap$Node[]", 500_000]),
        ]
    );
    assert_eq!(
        rows("minute", "sites"),
        [
            json!(["2026-11-20T14:00Z", "pay", 7_000_000]),
            json!(["2026-11-20T14:00Z", "count", 2_500_000]),
            json!(["2026-11-20T14:01Z", "pay", 500_000]),
        ]
    );
    assert_eq!(rows("host", "sites")[0], json!(["web07", "pay", 7_500_000]));
    // Classes are rows anyway.
    assert_eq!(rows("package", "classes")[0], json!([null, "byte[]", 8_500_000]));
}

#[test]
fn flame_graphs_of_allocations_have_the_class_on_top() {
    let logs = shop();
    let flame = |more: &[&str]| logs.analyze(&[&["logs", "--flame", "alloc"], more].concat());
    let pay = "com.shop.order.OrderService.pay";
    let collapsed = flame(&["--format", "collapsed"]).stdout;
    assert!(collapsed.contains(&format!("{pay};[new byte[]] 6500000\n")), "{collapsed}");
    assert!(collapsed.contains(&format!("{pay};[new com.shop.Item] 1000000\n")), "{collapsed}");
    assert_eq!(collapsed.lines().count(), 4, "{collapsed}");
    let svg = flame(&[]).stdout;
    assert!(svg.contains("Allocated bytes, by samples") && svg.contains(" bytes,"), "{svg}");
    let pprof = logs.command(&["logs", "--flame", "alloc", "--format", "pprof"]).output().unwrap();
    let mut profile = Vec::new();
    GzDecoder::new(&pprof.stdout[..]).read_to_end(&mut profile).unwrap();
    let profile = String::from_utf8_lossy(&profile);
    for text in ["samples", "alloc_space", "bytes", "[new com.shop.Item]"] {
        assert!(profile.contains(text), "{text}");
    }
    let nobody = flame(&["--thread", "nobody"]);
    assert!(nobody.stderr.contains("no sampled allocations are selected"), "{}", nobody.stderr);
    let none = sampled_shop::shop().analyze(&["logs", "--flame", "alloc"]);
    assert!(none.stderr.contains("no sampled allocations in these logs"), "{}", none.stderr);
}

#[test]
fn every_sample_is_an_event() {
    let logs = shop();
    let outcome = logs.analyze(&["logs", "--format", "jfr", "-o", "out.jfr"]);
    assert_eq!(outcome.status, 0, "{outcome:?}");
    let chunks = chunks(&fs::read(logs.root().join("out.jfr")).unwrap());
    let sample = |event: &Value| {
        (
            event["objectClass"]["name"].as_str().unwrap().to_owned(),
            event["weight"].as_u64().unwrap(),
        )
    };
    let samples: Vec<_> =
        events(&chunks, "jdk.ObjectAllocationSample").iter().map(sample).collect();
    assert_eq!(samples.len(), 20);
    assert_eq!(samples.iter().map(|(_, weight)| weight).sum::<u64>(), 10_000_000);
    assert_eq!(samples.iter().filter(|(class, _)| class == "com/shop/Item").count(), 2);
}

/// A comparison shows where more is allocated, without what may be chance.
#[test]
fn a_comparison_has_allocations() {
    let logs = Logs::new();
    for (side, items) in [("before", 30), ("after", 90), ("none", 0)] {
        let shop = if items > 0 { shop() } else { sampled_shop::shop() };
        let run = shop.run(RUN, "web07", 4242);
        run.rows(T14, &[counter(T14, name::RECORDED_NS, MIN)]);
        if items > 0 {
            let sum = [items * 500_000, items * 20_000, items];
            run.rows(T14, &[allocated(T14 + S, 1, "com.shop.Item", sum, HASH)]);
        }
        fs::rename(shop.root().join("logs"), logs.root().join(side)).unwrap();
    }
    let diff = |more: &[&str]| logs.analyze(&[&["diff"], more].concat());
    let text = diff(&["before", "after"]).quiet();
    let (_, found) = text.split_once("\nAllocated").unwrap();
    assert_golden("diff_allocations.txt", found);
    let json = diff(&["before", "after", "--per", "call", "--format", "json"]).json();
    let row = |row: &Value| {
        let of = ["was_bytes", "is_bytes", "before_samples", "after_samples"];
        json!([row["class"], row["site"]["method"], of.map(|key| &row[key]), row["is_clear"]])
    };
    let rows: Vec<Value> = json["allocations"].as_array().unwrap().iter().map(row).collect();
    // Of a minute, scaled to an hour.
    let of_minutes = |was: u64, is: u64, before: u64, after: u64| {
        json!([60_000_000 * was, 60_000_000 * is, before, after])
    };
    assert_eq!(
        rows[..3],
        [
            json!(["com.shop.Item", null, of_minutes(16, 46, 32, 92), true]),
            json!([null, "hash", of_minutes(15, 45, 30, 90), true]),
            json!(["byte[]", null, [510_000_000, 510_000_000, 17, 17], false]),
        ]
    );
    assert_eq!(rows.len(), 6);
    let same = diff(&["before", "before"]).quiet();
    let none =
        "\nAllocated bytes by class: no clear change\n\nAllocated bytes by site: no clear change\n";
    assert!(same.ends_with(none), "{same}");
    assert!(!diff(&["none", "after"]).quiet().contains("Allocated"));
    // CSV has methods only.
    let csv = diff(&["before", "after", "--format", "csv"]);
    assert!(!csv.stdout.contains("Item") && !csv.stderr.contains("Allocated"), "{}", csv.stderr);
}

#[test]
fn dropped_samples_are_reported() {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    run.rows(T14, &[counter(T14, name::ALLOCATION_SAMPLES_DROPPED, 7)]);
    let text = logs.analyze(&["logs", "--notes"]).quiet();
    assert!(text.contains("7 sampled allocations dropped"), "{text}");
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    assert_eq!(json["missing"]["allocation_samples_dropped"], 7);
}

#[test]
fn logs_without_allocations_have_no_section() {
    let logs = sampled_shop::shop();
    assert!(!logs.analyze(&["logs"]).quiet().contains("Allocations"));
    assert!(logs.analyze(&["logs", "--format", "json"]).json().get("allocations").is_none());
}
