//! Compares percentiles with exact ones of the same calls: within 2% where all calls of the histogram's bucket were
//! recorded, and within 25% everywhere, whatever recorded calls are missing or superfluous.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::cast_possible_truncation)]

use std::fs;

use crate::common::{
    Logs, MIN, MS, RunFolder, T14, US, call, counter, method, stack, stats, thread,
};
use log_format::file_names::Table;
use log_format::histogram::{bucket_of, lower_bound_ns};
use log_format::rows::{EventRow, counter as name, event};

/// Durations that spread over five octaves from `least_ns` on; the same ones for the same seed.
fn durations(seed: u64, count: u64, least_ns: u64) -> Vec<u64> {
    let mut random = seed;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (random >> 33) as f64 / f64::from(1u32 << 31)
    };
    (0..count).map(|_| (least_ns as f64 * (next() * next() * 3.5).exp()) as u64).collect()
}

/// A run with the method statistics of all of these calls of each method, and recorded calls for those that reach the
/// threshold.
fn write_run(logs: &Logs, pid: u32, threshold_ns: u64, methods: &[&[u64]]) {
    let run = logs.run(&format!("run{pid}"), "web", pid);
    run.rows(T14, &[thread(1, "main")]);
    run.rows(T14, &[counter(T14, name::THRESHOLD_NS, threshold_ns)]);
    for (id, durations) in (1u32..).zip(methods) {
        run.rows(T14, &[method(id, "com.shop.Order", &format!("m{id}"), "()V")]);
        run.rows(T14, &[stack(id, 0, id)]);
        if !durations.is_empty() {
            run.rows(T14, &[stats(T14, id, 0, durations.iter().sum(), durations)]);
        }
        let slow = durations.iter().filter(|ns| **ns >= threshold_ns);
        let rows: Vec<_> =
            (0..).zip(slow).map(|(at, ns)| call(T14 + at * 1_000, 1, id, id, *ns)).collect();
        run.rows(T14, &rows);
    }
}

/// The nearest rank, by the usual definition.
fn exact_ns(durations: &[u64], percent: u64) -> u64 {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let rank = (percent * sorted.len() as u64).div_ceil(100).max(1);
    sorted[usize::try_from(rank - 1).unwrap()]
}

/// How far the report's percentiles of a method are off, each with the exact one.
fn errors(logs: &Logs, args: &[&str], method: &str, durations: &[u64]) -> Vec<(u64, f64)> {
    let outcome = logs.analyze(&[&["logs", "--format", "csv"], args].concat());
    let at = outcome.csv_column("method").iter().position(|name| name == method).unwrap();
    assert_eq!(outcome.csv_column("calls")[at], durations.len().to_string());
    let error = |(percent, column)| {
        let reported: u64 = outcome.csv_column(column)[at].parse().unwrap();
        let exact = exact_ns(durations, percent);
        (exact, reported.abs_diff(exact) as f64 / exact as f64)
    };
    [(50, "p50_ns"), (95, "p95_ns"), (99, "p99_ns")].map(error).to_vec()
}

fn assert_within(errors: &[(u64, f64)], bound: f64) {
    let worst = errors.iter().map(|(_, error)| *error).fold(0.0, f64::max);
    assert!(worst <= bound, "{worst} of {errors:?}");
}

#[test]
fn where_all_calls_so_long_were_recorded_they_are_within_2_percent() {
    let logs = Logs::new();
    // The thresholds lie in the middle of the statistics' histogram buckets, and so do percentiles.
    for (pid, threshold_ns) in [(1, MS), (2, 10 * MS), (3, 700_000), (4, 0)] {
        let of = |seed, count, least_ns| durations(seed + u64::from(pid), count, least_ns);
        let methods = [
            of(1, 40_000, MS / 8),
            of(2, 7_000, MS),
            of(3, 101, 2 * MS),
            of(4, 3_000, 9 * MS),
            of(5, 3_000, 300),
        ];
        let logs = Logs::new();
        write_run(&logs, pid, threshold_ns, &methods.each_ref().map(Vec::as_slice));
        let (mut close, mut far) = (0, 0);
        for (id, durations) in (1..).zip(&methods) {
            for (exact, error) in errors(&logs, &[], &format!("m{id}"), durations) {
                let is_recorded = lower_bound_ns(bucket_of(exact)) >= threshold_ns;
                let bound = if is_recorded { 0.02 } else { 0.25 };
                assert!(error <= bound, "threshold {threshold_ns}, m{id}, {exact}: off by {error}");
                if is_recorded { close += 1 } else { far += 1 }
            }
        }
        assert!(close >= 3 && (far > 0 || threshold_ns == 0), "{close} and {far}");
        // Figures from the recorded calls alone.
        let slow: Vec<u64> = methods[0].iter().copied().filter(|ns| *ns >= 2 * MS).collect();
        if threshold_ns <= 2 * MS {
            assert_within(&errors(&logs, &["--above", "2ms"], "m1", &slow), 0.02);
        }
    }
    // From several runs with different thresholds.
    let parts = [(11, MS), (12, 3 * MS)].map(|(pid, threshold_ns)| {
        let durations = durations(pid.into(), 9_000, 3 * MS + 1);
        write_run(&logs, pid, threshold_ns, &[&durations]);
        durations
    });
    assert_within(&errors(&logs, &[], "m1", &parts.concat()), 0.02);
    assert_within(&errors(&logs, &["--by", "host"], "m1", &parts.concat()), 0.02);
    for ((pid, durations), by) in (11..).zip(&parts).flat_map(|one| [(one, "run"), (one, "host")]) {
        let run = format!("*run{pid}*");
        assert_within(&errors(&logs, &["--by", by, "--run", &run], "m1", durations), 0.02);
    }
    // From an hour, the slow calls.
    let hour = ["--from", "14:00", "--to", "15:00", "--above", "4ms"];
    let slow: Vec<u64> = parts.concat().into_iter().filter(|ns| *ns >= 4 * MS).collect();
    assert_within(&errors(&logs, &hour, "m1", &slow), 0.02);
}

#[test]
fn a_closer_percentile_is_not_below_the_one_before() {
    let logs = Logs::new();
    // In the histogram's bucket from 8.4 to 12.6 ms; it is unknown which of the recorded calls are the ten
    // superfluous ones.
    let all = [times(505, 8_500 * US), times(430, 8_700 * US), times(65, 9 * MS)].concat();
    let all = [all, times(1, 20 * MS)].concat();
    write_run(&logs, 1, MS, &[&all]);
    let more = vec![call(T14 + MIN, 1, 1, 1, 9 * MS); 10];
    RunFolder(logs.root().join("logs/run1")).rows(T14, &more);
    let outcome = logs.analyze(&["logs", "--format", "csv"]);
    let of = |column| outcome.csv_column(column)[0].parse::<u64>().unwrap();
    let [p50, p95, p99] = ["p50_ns", "p95_ns", "p99_ns"].map(of);
    assert!(p50 <= p95 && p95 <= p99, "{p50} {p95} {p99}");
    assert_within(&errors(&logs, &[], "m1", &all), 0.25);
    // And the report says how exact it is, except in CSV.
    let closer = "within 2% for recorded calls, 25% for others";
    for (format, by, said) in [
        ("text", None, closer),
        ("json", None, closer),
        ("text", Some("hour"), "within 25%"),
        ("json", Some("hour"), "within 25%"),
    ] {
        let by: Vec<&str> = by.into_iter().flat_map(|by| ["--by", by]).collect();
        let outcome = logs.analyze(&[&["logs", "--format", format][..], &by].concat());
        assert!(outcome.stdout.contains(said), "{format}: {}", outcome.stdout);
    }
}

#[test]
fn records_that_are_not_there_do_not_make_them_wrong() {
    let all = durations(1, 20_000, MS / 2);
    let run = |spoil: &dyn Fn(&Logs)| {
        let logs = Logs::new();
        write_run(&logs, 1, MS, &[&all]);
        spoil(&logs);
        errors(&logs, &[], "m1", &all)
    };
    assert_within(&run(&|_| ())[1..], 0.02);
    // The log of a run with unknown thresholds.
    let counters = "logs/run1/20261120T14Z.counters.csv";
    assert_within(&run(&|logs| fs::remove_file(logs.root().join(counters)).unwrap()), 0.25);
    // Every other recorded call is missing, or every one over 3 ms, or those next to the threshold, or all, or their
    // file; and the log says so, or does not.
    let calls = "logs/run1/20261120T14Z.calls.csv";
    let keep = |keep: &dyn Fn(usize, u64) -> bool, is_counted: bool| {
        run(&|logs: &Logs| {
            let path = logs.root().join(calls);
            let text = fs::read_to_string(&path).unwrap();
            let total = |line: &str| line.split(',').nth(4).unwrap().parse().unwrap_or(0);
            let lines = text.lines().enumerate();
            let kept = lines.filter(|(at, line)| *at == 0 || keep(*at, total(line)));
            let kept: Vec<&str> = kept.map(|(_, line)| line).collect();
            fs::write(&path, kept.join("\n") + "\n").unwrap();
            let dropped = counter(T14, name::RECORDED_CALLS_DROPPED, is_counted.into());
            RunFolder(logs.root().join("logs/run1")).rows(T14, &[dropped]);
        })
    };
    for is_counted in [true, false] {
        assert_within(&keep(&|at, _| at % 2 == 0, is_counted), 0.25);
        assert_within(&keep(&|_, total| total < 3 * MS, is_counted), 0.25);
        assert_within(&keep(&|_, total| !(MS..MS + MS / 40).contains(&total), is_counted), 0.25);
        assert_within(&keep(&|_, _| false, is_counted), 0.25);
    }
    assert_within(&run(&|logs| fs::remove_file(logs.root().join(calls)).unwrap()), 0.25);
    // Recorded calls whose method statistics the JVM did not live to write.
    let more = durations(9, 5_000, 2 * MS);
    let rows: Vec<_> = more.iter().map(|ns| call(T14 + MIN, 1, 1, 1, *ns)).collect();
    let add = |logs: &Logs| {
        RunFolder(logs.root().join("logs/run1")).rows(T14, &rows);
    };
    assert_within(&run(&add), 0.25);
    // A method that has only such recorded calls has no row.
    let logs = Logs::new();
    write_run(&logs, 1, MS, &[&all, &[]]);
    let only = call(T14, 1, 2, 2, 5 * MS);
    RunFolder(logs.root().join("logs/run1")).rows(T14, &[only]);
    let outcome = logs.analyze(&["logs", "--format", "csv", "--method", "com.shop.Order.m2"]);
    assert_eq!(outcome.csv().len(), 1, "{}", outcome.stdout);
}

/// The errors if a method has these calls in its statistics, and others are recorded.
fn of_records(calls: &[u64], records: &[u64], counters: &[(&str, u64)]) -> Vec<(u64, f64)> {
    of_records_with(calls, records, counters, None)
}

/// The same if a pattern has its own threshold.
fn of_records_with(
    calls: &[u64],
    records: &[u64],
    counters: &[(&str, u64)],
    of_pattern: Option<(&str, u64)>,
) -> Vec<(u64, f64)> {
    let logs = Logs::new();
    write_run(&logs, 1, u64::MAX, &[calls]);
    let run = RunFolder(logs.root().join("logs/run1"));
    fs::remove_file(run.file(T14, Table::Counters)).unwrap();
    let rows: Vec<_> = counters.iter().map(|(name, value)| counter(T14, name, *value)).collect();
    run.rows(T14, &rows);
    if let Some((pattern, threshold_ns)) = of_pattern {
        let pattern = pattern.to_owned();
        let threshold_ns = Some(threshold_ns);
        let own = EventRow { pattern, threshold_ns, ..EventRow::new(T14, event::THRESHOLD) };
        run.rows(T14, &[own]);
    }
    let at = |at: usize| T14 + MIN + at as u64 * MS;
    let rows: Vec<_> =
        records.iter().enumerate().map(|(n, ns)| call(at(n), 1, 1, 1, *ns)).collect();
    run.rows(T14, &rows);
    errors(&logs, &[], "m1", calls)
}

fn times(count: usize, ns: u64) -> Vec<u64> {
    vec![ns; count]
}

#[test]
fn records_of_the_minute_that_has_no_totals_yet_do_not_make_them_wrong() {
    let threshold = |ns| (name::THRESHOLD_NS, ns);
    // As many in a bucket as the statistics have, but other calls: those that are shorter than the threshold.
    let calls = [times(900, 99 * US), times(99, 100_500), times(1, 131 * US)].concat();
    let records = [times(99, 100_500), times(1, 131 * US), times(100, 130 * US)].concat();
    assert_within(&of_records(&calls, &records, &[threshold(100 * US)]), 0.25);
    let calls = [times(9, 790 * US), times(1, 1_045 * US)].concat();
    let records = times(10, 1_045 * US);
    assert_within(&of_records(&calls, &records, &[threshold(MS)]), 0.25);
    // Or shorter than another threshold, or a raised one.
    let calls = [times(97, 100 * US), times(9, 3_150 * US), times(1, 4_190 * US)].concat();
    let records = times(10, 4_190 * US);
    let raised = (name::RAISED_TO_NS, 4 * MS);
    assert_within(&of_records(&calls, &records, &[threshold(MS), raised]), 0.25);
    let of_other =
        of_records_with(&calls, &records, &[threshold(MS)], Some(("com.shop.Order", 4 * MS)));
    assert_within(&of_other, 0.25);
    // Or those that were dropped.
    for lost in [name::RECORDED_CALLS_DROPPED, name::RECORDED_CALLS_OVER_BUDGET, name::ROWS_DROPPED]
    {
        assert_within(&of_records(&calls, &records, &[threshold(MS), (lost, 9)]), 0.25);
    }
    // More of them, in the same bucket and in a higher one.
    let calls: Vec<u64> = (0..10_000).map(|n| 9 * MS + n * 100).collect();
    let more: Vec<u64> = (0..50).map(|n| 9 * MS + n * 20 * US).collect();
    let records = [&calls[..], &more[..], &times(70, 14 * MS)[..]].concat();
    assert_within(&of_records(&calls, &records, &[threshold(MS)]), 0.02);
    // A threshold of methods that are not there changes nothing.
    let of_none =
        of_records_with(&calls, &records, &[threshold(MS)], Some(("com.nobody.X", 40 * MS)));
    assert_within(&of_none, 0.02);
    // So many that it is unknown which.
    let calls: Vec<u64> = (0..10_000).map(|n| 8_500 * US + n).chain([12_550 * US]).collect();
    let records = [&calls[..], &times(9_000, 12_500 * US)[..]].concat();
    assert_within(&of_records(&calls, &records, &[threshold(MS)]), 0.25);
}

#[test]
fn groups_of_hours_and_a_part_of_the_time_are_within_25_percent() {
    let logs = Logs::new();
    let all = durations(1, 20_000, MS);
    write_run(&logs, 1, MS, &[&all]);
    for args in [&["--by", "hour"][..], &["--by", "minute"], &["--from", "14:00", "--to", "15:00"]]
    {
        let outcome = logs.analyze(&[&["logs"], args].concat());
        assert!(outcome.stdout.contains("of all calls, within 25%\n"), "{}", outcome.stdout);
        assert_within(&errors(&logs, args, "m1", &all), 0.25);
    }
}
