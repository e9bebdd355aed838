//! `analyze diff`: what costs more and what less, in each mode, and when it exceeds the limit.

use std::collections::BTreeMap;
use std::fs;

use crate::common::*;
use log_format::file_names::{RUN_JSON, Table};
use log_format::rows::{EventRow, StatsRow, counter as name, event};

const ORDER: &str = "com.shop.order.OrderService";
const PAY: &str = "(ILjava/lang/String;)Z";

/// A run that recorded for this many minutes.
fn run(logs: &Logs, folder: &str, pid: u32, minutes: u64) -> RunFolder {
    let run = logs.run(folder, "web07", pid);
    for minute in 0..minutes {
        run.rows(
            T14,
            &[
                counter(T14 + minute * MIN, name::THRESHOLD_NS, MS),
                counter(T14 + minute * MIN, name::BYTES, 70),
            ],
        );
    }
    // The end of the run cuts an interval short.
    run.rows(T14, &[counter(T14 + minutes * MIN, name::THRESHOLD_NS, MS)]);
    run
}

/// Method statistics of `number` calls of this duration.
fn calls(start_ns: u64, method: u32, number: u64, ns: u64) -> StatsRow {
    let durations: Vec<u64> = (0..number).map(|_| ns).collect();
    stats(start_ns, method, 0, number * ns, &durations)
}

/// Before: one JVM for half an hour. After: two, for a quarter of an hour each, with other ids.
///
/// | | before | after |
/// | --- | --- | --- |
/// | `pay(int, String)` | 4 calls of 500 ms | 3 and 3 of 800 ms |
/// | `pay()` | 1,000 of 1 ms | 500 and 0 of 1 ms |
/// | `Stock.count` | 20 of 100 ms | 10 and 20 of 40 ms |
/// | `Cart.old` | 2 of 300 ms | none |
/// | `Cart.add` | none | 1 and 2 of 200 ms |
/// | `Cart.same` | 2 of 10 ms | 1 and 1 of 10 ms |
fn shop() -> Logs {
    let logs = Logs::new();
    let before = run(&logs, "before/20261119T140000Z-web07-1", 1, 30);
    before.rows(
        T14,
        &[
            method(1, ORDER, "pay", PAY),
            method(2, ORDER, "pay", "()V"),
            method(3, "com.shop.Stock", "count", "(I)J"),
            method(4, "com.shop.Cart", "old", "()V"),
            method(5, "com.shop.Cart", "same", "()V"),
        ],
    );
    before.rows(
        T14,
        &[
            stats(T14, 1, 1, 2 * S, &[500 * MS; 4]),
            stats(T14, 2, 0, S, &[MS; 1_000]),
            stats(T14 + 29 * MIN, 3, 0, 2 * S, &[100 * MS; 20]),
            stats(T14 + 29 * MIN, 4, 0, 600 * MS, &[300 * MS; 2]),
            stats(T14 + 29 * MIN, 5, 0, 20 * MS, &[10 * MS; 2]),
        ],
    );
    for (pid, pay, pays, counts, adds) in [(2, 3, 500, 10, 1), (3, 3, 0, 20, 2)] {
        let after = run(&logs, &format!("after/20261120T140000Z-web07-{pid}"), pid, 15);
        // From another loader, but the same method.
        let mut of_other_loader = method(9, ORDER, "pay", PAY);
        of_other_loader.loader = "org.shop.Loader@2".into();
        after.rows(
            T14,
            &[
                of_other_loader,
                method(8, ORDER, "pay", "()V"),
                method(7, "com.shop.Stock", "count", "(I)J"),
                method(6, "com.shop.Cart", "add", "()V"),
                method(5, "com.shop.Cart", "same", "()V"),
            ],
        );
        after.rows(
            T14,
            &[
                calls(T14, 9, pay, 800 * MS),
                calls(T14 + 14 * MIN, 7, counts, 40 * MS),
                calls(T14 + 14 * MIN, 6, adds, 200 * MS),
                stats(T14 + 14 * MIN, 5, 0, 10 * MS, &[10 * MS]),
            ],
        );
        if pays > 0 {
            after.rows(T14, &[calls(T14, 8, pays, MS)]);
        }
    }
    logs
}

fn diff(logs: &Logs, args: &[&str]) -> Outcome {
    logs.analyze(&[&["diff", "logs/before", "logs/after"], args].concat())
}

#[test]
fn the_text_per_hour_and_per_call() {
    let logs = shop();
    assert_golden("diff.txt", &diff(&logs, &[]).quiet());
    assert_golden("diff_per_call.txt", &diff(&logs, &["--per", "call"]).quiet());
}

#[test]
fn the_csv_and_the_json() {
    let logs = shop();
    let csv = diff(&logs, &["--format", "csv"]);
    assert_eq!(csv.status, 0);
    assert_golden("diff.csv", &csv.stdout);
    assert_golden("diff.csv.stderr", &csv.stderr);
    let json = diff(&logs, &["--format", "json", "--fail-above", "20%"]);
    assert_eq!((json.status, json.stderr.as_str()), (3, ""));
    assert_golden("diff.json", &json.stdout);
    let json = json.json();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["fails"], true);
}

#[test]
fn a_comparison_goes_to_a_file_whole_or_not_at_all() {
    let logs = shop();
    let said = diff(&logs, &["--format", "json"]);
    let fails = ["--format", "json", "--fail-above", "20%", "-o", "report"];
    for (arguments, status) in [(&fails[..], 3), (&["--format", "json", "-o", "report"], 0)] {
        let written = diff(&logs, arguments);
        assert_eq!((written.status, written.stdout.as_str()), (status, ""));
    }
    assert_eq!(fs::read_to_string(logs.root().join("report")).unwrap(), said.stdout);
    let refused = logs.analyze(&["diff", "logs/before", "nowhere", "-o", "report"]);
    assert_eq!(refused.status, 2);
    assert_eq!(fs::read_to_string(logs.root().join("report")).unwrap(), said.stdout);
    // Before anything is read.
    let no_folder = logs.analyze(&["diff", "logs/before", "nowhere", "-o", "no/report"]);
    let reason = "analyze: no/report: cannot be written: No such file or directory (os error 2)\n";
    assert_eq!((no_folder.status, &*no_folder.stderr), (2, reason));
}

#[test]
fn costs_are_of_an_hour_that_a_jvm_recorded() {
    let csv = diff(&shop(), &["--format", "csv"]);
    let names: Vec<String> = csv.csv_column("method");
    assert_eq!(names, ["pay", "add", "same", "pay", "old", "count"]);
    // Both sides recorded for half an hour: costs are twice what is in the logs.
    let costs = ["5600000000", "1200000000", "0", "-1000000000", "-1200000000", "-1600000000"];
    assert_eq!(csv.csv_column("cost_ns"), costs);
    let changes = ["140.000", "", "0.000", "-50.000", "-100.000", "-40.000"];
    assert_eq!(csv.csv_column("change_percent"), changes);
    let statuses = ["slower", "new", "same", "faster", "vanished", "faster"];
    assert_eq!(csv.csv_column("status"), statuses);
    assert_eq!(csv.csv_column("after_calls_per_hour")[0], "12.000");
}

#[test]
fn more_calls_at_the_same_speed_cost_more_by_the_hour_and_nothing_by_the_call() {
    let logs = Logs::new();
    for (side, pid, number, slow) in [("before", 1, 100, 2), ("after", 2, 200, 4)] {
        let run = run(&logs, &format!("{side}/run"), pid, 60);
        run.rows(T14, &[method(1, "C", "m", "()V"), method(2, "C", "slow", "()V")]);
        run.rows(T14, &[calls(T14, 1, number, 20 * MS), calls(T14, 2, slow, 3 * S / slow)]);
    }
    let column = |args: &[&str], name: &str| {
        let csv = diff(&logs, &[&["--format", "csv"], args].concat());
        csv.csv_column("method").into_iter().zip(csv.csv_column(name)).collect::<Vec<_>>()
    };
    let row = |method: &str, cost: &str| (method.to_owned(), cost.to_owned());
    assert_eq!(column(&[], "cost_ns"), [row("m", "2000000000"), row("slow", "0")]);
    let by_call = column(&["--per", "call"], "cost_ns");
    assert_eq!(by_call, [row("m", "0"), row("slow", "-3000000000")]);
    for (args, status) in [
        (vec!["--fail-above", "20%"], 3),
        (vec!["--fail-above", "100%"], 0),
        (vec!["--fail-above", "99.9"], 3),
        (vec!["--fail-above", "20%", "--min-time", "3s"], 0),
        (vec!["--fail-above", "20%", "--min-time", "2s"], 3),
        (vec!["--fail-above", "20%", "--per", "call"], 0),
        (vec!["--fail-above", "20%", "--method", "C.slow"], 0),
    ] {
        let outcome = diff(&logs, &args);
        assert_eq!(outcome.status, status, "{args:?}");
        let has_passed = args.contains(&"--fail-above") && status == 0;
        let said = outcome.stdout.contains("passed    nothing is slower than --fail-above ");
        assert_eq!(said, has_passed, "{args:?} {}", outcome.stdout);
    }
}

/// A run of half a minute with three methods; `hash` is throttled after `throttled` seconds.
fn short_run(logs: &Logs, folder: &str, fetch_ns: u64, throttled_s: u64) -> RunFolder {
    let run = logs.run(folder, "web07", 1);
    run.rows(
        T14,
        &[
            method(1, "com.shop.Dao", "fetch", "()V"),
            method(2, "com.shop.Util", "hash", "(I)I"),
            method(3, "com.shop.Page", "render", "()V"),
        ],
    );
    let hash_calls = throttled_s * 100;
    run.rows(
        T14,
        &[
            calls(T14, 1, 200, fetch_ns),
            calls(T14, 2, hash_calls, 100 * US),
            calls(T14, 3, 100, 10 * MS),
        ],
    );
    let hash = throttled(T14 + throttled_s * S, "com.shop.Util.hash(I)I", 100, 100 * US);
    run.rows(T14, &[hash]);
    let edges = [0, 32].map(|s| counter(T14 + s * S, name::THRESHOLD_NS, MS));
    run.rows(T14, &edges);
    run
}

#[test]
fn a_throttled_or_muted_method_is_listed_apart_and_a_regression_in_a_short_run_fails() {
    let logs = Logs::new();
    short_run(&logs, "before/run", 211 * US, 1);
    short_run(&logs, "after/run", 1_460 * US, 30);
    let statuses = |args: &[&str]| {
        let csv = diff(&logs, &[&["--format", "csv"], args].concat());
        csv.csv_column("method").into_iter().zip(csv.csv_column("status")).collect::<Vec<_>>()
    };
    let status = |method: &str, status: &str| (method.to_owned(), status.to_owned());
    let expected =
        [status("fetch", "slower"), status("render", "same"), status("hash", "not comparable")];
    for per in ["hour", "call"] {
        assert_eq!(statuses(&["--per", per]), expected, "{per}");
        let failed = diff(&logs, &["--per", per, "--fail-above", "20%"]);
        assert_eq!(failed.status, 3, "{}", failed.stdout);
        assert!(failed.stdout.contains("com.shop.Dao.fetch(): +591.9%"), "{}", failed.stdout);
        let apart =
            "\nNot comparable: throttled or muted for part of the time, or never instrumented\n";
        assert!(failed.stdout.contains(apart), "{}", failed.stdout);
    }
    let failed = diff(&logs, &["--fail-above", "20%"]).stdout;
    let failed = failed.split_whitespace().collect::<Vec<_>>().join(" ");
    let note = "note Less than a minute was recorded, so figures are uncertain; before --fail-above judges them, \
                record longer, or give a --min-time like 1s";
    assert!(failed.contains(note), "{failed}");
    // Methods close to the limit are named.
    for (args, line) in [
        (
            ["--fail-above", "20%", "--min-time", "1s"],
            "close     com.shop.Dao.fetch(): +591.9% and",
        ),
        (
            ["--fail-above", "700%", "--min-time", "0.1%"],
            "close     com.shop.Dao.fetch(): +591.9% and",
        ),
    ] {
        let passed = diff(&logs, &[&["--per", "call"][..], &args].concat());
        assert!(passed.status == 0 && passed.stdout.contains(line), "{args:?}: {}", passed.stdout);
    }
    let run = RunFolder(logs.root().join("logs/after/run"));
    run.rows(T14, &[muted(T14, "com.shop.Page", true), muted(T14 + S, "com.shop.Page", false)]);
    assert_eq!(
        statuses(&[])[1..],
        [status("render", "not comparable"), status("hash", "not comparable")]
    );
}

/// While a class is postponed, its calls are not counted. If it is postponed until the run ends, it has none in the
/// log.
#[test]
fn methods_of_a_class_that_never_had_probes_have_not_vanished() {
    let logs = Logs::new();
    short_run(&logs, "before/run", 211 * US, 32);
    let after = run(&logs, "after/run", 1, 2);
    after.rows(T14, &[method(1, "com.shop.Other", "m", "()V")]);
    after.rows(T14, &[calls(T14, 1, 9, MS)]);
    let statuses = || {
        let csv = diff(&logs, &["--format", "csv"]);
        let methods = csv.csv_column("method").into_iter().zip(csv.csv_column("status"));
        methods
            .filter(|(method, _)| method == "fetch")
            .map(|(_, status)| status)
            .collect::<Vec<_>>()
    };
    assert_eq!(statuses(), ["vanished"]);
    let postponed = EventRow::new(T14, event::CLASS_POSTPONED);
    after.rows(T14, &[EventRow { class: "com.shop.Dao".into(), ..postponed }]);
    assert_eq!(statuses(), ["not comparable"]);
}

/// A pattern that was muted names a method that a later one has unmuted: nothing of it is missing.
#[test]
fn what_was_measured_all_the_time_is_compared() {
    let logs = Logs::new();
    for side in ["before", "after"] {
        let run = run(&logs, &format!("{side}/run"), 1, 2);
        let names = ["Dao", "Stock"].map(|class| format!("com.shop.{class}"));
        run.rows(T14, &[method(1, &names[0], "get", "()V"), method(2, &names[1], "get", "()V")]);
        run.rows(T14, &[calls(T14, 1, 9, MS), calls(T14, 2, 9, MS)]);
    }
    let run = RunFolder(logs.root().join("logs/after/run"));
    run.rows(T14, &[muted(T14, "com.shop", true), muted(T14, "com.shop.Dao", false)]);
    let csv = diff(&logs, &["--format", "csv"]);
    let rows = csv.csv_column("class").into_iter().zip(csv.csv_column("status"));
    let is_comparable: BTreeMap<String, bool> =
        rows.map(|(class, status)| (class, status != "not comparable")).collect();
    let expected = [("com.shop.Dao", true), ("com.shop.Stock", false)];
    assert_eq!(is_comparable, expected.map(|(class, is)| (class.to_owned(), is)).into());
}

#[test]
fn if_no_method_is_comparable_the_way_out_is_reported() {
    let logs = Logs::new();
    for side in ["before", "after"] {
        let run = run(&logs, &format!("{side}/run"), 1, 2);
        run.rows(T14, &[method(1, "C", "m", "()V"), method(2, "C", "n", "()V")]);
        run.rows(T14, &[calls(T14, 1, 9, MS), calls(T14, 2, 9, MS)]);
        run.rows(T14, &["C.m()V", "C.n()V"].map(|name| throttled(T14 + S, name, 9, MS)));
    }
    let unwrapped = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let way_out = "No method is comparable: each was throttled for part of the time. Record both sides with \
                   overhead=off";
    for args in [&[][..], &["--per", "call"], &["--fail-above", "20%"]] {
        let outcome = diff(&logs, args);
        // A limit that judges nothing does not pass.
        let is_limited = args.contains(&"--fail-above");
        let said = "analyze: --fail-above: no method is comparable, so nothing was judged\n";
        assert_eq!(outcome.status, if is_limited { 2 } else { 0 }, "{args:?}");
        assert_eq!(outcome.stderr, if is_limited { said } else { "" }, "{args:?}");
        assert!(!outcome.stdout.contains("passed"), "{args:?}: {}", outcome.stdout);
        let text = unwrapped(outcome.stdout);
        assert_eq!(text.matches(way_out).count(), 1, "{args:?}: {text}");
    }
    let csv = diff(&logs, &["--format", "csv"]);
    assert!(csv.stderr.contains(&format!("analyze: {way_out}\n")), "{}", csv.stderr);
    let run = RunFolder(logs.root().join("logs/after/run"));
    run.rows(T14, &[muted(T14, "C.m", true)]);
    let text = unwrapped(diff(&logs, &[]).quiet());
    assert!(text.contains("with overhead=off and without `tprofiler mute`"), "{text}");
    // One is enough.
    for side in ["before", "after"] {
        let run = RunFolder(logs.root().join("logs").join(side).join("run"));
        run.rows(T14, &[method(3, "C", "o", "()V")]).rows(T14, &[calls(T14, 3, 9, MS)]);
    }
    let text = unwrapped(diff(&logs, &[]).quiet());
    assert!(!text.contains("No method is comparable"), "{text}");
}

#[test]
fn what_is_too_slow_is_named_and_marked() {
    let logs = shop();
    let outcome = diff(&logs, &["--fail-above", "20%", "--top", "1"]);
    assert_eq!((outcome.status, outcome.stderr.as_str()), (3, ""));
    assert_golden("diff_too_slow.txt", &outcome.stdout);
    // New methods count only in the sum.
    let csv = diff(&logs, &["--fail-above", "20%", "--format", "csv"]);
    assert_eq!(csv.status, 3);
    let fails: Vec<String> = csv.csv_column("fails");
    assert_eq!(fails, ["true", "false", "false", "false", "false", "false"]);
    assert!(csv.stderr.contains("\nanalyze: too slow: all methods together: "), "{}", csv.stderr);
    let new = ["--method", "com.shop.Cart", "--fail-above", "1%", "--min-time", "1ms"];
    assert_eq!(diff(&logs, &new).status, 0);
}

#[test]
fn time_in_which_nothing_was_recorded_is_no_time() {
    // Both sides are 40 minutes from the first call to the last, with the same calls; after, recording was stopped
    // for 20 of them.
    let logs = Logs::new();
    for (side, stopped) in [("before", false), ("after", true)] {
        let run = logs.run(&format!("{side}/run"), "web07", 1);
        run.rows(T14, &[method(1, "C", "m", "()V")]);
        for minute in 0..40 {
            let is_off = stopped && (10..30).contains(&minute);
            // `stop` ends an interval at once.
            let start = T14 + minute * MIN + if stopped && minute == 10 { 9 * S } else { 0 };
            run.rows(T14, &[counter(start, name::BYTES, 70)]);
            let recorded_s = if stopped && minute == 9 { 69 } else { 60 };
            if !is_off {
                run.rows(T14, &[counter(start, name::RECORDED_NS, recorded_s * S)]);
                run.rows(T14, &[stats(start, 1, 0, S, &[S])]);
            }
        }
    }
    let csv = diff(&logs, &["--format", "csv"]);
    let per_hour = |side: &str| csv.csv_column(&format!("{side}_self_ns_per_hour")).concat();
    // 60 calls of a second per hour; the minute in which recording was stopped counts up to the stop.
    assert_eq!(per_hour("before"), "60000000000");
    assert_eq!(per_hour("after"), (20 * 3_600 * S / 1_209).to_string());
}

#[test]
fn what_cannot_be_compared_is_an_error_of_one_line() {
    let logs = shop();
    let empty = logs.run("empty/run", "web07", 9);
    empty.rows(T14, &[method(1, "C", "m", "()V")]);
    fs::create_dir(logs.root().join("logs/none")).unwrap();
    for (args, line) in [
        (vec!["logs/before", "nowhere"], "nowhere: No such file"),
        (vec!["logs/none", "logs/after"], "logs/none: there is no run in this folder"),
        (
            vec!["logs/empty", "logs/after"],
            "logs/empty: no calls: either no class was instrumented",
        ),
        (
            vec!["logs/before", "logs/after", "--method", "com.other"],
            "before and after: no calls in methods named by com.other: no method has such a name. ",
        ),
        (
            vec!["logs/before", "logs/after", "--fail-above", "fast"],
            "--fail-above: 'fast' is not a",
        ),
        (
            vec!["logs/before", "logs/after", "--fail-above", "1%", "--min-time", "1"],
            "--min-time: '1' is neither like 0.1% nor like 1s",
        ),
        (vec!["logs/before", "logs/after", "--method", "a/b"], "--method: 'a/b' is not a pattern"),
        (
            vec!["logs/before", "logs/after", "-o", "diff.html"],
            "--output: 'diff.html' is of a format that diff cannot write: use .txt, .csv or .json, or --format",
        ),
    ] {
        let outcome = logs.analyze(&[&["diff"], args.as_slice()].concat());
        assert_eq!((outcome.status, outcome.stdout.as_str()), (2, ""), "{args:?}");
        assert!(outcome.stderr.starts_with(&format!("analyze: {line}")), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    }
    // A folder named like a command is not taken for one if it is given as a path, or comes later.
    fs::rename(logs.root().join("logs/after"), logs.root().join("diff")).unwrap();
    for args in [vec!["./diff"], vec!["logs/before", "diff"]] {
        assert_eq!(logs.analyze(&args).status, 0, "{args:?}");
    }
}

/// A service got slower in the middle of a run.
#[test]
fn two_times_of_one_run_are_compared() {
    let logs = Logs::new();
    let run = logs.run("run", "web07", 1);
    run.rows(T14, &[method(1, "Shop", "serve", "()V")]);
    run.rows(T14, &[thread(1, "main")]).rows(T14, &[stack(1, 0, 1)]);
    run.rows(T14, &[call(T14 + S, 1, 1, 1, 10 * MS)]);
    for minute in 0..5 {
        let ns = if minute < 2 { 10 * MS } else { 20 * MS };
        run.rows(T14, &[calls(T14 + minute * MIN, 1, 60, ns)]);
        run.rows(T14, &[counter(T14 + minute * MIN, name::RECORDED_NS, MIN)]);
    }
    let times = ["--before", "14:00..14:02", "--after", "14:02.."];
    let with = |more: &[&str]| logs.analyze(&[&["diff", "logs"], more].concat());
    // In an hour, 36 and 72 s, as two minutes and three are scaled.
    let csv = with(&[&times[..], &["--format", "csv"]].concat());
    assert_eq!(csv.status, 0, "{}", csv.stderr);
    let costs = ["status", "before_calls", "after_calls", "before_self_ns", "after_self_ns"];
    let costs = costs.map(|column| csv.csv_column(column).concat());
    let seconds = |s: u64| (s * S / 10).to_string();
    assert_eq!(
        costs,
        ["slower".to_owned(), "120".to_owned(), "180".to_owned(), seconds(12), seconds(36)]
    );
    let text = with(&times).quiet();
    assert!(
        text.contains("self time of all methods 1.20 min in an hour of recording, 36.0 s before"),
        "{text}"
    );
    assert_eq!(with(&[&times[..], &["--fail-above", "50%"]].concat()).status, 3);
    // The same with the logs given twice.
    let twice = logs.analyze(&[&["diff", "logs", "logs"], &times[..]].concat());
    assert_eq!(twice.stdout, text);
    for (more, why) in [
        (&[][..], "there is one set of logs: add AFTER, or two times"),
        (&["--before", "14:00"], "--before: '14:00' is not two times like 14:00..14:30"),
        (&["--after", "14:02..x"], "--after: 'x' is not a time like"),
        (&["--before", "14:02..14:01"], "--before: --from"),
        (&["--before", "14:00..14:00:20"], "one time is shorter than an interval"),
    ] {
        let refused = with(more);
        assert_eq!(refused.status, 2, "{more:?}");
        assert!(refused.stderr.starts_with(&format!("analyze: {why}")), "{}", refused.stderr);
    }
}

/// A test run that got no load is no run that got faster.
#[test]
fn without_most_calls_of_before_nothing_is_judged() {
    let logs = Logs::new();
    for (side, methods) in [("before", &[1, 2][..]), ("after", &[1])] {
        let run = logs.run(&format!("{side}/run"), "web07", 1);
        run.rows(T14, &[method(1, "Shop", "<init>", "()V"), method(2, "Shop", "serve", "()V")]);
        for id in methods {
            let ns = if *id == 1 { MS } else { 30 * S };
            run.rows(T14, &[stats(T14, *id, 0, ns, &[ns])]);
        }
        run.rows(T14, &[counter(T14, name::RECORDED_NS, 2 * MIN)]);
    }
    let note = "and nothing else took as long: was there the same load?";
    let text = diff(&logs, &[]).quiet();
    assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(note), "{text}");
    for per in ["hour", "call"] {
        let outcome = diff(&logs, &["--fail-above", "20%", "--per", per]);
        assert_eq!(outcome.status, 2, "{}", outcome.stdout);
        let why = "most of what was called before was not called after, so nothing was judged";
        assert_eq!(outcome.stderr, format!("analyze: --fail-above: {why}\n"));
        assert!(!outcome.stdout.contains("passed"), "{}", outcome.stdout);
    }
}

#[test]
fn unreadable_parts_are_reported_and_methods_without_names_skipped() {
    let logs = shop();
    let run = RunFolder(logs.root().join("logs/after/20261120T140000Z-web07-2"));
    run.rows(T14, &[stats(T14, 77, 0, S, &[S])]);
    let bad = logs.run("after/bad", "web07", 4);
    fs::write(bad.0.join(RUN_JSON), "rubbish").unwrap();
    run.raw(T14, Table::Stats, "rubbish\n");
    let outcome = diff(&logs, &[]);
    assert_eq!(outcome.status, 1);
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("after/bad/run.json: expected value"), "{lines:?}");
    assert!(lines[1].contains("stats.csv:"), "{lines:?}");
    let note = "Methods without a name in their run, not compared: 1";
    let joined = outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined.contains(note), "{joined}");
    assert!(joined.contains("missing: 1 part of the logs could not be read"), "{joined}");
    // What is too slow comes first.
    assert_eq!(diff(&logs, &["--fail-above", "20%"]).status, 3);
}
