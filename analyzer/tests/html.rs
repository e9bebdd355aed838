//! The report as a page: it embeds what the logs contain, and a real browser shows it.
//!
//! If there is no browser, that is reported on stderr; with `REQUIRE_READERS=1` it is a failure. `scripts/browser.sh`
//! fetches it.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::cast_possible_truncation)]

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::shop::shop;
use crate::common::*;
use log_format::rows::{CallRow, EventRow, Exit, LockKind, LockRow, counter as name, event};
use serde_json::{Value, json};

/// Most bytes of a page, whatever the logs contain.
const MOST_BYTES: u64 = 10_000_000;

fn page(logs: &Logs, more: &[&str]) -> (PathBuf, Value) {
    let (said, path, data) = page_with_messages(logs, more);
    assert_eq!(said, "");
    (path, data)
}

/// What stderr says, the page, and the data in it.
fn page_with_messages(logs: &Logs, more: &[&str]) -> (String, PathBuf, Value) {
    let outcome =
        logs.analyze(&[&["logs", "--format", "html", "-o", "report.html"], more].concat());
    assert_eq!(outcome.status, 0, "{outcome:?}");
    let path = logs.root().join("report.html");
    let text = fs::read_to_string(&path).unwrap();
    (outcome.stderr, path, browser::data(&text))
}

/// Opens the page in a browser, if there is one.
fn check(page: &Path) {
    // For people who want to look: a folder for pictures.
    let pictures = std::env::var_os("PICTURES").map(PathBuf::from);
    let arguments: Vec<&Path> = [Some(page), pictures.as_deref()].into_iter().flatten().collect();
    if let Some(said) = browser::run("check.mjs", &[], &arguments) {
        assert_eq!(said, "the page holds\n");
    }
}

fn numbers(column: &Value) -> Vec<u64> {
    column.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

#[test]
fn the_page_has_the_figures_of_the_other_reports() {
    let logs = shop();
    let (path, data) = page(&logs, &[]);
    let methods = &data["methods"];
    assert_eq!(data["percentiles"], "within 2% for recorded calls, 25% for others");
    let csv = logs.analyze(&["logs", "--format", "csv"]);
    for (column, of_csv) in
        [("calls", "calls"), ("throws", "throws"), ("total", "total_ns"), ("own", "self_ns")]
    {
        let expected: Vec<u64> =
            csv.csv_column(of_csv).iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(numbers(&methods[column]), expected, "{column}");
    }
    let classes = csv.csv_column("class");
    let of: Vec<&Value> =
        numbers(&methods["class"]).iter().map(|at| &data["classes"][*at as usize]).collect();
    assert!(of.len() >= classes.len() && classes.iter().zip(&of).all(|(a, b)| *b == a));
    // The call paths are those of the collapsed stacks.
    let collapsed = logs.analyze(&["logs", "--format", "collapsed"]).stdout;
    let sum = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    let all_ns: u64 = collapsed.lines().map(sum).sum();
    assert_eq!(numbers(&data["paths"]["total"])[0], all_ns);
    assert_eq!(numbers(&data["paths"]["own"]).iter().sum::<u64>(), all_ns);
    assert!(data["frames"].as_array().unwrap().contains(&"(calls < 1 ms)".into()));
    // What happened when: calls from the method statistics, and every recorded call once.
    let hours = &data["hours"];
    let calls: u64 = csv.csv_column("calls").iter().map(|text| text.parse::<u64>().unwrap()).sum();
    assert_eq!(numbers(&hours["calls"]).iter().sum::<u64>(), calls);
    assert_eq!(numbers(&hours["recorded"]).iter().sum::<u64>(), 6);
    assert_eq!(numbers(&data["minutes"]["calls"]).iter().sum::<u64>(), calls);
    // The slowest calls, each in its thread, and which of them are within another one.
    let slow: Vec<usize> = data["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["start"].as_array().unwrap().len())
        .collect();
    assert_eq!(slow.iter().sum::<usize>(), 6);
    assert_eq!(data["unfinished"][0]["running"], 20 * S);
    check(&path);
}

/// Charts have only methods that were measured all the time; odd counts make axes that need whole numbers.
#[test]
fn charts_have_only_methods_that_were_measured_all_the_time() {
    let logs = Logs::new();
    let run = logs.run("20261120T140000Z-web07-4242", "web07", 4242);
    let methods = [method(1, "Pay", "pay", "()V"), method(2, "Page", "draw", "()V")];
    run.rows(T14, &methods).rows(T15, &methods);
    let throttled =
        |at_ns, kind| EventRow { method: "Page.draw()V".into(), ..EventRow::new(at_ns, kind) };
    run.rows(T14, &[throttled(T14 + 2 * MIN, event::THROTTLED)]);
    for at in [T14, T14 + MIN, T15] {
        run.rows(at, &[stats(at, 1, 0, 3 * MS, &[MS; 3])]);
    }
    run.rows(T14, &[stats(T14, 2, 0, S, &[MS; 1_000])]);
    let (path, data) = page(&logs, &[]);
    assert_eq!(data["partial_methods"], 1);
    assert_eq!(numbers(&data["minutes"]["calls"]), [3, 3, 3]);
    assert_eq!(numbers(&data["hours"]["calls"]), [6, 3]);
    assert_eq!(numbers(&data["methods"]["calls"]).iter().sum::<u64>(), 1_009);
    check(&path);
}

#[test]
fn nothing_in_a_log_is_more_than_text() {
    let logs = Logs::new();
    let run = logs.run("run", "<script>alert(1)</script>", 1);
    let evil = "</script><script>document.title='x'</script>";
    run.rows(T14, &[method(1, &format!("a.{evil}"), "<img src=x onerror=alert(1)>", "()V")]);
    run.rows(T14, &[thread(1, "<b>\u{2028}\"'&amp;")]).rows(T14, &[stack(1, 0, 1)]);
    run.rows(T14, &[stats(T14, 1, 1, MS, &[5 * MS])]).rows(T14, &[call(T14, 1, 1, 1, 5 * MS)]);
    let (path, data) = page(&logs, &[]);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("</script>").count(), 2, "the page's own");
    assert!(!text.contains("<img") && !text.contains("<b>"));
    assert!(data["methods"]["name"][0].as_str().unwrap().contains("<img src=x"));
    check(&path);
}

#[test]
fn a_log_with_nothing_in_it_is_a_page_that_says_so() {
    let logs = Logs::new();
    logs.run("run", "web", 1).rows(T14, &[counter(T14, name::RECORDED_CALLS, 0)]);
    let (said, path, data) = page_with_messages(&logs, &[]);
    let reason = data["empty"].as_str().unwrap();
    assert!(reason.starts_with("no calls"), "{reason}");
    assert_eq!(said, format!("analyze: {reason}\n"));
    assert!(fs::metadata(&path).unwrap().len() < 100_000);
    check(&path);
}

#[test]
fn options_that_a_page_has_no_use_for_are_refused() {
    let logs = shop();
    for (options, why) in [
        (&["--by", "hour"][..], "--by: the page has everything in one"),
        (&["--tree", "top-down"], "--tree prints text"),
        (&["--slowest", "3"], "--slowest prints text"),
        (&["--sort", "calls"], "--sort and --top: the page has every method"),
        (&["--top", "3"], "--sort and --top: the page has every method"),
        (&["--root", "com.shop"], "--root is for call paths"),
    ] {
        let outcome = logs.analyze(&[&["logs", "--format", "html"], options].concat());
        assert_eq!(outcome.status, 2);
        assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
    }
    let (_, data) = page(&logs, &["--thread", "exec-1", "--from", "14:00", "--to", "15:00"]);
    assert_eq!(data["of_records"], true);
    assert_eq!(numbers(&data["hours"]["calls"]), [4]);
}

/// A pseudo-random number (splitmix64).
fn random(of: u64) -> u64 {
    let mut x = of.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

const METHODS: u32 = 50_000;

/// 50,000 methods in 200 threads with as many call paths, with long names and figures that pack badly.
fn large_log() -> Logs {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    let class = |id: u32| {
        format!(
            "com.shop.{}.Service{}Implementation",
            ["order", "stock", "customer"][id as usize % 3],
            id / 10
        )
    };
    let methods: Vec<_> = (1..=METHODS)
        .map(|id| {
            method(
                id,
                &class(id),
                &(0..12)
                    .map(|i| format!("{:016x}", random(u64::from(id) * 12 + i)))
                    .collect::<String>(),
                "(Lcom/shop/Request;ILjava/lang/String;)V",
            )
        })
        .collect();
    run.rows(T14, &methods);
    let threads: Vec<_> = (1..=200).map(|id| thread(id, &format!("http-exec-{id}"))).collect();
    run.rows(T14, &threads);
    // A tree of all methods, each the caller of some of the next.
    let stacks: Vec<_> = (1..=METHODS).map(|id| stack(id, id / 4, id)).collect();
    run.rows(T14, &stacks);
    for hour in 0..3 {
        let at = T14 + hour * HOUR;
        let totals: Vec<_> = (1..=METHODS)
            .map(|id| {
                let durations: Vec<u64> = (0..12).map(|i| US << (i + id % 8)).collect();
                stats(
                    at + u64::from(id % 60) * MIN,
                    id,
                    u64::from(id % 7 == 0),
                    random(id.into()) >> 24,
                    &durations,
                )
            })
            .collect();
        run.rows(at, &totals);
        let records: Vec<_> = (1..=METHODS)
            .map(|id| {
                let start = at + u64::from(id) * 70 * MS;
                let exit = if id % 9 == 0 { Exit::Throw } else { Exit::Return };
                CallRow {
                    exit,
                    self_ns: random(start) % MS,
                    ..call(start, 1 + id % 200, id, id, (1 + u64::from(id) * 7_919 % 3_000) * MS)
                }
            })
            .collect();
        run.rows(at, &records);
    }
    logs
}

#[test]
fn a_large_log_is_a_page_under_10_mb() {
    let logs = large_log();
    let (path, data) = page(&logs, &[]);
    // For people who want to measure it.
    if let Some(keep) = std::env::var_os("KEEP_PAGE") {
        fs::copy(&path, keep).unwrap();
    }
    let bytes = fs::metadata(&path).unwrap().len();
    assert!(bytes < MOST_BYTES, "{bytes}");
    let embedded = data["methods"]["calls"].as_array().unwrap().len() as u64;
    let rest = data["not_shown"]["methods"].as_u64().unwrap();
    assert_eq!(embedded + rest, u64::from(METHODS));
    assert!(embedded > 5_000 && rest > 0, "{embedded}");
    let calls: u64 = numbers(&data["methods"]["calls"]).iter().sum();
    assert_eq!(calls + data["not_shown"]["calls"].as_u64().unwrap(), 36 * u64::from(METHODS));
    println!("{bytes} bytes, {embedded} methods, {rest} more");
    check(&path);
}

#[test]
fn the_page_has_lock_waits_allocations_traced_calls_and_exceptions() {
    let logs = locked_shop::shop();
    let (_, path, data) = page_with_messages(&logs, &[]);
    let tables = data["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 1);
    assert_eq!(tables[0]["heading"], "Lock waits: 90.0 ms");
    assert_eq!(tables[0]["rows"].as_array().unwrap().len(), 5);
    let first = ["com.shop.stock.Stock", "30.0 ms", "1"].map(Value::from);
    assert_eq!(tables[0]["rows"][0].as_array().unwrap()[..3], first);
    assert_eq!(tables[0]["rows"][0].as_array().unwrap()[7..], ["monitor", "exec-1"]);
    check(&path);
    let logs = allocating_shop::shop();
    let (_, path, data) = page_with_messages(&logs, &[]);
    let tables = data["tables"].as_array().unwrap();
    let headings: Vec<_> = tables.iter().map(|table| table["heading"].as_str().unwrap()).collect();
    assert_eq!(headings, ["Allocations by class: 10.0 MB", "Allocations by site"]);
    let first = ["byte[]", "8.50 MB", "85.0%", "4,250", "17"].map(Value::from);
    assert_eq!(tables[0]["rows"][0].as_array().unwrap()[..5], first);
    assert_eq!(tables[1]["rows"][0][0], "com.shop.order.OrderService.pay(int, String)");
    // In the second minute, no call ended.
    assert_eq!(numbers(&data["minutes"]["allocated"]), [9_500_000, 500_000]);
    assert_eq!(numbers(&data["minutes"]["calls"]), [3, 0]);
    assert_eq!(numbers(&data["hours"]["allocated"]), [10_000_000]);
    check(&path);
    let run = logs.run("20261120T140000Z-web07-4242", "web07", 4242);
    let bytes = Some(1_500_000);
    run.rows(T14, &[CallRow { allocated_bytes: bytes, ..call(T14 + S, 1, 1, 1, 3 * S) }]);
    let (_, path, data) = page_with_messages(&logs, &[]);
    let table = &data["tables"][0];
    assert_eq!(table["heading"], "Allocated in recorded calls, by the method of the call");
    assert_eq!(table["rows"][0].as_array().unwrap()[1..], ["1.50 MB", "1", "1.50 MB"]);
    check(&path);
    let logs = traced_shop::shop();
    let (_, path, data) = page_with_messages(&logs, &[]);
    assert_eq!(data["tables"][0]["heading"], "Traced methods");
    let pay = "com.shop.order.OrderService.pay(int, String)";
    let first = ["com.shop.stock.Stock.count(int)", "8,000", "4,000", "80", pay, "75.0% +- 9.5"];
    assert_eq!(data["tables"][0]["rows"][0], json!(first));
    check(&path);
    let logs = throwing_shop::shop();
    let (_, path, data) = page_with_messages(&logs, &[]);
    let table = &data["tables"][0];
    let heading = "Exceptions: 86 began to leave instrumented methods, 0.0119 a second";
    assert_eq!(table["heading"], heading);
    let first = [
        throwing_shop::OUT_OF_STOCK,
        "80",
        "0.0111",
        "50.0%",
        "80",
        "com.shop.stock.Stock.count(int)",
        "60 in the last hour, 20 in the hour before",
        "no item 17\\u000ain any store",
    ];
    assert_eq!(table["rows"][0], json!(first));
    assert_eq!(table["rows"].as_array().unwrap().len(), 3);
    check(&path);
}

#[test]
fn the_page_has_kinds_of_locks_and_other_parks() {
    const MARKUP: &str = "com.shop.<b>Stock</b>";
    let logs = locked_shop::shop();
    let run = logs.run(sampled_shop::RUN, "web07", 4242);
    let of = |kind, row: LockRow| LockRow { kind, ..row };
    let same_name = [(4, "(La/Key;)V"), (5, "(Lb/Key;)V")];
    run.rows(T14, &same_name.map(|(id, of)| method(id, sampled_shop::STOCK, "find", of)));
    let rows = [
        locked_shop::locks(T14, MARKUP, 4, &[900 * MS]),
        of(LockKind::Lock, locked_shop::locks(T14, MARKUP, 5, &[800 * MS])),
        of(LockKind::Park, locked_shop::locks(T14, "com.shop.Queue", 1, &[50 * MS])),
    ];
    run.rows(T14, &rows);
    // Methods that wait need not have a call that ended.
    let (_, path, data) = page_with_messages(&logs, &[]);
    let tables = data["tables"].as_array().unwrap();
    let last = |row: usize| &tables[0]["rows"][row].as_array().unwrap()[6..];
    let find = |of: &str| format!("com.shop.stock.Stock.find({of}): void");
    assert_eq!(tables[0]["rows"][0][0], MARKUP);
    assert_eq!(last(0), [find("a.Key").as_str(), "monitor", "unknown"]);
    assert_eq!(last(1), [find("b.Key").as_str(), "lock", "unknown"]);
    assert_eq!(tables[1]["heading"], "Other parks in instrumented methods: 50.0 ms");
    let columns = ["class", "total", "parks", "p50", "p99", "max", "site"];
    assert_eq!(tables[1]["columns"].as_array().unwrap()[..], columns);
    assert_eq!(tables[1]["rows"][0].as_array().unwrap()[..3], ["com.shop.Queue", "50.0 ms", "1"]);
    check(&path);
}
