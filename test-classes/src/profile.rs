//! Reads a run's logs into maps that tests can compare. Panics on anything unusual in the logs.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::fs;
use std::path::{Path, PathBuf};

use log_format::compression::Compression;
use log_format::file_names::parse_file_name;
use log_format::ids::{MethodId, StackId, ThreadId};
use log_format::reader::{Line, TableReader};
use log_format::rows::{
    CallRow, CounterRow, EventRow, Exit, MethodRow, Row, StackRow, StatsRow, ThreadRow, counter,
    event,
};
use log_format::run::Run;

/// `class method descriptor`, with spaces between.
pub type MethodName = String;

/// Counts of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counts {
    pub calls: u64,
    pub throws: u64,
}

/// A recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Record {
    pub method: MethodName,
    /// Methods from the outermost to this one.
    pub path: Vec<MethodName>,
    pub thread: String,
    pub thread_id: ThreadId,
    pub start_ns: u64,
    pub total_ns: u64,
    pub self_ns: u64,
    pub exit: Exit,
}

/// What one run recorded.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The run's folder.
    pub folder: PathBuf,
    /// Its `run.json`.
    pub run: Run,
    /// Counts of methods that were called.
    pub counts: BTreeMap<MethodName, Counts>,
    /// Total and self time of each, in nanoseconds.
    pub times: BTreeMap<MethodName, (u64, u64)>,
    /// The rows of each interval of the method statistics, in the order of the file.
    pub intervals: Vec<(MethodName, StatsRow)>,
    /// Calls in the histogram of each method: all except those deeper than the shadow stack.
    pub in_histograms: BTreeMap<MethodName, u64>,
    /// Recorded calls, in the order of the file.
    pub records: Vec<Record>,
    /// Sums of counters.
    pub counters: BTreeMap<String, u64>,
    /// The same rows, of which the last is the value of a gauge.
    pub gauges: BTreeMap<String, u64>,
    /// Events, in the order of the file.
    pub events: Vec<EventRow>,
    /// Methods by id.
    pub methods: BTreeMap<MethodId, MethodName>,
    /// Named threads, by id.
    pub threads: BTreeMap<ThreadId, ThreadRow>,
}

impl Profile {
    /// Reads the only run in a log folder. It must have ended, and none of its calls may be deeper than the shadow
    /// stack: such calls are in no histogram.
    ///
    /// # Panics
    /// If there is not exactly one run, if its logs are not flawless, or if a method's histogram
    /// does not have all of its calls.
    pub fn only_run(logs: &Path) -> Self {
        let runs = Self::runs(logs);
        assert_eq!(runs.len(), 1, "runs in {}", logs.display());
        let profile = Self::read(&runs[0]);
        for (name, counts) in &profile.counts {
            let in_histogram = profile.in_histograms.get(name).copied().unwrap_or_default();
            assert_eq!(in_histogram, counts.calls, "calls in the histogram of {name}");
        }
        profile
    }

    /// The folders of the runs in a log folder.
    pub fn runs(logs: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(logs).unwrap_or_else(|e| panic!("{}: {e}", logs.display()));
        let mut runs: Vec<PathBuf> = entries.map(|entry| entry.expect("a run").path()).collect();
        runs.sort();
        runs
    }

    /// Reads one run.
    ///
    /// # Panics
    /// If its logs are not flawless.
    pub fn read(run: &Path) -> Self {
        let described = Run::read(run).expect("a run.json");
        let mut profile = Self { folder: run.to_owned(), run: described, ..Self::default() };
        let methods = methods(run);
        let stacks: BTreeMap<StackId, StackRow> =
            rows::<StackRow>(run).into_iter().map(|row| (row.id, row)).collect();
        profile.threads = rows::<ThreadRow>(run).into_iter().map(|row| (row.id, row)).collect();
        for row in rows::<StatsRow>(run) {
            let name = methods.get(&row.method).expect("a method has a name");
            let counts = profile.counts.entry(name.clone()).or_default();
            counts.calls += row.calls;
            counts.throws += row.throws;
            *profile.in_histograms.entry(name.clone()).or_default() += row.hist.count();
            let times = profile.times.entry(name.clone()).or_default();
            times.0 += row.total_ns;
            times.1 += row.self_ns;
            profile.intervals.push((name.clone(), row));
        }
        for row in rows::<CallRow>(run) {
            let mut path = Vec::new();
            let mut next = row.stack;
            while let Some(stack) = stacks.get(&next) {
                path.push(methods.get(&stack.method).cloned().unwrap_or_default());
                next = stack.parent;
            }
            path.reverse();
            let thread = profile.threads.get(&row.thread).expect("a thread has a name");
            profile.records.push(Record {
                method: methods.get(&row.method).expect("a method has a name").clone(),
                path,
                thread: thread.name.clone(),
                thread_id: row.thread,
                start_ns: row.start_ns,
                total_ns: row.total_ns,
                self_ns: row.self_ns,
                exit: row.exit,
            });
        }
        profile.methods = methods;
        for row in rows::<CounterRow>(run) {
            profile.gauges.insert(row.name.clone(), row.value);
            *profile.counters.entry(row.name).or_default() += row.value;
        }
        profile.events = rows(run);
        profile
    }

    /// Whether the log has a method as throttled for some time.
    pub fn is_throttled(&self, name: &str) -> bool {
        let mut words = name.split(' ');
        let (class, method) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let descriptor = words.next().unwrap_or_default();
        let method = format!("{class}.{method}{descriptor}");
        self.events(event::THROTTLED).any(|row| row.method == method)
    }

    /// Asserts that all counts equal the truth, or at most the truth for methods that were throttled, and that
    /// nothing was lost.
    ///
    /// # Panics
    /// If that does not hold.
    pub fn expect_truth(&self, truth: &BTreeMap<MethodName, Counts>, what: impl Display) {
        let mut differences = String::new();
        for name in truth.keys().chain(self.counts.keys()) {
            let (expected, found) = (truth.get(name), self.counts.get(name));
            let is_less = || {
                let none = Counts::default();
                let (expected, found) = (expected.unwrap_or(&none), found.unwrap_or(&none));
                found.calls <= expected.calls && found.throws <= expected.throws
            };
            if expected != found && !(self.is_throttled(name) && is_less()) {
                let _ = writeln!(differences, "{name}: truth {expected:?}, profile {found:?}");
            }
        }
        assert!(differences.is_empty(), "{what}\n{differences}");
        for lost in [
            counter::LOST_CALLS,
            counter::UNSEEN_ENDS,
            counter::NOT_INSTRUMENTED,
            counter::UNREADABLE,
        ] {
            assert_eq!(self.counter(lost), 0, "{what}: {lost}");
        }
    }

    /// The events with this name. Each hour's files repeat some.
    pub fn events<'p>(&'p self, event: &'p str) -> impl Iterator<Item = &'p EventRow> {
        self.events.iter().filter(move |row| row.event == event)
    }

    /// The sum of a counter, 0 if it was never written.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

/// The names of all method ids. An id is one method in all hours, and a method has one id.
pub(crate) fn methods(run: &Path) -> BTreeMap<MethodId, MethodName> {
    let mut names = BTreeMap::new();
    let (mut methods, mut ids) = (BTreeMap::new(), BTreeMap::new());
    for row in rows::<MethodRow>(run) {
        let id = row.id;
        names.insert(id, format!("{} {} {}", row.class, row.method, row.descriptor));
        let method = (row.loader, row.class, row.method, row.descriptor);
        let other = methods.insert(id, method.clone()).filter(|other| *other != method);
        assert_eq!(other, None, "{}: method {id} is {method:?} too", run.display());
        let other = ids.insert(method, id).filter(|other| *other != id);
        assert_eq!(other, None, "{}: method {id} has another id", run.display());
    }
    names
}

/// All rows of a table, from all hours.
///
/// # Panics
/// If the log is not flawless.
#[must_use]
pub fn rows<R: Row>(run: &Path) -> Vec<R> {
    // By hour; if a file exists both plain and compressed, it counts once.
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(run).unwrap_or_else(|e| panic!("{}: {e}", run.display())) {
        let path = entry.expect("a file").path();
        let name = path.file_name().and_then(|n| n.to_str()).and_then(parse_file_name);
        if let Some(name) = name.filter(|name| name.table == R::TABLE)
            && (name.compression == Compression::Off || !files.contains_key(&name.part))
        {
            files.insert(name.part, path);
        }
    }
    let mut rows = Vec::new();
    for file in files.into_values() {
        let mut reader = TableReader::<R, _>::open(&file).expect("a file that can be read");
        assert!(reader.missing_columns().is_empty(), "{}", file.display());
        while let Some(line) = reader.next_line().expect("a file that can be read") {
            match line {
                Line::Row(row) => rows.push(row),
                Line::Bad(bad) => panic!("{}:{bad}", file.display()),
            }
        }
        assert!(!reader.is_torn(), "{} is torn", file.display());
    }
    rows
}

/// Reads the counts that a program of `java/truth` wrote.
pub fn truth(file: &Path) -> BTreeMap<MethodName, Counts> {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    text.lines()
        .map(|line| {
            let (rest, throws) = line.rsplit_once(' ').expect("a count");
            let (name, calls) = rest.rsplit_once(' ').expect("a count");
            let number = |text: &str| text.parse().expect("a number");
            (name.to_owned(), Counts { calls: number(calls), throws: number(throws) })
        })
        .collect()
}
