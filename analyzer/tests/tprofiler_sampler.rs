//! TProfiler's sampler: dumps of `tsampler.log` as waits, and its files written from samples.

// A panic in the helpers is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::io::Write;

use crate::common::sampled_shop::{ORDER, RUN, frame, sampled_stack, samples, waiting_shop};
use crate::common::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use log_format::ids::JavaThreadId;
use log_format::rows::{FrameRow, SampleRow, ThreadRow};

/// Three dumps, 20 s apart: `main` is always in the same place, `exec-1` sleeps twice and is blocked once.
const DUMPS: &str = "\
Thread\t1\tmain\tRUNNABLE\tFri Nov 20 14:00:00 CST 2026
java.net.SocketInputStream.socketRead0(Native Method)
com.shop.Main.main(Main.java:5)
Thread\t12\texec-1\tTIMED_WAITING\tFri Nov 20 14:00:00 CST 2026
java.base/java.lang.Thread.sleep(Native Method)
com.shop.Order.pay(Order.java:42)
com.shop.Order.pay(Order.java:57)
org.web.Worker.run(Unknown Source)
Thread\t4\tSignal Dispatcher\tRUNNABLE\tFri Nov 20 14:00:00 CST 2026
Thread\t1\tmain\tRUNNABLE\tFri Nov 20 14:00:20 CST 2026
java.net.SocketInputStream.socketRead0(Native Method)
com.shop.Main.main(Main.java:5)
Thread\t12\texec-1\tBLOCKED\tFri Nov 20 14:00:20 CST 2026
com.shop.Order.pay(Order.java:57)
org.web.Worker.run(Unknown Source)
Thread\t1\tmain\tRUNNABLE\tFri Nov 20 14:00:40 CST 2026
java.net.SocketInputStream.socketRead0(Native Method)
com.shop.Main.main(Main.java:5)
Thread\t12\texec-1\tTIMED_WAITING\tFri Nov 20 14:00:40 CST 2026
java.base/java.lang.Thread.sleep(Native Method)
com.shop.Order.pay(Order.java:42)
com.shop.Order.pay(Order.java:57)
org.web.Worker.run(Unknown Source)
";

const METHOD_RESULT: &str = "\
com.shop.Main.main(Main.java:5)\t3
com.shop.Order.pay(Order.java:57)\t3
org.web.Worker.run(Unknown Source)\t3
com.shop.Order.pay(Order.java:42)\t2
";

const THREAD_RESULT: &str = "\
1\tmain\tRUNNABLE\t3
12\texec-1\tTIMED_WAITING\t2
4\tSignal Dispatcher\tRUNNABLE\t1
12\texec-1\tBLOCKED\t1
";

/// Two calls, of threads 12 and 15.
fn calls() -> Logs {
    let logs = Logs::new();
    logs.file("tprofiler.log", "12\t0\t1\t100\n15\t0\t1\t7\n=\n");
    logs.file("tmethod.log", "1 com/shop/Order:pay:42\n");
    logs
}

/// A file that `--format tprofiler -o FOLDER` has written.
fn written(logs: &Logs, path: &str) -> String {
    fs::read_to_string(logs.root().join(path)).unwrap()
}

/// The counts of the last column.
fn sum(table: &str) -> u64 {
    table.lines().map(|line| line.rsplit('\t').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn thread_dumps_are_waits_of_the_time_until_the_next_dump() {
    let logs = Logs::new();
    logs.file("tsampler.log", DUMPS);
    assert_golden("tprofiler.dumps.txt", &logs.analyze(&["logs"]).quiet());
    let json = logs.analyze(&["logs/tsampler.log", "--format", "json"]).json();
    assert_eq!(json["read"]["tprofiler_logs"], 1);
    assert_eq!(json["off_cpu"]["total_ns"], 140 * S);
    let waits = json["off_cpu"]["waits"].as_array().unwrap();
    let ns = |method: &str, state: &str| {
        let found = waits.iter().find(|row| row["method"] == method && row["state"] == state);
        found.unwrap_or_else(|| panic!("{waits:#?}"))["ns"].as_u64().unwrap()
    };
    assert_eq!(ns("pay", "timed_waiting"), 40 * S);
    assert_eq!(ns("pay", "blocked"), 20 * S);
    assert_eq!(ns("main", "runnable"), 60 * S);
    let dumps = &json["thread_dumps"];
    assert_eq!((&dumps["dumps"], &dumps["shortest_interval_ns"]), (&3.into(), &(20 * S).into()));
    assert_eq!(dumps["threads"][1]["state"], "timed_waiting");
    assert_eq!(dumps["frames"][0]["lines"], 3);
    let states = logs.analyze(&["logs", "--by", "state", "--format", "csv"]);
    let row = format!("timed_waiting,com.shop.Order,pay,,{}\n", 40 * S);
    assert!(states.stdout.contains(&row), "{}", states.stdout);
    let lines = logs.analyze(&["logs", "--flame", "wall", "--format", "collapsed"]);
    let note =
        "TProfiler's thread dumps: 3, every 20s; each of a thread's lines stands for that time";
    assert_eq!((lines.status, lines.stderr), (0, format!("analyze: {note}\n")));
    let lines = lines.stdout;
    let pay = "org.web.Worker.run;com.shop.Order.pay";
    let sleep = format!("{pay};com.shop.Order.pay;java.lang.Thread.sleep;[timed_waiting]");
    assert!(lines.contains(&format!("{pay};[blocked] {}\n", 20 * S)), "{lines}");
    assert!(lines.contains(&format!("{sleep} {}\n", 40 * S)), "{lines}");
}

#[test]
fn dumps_belong_to_the_calls_of_their_day_and_threads_and_methods_select() {
    let logs = calls();
    logs.file("tsampler.log", DUMPS);
    logs.file("tsampler.log.2012-01-31", DUMPS);
    let json = |args: &[&str]| {
        let outcome = logs.analyze(&[&["logs", "--format", "json"], args].concat());
        (outcome.status, outcome.json())
    };
    let (status, all) = json(&[]);
    assert_eq!((status, &all["read"]["runs"]), (0, &2.into()));
    assert_eq!(all["read"]["recorded_calls"], 2);
    assert_eq!(all["thread_dumps"]["dumps"], 6);
    // Only the dumps have names.
    let (status, of_exec) = json(&["--thread", "exec-*", "--method", "pay"]);
    assert_eq!((status, &of_exec["off_cpu"]["total_ns"]), (1, &(120 * S).into()));
    assert_eq!(of_exec["thread_dumps"]["threads"].as_array().unwrap().len(), 2);
    let frames = of_exec["thread_dumps"]["frames"].as_array().unwrap();
    assert!(frames.len() == 2 && frames.iter().all(|frame| frame["method"] == "pay"), "{frames:?}");
    let (_, by_thread) = json(&["--by", "thread", "--run", "logs/tprofiler.log"]);
    let waits = by_thread["off_cpu"]["waits"].as_array().unwrap();
    let threads = by_thread["methods"].as_array().unwrap().iter().chain(waits);
    let threads: Vec<&str> = threads.map(|row| row["thread"].as_str().unwrap()).collect();
    for thread in ["exec-1 #12", "main #1", "thread #15"] {
        assert!(threads.contains(&thread), "{threads:?}");
    }
    let by_hour = logs.analyze(&["logs", "--format", "json", "--by", "hour"]);
    assert_eq!(by_hour.status, 1);
    let line = "tsampler.log: TProfiler's logs have no times, not part of hours\n";
    assert!(by_hour.stderr.contains(line), "{}", by_hour.stderr);
}

#[test]
fn both_results_of_the_sampler_are_written_and_its_log_stays() {
    let logs = Logs::new();
    let cut = format!("com.shop.Main.main(Main.java:5)\norg.a.B.c(B.java:1)\n{DUMPS}Thread\t1\tma");
    logs.file("tsampler.log", &cut);
    let outcome = logs.analyze(&["logs", "--format", "tprofiler", "-o", "logs"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let line = "logs/tsampler.log:1: a frame without its thread\n";
    assert!(outcome.stderr.contains(line), "{}", outcome.stderr);
    assert_eq!(written(&logs, "logs/samplermethodresult.log"), METHOD_RESULT);
    assert_eq!(written(&logs, "logs/samplerthreadresult.log"), THREAD_RESULT);
    assert_eq!(written(&logs, "logs/tsampler.log"), cut);
    assert_eq!(written(&logs, "logs/topmethod.log"), "");
    let calls = calls();
    assert_eq!(calls.analyze(&["logs", "--format", "tprofiler", "-o", "out"]).status, 0);
    assert!(!calls.root().join("out/samplerthreadresult.log").exists());
}

#[test]
fn dumps_full_of_rubbish_or_cut_anywhere_are_counted_and_harm_no_other() {
    let logs = Logs::new();
    let json = |text: &str| {
        logs.file("tsampler.log", text);
        let outcome = logs.analyze(&["logs", "--format", "json"]);
        (outcome.status, outcome.json())
    };
    let rubbish = "Thread\t1\tmain\tRUNNING\tFri Nov 20 14:01:00 CST 2026\ncom.shop.A.b(A.java:1)\n\
                   Thread\t1\tmain\tRUNNABLE\tFri Nov 20 14:01:00 CST 2026\n=\n\n";
    let deep = "com.shop.A.deep(A.java:1)\n".repeat(5_000);
    let (status, bad) = json(&format!("{DUMPS}{rubbish}{deep}"));
    assert_eq!((status, &bad["read"]["bad_lines"]), (0, &2.into()));
    let frames = bad["thread_dumps"]["frames"].as_array().unwrap();
    assert_eq!((&frames[0]["method"], &frames[0]["lines"]), (&"deep".into(), &1_024.into()));
    assert!(frames.iter().all(|frame| frame["method"] != "b"), "{frames:?}");
    for length in (0..DUMPS.len()).step_by(7) {
        let (status, cut) = json(&DUMPS[..length]);
        let threads = DUMPS[..length].lines().filter(|line| line.starts_with("Thread\t")).count();
        let is_torn = length > 0 && !DUMPS[..length].ends_with('\n');
        let last = DUMPS[..length].lines().last().unwrap_or_default();
        let whole = threads - usize::from(is_torn && last.starts_with("Thread\t"));
        let rows = cut["thread_dumps"]["threads"].as_array().cloned().unwrap_or_default();
        let lines: u64 = rows.iter().map(|row| row["lines"].as_u64().unwrap()).sum();
        assert_eq!((status, lines), (0, whole as u64), "cut at {length}");
        assert_eq!(cut["read"]["torn_lines"], u64::from(is_torn), "cut at {length}");
    }
}

#[test]
fn samples_are_written_as_dumps_and_read_again_with_the_same_counts() {
    let logs = waiting_shop();
    let run = logs.run(RUN, "web07", 4242);
    // A thread with an id of Java's, which those of the collector have not, a frame with a file, and a wait with a
    // limit.
    run.rows(T14, &[ThreadRow { java_id: JavaThreadId::new(31), ..thread(1, "exec-1") }]);
    let park = "java.util.concurrent.locks.LockSupport";
    let pay = FrameRow { source: "Order.java".into(), ..frame(30, "java", ORDER, "pay", "()V") };
    let hidden = frame(32, "java", "org.shop.Job$$Lambda.0x00007f01", "run", "()V");
    run.rows(T14, &[pay, frame(31, "java", park, "parkNanos", "(J)V"), hidden]);
    let stacks = [(29, 0, 32), (30, 29, 30), (31, 30, 31)];
    run.rows(T14, &stacks.map(|(id, parent, frame)| sampled_stack(id, parent, frame)));
    let parked = SampleRow {
        kind: "off_cpu".into(),
        state: "parked".into(),
        ..samples(T14 + 2 * S, 1, 31, 10)
    };
    run.rows(T14, &[parked]);
    let args = ["logs", "--format", "tprofiler", "-o", "out"];
    assert_eq!(logs.analyze(&args).status, 0);
    let log = written(&logs, "out/tsampler.log");
    let expected = format!(
        "Thread\t31\texec-1\tTIMED_WAITING\tFri Nov 20 14:00:02 UTC 2026\n\
         {park}.parkNanos(Unknown Source)\n{ORDER}.pay(Order.java)\n\
         org.shop.Job$$Lambda/0x00007f01.run(Unknown Source)\n"
    );
    assert!(log.contains(&expected), "{log}");
    // The thread is sampled in five seconds, in two of them on several stacks.
    let threads = log.lines().filter(|line| line.starts_with("Thread\t"));
    assert_eq!(threads.count(), 5, "{log}");
    // Neither probes nor native code are Java's frames.
    assert!(!log.contains("$TProfiler") && !log.contains('['), "{log}");
    let thread_result = written(&logs, "out/samplerthreadresult.log");
    let expected =
        "31\texec-1\tWAITING\t3\n31\texec-1\tRUNNABLE\t1\n31\texec-1\tTIMED_WAITING\t1\n";
    assert_eq!(thread_result, expected);
    let method_result = written(&logs, "out/samplermethodresult.log");
    let frames = log.lines().filter(|line| line.starts_with("com") || line.starts_with("org"));
    assert_eq!(sum(&method_result), frames.count() as u64);
    // As TProfiler's analysis would count the log, and so does this one.
    let again = logs.analyze(&["out/tsampler.log", "--format", "tprofiler", "-o", "again"]);
    let line = "no calls: TProfiler's thread dumps say only where threads stood\n";
    assert_eq!((again.status, again.stderr), (0, format!("analyze: {line}")));
    assert_eq!(written(&logs, "again/samplerthreadresult.log"), thread_result);
    assert_eq!(written(&logs, "again/samplermethodresult.log"), method_result);
    assert!(!logs.root().join("again/tsampler.log").exists());
    // Threads and times select samples.
    let result_of = |thread: &str| {
        let args = [&args[..3], &["--thread", thread, "--from", "14:01", "-o", "part"]].concat();
        assert_eq!(logs.analyze(&args).status, 0);
        written(&logs, "part/samplerthreadresult.log")
    };
    assert_eq!(result_of("exec*"), "31\texec-1\tWAITING\t2\n");
    assert_eq!(result_of("GC*"), "");
}

#[test]
fn a_long_wait_has_a_line_in_each_second() {
    let logs = waiting_shop();
    let run = logs.run(RUN, "web07", 4242);
    let wait = |thread: u32, weight_ns: u64, looks: u64| SampleRow {
        kind: "off_cpu".into(),
        state: "sleeping".into(),
        weight_ns,
        samples: looks,
        ..samples(T14 + 2 * S, thread, 1, 1)
    };
    let java = |id: u32, name: &str| ThreadRow {
        java_id: JavaThreadId::new(id.into()),
        ..thread(id, name)
    };
    run.rows(T14, &[java(3, "often"), java(4, "rarely"), java(5, "rubbish"), java(6, "busy")]);
    // Samples stand for as much time as they may, but were taken in their second.
    run.rows(T14, &[SampleRow { weight_ns: 9 * S, ..samples(T14 + S, 6, 1, 1) }]);
    run.rows(T14, &[wait(3, 50 * S, 500), wait(4, 40 * S, 2), wait(5, u64::MAX, u64::MAX)]);
    assert_eq!(logs.analyze(&["logs", "--format", "tprofiler", "-o", "out"]).status, 0);
    let result = written(&logs, "out/samplerthreadresult.log");
    let waits = ["3\toften\tTIMED_WAITING\t50", "4\trarely\tTIMED_WAITING\t40"];
    for line in waits.into_iter().chain(["6\tbusy\tRUNNABLE\t1"]) {
        assert!(result.lines().any(|found| found == line), "{result}");
    }
    let rubbish = result.lines().find(|line| line.contains("rubbish")).unwrap();
    assert!(sum(rubbish) <= 120, "{rubbish}");
    // One dump after the other, although a wait is logged when it ends.
    let log = written(&logs, "out/tsampler.log");
    let lines = || log.lines().filter(|line| !line.contains("rubbish"));
    let times: Vec<&str> = lines().filter_map(|line| line.split_once(" 14:")?.1.get(..5)).collect();
    assert!(times.is_sorted() && times.first() == Some(&"00:01"), "{times:?}");
    let rarely: Vec<&str> = lines().filter(|line| line.contains("rarely")).collect();
    assert!(rarely[0].contains(" 14:00:02 ") && rarely[39].contains(" 14:00:41 "), "{rarely:?}");
    let json = logs.analyze(&["out/tsampler.log", "--format", "json"]).json();
    assert_eq!(json["thread_dumps"]["shortest_interval_ns"], S);
}

#[test]
fn dumps_written_from_samples_among_the_logs_do_not_count_twice() {
    let logs = waiting_shop();
    let run = logs.run(RUN, "web07", 4242);
    run.rows(T14, &[ThreadRow { java_id: JavaThreadId::new(31), ..thread(1, "exec-1") }]);
    let before = logs.analyze(&["logs", "--format", "json"]);
    let mut result = None;
    for _ in 0..2 {
        let args = ["logs", "--format", "tprofiler", "-o", "logs/tp"];
        assert_eq!(logs.analyze(&args).status, 0);
        let written = written(&logs, "logs/tp/samplerthreadresult.log");
        assert_eq!(result.get_or_insert_with(|| written.clone()), &written);
    }
    // Copies keep the mark, whatever their day and compression.
    let log = written(&logs, "logs/tp/tsampler.log");
    logs.file("old/tsampler.log.2026-11-20", &log);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(log.as_bytes()).unwrap();
    let path = logs.root().join("logs/old/tsampler.log.2026-11-19.gz");
    fs::write(path, gzip.finish().unwrap()).unwrap();
    let after = logs.analyze(&["logs", "--format", "json"]);
    assert_eq!(after.json()["read"]["runs"], 1);
    assert_eq!((after.stdout, after.stderr), (before.stdout, before.stderr));
    // TProfiler's analysis skips the mark.
    let counted = ["Thread\t", "com", "org"];
    let first = log.lines().next().unwrap();
    assert!(counted.iter().all(|start| !first.starts_with(start)), "{first}");
    // A file that is named is read.
    for path in ["logs/tp/tsampler.log", "logs/old/tsampler.log.2026-11-19.gz"] {
        let named = logs.analyze(&[path, "--format", "tprofiler", "-o", "again"]);
        let line = "no calls: TProfiler's thread dumps say only where threads stood\n";
        assert_eq!((named.status, named.stderr), (0, format!("analyze: {line}")));
        let again = written(&logs, "again/samplerthreadresult.log");
        assert_eq!(Some(again), result);
    }
    let args = ["logs", "logs/tp/tsampler.log", "--format", "tprofiler", "-o", "logs/tp"];
    assert_eq!(logs.analyze(&args).status, 0);
    assert_eq!(Some(written(&logs, "logs/tp/samplerthreadresult.log")), result);
    let alone = logs.analyze(&["logs/tp"]);
    let hint =
        "tp/tsampler.log: written from samples, skipped in a folder; name the file to read it";
    assert!(alone.status == 2 && alone.stderr.contains(hint), "{}", alone.stderr);
    // A dump of TProfiler's beside it counts, and is never replaced.
    logs.file("tsampler.log", DUMPS);
    let replaced = logs.analyze(&["logs", "--format", "tprofiler", "-o", "logs"]);
    let line = "logs/tsampler.log is TProfiler's: choose another folder\n";
    assert!(replaced.status == 2 && replaced.stderr.ends_with(line), "{}", replaced.stderr);
    assert_eq!(written(&logs, "logs/tsampler.log"), DUMPS);
    assert_eq!(logs.analyze(&["logs", "--format", "json"]).json()["read"]["runs"], 2);
}

/// As in a dump: what takes most of the time is what is found at most moments.
#[test]
fn a_thread_has_one_line_in_a_second_of_what_it_did_longest() {
    let logs = waiting_shop();
    let run = logs.run(RUN, "web07", 4242);
    let java_id = JavaThreadId::new((1 << 32) + 7);
    run.rows(T14, &[ThreadRow { java_id, ..thread(3, "exec-2") }]);
    let wait = |at_s: u64, stack: u32, weight_ns: u64| SampleRow {
        kind: "off_cpu".into(),
        state: "parked".into(),
        weight_ns,
        ..samples(T14 + at_s * S, 3, stack, 1)
    };
    // It runs for 50 ms on five stacks, and is parked.
    let running = [1, 3, 5, 9, 10].map(|stack| samples(T14 + 10 * S, 3, stack, 1));
    run.rows(T14, &running);
    run.rows(T14, &[wait(10, 21, 950 * MS)]);
    // It runs for 600 ms on three stacks, and is parked for the rest, which is more than it ran on any of them.
    run.rows(T14, &[1, 5, 9].map(|stack| samples(T14 + 20 * S, 3, stack, 15 + u64::from(stack))));
    run.rows(T14, &[wait(20, 21, 385 * MS)]);
    // It is parked from one second into the next, in which it runs longer.
    run.rows(T14, &[wait(30, 24, 1_200 * MS), samples(T14 + 31 * S, 3, 1, 60)]);
    let args = ["logs", "--format", "tprofiler", "-o", "out", "--thread", "exec-2"];
    assert_eq!(logs.analyze(&args).status, 0);
    let log = written(&logs, "out/tsampler.log");
    let line = |state: &str, s: u64| {
        format!("Thread\t4294967303\texec-2\t{state}\tFri Nov 20 14:00:{s} UTC 2026")
    };
    let lines: Vec<&str> = log.lines().filter(|line| line.starts_with("Thread\t")).collect();
    let expected =
        [line("WAITING", 10), line("RUNNABLE", 20), line("WAITING", 30), line("RUNNABLE", 31)];
    assert_eq!(lines, expected);
    // Of the running stacks that of `hash`, which has most samples.
    let hash = format!("{}\ncom.shop.Util.hash(Unknown Source)\n", line("RUNNABLE", 20));
    assert!(log.contains(&hash), "{log}");
    let expected = "4294967303\texec-2\tRUNNABLE\t2\n4294967303\texec-2\tWAITING\t2\n";
    assert_eq!(written(&logs, "out/samplerthreadresult.log"), expected);
    // The id is as it was when the log is read, and different threads stay different.
    let log = log.clone() + &log.replace("4294967303\texec-2", "4294967304\texec-3");
    logs.file("read/tsampler.log", &log);
    let json =
        logs.analyze(&["logs/read/tsampler.log", "--by", "thread", "--format", "json"]).json();
    assert_eq!(json["read"]["bad_lines"], 0);
    let waits = json["off_cpu"]["waits"].as_array().unwrap();
    for thread in ["exec-2 #4294967303", "exec-3 #4294967304"] {
        assert!(waits.iter().any(|row| row["thread"] == thread), "{waits:#?}");
    }
}
