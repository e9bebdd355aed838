//! Sentences about what a report lacks, for every form of it.

use super::human::{duration, plural, separated};
use crate::report::{LeftOut, RaisedInRun, Report};
use crate::zone::Zone;

/// Times of a raised threshold that are told of each run.
const TIMES_SHOWN: usize = 3;

/// What is not in the report; empty if nothing is.
pub fn left_out(left_out: &LeftOut, zone: &Zone) -> Vec<String> {
    let losses = &left_out.losses;
    let unread = u64::try_from(left_out.unread.len()).unwrap_or(u64::MAX);
    let counted = [
        (unread, "part of the logs could not be read", "parts of the logs could not be read"),
        (
            losses.dropped_records,
            "record dropped: its thread's ring was full; the totals have the call",
            "records dropped: their thread's ring was full; the totals have the calls",
        ),
        (
            losses.lost_calls,
            "call not counted: no memory for its totals, or a probe not the agent's",
            "calls not counted: no memory for their totals, or probes not the agent's",
        ),
        (
            losses.unseen_ends,
            "call is counted as one that threw: no probe saw its end",
            "calls are counted as ones that threw: no probe saw their end",
        ),
        (
            losses.muted_methods,
            "method was muted for some time, and its calls not counted meanwhile",
            "methods were muted for some time, and their calls not counted meanwhile",
        ),
        (
            losses.muted_calls,
            "call not counted: it was in progress when its method was muted or unmuted",
            "calls not counted: they were in progress when their method was muted or unmuted",
        ),
        (
            losses.methods_skipped,
            "selected method was not measured: it could not get probes",
            "selected methods were not measured: they could not get probes",
        ),
        (
            losses.leaves,
            "method without calls and loops was not measured (leaves=skip); its time is its \
             callers' own",
            "methods without calls and loops were not measured (leaves=skip); their time is their \
             callers' own",
        ),
        (
            losses.classes_unreadable,
            "selected class was not measured: it could not be read",
            "selected classes were not measured: they could not be read",
        ),
        (
            losses.cut_records,
            "record left out, to stay within the hour's budget; the totals have the call",
            "records left out, to stay within the hour's budget; the totals have the calls, and \
             the slowest of each half second have records",
        ),
        (
            losses.deleted_hours,
            "hour of the log was deleted, by the options keep and max_mb",
            "hours of the log were deleted, by the options keep and max_mb",
        ),
        (
            losses.lost_rows,
            "row of the log was given up: the disk did not take it",
            "rows of the log were given up: the disk did not take them",
        ),
        (
            losses.io_errors,
            "write of the log failed, and was tried again",
            "writes of the log failed, and were tried again",
        ),
    ];
    let mut lines: Vec<String> = counted
        .into_iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, one, many)| plural(number, one, many))
        .collect();
    for run in &left_out.raised {
        raised(run, zone, &mut lines);
    }
    lines
}

fn raised(run: &RaisedInRun, zone: &Zone, lines: &mut Vec<String>) {
    for time in run.times.iter().take(TIMES_SHOWN) {
        let until = time.to_ns.map_or_else(|| "the end".to_owned(), |ns| zone.text(ns));
        lines.push(format!(
            "calls under {} have no record from {} to {until} in run {}: the threshold was raised \
             from {}; the totals have the calls",
            duration(time.highest_ns),
            zone.text(time.from_ns),
            run.run,
            duration(run.base_ns),
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

/// Everything that the rows of methods do not say.
pub fn all(report: &Report) -> Vec<String> {
    let mut lines: Vec<String> = report.empty.iter().cloned().collect();
    lines.extend(
        left_out(&report.left_out, &report.zone)
            .into_iter()
            .map(|line| format!("left out: {line}")),
    );
    lines.extend(report.notes.iter().cloned());
    let open = report.open.len().saturating_add(report.open_not_shown);
    if open > 0 && !report.open_counted {
        let calls = if open == 1 { "call was" } else { "calls were" };
        lines.push(format!("{} {calls} still open and not counted", separated(open as u128)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::losses::{Losses, Raised};

    #[test]
    fn only_what_was_lost_is_said() {
        assert_eq!(left_out(&LeftOut::default(), &Zone::default()), Vec::<String>::new());
        let losses = Losses { dropped_records: 1_200, io_errors: 1, ..Losses::default() };
        assert_eq!(
            left_out(&LeftOut { losses, ..LeftOut::default() }, &Zone::default()),
            [
                "1,200 records dropped: their thread's ring was full; the totals have the calls",
                "1 write of the log failed, and was tried again",
            ]
        );
    }

    #[test]
    fn raised_thresholds_are_told_up_to_a_number() {
        let time = |to_ns| Raised { from_ns: 60_000_000_000, to_ns, highest_ns: 4_000_000 };
        let times = vec![time(Some(120_000_000_000)), time(None), time(None), time(None)];
        let raised = vec![RaisedInRun { run: "r".into(), base_ns: 1_000_000, times }];
        let lines = left_out(&LeftOut { raised, ..LeftOut::default() }, &Zone::default());
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[0],
            "calls under 4.00 ms have no record from 1970-01-01T00:01:00Z to 1970-01-01T00:02:00Z \
             in run r: the threshold was raised from 1.00 ms; the totals have the calls"
        );
        assert!(lines[1].contains(" to the end in run r: "), "{}", lines[1]);
        assert_eq!(lines[3], "the threshold was raised 1 more time in run r");
    }
}
