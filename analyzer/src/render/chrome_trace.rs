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

use log_format::file_names::{Table, utc_text};
use log_format::ids::{MethodId, ThreadId};
use log_format::rows::CallRow;
use serde_json::{Value, json};

use super::shared::streamed::{self, EventFormat, Said, StreamError};
use crate::input::problems::Problems;
use crate::input::progress::Progress;
use crate::input::runs::RunInput;
use crate::options::Options;
use crate::run::names::Names;
use crate::run::recorded_calls::{RecordFilter, read_records};
use crate::run::selection::Selection;
use crate::stats::method::Method;

/// Writes the trace.
///
/// # Errors
/// There is nothing to read, or the output cannot be written.
pub fn write(
    options: &Options,
    progress: &Arc<Progress>,
    out: &mut dyn Write,
) -> Result<Said, StreamError> {
    streamed::write(options, progress, |runs| Ok(Trace::begin(out, runs)))
}

struct Trace<'o> {
    out: &'o mut dyn Write,
    start_ns: u64,
    /// What comes before the first call: without a call, nothing is written.
    head: String,
    has_events: bool,
    has_calls: bool,
    /// The first failure; nothing is written after it.
    failed: Option<io::Error>,
}

impl EventFormat for Trace<'_> {
    const TABLES: &'static [Table] = &[Table::Calls];
    const NOT_OF_TPROFILER: &'static str = "of a trace: they have no times";
    const EMPTY: &'static str = "no recorded calls";

    fn run(
        &mut self,
        place: usize,
        run: &RunInput,
        selection: &Selection,
        problems: &mut Problems,
    ) -> io::Result<usize> {
        let pid = place + 1;
        let about = &run.about;
        let name =
            format!("{} on {}, pid {}, run {}", about.service, about.host, about.pid, run.label);
        self.metadata("process_name", pid, ThreadId::NONE, &json!({ "name": name }));
        // Problems with them are reported where the counters are read.
        let names = Names::read(run, &mut Problems::default());
        let label = run.label.as_str().into();
        let mut threads = HashSet::new();
        let mut methods: HashMap<MethodId, (String, Method)> = HashMap::new();
        let filter = RecordFilter::new(selection, &names);
        let unfinished = read_records(run, &filter, problems, |row| {
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
        });
        self.failed.take().map_or(Ok(unfinished), Err)
    }

    fn end(&mut self) -> io::Result<bool> {
        self.raw("\n]}\n");
        self.failed.take().map_or(Ok(self.has_calls), Err)
    }
}

impl<'o> Trace<'o> {
    fn begin(out: &'o mut dyn Write, runs: &[RunInput]) -> Self {
        let start_ns = runs.iter().map(|run| run.about.start_ns).min().unwrap_or(0);
        let about = json!({ "start": utc_text(start_ns), "start_unix_ns": start_ns.to_string() });
        let head = format!("{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":[");
        Self { out, start_ns, head, has_events: false, has_calls: false, failed: None }
    }

    fn metadata(&mut self, name: &str, pid: usize, tid: ThreadId, args: &Value) {
        self.event(&json!({ "ph": "M", "name": name, "pid": pid, "tid": tid, "args": args }));
    }

    fn call(&mut self, pid: usize, row: &CallRow, name: &str, method: &Method) {
        let (class, _, descriptor) = method.parts();
        // If the clock was set back, a call may begin before the start.
        let before = row.start_ns < self.start_ns;
        let sign = if before { "-" } else { "" };
        let exit = row.exit.name();
        let allocated = row.allocated_bytes.map(|of| format!(",\"allocated_bytes\":{of}"));
        let allocated = allocated.unwrap_or_default();
        let text = format!(
            "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{},\"ts\":{sign}{},\"dur\":{},\"name\":{},\
             \"cat\":{},\"args\":{{\"class\":{},\"descriptor\":{},\"self_us\":{},\"exit\":\"{exit}\"{allocated}}}}}",
            row.thread,
            micros(row.start_ns.abs_diff(self.start_ns)),
            micros(row.total_ns),
            Value::from(name),
            Value::from(exit),
            Value::from(class),
            Value::from(descriptor),
            micros(row.self_ns),
        );
        self.has_calls = true;
        self.event_text(&text);
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
        if !self.has_calls {
            self.head.push_str(text);
        } else if self.failed.is_none() {
            let head = std::mem::take(&mut self.head);
            let written = self.out.write_all(head.as_bytes());
            self.failed = written.and_then(|()| self.out.write_all(text.as_bytes())).err();
        }
    }
}

/// Nanoseconds as microseconds, with all digits.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000, ns % 1_000)
}
