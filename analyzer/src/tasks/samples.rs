//! Frames of samples that are deeper than the instrumented methods of a request.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use log_format::ids::{SampledStackId, StackId};
use log_format::names::Table;
use log_format::rows::SampleRow;

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::run::cpu_samples::SampleNames;
use crate::run::selected_rows::{each_within, has_table};
use crate::stats::sampled_stacks::is_probe;
use crate::tasks::code_names::CodeNames;
use crate::tasks::task::Request;

const SECOND_NS: u64 = 1_000_000_000;

/// A row begins at most so long before it ends: a minute, and the longest `wall`.
const LONGEST_ROW_NS: u64 = 120 * SECOND_NS;

/// The samples of a request's thread while it lasted.
#[derive(Clone, Debug, Default)]
pub struct ThreadSamples {
    /// By start.
    waits: Vec<Sample>,
    /// By second and call path, the heaviest first.
    cpu: BTreeMap<(u64, StackId), Vec<Sample>>,
}

#[derive(Clone, Debug)]
struct Sample {
    start_ns: u64,
    weight_ns: u64,
    /// The call path of instrumented methods.
    stack: StackId,
    sampled_stack: SampledStackId,
    /// The frames below the innermost instrumented method, outermost first.
    deeper: Arc<[String]>,
}

/// A moment of a request, and the call path of instrumented methods then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub at_ns: u64,
    pub stack: StackId,
}

/// Reads the samples of each request's thread and time.
#[must_use]
pub fn read_samples(
    run: &RunInput,
    requests: &[&Request],
    names: &CodeNames,
    problems: &mut Problems,
) -> Vec<ThreadSamples> {
    let mut samples = vec![ThreadSamples::default(); requests.len()];
    let begin_ns = requests.iter().map(|request| request.start_ns).min();
    let end_ns = requests.iter().map(|request| request.end_ns()).max();
    let (Some(begin_ns), Some(end_ns)) = (begin_ns, end_ns) else { return samples };
    if !has_table(run, Table::Samples) {
        return samples;
    }
    let stacks = SampleNames::read(run, problems);
    let mut deeper = Deeper { stacks: &stacks, names, known: BTreeMap::new() };
    let first_ns = begin_ns.saturating_sub(LONGEST_ROW_NS);
    each_within(run, first_ns, end_ns, problems, |row: SampleRow| {
        for (samples, request) in samples.iter_mut().zip(requests) {
            if row.thread == request.thread && !row.stack.is_none() {
                samples.add(&row, request, &mut deeper);
            }
        }
    });
    samples.iter_mut().for_each(ThreadSamples::sort);
    samples
}

impl ThreadSamples {
    fn add(&mut self, row: &SampleRow, request: &Request, deeper: &mut Deeper<'_>) {
        let is_wait = row.kind == "off_cpu";
        let len_ns = if is_wait { row.weight_ns } else { SECOND_NS };
        let row_end_ns = row.start_ns.saturating_add(len_ns);
        let is_other = !is_wait && row.kind != "cpu";
        if is_other || row_end_ns <= request.start_ns || row.start_ns >= request.end_ns() {
            return;
        }
        let sample = Sample {
            start_ns: row.start_ns,
            weight_ns: row.weight_ns,
            stack: row.stack,
            sampled_stack: row.sampled_stack,
            deeper: deeper.of(row.stack, row.sampled_stack),
        };
        if is_wait {
            self.waits.push(sample);
        } else {
            self.cpu.entry((row.start_ns, row.stack)).or_default().push(sample);
        }
    }

    fn sort(&mut self) {
        self.waits.sort_by_key(|sample| (sample.start_ns, sample.sampled_stack));
        for samples in self.cpu.values_mut() {
            samples.sort_by_key(|s| (std::cmp::Reverse(s.weight_ns), s.sampled_stack));
        }
    }

    /// The deeper frames at moments in order, each `period_ns` after the other. A wait has its own time. The CPU
    /// samples of a second have none: they take the second's other moments with their call path, in order, each as
    /// many as its CPU time has periods.
    pub(super) fn at(&self, moments: &[Moment], period_ns: u64) -> Vec<Option<Arc<[String]>>> {
        let mut frames = vec![None; moments.len()];
        for wait in &self.waits {
            let end_ns = wait.start_ns.saturating_add(wait.weight_ns);
            for place in places(moments, wait.start_ns..end_ns) {
                fill(moments, &mut frames, place, wait);
            }
        }
        for ((second_ns, _), samples) in &self.cpu {
            let mut places = places(moments, *second_ns..second_ns.saturating_add(SECOND_NS));
            let (mut cpu_ns, mut taken) = (0_u64, 0);
            for sample in samples {
                cpu_ns = cpu_ns.saturating_add(sample.weight_ns);
                // To the nearest number of moments.
                let due = cpu_ns.saturating_add(period_ns / 2) / period_ns;
                while taken < due {
                    let Some(place) = places.next() else { break };
                    taken += u64::from(fill(moments, &mut frames, place, sample));
                }
            }
        }
        frames
    }
}

/// The places of the moments in a time.
fn places(moments: &[Moment], time: Range<u64>) -> Range<usize> {
    let place = |ns| moments.partition_point(|moment| moment.at_ns < ns);
    place(time.start)..place(time.end)
}

/// Sets the frames of a moment, if it has the sample's call path and none yet. Returns whether it did.
fn fill(
    moments: &[Moment],
    frames: &mut [Option<Arc<[String]>>],
    place: usize,
    sample: &Sample,
) -> bool {
    let is_here = moments.get(place).is_some_and(|moment| moment.stack == sample.stack);
    match frames.get_mut(place) {
        Some(frame) if is_here && frame.is_none() => {
            *frame = Some(Arc::clone(&sample.deeper));
            true
        }
        _ => false,
    }
}

/// Finds the deeper frames of sampled stacks.
struct Deeper<'n> {
    stacks: &'n SampleNames,
    names: &'n CodeNames,
    known: BTreeMap<(StackId, SampledStackId), Arc<[String]>>,
}

impl Deeper<'_> {
    /// The frames of a sampled stack below the innermost method of a call path, without probes; none if the method
    /// is not in it.
    fn of(&mut self, stack: StackId, sampled_stack: SampledStackId) -> Arc<[String]> {
        let Self { stacks, names, known } = self;
        let find = || {
            let innermost = names.path(stack).and_then(|path| path.last().copied());
            let innermost = names.method(innermost?);
            let frames = stacks.frames(sampled_stack);
            let place = frames.iter().position(|frame| **frame == innermost)?;
            let below = frames.into_iter().take(place).rev();
            Some(below.filter(|frame| !is_probe(frame)).map(|f| names.signature_of(f)).collect())
        };
        let frames =
            known.entry((stack, sampled_stack)).or_insert_with(|| find().unwrap_or_default());
        Arc::clone(frames)
    }
}
