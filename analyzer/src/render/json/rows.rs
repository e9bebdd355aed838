//! Rows: methods with their exact figures and CPU time, waits, and thread dumps.

use serde::Serialize;

use crate::options::By;
use crate::report::cpu::{CpuReport, CpuSums};
use crate::report::groups::{GroupReport, MethodReport};
use crate::report::off_cpu::{OffCpuReport, Waits};
use crate::run::old_counts::OldCounts;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::CpuFigures;
use crate::stats::thread_dumps::{DumpCounts, DumpedFrame, DumpedThread};

/// The key of a `--by` option.
#[derive(Serialize)]
pub(super) struct Key<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    hour: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    minute: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    package: Option<&'r str>,
}

impl<'r> Key<'r> {
    pub(super) fn new(by: By, label: Option<&'r String>) -> Self {
        let label = |key| label.map(String::as_str).filter(|_| by == key);
        Self {
            hour: label(By::Hour),
            thread: label(By::Thread),
            run: label(By::Run),
            minute: label(By::Minute),
            host: label(By::Host),
            package: label(By::Package),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Row<'r> {
    #[serde(flatten)]
    key: Key<'r>,
    #[serde(flatten)]
    method: Name<'r>,
    calls: u64,
    throws: u64,
    total_ns: u64,
    self_ns: u64,
    self_percent: f64,
    avg_ns: Option<u64>,
    max_ns: u64,
    p50_ns: Option<u64>,
    p95_ns: Option<u64>,
    p99_ns: Option<u64>,
    throttled_ns: u64,
    muted_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    probe_ns: Option<u64>,
    #[serde(flatten)]
    cpu: Option<CpuColumns>,
}

impl<'r> Row<'r> {
    pub(super) fn new(by: By, group: &'r GroupReport, report: &'r MethodReport) -> Self {
        let figures = &report.figures;
        let [p50_ns, p95_ns, p99_ns] = figures.percentiles_ns();
        Self {
            key: Key::new(by, group.label.as_ref()),
            method: Name::new(&report.method),
            calls: figures.calls,
            throws: figures.throws,
            total_ns: figures.total_ns,
            self_ns: figures.self_ns,
            self_percent: report.self_percent,
            avg_ns: figures.avg_ns(),
            max_ns: figures.max_ns,
            p50_ns,
            p95_ns,
            p99_ns,
            throttled_ns: report.not_counted.throttled_ns.unwrap_or(0),
            muted_ns: report.not_counted.muted_ns.unwrap_or(0),
            probe_ns: report.probe_ns,
            cpu: report.cpu.map(CpuColumns::new),
        }
    }
}

#[derive(Serialize)]
struct CpuColumns {
    cpu_self_ns: u64,
    cpu_total_ns: u64,
    samples: u64,
}

impl CpuColumns {
    fn new(cpu: CpuFigures) -> Self {
        Self { cpu_self_ns: cpu.self_ns, cpu_total_ns: cpu.total_ns, samples: cpu.samples }
    }
}

#[derive(Serialize)]
pub(super) struct JsonCpu<'r> {
    cpu: CpuSums,
    only_sampled: Vec<SampledRow<'r>>,
    only_sampled_not_shown: usize,
}

#[derive(Serialize)]
pub(super) struct SampledRow<'r> {
    #[serde(flatten)]
    key: Key<'r>,
    #[serde(flatten)]
    method: Name<'r>,
    throttled_ns: u64,
    muted_ns: u64,
    #[serde(flatten)]
    cpu: CpuColumns,
}

impl<'r> JsonCpu<'r> {
    pub(super) fn new(by: By, cpu: &'r CpuReport) -> Self {
        let rows = cpu.only_sampled.iter().map(|sampled| SampledRow {
            key: Key::new(by, sampled.label.as_ref()),
            method: Name::new(&sampled.method),
            throttled_ns: sampled.not_counted.throttled_ns.unwrap_or(0),
            muted_ns: sampled.not_counted.muted_ns.unwrap_or(0),
            cpu: CpuColumns::new(sampled.cpu),
        });
        Self {
            cpu: cpu.sums(),
            only_sampled: rows.collect(),
            only_sampled_not_shown: cpu.only_sampled_not_shown,
        }
    }
}

/// Where threads waited.
#[derive(Serialize)]
pub(super) struct JsonOffCpu<'r> {
    total_ns: u64,
    waits: Vec<WaitRow<'r>>,
}

#[derive(Serialize)]
struct WaitRow<'r> {
    #[serde(flatten)]
    key: Key<'r>,
    #[serde(flatten)]
    method: Name<'r>,
    state: &'r str,
    ns: u64,
}

impl<'r> JsonOffCpu<'r> {
    pub(super) fn new(by: By, off_cpu: &'r OffCpuReport) -> Self {
        let waits = off_cpu.waits.iter().map(|Waits { label, method, state, time }| WaitRow {
            key: Key::new(by, label.as_ref()),
            method: Name::new(method),
            state,
            ns: time.ns,
        });
        Self { total_ns: off_cpu.total_ns, waits: waits.collect() }
    }
}

/// TProfiler's thread dumps.
#[derive(Serialize)]
pub(super) struct JsonDumps<'r> {
    dumps: u64,
    /// The same but for logs that differ; `null` if no log has two dumps.
    shortest_interval_ns: Option<u64>,
    longest_interval_ns: Option<u64>,
    threads: Vec<ThreadRow<'r>>,
    frames: Vec<FrameRow<'r>>,
}

#[derive(Serialize)]
struct ThreadRow<'r> {
    id: u64,
    name: &'r str,
    state: &'static str,
    lines: u64,
}

#[derive(Serialize)]
struct FrameRow<'r> {
    class: &'r str,
    method: &'r str,
    place: &'r str,
    lines: u64,
}

impl<'r> JsonDumps<'r> {
    pub(super) fn new(dumps: &'r DumpCounts, counts: &OldCounts) -> Self {
        let threads = dumps.threads().into_iter().map(|(thread, lines)| {
            let DumpedThread { id, name, state } = thread;
            ThreadRow { id: id.get(), name, state: state.name(), lines }
        });
        let frames = dumps.frames().into_iter().map(|(frame, lines)| {
            let DumpedFrame { class, method, place } = frame;
            FrameRow { class, method, place, lines }
        });
        Self {
            dumps: counts.dumps,
            shortest_interval_ns: counts.dump_interval_ns.map(|(shortest, _)| shortest),
            longest_interval_ns: counts.dump_interval_ns.map(|(_, longest)| longest),
            threads: threads.collect(),
            frames: frames.collect(),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct Name<'r> {
    class: &'r str,
    method: String,
    descriptor: &'r str,
}

impl<'r> Name<'r> {
    pub(crate) fn new(method: &'r Method) -> Self {
        let (class, method, descriptor) = method.parts();
        Self { class, method: method.into_owned(), descriptor }
    }
}
