//! SQL statements: by total time, the slowest, in the tree of a slow call, compared, and for TProfiler's scripts.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;

use crate::common::sampled_shop::{ORDER, RUN, STOCK};
use crate::common::sql_shop::{
    AUDIT, BY_ID, HOSTILE, INSERT, SHOP, SLOW, long, shop, slow_sql, sql, statement,
};
use crate::common::task_shop::{BEGIN, QUERY, REQUEST, empty_shop, known_request, task};
use crate::common::*;
use log_format::file_names::Table;
use log_format::rows::{
    CallRow, Exit, LockKind, LockWaitRow, SlowSqlRow, TaskState, counter as name,
};
use log_format::writer::one_line;
use serde_json::{Value, json};

/// Without a name in its run.
const UNNAMED: &str = "[statement #7 of 20261120T140000Z-web07-4242]";

/// Of each statement: text, executions, throws, total, p50, p99 and longest in microseconds, and its callers with their
/// executions.
fn rows(logs: &Logs, more: &[&str]) -> Vec<Value> {
    let json = logs.analyze(&[&["logs", "--format", "json"], more].concat()).json();
    let rows = json["sql"]["statements"].as_array().cloned().unwrap_or_default();
    let row = |row: &Value| {
        let us = |key: &str| row[key].as_u64().unwrap() / US;
        let [total, p50, p99, max] = ["total_ns", "p50_ns", "p99_ns", "max_ns"].map(us);
        let callers = row["callers"].as_array().unwrap().iter();
        let callers: Vec<Value> =
            callers.map(|of| json!([of["site"]["method"], of["executions"]])).collect();
        let (executions, throws) = (&row["executions"], &row["throws"]);
        json!([row["text"], executions, throws, total, p50, p99, max, callers])
    };
    rows.iter().map(row).collect()
}

#[test]
fn statements_are_summed_up_by_text_and_database() {
    let logs = shop();
    let text = logs.analyze(&["logs"]).quiet();
    let (_, statements) = text.split_once("\nSQL statements by total time").unwrap();
    assert_golden("sql.txt", statements);
    let expected = [
        json!([BY_ID, 104, 1, 66_400, 229, 10_485, 18_000, [["count", 102], ["pay", 2]]]),
        json!([long(), 2, 0, 52_000, 20_971, 30_000, 30_000, [["pay", 2]]]),
        json!([HOSTILE, 1, 1, 14_000, 14_000, 14_000, 14_000, [["reserve", 1]]]),
        json!(["[unknown statement]", 1, 0, 7_000, 7_000, 7_000, 7_000, [[null, 1]]]),
        json!([INSERT, 1, 0, 5_000, 5_000, 5_000, 5_000, [["pay", 1]]]),
        json!([UNNAMED, 1, 0, 3_000, 3_000, 3_000, 3_000, [["count", 1]]]),
        json!(["[other statements]", 4, 0, 2_000, 500, 500, 500, [[null, 4]]]),
    ];
    assert_eq!(rows(&logs, &[]), expected);
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let calls = |of: usize| json["sql"]["statements"][of]["callers"][0]["calls"].clone();
    // Statistics do not have all of these methods.
    assert_eq!(
        [calls(0), calls(1), calls(2), calls(3)],
        [json!(1), json!(1), json!(null), json!(null)]
    );
    let top = logs.analyze(&["logs", "--top", "2"]).quiet();
    assert!(
        top.contains("    and 5 more rows\n") && top.contains("    and 7 more rows\n"),
        "{top}"
    );
}

#[test]
fn statements_are_sorted_as_methods_are() {
    let logs = shop();
    for (key, heading, first) in [
        ("total", "total time", [BY_ID, &long()]),
        ("calls", "executions", [BY_ID, "[other statements]"]),
        ("avg", "average time", [&*long(), HOSTILE]),
        ("max", "longest execution", [&*long(), BY_ID]),
        ("throws", "throws", [BY_ID, HOSTILE]),
    ] {
        let texts: Vec<Value> =
            rows(&logs, &["--sort", key]).into_iter().map(|row| row[0].clone()).collect();
        assert_eq!(texts[..2], first, "{key}");
        let text = logs.analyze(&["logs", "--sort", key]).quiet();
        assert!(text.contains(&format!("\nSQL statements by {heading}: 149 ms")), "{text}");
    }
}

#[test]
fn no_line_is_too_long_and_none_has_control_characters() {
    for arguments in [&["logs"][..], &["logs", "--slowest", "1"], &["logs", "--top", "0"]] {
        let text = shop().analyze(arguments).quiet();
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
            assert!(!line.chars().any(|c| c.is_control()), "{line:?}");
        }
    }
}

#[test]
fn the_first_screen_has_one_line() {
    let text = shop().analyze(&["logs"]).quiet();
    let line =
        format!("\nSQL: 114 executions (2 threw), 149 ms, slowest 30.0 ms ({}", &long()[..15]);
    assert!(first_screen(&text).contains(&line), "{text}");
}

#[test]
fn json_has_the_slowest_executions() {
    let json = shop().analyze(&["logs", "--format", "json"]).json();
    let sql = &json["sql"];
    assert_eq!((&sql["figures_of"], &sql["executions"]), (&"statistics".into(), &114.into()));
    assert_eq!((&sql["total_ns"], &sql["throws"]), (&149_400_000.into(), &2.into()));
    assert_eq!(sql["statements"][0]["url"], SHOP);
    let slowest = sql["slowest"].as_array().unwrap();
    let ms: Vec<u64> = slowest.iter().map(|slow| slow["total_ns"].as_u64().unwrap() / MS).collect();
    assert_eq!(ms, [900, 30, 22, 18, 14, 12, 11, 7, 3]);
    let method = |class: &str, method: &str, descriptor: &str| json!({"class": class, "method": method, "descriptor": descriptor});
    let count = method(STOCK, "count", "(I)J");
    let pay = method(ORDER, "pay", "(ILjava/lang/String;)Z");
    let driver = method("com.mysql.cj.jdbc.StatementImpl", "executeQuery", "()V");
    let expected = json!({
        "run": RUN,
        "thread": "exec-1 #1",
        "text": BY_ID,
        "literal_text": "select * from orders where id = 17",
        "url": SHOP,
        "start": "2026-11-20T14:00:05Z",
        "start_ns": SLOW + 12 * MS,
        "total_ns": 18 * MS,
        "exit": "return",
        "path": [count, pay],
        "stack": [driver, count, pay],
    });
    assert_eq!(slowest[3], expected);
    assert_eq!((&slowest[4]["exit"], &slowest[1]["literal_text"]), (&"throw".into(), &Value::Null));
    assert_eq!(slowest[0]["exit"], "unfinished");
    assert_eq!(slowest[7]["path"], json!([]));
}

#[test]
fn statements_are_selected_by_time_thread_and_method() {
    let logs = shop();
    let minute = [json!([BY_ID, 2, 0, 23_000, 11_500, 12_000, 12_000, [["count", 2]]])];
    assert_eq!(rows(&logs, &["--from", "14:01"]), minute);
    assert_eq!(rows(&logs, &["--to", "14:01"])[1][1], 102);
    let reserve = [json!([HOSTILE, 1, 1, 14_000, 14_000, 14_000, 14_000, [["reserve", 1]]])];
    assert_eq!(rows(&logs, &["--method", "reserve"]), reserve);
    // Only slow executions have threads.
    let of_thread = [
        json!([long(), 1, 0, 30_000, 30_000, 30_000, 30_000, [["pay", 1]]]),
        json!([BY_ID, 1, 0, 18_000, 18_000, 18_000, 18_000, [["count", 1]]]),
        json!([HOSTILE, 1, 1, 14_000, 14_000, 14_000, 14_000, [["reserve", 1]]]),
        json!([INSERT, 1, 0, 3_000, 3_000, 3_000, 3_000, [["pay", 1]]]),
    ];
    assert_eq!(rows(&logs, &["--thread", "exec-1"]), of_thread);
    let text = logs.analyze(&["logs", "--thread", "exec-1"]).quiet();
    assert!(text.contains("SQL statements with --thread are those at or over the"), "{text}");
    let heading =
        "\nSQL statements by total time, slow ones alone: 65.0 ms in 4 executions (1 threw)\n";
    assert!(text.contains(heading), "{text}");
    // Times shorter than an interval have only slow executions too.
    let short = ["--from", "14:00:05", "--to", "14:00:06"];
    assert_eq!(rows(&logs, &short).len(), 4);
    // --exit and --above have no effect.
    assert_eq!(rows(&logs, &["--above", "50ms"]), rows(&logs, &[]));
    assert_eq!(rows(&logs, &["--exit", "throw"]), rows(&logs, &[]));
}

#[test]
fn without_statistics_slow_executions_count() {
    let logs = shop();
    fs::remove_file(logs.run(RUN, "web07", 4242).file(T14, Table::Sql)).unwrap();
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let sql = &json["sql"];
    assert_eq!((&sql["figures_of"], &sql["executions"]), (&"slow_executions".into(), &8.into()));
    let notes = json["notes"].to_string();
    assert!(notes.contains("SQL statements without statistics of this time are those"), "{notes}");
}

/// They have no length yet.
#[test]
fn unfinished_executions_are_in_no_figures() {
    let logs = shop();
    let minute = ["--from", "14:01", "--thread", "exec-2"];
    let ended = [json!([BY_ID, 2, 0, 23_000, 11_500, 12_000, 12_000, [["count", 2]]])];
    assert_eq!(rows(&logs, &minute), ended);
    let json =
        logs.analyze(&[&["logs", "--format", "json", "--by", "minute"], &minute[..]].concat());
    let groups = json.json()["sql"]["groups"].clone();
    assert_eq!((&groups[0]["executions"], &groups[0]["total_ns"]), (&2.into(), &(23 * MS).into()));
}

/// An application that hangs has nothing else.
#[test]
fn unfinished_executions_alone_are_shown() {
    let logs = shop();
    let alone = ["logs", "--from", "14:01:59", "--to", "14:02"];
    let text = logs.analyze(&alone).quiet();
    let line = "    900 ms  at 2026-11-20T14:01:59.000Z in thread exec-2 #2, unfinished\n";
    assert!(text.contains(line) && !text.contains("SQL statements by total time"), "{text}");
    let json = logs.analyze(&[&alone[..], &["--format", "json"]].concat()).json();
    let sql = &json["sql"];
    assert_eq!((&sql["executions"], &sql["statements"]), (&0.into(), &json!([])));
    assert_eq!(
        (&sql["slowest"][0]["exit"], sql["slowest"][1].is_null()),
        (&"unfinished".into(), true)
    );
}

/// The statement's time so far was taken after the call's.
#[test]
fn an_unfinished_statement_is_in_the_tree_of_its_call() {
    let logs = shop();
    let pay = CallRow { exit: Exit::Unfinished, ..slow(0, 1, 500, 480) };
    let run = slow_call(&logs, &[slow(110, 4, 20, 20), pay]);
    fs::remove_file(run.file(T14, Table::SlowSql)).unwrap();
    let unfinished = slow_sql(SLOW + 100 * MS, 1, 4, 410 * MS, 1);
    run.rows(T14, &[SlowSqlRow { exit: Exit::Unfinished, ..unfinished }]);
    assert_golden("sql_unfinished.txt", &tree(&logs, &["--unfinished"]));
}

#[test]
fn json_has_statements_by_group() {
    let logs = shop();
    let groups = |by: &str| {
        let json = logs.analyze(&["logs", "--format", "json", "--by", by]).json();
        let row = |row: &Value| {
            let site = &row["site"]["method"];
            json!([row[by], row["text"], site, row["executions"], row["total_ns"]])
        };
        let rows = json["sql"]["groups"].as_array().cloned().unwrap_or_default();
        rows.iter().map(row).collect::<Vec<Value>>()
    };
    let minutes = groups("minute");
    let sum: u64 = minutes.iter().map(|row| row[4].as_u64().unwrap()).sum();
    assert_eq!((minutes.len(), sum), (9, 149_400_000));
    assert_eq!(minutes[8], json!(["2026-11-20T14:01Z", BY_ID, "count", 2, 23 * MS]));
    let threads = groups("thread");
    assert_eq!((threads.len(), &threads[0]), (7, &json!(["exec-1 #1", long(), "pay", 1, 30 * MS])));
    assert_eq!(groups("class"), [Value::Null; 0]);
}

/// Ids hold only within a run.
#[test]
fn statements_of_two_runs_add_up() {
    let logs = shop();
    let other = logs.run("20261120T150000Z-web08-17", "web08", 17);
    other.rows(T15, &[method(7, STOCK, "count", "(I)J")]).rows(T15, &[thread(1, "exec-9")]);
    // The same text in another database is another statement.
    other.rows(T15, &[statement(1, SHOP, INSERT), statement(9, SHOP, BY_ID)]);
    other.rows(T15, &[sql(T15, 9, 7, 0, &[20 * MS]), sql(T15, 1, 0, 0, &[MS])]);
    other.rows(T15, &[sql(T15, 7, 0, 0, &[MS])]);
    other.rows(T15, &[stack(1, 0, 7)]).rows(T15, &[slow_sql(T15 + S, 1, 9, 20 * MS, 1)]);
    let merged = rows(&logs, &[]);
    let first = json!([BY_ID, 105, 1, 86_400, 229, 20_000, 20_000, [["count", 103], ["pay", 2]]]);
    assert_eq!((merged.len(), &merged[0]), (9, &first));
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    // In any order.
    let [one, two] = [RUN, "20261120T150000Z-web08-17"].map(|run| format!("logs/{run}"));
    let turned = logs.analyze(&[&two, &one, "--format", "json"]).json();
    assert_eq!(turned["sql"]["statements"], json["sql"]["statements"]);
    let slow = &json["sql"]["slowest"][3];
    let run = (&slow["run"], &slow["thread"], &slow["text"]);
    assert_eq!(run, (&"20261120T150000Z-web08-17".into(), &"exec-9 #1".into(), &BY_ID.into()));
}

#[test]
fn a_slow_call_has_its_statements_below_the_call_that_executed_them() {
    let logs = shop();
    assert_golden("sql_slowest.txt", &logs.analyze(&["logs", "--slowest", "1"]).quiet());
    let first = logs.analyze(&["logs"]).quiet();
    let line =
        "   18.0 ms   18.0%   18.0 ms          1      SQL select * from orders where id = ?\n";
    assert!(first_screen(&first).contains(line), "{first}");
    fs::remove_file(logs.run(RUN, "web07", 4242).file(T14, Table::SlowSql)).unwrap();
    let text = logs.analyze(&["logs", "--slowest", "1"]).quiet();
    assert!(!text.contains("SQL "), "{text}");
}

/// Replaces the calls by these, some of them of instrumented methods of the driver.
fn slow_call(logs: &Logs, calls: &[CallRow]) -> RunFolder {
    let run = logs.run(RUN, "web07", 4242);
    run.rows(
        T14,
        &[method(4, "com.mysql.Io", "send", "()V"), method(5, "com.mysql.Io", "flush", "()V")],
    );
    run.rows(T14, &[stack(4, 1, 4), stack(5, 4, 5)]);
    fs::remove_file(run.file(T14, Table::Calls)).unwrap();
    run.rows(T14, calls);
    run
}

/// A call of the method with the number of its call path, so many milliseconds after the slow call began.
fn slow(at: u64, stack: u32, ms: u64, self_ms: u64) -> CallRow {
    CallRow { self_ns: self_ms * MS, ..call(SLOW + at * MS, 1, stack, stack, ms * MS) }
}

fn wait(at: u64, ms: u64, stack: u32) -> LockWaitRow {
    LockWaitRow {
        kind: LockKind::Lock,
        ..locked_shop::lock_wait(SLOW + at * MS, [1, 0], "com.mysql.Lock", ms * MS, stack)
    }
}

/// The tree of the slowest call.
fn tree(logs: &Logs, more: &[&str]) -> String {
    let text = logs.analyze(&[&["logs", "--slowest", "1"], more].concat()).quiet();
    text.split_once("\n     total ").unwrap().1.to_owned()
}

/// An instrumented method of the driver within a statement, and waits in both.
#[test]
fn calls_and_waits_within_a_statement_are_below_it() {
    let logs = shop();
    // Within the long statement, from 65 to 95 ms; of these, 10 ms are in `pay` itself.
    let calls = [slow(10, 2, 50, 30), slow(80, 5, 8, 8), slow(70, 4, 20, 12), slow(0, 1, 100, 20)];
    slow_call(&logs, &calls).rows(T14, &[wait(66, 2, 1), wait(72, 3, 4)]);
    assert_golden("sql_within.txt", &tree(&logs, &[]));
}

/// A statement is below the one that it is within, and calls and waits below the innermost one.
///
/// ```text
/// ms      0    10    50    100    110    150    200    300 310   340    400
/// pay     |=============================================================|
/// SQL     |===== the long one ====================================|
/// SQL          |INSERT|                                                      a wait of 5 ms in it
/// send                       |===================|
/// SQL                              |HOSTILE|                                 `flush` and a wait in it
/// wait                                                 |==|
/// ```
#[test]
fn statements_are_below_the_innermost_one_around_them() {
    let logs = shop();
    let calls = [slow(115, 5, 10, 10), slow(100, 4, 100, 90), slow(0, 1, 400, 300)];
    let run = slow_call(&logs, &calls);
    run.rows(T14, &[wait(20, 5, 1), wait(130, 5, 4), wait(300, 10, 1)]);
    fs::remove_file(run.file(T14, Table::SlowSql)).unwrap();
    let sql = |at, statement, ms, stack| slow_sql(SLOW + at * MS, 1, statement, ms * MS, stack);
    run.rows(T14, &[sql(10, 4, 40, 1), sql(110, 2, 40, 4), sql(0, 3, 340, 1)]);
    assert_golden("sql_nested.txt", &tree(&logs, &[]));
}

#[test]
fn each_statement_is_whole_in_csv_and_html() {
    let logs = shop();
    let csv = logs.analyze(&["logs", "--format", "csv", "--rows", "sql"]);
    let header = "statement,url,class,method,descriptor,executions,throws,total_ns,avg_ns,p50_ns,p99_ns,max_ns,method_calls";
    assert_eq!(csv.csv()[0].join(","), header);
    let texts = csv.csv_column("statement");
    assert_eq!(texts.len(), 8);
    assert_eq!((&*texts[0], &*texts[2], &*texts[3]), (BY_ID, &*long(), HOSTILE));
    assert_eq!(
        csv.csv()[2][2..].join(","),
        format!("{ORDER},pay,(ILjava/lang/String;)Z,2,1,4000000,2000000,2000000,2000000,2000000,1")
    );
    let by = logs.analyze(&["logs", "--format", "csv", "--rows", "sql", "--by", "minute"]).csv();
    assert_eq!(by[0].join(","), "minute,statement,url,class,method,descriptor,executions,total_ns");
    let page = logs.analyze(&["logs", "--format", "html"]).quiet();
    let data = browser::data(&page);
    let tables = data["tables"].as_array().unwrap();
    let of = |heading: &str| {
        let is_it = |table: &&Value| table["heading"].as_str().unwrap().starts_with(heading);
        tables.iter().find(is_it).unwrap()["rows"].as_array().unwrap()
    };
    let statements = of("SQL statements by total time");
    assert_eq!((&statements[1][0], &statements[2][0]), (&long().into(), &one_line(HOSTILE).into()));
    let slowest = of("The slowest SQL statements");
    assert_eq!((slowest.len(), &slowest[0][4]), (9, &"unfinished".into()));
    assert!(!page.contains("<b>\u{1b}"));
}

/// Statements of an hour of recording, whatever the database, the largest change first.
#[test]
fn a_comparison_has_statements() {
    // In twice the time the same, and 60 ms more of one; one is new.
    let after = shop();
    after
        .run(RUN, "web07", 4242)
        .rows(T14, &[counter(T14 + MIN, name::RECORDED_NS, 2 * MIN)])
        .rows(T14, &[statement(8, AUDIT, BY_ID), statement(9, AUDIT, "begin")])
        .rows(T14, &[sql(T14, 8, 1, 0, &[20 * MS; 3]), sql(T14, 9, 1, 0, &[7 * MS])]);
    let logs = sampled_shop::compared(&shop(), &after);
    let diff = |more: &[&str]| logs.analyze(&[&["diff"], more].concat());
    let text = diff(&["before", "after"]).quiet();
    let (_, statements) = text.split_once("\nSQL statements, ").unwrap();
    assert_golden("diff_sql.txt", statements);
    let json = diff(&["before", "after", "--per", "call", "--format", "json"]).json();
    let row = |row: &Value| {
        let times = ["was_ns", "is_ns", "cost_ns"].map(|key| row[key].as_i64().unwrap());
        let [was, is, cost] = times.map(|ns| ns / 1_000_000);
        json!([row["text"], was, is, cost, row["before_executions"], row["after_executions"]])
    };
    let rows: Vec<Value> = json["sql"].as_array().unwrap().iter().map(row).collect();
    assert_eq!((rows.len(), &rows[0]), (8, &json!([long(), 1_560, 780, -780, 2, 2])));
    let of_both = json!([BY_ID, 1_992, 1_896, -96, 104, 107]);
    assert!(rows.contains(&of_both), "{rows:?}");
    let top = diff(&["before", "after", "--top", "2"]).quiet();
    assert!(top.ends_with("    and 6 more rows\n"), "{top}");
    let same = diff(&["before", "before"]).quiet();
    assert!(same.ends_with("\nSQL statements: no change\n"), "{same}");
    let one = diff(&["none", "after"]).quiet();
    assert!(
        one.contains("\nSQL statements, by time added or saved per hour; none before, or not"),
        "{one}"
    );
    assert!(!diff(&["none", "none"]).quiet().contains("SQL"));
    let json = diff(&["none", "none", "--format", "json"]).json();
    assert!(json.get("sql").is_none());
}

#[test]
fn tprofilers_log_of_slow_statements_is_written() {
    let logs = shop();
    let arguments = ["logs", "--format", "tprofiler", "-o", "out"];
    assert_eq!(logs.analyze(&arguments).status, 0);
    let file = logs.root().join("out/mysqlProfiler.log");
    assert_golden("mysqlProfiler.log", &fs::read_to_string(&file).unwrap());
    // Again, and only a part.
    assert_eq!(logs.analyze(&[&arguments[..], &["--thread", "exec-2"]].concat()).status, 0);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 5);
    assert_eq!(logs.analyze(&[&arguments[..], &["--method", "reserve"]].concat()).status, 0);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 2);
    // TProfiler's own is not replaced.
    fs::write(&file, "=\ndb1\t3306\tshop\tselect 1\ttrue\n").unwrap();
    let refused = logs.analyze(&arguments);
    assert!(
        refused.status == 2 && refused.stderr.contains("mysqlProfiler.log is TProfiler's"),
        "{refused:?}"
    );
    let none = locked_shop::shop();
    assert_eq!(none.analyze(&arguments).status, 0);
    assert!(!none.root().join("out/mysqlProfiler.log").exists());
}

#[test]
fn lost_statements_are_reported() {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    run.rows(T14, &[counter(T14, name::SLOW_SQL_DROPPED, 7), counter(T14, name::SQL_LOST, 1)]);
    let text = logs.analyze(&["logs", "--notes"]).quiet();
    assert!(text.contains("7 slow SQL statements dropped; statistics of SQL"), "{text}");
    assert!(text.contains("1 SQL statement not counted, for lack of memory"), "{text}");
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    let missing = &json["missing"];
    assert_eq!((&missing["slow_sql_dropped"], &missing["sql_lost"]), (&7.into(), &1.into()));
}

#[test]
fn damaged_tables_are_counted_and_not_fatal() {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    run.raw(T14, Table::Statements, "1,,another text\n").raw(T14, Table::Sql, "0,1,2,3\n");
    run.raw(T14, Table::SlowSql, "17,1,1,9");
    let damaged = logs.analyze(&["logs", "--format", "json"]);
    assert_eq!(damaged.status, 0, "{}", damaged.stderr);
    assert!(damaged.stderr.contains("statement 1 has another name"), "{}", damaged.stderr);
    let old = logs.analyze(&["logs", "--format", "tprofiler", "-o", "out"]);
    assert!(old.status == 0 && old.stderr.contains("statement 1 has another name"), "{old:?}");
    let read = &damaged.json()["read"];
    assert_eq!((&read["bad_lines"], &read["torn_lines"]), (&2.into(), &1.into()));
    assert_eq!(rows(&logs, &[])[0][0], BY_ID);
    // Nothing is named.
    fs::remove_file(run.file(T14, Table::Statements)).unwrap();
    assert_eq!(rows(&logs, &[])[0][0], "[statement #1 of 20261120T140000Z-web07-4242]");
    for arguments in [&["logs"][..], &["logs", "--slowest", "2"], &["logs", "--format", "html"]] {
        assert_eq!(logs.analyze(arguments).status, 0);
    }
}

#[test]
fn strange_ids_and_times_are_no_problem() {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    let strange = |start_ns, total_ns| SlowSqlRow { start_ns, ..slow_sql(0, 99, 0, total_ns, 98) };
    run.rows(T14, &[strange(0, u64::MAX), strange(u64::MAX, u64::MAX), strange(SLOW, 0)]);
    run.rows(T14, &[sql(T14, 0, 99, 0, &[u64::MAX / 2]), sql(T14, 0, 98, 0, &[u64::MAX / 2 + 9])]);
    for arguments in [&["logs"][..], &["logs", "--slowest", "2"], &["logs", "--format", "json"]] {
        assert_eq!(logs.analyze(arguments).status, 0);
    }
}

#[test]
fn logs_without_statements_have_no_section() {
    let logs = locked_shop::shop();
    assert!(!logs.analyze(&["logs"]).quiet().contains("SQL"));
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    assert!(json.get("sql").is_none() && json["missing"].get("sql_lost").is_none());
}

/// A request of a profile task executes a statement for 200 ms in its innermost call. In this log, no call's self time
/// lacks its callees.
#[test]
fn a_tasks_request_has_its_statements() {
    let logs = empty_shop();
    let run = logs.run(RUN, "web07", 4242);
    run.rows(T14, &[task(BEGIN, "3", TaskState::Running, 1, "")]);
    known_request(&run, "3", REQUEST);
    run.rows(T14, &[statement(1, "jdbc:h2:mem:shop", "select 1")]);
    run.rows(T14, &[slow_sql(REQUEST + 150 * MS, 1, 1, 200 * MS, QUERY)]);
    let json = logs.analyze(&["logs", "--task", "3", "--format", "json"]).json();
    let exact: Vec<Value> = json["exact"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| json!([of["depth"], of["kind"], of["name"], of["total_ns"], of["self_ns"]]))
        .collect();
    let ms = |ms: u64| ms * MS;
    let known = [
        json!([0, "call", "com.shop.order.OrderService.pay:41", ms(500), ms(500)]),
        json!([1, "call", "com.shop.stock.Stock.check:12", ms(500), ms(500)]),
        json!([2, "call", "com.shop.Db.query", ms(300), ms(100)]),
        json!([3, "sql", "select 1", ms(200), ms(200)]),
    ];
    assert_eq!(exact, known);
    let text = logs.analyze(&["logs", "--task", "3"]).quiet();
    assert!(
        text.contains("exact, with SQL statements\n") && text.contains(" SQL select 1\n"),
        "{text}"
    );
}
