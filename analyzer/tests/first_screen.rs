//! The first screen of a text report: all that it shows fits 60 lines of 100 columns, and notes that make figures wrong
//! are not hidden.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;

use crate::common::allocating_shop::allocated;
use crate::common::locked_shop::locks;
use crate::common::sampled_shop::{frame, sampled_stack, samples, shop, waiting, waiting_shop};
use crate::common::sql_shop::{slow_sql, sql, statement};
use crate::common::throwing_shop::exceptions;
use crate::common::*;
use log_format::file_names::Table;
use log_format::rows::{CallRow, EventRow, Exit, StatsRow, counter as name, event};

const LINES: usize = 60;
const COLUMNS: usize = 100;
const MB: u64 = 1_000_000;

/// More parameters than a line has room for.
const LONG: &str =
    "(Ljava/util/Map;Ljava/util/List;Ljava/lang/String;Lcom/shop/Customer;Lcom/shop/Basket;Z)V";

/// Methods that call each other in the slowest call, and those that requests enter.
const CALLED: u32 = 12;
const ENTERED: std::ops::Range<u32> = 31..38;

/// A service with everything that a report can show: `Worker.run > Dispatcher.next` are not recorded, and call
/// `Handler1`, whose slowest call took 2 s and called twelve methods, each another one.
fn busy() -> Logs {
    let logs = Logs::new();
    let run = logs.run("20261120T140000Z-web07-4242", "web07", 4242);
    let class = |id: u32| format!("com.shop.web.Handler{id}");
    let mut methods: Vec<_> = (1..=CALLED).chain(ENTERED).collect::<Vec<_>>();
    methods.sort_unstable();
    let methods = methods.iter().map(|id| method(*id, &class(*id), "handle", LONG));
    run.rows(T14, &methods.collect::<Vec<_>>());
    run.rows(
        T14,
        &[
            method(20, "com.shop.Worker", "run", "()V"),
            method(21, "com.shop.Dispatcher", "next", "()V"),
        ],
    );
    run.rows(T14, &[thread(1, "http-8080-exec-1")]);
    // 20: run   21: run > next   1: run > next > Handler1   2..: the handlers below each other
    run.rows(T14, &[stack(20, 0, 20), stack(21, 20, 21), stack(1, 21, 1)]);
    run.rows(T14, &(2..=CALLED).map(|id| stack(id, id - 1, id)).collect::<Vec<_>>());
    run.rows(T14, &ENTERED.map(|id| stack(id, 0, id)).collect::<Vec<_>>());
    // Handler2 calls itself.
    run.rows(T14, &[stack(40, 2, 2)]);
    let at = T14 + 5 * S;
    let within = |id: u32| CallRow {
        self_ns: 100 * MS,
        ..call(at + u64::from(id) * MS, 1, id, id, 2 * S - u64::from(id) * 100 * MS)
    };
    run.rows(T14, &[CallRow { allocated_bytes: Some(7), ..call(at + 500 * MS, 1, 40, 2, MS) }]);
    run.rows(T14, &(1..=CALLED).rev().map(within).collect::<Vec<_>>());
    for hour in 0..3 {
        let at = T14 + hour * HOUR;
        let of = |id: u32| StatsRow {
            throws: u64::from(id % 30),
            ..stats(at, id, 0, u64::from(id) * MS, &[200 * MS; 30])
        };
        let ids = (1..=CALLED).chain(ENTERED);
        run.rows(at, &ids.map(of).collect::<Vec<_>>());
        let entered = ENTERED.map(|id| call(at + MIN + u64::from(id) * S, 1, id, id, 150 * MS));
        run.rows(at, &entered.collect::<Vec<_>>());
    }
    run.rows(T14, &[CallRow { exit: Exit::Unfinished, ..call(T14, 1, 20, 20, 3 * HOUR - MIN) }]);
    add_samples(&run);
    run.rows(T14, &[locks(T14, "com.shop.stock.Warehouse", 2, &[30 * MS; 40])]);
    run.rows(T14, &[allocated(T14 + S, 1, "com.shop.web.Page", [MB, 3_000, 12], 2)]);
    run.rows(T14, &[exceptions(T14, 3, "com.shop.stock.OutOfStock", [9, 7])]);
    run.rows(T14, &[statement(1, "", &sql_shop::long())]);
    run.rows(T14, &[sql(T14, 1, 3, 0, &[30 * MS])]);
    add_losses(&run);
    logs
}

fn add_samples(run: &RunFolder) {
    let long = |id: u32| frame(id, "java", &format!("com.shop.web.Handler{id}"), "handle", LONG);
    run.rows(T14, &(1..=CALLED).map(long).collect::<Vec<_>>());
    run.rows(T14, &(1..=CALLED).map(|id| sampled_stack(id, 0, id)).collect::<Vec<_>>());
    let states = ["blocked", "parked", "timed_waiting", "native"].iter().cycle();
    for (id, state) in (1..=CALLED).zip(states) {
        run.rows(T14, &[samples(T14 + S, 1, id, u64::from(id) * 10)]);
        run.rows(T14, &[waiting(id, state, u64::from(id) * 1_000)]);
    }
}

/// Every counter of a loss, and every event.
fn add_losses(run: &RunFolder) {
    let losses = [
        (name::THRESHOLD_NS, MS),
        (name::RECORDED_NS, 3 * HOUR),
        (name::PROBE_NS, 18 * MS),
        (name::CPU_NS, S),
        (name::RECORDED_CALLS, 10_000),
        (name::RECORDED_CALLS_DROPPED, 1_234),
        (name::LOST_CALLS, 12),
        (name::UNSEEN_ENDS, 3),
        (name::MUTED_METHODS, 4),
        (name::MUTED_CALLS, 5),
        (name::THROTTLED_CALLS, 6),
        (name::NOT_INSTRUMENTED, 7),
        (name::LEAVES, 1_242),
        (name::UNREADABLE, 8),
        (name::RECORDED_CALLS_OVER_BUDGET, 9_586),
        (name::ROWS_DROPPED, 9),
        (name::IO_ERRORS, 2),
        (name::TIMERS_REFUSED, 3),
    ];
    run.rows(T14, &losses.map(|(name, value)| counter(T14, name, value)));
    run.rows(T14, &[counter(T14 + MIN, name::RAISED_TO_NS, 4 * MS)]);
    run.rows(T14, &[counter(T14 + 3 * MIN, name::RAISED_TO_NS, 0)]);
    let throttled = (1..=CALLED).map(|id| {
        throttled(T14 + MIN, &format!("com.shop.web.Handler{id}.handle{LONG}"), 100_000, 50)
    });
    run.rows(T14, &throttled.collect::<Vec<_>>());
    let reason = "run runs in thread main".to_owned();
    let postponed = EventRow::new(T14, event::CLASS_POSTPONED);
    run.rows(T14, &[EventRow { class: "com.shop.Worker".into(), reason, ..postponed }]);
}

fn assert_fits(text: &str) {
    let first = first_screen(text);
    assert!(first.lines().count() <= LINES, "{} lines:\n{first}", first.lines().count());
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= COLUMNS, "{widest}:\n{text}");
}

#[test]
fn what_comes_first_fits_a_screen() {
    for logs in [shop(), waiting_shop(), two_jvms::shop()] {
        assert_fits(&logs.analyze(&["logs"]).quiet());
    }
    let all = busy().analyze(&["logs"]).quiet();
    assert_fits(&all);
    assert_golden("first_screen_all.txt", first_screen(&all));
    // Statements in the slowest call have a line each.
    let slow = busy();
    let run = slow.run("20261120T140000Z-web07-4242", "web07", 4242);
    run.rows(
        T14,
        &(2..9)
            .map(|id| statement(id, "", &format!("{id} {}", sql_shop::long())))
            .collect::<Vec<_>>(),
    );
    let within =
        (2..9).map(|id| slow_sql(T14 + 5 * S + u64::from(id) * 100 * MS, 1, id, 99 * MS, 2));
    run.rows(T14, &within.collect::<Vec<_>>());
    let slow = slow.analyze(&["logs"]).quiet();
    assert_fits(&slow);
    // Every part is there.
    for part in ["Entry methods", "CPU time", "Wall time", "The slowest recorded call", "trust "] {
        assert!(first_screen(&all).contains(&format!("\n{part}")), "{part}:\n{all}");
    }
    for below in ["Hours compared", "Most exceptions", "Recursive methods", "Methods by self"] {
        let place = all.find(&format!("\n{below}")).unwrap_or_else(|| panic!("{below}:\n{all}"));
        assert!(place >= first_screen(&all).len(), "{below}:\n{all}");
    }
    // Names that do not fit are whole in the table.
    let name = "com.shop.web.Handler31.handle(Map, List, String, Customer, Basket, boolean)\n";
    assert!(
        first_screen(&all).contains("  Handler31.handle(...)\n") && all.contains(name),
        "{all}"
    );
    // Without samples, methods by self time stand in for CPU time.
    let first = two_jvms::shop().analyze(&["logs"]).quiet();
    assert!(first_screen(&first).contains("\nHottest methods, by self time\n"), "{first}");
}

#[test]
fn entry_methods_have_their_percentiles() {
    let text = busy().analyze(&["logs"]).quiet();
    let (_, entries) = text.split_once("\nEntry methods").unwrap();
    let mut lines = entries.lines().skip(2).filter(|line| !line.starts_with('+'));
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let heads = words(lines.find(|line| line.contains("calls/s")).unwrap());
    assert_eq!(heads, ["calls", "calls/s", "throws", "p50", "p95", "p99", "max", "method"]);
    let first = lines.next().unwrap();
    assert!(first.contains("  200 ms   200 ms   200 ms   200 ms  Handler"), "{first}");
}

/// The tree is that of `--slowest`, with fewer rows.
#[test]
fn the_slowest_call_is_a_small_tree() {
    let logs = busy();
    let text = logs.analyze(&["logs"]).quiet();
    let (_, call) = first_screen(&text).split_once("\nThe slowest recorded call").unwrap();
    let name = "Handler1.handle(Map, List, String, Customer, Basket, boolean)";
    assert!(call.contains(&format!("    1.90 s  {name}\n")), "{call}");
    assert!(call.contains("under Worker.run > Dispatcher.next\n"), "{call}");
    let rows = |text: &str| {
        let rows = text.lines().filter(|line| line.contains("% ") && line.contains("Handler"));
        let figures = |row: &str| row.split_whitespace().take(6).collect::<Vec<_>>().join(" ");
        rows.map(figures).collect::<Vec<_>>()
    };
    let few = rows(call);
    let all = logs.analyze(&["logs", "--slowest", "1", "--top", "0"]).quiet();
    assert_eq!(few, rows(&all)[..few.len()], "{call}\n{all}");
    assert_eq!((few.len(), rows(&all).len()), (7, 13), "{call}\n{all}");
    assert!(call.contains("       and 7 more rows: --slowest 1 --top 0\n"), "{call}");
    // A filter selects the call, not what it called.
    let selected = logs.analyze(&["logs", "--method", "com.shop.web.Handler5"]).quiet();
    let (_, call) = first_screen(&selected).split_once("\nThe slowest recorded call").unwrap();
    assert!(call.contains(" > Handler4.handle\n") && call.contains("Handler6.handle"), "{call}");
}

/// Notes that make figures wrong or incomplete are always there; the rest is counted.
#[test]
fn notes_are_at_the_end_if_they_are_asked_for() {
    let logs = busy();
    let unwrapped = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short = logs.analyze(&["logs"]).quiet();
    let (_, end) = short.split_once("\nWhat is missing; all notes (27): --notes\n\n").unwrap();
    for flaw in [
        "1,234 recorded calls dropped",
        "12 calls not counted: out of memory",
        "3 calls counted as ended by exception",
        "4 methods were muted",
        "5 calls not counted",
        "6 calls not counted",
        "7 selected methods could not be instrumented",
        "8 selected classes could not be read",
        "9,586 calls not recorded: the hour's log budget",
        "9 rows of the log were dropped",
        "3 timers were refused",
        "1 period with a raised threshold",
        "1 class was not instrumented, all or part of the time",
        "12 methods were throttled, all or part of the time",
    ] {
        assert_eq!(end.matches(&format!("  {flaw}")).count(), 1, "{flaw}:\n{end}");
    }
    // The count stands for what is hidden of it.
    let hidden =
        ["trivial leaves", "writes to the log", "threshold raised from 1.00 ms to 4.00 ms"];
    let long = logs.analyze(&["logs", "--notes"]).quiet();
    let (_, notes) = long.split_once("\nNotes\n\n").unwrap();
    for note in hidden.into_iter().chain(["Handler1.handle(Ljava", "The profiler took about 1.8%"])
    {
        assert!(!end.contains(note), "{note}:\n{end}");
        assert!(unwrapped(notes).contains(note), "{note}:\n{notes}");
    }
    assert!(first_screen(&long).contains(" notes: see the end\n"), "{long}");
    // Without figures that are wrong, only their number is shown.
    let harmless = Logs::new();
    let run = harmless.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "m", "()V")]).rows(T14, &[stats(T14, 1, 0, MS, &[MS])]);
    run.rows(T14, &[counter(T14, name::LEAVES, 2), counter(T14, name::IO_ERRORS, 1)]);
    let text = harmless.analyze(&["logs"]).quiet();
    assert!(text.ends_with("\n\n2 notes: --notes\n"), "{text}");
    let json = logs.analyze(&["logs", "--notes", "--format", "json"]);
    let reason = "analyze: --notes is for a text; other formats have all notes\n";
    assert_eq!((json.status, json.stderr.as_str()), (2, reason));
}

/// Number of calls not counted, too long for the line at the top.
const LONG_NUMBER: u64 = 123_456_789_012;

#[test]
fn what_is_too_long_for_the_top_does_not_hide_what_comes_after_it() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "m", "()V")]).rows(T14, &[stats(T14, 1, 0, MS, &[MS])]);
    let losses = [
        (name::THRESHOLD_NS, MS),
        (name::RECORDED_CALLS_DROPPED, 1_234),
        (name::LOST_CALLS, LONG_NUMBER),
        (name::RAISED_TO_NS, 4 * MS),
    ];
    run.rows(T14, &losses.map(|(name, value)| counter(T14, name, value)));
    run.rows(T14, &[throttled(T14 + MIN, "C.m()V", 100_000, 50)]);
    let text = logs.analyze(&["logs"]).quiet();
    let numbers = "1,234 calls dropped, 1 method throttled, 1 raised threshold";
    assert!(text.contains(&format!("\ntrust     {numbers}, 4 notes: --notes\n")), "{text}");
    let raised = "\n  1 period with a raised threshold: of shorter calls, only each method's slowest was recorded\n";
    assert!(text.contains(raised), "{text}");
}

#[test]
fn what_names_nothing_is_reported_and_near_names_too() {
    let logs = busy();
    let reason = "no calls in methods named by com.shop.Dispatchr: no method has such a name; near it: \
                  com.shop.Dispatcher. A pattern";
    let args = ["logs", "--method", "com.shop.Dispatchr"];
    for more in [&[][..], &["--slowest", "3"], &["--tree", "top-down"], &["--by", "hour"]] {
        let text = logs.analyze(&[&args[..], more].concat()).quiet();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(reason), "{more:?}: {text}");
    }
    // What does not show the text says it on stderr.
    for more in
        [&["-o", "report.txt"][..], &["--format", "html", "-o", "x.html"], &["--format", "json"]]
    {
        let outcome = logs.analyze(&[&args[..], more].concat());
        assert_eq!(outcome.status, 0, "{more:?}");
        assert!(outcome.stderr.starts_with(&format!("analyze: {reason}")), "{}", outcome.stderr);
    }
    // An empty file of events is an error.
    let trace = logs.analyze(&[&args[..], &["--format", "chrome-trace"]].concat());
    assert!(
        trace.stderr.starts_with(&format!("analyze: no recorded {}", &reason[3..])),
        "{trace:?}"
    );
    assert_eq!((trace.status, trace.stdout.as_str()), (2, ""));
}

#[test]
fn a_number_of_slowest_calls_that_is_none_is_named() {
    let logs = Logs::new();
    for value in ["x", "0", "1001", "-1", ""] {
        let outcome = logs.analyze(&["logs", &format!("--slowest={value}")]);
        let line = format!(
            "analyze: --slowest: '{value}' is not a number of calls from 1 to 1000, like 5\n"
        );
        assert_eq!((outcome.status, outcome.stderr), (2, line));
    }
}

/// Rows are written when calls end: those of a call at the end of an hour are in the next hour's file, and are read,
/// but not those of later hours.
#[test]
fn the_tree_of_a_call_across_hours_is_whole() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "outer", "()V"), method(2, "C", "inner", "()V")]);
    run.rows(T14, &[stack(1, 0, 1), stack(2, 1, 2)]);
    let end = T15 + S;
    let outer = CallRow { self_ns: S, ..call(end - 4 * S, 1, 1, 1, 4 * S) };
    run.rows(T14, &[call(end - 3 * S, 1, 2, 2, S)]);
    run.rows(T15, &[call(end - 2 * S, 1, 2, 2, 2 * S), outer]);
    run.rows(T15 + 3 * HOUR, &[call(T15 + 3 * HOUR, 1, 2, 2, S)]);
    run.rows(T15, &[stats(T15, 1, 0, S, &[4 * S]), stats(T15, 2, 0, 3 * S, &[S, 2 * S])]);
    let text = logs.analyze(&["logs"]).quiet();
    let tree = "    4.00 s  100.0%    1.00 s          1  C.outer()\n    \
                3.00 s   75.0%    3.00 s          2    C.inner()\n";
    assert!(first_screen(&text).contains(tree), "{text}");
    assert!(logs.analyze(&["logs", "--slowest", "1"]).quiet().contains(tree), "{text}");
}

/// `main` and loops that take requests are no slow calls.
#[test]
fn the_slowest_call_is_a_request() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "main", "()V"), method(2, "C", "serve", "()V")]);
    run.rows(T14, &[thread(1, "main"), thread(2, "exec-1")]);
    run.rows(T14, &[stack(1, 0, 1), stack(2, 0, 2)]);
    run.rows(T14, &[call(T14 + S, 2, 2, 2, 40 * MS), call(T14, 1, 1, 1, 50 * S)]);
    run.rows(T14, &[stats(T14, 1, 0, 50 * S, &[50 * S]), stats(T14, 2, 0, S, &[40 * MS; 20])]);
    let text = logs.analyze(&["logs"]).quiet();
    assert!(first_screen(&text).contains("\n    40.0 ms  C.serve()\n"), "{text}");
    // Without requests, it is what there is.
    run.rows(T14, &[stats(T14, 2, 0, 50 * S, &[5 * S; 9])]);
    fs::remove_file(run.file(T14, Table::Calls)).unwrap();
    run.rows(T14, &[call(T14, 1, 1, 1, 50 * S)]);
    let text = logs.analyze(&["logs"]).quiet();
    assert!(first_screen(&text).contains("\n    50.0 s  C.main()\n"), "{text}");
}

/// A request that hangs is an entry and the slowest call; `main` and a worker that takes requests are not.
#[test]
fn a_request_that_hangs_is_first() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    let named = |id, name| method(id, "C", name, "()V");
    run.rows(T14, &[named(1, "main"), named(2, "work"), named(3, "serve"), named(4, "hang")]);
    run.rows(T14, &[thread(1, "main"), thread(2, "exec-1"), thread(3, "exec-2")]);
    run.rows(T14, &[stack(1, 0, 1), stack(2, 0, 2), stack(3, 2, 3), stack(4, 0, 4)]);
    run.rows(T14, &[call(T14, 1, 1, 1, 58 * S), call(T14 + 20 * S, 3, 4, 4, 9 * S)]);
    for request in 0..20 {
        run.rows(T14, &[call(T14 + (10 + request) * S, 2, 3, 3, 40 * MS)]);
    }
    run.rows(T14, &[call(T14 + 9 * S, 2, 2, 2, 25 * S)]);
    run.rows(T14, &[stats(T14, 1, 0, S, &[58 * S]), stats(T14, 2, 0, S, &[25 * S])]);
    run.rows(T14, &[stats(T14, 3, 0, S, &[40 * MS; 20]), stats(T14, 4, 0, S, &[9 * S])]);
    run.rows(T14, &[counter(T14, name::RECORDED_NS, MIN)]);
    let text = logs.analyze(&["logs"]).quiet();
    let first = first_screen(&text);
    let (_, entries) = first.split_once("Entry methods").unwrap();
    let names: Vec<&str> = entries.lines().filter_map(|line| line.split("  C.").nth(1)).collect();
    assert_eq!(names[..2], ["hang()", "serve()"], "{text}");
    assert!(first.contains("\n    9.00 s  C.hang()\n"), "{text}");
}

/// A run of 21 seconds has three intervals, and statistics in each.
#[test]
fn main_of_a_short_run_is_no_entry() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "main", "()V"), method(2, "C", "serve", "()V")]);
    run.rows(T14, &[thread(1, "main"), thread(2, "exec-1")]);
    run.rows(T14, &[stack(1, 0, 1), stack(2, 0, 2)]);
    run.rows(T14, &[call(T14, 1, 1, 1, 20 * S), call(T14 + 5 * S, 2, 2, 2, 40 * MS)]);
    for (at, seconds) in [(0, 10_u64), (10, 10), (20, 1)] {
        let at = T14 + at * S;
        run.rows(T14, &[stats(at, 2, 0, S, &[40 * MS])]);
        run.rows(T14, &[counter(at, name::RECORDED_NS, seconds * S)]);
    }
    run.rows(T14, &[stats(T14 + 20 * S, 1, 0, S, &[20 * S])]);
    let text = logs.analyze(&["logs"]).quiet();
    let (_, entries) = first_screen(&text).split_once("Entry methods").unwrap();
    let names: Vec<&str> = entries.lines().filter_map(|line| line.split("  C.").nth(1)).collect();
    assert_eq!(names[..1], ["serve()"], "{text}");
    assert!(first_screen(&text).contains("\n    40.0 ms  C.serve()\n"), "{text}");
}

/// A service with a request a second in its first minute and ten in the second, which uses a hundredth of a processor.
fn growing() -> Logs {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "serve", "()V")]).rows(T14, &[thread(1, "http")]);
    run.rows(T14, &[stack(1, 0, 1)]);
    for (minute, calls) in [(0, 60), (1, 600)] {
        let at = T14 + minute * MIN;
        run.rows(T14, &[stats(at, 1, 0, calls as u64 * MS, &vec![MS; calls])]);
        run.rows(T14, &[call(at + S, 1, 1, 1, MS)]);
        run.rows(
            T14,
            &[
                counter(at, name::RECORDED_NS, MIN),
                counter(at, name::CPU_NS, MIN / 100),
                counter(at, name::PROBE_NS, MIN / 1_000),
            ],
        );
    }
    logs
}

#[test]
fn a_selected_time_has_its_own_calls_a_second() {
    let logs = growing();
    let calls = |more: &[&str]| {
        let text = logs.analyze(&[&["logs"], more].concat()).quiet();
        let (_, entries) = text.split_once("\nEntry methods").unwrap();
        let row = entries.lines().find(|line| line.ends_with("  C.serve()")).unwrap();
        row.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(calls(&["--to", "2026-11-20T14:01:00Z"]), ["60", "1.0"]);
    assert_eq!(calls(&["--from", "2026-11-20T14:01:00Z"]), ["600", "10.0"]);
    // Of a time shorter than an interval, only the recorded call is known.
    let short = ["--from", "2026-11-20T14:00:00Z", "--to", "2026-11-20T14:00:20Z"];
    assert_eq!(calls(&short), ["1", "0.0500"]);
}

/// In a process that is nearly idle, any share of its CPU time is large.
#[test]
fn the_profilers_share_of_an_idle_process_is_of_a_processor() {
    let logs = growing();
    for more in [&[][..], &["--from", "2026-11-20T14:01:00Z"]] {
        let text = logs.analyze(&[&["logs"], more].concat()).quiet();
        assert!(text.contains("profiler about 10.0% of CPU, about 0.1% of a processor"), "{text}");
    }
}
