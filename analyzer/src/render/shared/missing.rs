//! What is missing from a report, in words, for every format.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use log_format::writer::one_line;

use crate::options::zone::Zone;
use crate::report::Report;
use crate::report::missing::{Missing, RaisedInRun};
use crate::run::cut_short::CutInRun;
use crate::run::losses::Losses;
use crate::run::muted::MutedInRun;
use crate::run::postponed::PostponedInRun;
use crate::run::throttled::ThrottledInRun;
use log_format::human::{duration, plural, separated};

/// Times with a raised threshold that are shown for each run.
const TIMES_SHOWN: usize = 3;

/// Runs cut short that are named.
const CUTS_SHOWN: usize = 5;

/// Classes not instrumented that are named.
const CLASSES_SHOWN: usize = 5;
/// The same at the top of a text.
const CLASSES_NAMED: usize = 2;

/// Throttled methods that are named.
const THROTTLED_SHOWN: usize = 10;
/// Muted patterns that are named.
const PATTERNS_SHOWN: usize = 10;

/// A number of losses, and the words for one and for several.
type Loss = (fn(&Losses) -> u64, &'static str, &'static str);

/// Losses that make figures wrong or incomplete.
const FLAWS: [Loss; 21] = [
    (
        |losses| losses.log.recorded_calls_dropped,
        "recorded call dropped: its thread's ring was full; method statistics include it",
        "recorded calls dropped: their thread's ring was full; method statistics include them",
    ),
    (
        |losses| losses.statistics.lost_calls,
        "call not counted: out of memory for its statistics, or its probe has an unknown method id",
        "calls not counted: out of memory for their statistics, or their probes have unknown method ids",
    ),
    (
        |losses| losses.statistics.unseen_ends,
        "call counted as ended by exception: no probe saw its end",
        "calls counted as ended by exception: no probe saw their end",
    ),
    (
        |losses| losses.statistics.muted_methods,
        "method was muted, all or part of the time; meanwhile its time is in its callers' self time",
        "methods were muted, all or part of the time; meanwhile their time is in their callers' self time",
    ),
    (
        |losses| losses.statistics.muted_calls,
        "call not counted: it was in progress when its method was muted or unmuted",
        "calls not counted: they were in progress when their method was muted or unmuted",
    ),
    (
        |losses| losses.statistics.throttled_calls,
        "call not counted: it was in progress when its method was throttled or unthrottled",
        "calls not counted: they were in progress when their method was throttled or unthrottled",
    ),
    (
        |losses| losses.not_instrumented.methods,
        "selected method could not be instrumented",
        "selected methods could not be instrumented",
    ),
    (
        |losses| losses.not_instrumented.classes_unreadable,
        "selected class could not be read, and was not instrumented",
        "selected classes could not be read, and were not instrumented",
    ),
    (
        |losses| losses.log.recorded_calls_over_budget,
        "call not recorded: the hour's log budget was used up; method statistics include it",
        "calls not recorded: the hour's log budget had room only for the slowest of each half second; method \
         statistics include them",
    ),
    (
        |losses| losses.log.allocation_samples_dropped,
        "sampled allocation dropped",
        "sampled allocations dropped",
    ),
    (
        |losses| losses.log.trace_samples_dropped,
        "sampled call of a traced method dropped",
        "sampled calls of traced methods dropped",
    ),
    (
        |losses| losses.log.exceptions_lost,
        "exception not counted, for lack of memory (option max_memory)",
        "exceptions not counted, for lack of memory (option max_memory)",
    ),
    (
        |losses| losses.log.exception_examples_dropped,
        "example of an exception dropped; counts of exceptions include it",
        "examples of exceptions dropped; counts of exceptions include them",
    ),
    (
        |losses| losses.log.lock_waits_dropped,
        "recorded lock wait dropped; statistics of lock waits include it",
        "recorded lock waits dropped; statistics of lock waits include them",
    ),
    (
        |losses| losses.log.lock_waits_lost,
        "lock wait not counted, for lack of memory (option max_memory)",
        "lock waits not counted, for lack of memory (option max_memory)",
    ),
    (
        |losses| losses.log.lock_seconds_skipped,
        "second in which lock waits were not counted, because there were too many (option sampler_cap)",
        "seconds in which lock waits were not counted, because there were too many (option sampler_cap)",
    ),
    (
        |losses| losses.log.slow_sql_dropped,
        "slow SQL statement dropped; statistics of SQL statements include it",
        "slow SQL statements dropped; statistics of SQL statements include them",
    ),
    (
        |losses| losses.log.sql_lost,
        "SQL statement not counted, for lack of memory (option max_memory)",
        "SQL statements not counted, for lack of memory (option max_memory)",
    ),
    (
        |losses| losses.log.deleted_hours,
        "hour of the log was deleted (options keep and max_mb)",
        "hours of the log were deleted (options keep and max_mb)",
    ),
    (
        |losses| losses.log.rows_dropped,
        "row of the log was dropped: it could not be written in time",
        "rows of the log were dropped: they could not be written in time",
    ),
    (
        |losses| losses.timers_refused,
        "timer was refused by the kernel (ulimit -i): its thread has no CPU samples",
        "timers were refused by the kernel (ulimit -i): their threads have no CPU samples",
    ),
];

/// Other losses: nothing is gone, or it is meant to be.
const MINOR_LOSSES: [Loss; 2] = [
    (
        |losses| losses.not_instrumented.leaves,
        "trivial leaf was not instrumented (leaves=skip); its time is in its callers' \
         self time",
        "trivial leaves were not instrumented (leaves=skip); their time is in their callers' \
         self time",
    ),
    (
        |losses| losses.log.io_errors,
        "write to the log failed and was tried again",
        "writes to the log failed and were tried again",
    ),
];

/// What the report lacks; empty if nothing.
pub fn missing(report: &Report) -> Vec<String> {
    let runs = report.read.runs.len();
    let mut lines = without_names(report);
    lines.extend(throttled(&report.missing.throttled, runs, &report.layout.zone));
    lines.extend(muted(&report.missing.muted, runs, &report.layout.zone));
    lines
}

/// The same without the names of methods, for formats with little space.
pub fn missing_in_short(report: &Report) -> Vec<String> {
    let mut lines = without_names(report);
    lines.extend(throttled_count(&report.missing.throttled));
    lines
}

/// What the report lacks, without the names of throttled methods and muted patterns.
fn without_names(report: &Report) -> Vec<String> {
    let (missing, runs, zone) = (&report.missing, report.read.runs.len(), &report.layout.zone);
    let mut lines = cut(&missing.cut, runs, zone);
    lines.extend(lost(missing, zone));
    lines.extend(postponed(&missing.postponed, runs, zone));
    lines
}

/// What is missing at the end of runs.
pub(crate) fn cut(found: &[CutInRun], runs: usize, zone: &Zone) -> Vec<String> {
    let mut lines = Vec::new();
    for CutInRun { run, cut } in found.iter().take(CUTS_SHOWN) {
        let place = if runs == 1 { String::new() } else { format!(" in run {run}") };
        if let Some((end_ns, last_ns)) = cut.statistics_end {
            lines.push(format!(
                "method statistics{place} end at {}, {} before the last recorded call: the JVM still runs (see \
                 tprofiler flush), was killed, or stats.csv was cut",
                zone.text(end_ns),
                duration(last_ns - end_ns)
            ));
        }
        if cut.recorded_calls > 0 {
            lines.push(format!(
                "{}{place}: a calls.csv was cut or deleted",
                plural(
                    cut.recorded_calls,
                    "recorded call was written and is gone",
                    "recorded calls were written and are gone"
                )
            ));
        }
        if cut.without_counters > 0 {
            lines.push(format!(
                "{}{place}: a counters.csv was cut or deleted; rates, and what was lost then, are estimates",
                plural(cut.without_counters, "interval has no counters", "intervals have no counters")
            ));
        }
    }
    let rest = u64::try_from(found.len().saturating_sub(CUTS_SHOWN)).unwrap_or(u64::MAX);
    if rest > 0 {
        lines.push(plural(rest, "more run was cut short", "more runs were cut short"));
    }
    lines
}

fn lost(missing: &Missing, zone: &Zone) -> Vec<String> {
    let mut lines: Vec<String> = unread(missing).into_iter().chain(losses(missing)).collect();
    lines.extend(raised(&missing.raised, zone));
    lines
}

pub(crate) fn unread(missing: &Missing) -> Option<String> {
    let unread = u64::try_from(missing.unread.len()).unwrap_or(u64::MAX);
    let (one, many) = ("part of the logs could not be read", "parts of the logs could not be read");
    (unread > 0).then(|| plural(unread, one, many))
}

pub(crate) fn losses(missing: &Missing) -> Vec<String> {
    let mut lines = found_of(&FLAWS, missing);
    lines.extend(found_of(&MINOR_LOSSES, missing));
    lines
}

/// What makes figures wrong or incomplete, a line each.
pub(crate) fn flaws(missing: &Missing) -> Vec<String> {
    let mut lines = found_of(&FLAWS, missing);
    lines.extend(raised_count(&missing.raised));
    lines.extend(postponed_count(&missing.postponed));
    lines.extend(throttled_count(&missing.throttled));
    lines
}

/// A line for each of these losses that there is.
fn found_of(losses: &[Loss], missing: &Missing) -> Vec<String> {
    let losses = losses.iter().map(|(number, one, many)| (number(&missing.losses), one, many));
    let found = losses.filter(|(number, ..)| *number > 0);
    found.map(|(number, one, many)| plural(number, one, many)).collect()
}

pub(crate) fn raised(runs: &[RaisedInRun], zone: &Zone) -> Vec<String> {
    let mut lines = Vec::new();
    runs.iter().for_each(|run| raised_in(run, zone, &mut lines));
    lines
}

fn raised_count(runs: &[RaisedInRun]) -> Option<String> {
    let times = raised_times(runs);
    (times > 0).then(|| {
        plural(
            times,
            "period with a raised threshold: of shorter calls, only each method's slowest was recorded",
            "periods with a raised threshold: of shorter calls, only each method's slowest was recorded",
        )
    })
}

/// How many times thresholds were raised.
pub(crate) fn raised_times(runs: &[RaisedInRun]) -> u64 {
    u64::try_from(runs.iter().map(|run| run.times.len()).sum::<usize>()).unwrap_or(u64::MAX)
}

fn raised_in(run: &RaisedInRun, zone: &Zone, lines: &mut Vec<String>) {
    for time in run.times.iter().take(TIMES_SHOWN) {
        let until = time.to_ns.map_or_else(|| "the end".to_owned(), |ns| zone.text(ns));
        lines.push(format!(
            "threshold raised from {} to {} in run {} from {} to {until}: of the calls below it, only the slowest of \
             each method are recorded; method statistics include all",
            duration(run.base_ns),
            duration(time.highest_ns),
            run.run,
            zone.text(time.from_ns),
        ));
    }
    let rest = run.times.len().saturating_sub(TIMES_SHOWN);
    if rest > 0 {
        let rest = u64::try_from(rest).unwrap_or(u64::MAX);
        lines.push(format!(
            "the threshold was raised {} in run {}",
            plural(rest, "more time", "more times"),
            run.run
        ));
    }
}

/// The classes that were not instrumented because a loop runs in them.
pub(crate) fn postponed(found: &[PostponedInRun], runs: usize, zone: &Zone) -> Vec<String> {
    let line = |PostponedInRun { run, class }: &PostponedInRun| {
        let from = zone.text(class.from_ns);
        let when = match class.to_ns {
            Some(to_ns) => format!("from {from} to {}", zone.text(to_ns)),
            None => format!("since {from}"),
        };
        let place = if runs == 1 { String::new() } else { format!(" in run {run}") };
        let (name, reason) = (one_line(&class.class), one_line(&class.reason));
        format!("{name} was not instrumented {when}{place}: {reason}")
    };
    let rest = u64::try_from(found.len().saturating_sub(CLASSES_SHOWN)).unwrap_or(u64::MAX);
    let rest = (rest > 0).then(|| {
        plural(
            rest,
            "more class was not instrumented part of the time",
            "more classes were not instrumented part of the time",
        )
    });
    found.iter().take(CLASSES_SHOWN).map(line).chain(rest).collect()
}

/// The classes that had no probes when recording ended, and why, in one line.
pub(crate) fn never_instrumented(found: &[PostponedInRun]) -> Option<String> {
    let classes: BTreeMap<&str, &str> = found
        .iter()
        .filter(|of| of.class.to_ns.is_none())
        .map(|of| (of.class.class.as_str(), of.class.reason.as_str()))
        .collect();
    let named = classes.iter().take(CLASSES_NAMED);
    let mut named: Vec<String> =
        named.map(|(name, why)| format!("{} ({})", one_line(name), one_line(why))).collect();
    let more = classes.len().saturating_sub(CLASSES_NAMED);
    named.extend((more > 0).then(|| format!("{more} more")));
    (!named.is_empty())
        .then(|| format!("not instrumented: {}: in their callers' time", named.join(", ")))
}

fn postponed_count(found: &[PostponedInRun]) -> Option<String> {
    let classes = u64::try_from(found.len()).unwrap_or(u64::MAX);
    (classes > 0).then(|| {
        plural(
            classes,
            "class was not instrumented, all or part of the time",
            "classes were not instrumented, all or part of the time",
        )
    })
}

/// The throttled methods, one line each, sorted by the time missed in all runs together.
pub(crate) fn throttled(found: &[ThrottledInRun], runs: usize, zone: &Zone) -> Vec<String> {
    let mut methods: Vec<(f64, Vec<&ThrottledInRun>)> = by_method(found)
        .into_values()
        .map(|runs| (runs.iter().map(|run| run.method.missed_ns()).sum(), runs))
        .collect();
    methods.sort_by(|a, b| b.0.total_cmp(&a.0));
    let rest = methods.len().saturating_sub(THROTTLED_SHOWN);
    methods.truncate(THROTTLED_SHOWN);
    let mut lines: Vec<String> =
        methods.iter().filter_map(|(_, of)| throttled_line(of, runs, zone)).collect();
    if rest > 0 {
        lines.push(plural(
            u64::try_from(rest).unwrap_or(u64::MAX),
            "more method was throttled",
            "more methods were throttled",
        ));
    }
    lines
}

pub(crate) fn by_method(found: &[ThrottledInRun]) -> BTreeMap<&str, Vec<&ThrottledInRun>> {
    let mut methods: BTreeMap<&str, Vec<&ThrottledInRun>> = BTreeMap::new();
    for run in found {
        methods.entry(&run.method.name).or_default().push(run);
    }
    methods
}

/// When one method was throttled, in the runs that throttled it.
fn throttled_line(of: &[&ThrottledInRun], runs: usize, zone: &Zone) -> Option<String> {
    let busiest = of.iter().max_by_key(|run| run.method.calls_per_s)?;
    let from_ns = of.iter().map(|run| run.method.from_ns).min()?;
    let is_open = of.iter().any(|run| run.method.to_ns.is_none());
    let to_ns = of.iter().filter_map(|run| run.method.to_ns).max();
    let times: u64 = of.iter().map(|run| run.method.times).sum();
    let when = when(times, from_ns, to_ns.filter(|_| !is_open), zone);
    let place = place(&busiest.run, of.len(), runs);
    let up_to = if of.len() > 1 && runs > 1 { "up to " } else { "" };
    let calls = plural(busiest.method.calls_per_s, "call/s", "calls/s");
    let mean = busiest.method.mean_ns.map(|ns| format!(", average {}", duration(ns)));
    Some(format!(
        "{} was throttled {when}{place} ({up_to}{calls}{}); its time is in its callers' \
         self time",
        one_line(&busiest.method.name),
        mean.unwrap_or_default(),
    ))
}

/// When patterns were muted, one line each, those with most time in all runs together first.
pub(crate) fn muted(found: &[MutedInRun], runs: usize, zone: &Zone) -> Vec<String> {
    let sum = |of: &[&MutedInRun]| {
        of.iter().fold(0, |sum: u64, one| sum.saturating_add(one.muted.muted_ns))
    };
    let mut patterns: Vec<(String, Vec<&MutedInRun>)> = by_pattern(found).into_iter().collect();
    patterns.sort_by_key(|(_, of)| Reverse(sum(of)));
    let rest = patterns.len().saturating_sub(PATTERNS_SHOWN);
    patterns.truncate(PATTERNS_SHOWN);
    let line = |(pattern, of): &(String, Vec<&MutedInRun>)| {
        let first = of.first()?;
        let from_ns = of.iter().map(|one| one.muted.from_ns).min()?;
        let is_open = of.iter().any(|one| one.muted.to_ns.is_none());
        let to_ns = of.iter().filter_map(|one| one.muted.to_ns).max().filter(|_| !is_open);
        let times: u64 = of.iter().map(|one| one.muted.times).sum();
        Some(format!(
            "{} was muted {}{}, {} of the selected time; its time is in its callers' self time",
            one_line(pattern),
            when(times, from_ns, to_ns, zone),
            place(&first.run, of.len(), runs),
            duration(sum(of))
        ))
    };
    let mut lines: Vec<String> = patterns.iter().filter_map(line).collect();
    if rest > 0 {
        let rest = u64::try_from(rest).unwrap_or(u64::MAX);
        lines.push(plural(rest, "more pattern was muted", "more patterns were muted"));
    }
    lines
}

pub(crate) fn by_pattern(found: &[MutedInRun]) -> BTreeMap<String, Vec<&MutedInRun>> {
    let mut patterns: BTreeMap<String, Vec<&MutedInRun>> = BTreeMap::new();
    for run in found {
        patterns.entry(run.muted.pattern.to_string()).or_default().push(run);
    }
    patterns
}

/// The run, or how many runs, if there are others.
fn place(first: &str, of: usize, runs: usize) -> String {
    match of {
        _ if runs == 1 => String::new(),
        1 => format!(" in run {first}"),
        several => format!(" in {} runs", separated(several as u128)),
    }
}

/// So often from the first moment to the last, which is the log's end if there is none.
fn when(times: u64, from_ns: u64, to_ns: Option<u64>, zone: &Zone) -> String {
    let from = zone.text(from_ns);
    match (times, to_ns.map(|ns| zone.text(ns))) {
        (1, None) => format!("since {from}"),
        (1, Some(to)) => format!("from {from} to {to}"),
        (_, to) => {
            let to = to.unwrap_or_else(|| "the end".to_owned());
            format!("{} times from {from} to {to}", separated(times.into()))
        }
    }
}

fn throttled_count(found: &[ThrottledInRun]) -> Option<String> {
    let methods = by_method(found).len();
    (methods > 0).then(|| {
        plural(
            u64::try_from(methods).unwrap_or(u64::MAX),
            "method was throttled, all or part of the time; meanwhile its time is in its \
             callers' self time",
            "methods were throttled, all or part of the time; meanwhile their time is in their \
             callers' self time",
        )
    })
}

/// Everything that the methods' rows do not show.
pub fn all(report: &Report) -> Vec<String> {
    let mut lines: Vec<String> = report.empty.iter().cloned().collect();
    lines.extend(missing(report).into_iter().map(|line| format!("missing: {line}")));
    lines.extend(report.all_notes().map(str::to_owned));
    let unfinished = report.unfinished.not_counted();
    if unfinished > 0 {
        let unfinished = u64::try_from(unfinished).unwrap_or(u64::MAX);
        lines.push(plural(
            unfinished,
            "unfinished call is not counted",
            "unfinished calls are not counted",
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::losses::{LogLosses, Raised};
    use crate::run::throttled::ThrottledMethod;

    #[test]
    fn only_what_was_lost_is_reported() {
        assert_eq!(lost(&Missing::default(), &Zone::default()), Vec::<String>::new());
        let log = LogLosses { recorded_calls_dropped: 1_200, io_errors: 1, ..LogLosses::default() };
        let losses = Losses { log, ..Losses::default() };
        assert_eq!(
            lost(&Missing { losses, ..Missing::default() }, &Zone::default()),
            [
                "1,200 recorded calls dropped: their thread's ring was full; method statistics include them",
                "1 write to the log failed and was tried again",
            ]
        );
    }

    #[test]
    fn raised_thresholds_are_reported_up_to_a_number() {
        let time = |to_ns| Raised { from_ns: 60_000_000_000, to_ns, highest_ns: 4_000_000 };
        let times = vec![time(Some(120_000_000_000)), time(None), time(None), time(None)];
        let raised = vec![RaisedInRun { run: "r".into(), base_ns: 1_000_000, times }];
        let lines = lost(&Missing { raised, ..Missing::default() }, &Zone::default());
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[0],
            "threshold raised from 1.00 ms to 4.00 ms in run r from 1970-01-01T00:01:00Z to 1970-01-01T00:02:00Z: of \
             the calls below it, only the slowest of each method are recorded; method statistics include all"
        );
        assert!(lines[1].contains(" to the end: "), "{}", lines[1]);
        assert_eq!(lines[3], "the threshold was raised 1 more time in run r");
    }

    const S: u64 = 1_000_000_000;

    /// A method that was throttled from 0:01 on, for an hour.
    fn out(run: &str, name: &str, calls_per_s: u64) -> ThrottledInRun {
        let method = ThrottledMethod {
            name: name.into(),
            from_ns: 60 * S,
            to_ns: None,
            times: 1,
            throttled_ns: 3_600 * S,
            calls_per_s,
            mean_ns: Some(45),
        };
        ThrottledInRun { run: run.into(), method }
    }

    #[test]
    fn a_method_throttled_is_named_with_its_times() {
        let zone = Zone::default();
        let of_time = |to_s: Option<u64>, times| {
            let mut one = out("r", "com.shop.Util.hash(Ljava/lang/String;)I", 2_100_000);
            (one.method.to_ns, one.method.times) = (to_s.map(|s| s * S), times);
            one
        };
        let line = |when: &str| {
            format!(
                "com.shop.Util.hash(Ljava/lang/String;)I was throttled {when} \
                 (2,100,000 calls/s, average 45 ns); its time is in its callers' self time"
            )
        };
        for (to_s, times, when) in [
            (None, 1, "since 1970-01-01T00:01:00Z"),
            (Some(120), 1, "from 1970-01-01T00:01:00Z to 1970-01-01T00:02:00Z"),
            (Some(120), 3, "3 times from 1970-01-01T00:01:00Z to 1970-01-01T00:02:00Z"),
            (None, 3, "3 times from 1970-01-01T00:01:00Z to the end"),
        ] {
            assert_eq!(throttled(&[of_time(to_s, times)], 1, &zone), [line(when)]);
            assert_eq!(
                throttled(&[of_time(to_s, times)], 2, &zone),
                [line(&format!("{when} in run r"))]
            );
        }
        let mut bare = out("r", "a.B.c()V", 1);
        bare.method.mean_ns = None;
        let text = throttled(&[bare], 1, &zone).concat();
        assert!(text.contains("since 1970-01-01T00:01:00Z (1 call/s); its time"), "{text}");
        assert_eq!(throttled(&[], 1, &zone), [""; 0]);
    }

    #[test]
    fn of_methods_throttled_those_are_named_that_had_most_time() {
        let mut found: Vec<_> = (1..=12).map(|i| out("r", &format!("C.m{i}()V"), i)).collect();
        // Little in each run, much in all of them.
        found.extend((0..40).map(|i| out(&format!("r{i}"), "C.many()V", 2)));
        let lines = throttled(&found, 41, &Zone::default());
        assert_eq!(lines.len(), 11);
        assert!(lines[0].starts_with("C.many()V was throttled 40 times from "));
        assert!(lines[0].contains(" to the end in 40 runs (up to 2 calls/s, average 45 ns); "));
        assert!(lines[1].starts_with("C.m12()V ") && lines[9].starts_with("C.m4()V "));
        assert_eq!(lines[10], "3 more methods were throttled");
        let count = throttled_count(&found).unwrap();
        assert!(count.starts_with("13 methods were throttled, "), "{count}");
        assert_eq!(throttled_count(&[]), None);
    }
}
