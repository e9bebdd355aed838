//! Recordings for JDK Mission Control and `jfr`: their events are the rows of the logs, and every chunk is whole.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::fs;

use crate::common::jfr::{Chunk, chunks, events};
use crate::common::{self, *};
use log_format::rows::{CallRow, Exit, LockKind, LockWaitRow, ThreadRow};
use serde_json::Value;

const SAMPLE: &str = "jdk.ExecutionSample";
const CALL: &str = "jdk.MethodTrace";

/// Writes a recording, which must succeed, and returns it and what was said.
fn recorded(logs: &Logs, more: &[&str]) -> (Vec<u8>, String) {
    let outcome = logs.analyze(&[&["logs", "--format", "jfr", "-o", "out.jfr"], more].concat());
    assert_eq!((outcome.status, outcome.stdout.as_str()), (0, ""), "{outcome:?}");
    (fs::read(logs.root().join("out.jfr")).unwrap(), outcome.stderr)
}

/// The same, as chunks.
fn recording(logs: &Logs, more: &[&str]) -> (Vec<Chunk>, String) {
    let (bytes, said) = recorded(logs, more);
    (chunks(&bytes), said)
}

/// The numbers of samples and of calls.
fn counts(logs: &Logs, more: &[&str]) -> (usize, usize) {
    let (chunks, _) = recording(logs, more);
    (events(&chunks, SAMPLE).len(), events(&chunks, CALL).len())
}

/// A method as `com/shop/Order.pay(I)V`.
fn method(method: &Value) -> String {
    let of = |value: &Value| value.as_str().unwrap().to_owned();
    format!("{}.{}{}", of(&method["type"]["name"]), of(&method["name"]), of(&method["descriptor"]))
}

/// The methods of an event's stack, from the top.
fn stack(event: &Value) -> Vec<String> {
    let frames = event["stackTrace"]["frames"].as_array();
    frames.into_iter().flatten().map(|frame| method(&frame["method"])).collect()
}

/// A line for each event; samples without their time.
fn text(chunks: &[Chunk]) -> String {
    let mut text = String::new();
    for chunk in chunks {
        let ms = |ns: u64| ns as f64 / 1e6;
        let from = chunk.start_ns - T14;
        text += &format!("chunk from {} ms, {} ms\n", ms(from), ms(chunk.duration_ns));
        for event in &chunk.events {
            let of = event["type"].as_str().unwrap();
            let thread = |name: &str| {
                let thread = &event[name];
                let names = ["osName", "osThreadId", "javaName", "javaThreadId", "virtual"];
                names.map(|name| thread[name].to_string()).join(" ")
            };
            let stack = stack(event).join(" < ");
            let cut = if event["stackTrace"]["truncated"] == true { " < ..." } else { "" };
            text += &match of {
                SAMPLE => {
                    format!("{of} [{}] {}: {stack}{cut}\n", thread("sampledThread"), event["state"])
                }
                CALL => {
                    let start_ms = ms(event["startTime"].as_u64().unwrap() - T14);
                    let took_ms = ms(event["duration"].as_u64().unwrap());
                    let (thread, method) = (thread("eventThread"), method(&event["method"]));
                    format!("{of} {start_ms} + {took_ms} ms [{thread}] {method} < {stack}{cut}\n")
                }
                _ => format!("{event}\n"),
            };
        }
    }
    text
}

#[test]
fn every_recorded_call_is_an_event() {
    let logs = shop::shop();
    let (chunks, said) = recording(&logs, &[]);
    assert_eq!(said, "analyze: 1 unfinished call is not counted\n");
    assert_golden("formats.jfr.txt", &text(&chunks));
    let (chunks, said) = recording(&logs, &["--unfinished"]);
    assert_eq!((events(&chunks, CALL).len(), said.as_str()), (7, ""));
    assert_eq!(events(&chunks, "jdk.JVMInformation").len(), 2);
}

#[test]
fn every_sample_is_an_event_in_its_second() {
    let logs = sampled_shop::shop();
    let (chunks, said) = recording(&logs, &[]);
    assert!(said.lines().count() == 1 && said.contains("hash(I)I was throttled"), "{said}");
    assert_golden("cpu.jfr.txt", &text(&chunks));
    let samples = events(&chunks, SAMPLE);
    let mut tops: BTreeMap<String, usize> = BTreeMap::new();
    let mut seconds: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for sample in &samples {
        *tops.entry(stack(sample)[0].clone()).or_default() += 1;
        let at_ns = sample["startTime"].as_u64().unwrap();
        seconds.entry((at_ns - T14) / S).or_default().push(at_ns % S);
    }
    // Those of CPU self.
    let csv = logs.analyze(&["logs", "--format", "csv"]);
    let names = csv.csv_column("class").into_iter().zip(csv.csv_column("method"));
    let rows = names.zip(csv.csv_column("descriptor")).zip(csv.csv_column("samples"));
    let of_csv = rows.map(|(((class, method), descriptor), samples)| {
        let descriptor = if descriptor.is_empty() { "()V" } else { &descriptor };
        let name = format!("{}.{method}{descriptor}", class.replace('.', "/"));
        (name, samples.parse().unwrap())
    });
    assert_eq!(tops, of_csv.collect());
    assert_eq!(
        seconds.iter().map(|(s, of)| (*s, of.len())).collect::<Vec<_>>(),
        [(1, 18), (60, 2)]
    );
    // Spread over it: no gap is longer than three of equal ones.
    let mut moments = seconds[&1].clone();
    moments.extend([0, S]);
    moments.sort_unstable();
    assert!(moments.windows(2).all(|pair| pair[1] - pair[0] < S / 6), "{moments:?}");
}

#[test]
fn every_recorded_park_is_an_event() {
    let logs = locked_shop::shop();
    let wait = |start_ms, kind, class| LockWaitRow {
        kind,
        ..locked_shop::lock_wait(T14 + start_ms * MS, [1, 2], class, 7 * MS, 2)
    };
    let rows = [wait(100, LockKind::Lock, "a.Sync"), wait(200, LockKind::Park, "a.Queue")];
    logs.run(sampled_shop::RUN, "web07", 4242).rows(T14, &rows);
    let (chunks, _) = recording(&logs, &[]);
    let park = |event: &Value| {
        (
            (event["startTime"].as_u64().unwrap() - T14) / MS,
            event["duration"].as_u64().unwrap() / MS,
            event["parkedClass"]["name"].as_str().unwrap().to_owned(),
            event["eventThread"]["osName"].as_str().unwrap().to_owned(),
            stack(event).len(),
        )
    };
    let parks: Vec<_> = events(&chunks, "jdk.ThreadPark").iter().map(park).collect();
    let of = |start_ms, class: &str| (start_ms, 7, class.to_owned(), "exec-1".to_owned(), 2);
    assert_eq!(parks, [of(100, "a/Sync"), of(200, "a/Queue")]);
    assert_eq!(events(&chunks, "jdk.JavaMonitorEnter").len(), 8);
}

#[test]
fn every_recorded_lock_wait_is_an_event() {
    let logs = locked_shop::shop();
    let wait = |event: &Value| {
        let ms = |ns: u64| ns / MS;
        let name = |thread: &Value| thread["osName"].as_str().map(str::to_owned);
        (
            ms(event["startTime"].as_u64().unwrap() - T14),
            ms(event["duration"].as_u64().unwrap()),
            event["monitorClass"]["name"].as_str().unwrap().to_owned(),
            name(&event["eventThread"]).unwrap(),
            name(&event["previousOwner"]),
            stack(event).len(),
        )
    };
    let waits = |more: &[&str]| {
        let (chunks, _) = recording(&logs, more);
        events(&chunks, "jdk.JavaMonitorEnter").iter().map(wait).collect::<Vec<_>>()
    };
    let of = |start_ms, ms, class: &str, [thread, owner]: [&str; 2], frames| {
        let owner = Some(owner).filter(|owner| !owner.is_empty()).map(str::to_owned);
        (start_ms, ms, class.replace('.', "/"), thread.to_owned(), owner, frames)
    };
    let (stock, journal) = (sampled_shop::STOCK, locked_shop::JOURNAL);
    let all = [
        of(4_995, 10, stock, ["exec-1", ""], 1),
        of(5_012, 8, stock, ["exec-1", "exec-7"], 2),
        of(5_025, 4, stock, ["exec-1", "exec-7"], 2),
        of(5_030, 15, stock, ["exec-1", ""], 3),
        of(5_012, 30, stock, ["exec-2", "exec-1"], 1),
        of(5_070, 20, journal, ["exec-1", "exec-2"], 1),
        of(70_000, 1, stock, ["exec-2", "exec-1"], 2),
        of(80_000, 1, stock, ["exec-2", "exec-1"], 2),
    ];
    assert_eq!(waits(&[]), all);
    assert_eq!(waits(&["--from", "14:01"]), all[6..]);
    assert_eq!(waits(&["--method", "reserve"]), all[3..4]);
    assert_eq!(waits(&["--thread", "exec-2", "--to", "14:01"]), all[4..5]);
}

#[test]
fn filters_select_calls_and_samples() {
    let calls = shop::shop();
    assert_eq!(counts(&calls, &[]), (0, 6));
    assert_eq!(counts(&calls, &["--above", "20ms"]), (0, 4));
    assert_eq!(counts(&calls, &["--exit", "throw"]), (0, 1));
    assert_eq!(counts(&calls, &["--thread", "worker"]), (0, 1));
    assert_eq!(counts(&calls, &["--run", "*web08*"]), (0, 1));
    assert_eq!(counts(&calls, &["--host", "web07"]), (0, 5));
    assert_eq!(counts(&calls, &["--from", "15:00"]), (0, 1));
    assert_eq!(counts(&calls, &["--to", "15:00"]), (0, 5));
    assert_eq!(counts(&calls, &["--method", "com.shop.stock"]), (0, 2));
    let samples = sampled_shop::shop();
    assert_eq!(counts(&samples, &[]), (20, 1));
    assert_eq!(counts(&samples, &["--thread", "GC*"]), (4, 0));
    assert_eq!(counts(&samples, &["--from", "14:01"]), (2, 0));
    assert_eq!(counts(&samples, &["--to", "14:01"]), (18, 1));
    // Samples of stacks with the method on them.
    assert_eq!(counts(&samples, &["--method", "com.shop.stock"]), (7, 0));
    assert_eq!(counts(&samples, &["--above", "20ms"]), (20, 0));
    for args in [
        &["--top", "5"][..],
        &["--sort", "calls"],
        &["--by", "hour"],
        &["--root", "com.shop"],
        &["--flame", "cpu"],
        &["--tree", "top-down"],
        &["--slowest", "3"],
        &["--local"],
    ] {
        let refused = calls.analyze(&[&["logs", "--format", "jfr"], args].concat());
        assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{args:?}");
        assert_eq!(refused.stderr.lines().count(), 1, "{args:?}: {}", refused.stderr);
    }
}

#[test]
fn without_calls_and_samples_there_is_no_recording() {
    let logs = shop::shop();
    let none = logs.analyze(&["logs", "--format", "jfr", "-o", "out.jfr", "--above", "1h"]);
    let line = "analyze: no recorded calls, CPU samples, lock waits, allocations or examples of exceptions in the selection";
    assert!(none.status == 2 && none.stderr.starts_with(line), "{} {}", none.status, none.stderr);
    assert!(!logs.root().join("out.jfr").exists());
}

#[test]
fn a_long_recording_has_chunks_that_can_be_read_alone() {
    use sampled_shop::{sampled_stack, samples};
    let logs = sampled_shop::shop();
    let run = logs.run(sampled_shop::RUN, "web07", 4242);
    // A thousand callers, and 1,100 stacks on top of them.
    run.rows(T14, &(0..1_000).map(|n| sampled_stack(1_000 + n, 999 + n, 1)).collect::<Vec<_>>());
    run.rows(T14, &(0..1_100).map(|n| sampled_stack(2_000 + n, 1_999, 8)).collect::<Vec<_>>());
    run.rows(T14, &[sampled_stack(999, 0, 8)]);
    run.rows(T14, &(0..1_100).map(|n| samples(T14 + S, 1, 2_000 + n, 2)).collect::<Vec<_>>());
    let (bytes, _) = recorded(&logs, &[]);
    let [first, last] = jfr::split(&bytes)[..] else { panic!("not two chunks") };
    assert!((12 << 20..13 << 20).contains(&first.len()), "{}", first.len());
    assert_eq!(jfr::count_events(first) + jfr::count_events(last), 2_200 + 20 + 1 + 2);
    let last = jfr::read_chunk(last);
    let long = events(&[last], SAMPLE);
    assert_eq!(stack(&long[long.len() - 1]).len(), 1_002);
}

#[test]
fn threads_and_stacks_are_what_the_log_says() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(
        T14,
        &[common::method(1, "Main", "main", "rubbish"), common::method(2, "a.B", "b", "()V")],
    );
    let of = |id, name: &str, java_id: u64, os_id, kind: &str| ThreadRow {
        java_id: log_format::ids::JavaThreadId::new(java_id),
        os_id: log_format::ids::OsThreadId::new(os_id),
        kind: kind.into(),
        ..thread(id, name)
    };
    run.rows(
        T14,
        &[
            of(1, "main", 1, 77, "platform"),
            of(2, "v", 30, 0, "virtual"),
            of(3, "GC", 0, 78, "platform"),
        ],
    );
    // 2: main > b   3: not kept   4: its caller is missing
    run.rows(T14, &[common::stack(1, 0, 1), common::stack(2, 1, 2), common::stack(3, 0, 0)]);
    run.rows(T14, &[common::stack(4, 9, 2), common::stack(5, 4, 1)]);
    run.rows(
        T14,
        &[
            call(T14, 1, 2, 2, MS),
            call(T14, 2, 3, 2, MS),
            // The clock was set to before the run's start.
            call(T14 - S, 3, 5, 1, MS),
            CallRow { exit: Exit::Throw, ..call(T14 + S, 4, 1, 1, MS) },
        ],
    );
    let (chunks, _) = recording(&logs, &[]);
    assert_eq!(chunks[0].start_ns, T14 - S);
    let calls = events(&chunks, CALL);
    let of = |call: &Value| {
        let thread = &call["eventThread"];
        let names = ["osName", "osThreadId", "javaName", "javaThreadId", "virtual"];
        let thread = names.map(|name| thread[name].to_string()).join(" ");
        format!("{thread}: {} < {:?}", method(&call["method"]), stack(call))
    };
    assert_eq!(
        calls.iter().map(of).collect::<Vec<_>>(),
        [
            r#""main" 77 "main" 1 false: a/B.b()V < ["Main.main()V"]"#,
            r#"null 0 "v" 30 true: a/B.b()V < []"#,
            r#""GC" 78 null 0 false: Main.main()V < ["a/B.b()V"]"#,
            r#""thread #4" 0 null 0 false: Main.main()V < []"#,
        ]
    );
    let cut = calls.iter().map(|call| call["stackTrace"]["truncated"].as_bool());
    assert_eq!(cut.collect::<Vec<_>>(), [Some(false), None, Some(true), None]);
    assert_eq!(calls[0]["method"]["type"]["package"]["name"], "a");
    assert!(calls[3]["method"]["type"]["package"].is_null());
    let frame = &calls[0]["stackTrace"]["frames"][0];
    assert_eq!((&frame["lineNumber"], &frame["type"]), (&(-1).into(), &"Java".into()));
}

#[test]
fn a_row_of_impossibly_many_samples_is_a_bad_line() {
    let logs = sampled_shop::shop();
    let run = logs.run(sampled_shop::RUN, "web07", 4242);
    run.rows(T14, &[sampled_shop::samples(T14, 1, 1, 20_001)]);
    let (chunks, said) = recording(&logs, &[]);
    assert_eq!(events(&chunks, SAMPLE).len(), 20);
    assert!(said.contains("samples.csv:11: more samples than a second can have"), "{said}");
}
