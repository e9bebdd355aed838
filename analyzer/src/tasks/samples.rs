//! Frames of samples that are deeper than the recorded calls of a request.
//!
//! A row of samples has a stack with all frames, the second in which the thread was first seen there, and for how
//! long it was there in all. So the row's moments are not known, but its place in the request is: the deepest call
//! path of the request that its stack goes through. The moments of the second with this call path get the frames
//! below, as many as the row's time has periods, waits before CPU time, and of each the longest first.
//!
//! ```text
//! sampled stack    Thread.run > Filter.doFilter > pay > $Proxy.call > query > Io.read > poll
//! paths recorded   doFilter, doFilter > pay, doFilter > pay > query
//! deeper frames    at moments with the path doFilter > pay > query: Io.read > poll
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use log_format::ids::{SampledStackId, StackId};
use log_format::names::Table;
use log_format::rows::SampleRow;

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::run::cpu_samples::SampleNames;
use crate::run::selected_rows::{each_within, has_table};
use crate::stats::method::Method;
use crate::stats::sampled_stacks::is_probe;
use crate::tasks::code_names::CodeNames;
use crate::tasks::task::Request;

const SECOND_NS: u64 = 1_000_000_000;

/// A row begins at most so long before it ends: a minute, and the longest `wall`.
const LONGEST_ROW_NS: u64 = 121 * SECOND_NS;

/// The samples of a request's thread while it lasted.
#[derive(Clone, Debug, Default)]
pub struct ThreadSamples {
    paths: Paths,
    /// Each group's longest first.
    groups: BTreeMap<Group, Vec<Sample>>,
}

/// Samples that share their moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    /// Waits come before CPU time.
    is_cpu: bool,
    second_ns: u64,
    path: PathId,
}

#[derive(Clone, Debug)]
struct Sample {
    /// The moments that it can have.
    time: Range<u64>,
    weight_ns: u64,
    sampled_stack: SampledStackId,
    /// Outermost first.
    deeper: Arc<[String]>,
}

/// A moment of a request, and the call path of recorded calls then.
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
    let begin_ns = requests.iter().map(|request| request.start_ns).min();
    let end_ns = requests.iter().map(|request| request.end_ns()).max();
    let (Some(begin_ns), Some(end_ns)) = (begin_ns, end_ns) else { return Vec::new() };
    if !has_table(run, Table::Samples) {
        return vec![ThreadSamples::default(); requests.len()];
    }
    let stacks = SampleNames::read(run, problems);
    let new = |request: &&Request| ThreadSamples {
        paths: Paths::of(request, names),
        groups: BTreeMap::new(),
    };
    let mut all: Vec<ThreadSamples> = requests.iter().map(new).collect();
    let first_ns = begin_ns.saturating_sub(LONGEST_ROW_NS);
    each_within(run, first_ns, end_ns, problems, |row: SampleRow| {
        for (samples, request) in all.iter_mut().zip(requests) {
            if row.thread == request.thread {
                samples.add(&row, request, &stacks, names);
            }
        }
    });
    for samples in all.iter_mut().flat_map(|samples| samples.groups.values_mut()) {
        samples.sort_by_key(|sample| (Reverse(sample.weight_ns), sample.sampled_stack));
    }
    all
}

impl ThreadSamples {
    fn add(&mut self, row: &SampleRow, request: &Request, stacks: &SampleNames, names: &CodeNames) {
        let is_cpu = match &*row.kind {
            "cpu" => true,
            "off_cpu" => false,
            _ => return,
        };
        // A wait begins in its second, and may end later.
        let longest_ns = if is_cpu { SECOND_NS } else { row.weight_ns.saturating_add(SECOND_NS) };
        let time = row.start_ns..row.start_ns.saturating_add(longest_ns);
        if time.end <= request.start_ns || time.start >= request.end_ns() {
            return;
        }
        let frames = stacks.frames(row.sampled_stack);
        let known = names.path(row.stack).filter(|_| !row.stack.is_none());
        let place = match known {
            Some(path) => {
                let path: Vec<Method> = path.into_iter().map(|id| names.method(id)).collect();
                self.paths.place_of(&path, &frames)
            }
            None => self.paths.place_in(&frames),
        };
        let Some((path, deeper)) = place else { return };
        let below = frames.into_iter().take(deeper).rev().filter(|frame| !is_probe(frame));
        let sample = Sample {
            time,
            weight_ns: row.weight_ns,
            sampled_stack: row.sampled_stack,
            deeper: below.map(|frame| names.signature_of(frame)).collect(),
        };
        let group = Group { is_cpu, second_ns: row.start_ns, path };
        self.groups.entry(group).or_default().push(sample);
    }

    /// The deeper frames at moments in order, each `period_ns` after the other.
    pub(super) fn at(&self, moments: &[Moment], period_ns: u64) -> Vec<Option<Arc<[String]>>> {
        let mut frames = vec![None; moments.len()];
        let path_at = |moment: &Moment| self.paths.of_stack.get(&moment.stack);
        let paths: Vec<Option<&PathId>> = moments.iter().map(path_at).collect();
        let place = |ns| moments.partition_point(|moment| moment.at_ns < ns);
        for (group, samples) in &self.groups {
            let (mut time_ns, mut taken) = (0_u64, 0);
            for sample in samples {
                time_ns = time_ns.saturating_add(sample.weight_ns);
                // To the nearest number of moments.
                let due = time_ns.saturating_add(period_ns / 2) / period_ns;
                for place in place(sample.time.start)..place(sample.time.end) {
                    if taken == due {
                        break;
                    }
                    let is_here = paths.get(place).is_some_and(|path| *path == Some(&group.path));
                    if let Some(frame) = frames.get_mut(place).filter(|f| is_here && f.is_none()) {
                        *frame = Some(Arc::clone(&sample.deeper));
                        taken += 1;
                    }
                }
            }
        }
        frames
    }
}

/// A call path among those of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct PathId(usize);

/// The call paths of a request's recorded calls, from the thread's outermost instrumented method on.
#[derive(Clone, Debug, Default)]
struct Paths {
    /// By the path of the caller, 0 for none.
    callees: HashMap<(PathId, Method), PathId>,
    of_stack: HashMap<StackId, PathId>,
}

impl Paths {
    fn of(request: &Request, names: &CodeNames) -> Self {
        let mut paths = Self::default();
        let stacks = request.calls.iter().map(|call| call.stack);
        for stack in stacks.chain([request.stack]) {
            if paths.of_stack.contains_key(&stack) {
                continue;
            }
            let Some(path) = names.path(stack) else { continue };
            let end = path.into_iter().fold(PathId::default(), |caller, method| {
                let next = PathId(paths.callees.len() + 1);
                *paths.callees.entry((caller, names.method(method))).or_insert(next)
            });
            paths.of_stack.insert(stack, end);
        }
        paths
    }

    /// The deepest path that a stack without its call path goes through, and how many of its frames, the innermost
    /// first, are deeper.
    fn place_in(&self, frames: &[&Method]) -> Option<(PathId, usize)> {
        let mut place = None;
        let mut path = PathId::default();
        for (deeper, frame) in frames.iter().enumerate().rev() {
            if let Some(callee) = self.callees.get(&(path, (*frame).clone())) {
                path = *callee;
                place = Some((path, deeper));
            }
        }
        place
    }

    /// The same for a stack with its call path, the outermost method first. Nothing is deeper if the stack does not
    /// have the end of the path: its outer frames are missing.
    fn place_of(&self, path: &[Method], frames: &[&Method]) -> Option<(PathId, usize)> {
        let mut id = PathId::default();
        let mut kept = 0_usize;
        for method in path {
            let Some(callee) = self.callees.get(&(id, method.clone())) else { break };
            (id, kept) = (*callee, kept + 1);
        }
        let last = kept.checked_sub(1)?;
        let mut from_end = path.iter().enumerate().rev().peekable();
        for (deeper, frame) in frames.iter().enumerate() {
            if from_end.next_if(|(_, method)| method == frame).is_some_and(|(at, _)| at == last) {
                return Some((id, deeper));
            }
        }
        Some((id, 0))
    }
}
