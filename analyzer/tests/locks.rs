//! Waits for monitors: by lock class and method, in the tree of a slow call, as flame graphs and in JSON.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::io::Read;

use crate::common::locked_shop::{JOURNAL, SLOW, lock_wait, locks, shop};
use crate::common::sampled_shop::{RUN, STOCK};
use crate::common::*;
use flate2::read::GzDecoder;
use log_format::file_names::Table;
use log_format::rows::{LockKind, LockRow, LockWaitRow, counter as name};
use serde_json::{Value, json};

/// Of each row: lock class, method of the site, waits, total, p50, p99 and longest wait in microseconds, and the
/// longest holder.
fn rows(logs: &Logs, more: &[&str]) -> Vec<Value> {
    let json = logs.analyze(&[&["logs", "--format", "json"], more].concat()).json();
    let rows = json["lock_waits"]["locks"].as_array().cloned().unwrap_or_default();
    let row = |row: &Value| {
        let us = |key: &str| row[key].as_u64().unwrap() / US;
        let [total, p50, p99, max] = ["total_ns", "p50_ns", "p99_ns", "max_ns"].map(us);
        let site = &row["site"]["method"];
        json!([row["lock"], site, row["waits"], total, p50, p99, max, row["longest_holder"]])
    };
    rows.iter().map(row).collect()
}

#[test]
fn waits_are_summed_up_by_lock_and_method() {
    let logs = shop();
    let text = logs.analyze(&["logs"]).quiet();
    let (_, waits) = text.split_once("\nLock waits").unwrap();
    assert_golden("locks.txt", waits);
    // 10 of 14 waits in `count` took 100 us, 4 took 1, 1, 4 and 8 ms.
    assert_eq!(
        rows(&logs, &[]),
        [
            json!([STOCK, "pay", 1, 30_000, 30_000, 30_000, 30_000, "exec-1"]),
            json!([JOURNAL, "pay", 1, 20_000, 20_000, 20_000, 20_000, "exec-2"]),
            json!([STOCK, "count", 14, 15_000, 114, 8_000, 8_000, "exec-7"]),
            json!([STOCK, "reserve", 1, 15_000, 15_000, 15_000, 15_000, null]),
            json!([STOCK, null, 1, 10_000, 10_000, 10_000, 10_000, null]),
        ]
    );
    let top = logs.analyze(&["logs", "--top", "2"]).quiet();
    assert!(top.contains("    and 3 more rows\n"), "{top}");
}

#[test]
fn json_has_the_sums_and_the_longest_waits() {
    let logs = shop();
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let waits = &json["lock_waits"];
    assert_eq!((&waits["figures_of"], &waits["waits"]), (&"statistics".into(), &18.into()));
    assert_eq!(waits["total_ns"], 90 * MS);
    let longest = waits["longest"].as_array().unwrap();
    let ms: Vec<u64> = longest.iter().map(|w| w["wait_ns"].as_u64().unwrap() / MS).collect();
    assert_eq!(ms, [30, 20, 15, 10, 8, 4, 1, 1]);
    let first = json!({
        "run": RUN,
        "thread": "exec-2 #2",
        "owner": "exec-1 #1",
        "held_in": [],
        "lock": STOCK,
        "start": "2026-11-20T14:00:05Z",
        "start_ns": SLOW + 12 * MS,
        "wait_ns": 30 * MS,
    });
    assert_eq!((&longest[0], &longest[2]["owner"]), (&first, &Value::Null));
    // Outside the JDK.
    for held_in in [&longest[1]["held_in"], &waits["locks"][1]["held_in"]] {
        let names = held_in.as_array().unwrap().iter().map(|method| method["method"].clone());
        assert_eq!(names.collect::<Vec<_>>(), ["reserve", "count", "pay"]);
        let reserve = json!({"class": STOCK, "method": "reserve", "descriptor": "()V"});
        assert_eq!(held_in[0], reserve);
    }
}

#[test]
fn waits_are_selected_by_time_thread_and_method() {
    let logs = shop();
    // Statistics by their interval, holders by the start of the wait.
    let minute = [json!([STOCK, "count", 2, 2_000, 1_000, 1_000, 1_000, "exec-1"])];
    assert_eq!(rows(&logs, &["--from", "14:01"]), minute);
    assert_eq!(rows(&logs, &["--to", "14:01"])[3], {
        json!([STOCK, "count", 12, 13_000, 114, 8_000, 8_000, "exec-7"])
    });
    assert_eq!(rows(&logs, &["--method", "reserve"]).len(), 1);
    // Only recorded waits have threads.
    let of_thread = [
        json!([JOURNAL, "pay", 1, 20_000, 20_000, 20_000, 20_000, "exec-2"]),
        json!([STOCK, "reserve", 1, 15_000, 15_000, 15_000, 15_000, null]),
        json!([STOCK, "count", 2, 12_000, 3_670, 8_000, 8_000, "exec-7"]),
        json!([STOCK, null, 1, 10_000, 10_000, 10_000, 10_000, null]),
    ];
    assert_eq!(rows(&logs, &["--thread", "exec-1"]), of_thread);
    let text = logs.analyze(&["logs", "--thread", "exec-1"]).quiet();
    assert!(text.contains("Lock waits with --thread are those at or over the threshold"), "{text}");
    assert!(text.contains("\nLock waits, recorded ones alone: 57.0 ms in 5 waits\n"), "{text}");
    // Times shorter than an interval have only recorded waits too.
    let short = ["--from", "14:00:05", "--to", "14:00:06"];
    assert_eq!(rows(&logs, &short).len(), 4);
    let text = logs.analyze(&[&["logs"], &short[..]].concat()).quiet();
    assert!(text.contains("Lock waits in a time shorter than an interval"), "{text}");
}

#[test]
fn json_has_waits_by_group() {
    let logs = shop();
    let groups = |by: &str| {
        let json = logs.analyze(&["logs", "--format", "json", "--by", by]).json();
        let row = |row: &Value| {
            json!([row[by], row["lock"], row["site"]["method"], row["waits"], row["total_ns"]])
        };
        let rows = json["lock_waits"]["groups"].as_array().cloned().unwrap_or_default();
        rows.iter().map(row).collect::<Vec<Value>>()
    };
    let minutes = groups("minute");
    let sum: u64 = minutes.iter().map(|row| row[4].as_u64().unwrap()).sum();
    assert_eq!((minutes.len(), sum), (6, 90 * MS));
    assert_eq!(minutes[0], json!(["2026-11-20T14:00Z", STOCK, "pay", 1, 30 * MS]));
    assert_eq!(minutes[5], json!(["2026-11-20T14:01Z", STOCK, "count", 2, 2 * MS]));
    // Only recorded waits have threads.
    let threads = groups("thread");
    let of_first: Vec<&Value> = threads.iter().filter(|row| row[0] == "exec-1 #1").collect();
    assert_eq!(
        (of_first.len(), of_first[0]),
        (4, &json!(["exec-1 #1", JOURNAL, "pay", 1, 20 * MS]))
    );
    assert_eq!(groups("class"), [Value::Null; 0]);
}

#[test]
fn without_statistics_recorded_waits_count() {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    fs::remove_file(run.file(T14, Table::Locks)).unwrap();
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let waits = &json["lock_waits"];
    assert_eq!((&waits["figures_of"], &waits["waits"]), (&"recorded_waits".into(), &8.into()));
    assert_eq!(waits["total_ns"], 89 * MS);
    let notes = json["notes"].to_string();
    assert!(notes.contains("Lock waits without statistics of this time are those"), "{notes}");
}

#[test]
fn waits_of_two_runs_add_up() {
    let logs = shop();
    let other = logs.run("20261120T150000Z-web08-17", "web08", 17);
    other.rows(T15, &[method(7, STOCK, "count", "(I)J")]).rows(T15, &[thread(1, "exec-9")]);
    other.rows(T15, &[locks(T15, STOCK, 7, &[20 * MS])]).rows(T15, &[stack(1, 0, 7)]);
    other.rows(T15, &[lock_wait(T15 + S, [1, 1], STOCK, 20 * MS, 1)]);
    let first = json!([STOCK, "count", 15, 35_000, 114, 20_000, 20_000, "exec-9"]);
    assert_eq!(rows(&logs, &[])[0], first);
}

#[test]
fn a_slow_call_has_its_waits_below_the_call_that_waited() {
    let logs = shop();
    assert_golden("locks_slowest.txt", &logs.analyze(&["logs", "--slowest", "1"]).quiet());
    let first = logs.analyze(&["logs"]).quiet();
    assert!(
        first_screen(&first).contains(
            "   20.0 ms   20.0%   20.0 ms          1    blocked on com.shop.log.Journal.class by exec-2, seen in\n"
        ),
        "{first}"
    );
    // Without recorded waits, the tree is as ever.
    let run = logs.run(RUN, "web07", 4242);
    fs::remove_file(run.file(T14, Table::LockWaits)).unwrap();
    let text = logs.analyze(&["logs", "--slowest", "1"]).quiet();
    assert!(!text.contains("blocked on"), "{text}");
    assert!(text.contains("  100 ms  100.0%   40.0 ms          1  com.shop.order"), "{text}");
}

#[test]
fn flame_graphs_of_waits_have_the_lock_on_top() {
    let logs = shop();
    let flame = |more: &[&str]| logs.analyze(&[&["logs", "--flame", "lock"], more].concat());
    let pay = "com.shop.order.OrderService.pay";
    let count = format!("{pay};com.shop.stock.Stock.count");
    assert_eq!(
        flame(&["--format", "collapsed"]).quiet().lines().collect::<Vec<_>>(),
        [
            format!("{pay};[lock com.shop.log.Journal.class] 20000000"),
            format!("{pay};[lock com.shop.stock.Stock] 40000000"),
            format!("{count};[lock com.shop.stock.Stock] 14000000"),
            format!("{count};com.shop.stock.Stock.reserve;[lock com.shop.stock.Stock] 15000000"),
        ]
    );
    let of_thread = flame(&["--format", "collapsed", "--thread", "exec-2"]).stdout;
    assert_eq!(of_thread.lines().count(), 2, "{of_thread}");
    let svg = flame(&[]).quiet();
    assert!(svg.contains("Waits for locks") && svg.contains("[lock com.shop.log.Journal.class]"));
    let pprof = logs.command(&["logs", "--flame", "lock", "--format", "pprof"]).output().unwrap();
    let mut profile = Vec::new();
    GzDecoder::new(&pprof.stdout[..]).read_to_end(&mut profile).unwrap();
    let profile = String::from_utf8_lossy(&profile);
    for text in ["waits", "lock", "nanoseconds", "[lock com.shop.stock.Stock]"] {
        assert!(profile.contains(text), "{text}");
    }
    let refused = flame(&["--method", "pay"]);
    assert_eq!(refused.status, 2, "{}", refused.stdout);
    let nobody = flame(&["--thread", "nobody"]);
    assert!(nobody.stderr.contains("no recorded lock waits are selected"), "{}", nobody.stderr);
    let none = sampled_shop::shop().analyze(&["logs", "--flame", "lock"]);
    assert!(none.stderr.contains("no recorded lock waits in these logs"), "{}", none.stderr);
}

#[test]
fn parks_for_other_things_are_apart_from_locks() {
    const SYNC: &str = "java.util.concurrent.locks.ReentrantLock$NonfairSync";
    const QUEUE: &str = "java.util.concurrent.SynchronousQueue";
    let logs = shop();
    let of = |kind, row: LockRow| LockRow { kind, ..row };
    let wait = |kind, row: LockWaitRow| LockWaitRow { kind, ..row };
    let run = logs.run(RUN, "web07", 4242);
    run.rows(
        T14,
        &[
            of(LockKind::Lock, locks(T14, SYNC, 2, &[7 * MS])),
            of(LockKind::Park, locks(T14, QUEUE, 1, &[50 * MS])),
            // An idle thread.
            of(LockKind::Park, locks(T14, QUEUE, 0, &[900 * MS])),
        ],
    );
    run.rows(
        T14,
        &[
            wait(LockKind::Lock, lock_wait(SLOW + 50 * MS, [1, 2], SYNC, 7 * MS, 2)),
            wait(LockKind::Park, lock_wait(SLOW + 92 * MS, [1, 0], QUEUE, 5 * MS, 1)),
        ],
    );
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let waits = &json["lock_waits"];
    assert_eq!((&waits["waits"], &waits["total_ns"]), (&19.into(), &(97 * MS).into()));
    let lock = waits["locks"].as_array().unwrap().iter().find(|row| row["lock"] == SYNC).unwrap();
    assert_eq!((&lock["kind"], &lock["longest_holder"]), (&"lock".into(), &"exec-2".into()));
    let parks = waits["parks"].as_array().unwrap();
    assert_eq!(parks.len(), 1);
    assert_eq!((&parks[0]["kind"], &parks[0]["lock"]), (&"park".into(), &QUEUE.into()));
    let longest = waits["longest"].to_string();
    assert!(longest.contains(SYNC) && !longest.contains(QUEUE), "{longest}");
    let text = logs.analyze(&["logs"]).quiet();
    let (_, parks) = text.split_once("\nOther parks in instrumented methods").unwrap();
    assert_golden("parks.txt", parks);
    let slowest = logs.analyze(&["logs", "--slowest", "1"]).quiet();
    // Without line breaks.
    let words = slowest.split_whitespace().collect::<Vec<_>>().join(" ");
    for named in [format!("blocked on {SYNC} by exec-2"), format!("parked for {QUEUE}")] {
        assert!(words.contains(&named), "{slowest}");
    }
    let flame = logs.analyze(&["logs", "--flame", "lock", "--format", "collapsed"]).quiet();
    assert!(flame.contains(SYNC) && !flame.contains(QUEUE), "{flame}");
}

/// Waits of an hour of recording, the largest change first.
#[test]
fn a_comparison_has_lock_waits() {
    const SYNC: &str = "java.util.concurrent.locks.ReentrantLock$NonfairSync";
    // In twice the time the same, 60 ms more in `count`, and a lock that is new.
    let after = shop();
    let of = |kind, class: &str, ns| LockRow { kind, ..locks(T14, class, 1, &[ns]) };
    after
        .run(RUN, "web07", 4242)
        .rows(T14, &[counter(T14 + MIN, name::RECORDED_NS, 2 * MIN)])
        .rows(
            T14,
            &[
                locks(T14, STOCK, 2, &[20 * MS; 3]),
                of(LockKind::Lock, SYNC, 7 * MS),
                of(LockKind::Park, SYNC, 900 * MS),
            ],
        );
    let logs = sampled_shop::compared(&shop(), &after);
    let diff = |more: &[&str]| logs.analyze(&[&["diff"], more].concat());
    let text = diff(&["before", "after"]).quiet();
    let (_, waits) = text.split_once("\nLock waits, ").unwrap();
    assert_golden("diff_locks.txt", waits);
    let json = diff(&["before", "after", "--per", "call", "--format", "json"]).json();
    let row = |row: &Value| {
        let times = ["was_ns", "is_ns", "cost_ns"].map(|key| row[key].as_i64().unwrap());
        let [was, is, cost] = times.map(|ns| ns / 1_000_000);
        let waits = (&row["before_waits"], &row["after_waits"]);
        json!([row["kind"], row["lock"], row["site"]["method"], was, is, cost, waits.0, waits.1])
    };
    let rows: Vec<Value> = json["lock_waits"].as_array().unwrap().iter().map(row).collect();
    let expected = [
        json!(["monitor", STOCK, "count", 450, 1_125, 675, 14, 17]),
        json!(["monitor", STOCK, "pay", 900, 450, -450, 1, 1]),
        json!(["monitor", JOURNAL, "pay", 600, 300, -300, 1, 1]),
        json!(["monitor", STOCK, "reserve", 450, 225, -225, 1, 1]),
        json!(["monitor", STOCK, null, 300, 150, -150, 1, 1]),
        json!(["lock", SYNC, "pay", 0, 105, 105, 0, 1]),
    ];
    assert_eq!(rows, expected);
    let top = diff(&["before", "after", "--top", "2"]).quiet();
    assert!(top.ends_with("    and 4 more rows\n"), "{top}");
    let same = diff(&["before", "before"]).quiet();
    assert!(same.ends_with("\nLock waits: no change\n"), "{same}");
    let one = diff(&["none", "after"]).quiet();
    assert!(
        one.contains("\nLock waits, by time added or saved per hour; none before, or not"),
        "{one}"
    );
    assert!(!diff(&["none", "none"]).quiet().contains("Lock waits"));
    // CSV has methods only.
    let csv = diff(&["before", "after", "--format", "csv"]);
    assert!(!csv.stdout.contains(JOURNAL) && !csv.stderr.contains("ock waits"), "{}", csv.stderr);
}

#[test]
fn dropped_waits_are_reported() {
    let logs = shop();
    logs.run(RUN, "web07", 4242).rows(T14, &[counter(T14, "lock_waits_dropped", 7)]);
    let text = logs.analyze(&["logs", "--notes"]).quiet();
    assert!(text.contains("7 recorded lock waits dropped; statistics"), "{text}");
    logs.run(RUN, "web07", 4242).rows(T14, &[counter(T14, "lock_seconds_skipped", 29)]);
    let skipped = logs.analyze(&["logs"]).quiet();
    assert!(skipped.contains("\nLock waits, not counted in 29 s: "), "{skipped}");
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    assert_eq!(json["missing"]["lock_waits_dropped"], 7);
}

#[test]
fn logs_without_locks_have_no_section() {
    let logs = sampled_shop::shop();
    assert!(!logs.analyze(&["logs"]).quiet().contains("Lock waits"));
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    assert!(
        json.get("lock_waits").is_none() && json["missing"].get("lock_waits_dropped").is_none()
    );
}
