//! Texts of a report: why it is empty, what its figures lack, and the label for the time of calls that were not
//! recorded.

use std::collections::BTreeSet;

use log_format::rows::Exit;
use log_format::units::duration_text;

use crate::input::runs::RunInput;
use crate::options::time_range::TimeRange;
use crate::options::zone::hour_text;
use crate::options::{By, CallFilter};
use crate::report::cpu::CpuReport;
use crate::report::exceptions::ExceptionReport;
use crate::report::locks::LockReport;
use crate::report::missing::Missing;
use crate::report::sql::SqlReport;
use crate::report::states::StateReport;
use crate::run::losses::ProbeCost;
use crate::run::nearest_names::Nearest;
use crate::run::old_counts::OldCounts;
use crate::run::read_counts::Counts;
use crate::run::selection::{RecordsBecause, Selection};
use crate::run::window::Touched;

const UNFINISHED_NOT_COUNTED: &str =
    "unfinished calls are in no figure; they are listed below, if there are any";

/// The name of the frame for calls that were not recorded.
pub fn without_record(
    calls: &CallFilter,
    counts: &Counts,
    thresholds_ns: &BTreeSet<u64>,
    missing: &Missing,
) -> String {
    let is_lossless = missing.losses.log.has_all_recorded_calls() && missing.raised.is_empty();
    let asked_ns = calls.above_ns.unwrap_or(0);
    if calls.exit.is_some() || counts.records_without_path > 0 {
        return "(other calls)".to_owned();
    }
    match (thresholds_ns.first(), thresholds_ns.last()) {
        (_, Some(highest_ns)) if asked_ns > 0 && *highest_ns <= asked_ns => below(asked_ns),
        (Some(lowest_ns), Some(highest_ns)) if lowest_ns == highest_ns && is_lossless => {
            below((*highest_ns).max(asked_ns))
        }
        _ => "(calls not recorded)".to_owned(),
    }
}

fn below(threshold_ns: u64) -> String {
    let text = duration_text(threshold_ns);
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits).unwrap_or((&text, ""));
    format!("(calls < {number} {unit})")
}

/// Why there are no methods.
///
/// `was_on` is whether recording was on at some time, as far as the logs say.
pub fn why_empty(
    selection: &Selection,
    counts: &Counts,
    was_on: bool,
    hint: Option<&Nearest>,
) -> String {
    let of_records = selection.counts_records();
    let rows = if of_records { counts.records } else { counts.stats_rows };
    let rows = rows.saturating_add(counts.tprofiler.calls);
    if rows == 0 {
        return no_rows(of_records, counts, was_on).to_owned();
    }
    let range = selection.range.text(&selection.zone);
    if counts.rows_in_range == 0 {
        return none_in_range(selection, counts, &range);
    }
    let Some(pattern) = selection.method.as_ref().map(ToString::to_string) else {
        return match (&selection.calls.thread, selection.calls.exit) {
            (_, Some(Exit::Unfinished)) => UNFINISHED_NOT_COUNTED.to_owned(),
            (None, Some(Exit::Throw)) => format!(
                "no recorded call ended with an exception {range}; shorter ones are in the method statistics: a \
                 report without --exit has them in the column throws"
            ),
            (Some(_), _) => {
                format!("no calls match the filters {range}; --by thread lists the threads")
            }
            _ => format!("no calls match the filters {range}"),
        };
    };
    if let Some(hint) = hint {
        return format!("no calls in methods named by {pattern}: {}", hint.hint());
    }
    if !selection.calls.is_everything() {
        return format!("no calls match the filters in methods named by {pattern} {range}");
    }
    if selection.range.is_everything() {
        format!("no calls in methods named by {pattern}")
    } else {
        format!("no calls in methods named by {pattern} {range}")
    }
}

/// What figures by state are of.
pub const BY_STATE: &str =
    "By state only samples count, CPU time and waiting; exact figures do not apply";

/// Why there is no time by state, if there is none.
pub fn no_states(
    states: &StateReport,
    selection: &Selection,
    hint: Option<&Nearest>,
) -> Option<String> {
    let pattern = selection.method.as_ref();
    states.states.is_empty().then(|| match (pattern, hint) {
        (Some(pattern), Some(hint)) => {
            format!("no samples of methods named by {pattern}: {}", hint.hint())
        }
        (Some(pattern), None) => format!("no samples of methods named by {pattern}"),
        (None, _) => {
            "no samples are selected, or there are none in these logs; attach or start the agent \
                      with cpu=10ms,wall=100ms"
                .to_owned()
        }
    })
}

/// Why there are no methods in logs without rows.
fn no_rows(of_records: bool, counts: &Counts, was_on: bool) -> &'static str {
    match (of_records, counts.records > 0 || counts.stats_rows > 0) {
        (true, true) => {
            "no calls: none was recorded, and method statistics have neither threads nor callers"
        }
        (false, true) => {
            "no method statistics in these files, only recorded calls: a JVM writes statistics after ten \
             seconds, then every minute, and at `tprofiler flush`; --above 0ns counts the recorded calls"
        }
        (_, false) if counts.tprofiler.dump_logs > 0 => {
            "no calls: TProfiler's thread dumps say only where threads stood"
        }
        (_, false) if !was_on => {
            "no calls: recording was off all the time (start=off, or a schedule), as far as the log says; a JVM \
             writes it every minute and at `tprofiler flush`"
        }
        (_, false) => {
            "no calls: either no class was instrumented (classes_instrumented in counters.csv), or no method \
             statistics are written yet; a JVM writes them every minute and at `tprofiler flush`"
        }
    }
}

/// Why there are no methods if no row is in the selected time.
fn none_in_range(selection: &Selection, counts: &Counts, range: &str) -> String {
    let is_everything = selection.range.is_everything();
    match (counts.hours.first(), counts.hours.last()) {
        (Some(first), Some(last)) if !is_everything && first == last => {
            format!("no calls {range}: these logs are of the hour {}", hour_text(*first))
        }
        (Some(first), Some(last)) if !is_everything => format!(
            "no calls {range}: these logs are of the hours {} to {}",
            hour_text(*first),
            hour_text(*last)
        ),
        _ if selection.calls.exit == Some(Exit::Unfinished) => UNFINISHED_NOT_COUNTED.to_owned(),
        _ => "no calls: no recorded call has ended".to_owned(),
    }
}

fn tprofiler_notes(counts: &OldCounts) -> Vec<String> {
    let mut notes = Vec::new();
    for (logs, unit) in [(counts.logs_in_ms, "milliseconds"), (counts.logs_in_ns, "nanoseconds")] {
        if logs > 0 {
            notes.push(format!(
                "TProfiler's logs with times in {unit}; they have only calls over its threshold, and no exits by \
                 exception: {logs}"
            ));
        }
    }
    if counts.without_caller > 0 {
        notes.push(format!(
            "Calls in TProfiler's logs whose caller is missing, because an exception went through it or \
             it was unfinished: {}",
            counts.without_caller
        ));
    }
    notes.extend(dump_note(counts));
    notes
}

/// What the times of TProfiler's thread dumps are.
fn dump_note(counts: &OldCounts) -> Option<String> {
    let dumps = counts.dumps;
    let each = "each of a thread's lines stands for that time";
    match counts.dump_interval_ns {
        _ if dumps == 0 => None,
        None => Some(format!("TProfiler's thread dumps: {dumps}; a thread's line stands for 1s")),
        Some((low, high)) if low == high => {
            let interval = duration_text(low);
            Some(format!("TProfiler's thread dumps: {dumps}, every {interval}; {each}"))
        }
        Some((low, high)) => {
            let (low, high) = (duration_text(low), duration_text(high));
            let every = format!("every {low} to {high}, by log");
            Some(format!("TProfiler's thread dumps: {dumps}, {every}; {each}"))
        }
    }
}

/// Which calls the figures cover, if that differs from the selected time.
fn of_time(selection: &Selection) -> Option<String> {
    let intervals = selection.all_statistics();
    let is_wider = Touched::is_wider(&intervals, &selection.range);
    let text = |range: TimeRange| range.text(&selection.zone);
    match selection.records_because {
        Some(RecordsBecause::ShortTime) => Some(format!(
            "Figures are of recorded calls alone, those at or over the threshold: the selected time is \
             shorter than the interval of the method statistics, {}",
            text(intervals)
        )),
        Some(RecordsBecause::NoStatistics) => Some(
            "Figures are of recorded calls alone, those at or over the threshold: the logs have no method \
             statistics of this time. A JVM writes them after ten seconds, then every minute, when recording \
             stops, and at `tprofiler flush`"
                .to_owned(),
        ),
        None if is_wider && !selection.counts_records() => Some(format!(
            "Method statistics are kept by interval: these are {}, all intervals that the selected time \
             touches. Recorded calls are of the selected time",
            text(intervals)
        )),
        None => None,
    }
}

/// What a reader must know about the figures; `has_methods` if they are of methods, not of single calls.
pub fn notes(
    selection: &Selection,
    counts: &Counts,
    saturated: bool,
    has_methods: bool,
) -> Vec<String> {
    let mut notes: Vec<String> = of_time(selection).filter(|_| has_methods).into_iter().collect();
    if selection.by == By::Thread {
        notes.push(
            "By thread only calls at or over the threshold are counted: shorter ones are not recorded"
                .to_owned(),
        );
    } else if !selection.calls.is_everything() {
        notes.push(
            "With --thread, --exit and --above only calls at or over the threshold are counted: \
             shorter ones are not recorded"
                .to_owned(),
        );
    }
    if selection.calls.selects_by_exit_or_duration() {
        notes.push(
            "--exit and --above select recorded calls; CPU time, waiting, locks, SQL and exceptions are of all calls"
                .to_owned(),
        );
    }
    notes.extend(tprofiler_notes(&counts.tprofiler));
    if counts.records_without_path > 0 {
        let fate = if selection.stacks {
            "are not in call trees; their time is in their callers"
        } else {
            "count in full, recursive or not"
        };
        notes.push(format!(
            "Recorded calls whose call path was not kept {fate}: {}",
            counts.records_without_path
        ));
    }
    if counts.unknown_methods > 0 {
        let fate = if selection.method.is_some() {
            "and cannot be selected"
        } else {
            "and are shown by number"
        };
        notes.push(format!(
            "Methods without a name in their run {fate}: {}",
            counts.unknown_methods
        ));
    }
    if saturated {
        notes.push("A sum exceeds 64 bits and is shown as the largest number".to_owned());
    }
    notes
}

/// Which lock waits, exceptions and SQL statements count, if these are not all.
pub fn event_notes(
    locks: &LockReport,
    exceptions: &ExceptionReport,
    sql: &SqlReport,
    selection: &Selection,
) -> impl Iterator<Item = String> {
    let locks = lock_note(locks, selection);
    let notes = [locks, exception_note(exceptions, selection), sql_note(sql, selection)];
    notes.into_iter().flatten()
}

fn sql_note(sql: &SqlReport, selection: &Selection) -> Option<String> {
    sql.of_slow.then(|| {
        let because = no_statistics(selection);
        format!(
            "SQL statements {because} are those at or over the threshold of the option sql: faster ones are not \
             recorded"
        )
    })
}

fn lock_note(locks: &LockReport, selection: &Selection) -> Option<String> {
    locks.of_recorded.then(|| {
        let because = no_statistics(selection);
        format!(
            "Lock waits {because} are those at or over the threshold of the option lock: shorter ones are not recorded"
        )
    })
}

fn exception_note(exceptions: &ExceptionReport, selection: &Selection) -> Option<String> {
    exceptions.of_examples.then(|| {
        let because = no_statistics(selection);
        format!("Exceptions {because} are the examples: the first of each class and method in an interval")
    })
}

/// Why statistics of lock waits, exceptions and SQL statements do not count.
fn no_statistics(selection: &Selection) -> &'static str {
    match selection.records_because {
        _ if selection.calls.thread.is_some() => "with --thread",
        Some(RecordsBecause::ShortTime) => "in a time shorter than an interval of the statistics",
        Some(RecordsBecause::NoStatistics) | None => "without statistics of this time",
    }
}

/// What the profiler took of the CPU time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeShare {
    /// The share, as in `about 1.8% of CPU`, or of a processor if the process is idle.
    pub short: String,
    /// The same with its parts, as in `about 1.8% of CPU (first 10 s 4.5%, then 0.9%)`.
    pub share: String,
    /// The sentence on it.
    pub note: String,
}

/// The share of the CPU time that probes took, if the logs of these processes have it.
pub fn probe_share(cost: &ProbeCost, jvms: usize) -> Option<ProbeShare> {
    let ProbeCost { probe_ns, cpu_ns, recorded_ns, first_probe_ns, first_cpu_ns, .. } = *cost;
    // Shorter runs hardly have more than their first interval.
    const LONG_NS: u64 = 15_000_000_000;
    if cpu_ns == 0 {
        return None;
    }
    let percent = |probe_ns: u64, cpu_ns: u64| probe_ns as f64 * 100.0 / cpu_ns as f64;
    let share = |probe_ns: u64, cpu_ns: u64| {
        let percent = percent(probe_ns, cpu_ns);
        if percent < 0.1 { "less than 0.1%".to_owned() } else { format!("about {percent:.1}%") }
    };
    let of = if jvms == 1 { "process's" } else { "processes'" };
    let whole = share(probe_ns, cpu_ns);
    let after_ns = cpu_ns.saturating_sub(first_cpu_ns);
    let after_probe_ns = probe_ns.saturating_sub(first_probe_ns);
    let mut note = format!("The profiler took {whole} of the {of} CPU time (an estimate)");
    let mut short = format!("{whole} of CPU");
    let share_of_cpu = short.clone();
    let mut more = String::new();
    // Logs without counters do not say how long they recorded.
    let is_long = recorded_ns == 0 || recorded_ns > LONG_NS * jvms.max(1) as u64;
    if first_cpu_ns > 0 && after_ns > 0 && is_long {
        let [first, after] = [share(first_probe_ns, first_cpu_ns), share(after_probe_ns, after_ns)];
        note += &format!(": {first} in the first ten seconds, {after} after");
        let [first, after] =
            [percent(first_probe_ns, first_cpu_ns), percent(after_probe_ns, after_ns)];
        more = format!(" (first 10 s {first:.1}%, then {after:.1}%)");
    }
    // Of an idle process, next to nothing is a large share.
    if cpu_ns < recorded_ns / 10 && probe_ns > cpu_ns / 20 {
        let [took, used] = [probe_ns, cpu_ns].map(|ns| share(ns, recorded_ns));
        short = format!("{took} of a processor");
        more = format!(", {short}");
        note += &format!("; it took {took} of a processor, the {of} use was {used}");
    }
    Some(ProbeShare { share: format!("{share_of_cpu}{more}"), short, note })
}

/// How much of the processes' CPU time samples cover, if that is little: threads that block the signal, or live for
/// milliseconds, have few. Without the CPU time in the logs, `cpu_ns` is 0.
pub fn coverage(cpu: &CpuReport, cpu_ns: u64, selection: &Selection) -> Option<String> {
    // Fewer say little.
    const LEAST: u64 = 100;
    let share = cpu.total_ns as f64 / cpu_ns.max(1) as f64;
    let is_all = selection.range.is_everything() && selection.calls.thread.is_none();
    (is_all && cpu_ns > 0 && cpu.samples >= LEAST && share < 0.9)
        .then(|| format!("CPU samples cover {:.0}% of the processes' CPU time", share * 100.0))
}

/// That compiled code may lack debug information, if there are CPU samples of such runs.
pub fn late_agents(runs: &[RunInput], cpu: &CpuReport) -> Option<String> {
    let late = runs.iter().filter(|run| run.about.attached).count();
    (late > 0 && cpu.samples > 0).then(|| {
        format!(
            "CPU time of code that was compiled before the agent came may be in the wrong method; runs with an \
             agent that came into a running JVM: {late}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_probes_is_reported_where_it_is_known() {
        let share = |probe_ns, cpu_ns, jvms| {
            probe_share(&ProbeCost { probe_ns, cpu_ns, ..ProbeCost::default() }, jvms)
                .map(|share| share.note)
        };
        assert_eq!(share(18, 0, 1), None);
        for (probe_ns, text) in [
            (0, "The profiler took less than 0.1% of the process's CPU time (an estimate)"),
            (99, "The profiler took less than 0.1% of the process's CPU time (an estimate)"),
            (100, "The profiler took about 0.1% of the process's CPU time (an estimate)"),
            (1_800, "The profiler took about 1.8% of the process's CPU time (an estimate)"),
        ] {
            assert_eq!(share(probe_ns, 100_000, 1).as_deref(), Some(text));
        }
        let both = ProbeCost {
            probe_ns: 1_000,
            cpu_ns: 20_000,
            first_probe_ns: 900,
            first_cpu_ns: 10_000,
            ..ProbeCost::default()
        };
        let text = "The profiler took about 5.0% of the process's CPU time (an estimate): about 9.0% in the first \
                    ten seconds, about 1.0% after";
        let both = probe_share(&both, 1).unwrap();
        assert_eq!(both.note, text);
        assert_eq!(both.share, "about 5.0% of CPU (first 10 s 9.0%, then 1.0%)");
        // Of a process that is nearly idle.
        let cost = ProbeCost { probe_ns: 5, cpu_ns: 20, ..ProbeCost::default() };
        let of = |recorded_ns| probe_share(&ProbeCost { recorded_ns, ..cost.clone() }, 1).unwrap();
        let idle = of(1_000);
        assert_eq!(idle.share, "about 25.0% of CPU, about 0.5% of a processor");
        let text = "The profiler took about 25.0% of the process's CPU time (an estimate); it took about 0.5% of a \
                    processor, the process's use was about 2.0%";
        assert_eq!(idle.note, text);
        assert_eq!(of(199).share, "about 25.0% of CPU");
        let of_two = "The profiler took about 50.0% of the processes' CPU time (an estimate)";
        assert_eq!(share(1, 2, 2).as_deref(), Some(of_two));
    }
}
