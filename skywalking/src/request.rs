//! A request of a task, read from the log and turned into what the server takes: a trace segment with one entry span,
//! without which it does not show the request, and a snapshot for each dump period.

use std::path::{Path, PathBuf};

use analyzer::input::problems::Problems;
use analyzer::input::runs::{RunInput, discover};
use analyzer::tasks::{self, CodeNames, MOST_SNAPSHOTS, Request, Snapshot, Task};
use log_format::names::Hour;
use log_format::rows::Exit;
use sha2::{Digest, Sha256};

use crate::oap::messages::{KeyValue, Segment, Span, ThreadSnapshot, ThreadStack};
use crate::queue::RequestJob;

const NS_PER_MS: u64 = 1_000_000;
/// Rows about a request may be in the hour of a moment this long before its start: waits of a minute and more.
const BEFORE_NS: u64 = 120_000_000_000;

/// A request as the log has it now.
pub(crate) enum Loaded {
    /// With all its calls.
    Whole(Box<Sendable>),
    /// Some of its calls are not written yet.
    Partial(Box<Sendable>),
    /// The log does not have it any more.
    Gone,
}

/// A request to send.
pub(crate) struct Sendable {
    pub(crate) segment: Segment,
    task: String,
    snapshots: Vec<Snapshot>,
    /// Snapshots beyond the most that are cut.
    pub(crate) not_cut: u64,
}

impl Sendable {
    /// Its snapshots in order, at most `most` in a batch. They are made when they are sent: a stack that many share
    /// would be there many times.
    pub(crate) fn batches(&self, most: usize) -> impl Iterator<Item = Vec<ThreadSnapshot>> {
        self.snapshots
            .chunks(most.max(1))
            .map(|snapshots| snapshots.iter().map(|snapshot| self.snapshot(snapshot)).collect())
    }

    /// How many snapshots it has.
    pub(crate) fn count(&self) -> usize {
        self.snapshots.len()
    }

    fn snapshot(&self, snapshot: &Snapshot) -> ThreadSnapshot {
        ThreadSnapshot {
            task_id: self.task.clone(),
            trace_segment_id: self.segment.trace_segment_id.clone(),
            time: ms(snapshot.time_ns),
            sequence: i32::try_from(snapshot.sequence).unwrap_or(i32::MAX),
            stack: Some(ThreadStack { code_signatures: snapshot.stack.to_vec() }),
        }
    }
}

/// The tasks of a run and their requests, of the hours from a moment on.
pub(crate) fn list(folder: &Path, from_ns: u64) -> Vec<Task> {
    // What cannot be read now is read at the next look; `analyze` reports bad lines.
    let mut problems = Problems::default();
    let run = run_from(folder, from_ns, &mut problems);
    run.map(|run| tasks::list(&run, &mut problems)).unwrap_or_default()
}

/// Reads a request.
pub(crate) fn load(job: &RequestJob) -> Loaded {
    let mut problems = Problems::default();
    let from_ns = job.start_ns.saturating_sub(BEFORE_NS);
    let Some(run) = run_from(&job.folder, from_ns, &mut problems) else { return Loaded::Gone };
    let Some(task) = tasks::read(&run, &job.task, &mut problems) else { return Loaded::Gone };
    let Some(request) = task.requests.iter().find(|request| request.number == job.number) else {
        return Loaded::Gone;
    };
    let names = CodeNames::read(&run, &mut problems);
    let samples = tasks::read_samples(&run, &[request], &names, &mut problems);
    let samples = samples.into_iter().next().unwrap_or_default();
    let sendable = Box::new(Sendable {
        segment: segment(job, &task, request, &names.thread_name(request.thread)),
        task: task.id.clone(),
        snapshots: tasks::snapshots(request, task.dump_period_ns, &names, &samples),
        not_cut: request
            .total_ns
            .div_ceil(task.dump_period_ns.max(1))
            .saturating_sub(MOST_SNAPSHOTS),
    });
    if request.is_complete() { Loaded::Whole(sendable) } else { Loaded::Partial(sendable) }
}

/// The run in a folder without the files of earlier hours, which a long run has many of.
fn run_from(folder: &Path, from_ns: u64, problems: &mut Problems) -> Option<RunInput> {
    let folders: [PathBuf; 1] = [folder.to_owned()];
    let mut run = discover(&folders, |_| false, problems).pop()?;
    let first = Hour::of_unix_ns(from_ns);
    run.files.retain(|file| file.part.hour >= first);
    Some(run)
}

fn segment(job: &RequestJob, task: &Task, request: &Request, thread: &str) -> Segment {
    let id = segment_id(job);
    let mut tags = vec![KeyValue::new("thread", thread)];
    if request.exit == Exit::Unfinished {
        tags.push(KeyValue::new("unfinished", "in progress when the task ended"));
    }
    if request.calls_dropped > 0 {
        tags.push(KeyValue::new("calls_dropped", request.calls_dropped.to_string()));
    }
    if let Some(missing) = missing(&task.reason) {
        tags.push(KeyValue::new("not_recorded", missing));
    }
    let span = Span {
        span_id: 0,
        parent_span_id: -1,
        start_time: ms(request.start_ns),
        end_time: ms(request.end_ns()),
        operation_name: task.endpoint.clone(),
        is_error: request.exit == Exit::Throw,
        tags,
    };
    Segment {
        trace_id: id.clone(),
        trace_segment_id: id,
        spans: vec![span],
        service: job.identity.service.clone(),
        service_instance: job.identity.instance.clone(),
    }
}

/// What a task could not record: what its reason says after why it ended.
pub(crate) fn missing(reason: &str) -> Option<&str> {
    reason.split_once("; ").map(|(_, missing)| missing)
}

/// An id that looks like SkyWalking's. It is the same for the same request, so one that is sent twice, because the
/// first answer was lost, replaces itself.
fn segment_id(job: &RequestJob) -> String {
    let run = job.folder.file_name().unwrap_or_default().as_encoded_bytes();
    let mut hash = Sha256::new();
    for part in [run, job.task.as_bytes(), job.identity.service.as_bytes()] {
        hash.update(part);
        hash.update([0]);
    }
    let digits = hash.finalize().into_iter().take(16).map(|byte| format!("{byte:02x}"));
    format!("{}.{}.{}", digits.collect::<String>(), job.number, ms(job.start_ns))
}

fn ms(ns: u64) -> i64 {
    i64::try_from(ns / NS_PER_MS).unwrap_or(i64::MAX)
}
