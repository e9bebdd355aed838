//! CPU time by samples beside exact figures: every format says the same, and self times add up to the CPU time.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::common::sampled_shop::{ORDER, RUN, STOCK, frame, samples, shop};
use crate::common::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use log_format::file_names::Table;
use serde_json::Value;

/// CPU time of all samples of [`shop`].
const ALL_NS: u64 = 200 * MS;

/// The logs of [`shop`] without samples.
fn shop_without_samples() -> Logs {
    let logs = shop();
    for table in [Table::Frames, Table::SampledStacks, Table::Samples] {
        fs::remove_file(logs.run(RUN, "web07", 4242).file(T14, table)).unwrap();
    }
    logs
}

/// CPU figures by class, method and descriptor: self, total, samples.
type Cpu = BTreeMap<[String; 3], [u64; 3]>;

fn expected() -> Cpu {
    let of = |class: &str, method: &str, descriptor: &str, self_ms, total_ms, samples| {
        let names = [class, method, descriptor].map(str::to_owned);
        (names, [self_ms * MS, total_ms * MS, samples])
    };
    BTreeMap::from([
        of(ORDER, "pay", "(ILjava/lang/String;)Z", 60, 130, 6),
        of(STOCK, "count", "(I)J", 20, 70, 2),
        of("java.util.HashMap", "get", "(Ljava/lang/Object;)Ljava/lang/Object;", 50, 50, 5),
        of("", "[gc]", "", 30, 30, 3),
        of("com.shop.Util", "hash", "(I)I", 20, 20, 2),
        of("", "[missing]", "", 10, 10, 1),
        of(ORDER, "pay", "()V", 10, 10, 1),
    ])
}

fn number(cell: &str) -> u64 {
    cell.parse().unwrap()
}

/// The sums of a column of a CSV report, by another column.
fn sums(csv: &Outcome, key: &str, column: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (key, cell) in csv.csv_column(key).into_iter().zip(csv.csv_column(column)) {
        *sums.entry(key).or_default() += cell.parse().unwrap_or(0);
    }
    sums
}

fn of_csv(csv: &Outcome) -> Cpu {
    let names = ["class", "method", "descriptor"].map(|name| csv.csv_column(name));
    let figures = ["cpu_self_ns", "cpu_total_ns", "samples"].map(|name| csv.csv_column(name));
    let rows = 0..names[0].len();
    rows.map(|row| {
        let names = [0, 1, 2].map(|column: usize| names[column][row].clone());
        (names, [0, 1, 2].map(|column: usize| number(&figures[column][row])))
    })
    .collect()
}

fn of_json(rows: &Value) -> impl Iterator<Item = ([String; 3], [u64; 3])> {
    rows.as_array().unwrap().iter().map(|row| {
        let name = |key| row[key].as_str().unwrap().to_owned();
        let figure = |key| row[key].as_u64().unwrap();
        let names = ["class", "method", "descriptor"].map(name);
        (names, ["cpu_self_ns", "cpu_total_ns", "samples"].map(figure))
    })
}

/// The page and the data in it.
fn page(logs: &Logs) -> (std::path::PathBuf, Value) {
    logs.analyze(&["logs", "--format", "html", "-o", "report.html"]).quiet();
    let path = logs.root().join("report.html");
    let text = fs::read_to_string(&path).unwrap();
    let data = text.split_once("type=\"application/octet-stream\">").unwrap().1;
    let packed = STANDARD.decode(data.split_once("</script>").unwrap().0).unwrap();
    (path, serde_json::from_reader(GzDecoder::new(&packed[..])).unwrap())
}

#[test]
fn csv_has_a_row_of_each_sampled_method_and_self_times_add_up() {
    let csv = shop().analyze(&["logs", "--format", "csv"]);
    assert_golden("cpu.csv", &csv.stdout);
    assert_eq!(of_csv(&csv), expected());
    assert_eq!(csv.csv_column("cpu_self_ns").iter().map(|ns| number(ns)).sum::<u64>(), ALL_NS);
    assert_eq!(csv.csv_column("samples").iter().map(|count| number(count)).sum::<u64>(), 20);
    // Measured methods first; the others have no exact figures, and are marked if they are throttled.
    let calls = csv.csv_column("calls");
    assert!(calls[..2].iter().all(|calls| !calls.is_empty()));
    assert!(calls[2..].iter().all(String::is_empty));
    let throttled = csv.csv_column("throttled_ns");
    for (class, ns) in csv.csv_column("class").iter().zip(throttled) {
        assert_eq!(number(&ns) > 0, class == "com.shop.Util", "{class}: {ns}");
    }
}

#[test]
fn json_agrees_with_csv() {
    let logs = shop();
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let rows = of_json(&json["methods"]).chain(of_json(&json["only_sampled"]));
    assert_eq!(rows.collect::<Cpu>(), expected());
    assert_eq!(json["methods"].as_array().unwrap().len(), 2);
    assert_eq!(
        (json["cpu"]["total_ns"].as_u64(), json["cpu"]["samples"].as_u64()),
        (Some(ALL_NS), Some(20))
    );
    let only = json["only_sampled"].as_array().unwrap();
    assert_eq!(only[0]["method"], "get");
    assert!(only[0].get("calls").is_none());
    let throttled = only.iter().filter(|row| row["throttled_ns"] != 0);
    assert_eq!(throttled.map(|row| &row["method"]).collect::<Vec<_>>(), ["hash"]);
}

#[test]
fn the_page_agrees_with_csv() {
    let logs = shop();
    let (path, data) = page(&logs);
    assert_eq!(data["cpu"]["total_ns"], ALL_NS);
    assert_eq!((&data["measured"], &data["cpu"]["samples"]), (&2.into(), &20.into()));
    let csv = logs.analyze(&["logs", "--format", "csv"]);
    for (column, of_csv) in
        [("cpu_self", "cpu_self_ns"), ("cpu_total", "cpu_total_ns"), ("samples", "samples")]
    {
        let numbers = data["methods"][column].as_array().unwrap().iter();
        let cells: Vec<String> = numbers.map(ToString::to_string).collect();
        assert_eq!(cells, csv.csv_column(of_csv), "{column}");
    }
    let name = |place: usize| data["methods"]["name"][place].as_str().unwrap();
    assert_eq!((name(2), name(3)), ("get(Object)", "[gc]"));
    if let Some(said) = browser::run("check.mjs", &[], &[&path]) {
        assert_eq!(said, "the page holds\n");
    }
}

#[test]
fn text_has_intervals_and_marks_throttled_methods() {
    let text = shop().analyze(&["logs"]).quiet();
    assert_golden("first_screen.txt", first_screen(&text));
    let (_, section) = text.split_once("CPU time by samples").unwrap();
    assert_golden("cpu.txt", &format!("CPU time by samples{section}"));
}

#[test]
fn groups_have_their_samples() {
    let logs = shop();
    for (key, of_groups) in [
        ("hour", vec![("2026-11-20T14:00Z", 200)]),
        ("minute", vec![("2026-11-20T14:00Z", 180), ("2026-11-20T14:01Z", 20)]),
        ("thread", vec![("GC Thread#0 #2", 40), ("exec-1 #1", 160)]),
        ("run", vec![(RUN, 200)]),
        ("host", vec![("web07", 200)]),
        (
            "package",
            vec![
                ("", 40),
                ("com.shop", 20),
                ("com.shop.order", 70),
                ("com.shop.stock", 20),
                ("java.util", 50),
            ],
        ),
    ] {
        let csv = logs.analyze(&["logs", "--format", "csv", "--by", key]);
        let expected = of_groups.iter().map(|(label, ms)| ((*label).to_owned(), ms * MS));
        assert_eq!(sums(&csv, key, "cpu_self_ns"), expected.collect(), "{key}");
        let json = logs.analyze(&["logs", "--format", "json", "--by", key]).json();
        let rows = |list: &str| json[list].as_array().unwrap().clone();
        let labels: BTreeSet<String> = rows("methods")
            .iter()
            .chain(&rows("only_sampled"))
            .map(|row| row[key].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(labels, csv.csv_column(key).into_iter().collect(), "{key}");
    }
    let by_class = logs.analyze(&["logs", "--format", "csv", "--by", "class"]);
    assert_eq!(of_csv(&by_class), expected());
}

#[test]
fn options_select_samples_and_rows() {
    let logs = shop();
    let csv = |more: &[&str]| logs.analyze(&[&["logs", "--format", "csv"], more].concat());
    let threads = csv(&["--thread", "GC*"]);
    assert_eq!(threads.csv_column("method"), ["[gc]", "[missing]"]);
    let late = csv(&["--from", "14:01"]);
    assert_eq!(
        late.csv_column("cpu_self_ns").iter().filter_map(|ns| ns.parse::<u64>().ok()).sum::<u64>(),
        20 * MS
    );
    let stock = csv(&["--method", "com.shop.order"]);
    assert_eq!(stock.csv_column("descriptor"), ["(ILjava/lang/String;)Z", "()V"]);
    // Methods that `--top` hides are not taken for methods that were only sampled.
    let top = csv(&["--top", "1"]);
    assert_eq!(top.csv_column("method"), ["pay", "get"]);
    let json = logs.analyze(&["logs", "--format", "json", "--top", "1"]).json();
    assert_eq!(
        (&json["methods_not_shown"], &json["only_sampled_not_shown"]),
        (&1.into(), &4.into())
    );
}

#[test]
fn refused_timers_are_reported_where_samples_are_shown() {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    run.rows(T14, &[counter(T14, "timers_refused", 2), counter(T14 + MIN, "timers_refused", 1)]);
    let line = "3 timers were refused by the kernel (ulimit -i): their threads have no CPU samples";
    for shown in [&[][..], &["--from", "14:01"]] {
        let text = logs.analyze(&[&["logs"], shown].concat()).quiet();
        assert!(text.contains(line), "{text}");
    }
    let flame = logs.analyze(&["logs", "--flame", "cpu"]);
    assert!(flame.stderr.contains(&format!("analyze: missing: {line}\n")), "{}", flame.stderr);
    // Samples have what is throttled, too.
    assert!(!flame.stderr.contains("throttled"), "{}", flame.stderr);
    let calls = logs.analyze(&["logs", "--flame", "calls"]);
    assert!(calls.stderr.contains(" was throttled "), "{}", calls.stderr);
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    assert_eq!(json["missing"]["timers_refused"], 3);
    for without in [&["--tree", "top-down"][..], &["--by", "hour"]] {
        let text = logs.analyze(&[&["logs"], without].concat()).quiet();
        assert!(!text.contains("refused"), "{text}");
    }
    for table in [Table::Frames, Table::SampledStacks, Table::Samples] {
        fs::remove_file(run.file(T14, table)).unwrap();
    }
    let none = logs.analyze(&["logs", "--flame", "cpu"]);
    let line =
        "analyze: no CPU samples in these logs: the kernel refused timers; raise `ulimit -i`\n";
    assert_eq!((none.status, none.stderr.as_str()), (2, line));
}

#[test]
fn a_flame_graph_of_no_selected_samples_is_an_error() {
    let logs = shop();
    let flame = |more: &[&str]| {
        let args =
            [&["logs", "--flame", "cpu", "--format", "collapsed", "-o", "flame"], more].concat();
        let outcome = logs.analyze(&args);
        (outcome.status, outcome.stderr, logs.root().join("flame").exists())
    };
    let none = (2, "analyze: no CPU samples are selected\n".to_owned(), false);
    assert_eq!(flame(&["--from", "14:30"]), none);
    assert_eq!(flame(&["--thread", "nobody"]), none);
    let (status, _, is_written) = flame(&["--thread", "GC*"]);
    assert_eq!((status, is_written), (0, true));
}

/// A short name stands for a method that was only sampled, unless an instrumented method has that name.
#[test]
fn short_names_find_methods_that_were_only_sampled() {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    let names = [("java.util.ArrayList", "size"), ("java.util.HashMap", "size"), ("a.Pay", "pay")];
    let frames = (20..).zip(names).map(|(id, (class, name))| frame(id, "java", class, name, "()I"));
    run.rows(T14, &frames.collect::<Vec<_>>());
    for (short, full) in [
        ("get", "java.util.HashMap.get"),
        ("HashMap.get", "java.util.HashMap.get"),
        ("ArrayList", "java.util.ArrayList"),
        // This class is instrumented.
        ("pay", "com.shop.order.OrderService.pay"),
    ] {
        let select = ["logs", "--method", short];
        let json = logs.analyze(&[&select[..], &["--format", "json"]].concat());
        assert_eq!(json.json()["selected"]["method"], full, "{short}");
        let text = logs.analyze(&select).quiet();
        assert!(text.contains(&format!("selected  methods {full}\n")), "{text}");
        assert_eq!(text.contains("CPU time by samples"), short != "ArrayList", "{text}");
    }
    let csv = logs.analyze(&["logs", "--format", "csv", "--method", "get"]);
    assert_eq!(csv.csv_column("cpu_self_ns"), [(50 * MS).to_string()]);
    let text = logs.analyze(&["logs", "--method", "get"]).quiet();
    assert!(text.contains("\nno calls in methods named by java.util.HashMap.get\n"), "{text}");
    let several = logs.analyze(&["logs", "--method", "size"]);
    let expected = "analyze: --method: 'size' could be java.util.ArrayList.size, \
                    java.util.HashMap.size; give one of them, or **.size for all\n";
    assert_eq!((several.status, several.stderr.as_str()), (2, expected));
    // A call tree has no samples.
    let tree = logs.analyze(&["logs", "--tree", "top-down", "--method", "get"]).quiet();
    assert!(tree.contains("selected  methods get\n"), "{tree}");
}

#[test]
fn a_log_without_samples_has_empty_columns() {
    let logs = shop_without_samples();
    let csv = logs.analyze(&["logs", "--format", "csv"]);
    assert_eq!(csv.csv_column("method"), ["pay", "count"]);
    for column in ["cpu_self_ns", "cpu_total_ns", "samples"] {
        assert_eq!(csv.csv_column(column), ["", ""], "{column}");
    }
    let json = logs.analyze(&["logs", "--format", "json"]).quiet();
    assert!(!json.contains("cpu_self_ns") && !json.contains("only_sampled"));
    assert!(!logs.analyze(&["logs"]).quiet().contains("CPU time by samples"));
    let (_, data) = page(&logs);
    assert!(data["cpu"].is_null());
    assert_eq!(data["methods"]["cpu_self"], serde_json::json!([]));
}

/// The stack of `HashMap.get`, and that of a method without probes.
const GET: u32 = 5;
const HASH: u32 = 9;

/// A comparison shows what needs more CPU time, without what may be chance, also of methods without probes.
#[test]
fn a_comparison_has_cpu_time() {
    let logs = Logs::new();
    for (side, get, hash) in [("before", 100, 400), ("after", 110, 800)] {
        let shop = shop();
        let run = shop.run(RUN, "web07", 4242);
        run.rows(T14, &[samples(T14 + 2 * S, 1, GET, get), samples(T14 + 2 * S, 1, HASH, hash)]);
        run.rows(T14, &[counter(T14, "recorded_ns", MIN)]);
        fs::rename(shop.root().join("logs"), logs.root().join(side)).unwrap();
    }
    let json = logs.analyze(&["diff", "before", "after", "--format", "json"]).json();
    let cpu = json["cpu"].as_array().unwrap();
    let of = |name: &str| cpu.iter().find(|row| row["method"] == name).unwrap();
    // 402 and 802 samples of 10 ms in a minute.
    let hash = of("hash");
    assert_eq!((&hash["before_samples"], &hash["after_samples"]), (&402.into(), &802.into()));
    assert_eq!(hash["was_ns"], 60 * 4_020 * MS);
    assert_eq!(hash["cost_ns"], 60 * 4_000 * MS);
    assert_eq!(hash["is_clear"], true);
    assert_eq!(
        (&of("count")["cost_ns"], &of("count")["is_clear"]),
        (&(60 * 100 * MS).into(), &false.into())
    );
    let text = logs.analyze(&["diff", "before", "after"]).quiet();
    let cpu = text.split_once("CPU time by samples, per hour, ").unwrap().1;
    let expected = "JDK code counts for its caller: changes over three standard errors\n\n        cost    change      \
                    before       after  method\n   +4.00 min    +99.5%    4.02 min    8.02 min  com.shop.Util.hash(int)\n";
    assert_eq!(cpu, expected);
    // With the same share of all CPU time, a call needs no more.
    let same = logs.analyze(&["diff", "before", "before", "--per", "call"]).quiet();
    let none = "CPU time by samples, for as much CPU time in all: no clear change\n";
    assert!(same.ends_with(none), "{same}");
    let csv = logs.analyze(&["diff", "before", "after", "--format", "csv"]);
    assert!(!csv.stdout.contains("hash"), "{}", csv.stdout);
}
