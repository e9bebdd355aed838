//! Reads logs that TProfiler itself has written: `tprofiler.log`, `tmethod.log` and `tsampler.log` ([`SamplerLine`]),
//! including those of earlier days, `tprofiler.log.2012-01-31`.
//!
//! ```text
//! tprofiler.log   <thread> TAB <depth> TAB <method> TAB <time>     a call over the threshold
//!                 =                                                the end of a period of recording
//! tmethod.log     <method> SPACE <class>:<name>:<line>             the class with slashes
//!                 instrumentclass:<number> instrumentmethod:<number>
//! ```
//!
//! Calls have no moments, and the dates of dumps no clear zone, so reports by time range or by hour do not use them.
//! Times are milliseconds above one, or nanoseconds above 500,000: a time of 500,000 or less is certainly in
//! milliseconds. TProfiler's analysis also knows a line `##...:true` for nanoseconds, which no release writes.

mod calls;
mod dump_times;
mod dumps;
mod files;
mod sampler_line;
mod times_of_day;
mod tmethod_log;

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

pub use dumps::{DumpsRead, look_at_dumped, read_dumps};
pub use files::{OldLog, as_runs, discover, exports_in, is_export, logs_in};
use log_format::ids::{MethodId, StackId, ThreadId};
use log_format::reader::{BadLine, BadRow};
use log_format::rows::{CallRow as Record, Exit};
pub use sampler_line::{EXPORT_MARK, SamplerLine, ThreadLine};

use self::calls::{Call, CallRow, Callers};
use self::files::{LogFile, open};
use self::times_of_day::not_part_of;
use crate::input::problems::Problems;
use crate::options::Unit;
use crate::run::data::RunData;
use crate::run::nearest_names::Nearest;
use crate::run::selection::Selection;
use crate::stats::aggregate::Totals;
use crate::stats::method::{Method, MethodName, PathKind};
use crate::stats::sketch::Sketches;

/// In nanoseconds, only longer calls have a row.
const LEAST_NS: u64 = 500_000;

const NS_PER_MS: u64 = 1_000_000;

/// Skips a log in a report that it has no data for.
pub fn leave_out(log: &OldLog, of: &str, problems: &mut Problems) -> RunData {
    problems.unread(log.path(), format!("TProfiler's logs are not part {of}"));
    RunData::default()
}

/// The names of a log's methods.
pub fn method_names(log: &OldLog, problems: &mut Problems) -> HashMap<MethodId, Arc<MethodName>> {
    log.methods.as_ref().map_or_else(HashMap::new, |path| tmethod_log::read(path, problems))
}

/// Reads the calls of a log, at index `place` in the list of runs.
pub fn read(
    log: &OldLog,
    place: usize,
    selection: &Selection,
    unit: Option<Unit>,
    problems: &mut Problems,
) -> RunData {
    let mut data = match &log.calls {
        Some(file) => read_calls(file, log, place, selection, unit, problems),
        None => RunData::default(),
    };
    data.counts.tprofiler.dump_logs = u64::from(log.dumps.is_some());
    data
}

fn read_calls(
    file: &LogFile,
    log: &OldLog,
    place: usize,
    selection: &Selection,
    unit: Option<Unit>,
    problems: &mut Problems,
) -> RunData {
    if selection.calls.thread.is_some() || selection.calls.exit.is_some() {
        return leave_out(log, "of --thread and --exit: they do not tell", problems);
    }
    if let Some(reason) = not_part_of(selection) {
        problems.unread(&file.path, reason);
        return RunData::default();
    }
    let names = match &log.methods {
        Some(path) => tmethod_log::read(path, problems),
        None => {
            problems.warn(&file.path, "no tmethod.log beside it, its methods are shown by number");
            HashMap::new()
        }
    };
    let mut reader = LogReader {
        label: Arc::from(file.path.display().to_string()),
        names,
        place,
        selection,
        unit: Unit::Ms,
        callers: Callers::default(),
        totals: Totals::default(),
        sketches: Sketches::default(),
        unknown: HashSet::new(),
        too_short: 0,
        data: RunData::default(),
    };
    if let Err(error) = reader.read(file, unit, problems) {
        problems.unread(&file.path, error);
    }
    reader.finish()
}

struct LogReader<'s> {
    label: Arc<str>,
    names: HashMap<MethodId, Arc<MethodName>>,
    place: usize,
    selection: &'s Selection,
    unit: Unit,
    callers: Callers,
    totals: Totals<MethodId>,
    sketches: Sketches,
    unknown: HashSet<MethodId>,
    /// Times that are too short for the assumed unit.
    too_short: u64,
    data: RunData,
}

impl LogReader<'_> {
    fn read(
        &mut self,
        file: &LogFile,
        unit: Option<Unit>,
        problems: &mut Problems,
    ) -> io::Result<()> {
        self.unit = match unit {
            Some(unit) => unit,
            None => find_unit(file, problems)?,
        };
        let mut thread = None;
        let mut lines = open(&file.path, file.len)?;
        while let Some(line) = lines.next_line()? {
            let row = match line.and_then(parse_row) {
                Ok(Line::Call(of_thread, row)) => self.in_ns(row).map(|row| Some((of_thread, row))),
                Ok(Line::End | Line::Unit(_)) => Ok(None),
                Err(reason) => Err(reason),
            };
            match row {
                Ok(row) => {
                    let of_thread = row.map(|(thread, _)| thread);
                    if thread != of_thread {
                        self.end_thread(thread);
                        thread = of_thread;
                    }
                    if let Some((thread, row)) = row {
                        self.add(thread, row);
                    }
                }
                Err(reason) => {
                    problems.bad_line(&file.path, &BadLine { line: lines.number(), reason });
                }
            }
        }
        self.end_thread(thread);
        if lines.is_torn() {
            problems.torn_line();
        }
        if self.too_short > 0 {
            let times = self.too_short;
            problems.warn(
                &file.path,
                format!(
                    "taken for nanoseconds, but TProfiler writes none under 500001: {times} rows"
                ),
            );
        }
        Ok(())
    }

    fn in_ns(&mut self, row: CallRow) -> Result<CallRow, BadRow> {
        match self.unit {
            Unit::Ns => {
                self.too_short += u64::from(row.total_ns <= LEAST_NS);
                Ok(row)
            }
            Unit::Ms => {
                let total_ns = row.total_ns.checked_mul(NS_PER_MS).ok_or("longer than any call")?;
                Ok(CallRow { total_ns, ..row })
            }
        }
    }

    fn add(&mut self, thread: ThreadId, row: CallRow) {
        let mut callers = std::mem::take(&mut self.callers);
        callers.add(row, |call| self.count(thread, call));
        self.callers = callers;
    }

    /// No call of a thread continues in another period.
    fn end_thread(&mut self, thread: Option<ThreadId>) {
        let mut callers = std::mem::take(&mut self.callers);
        callers.finish(|call| self.count(thread.unwrap_or_default(), call));
        self.callers = callers;
    }

    fn count(&mut self, thread: ThreadId, call: Call) {
        let counts = &mut self.data.counts;
        counts.records = counts.records.saturating_add(1);
        counts.rows_in_range = counts.rows_in_range.saturating_add(1);
        counts.tprofiler.calls = counts.tprofiler.calls.saturating_add(1);
        let without = u64::from(call.lacks_caller);
        counts.tprofiler.without_caller = counts.tprofiler.without_caller.saturating_add(without);
        let name = self.names.get(&call.method);
        if name.is_none() {
            self.unknown.insert(call.method);
        }
        let pattern = self.selection.method.as_ref();
        if !pattern.is_none_or(|p| name.is_some_and(|name| p.method(&name.class, &name.method))) {
            return;
        }
        let path = if call.is_recursive { PathKind::Recursive } else { PathKind::Outermost };
        let record = Record {
            start_ns: 0,
            thread,
            stack: StackId::NONE,
            method: call.method,
            total_ns: call.total_ns,
            self_ns: call.self_ns,
            exit: Exit::Return,
            allocated_bytes: None,
        };
        if !self.selection.calls.takes(&record) {
            return;
        }
        self.totals
            .of(self.selection.group(self.place, 0, thread), &call.method)
            .add_record(&record, path);
        if self.selection.sketches {
            self.sketches.add(call.method, record.total_ns);
        }
    }

    fn finish(mut self) -> RunData {
        let all_names = || self.names.values().map(Arc::as_ref);
        self.data.names.nearest = self.selection.method.as_ref().and_then(|pattern| {
            let is_named = |name: &MethodName| pattern.method(&name.class, &name.method);
            let is_any_named = all_names().any(is_named);
            (!is_any_named).then(|| Nearest::to(pattern.as_str(), all_names()))
        });
        for (id, durations) in self.sketches.into_methods() {
            self.totals.add_durations_of(&id, durations, false);
        }
        let (names, label) = (&self.names, &self.label);
        self.data.totals = self.totals.named(|id| match names.get(id) {
            Some(name) => Method::Named(Arc::clone(name)),
            None => Method::Unknown { run: Arc::clone(label), id: *id },
        });
        let counts = &mut self.data.counts;
        counts.unknown_methods = u64::try_from(self.unknown.len()).unwrap_or(u64::MAX);
        match self.unit {
            Unit::Ms => counts.tprofiler.logs_in_ms = 1,
            Unit::Ns => counts.tprofiler.logs_in_ns = 1,
        }
        self.data
    }
}

/// The unit of a log's times, detected from its content.
fn find_unit(file: &LogFile, problems: &mut Problems) -> io::Result<Unit> {
    let mut lines = open(&file.path, file.len)?;
    let mut has_calls = false;
    while let Some(line) = lines.next_line()? {
        match line.and_then(parse_row) {
            Ok(Line::Unit(unit)) => return Ok(unit),
            Ok(Line::Call(_, row)) if row.total_ns <= LEAST_NS => return Ok(Unit::Ms),
            Ok(Line::Call(..)) => has_calls = true,
            Ok(Line::End) | Err(_) => {}
        }
    }
    if !has_calls {
        return Ok(Unit::Ms);
    }
    problems.warn(
        &file.path,
        "all times are over 500000 and taken for nanoseconds; --tprofiler-unit says otherwise",
    );
    Ok(Unit::Ns)
}

/// The kinds of lines in `tprofiler.log`.
enum Line {
    /// A call in a thread. Its time is in the log's unit.
    Call(ThreadId, CallRow),
    /// The end of a period.
    End,
    /// The unit of times.
    Unit(Unit),
}

fn parse_row(line: &str) -> Result<Line, BadRow> {
    if line == "=" {
        return Ok(Line::End);
    }
    if let Some((_, is_ns)) = line.strip_prefix("##").and_then(|text| text.split_once(':')) {
        return Ok(Line::Unit(if is_ns == "true" { Unit::Ns } else { Unit::Ms }));
    }
    let mut fields = line.split('\t');
    let mut next = || fields.next().filter(|f| f.bytes().all(|b| b.is_ascii_digit()));
    let (thread, depth, method, time) = (next(), next(), next(), next());
    if fields.next().is_some() {
        return Err("more than four fields".into());
    }
    let parsed = (|| {
        let thread = ThreadId::new(thread?.parse().ok()?);
        let method = MethodId::new(method?.parse().ok()?);
        let row = CallRow { depth: depth?.parse().ok()?, method, total_ns: time?.parse().ok()? };
        Some(Line::Call(thread, row))
    })();
    parsed.ok_or(BadRow::Text("not thread, depth, method and time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_four_numbers() {
        let is_call = |line| matches!(parse_row(line), Ok(Line::Call(..)));
        assert!(is_call("12\t0\t7\t345"));
        for line in ["", "12\t0\t7", "12\t0\t7\t", "12\t0\t7\t3\t4", "12\t-1\t7\t3", "a\tb\tc\td"] {
            assert!(parse_row(line).is_err(), "{line}");
        }
        assert!(matches!(parse_row("="), Ok(Line::End)));
        assert!(matches!(parse_row("##nano:true"), Ok(Line::Unit(Unit::Ns))));
    }
}
