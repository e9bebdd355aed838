//! What is missing from the report, as numbers and rows.

use log_format::file_names::utc_text;
use serde::Serialize;

use crate::report::missing::Missing;
use crate::run::cut_short::CutInRun;
use crate::run::losses::Losses;
use crate::run::muted::{MutedInRun, MutedPattern};
use crate::run::postponed::{PostponedClass, PostponedInRun};
use crate::run::throttled::ThrottledInRun;

/// See the module.
#[derive(Serialize)]
pub(crate) struct JsonMissing<'r> {
    unread: &'r [String],
    recorded_calls_dropped: u64,
    lost_calls: u64,
    unseen_ends: u64,
    methods_not_instrumented: u64,
    leaves: u64,
    classes_unreadable: u64,
    io_errors: u64,
    rows_dropped: u64,
    recorded_calls_over_budget: u64,
    deleted_hours: u64,
    muted_methods: u64,
    muted_calls: u64,
    throttled_calls: u64,
    /// These are omitted if the logs do not have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_waits_dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocation_samples_dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_samples_dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exceptions_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception_examples_dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_waits_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_seconds_skipped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slow_sql_dropped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sql_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timers_refused: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probe_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ns: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cut_short: Vec<JsonCut<'r>>,
    raised_thresholds: Vec<RaisedThreshold<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    throttled: Vec<JsonThrottled<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    muted: Vec<JsonMuted<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    classes_postponed: Vec<JsonPostponed<'r>>,
}

#[derive(Serialize)]
struct JsonCut<'r> {
    run: &'r str,
    statistics_to: Option<String>,
    last_recorded_call: Option<String>,
    recorded_calls_gone: u64,
    intervals_without_counters: u64,
}

#[derive(Serialize)]
struct RaisedThreshold<'r> {
    run: &'r str,
    from: String,
    to: Option<String>,
    threshold_ns: u64,
    base_threshold_ns: u64,
}

#[derive(Serialize)]
struct JsonThrottled<'r> {
    run: &'r str,
    method: &'r str,
    from_ns: u64,
    to_ns: Option<u64>,
    times: u64,
    #[serde(rename = "out_ns")]
    throttled_ns: u64,
    calls_per_s: u64,
    mean_ns: Option<u64>,
}

#[derive(Serialize)]
struct JsonMuted<'r> {
    run: &'r str,
    pattern: String,
    from_ns: u64,
    to_ns: Option<u64>,
    times: u64,
    muted_ns: u64,
}

impl<'r> JsonMuted<'r> {
    fn new(MutedInRun { run, muted }: &'r MutedInRun) -> Self {
        let MutedPattern { pattern, from_ns, to_ns, times, muted_ns } = muted;
        let (from_ns, to_ns, times, muted_ns) = (*from_ns, *to_ns, *times, *muted_ns);
        Self { run, pattern: pattern.to_string(), from_ns, to_ns, times, muted_ns }
    }
}

#[derive(Serialize)]
struct JsonPostponed<'r> {
    run: &'r str,
    class: &'r str,
    reason: &'r str,
    from_ns: u64,
    to_ns: Option<u64>,
}

impl<'r> JsonPostponed<'r> {
    fn new(PostponedInRun { run, class }: &'r PostponedInRun) -> Self {
        let PostponedClass { class, reason, from_ns, to_ns } = class;
        Self { run, class, reason, from_ns: *from_ns, to_ns: *to_ns }
    }
}

impl<'r> JsonThrottled<'r> {
    fn new(ThrottledInRun { run, method }: &'r ThrottledInRun) -> Self {
        Self {
            run,
            method: &method.name,
            from_ns: method.from_ns,
            to_ns: method.to_ns,
            times: method.times,
            throttled_ns: method.throttled_ns,
            calls_per_s: method.calls_per_s,
            mean_ns: method.mean_ns,
        }
    }
}

impl<'r> JsonMissing<'r> {
    pub(crate) fn new(missing: &'r Missing) -> Self {
        let Losses { log, statistics, not_instrumented, timers_refused, probe_cost } =
            &missing.losses;
        let raised = missing.raised.iter().flat_map(|run| {
            run.times.iter().map(move |time| RaisedThreshold {
                run: &run.run,
                from: utc_text(time.from_ns),
                to: time.to_ns.map(utc_text),
                threshold_ns: time.highest_ns,
                base_threshold_ns: run.base_ns,
            })
        });
        let cut_short = missing.cut.iter().map(|CutInRun { run, cut }| JsonCut {
            run,
            statistics_to: cut.statistics_end.map(|(end_ns, _)| utc_text(end_ns)),
            last_recorded_call: cut.statistics_end.map(|(_, last_ns)| utc_text(last_ns)),
            recorded_calls_gone: cut.recorded_calls,
            intervals_without_counters: cut.without_counters,
        });
        Self {
            cut_short: cut_short.collect(),
            unread: &missing.unread,
            recorded_calls_dropped: log.recorded_calls_dropped,
            lost_calls: statistics.lost_calls,
            unseen_ends: statistics.unseen_ends,
            methods_not_instrumented: not_instrumented.methods,
            leaves: not_instrumented.leaves,
            classes_unreadable: not_instrumented.classes_unreadable,
            io_errors: log.io_errors,
            rows_dropped: log.rows_dropped,
            recorded_calls_over_budget: log.recorded_calls_over_budget,
            deleted_hours: log.deleted_hours,
            muted_methods: statistics.muted_methods,
            muted_calls: statistics.muted_calls,
            throttled_calls: statistics.throttled_calls,
            allocation_samples_dropped: Some(log.allocation_samples_dropped)
                .filter(|count| *count > 0),
            trace_samples_dropped: Some(log.trace_samples_dropped).filter(|count| *count > 0),
            exceptions_lost: Some(log.exceptions_lost).filter(|count| *count > 0),
            exception_examples_dropped: Some(log.exception_examples_dropped)
                .filter(|count| *count > 0),
            lock_waits_dropped: Some(log.lock_waits_dropped).filter(|count| *count > 0),
            lock_waits_lost: Some(log.lock_waits_lost).filter(|count| *count > 0),
            lock_seconds_skipped: Some(log.lock_seconds_skipped).filter(|count| *count > 0),
            slow_sql_dropped: Some(log.slow_sql_dropped).filter(|count| *count > 0),
            sql_lost: Some(log.sql_lost).filter(|count| *count > 0),
            timers_refused: Some(*timers_refused).filter(|count| *count > 0),
            probe_ns: Some(probe_cost.probe_ns).filter(|ns| *ns > 0 || probe_cost.cpu_ns > 0),
            cpu_ns: Some(probe_cost.cpu_ns).filter(|cpu_ns| *cpu_ns > 0),
            raised_thresholds: raised.collect(),
            throttled: missing.throttled.iter().map(JsonThrottled::new).collect(),
            muted: missing.muted.iter().map(JsonMuted::new).collect(),
            classes_postponed: missing.postponed.iter().map(JsonPostponed::new).collect(),
        }
    }
}
