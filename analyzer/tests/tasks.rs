//! Profile tasks: their requests, and SkyWalking's analysis of them.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::common::sampled_shop::{ORDER, RUN, frame, sampled_stack};
use crate::common::task_shop::{
    BEGIN, CHECK, PAY, QUERY, REQUEST, empty_shop, known_request, request, sample, shop, task,
    task_call,
};
use crate::common::*;
use log_format::file_names::{Hour, Part, Table};
use log_format::ids::{StackId, ThreadId};
use log_format::rows::{
    EventRow, SampleRow, TaskCallRow, TaskRequestRow, TaskRow, TaskState, event,
};
use serde_json::{Value, json};

const FIRST: [&str; 5] = ["logs", "--task", "3", "--request", "1"];

/// The elements of all trees: id, parent, signature without class, duration, self time, count.
fn elements(logs: &Logs, arguments: &[&str]) -> Vec<Value> {
    let json = logs.analyze(&[arguments, &["--format", "json"]].concat()).json();
    let trees = json["trees"].as_array().unwrap().iter();
    let all = trees.flat_map(|tree| tree["elements"].as_array().unwrap().clone());
    all.map(|of| {
        let name = of["code_signature"].as_str().unwrap().rsplit('.').next().unwrap().to_owned();
        json!([of["id"], of["parent_id"], name, of["duration_ms"], of["self_ms"], of["count"]])
    })
    .collect()
}

/// A log with one request of 500 ms, and its samples.
fn one_request() -> (Logs, RunFolder) {
    let logs = empty_shop();
    let run = logs.run(RUN, "web07", 4242);
    run.rows(T14, &[task(BEGIN, "3", TaskState::Running, 1, "")]);
    known_request(&run, "3", REQUEST);
    (logs, run)
}

#[test]
fn a_known_request_has_skywalkings_numbers() {
    let known = [
        json!([1, 0, "pay:41", 490, 0, 50]),
        json!([2, 1, "check:12", 490, 200, 50]),
        json!([3, 2, "query", 290, 290, 30]),
    ];
    assert_eq!(elements(&shop(), &FIRST), known);
}

#[test]
fn a_report_has_the_task_its_requests_and_their_tree() {
    let logs = shop();
    assert_golden("task.txt", &logs.analyze(&["logs", "--task", "3"]).quiet());
    assert_golden("task_request.txt", &logs.analyze(&FIRST).quiet());
    let json = logs.analyze(&["logs", "--task", "3", "--format", "json"]).quiet();
    assert_golden("task.json", &json);
    let local = logs.command(&["logs", "--task", "3", "--local"]).env("TZ", "Asia/Tokyo").output();
    assert!(String::from_utf8(local.unwrap().stdout).unwrap().contains("23:06:00+09:00"));
}

#[test]
fn tasks_are_listed_with_their_newest_state() {
    let logs = shop();
    // The next hour repeats what has not ended, and counts on.
    let run = logs.run(RUN, "web07", 4242);
    run.rows(T15, &[task(BEGIN + 6 * MIN, "5", TaskState::Running, 2, "")]);
    assert_golden("tasks.txt", &logs.analyze(&["logs", "--tasks"]).quiet());
    let json = logs.analyze(&["logs", "--tasks", "--format", "json"]).json();
    let of = |of: &Value| json!([of["id"], of["state"], of["requests"], of["reason"], of["run"]]);
    let tasks: Vec<Value> = json["tasks"].as_array().unwrap().iter().map(of).collect();
    let expected = [
        json!(["3", "finished", 3, "time", RUN]),
        json!(["4", "rejected", 0, "task 3 is running", RUN]),
        json!(["5", "running", 2, "", RUN]),
    ];
    assert_eq!(tasks, expected);
    let none = empty_shop().analyze(&["logs", "--tasks"]).quiet();
    assert_eq!(none, "these logs have no profile tasks\n");
}

#[test]
fn requests_together_are_the_sum_of_each() {
    let logs = shop();
    let together = elements(&logs, &["logs", "--task", "3"]);
    // 490 + 240 + 290, and the 30 of `check` in request 2.
    assert_eq!(together[0], json!([1, 0, "pay:41", 1_020, 410, 105]));
    assert_eq!(together[1], json!([2, 1, "check:12", 520, 230, 54]));
    assert_eq!(together[2], json!([3, 1, "query", 90, 90, 10]));
    assert_eq!(together[3], json!([4, 2, "query", 290, 290, 30]));
    assert_eq!(together.len(), 4);
}

/// As in SkyWalking, both ends of a range are in it.
#[test]
fn ranges_are_parts_of_each_request() {
    let logs = shop();
    let of = |ranges: &[&str]| {
        let ranges = ranges.iter().flat_map(|range| ["--range", range]);
        elements(&logs, &FIRST.into_iter().chain(ranges).collect::<Vec<_>>())
    };
    let pay = |ranges: &[&str]| of(ranges)[0].clone();
    assert_eq!(of(&["100..200"]).last(), Some(&json!([3, 2, "query", 100, 100, 11])));
    assert_eq!(pay(&["0..95"]), json!([1, 0, "pay:41", 90, 0, 10]));
    // Apart, they are two windows; together one, and a snapshot in both counts once.
    assert_eq!(pay(&["0..50", "200..250"]), json!([1, 0, "pay:41", 100, 0, 12]));
    assert_eq!(pay(&["0..50", "40..99"]), json!([1, 0, "pay:41", 90, 0, 10]));
    assert_eq!(pay(&["0..50", "60..99"]), json!([1, 0, "pay:41", 90, 0, 10]));
    assert_eq!(pay(&["7..12"]), json!([1, 0, "pay:41", 0, 0, 1]));
    let all = elements(&logs, &["logs", "--task", "3", "--range", "0..90"]);
    assert_eq!(all[0], json!([1, 0, "pay:41", 270, 150, 30]));
    let nothing = logs.analyze(&[&FIRST[..], &["--range", "900..1000"]].concat()).quiet();
    assert!(nothing.ends_with("\nno snapshot lies in these times\n"), "{nothing}");
}

/// Frames and stacks of samples. Between `check` and `query` is a method without probes.
///
/// ```text
/// 1 Thread.run > 2 doFilter > 3 pay > 4 check > 5 Proxy.call > 6 query > 7 read > 8 poll
///                             3 pay > 9 query > 10 read
///                                     4 check > 11 $TProfiler.start
///                                     4 check > 12 poll
///                                                              6 query > 13 memcpy
///                                                              6 query > 14 check > 15 read
/// 16 poll, without its outer frames
/// ```
fn sampled(run: &RunFolder) {
    let check = "com.shop.stock.Stock";
    run.rows(
        T14,
        &[
            frame(1, "java", "java.lang.Thread", "run", "()V"),
            frame(2, "java", "com.shop.web.Filter", "doFilter", "()V"),
            frame(3, "java", ORDER, "pay", "(ILjava/lang/String;)Z"),
            frame(4, "java", check, "check", "(I)Z"),
            frame(5, "java", "com.shop.Db", "query", "()V"),
            frame(6, "java", "com.mysql.Io", "read", "()I"),
            frame(7, "java", "sun.nio.ch.Net", "poll", "()I"),
            frame(8, "java", "java.lang.invoke.$TProfiler", "start", "(J)V"),
            frame(9, "native", "[libc.so.6]", "memcpy", ""),
            frame(10, "java", "com.shop.Proxy", "call", "()V"),
        ],
    );
    let stacks = [(1, 0, 1), (2, 1, 2), (3, 2, 3), (4, 3, 4), (5, 4, 10), (6, 5, 5), (7, 6, 6)];
    run.rows(T14, &stacks.map(|(id, parent, frame)| sampled_stack(id, parent, frame)));
    let stacks = [(8, 7, 7), (9, 3, 5), (10, 9, 6), (11, 4, 8), (12, 4, 7), (13, 6, 9)];
    run.rows(T14, &stacks.map(|(id, parent, frame)| sampled_stack(id, parent, frame)));
    let stacks = [(14, 6, 4), (15, 14, 6), (16, 0, 7)];
    run.rows(T14, &stacks.map(|(id, parent, frame)| sampled_stack(id, parent, frame)));
}

/// A row of waits has the second in which they began and no call path, so the stack tells where they were.
#[test]
fn waits_add_deeper_frames() {
    let (logs, run) = one_request();
    sampled(&run);
    let wait = |start_ns, ms, stack| sample("off_cpu", start_ns, ms, stack, 0);
    run.rows(
        T14,
        &[
            wait(REQUEST, 20, 7),
            wait(REQUEST, 100, 8),
            // Of another thread, of other seconds, of a call path that the request does not have.
            SampleRow { thread: ThreadId::new(2), ..wait(REQUEST, 50, 8) },
            wait(REQUEST + S, 50, 8),
            wait(REQUEST - 3 * S, 1_900, 8),
            wait(REQUEST, 50, 10),
            // Of probes nothing is shown. Without its outer frames, a stack tells nothing.
            wait(REQUEST, 50, 11),
            wait(REQUEST, 50, 16),
        ],
    );
    let expected = [
        json!([1, 0, "pay:41", 490, 0, 50]),
        json!([2, 1, "check:12", 490, 200, 50]),
        json!([3, 2, "query", 290, 180, 30]),
        json!([4, 3, "read", 110, 20, 12]),
        json!([5, 4, "poll", 90, 90, 10]),
    ];
    assert_eq!(elements(&logs, &FIRST), expected);
    // A wait that began long before.
    run.rows(T14, &[wait(REQUEST - 30 * S, 29_150, 8)]);
    assert_eq!(elements(&logs, &FIRST)[4], json!([5, 4, "poll", 140, 140, 15]));
}

#[test]
fn a_request_lies_in_two_hours() {
    let logs = empty_shop();
    let run = logs.run(RUN, "web07", 4242);
    sampled(&run);
    let start = T15 - 250 * MS;
    run.rows(T14, &[task(BEGIN, "3", TaskState::Running, 1, "")]);
    let of = request("3", 1, 1, start, 500, 3);
    run.rows(T14, &[task_call(&of, 4, QUERY, 100..200)]);
    run.rows(T15, &[task_call(&of, 3, CHECK, 0..500), task_call(&of, 2, PAY, 0..500)]);
    run.rows(T15, &[of]);
    run.rows(T14, &[sample("off_cpu", T15 - 30 * S, 30_000, 7, 0)]);
    run.rows(T15, &[sample("off_cpu", T15 - S, 300, 12, 0)]);
    let expected = [
        json!([1, 0, "pay:41", 490, 0, 50]),
        json!([2, 1, "check:12", 490, 120, 50]),
        json!([3, 2, "poll", 280, 280, 30]),
        json!([4, 2, "query", 90, 0, 10]),
        json!([5, 4, "read", 90, 90, 10]),
    ];
    assert_eq!(elements(&logs, &FIRST), expected);
}

/// CPU samples take moments that no wait has, and have their call path even where the stack does not.
#[test]
fn cpu_samples_take_the_moments_of_their_second() {
    let (logs, run) = one_request();
    sampled(&run);
    // `check` in `query`, which was too short to be recorded.
    run.rows(T14, &[stack(7, 4, CHECK)]);
    let cpu =
        |start_ns, ms, sampled_stack, stack| sample("cpu", start_ns, ms, sampled_stack, stack);
    // `query` has 30 moments: 10 of the wait, 8 of memcpy, 3 of poll, 2 of `check`, one of nobody knows what.
    run.rows(
        T14,
        &[
            sample("off_cpu", REQUEST, 100, 7, 0),
            cpu(REQUEST, 34, 8, 4),
            cpu(REQUEST, 75, 13, 4),
            cpu(REQUEST, 20, 15, 7),
            cpu(REQUEST, 10, 16, 4),
            // Of other seconds, of another path.
            cpu(REQUEST + S, 500, 13, 4),
            cpu(REQUEST - S, 500, 13, 4),
            cpu(REQUEST, 500, 10, 5),
        ],
    );
    let expected = [
        json!([3, 2, "query", 290, 100, 30]),
        json!([4, 3, "read", 110, 90, 13]),
        json!([5, 3, "6]", 70, 70, 8]),
        json!([6, 3, "check:12", 10, 0, 2]),
        json!([7, 4, "poll", 20, 20, 3]),
        json!([8, 6, "read", 10, 10, 2]),
    ];
    assert_eq!(&elements(&logs, &FIRST)[2..], expected);
    // More CPU time than there are moments.
    run.rows(T14, &[cpu(REQUEST, 5_000, 6, 4)]);
    let query = json!([3, 2, "query", 290, 200, 30]);
    let all = elements(&logs, &FIRST);
    assert_eq!((&all[2], all.len()), (&query, 4), "{all:?}");
}

/// One `query` of many is long enough to be recorded. Samples of the others are at moments of its caller, as far as
/// that has time in callees that are not recorded.
#[test]
fn samples_of_calls_too_short_to_be_recorded_are_below_their_caller() {
    for (check_self_ms, snapshots) in [(180, 2), (50, 15), (0, 20), (500, 0)] {
        let logs = empty_shop();
        let run = logs.run(RUN, "web07", 4242);
        sampled(&run);
        run.rows(T14, &[task(BEGIN, "3", TaskState::Running, 1, "")]);
        let of = request("3", 1, 1, REQUEST, 500, 3);
        let check = task_call(&of, 3, CHECK, 0..500);
        let check = TaskCallRow { self_ns: check_self_ms * MS, ..check };
        let query = task_call(&of, 4, QUERY, 100..400);
        run.rows(T14, &[query, check, task_call(&of, 2, PAY, 0..500)]);
        run.rows(T14, &[of]);
        run.rows(T14, &[sample("cpu", REQUEST, 500, 13, 4)]);
        let all = elements(&logs, &FIRST);
        let sum: u64 = all
            .iter()
            .filter(|element| element[1] == 2)
            .map(|element| element[5].as_u64().unwrap())
            .sum();
        assert_eq!(sum, 30 + snapshots, "{all:?}");
    }
}

#[test]
fn a_recursive_endpoint_is_deeper_and_begins_the_stack_once() {
    let logs = empty_shop();
    let run = logs.run(RUN, "web07", 4242);
    run.rows(T14, &[task(BEGIN, "3", TaskState::Running, 1, "")]);
    let of = request("3", 1, 1, REQUEST, 500, 2);
    run.rows(T14, &[task_call(&of, 6, PAY, 200..300), task_call(&of, 2, PAY, 0..500)]);
    run.rows(T14, &[of]);
    let expected = [json!([1, 0, "pay:41", 490, 400, 50]), json!([2, 1, "pay:41", 90, 90, 10])];
    assert_eq!(elements(&logs, &FIRST), expected);
}

/// A call whose path was not kept is below the call around it.
#[test]
fn paths_that_were_not_kept_are_nested_by_time() {
    let logs = empty_shop();
    let run = logs.run(RUN, "web07", 4242);
    run.rows(T14, &[stack(9, 0, 0)]).rows(T14, &[task(BEGIN, "3", TaskState::Running, 1, "")]);
    let of = request("3", 1, 1, REQUEST, 500, 4);
    let rows = [
        task_call(&of, 9, QUERY, 100..200),
        task_call(&of, 9, CHECK, 50..400),
        task_call(&of, 9, QUERY, 450..490),
        task_call(&of, 2, PAY, 0..500),
    ];
    run.rows(T14, &rows).rows(T14, &[of]);
    let expected = [
        json!([1, 0, "pay:41", 490, 120, 50]),
        json!([2, 1, "check:12", 340, 250, 35]),
        json!([3, 1, "query", 30, 30, 4]),
        json!([4, 2, "query", 90, 90, 10]),
    ];
    assert_eq!(elements(&logs, &FIRST), expected);
}

#[test]
fn a_deep_stack_keeps_its_outer_frames() {
    let (logs, run) = one_request();
    sampled(&run);
    let deep = (0..700).map(|i| stack(100 + i, if i == 0 { 2 } else { 99 + i }, CHECK));
    run.rows(T14, &deep.collect::<Vec<_>>());
    run.rows(T14, &[task(BEGIN, "4", TaskState::Running, 1, "")]);
    let of = request("4", 1, 1, REQUEST, 500, 2);
    run.rows(T14, &[task_call(&of, 799, CHECK, 0..500), task_call(&of, 2, PAY, 0..500)]);
    run.rows(T14, &[of]);
    let all = elements(&logs, &["logs", "--task", "4"]);
    assert_eq!((all.len(), &all[499]), (500, &json!([500, 499, "check:12", 490, 490, 50])));
    // One frame less than the limit, and a sample with two.
    run.rows(T14, &[task(BEGIN, "5", TaskState::Running, 1, "")]);
    let of = request("5", 1, 1, REQUEST + 2 * S, 500, 1);
    run.rows(T14, &[task_call(&of, 597, CHECK, 0..500)]).rows(T14, &[of]);
    run.rows(T14, &[sampled_stack(17, 12, 6)]);
    run.rows(T14, &[sample("cpu", REQUEST + 2 * S, 500, 17, 597)]);
    let all = elements(&logs, &["logs", "--task", "5"]);
    assert_eq!((all.len(), &all[499]), (500, &json!([500, 499, "poll", 490, 490, 50])));
}

#[test]
fn compressed_hours_and_parts_are_one_log() {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    let before = logs.analyze(&["logs", "--task", "3"]).quiet();
    let gzip = |path: &Path| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&fs::read(path).unwrap()).unwrap();
        fs::write(path.with_extension("csv.gz"), gzip.finish().unwrap()).unwrap();
        fs::remove_file(path).unwrap();
    };
    // The last calls are in another part.
    let calls = fs::read_to_string(run.file(T14, Table::TaskCalls)).unwrap();
    let lines: Vec<&str> = calls.lines().collect();
    let part = Part { hour: Hour::of_unix_ns(T14), number: 2 }.file_name(Table::TaskCalls);
    fs::write(run.file(T14, Table::TaskCalls), lines[..5].join("\n") + "\n").unwrap();
    fs::write(run.0.join(part), [&lines[..1], &lines[5..]].concat().join("\n") + "\n").unwrap();
    for table in [Table::Tasks, Table::TaskCalls, Table::Methods, Table::Stacks] {
        gzip(&run.file(T14, table));
    }
    let requests = run.file(T14, Table::TaskRequests);
    let zstd = ruzstd::encoding::compress_to_vec(
        &fs::read(&requests).unwrap()[..],
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    fs::write(requests.with_extension("csv.zst"), zstd).unwrap();
    fs::remove_file(&requests).unwrap();
    assert_eq!(logs.analyze(&["logs", "--task", "3"]).quiet(), before);
}

/// Both files of a request are flushed for themselves, and a crash may tear either.
#[test]
fn a_request_without_all_its_calls_says_so() {
    let (logs, run) = one_request();
    let file = run.file(T14, Table::TaskCalls);
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 3]).unwrap();
    let torn = logs.analyze(&FIRST).quiet();
    let note = "- request 1 has 2 of its 3 calls: the log is still being written, or was cut\n";
    assert!(torn.contains(note), "{torn}");
    let json = logs.analyze(&[&FIRST[..], &["--format", "json"]].concat()).json();
    assert_eq!(json["requests"][0]["is_complete"], false);
    // What is there tells the same: paths have the endpoint.
    assert_eq!(elements(&logs, &FIRST)[0], json!([1, 0, "pay:41", 490, 0, 50]));
    fs::write(&file, &whole).unwrap();
    let json = logs.analyze(&[&FIRST[..], &["--format", "json"]].concat()).json();
    assert_eq!((&json["requests"][0]["is_complete"], &json["notes"]), (&true.into(), &json!([])));
    fs::remove_file(&file).unwrap();
    assert_eq!(elements(&logs, &FIRST), [json!([1, 0, "pay:41", 490, 490, 50])]);
    // Without its task, nobody knows how to cut it.
    fs::write(run.file(T14, Table::Tasks), "").unwrap();
    let listed = logs.analyze(&["logs", "--tasks"]);
    let warning = "requests of task \"3\", which is not in tasks.csv, are skipped";
    assert!(listed.stderr.contains(warning), "{listed:?}");
}

#[test]
fn damaged_rows_are_counted_and_not_fatal() {
    let logs = shop();
    let before = elements(&logs, &["logs", "--task", "3"]);
    let run = logs.run(RUN, "web07", 4242);
    run.raw(T14, Table::TaskCalls, "1,3,1,2,2\n").raw(T14, Table::Tasks, "x,y\n");
    run.raw(T14, Table::TaskRequests, "a,b,c,d,e,f,g,h,i\n1,3");
    let text = logs.analyze(&["logs", "--task", "3"]);
    assert!(text.status == 0 && text.stderr.lines().count() == 3, "{text:?}");
    assert!(text.stderr.contains("task_calls.csv:9: "), "{text:?}");
    assert_eq!(elements(&logs, &["logs", "--task", "3"]), before);
    // Times beyond all reason, a period of nothing, ids of nothing.
    let strange = TaskRequestRow {
        total_ns: u64::MAX,
        stack: StackId::new(77),
        ..request("9", 1, 99, u64::MAX - 5, 0, 1)
    };
    let of = request("9", 2, 1, REQUEST, 1, 1);
    let no_period = TaskRow {
        dump_period_ns: 0,
        start_ns: u64::MAX,
        duration_ns: u64::MAX,
        ..task(BEGIN, "9", TaskState::Running, 1, "")
    };
    let other = logs.run("20261120T150000Z-web07-1", "web07", 1);
    other.rows(T14, &[no_period]).rows(T14, &[strange, of]);
    for format in ["text", "json", "html"] {
        let outcome = logs.analyze(&["logs", "--task", "9", "--format", format]);
        assert_eq!(outcome.status, 0, "{outcome:?}");
    }
    // 100,000 ns are no time for SkyWalking.
    for format in ["collapsed", "flamegraph"] {
        let outcome = logs.analyze(&["logs", "--task", "9", "--format", format]);
        let reason = "no call was in two snapshots, so there is no time to show\n";
        assert!(outcome.status == 2 && outcome.stderr.ends_with(reason), "{outcome:?}");
    }
    let cut = logs.analyze(&["logs", "--task", "9"]).quiet();
    assert!(cut.contains("- request 1 is cut after 100,000 snapshots\n"), "{cut}");
}

#[test]
fn an_unknown_task_or_request_is_one_clear_line() {
    let logs = shop();
    let refused = |logs: &Logs, arguments: &[&str]| {
        let outcome = logs.analyze(&[&["logs"], arguments].concat());
        assert_eq!((outcome.status, &*outcome.stdout), (2, ""), "{outcome:?}");
        outcome.stderr
    };
    assert_eq!(
        refused(&logs, &["--task", "7"]),
        "analyze: --task: '7' is not a task of these logs; they have 3, 4, 5\n"
    );
    assert_eq!(
        refused(&empty_shop(), &["--task", "7"]),
        "analyze: --task: '7' is not a task of these logs; they have none\n"
    );
    assert_eq!(
        refused(&logs, &["--task", "3", "--request", "4"]),
        "analyze: --request: '4' is not a request of the task; the log has 1, 2, 3\n"
    );
    assert_eq!(
        refused(&logs, &["--task", "5", "--request", "1"]),
        "analyze: --request: '1' is not a request of the task; the log has none\n"
    );
    // Its row may be among those that cannot be read.
    let damaged = shop();
    damaged.run(RUN, "web07", 4242).raw(T14, Table::Tasks, "7,7\n");
    let error = refused(&damaged, &["--task", "7"]);
    assert!(error.contains("tasks.csv:7: 2 fields") && error.lines().count() == 2, "{error}");
    let other = "20261120T150000Z-web08-1";
    let run = logs.run(other, "web08", 1);
    run.rows(T14, &[task(BEGIN, "3", TaskState::Running, 0, "")]);
    assert_eq!(
        refused(&logs, &["--task", "3"]),
        format!(
            "analyze: --task: '3' is a task of several runs, choose one with --run: {RUN}, {other}\n"
        )
    );
    for choice in [["--run", other], ["--host", "web08"]] {
        let text = logs.analyze(&[&["logs", "--task", "3"][..], &choice].concat()).quiet();
        assert!(text.ends_with("\nno request was recorded\n"), "{text}");
    }
    assert_eq!(
        refused(&logs, &["--task", "3", "--run", "x"]),
        "analyze: --host, --run: none of 2 runs matches\n"
    );
    assert!(logs.analyze(&["nowhere", "--task", "3"]).stderr.contains("nowhere: No such file"));
}

#[test]
fn options_without_an_effect_are_refused() {
    let logs = shop();
    let refused = |arguments: &[&str]| {
        let outcome = logs.analyze(&[&["logs"], arguments].concat());
        assert_eq!((outcome.status, &*outcome.stdout), (2, ""), "{outcome:?}");
        outcome.stderr
    };
    let others: [&[&str]; 17] = [
        &["--sort", "total"],
        &["--top", "3"],
        &["--by", "hour"],
        &["--from", "14:00"],
        &["--to", "15:00"],
        &["--method", "pay"],
        &["--thread", "exec-1"],
        &["--exit", "throw"],
        &["--above", "1ms"],
        &["--tree", "top-down"],
        &["--root", "pay"],
        &["--slowest", "1"],
        &["--notes"],
        &["--unfinished"],
        &["--tprofiler-unit", "ms"],
        &["--rows", "sql"],
        &["--flame", "cpu"],
    ];
    for other in others {
        for of in [&["--task", "3"][..], &["--tasks"]] {
            let error = refused(&[of, other].concat());
            assert!(error.contains(other[0]) && error.contains("cannot be used"), "{error}");
        }
    }
    for alone in [["--request", "1"], ["--range", "0..1"]] {
        assert!(refused(&alone).contains("--task <ID>"));
    }
    assert!(refused(&["--task", "3", "--tasks"]).contains("cannot be used"));
    for format in ["csv", "speedscope", "chrome-trace", "jfr", "pprof", "prometheus", "tprofiler"] {
        let error = refused(&["--task", "3", "--format", format]);
        assert!(error.contains("--task has only --format text, html, json"), "{error}");
    }
    assert!(refused(&["--tasks", "--format", "html"]).contains("--tasks has only"));
    let error = refused(&["--task", "3", "--range", "5..1"]);
    assert_eq!(error, "analyze: --range: '5..1' ends before it begins\n");
}

#[test]
fn what_had_no_probes_meanwhile_is_reported() {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    let back = |at, method: &str| EventRow {
        method: method.into(),
        ..EventRow::new(at, event::UNTHROTTLED)
    };
    let (hash, early, late) =
        ("com.shop.Util.hash(I)I", "com.shop.Util.a()V", "com.shop.Util.z()V");
    run.rows(
        T14,
        &[
            throttled(T14, early, 1_000, 10),
            back(T14 + S, early),
            throttled(BEGIN + MIN, hash, 1_000_000, 50),
            back(BEGIN + 2 * MIN, hash),
            throttled(BEGIN + 5 * MIN + S, late, 1_000, 10),
            muted(BEGIN + 3 * MIN, "com.shop.util", true),
        ],
    );
    let text = logs.analyze(&["logs", "--task", "3"]).quiet();
    assert!(
        text.contains("com.shop.Util.hash(I)I was throttled from 2026-11-20T14:02:00Z to")
            && text.contains("\n- com.shop.util was muted meanwhile;"),
        "{text}"
    );
    assert!(!text.contains("Util.a()") && !text.contains("Util.z()"), "{text}");
    let json = logs.analyze(&["logs", "--task", "3", "--format", "json"]).json();
    let expected = json!([{
        "method": hash, "throttled_ns": MIN, "calls_per_s": 1_000_000, "mean_ns": 50,
    }]);
    assert_eq!((&json["throttled"], &json["muted"]), (&expected, &json!(["com.shop.util"])));
}

#[test]
fn stacks_are_drawn_and_collapsed() {
    let logs = shop();
    let all = ["logs", "--task", "3", "--format"];
    let collapsed = logs.analyze(&[&all[..], &["collapsed"]].concat()).quiet();
    let (pay, check) = (format!("{ORDER}.pay:41"), "com.shop.stock.Stock.check:12");
    let expected = format!(
        "{pay} 410\n{pay};com.shop.Db.query 90\n{pay};{check} 230\n{pay};{check};com.shop.Db.query 290\n"
    );
    assert_eq!(collapsed, expected);
    assert_eq!(logs.analyze(&[&all[..], &["flamegraph", "-o", "task.svg"]].concat()).quiet(), "");
    let svg = fs::read_to_string(logs.root().join("task.svg")).unwrap();
    assert!(
        svg.contains("Task 3: /orders/pay") && svg.contains("check:12 (520 ms, 50.98%)"),
        "{svg}"
    );
}

#[test]
fn the_page_is_whole_without_scripts() {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    run.rows(
        T14,
        &[method(9, "<script>alert(1)</script>", "a\"b", "()V"), method(8, "x", "y", "")],
    );
    run.rows(T14, &[stack(9, 2, 9)]);
    let of = request("5", 1, 1, BEGIN + 6 * MIN, 300, 1);
    run.rows(T14, &[task_call(&of, 9, 9, 0..300)]).rows(T14, &[of]);
    let page = |id| logs.analyze(&["logs", "--task", id, "--format", "html"]).quiet();
    let hostile = page("5");
    assert!(!hostile.contains("<script") && !hostile.contains("a\"b"), "{hostile}");
    assert!(hostile.contains("&lt;script&gt;alert(1)&lt;/script&gt;.a&quot;b"), "{hostile}");
    let page = page("3");
    let row =
        "--depth:1;--share:51.4%\">com.shop.stock.Stock.check:12</td><td>520</td><td>230</td>";
    assert!(page.contains(row), "{page}");
    assert!(page.contains("<li>request 3 lacks 7 calls that were dropped;"), "{page}");
}
