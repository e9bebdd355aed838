//! Profile tasks for programs, schema 1: see `docs/reports.md`. Fields may be added; removing one or changing its
//! meaning raises the number.

use std::io::{self, Write};

use serde::Serialize;

use super::parts::notes;
use crate::options::tasks::TaskOptions;
use crate::options::zone::Zone;
use crate::tasks::find::{CutRequest, TaskInRun, TaskReport};
use crate::tasks::trees::{Element, Tree};
use crate::tasks::{ExactCalls, ExactKind, Task};

const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct List<'r> {
    schema: u32,
    tasks: Vec<JsonTask<'r>>,
}

#[derive(Serialize)]
struct Document<'r> {
    schema: u32,
    task: JsonTask<'r>,
    ranges_ms: Vec<[u64; 2]>,
    requests: Vec<JsonRequest<'r>>,
    exact: Vec<JsonCalls<'r>>,
    trees: Vec<JsonTree<'r>>,
    throttled: Vec<JsonThrottled<'r>>,
    muted: Vec<String>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct JsonTask<'r> {
    run: &'r str,
    id: &'r str,
    state: &'static str,
    at_ns: u64,
    endpoint: &'r str,
    methods: Vec<&'r str>,
    start_ns: u64,
    duration_ns: u64,
    min_duration_ns: u64,
    dump_period_ns: u64,
    max_samples: u32,
    requests: u32,
    reason: &'r str,
}

#[derive(Serialize)]
struct JsonRequest<'r> {
    request: u32,
    start: String,
    start_ns: u64,
    thread: &'r str,
    total_ns: u64,
    exit: &'static str,
    is_complete: bool,
    calls: u32,
    calls_dropped: u64,
    least_call_ns: u64,
    snapshots: usize,
}

/// Recorded calls with one path; callers come before callees.
#[derive(Serialize)]
struct JsonCalls<'r> {
    depth: usize,
    kind: &'static str,
    name: &'r str,
    calls: u64,
    total_ns: u64,
    self_ns: u64,
}

#[derive(Serialize)]
struct JsonTree<'r> {
    elements: Vec<JsonElement<'r>>,
}

#[derive(Serialize)]
struct JsonElement<'r> {
    id: u32,
    parent_id: u32,
    code_signature: &'r str,
    duration_ms: u64,
    self_ms: u64,
    count: u64,
}

#[derive(Serialize)]
struct JsonThrottled<'r> {
    method: &'r str,
    throttled_ns: u64,
    calls_per_s: u64,
    mean_ns: Option<u64>,
}

pub fn list(tasks: &[TaskInRun], out: &mut dyn Write) -> io::Result<()> {
    let tasks = tasks.iter().map(|TaskInRun { run, task }| JsonTask::new(run, task)).collect();
    write(&List { schema: SCHEMA, tasks }, out)
}

pub fn task(report: &TaskReport, options: &TaskOptions, out: &mut dyn Write) -> io::Result<()> {
    let throttled = report.throttled.iter().map(|in_run| JsonThrottled {
        method: &in_run.method.name,
        throttled_ns: in_run.method.throttled_ns,
        calls_per_s: in_run.method.calls_per_s,
        mean_ns: in_run.method.mean_ns,
    });
    let document = Document {
        schema: SCHEMA,
        task: JsonTask::new(&report.run, &report.task),
        ranges_ms: report.ranges.iter().map(|range| [range.from_ms, range.to_ms]).collect(),
        requests: report.requests.iter().map(|cut| JsonRequest::new(cut, &options.zone)).collect(),
        exact: report.exact.iter().map(JsonCalls::new).collect(),
        trees: report.trees.iter().map(JsonTree::new).collect(),
        throttled: throttled.collect(),
        muted: report.muted.iter().map(ToString::to_string).collect(),
        notes: notes(report, &options.zone),
    };
    write(&document, out)
}

fn write(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}

impl<'r> JsonTask<'r> {
    fn new(run: &'r str, task: &'r Task) -> Self {
        Self {
            run,
            id: &task.id,
            state: task.state.name(),
            at_ns: task.at_ns,
            endpoint: &task.endpoint,
            methods: task.methods.split(',').collect(),
            start_ns: task.start_ns,
            duration_ns: task.duration_ns,
            min_duration_ns: task.min_duration_ns,
            dump_period_ns: task.dump_period_ns,
            max_samples: task.max_samples,
            requests: task.recorded,
            reason: &task.reason,
        }
    }
}

impl<'r> JsonRequest<'r> {
    fn new(cut: &'r CutRequest, zone: &Zone) -> Self {
        let CutRequest { request, thread, snapshots } = cut;
        Self {
            request: request.number,
            start: zone.text_ms(request.start_ns),
            start_ns: request.start_ns,
            thread,
            total_ns: request.total_ns,
            exit: request.exit.name(),
            is_complete: request.is_complete(),
            calls: request.calls_read,
            calls_dropped: request.calls_dropped,
            least_call_ns: request.least_call_ns,
            snapshots: snapshots.len(),
        }
    }
}

impl<'r> JsonCalls<'r> {
    fn new(of: &'r ExactCalls) -> Self {
        let ExactCalls { depth, kind, name, calls, total_ns, self_ns } = of;
        let kind = match kind {
            ExactKind::Call => "call",
            ExactKind::Wait => "wait",
            ExactKind::Sql => "sql",
        };
        Self { depth: *depth, kind, name, calls: *calls, total_ns: *total_ns, self_ns: *self_ns }
    }
}

impl<'r> JsonTree<'r> {
    fn new(tree: &'r Tree) -> Self {
        let element = |element: &'r Element| JsonElement {
            id: element.id,
            parent_id: element.parent_id,
            code_signature: &element.code_signature,
            duration_ms: element.duration_ms,
            self_ms: element.self_ms,
            count: element.count,
        };
        Self { elements: tree.elements.iter().map(element).collect() }
    }
}
