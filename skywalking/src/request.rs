//! A request of a task, read from the log and turned into what the server takes: a trace segment with one entry span,
//! without which it does not show the request, and a snapshot for each dump period.

use std::path::{Path, PathBuf};

use analyzer::input::problems::Problems;
use analyzer::input::runs::{RunInput, discover};
use analyzer::tasks::find::not_measured;
use analyzer::tasks::{self, CodeNames, MOST_SNAPSHOTS, Request, Snapshot, Task};
use log_format::file_names::Hour;
use log_format::human;
use log_format::rows::Exit;
use sha2::{Digest, Sha256};

use crate::batch::batches;
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
    /// Its snapshots in order, in batches. They are made when they are sent: a stack that many share would be there
    /// many times.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Vec<ThreadSnapshot>> {
        batches(self.snapshots.iter().map(|snapshot| self.snapshot(snapshot)))
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
    let mut tags = tags(&task, request, &names.thread_name(request.thread));
    tags.extend(not_measured_tags(&run, &task, &mut problems));
    let sendable = Box::new(Sendable {
        segment: segment(job, &task, request, tags),
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
    let run = discover(&folders, |_| false, problems).pop()?;
    Some(run.since(Hour::of_unix_ns(from_ns)))
}

fn segment(job: &RequestJob, task: &Task, request: &Request, tags: Vec<KeyValue>) -> Segment {
    let id = segment_id(job);
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

fn tags(task: &Task, request: &Request, thread: &str) -> Vec<KeyValue> {
    let mut tags = vec![KeyValue::new("thread", thread)];
    if request.exit == Exit::Unfinished {
        tags.push(KeyValue::new("unfinished", "in progress when the task ended"));
    }
    if request.calls_dropped > 0 {
        tags.push(KeyValue::new("calls_dropped", request.calls_dropped.to_string()));
    }
    if task.lacks_short_calls(request) {
        let least = human::duration(request.least_call_ns);
        tags.push(KeyValue::new("not_recorded", format!("calls under {least}")));
    }
    if let Some(missing) = missing(&task.reason) {
        tags.push(KeyValue::new("not_recorded", missing));
    }
    tags
}

/// What had no probes while the task ran: its time is in its callers' self time.
fn not_measured_tags(run: &RunInput, task: &Task, problems: &mut Problems) -> Vec<KeyValue> {
    let (throttled, muted) = not_measured(run, task, problems);
    let throttled: Vec<&str> = throttled.iter().map(|method| &*method.method.name).collect();
    let muted: Vec<&str> = muted.iter().map(|pattern| pattern.as_str()).collect();
    let found = [("throttled_methods", throttled), ("muted", muted)];
    let found = found.into_iter().filter(|(_, names)| !names.is_empty());
    found.map(|(key, names)| KeyValue::new(key, first_of(&names))).collect()
}

/// The first of some names, and how many more there are.
fn first_of(names: &[&str]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
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

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::sync::Arc;
    use std::time::Instant;

    use log_format::ids::{MethodId, StackId, ThreadId};
    use log_format::rows::{
        EventRow, MethodRow, Row, StackRow, TaskCallRow, TaskRequestRow, TaskRow, TaskState,
    };
    use log_format::run::Run;
    use log_format::writer::{write_header, write_rows};

    use super::*;
    use crate::queue::Identity;

    const MS: u64 = NS_PER_MS;
    /// 2026-11-28T14:00:01.0005Z
    const START_NS: u64 = 1_795_874_401_000_500_000;
    const TASK: &str = "1795874400000_c2hvcA==.1";

    /// A log that grows.
    pub(crate) struct Log(tempfile::TempDir);

    impl Log {
        /// The names of a request: `pay` calls `stock`.
        pub(crate) fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let run = Run { format_version: 1, ..Run::default() };
            fs::write(folder.path().join("run.json"), run.to_json()).unwrap();
            let log = Self(folder);
            let method = |id, name: &str, line| MethodRow {
                id: MethodId::new(id),
                loader: "app".into(),
                class: "com.shop.Order".into(),
                method: name.into(),
                descriptor: "()V".into(),
                source: "Order.java".into(),
                line,
            };
            log.add(&[method(1, "pay", 41), method(2, "stock", 0)]);
            let stack = |id, parent, method| StackRow {
                id: StackId::new(id),
                parent: StackId::new(parent),
                method: MethodId::new(method),
            };
            log.add(&[stack(1, 0, 1), stack(2, 1, 2)]);
            log
        }

        fn add<R: Row>(&self, rows: &[R]) {
            let name = Hour::of_unix_ns(START_NS).file_name(R::TABLE);
            let path = self.0.path().join(name);
            let mut text = Vec::new();
            if !path.exists() {
                write_header::<R>(&mut text);
            }
            write_rows(&mut text, rows).unwrap();
            let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
            file.write_all(&text).unwrap();
        }

        pub(crate) fn add_task(&self, state: TaskState, reason: &str) {
            self.add(&[TaskRow {
                at_ns: if state == TaskState::Running { START_NS - MS } else { START_NS + 99 * MS },
                task: TASK.into(),
                state,
                endpoint: "/api/pay".into(),
                methods: "com.shop.Order.pay".into(),
                start_ns: START_NS - MS,
                duration_ns: 60_000 * MS,
                min_duration_ns: 0,
                dump_period_ns: 10 * MS,
                max_samples: 5,
                requests: 0,
                reason: reason.into(),
            }]);
        }

        pub(crate) fn add_request(&self, calls: u32, exit: Exit) {
            self.add(&[TaskRequestRow {
                start_ns: START_NS,
                task: TASK.into(),
                request: 1,
                thread: ThreadId::new(3),
                stack: StackId::new(1),
                total_ns: 50 * MS,
                exit,
                calls,
                calls_dropped: 4,
                least_call_ns: 200_000,
            }]);
        }

        fn add_call(&self, method: u32, start_ms: u64, ms: u64) {
            self.add(&[TaskCallRow {
                start_ns: START_NS + start_ms * MS,
                task: TASK.into(),
                request: 1,
                stack: StackId::new(method),
                method: MethodId::new(method),
                total_ns: ms * MS,
                self_ns: 0,
                exit: Exit::Return,
            }]);
        }

        fn load(&self) -> Loaded {
            load(&self.job())
        }

        /// What to send.
        pub(crate) fn job(&self) -> RequestJob {
            RequestJob {
                identity: Arc::new(Identity { service: "shop".into(), instance: "web07".into() }),
                folder: self.0.path().to_owned(),
                task: TASK.into(),
                number: 1,
                start_ns: START_NS,
                not_before: Instant::now(),
            }
        }
    }

    #[test]
    fn a_request_waits_for_its_calls_and_becomes_a_segment_and_snapshots() {
        let log = Log::new();
        assert!(matches!(log.load(), Loaded::Gone));
        log.add_task(TaskState::Running, "");
        log.add_request(2, Exit::Throw);
        assert!(matches!(log.load(), Loaded::Partial(_)));
        log.add_call(2, 12, 25);
        log.add_call(1, 0, 50);
        let Loaded::Whole(request) = log.load() else { panic!("all calls are there") };
        let span = &request.segment.spans[0];
        assert_eq!(span.operation_name, "/api/pay");
        let start_ms = 1_795_874_401_000;
        assert_eq!((span.start_time, span.end_time), (start_ms, start_ms + 50));
        assert_eq!((span.is_error, span.parent_span_id), (true, -1));
        assert!(span.tags.contains(&KeyValue::new("calls_dropped", "4")));
        assert_eq!(request.segment.service_instance, "web07");
        let snapshots: Vec<_> = request.batches().flatten().collect();
        assert_eq!(snapshots.len(), request.count());
        let stacks: Vec<_> = snapshots
            .iter()
            .map(|snapshot| {
                assert_eq!(snapshot.task_id, TASK);
                assert_eq!(snapshot.trace_segment_id, request.segment.trace_segment_id);
                let stack = snapshot.stack.clone().unwrap().code_signatures.join(" ");
                (snapshot.sequence, snapshot.time - start_ms, stack)
            })
            .collect();
        let pay = "com.shop.Order.pay:41".to_owned();
        let stock = format!("{pay} com.shop.Order.stock");
        assert_eq!(
            stacks,
            [
                (0, 0, pay.clone()),
                (1, 10, pay.clone()),
                (2, 20, stock.clone()),
                (3, 30, stock),
                (4, 40, pay)
            ]
        );
    }

    #[test]
    fn what_was_not_recorded_is_in_the_tags() {
        let log = Log::new();
        log.add(&[EventRow {
            method: "com.shop.Order.price()V".into(),
            calls_per_s: Some(9_000),
            ..EventRow::new(START_NS, "throttled")
        }]);
        log.add_task(TaskState::Running, "");
        log.add_task(TaskState::Finished, "count; recording is off");
        log.add_request(0, Exit::Unfinished);
        let Loaded::Whole(request) = log.load() else { panic!("it has no calls") };
        let tags = &request.segment.spans[0].tags;
        for (key, value) in [
            ("unfinished", "in progress when the task ended"),
            ("not_recorded", "recording is off"),
            ("throttled_methods", "com.shop.Order.price()V"),
        ] {
            assert!(tags.contains(&KeyValue::new(key, value)), "{key}: {tags:?}");
        }
        assert_eq!(first_of(&["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
    }

    #[test]
    fn a_request_has_one_id() {
        let (a, b) = (Log::new(), Log::new());
        let id = |log: &Log| {
            log.add_task(TaskState::Running, "");
            log.add_request(0, Exit::Return);
            let ids = [log.load(), log.load()].map(|loaded| match loaded {
                Loaded::Whole(request) => request.segment.trace_segment_id,
                _ => panic!("it has no calls"),
            });
            assert_eq!(ids[0], ids[1]);
            ids[0].clone()
        };
        assert_ne!(id(&a), id(&b), "runs differ");
    }

    #[test]
    fn tasks_are_listed_of_the_hours_asked_for() {
        let log = Log::new();
        log.add_task(TaskState::Running, "");
        log.add_request(7, Exit::Return);
        let tasks = list(log.0.path(), START_NS);
        assert_eq!((tasks[0].id.as_str(), tasks[0].requests.len()), (TASK, 1));
        assert!(list(log.0.path(), START_NS + 3_600_000 * MS).is_empty());
        assert!(list(Path::new("/nonexistent"), 0).is_empty());
    }
}
