//! Reports of good logs: figures, groups, selections and formats.

use std::collections::BTreeSet;

use crate::common::two_jvms::{RUN_A, RUN_B, shop};
use crate::common::*;
use log_format::rows::{CallRow, Exit, StatsRow};

#[test]
fn the_text_report() {
    assert_golden("report.txt", &shop().analyze(&["logs"]).quiet());
}

#[test]
fn headings_are_bold_on_a_terminal_alone() {
    let logs = shop();
    let on_terminal = |more: &str| {
        // `script` provides the terminal.
        let command = format!("{more} {} logs", env!("CARGO_BIN_EXE_analyze"));
        let mut script = std::process::Command::new("script");
        script.args(["-qec", &command, "/dev/null"]).current_dir(logs.root());
        script.env("TERM", "xterm");
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
            script.env_remove(name);
        }
        let output = script.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")
    };
    let plain = logs.analyze(&["logs"]).quiet();
    assert!(!plain.contains('\x1b'));
    let bold = on_terminal("");
    assert!(bold.contains("\x1b[1mMost exceptions; one counts in each"), "{bold}");
    assert_eq!(anstream::adapter::strip_str(&bold).to_string(), plain);
    assert_eq!(on_terminal("NO_COLOR=1"), plain);
    assert_eq!(on_terminal("TERM=dumb"), plain);
}

#[test]
fn the_text_report_by_hour_thread_and_run() {
    let logs = shop();
    for key in ["hour", "thread", "run"] {
        let text = logs.analyze(&["logs", "--by", key]).quiet();
        assert_golden(&format!("by_{key}.txt"), &text);
    }
}

/// A name that a report prints selects that thread, one without a name too.
#[test]
fn threads_are_selected_by_name_and_as_reports_print_them() {
    let logs = Logs::new();
    let run = logs.run("20261120T140000Z-web07-4242", "web07", 4242);
    run.rows(T14, &[method(1, "com.shop.Order", "pay", "()V")]).rows(T14, &[stack(1, 0, 1)]);
    run.rows(T14, &[thread(1, "exec-1"), thread(2, "exec-1"), thread(3, "")]);
    for (id, calls) in [(1, 3), (2, 5), (3, 7)] {
        let calls: Vec<_> = (0..calls).map(|_| call(T14 + S, id, 1, 1, 2 * MS)).collect();
        run.rows(T14, &calls);
    }
    let by_thread = logs.analyze(&["logs", "--by", "thread", "--format", "csv"]);
    let printed = by_thread.csv_column("thread");
    assert_eq!(printed, ["thread #3", "exec-1 #2", "exec-1 #1"]);
    let select = |thread: &str| {
        let csv = logs.analyze(&["logs", "--thread", thread, "--format", "csv"]);
        csv.csv_column("calls").concat()
    };
    let calls: Vec<String> = printed.iter().map(|thread| select(thread)).collect();
    assert_eq!(calls, ["7", "5", "3"]);
    assert_eq!(["exec-1", "exec-*", "thread #*"].map(select), ["8", "8", "7"]);
    // Without a number, only names count.
    assert_eq!(select("*1"), "8");
}

#[test]
fn the_csv_and_the_json_report() {
    let logs = shop();
    let csv = logs.analyze(&["logs", "--format", "csv"]);
    assert_eq!(csv.status, 0);
    assert_golden("report.csv", &csv.stdout);
    assert_golden("report.csv.stderr", &csv.stderr);
    let json = logs.analyze(&["logs", "--format", "json"]);
    json.json();
    assert_golden("report.json", &json.quiet());
}

#[test]
fn no_line_is_wider_than_100_columns() {
    let logs = shop();
    let run = logs.run("20261120T150000Z-host-1", &"host".repeat(40), 1);
    let class = format!("com.{}.Order", "verylongpackage".repeat(20));
    let descriptor = format!("({})V", "Lcom/shop/Parameter;".repeat(30));
    run.rows(T15, &[method(1, &class, "pay", &descriptor)]);
    run.rows(T15, &[stack(1, 0, 1)]);
    let rubbish = StatsRow {
        calls: u64::MAX,
        throws: u64::MAX,
        total_ns: u64::MAX,
        self_ns: u64::MAX,
        max_ns: u64::MAX,
        ..stats(T15, 1, 0, 0, &[u64::MAX])
    };
    run.rows(T15, &[rubbish]);
    run.rows(T15, &[CallRow { exit: Exit::Unfinished, ..call(T15, 1, 1, 1, MS) }]);
    for by in ["hour", "thread", "run"] {
        let text = logs.analyze(&["logs", "--by", by, "--from", "2026-11-20"]).quiet();
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 100, "{widest}:\n{text}");
    }
    // The name is wrapped over lines, but complete.
    let text = logs.analyze(&["logs"]).quiet();
    let joined: String = text.split_whitespace().collect();
    assert!(joined.contains(&class), "{text}");
}

#[test]
fn every_sort_key_sorts_and_ties_are_broken_by_name() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    let names = ["a", "b", "c", "d", "e", "f"];
    let methods: Vec<_> = (1..).zip(names).map(|(id, m)| method(id, "C", m, "()V")).collect();
    run.rows(T14, &methods);
    // Each method is first in one column; the rest ties.
    run.rows(
        T14,
        &[
            StatsRow { throws: 9, ..stats(T14, 6, 0, MS, &[2 * MS]) },
            stats(T14, 5, 0, MS, &[2 * MS; 30]),
            StatsRow { max_ns: S, ..stats(T14, 4, 0, MS, &[2 * MS]) },
            stats(T14, 3, 0, 5 * MS, &[2 * MS]),
            stats(T14, 2, 0, MS, &[900 * US; 100]),
            stats(T14, 1, 0, MS, &[3 * MS]),
        ],
    );
    for (key, order) in [
        ("self", "cabdef"),
        ("total", "bea"),
        ("calls", "beacdf"),
        ("avg", "acdefb"),
        ("max", "dacefb"),
        ("throws", "fabcde"),
    ] {
        let csv = logs.analyze(&["logs", "--sort", key, "--format", "csv"]);
        let sorted = csv.csv_column("method").concat();
        assert!(sorted.starts_with(order), "{key}: {sorted}");
        let json = logs.analyze(&["logs", "--sort", key, "--format", "json"]).json();
        assert_eq!(json["methods"][0]["method"], order[..1], "{key}");
        assert_eq!(json["sort"], key);
    }
}

#[test]
fn top_cuts_each_group_and_shares_are_of_all() {
    let logs = shop();
    let text = logs.analyze(&["logs", "--top", "1"]).quiet();
    assert!(text.contains("and 2 more methods"), "{text}");
    let json = logs.analyze(&["logs", "--top", "1", "--format", "json"]).json();
    assert_eq!(json["methods"].as_array().unwrap().len(), 1);
    assert_eq!(json["methods_not_shown"], 2);
    // 130 of 212.5 ms.
    let percent = json["methods"][0]["self_percent"].as_f64().unwrap();
    assert!((percent - 61.176).abs() < 0.001, "{percent}");
    let hours = logs.analyze(&["logs", "--top", "1", "--by", "hour", "--format", "csv"]);
    assert_eq!(hours.csv_column("hour"), ["2026-11-20T14:00Z", "2026-11-20T15:00Z"]);
    let all = logs.analyze(&["logs", "--top", "0"]).quiet();
    assert_eq!(all, logs.analyze(&["logs"]).quiet());
}

#[test]
fn csv_has_the_key_as_its_first_column() {
    let logs = shop();
    let plain = logs.analyze(&["logs", "--format", "csv"]).csv();
    for key in ["hour", "thread", "run"] {
        let rows = logs.analyze(&["logs", "--by", key, "--format", "csv"]).csv();
        assert_eq!(rows[0][0], key);
        assert_eq!(rows[0][1..], plain[0][..]);
    }
    let by_run = logs.analyze(&["logs", "--by", "run", "--format", "csv"]);
    assert_eq!(by_run.csv_column("run"), [RUN_A, RUN_A, RUN_A, RUN_B, RUN_B]);
}

#[test]
fn groups_add_up_to_the_whole() {
    let logs = shop();
    let sums = |args: &[&str]| {
        let csv = logs.analyze(args);
        ["calls", "throws", "total_ns", "self_ns"].map(|column| {
            csv.csv_column(column).iter().map(|n| n.parse::<u64>().unwrap()).sum::<u64>()
        })
    };
    let whole = sums(&["logs", "--format", "csv"]);
    assert_eq!(whole, [11, 3, 242_500_000, 212_500_000]);
    for key in ["hour", "run"] {
        assert_eq!(sums(&["logs", "--format", "csv", "--by", key]), whole, "{key}");
    }
    let of_runs: Vec<_> = [RUN_A, RUN_B]
        .iter()
        .map(|run| sums(&[&format!("logs/{run}"), "--format", "csv"]))
        .collect();
    assert_eq!(std::array::from_fn(|i| of_runs[0][i] + of_runs[1][i]), whole);
}

#[test]
fn from_is_part_of_the_selection_and_to_is_not() {
    let logs = shop();
    let calls = |from: &str, to: &str| {
        let csv = logs.analyze(&["logs", "--format", "csv", "--from", from, "--to", to]);
        let calls = csv.csv_column("calls");
        calls.iter().map(|n| n.parse::<u64>().unwrap()).sum::<u64>()
    };
    assert_eq!(calls("2026-11-20T14:00Z", "2026-11-20T14:01Z"), 6);
    // Widened to the interval of 14:00.
    assert_eq!(calls("2026-11-20T14:00:01Z", "2026-11-20T15:00:00Z"), 7);
    assert_eq!(calls("14:01", "14:02"), 1);
    assert_eq!(calls("15:00", "2026-11-21"), 4);
    assert_eq!(calls("2026-11-20", "2026-11-21"), 11);
    let text = logs.analyze(&["logs", "--from", "15:00"]).quiet();
    assert!(text.contains("selected  from 2026-11-20T15:00:00Z\n"), "{text}");
    // Losses at other times are not reported here, but missing probes are.
    assert!(!text.contains("dropped") && !text.contains("threshold"), "{text}");
    assert!(text.contains("3 selected methods could not be instrumented"), "{text}");
}

#[test]
fn a_time_that_cuts_an_interval_is_answered_and_said() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "m", "()V")]).rows(T14, &[stack(1, 0, 1)]);
    for minute in 0..4 {
        let at = T14 + minute * MIN;
        run.rows(T14, &[stats(at, 1, 0, 12 * MS, &[MS, MS, 10 * MS])]);
        run.rows(T14, &[counter(at, "threshold_ns", 5 * MS), counter(at, "bytes", 1)]);
        // In the last minute, no call took that long.
        if minute < 3 {
            run.rows(T14, &[call(at + 30 * S, 1, 1, 1, 10 * MS)]);
        }
    }
    let report = |from: &str, to: &str| {
        let args = ["logs", "--from", from, "--to", to];
        let json = logs.analyze(&[&args[..], &["--format", "json"]].concat()).json();
        let text = logs.analyze(&args).quiet();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let calls = json["methods"][0]["calls"].as_u64().unwrap();
        let times = ["statistics_from", "statistics_to"];
        let times = times.map(|key| json["selected"][key].as_str().unwrap()[11..19].to_owned());
        (calls, json["figures_of"].as_str().unwrap().to_owned(), times.join(" "), text)
    };
    // Whole intervals.
    let (calls, of, times, text) = report("14:01", "14:03");
    assert_eq!((calls, &*of, &*times), (6, "statistics", "14:01:00 14:03:00"));
    assert!(!text.contains("interval"), "{text}");
    // It overlaps two intervals.
    let (calls, of, times, text) = report("14:01:20", "14:02:20");
    assert_eq!((calls, &*of, &*times), (6, "statistics", "14:01:00 14:03:00"));
    let note = "kept by interval: these are from 2026-11-20T14:01:00Z to 2026-11-20T14:03:00Z";
    assert!(text.contains(note), "{text}");
    // Shorter than an interval.
    let (calls, of, _, text) = report("14:01:20", "14:01:40");
    assert_eq!((calls, &*of), (1, "recorded_calls"));
    let note = "Figures are of recorded calls alone, those at or over the threshold: the selected time is \
                shorter than the interval of the method statistics, from 2026-11-20T14:01:00Z to \
                2026-11-20T14:02:00Z";
    assert!(text.contains(note), "{text}");
    // No call of this time was recorded.
    let (calls, of, times, text) = report("14:03:20", "14:03:40");
    assert_eq!((calls, &*of, &*times), (3, "statistics", "14:03:00 14:04:00"));
    assert!(text.contains("kept by interval: these are from 2026-11-20T14:03:00Z"), "{text}");
    // The JVM was killed before it wrote the statistics of its last minute.
    run.rows(T14, &[call(T14 + 4 * MIN, 1, 1, 1, 10 * MS)]);
    let (calls, of, _, text) = report("14:04", "14:06");
    assert_eq!((calls, &*of), (1, "recorded_calls"));
    assert!(text.contains("the logs have no method statistics of this time"), "{text}");
    // Losses of the interval are reported for a part of it too.
    run.rows(T14, &[counter(T14 + MIN, "recorded_calls_dropped", 7)]);
    assert!(report("14:01:20", "14:01:40").3.contains("7 recorded calls dropped"));
    assert!(!report("14:02:20", "14:02:40").3.contains("dropped"));
}

/// The agent begins the next interval when it notices that one is over.
#[test]
fn a_minute_of_a_real_log_is_that_minute() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "m", "()V"), method(2, "C", "rare", "()V")]);
    run.rows(T14, &[stack(1, 0, 1)]);
    for (minute, late) in
        (0..7).zip([400 * MS, 900 * MS, 200 * MS, 700 * MS, 300 * MS, 800 * MS, 500 * MS])
    {
        let at = T14 + minute * MIN + late;
        run.rows(T14, &[stats(at, 1, 0, 60 * MS, &[MS; 60]), stats(at, 2, 0, MS, &[MS])]);
        run.rows(T14, &[counter(at, "threshold_ns", 5 * MS), counter(at, "bytes", 1)]);
        run.rows(T14, &[call(at + 30 * S, 1, 1, 1, 10 * MS)]);
    }
    let select = |from: &str, to: &str, more: &[&str]| {
        let args = [&["logs", "--from", from, "--to", to, "--format", "json"], more].concat();
        let json = logs.analyze(&args).json();
        (json["methods"][0]["calls"].as_u64(), json["figures_of"].as_str().unwrap().to_owned())
    };
    for (from, to, calls) in
        [("14:01", "14:02", 60), ("14:02", "14:03", 60), ("14:01", "14:04", 180)]
    {
        assert_eq!(select(from, to, &[]), (Some(calls), "statistics".into()), "{from} {to}");
    }
    let text = logs.analyze(&["logs", "--from", "14:01", "--to", "14:04"]).quiet();
    assert!(!text.contains("interval"), "{text}");
    // No call of this method was recorded.
    let rare = select("14:01:10", "14:01:40", &["--method", "rare"]);
    assert_eq!(rare, (Some(1), "statistics".into()));
    // A run with long intervals does not keep other runs from being exact.
    let other = logs.run("other", "web", 2);
    other.rows(T14, &[method(1, "D", "n", "()V")]);
    for minute in [0, 20] {
        let at = T14 + minute * MIN;
        other.rows(T14, &[stats(at, 1, 0, MS, &[MS])]).rows(T14, &[counter(at, "bytes", 1)]);
    }
    assert_eq!(select("14:02", "14:05", &[]), (Some(180), "statistics".into()));
}

#[test]
fn records_are_selected_by_their_end() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "m", "()V")]).rows(T14, &[stack(1, 0, 1)]);
    run.rows(T14, &[call(T14 + 59 * MIN, 1, 1, 1, 2 * MIN), call(T14, 1, 1, 1, MIN)]);
    let max = |from: &str, to: &str| {
        let args = ["logs", "--by", "thread", "--format", "csv", "--from", from, "--to", to];
        logs.analyze(&args).csv_column("max_ns")
    };
    assert_eq!(max("14:00", "15:00"), [MIN.to_string()]);
    assert_eq!(max("15:00", "16:00"), [(2 * MIN).to_string()]);
    assert_eq!(max("15:01", "15:02"), [(2 * MIN).to_string()]);
    assert_eq!(max("15:02", "15:03"), [""; 0]);
}

#[test]
fn a_pattern_selects_methods() {
    let logs = shop();
    let methods = |pattern: &str| {
        let csv = logs.analyze(&["logs", "--format", "csv", "--method", pattern]);
        csv.csv_column("method")
    };
    assert_eq!(methods("com.shop.stock"), ["count"]);
    assert_eq!(methods("com.shop.order.OrderService.pay"), ["pay", "pay"]);
    assert_eq!(methods("**.c*"), ["count"]);
    let text = logs.analyze(&["logs", "--method", "com.shop.stock"]).quiet();
    assert!(text.contains("selected  methods com.shop.stock\n"), "{text}");
    assert!(!text.contains("Worker.run()"), "unfinished calls are selected too: {text}");
}

#[test]
fn a_short_name_selects_the_one_class_that_it_can_be_of() {
    let logs = shop();
    let selected = |args: &[&str]| {
        let json = logs.analyze(&[&["logs", "--format", "json"], args].concat()).json();
        let classes = json["methods"].as_array().unwrap().iter();
        let classes: BTreeSet<String> =
            classes.map(|row| row["class"].as_str().unwrap().to_owned()).collect();
        (json["selected"]["method"].as_str().unwrap().to_owned(), classes.into_iter().collect())
    };
    let (service, stock) = ("com.shop.order.OrderService", "com.shop.stock.Stock");
    for (short, full, class) in [
        ("pay", "com.shop.order.OrderService.pay", service),
        ("OrderService", service, service),
        ("OrderService.pay", "com.shop.order.OrderService.pay", service),
        ("count", "com.shop.stock.Stock.count", stock),
    ] {
        let expected: (String, Vec<String>) = (full.to_owned(), vec![class.to_owned()]);
        assert_eq!(selected(&["--method", short]), expected, "{short}");
    }
    let tree = logs.analyze(&["logs", "--tree", "top-down", "--root", "pay"]).quiet();
    assert!(tree.contains("OrderService.pay"), "{tree}");
    // Two classes have such a method.
    let run = logs.run("20261120T160000Z-web09-1", "web09", 1);
    run.rows(T14, &[method(1, "com.shop.Cart", "pay", "()V")]);
    run.rows(T14, &[stats(T14, 1, 0, MS, &[MS])]);
    let line = "analyze: --method: 'pay' could be com.shop.Cart.pay, com.shop.order.OrderService.pay; \
                give one of them, or **.pay for all\n";
    for args in [&["logs"][..], &["logs", "--format", "chrome-trace"], &["diff", "logs", "logs"]] {
        let outcome = logs.analyze(&[args, &["--method", "pay"]].concat());
        assert_eq!((outcome.status, &*outcome.stderr), (2, line), "{args:?}");
    }
    assert_eq!(selected(&["--method", "Cart.pay"]).0, "com.shop.Cart.pay");
}

#[test]
#[allow(clippy::too_many_lines, reason = "a list of cases")]
fn an_empty_selection_says_why() {
    let logs = shop();
    let root = logs.analyze(&["logs", "--tree", "top-down", "--root", "com.shpo"]).quiet();
    let unwrapped = root.split_whitespace().collect::<Vec<_>>().join(" ");
    let reason = "no recorded call was made by methods named by com.shpo: no method has such a name; \
                  near it: com.shop. A pattern";
    assert!(unwrapped.contains(reason), "{root}");
    for (args, reason) in [
        (
            &["--exit", "throw", "--thread", "worker"][..],
            "no calls match the filters at any time; --by thread lists the threads",
        ),
        (
            &["--exit", "throw", "--from", "15:00"][..],
            "no recorded call ended with an exception from 2026-11-20T15:00:00Z; shorter ones are in \
             the method statistics: a report without --exit has them in the column throws",
        ),
        (
            &["--exit", "unfinished"][..],
            "unfinished calls are in no figure; they are listed below, if there are any",
        ),
        (
            &["--from", "2026-11-21"][..],
            "no calls from 2026-11-21T00:00:00Z: these logs are of the hours 2026-11-20T14:00Z to \
             2026-11-20T15:00Z",
        ),
        (
            &["--method", "org.nobody"][..],
            "no calls in methods named by org.nobody: no method has such a name. A pattern is like \
             com.shop, com.shop.Order.pay, com.shop.*Dao or **.pay, without parameters",
        ),
        (
            &["--method", "OrderService.pay(int)"][..],
            "no calls in methods named by OrderService.pay(int): no method has such a name; \
             near it: com.shop.order.OrderService.pay. A pattern is like com.shop, \
             com.shop.Order.pay, com.shop.*Dao or **.pay, without parameters",
        ),
        (
            &["--method", "com.shop.stock", "--from", "14:01", "--to", "14:02"][..],
            "no calls in methods named by com.shop.stock from 2026-11-20T14:01:00Z to \
             2026-11-20T14:02:00Z",
        ),
    ] {
        let args = [&["logs"], args].concat();
        let text = logs.analyze(&args).quiet();
        let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(unwrapped.contains(reason), "{text}");
        let json = logs.analyze(&[&args[..], &["--format", "json"]].concat()).json();
        assert_eq!(json["notes"][0], reason);
        assert_eq!(json["methods"].as_array().unwrap().len(), 0);
        let csv = logs.analyze(&[&args[..], &["--format", "csv"]].concat());
        assert_eq!((csv.status, csv.csv().len()), (0, 1));
        assert!(csv.stderr.starts_with(&format!("analyze: {reason}\n")), "{}", csv.stderr);
    }
    let one_hour = Logs::new();
    let run = one_hour.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "m", "()V")]).rows(T14, &[stats(T14, 1, 0, MS, &[MS])]);
    let text = one_hour.analyze(&["logs", "--from", "15:00"]).quiet();
    assert!(text.contains("these logs are of the hour 2026-11-20T14:00Z\n"), "{text}");
    let off = Logs::new();
    off.run("run", "web", 1).rows(T14, &[counter(T14, "recorded_ns", 0)]);
    let text = off.analyze(&["logs"]).quiet();
    assert!(text.contains("\nno calls: recording was off all the time"), "{text}");
    let nothing = Logs::new();
    nothing.run("run", "web", 1);
    let text = nothing.analyze(&["logs"]).quiet();
    assert!(text.contains("\nno calls: either no class was instrumented"), "{text}");
}

#[test]
fn a_recursion_adds_its_total_once_by_thread_too() {
    let rows = shop().analyze(&["logs", "--by", "thread", "--format", "csv"]).csv();
    let count: Vec<_> =
        rows.iter().filter(|row| row[2] == "count" && row[0].contains("web07")).collect();
    assert_eq!(count.len(), 1);
    let row = [&count[0][0], &count[0][4], &count[0][6], &count[0][7], &count[0][9]];
    let thread = format!("exec-1 #1 in {RUN_A}");
    assert_eq!(row, [&thread, "2", "30000000", "20000000", "30000000"]);
}

#[test]
fn by_thread_a_recorded_call_without_its_path_counts_in_full() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "m", "()V")]).rows(T14, &[stack(1, 0, 0)]);
    run.rows(T14, &[call(T14, 7, 1, 1, MS), call(T14, 7, 99, 1, MS)]);
    let json = logs.analyze(&["logs", "--by", "thread", "--format", "json"]).json();
    assert_eq!(json["methods"][0]["total_ns"], 2 * MS);
    assert_eq!(json["methods"][0]["thread"], "thread #7");
    let notes = json["notes"].to_string();
    assert!(notes.contains("call path was not kept count in full, recursive or not: 2"), "{notes}");
}

#[test]
fn an_unfinished_call_is_reported_once_and_only_until_it_ends() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    let open = |start_ns, thread, ns| CallRow {
        exit: Exit::Unfinished,
        ..call(start_ns, thread, 2, 1, ns)
    };
    run.rows(T14, &[method(1, "C", "m", "()V"), method(2, "C", "main", "()V")]);
    run.rows(T14, &[stack(1, 0, 2), stack(2, 1, 1)]);
    run.rows(
        T14,
        &[
            open(T14, 1, MS),
            open(T14, 1, 9 * MS),
            open(T14, 1, 5 * MS),
            open(T14 + 1, 1, 3 * MS),
            open(T14, 2, 4 * MS),
            // Written when recording stopped, and again when the call had ended.
            open(T14, 3, 4 * MS),
            call(T14, 3, 2, 1, 6 * MS),
        ],
    );
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let running: Vec<u64> = json["unfinished"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["running_ns"].as_u64().unwrap())
        .collect();
    assert_eq!(running, [9 * MS, 4 * MS, 3 * MS]);
    assert_eq!(json["unfinished"][0]["callers"][0]["method"], "main");
    // The one that ended.
    assert_eq!(json["methods"].as_array().unwrap().len(), 1);
    let text = logs.analyze(&["logs", "--top", "1"]).quiet();
    assert!(text.contains("under C.main\n"), "{text}");
    assert!(text.contains("     9.00 ms     9.00 ms  C.m()\n  and 2 more\n"), "{text}");
}

#[test]
fn a_long_path_shows_the_nearest_callers() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    let methods: Vec<_> = (1..=20).map(|id| method(id, "p.C", &format!("m{id}"), "()V")).collect();
    let stacks: Vec<_> = (1..=20).map(|id| stack(id, id - 1, id)).collect();
    run.rows(T14, &methods).rows(T14, &stacks);
    run.rows(T14, &[CallRow { exit: Exit::Unfinished, ..call(T14, 1, 20, 20, MS) }]);
    let text = logs.analyze(&["logs"]).quiet();
    assert!(text.contains(" under ... > C.m12 > C.m13 > "), "{text}");
    assert!(text.contains(" > C.m18 > C.m19\n"), "{text}");
    assert!(text.ends_with("  p.C.m20()\n"), "{text}");
}

/// Every call counts, but the total has only the outermost ones.
#[test]
fn the_average_of_a_recursive_method_has_a_sign() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "again", "()V"), method(2, "C", "plain", "()V")]);
    // Nine calls of 90 us within one of 100 us, and some in which the call paths show it alone.
    let again = stats(T14, 1, 0, 100 * US, &[&[90 * US; 9][..], &[100 * US]].concat());
    run.rows(T14, &[StatsRow { total_ns: 100 * US, ..again }]);
    run.rows(T14, &[stats(T14, 2, 0, 100 * US, &[&[US; 9][..], &[200 * US]].concat())]);
    let text = logs.analyze(&["logs", "--method", "C"]).quiet();
    let sign =
        "*: average too low: of a method that calls itself, total has only the outermost calls\n";
    assert_eq!(text.matches(sign).count(), 2, "{text}");
    assert_eq!(text.matches(" 10.0 us* ").count(), 2, "{text}");
    assert!(text.contains(" 20.9 us ") && !text.contains("20.9 us*"), "{text}");
    // Too short to be seen in the statistics; recorded calls show it.
    let few = Logs::new();
    let run = few.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "again", "()V")]).rows(T14, &[stack(1, 0, 1), stack(2, 1, 1)]);
    run.rows(T14, &[call(T14, 1, 2, 1, MS), call(T14, 1, 1, 1, 50 * MS)]);
    let row = stats(T14, 1, 0, 50 * MS, &[50 * MS, MS]);
    run.rows(T14, &[StatsRow { total_ns: 50 * MS, ..row }]);
    let text = few.analyze(&["logs"]).quiet();
    assert_eq!(text.matches(" 25.0 ms* ").count(), 2, "{text}");
}

#[test]
fn overloads_are_distinguished() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(
        T14,
        &[
            method(1, "C", "m", "(La/Key;)V"),
            method(2, "C", "m", "(Lb/Key;)V"),
            method(3, "C", "m", "(I)V"),
        ],
    );
    run.rows(T14, &[1, 2, 3].map(|id| stats(T14, id, 0, MS, &[MS])));
    let text = logs.analyze(&["logs"]).quiet();
    for label in ["C.m(a.Key): void\n", "C.m(b.Key): void\n", "C.m(int)\n"] {
        assert!(text.contains(label), "{text}");
    }
}

#[test]
fn loaders_and_runs_are_merged_into_one_method() {
    let logs = Logs::new();
    for pid in 1..=2 {
        let run = logs.run(&format!("run{pid}"), "web", pid);
        let mut other_loader = method(9, "C", "m", "()V");
        other_loader.loader = "web 2".into();
        run.rows(T14, &[method(pid, "C", "m", "()V"), other_loader]);
        run.rows(T14, &[stats(T14, pid, 0, MS, &[MS]), stats(T14, 9, 0, MS, &[3 * MS])]);
    }
    let csv = logs.analyze(&["logs", "--format", "csv"]);
    assert_eq!(csv.csv()[1][..8], ["C", "m", "()V", "4", "0", "8000000", "4000000", "2000000"]);
    assert_eq!(csv.csv().len(), 2);
}
