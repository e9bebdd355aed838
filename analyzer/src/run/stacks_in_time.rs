//! The stacks in which a JVM spent a time, as SkyWalking's eBPF profiling shows them: on the processor, and off it.

use std::collections::BTreeMap;

use log_format::file_names::Table;
use log_format::ids::{OsThreadId, SampledStackId, ThreadId};
use log_format::rows::{LockWaitRow, SampleRow};

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::options::time_range::TimeRange;
use crate::run::cpu_samples::SampleNames;
use crate::run::names::Names;
use crate::run::selected_rows::{each_within, has_table};
use crate::stats::method::Method;
use crate::stats::sampled_stacks::{is_kernel, is_probe};

/// A row of samples begins at most so long before its last wait: a minute, and the longest `wall`.
const LONGEST_ROW_NS: u64 = 120_000_000_000;

/// A stack of CPU samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnCpu {
    /// Its frames in the process, innermost first: `com.shop.Order.pay`, `malloc [libc.so.6]`.
    pub symbols: Vec<String>,
    /// Its frames in the kernel, innermost first: `vfs_read`.
    pub kernel: Vec<String>,
    /// How many samples have it.
    pub samples: u64,
    /// The CPU time that they stand for, in nanoseconds.
    pub cpu_ns: u64,
}

/// A stack in which a thread waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffCpu {
    /// The kernel's id of the thread, or 0.
    pub os_id: OsThreadId,
    /// Its frames, innermost first.
    pub symbols: Vec<String>,
    /// How long it waited there in this time, in nanoseconds.
    pub wait_ns: u64,
    /// How often it was seen there, at least once.
    pub looks: u64,
}

/// Where waits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitSource {
    /// Looks at all threads (option `wall`).
    Looks,
    /// Recorded waits for locks alone (option `lock`), because threads were not looked at.
    Locks,
    /// The log has neither.
    Nothing,
}

/// The CPU samples of whole seconds that began in `[from_ns, to_ns)`, those with most first; `None` if the log has no
/// samples.
#[must_use]
pub fn on_cpu(
    run: &RunInput,
    from_ns: u64,
    to_ns: u64,
    problems: &mut Problems,
) -> Option<Vec<OnCpu>> {
    if !has_table(run, Table::Samples) {
        return None;
    }
    let mut sums: BTreeMap<SampledStackId, (u64, u64)> = BTreeMap::new();
    each_within(run, from_ns, to_ns, problems, |row: SampleRow| {
        if row.kind == "cpu" && (from_ns..to_ns).contains(&row.start_ns) {
            let (samples, cpu_ns) = sums.entry(row.sampled_stack).or_default();
            *samples = samples.saturating_add(row.samples);
            *cpu_ns = cpu_ns.saturating_add(row.weight_ns);
        }
    });
    let names = SampleNames::read(run, problems);
    // Frames with other descriptors have the same symbol.
    let mut by_symbols: BTreeMap<[Vec<String>; 2], (u64, u64)> = BTreeMap::new();
    for (stack, (samples, cpu_ns)) in sums {
        let frames = names.frames(stack);
        let kernel = frames.iter().take_while(|frame| is_kernel(frame));
        let kernel: Vec<String> = kernel.map(|frame| frame.parts().1.into_owned()).collect();
        let user = symbols(frames.get(kernel.len()..).unwrap_or_default());
        let sum = by_symbols.entry([user, kernel]).or_default();
        *sum = (sum.0.saturating_add(samples), sum.1.saturating_add(cpu_ns));
    }
    let stack = |(frames, (samples, cpu_ns)): ([Vec<String>; 2], (u64, u64))| {
        let [symbols, kernel] = frames;
        OnCpu { symbols, kernel, samples, cpu_ns }
    };
    let mut stacks: Vec<OnCpu> = by_symbols.into_iter().map(stack).collect();
    stacks.sort_by_key(|stack| std::cmp::Reverse(stack.cpu_ns));
    Some(stacks)
}

/// Where platform threads waited in `[from_ns, to_ns)`, those that waited longest first, and how that is known.
#[must_use]
pub fn off_cpu(
    run: &RunInput,
    from_ns: u64,
    to_ns: u64,
    problems: &mut Problems,
) -> (Vec<OffCpu>, WaitSource) {
    let range = TimeRange::default().within(from_ns, to_ns);
    let mut sums: BTreeMap<(ThreadId, SampledStackId), (u64, u64)> = BTreeMap::new();
    let mut add = |thread, stack, part_ns: u64, looks: u64| {
        if part_ns > 0 {
            let (wait_ns, all) = sums.entry((thread, stack)).or_default();
            *wait_ns = wait_ns.saturating_add(part_ns);
            *all = all.saturating_add(looks.max(1));
        }
    };
    let first_ns = from_ns.saturating_sub(LONGEST_ROW_NS);
    let mut source = WaitSource::Nothing;
    each_within(run, first_ns, to_ns, problems, |row: SampleRow| {
        if row.kind == "off_cpu" {
            source = WaitSource::Looks;
            let end_ns = row.start_ns.saturating_add(row.weight_ns);
            let part_ns = range.part_ns(row.start_ns, end_ns);
            // Of a row that is partly in this time, a part of its looks.
            let looks = u128::from(row.samples) * u128::from(part_ns);
            let looks = looks.checked_div(row.weight_ns.into()).unwrap_or_default();
            add(row.thread, row.sampled_stack, part_ns, u64::try_from(looks).unwrap_or(u64::MAX));
        }
    });
    if source == WaitSource::Nothing && has_table(run, Table::LockWaits) {
        source = WaitSource::Locks;
        each_within(run, from_ns, to_ns, problems, |row: LockWaitRow| {
            let end_ns = row.start_ns.saturating_add(row.wait_ns);
            add(row.thread, row.sampled_stack, range.part_ns(row.start_ns, end_ns), 1);
        });
    }
    let names = SampleNames::read(run, problems);
    let threads = Names::read_threads_of(run, problems);
    let os_id = |thread| threads.named_thread(thread).map_or(OsThreadId::NONE, |named| named.os_id);
    let wait = |((thread, stack), (wait_ns, looks))| OffCpu {
        os_id: os_id(thread),
        symbols: symbols(&names.frames(stack)),
        wait_ns,
        looks,
    };
    let mut stacks: Vec<OffCpu> = sums.into_iter().map(wait).collect();
    stacks.sort_by_key(|stack| std::cmp::Reverse(stack.wait_ns));
    (stacks, source)
}

/// The names of frames without probes.
fn symbols(frames: &[&Method]) -> Vec<String> {
    let shown = frames.iter().filter(|frame| !is_probe(frame));
    shown.map(|frame| frame.dotted()).collect()
}
