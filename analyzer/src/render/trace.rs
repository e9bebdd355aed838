//! Every recorded call on the timeline of its thread, as Trace Event JSON for Perfetto and
//! `chrome://tracing`. See
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.
//!
//! Recorded calls are written as they are read; only names are kept. Times are microseconds since the start of the
//! earliest run: viewers read them as doubles, which resolve nanoseconds for some hundred days, but not for all the
//! years since 1970. The first event of a thread names it. A process is a run: two runs may have the same process id.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::Arc;

use log_format::names::{Table, utc_text};
use log_format::rows::{CallRow, Exit};
use serde_json::{Value, json};

use super::remarks;
use crate::analysis::Selected;
use crate::input::problems::Problems;
use crate::input::progress::Progress;
use crate::input::runs::{RunInput, is_of_calls};
use crate::options::Options;
use crate::report::Collector;
use crate::run::data::read_run;
use crate::run::names::Names;
use crate::run::records::{RecordFilter, read_records};
use crate::run::selection::Selection;
use crate::stats::method::Method;
use crate::tprofiler;

/// Messages about a trace.
#[derive(Debug, Default)]
pub struct Said {
    /// What could not be read.
    pub problems: Problems,
    /// What the trace lacks, one line each.
    pub remarks: Vec<String>,
}

/// Writes the trace.
///
/// # Errors
/// There is nothing to read (lines to print), or the output cannot be written.
pub fn write(
    options: &Options,
    progress: &Arc<Progress>,
    out: &mut dyn Write,
) -> Result<Said, TraceError> {
    let mut problems = Problems::default();
    let (found, options) =
        crate::analysis::select(options, progress, &mut problems).map_err(TraceError::NoReport)?;
    let options = &options;
    let Selected { runs, old_logs, selection } = found;
    let start_ns = runs.iter().map(|run| run.about.start_ns).min().unwrap_or(0);
    let mut trace = Trace { out, start_ns, has_events: false, has_calls: false, failed: None };
    let mut unfinished = 0;
    progress.expect(&runs, &[Table::Calls]);
    let mut collector = Collector::default();
    let head = format!(
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[",
        json!({ "start": utc_text(start_ns), "start_unix_ns": start_ns.to_string() })
    );
    trace.raw(&head);
    for (place, (run, old_log)) in runs.iter().zip(&old_logs).enumerate() {
        if let Some(log) = old_log {
            tprofiler::leave_out(log, "of a trace: they have no times", &mut problems);
            continue;
        }
        unfinished += trace.run(place, run, &selection, &mut problems);
        // The rest is read for its losses.
        let mut rest = run.clone();
        rest.files.retain(|file| !is_of_calls(file.table));
        let data = read_run(&rest, place, &selection, &mut problems);
        collector.add(run, place, data, &selection);
    }
    trace.raw("\n]}\n");
    let mut report = collector.finish(&runs, options, &selection, &problems);
    report.empty = (!trace.has_calls).then(|| "no recorded calls in the selection".to_owned());
    report.notes.clear();
    report.unfinished_not_shown = unfinished;
    let remarks = remarks(&report, options.format);
    trace.failed.map_or(Ok(Said { problems, remarks }), |error| Err(TraceError::Output(error)))
}

/// Why there is no trace.
#[derive(Debug)]
pub enum TraceError {
    /// There is nothing to read; lines to print.
    NoReport(Vec<String>),
    /// The output cannot be written.
    Output(io::Error),
}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

struct Trace<'o> {
    out: &'o mut dyn Write,
    start_ns: u64,
    has_events: bool,
    has_calls: bool,
    /// The first failure; nothing is written after it.
    failed: Option<io::Error>,
}

impl Trace<'_> {
    /// Returns the number of unfinished calls that are missing.
    fn run(
        &mut self,
        place: usize,
        run: &RunInput,
        selection: &Selection,
        problems: &mut Problems,
    ) -> usize {
        let pid = place + 1;
        let about = &run.about;
        let name =
            format!("{} on {}, pid {}, run {}", about.service, about.host, about.pid, run.label);
        self.metadata("process_name", pid, 0, &json!({ "name": name }));
        // Problems with them are reported where the counters are read.
        let names = Names::read(run, &mut Problems::default());
        let label = run.label.as_str().into();
        let mut threads = HashSet::new();
        let mut methods: HashMap<u32, (String, Method)> = HashMap::new();
        read_records(run, &RecordFilter::new(selection, &names), problems, |row| {
            if self.failed.is_some() {
                return;
            }
            if threads.insert(row.thread) {
                let name = json!({ "name": names.thread(row.thread) });
                self.metadata("thread_name", pid, row.thread, &name);
            }
            let (name, method) = methods.entry(row.method).or_insert_with(|| {
                let method = names.method_or_unknown(row.method, &label);
                let (class, name, _) = method.parts();
                let simple = class.rsplit_once('.').map_or(class, |(_, simple)| simple);
                let dot = if class.is_empty() { "" } else { "." };
                (format!("{simple}{dot}{name}"), method)
            });
            self.call(pid, &row, name, method);
        })
    }

    fn metadata(&mut self, name: &str, pid: usize, tid: u32, args: &Value) {
        self.event(&json!({ "ph": "M", "name": name, "pid": pid, "tid": tid, "args": args }));
    }

    fn call(&mut self, pid: usize, row: &CallRow, name: &str, method: &Method) {
        let (class, _, descriptor) = method.parts();
        // If the clock was set back, a call may begin before the start.
        let before = row.start_ns < self.start_ns;
        let sign = if before { "-" } else { "" };
        let exit = match row.exit {
            Exit::Return => "return",
            Exit::Throw => "throw",
            Exit::Unfinished => "unfinished",
        };
        let text = format!(
            "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{},\"ts\":{sign}{},\"dur\":{},\"name\":{},\
             \"cat\":{},\"args\":{{\"class\":{},\"descriptor\":{},\"self_us\":{},\"exit\":\"{exit}\"}}}}",
            row.thread,
            micros(row.start_ns.abs_diff(self.start_ns)),
            micros(row.total_ns),
            Value::from(name),
            Value::from(exit),
            Value::from(class),
            Value::from(descriptor),
            micros(row.self_ns),
        );
        self.event_text(&text);
        self.has_calls = true;
    }

    fn event(&mut self, event: &Value) {
        self.event_text(&event.to_string());
    }

    fn event_text(&mut self, text: &str) {
        self.raw(if self.has_events { ",\n" } else { "\n" });
        self.has_events = true;
        self.raw(text);
    }

    fn raw(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(text.as_bytes()).err();
        }
    }
}

/// Nanoseconds as microseconds, with all digits.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000, ns % 1_000)
}
