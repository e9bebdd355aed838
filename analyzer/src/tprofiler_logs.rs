//! Reads the logs that TProfiler itself has written: `tprofiler.log` and `tmethod.log`, also those of
//! days before, `tprofiler.log.2012-01-31`.
//!
//! ```text
//! tprofiler.log   <thread> TAB <depth> TAB <method> TAB <time>     a call over the threshold
//!                 =                                                the end of a period of recording
//! tmethod.log     <method> SPACE <class>:<name>:<line>             the class with slashes
//!                 instrumentclass:<number> instrumentmethod:<number>
//! ```
//!
//! Nothing in them is a moment, so they are in no report of a time or by hour. Times are milliseconds,
//! more than one, or nanoseconds, more than 500,000: a time of 500,000 or less is in milliseconds for
//! certain. Its own analysis also knows a line `##...:true` for nanoseconds, which no release writes.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use log_format::compression::{self, Compression};
use log_format::reader::BadLine;
use log_format::rows::{CallRow as Record, Exit};
use log_format::run::Run;

use crate::aggregate::{Group, Totals};
use crate::input::{RunInput, entries};
use crate::names::{Method, MethodName, PathKind};
use crate::options::By;
use crate::problems::Problems;
use crate::run_data::{RunData, Selection};
use crate::text_lines::TextLines;
use crate::tprofiler_calls::{Call, CallRow, Callers};

const LOG: &str = "tprofiler.log";
const METHODS: &str = "tmethod.log";

/// In nanoseconds, only calls that took longer have a row.
const LEAST_NS: u64 = 500_000;

const NS_PER_MS: u64 = 1_000_000;

/// What times in `tprofiler.log` are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    /// Milliseconds, TProfiler's default
    Ms,
    /// Nanoseconds, with needNanoTime=true
    Ns,
}

/// A `tprofiler.log` to read.
#[derive(Clone, Debug)]
pub struct OldLog {
    path: PathBuf,
    /// The file that names its methods, if there is one.
    methods: Option<PathBuf>,
    /// Its length when it was found.
    len: u64,
}

/// What was read of TProfiler's logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldCounts {
    /// Logs with times in milliseconds.
    pub logs_in_ms: u64,
    /// Logs with times in nanoseconds.
    pub logs_in_ns: u64,
    /// Rows.
    pub calls: u64,
    /// Those whose caller has no row.
    pub without_caller: u64,
}

impl OldCounts {
    /// Adds the counts of other logs.
    pub fn merge(&mut self, other: &Self) {
        self.logs_in_ms = self.logs_in_ms.saturating_add(other.logs_in_ms);
        self.logs_in_ns = self.logs_in_ns.saturating_add(other.logs_in_ns);
        self.calls = self.calls.saturating_add(other.calls);
        self.without_caller = self.without_caller.saturating_add(other.without_caller);
    }

    /// Number of logs.
    #[must_use]
    pub fn logs(&self) -> u64 {
        self.logs_in_ms.saturating_add(self.logs_in_ns)
    }
}

/// Finds TProfiler's logs in `paths`: files, or folders with such files in them or in their folders.
/// What is left of `paths` is to be searched for runs.
pub fn discover(paths: &[PathBuf], problems: &mut Problems) -> (Vec<OldLog>, Vec<PathBuf>) {
    let (mut logs, mut methods, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        if path.is_dir() {
            logs.extend(logs_in(path));
            rest.push(path.clone());
        } else if path.exists() && suffix(path, LOG).is_some() {
            logs.push(path.clone());
        } else if path.exists() && suffix(path, METHODS).is_some() {
            methods.push(path.clone());
        } else {
            rest.push(path.clone());
        }
    }
    let mut seen = HashSet::new();
    logs.retain(|log| seen.insert(fs::canonicalize(log).unwrap_or_else(|_| log.clone())));
    let mut found: Vec<OldLog> = Vec::new();
    for path in logs {
        match fs::metadata(&path) {
            Ok(metadata) => {
                let methods = methods_of(&path).or_else(|| methods.first().cloned());
                found.push(OldLog { path, methods, len: metadata.len() });
            }
            Err(error) => problems.unread(&path, error),
        }
    }
    if found.is_empty() {
        for path in methods {
            problems.warn(&path, "names methods, but there is no tprofiler.log, ignored");
        }
    }
    (found, rest)
}

/// The logs in a folder and in its folders, sorted.
#[must_use]
pub fn logs_in(folder: &Path) -> Vec<PathBuf> {
    // What cannot be read is told by the search for runs.
    let inside = |folder: &Path| entries(folder).unwrap_or_default();
    let is_log = |path: &PathBuf| suffix(path, LOG).is_some() && path.is_file();
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) =
        inside(folder).into_iter().partition(|path| path.is_dir());
    let below = folders.iter().flat_map(|folder| inside(folder));
    files.into_iter().chain(below).filter(is_log).collect()
}

/// What follows a file's name: nothing, or the day that it is of, `.2012-01-31`.
fn suffix(path: &Path, name: &str) -> Option<String> {
    let (_, plain) = Compression::of_name(path.file_name()?.to_str()?);
    let day = plain.strip_prefix(name)?;
    let is_day = |day: &str| {
        day.len() == 10 && day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    (day.is_empty() || day.strip_prefix('.').is_some_and(is_day)).then(|| day.to_owned())
}

/// The file that names the methods of a log: that of its day, or else the one without a day.
fn methods_of(log: &Path) -> Option<PathBuf> {
    let folder = log.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let day = suffix(log, LOG)?;
    let files = entries(folder).ok()?;
    let of_day = |day: &str| {
        let found = files.iter().find(|path| suffix(path, METHODS).is_some_and(|d| d == day));
        found.cloned()
    };
    of_day(&day).or_else(|| of_day(""))
}

/// The logs as runs without files, the first of which is numbered after `runs` others.
#[must_use]
pub fn as_runs(logs: &[OldLog]) -> Vec<RunInput> {
    let run = |(number, log): (u32, &OldLog)| {
        let folder = log.path.parent().map(Path::to_owned).unwrap_or_default();
        RunInput {
            label: log.path.display().to_string(),
            missing: if log.methods.is_none() { vec![folder.join(METHODS)] } else { Vec::new() },
            folder,
            // Nothing in it tells the process: each is taken for one of its own.
            about: Run { pid: number, ..Run::default() },
            files: Vec::new(),
        }
    };
    (1..).zip(logs).map(run).collect()
}

/// Reads a log, which stands at `place` in the list of runs.
pub fn read(
    log: &OldLog,
    place: usize,
    selection: &Selection,
    unit: Option<Unit>,
    problems: &mut Problems,
) -> RunData {
    let group: Box<dyn Fn(u32) -> Group> = match selection.by {
        By::Nothing => Box::new(|_| Group::All),
        By::Run => Box::new(move |_| Group::Run(place)),
        By::Thread => Box::new(move |thread| Group::Thread(place, thread)),
        By::Hour => {
            problems.unread(&log.path, "TProfiler's logs have no times, left out of hours");
            return RunData::default();
        }
    };
    if !selection.range.is_everything() {
        problems.unread(&log.path, "TProfiler's logs have no times, left out of --from and --to");
        return RunData::default();
    }
    let names = match &log.methods {
        Some(path) => read_names(path, problems),
        None => {
            problems.warn(&log.path, "no tmethod.log beside it, its methods are shown by number");
            HashMap::new()
        }
    };
    let mut reader = LogReader {
        label: Arc::from(log.path.display().to_string()),
        names,
        selection,
        group,
        unit: Unit::Ms,
        callers: Callers::default(),
        totals: Totals::default(),
        unknown: HashSet::new(),
        too_short: 0,
        data: RunData::default(),
    };
    if let Err(error) = reader.read(log, unit, problems) {
        problems.unread(&log.path, error);
    }
    reader.finish()
}

struct LogReader<'s> {
    label: Arc<str>,
    names: HashMap<u32, Arc<MethodName>>,
    selection: &'s Selection,
    group: Box<dyn Fn(u32) -> Group>,
    unit: Unit,
    callers: Callers,
    totals: Totals<u32>,
    unknown: HashSet<u32>,
    /// Times that cannot be what they are taken for.
    too_short: u64,
    data: RunData,
}

impl LogReader<'_> {
    fn read(
        &mut self,
        log: &OldLog,
        unit: Option<Unit>,
        problems: &mut Problems,
    ) -> io::Result<()> {
        self.unit = match unit {
            Some(unit) => unit,
            None => find_unit(log, problems)?,
        };
        let mut thread = None;
        let mut lines = open(&log.path, log.len)?;
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
                    let reason = reason.to_owned();
                    problems.bad_line(&log.path, &BadLine { line: lines.number(), reason });
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
                &log.path,
                format!(
                    "taken for nanoseconds, but TProfiler writes none under 500001: {times} rows"
                ),
            );
        }
        Ok(())
    }

    fn in_ns(&mut self, row: CallRow) -> Result<CallRow, &'static str> {
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

    fn add(&mut self, thread: u32, row: CallRow) {
        let mut ended = Vec::new();
        self.callers.add(row, |call| ended.push(call));
        for call in ended {
            self.count(thread, call);
        }
    }

    /// No call of a thread goes on in another period.
    fn end_thread(&mut self, thread: Option<u32>) {
        let mut ended = Vec::new();
        self.callers.finish(|call| ended.push(call));
        for call in ended {
            self.count(thread.unwrap_or_default(), call);
        }
    }

    fn count(&mut self, thread: u32, call: Call) {
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
            stack: 0,
            method: call.method,
            total_ns: call.total_ns,
            self_ns: call.self_ns,
            exit: Exit::Return,
        };
        self.totals.of((self.group)(thread), call.method).add_record(&record, path);
    }

    fn finish(mut self) -> RunData {
        let (names, label) = (&self.names, &self.label);
        self.data.totals.merge(self.totals, |id| match names.get(&id) {
            Some(name) => Method::Named(Arc::clone(name)),
            None => Method::Unknown { run: Arc::clone(label), id },
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

fn open(path: &Path, len: u64) -> io::Result<TextLines<BufReader<impl Read>>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let len = if Compression::of_name(&name).0 == Compression::Off { len } else { u64::MAX };
    Ok(TextLines::new(BufReader::with_capacity(1 << 16, compression::open(path)?.take(len))))
}

/// What the times of a log are in, going by what is in it.
fn find_unit(log: &OldLog, problems: &mut Problems) -> io::Result<Unit> {
    let mut lines = open(&log.path, log.len)?;
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
        &log.path,
        "all times are over 500000 and taken for nanoseconds; --tprofiler-unit says otherwise",
    );
    Ok(Unit::Ns)
}

/// What a line of `tprofiler.log` is.
enum Line {
    /// A call in a thread. Its time is in the log's unit.
    Call(u32, CallRow),
    /// The end of a period.
    End,
    /// What times are in.
    Unit(Unit),
}

fn parse_row(line: &str) -> Result<Line, &'static str> {
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
        return Err("more than four fields");
    }
    let parsed = (|| {
        let (thread, method) = (thread?.parse().ok()?, method?.parse().ok()?);
        let row = CallRow { depth: depth?.parse().ok()?, method, total_ns: time?.parse().ok()? };
        Some(Line::Call(thread, row))
    })();
    parsed.ok_or("not thread, depth, method and time")
}

/// A method of `tmethod.log`: class, name, and the line that TProfiler saw last of it.
type NameRow = (String, String, u64);

/// Names by number. TProfiler writes no descriptors: where several methods of a class have one name,
/// their lines tell them apart.
fn read_names(path: &Path, problems: &mut Problems) -> HashMap<u32, Arc<MethodName>> {
    let mut rows = HashMap::new();
    if let Err(error) = read_name_rows(path, &mut rows, problems) {
        problems.unread(path, error);
    }
    let mut first_lines: HashMap<(&str, &str), (u64, bool)> = HashMap::new();
    for (class, name, line) in rows.values() {
        let (first, are_several) = first_lines.entry((class, name)).or_insert((*line, false));
        *are_several |= *first != *line;
    }
    let is_overloaded =
        |class, name| first_lines.get(&(class, name)).is_some_and(|(_, are_several)| *are_several);
    rows.iter()
        .map(|(id, (class, name, line))| {
            let descriptor =
                if is_overloaded(class, name) { format!(":{line}") } else { String::new() };
            let name = MethodName { class: class.clone(), method: name.clone(), descriptor };
            (*id, Arc::new(name))
        })
        .collect()
}

fn read_name_rows(
    path: &Path,
    rows: &mut HashMap<u32, NameRow>,
    problems: &mut Problems,
) -> io::Result<()> {
    let mut lines = open(path, u64::MAX)?;
    while let Some(line) = lines.next_line()? {
        let refused = match line.and_then(parse_name) {
            Ok(None) => None,
            Ok(Some((id, row))) => match rows.get_mut(&id) {
                None => {
                    rows.insert(id, row);
                    None
                }
                Some(known) if (&known.0, &known.1) == (&row.0, &row.1) => {
                    // It may have been written while its class was still being read.
                    known.2 = row.2;
                    None
                }
                Some(_) => Some(format!("method {id} was another one before")),
            },
            Err(reason) => Some(reason.to_owned()),
        };
        if let Some(reason) = refused {
            problems.bad_line(path, &BadLine { line: lines.number(), reason });
        }
    }
    if lines.is_torn() {
        problems.torn_line();
    }
    Ok(())
}

/// A line of `tmethod.log`; `None` if it names nothing.
fn parse_name(line: &str) -> Result<Option<(u32, NameRow)>, &'static str> {
    if line.starts_with("instrumentclass:") {
        return Ok(None);
    }
    let parsed = (|| {
        let (id, rest) = line.split_once(' ')?;
        let (class, rest) = rest.split_once(':')?;
        let (name, line) = rest.rsplit_once(':')?;
        let row = (class.replace('/', "."), name.to_owned(), line.parse().ok()?);
        (!class.is_empty() && !name.is_empty()).then_some((id.parse().ok()?, row))
    })();
    let (id, row) = parsed.ok_or("not number, class, method and line")?;
    // A number that was given away before its method was known.
    let is_named = (row.0.as_str(), row.1.as_str()) != ("null", "null");
    Ok(is_named.then_some((id, row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names() {
        for (file, day) in [
            ("tprofiler.log", Some("")),
            ("a/tprofiler.log.2012-01-31", Some(".2012-01-31")),
            ("tprofiler.log.2012-01-31.gz", Some(".2012-01-31")),
            ("tprofiler.log.old", None),
            ("tprofiler.logs", None),
            ("mytprofiler.log", None),
            ("tmethod.log", None),
        ] {
            assert_eq!(suffix(Path::new(file), LOG).as_deref(), day, "{file}");
        }
    }

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

    #[test]
    fn names_have_a_class_a_method_and_a_line() {
        let row = |class: &str, name: &str, line| (class.to_owned(), name.to_owned(), line);
        assert_eq!(parse_name("7 a/B:<init>:42"), Ok(Some((7, row("a.B", "<init>", 42)))));
        assert_eq!(parse_name("7 a/B:is it:not:42"), Ok(Some((7, row("a.B", "is it:not", 42)))));
        assert_eq!(parse_name("7 null:null:0"), Ok(None));
        assert_eq!(parse_name("instrumentclass:3 instrumentmethod:9"), Ok(None));
        for line in ["", "7", "7 a/B", "7 a/B:m", "7 a/B:m:x", "x a/B:m:1", "7 ::1"] {
            assert!(parse_name(line).is_err(), "{line}");
        }
    }
}
