//! Frames of samples that are deeper than the recorded calls of a request.
//!
//! A row of samples has a stack with all frames, the second in which the thread was first seen there, and for how
//! long it was there in all. So the row's moments are not known, but its place in the request is: the deepest call
//! path of the request that its stack goes through. The moments of the second with this call path get the frames
//! below, as many as the row's time has periods, waits before CPU time, and of each the longest first. If these are
//! fewer, moments with the path of its caller follow, and so on, if the caller had callees that were too short to be
//! recorded: what is neither its own time nor that of recorded callees.
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

use log_format::file_names::Table;
use log_format::ids::{SampledStackId, StackId};
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
    /// All frames but those of the outermost path in `places`, outermost first.
    frames: Arc<[String]>,
    /// The paths that it goes through, the deepest first.
    places: Vec<Place>,
}

/// A call path that a stack goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    path: PathId,
    /// How many frames of the stack are deeper.
    deeper: usize,
}

impl Sample {
    /// The frames below the path at a place.
    fn below(&self, place: Place) -> Arc<[String]> {
        let from = self.frames.len().saturating_sub(place.deeper);
        match self.frames.get(from..) {
            Some(below) if from > 0 => below.into(),
            _ => Arc::clone(&self.frames),
        }
    }
}

/// A moment of a request, and the call path of recorded calls then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub at_ns: u64,
    pub stack: StackId,
    /// The innermost recorded call, as an index of the request's calls.
    pub call: Option<usize>,
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
        let frames: Vec<&Method> = frames.into_iter().filter(|frame| !is_probe(frame)).collect();
        let places = match known {
            Some(path) => {
                let path: Vec<Method> = path.into_iter().map(|id| names.method(id)).collect();
                self.paths.places_of(&path, &frames)
            }
            None => self.paths.places_in(&frames),
        };
        let (Some(deepest), Some(outermost)) = (places.first(), places.last()) else { return };
        let group = Group { is_cpu, second_ns: row.start_ns, path: deepest.path };
        let below = frames.iter().take(outermost.deeper).rev();
        let sample = Sample {
            time,
            weight_ns: row.weight_ns,
            sampled_stack: row.sampled_stack,
            frames: below.map(|frame| names.signature_of(frame)).collect(),
            places,
        };
        self.groups.entry(group).or_default().push(sample);
    }

    /// The deeper frames at moments in order, each `period_ns` after the other. `unrecorded_ns` has for each call the
    /// time of its callees that are not recorded.
    pub(super) fn at(
        &self,
        moments: &[Moment],
        period_ns: u64,
        unrecorded_ns: &[u64],
    ) -> Vec<Option<Arc<[String]>>> {
        let path_at = |moment: &Moment| self.paths.of_stack.get(&moment.stack).copied();
        let paths = moments.iter().map(path_at).collect();
        let periods = |ns: &u64| ns.saturating_add(period_ns / 2) / period_ns;
        let unrecorded = unrecorded_ns.iter().map(periods).collect();
        let frames = vec![None; moments.len()];
        let mut free = FreeMoments { moments, paths, unrecorded, frames };
        let mut left = Vec::new();
        for samples in self.groups.values() {
            let (mut time_ns, mut before) = (0_u64, 0);
            for sample in samples {
                time_ns = time_ns.saturating_add(sample.weight_ns);
                // To the nearest number of moments.
                let due = time_ns.saturating_add(period_ns / 2) / period_ns;
                left.push((sample, due - before));
                before = due;
            }
        }
        let deepest = left.iter().map(|(sample, _)| sample.places.len()).max().unwrap_or(0);
        for level in 0..deepest {
            for (sample, left) in &mut left {
                if let Some(place) = sample.places.get(level).filter(|_| *left > 0) {
                    *left -= free.take(sample, *place, *left, level > 0);
                }
            }
        }
        free.frames
    }
}

/// The moments of a request, and the deeper frames that they have by now.
struct FreeMoments<'m> {
    moments: &'m [Moment],
    /// The call path at each.
    paths: Vec<Option<PathId>>,
    /// For each call, moments in callees that are not recorded.
    unrecorded: Vec<u64>,
    frames: Vec<Option<Arc<[String]>>>,
}

impl FreeMoments<'_> {
    /// Gives a sample at most so many of the free moments in its time with this path, or of those in callees that are
    /// not recorded. Returns how many.
    fn take(&mut self, sample: &Sample, place: Place, most: u64, unrecorded: bool) -> u64 {
        let index = |ns| self.moments.partition_point(|moment| moment.at_ns < ns);
        let time = index(sample.time.start)..index(sample.time.end);
        let mut below = None;
        let mut taken = 0;
        for index in time {
            if taken == most {
                break;
            }
            if self.paths.get(index).is_none_or(|path| *path != Some(place.path)) {
                continue;
            }
            let Some(frame) = self.frames.get_mut(index).filter(|frame| frame.is_none()) else {
                continue;
            };
            if unrecorded {
                let call = self.moments.get(index).and_then(|moment| moment.call);
                let left = call.and_then(|call| self.unrecorded.get_mut(call));
                let Some(left) = left.filter(|left| **left > 0) else { continue };
                *left -= 1;
            }
            *frame = Some(Arc::clone(below.get_or_insert_with(|| sample.below(place))));
            taken += 1;
        }
        taken
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

    /// The paths that a stack without its call path goes through; frames are innermost first.
    fn places_in(&self, frames: &[&Method]) -> Vec<Place> {
        let mut places = Vec::new();
        let mut path = PathId::default();
        for (deeper, frame) in frames.iter().enumerate().rev() {
            if let Some(callee) = self.callees.get(&(path, (*frame).clone())) {
                path = *callee;
                places.push(Place { path, deeper });
            }
        }
        places.reverse();
        places
    }

    /// The same for a stack with its call path, the outermost method first. Nothing is deeper if the stack does not
    /// have the end of the path: its outer frames are missing.
    fn places_of(&self, path: &[Method], frames: &[&Method]) -> Vec<Place> {
        let mut ids = Vec::new();
        let mut id = PathId::default();
        for method in path {
            let Some(callee) = self.callees.get(&(id, method.clone())) else { break };
            id = *callee;
            ids.push(id);
        }
        let mut places = Vec::new();
        let mut from_end = path.iter().enumerate().rev().peekable();
        for (deeper, frame) in frames.iter().enumerate() {
            if let Some((at, _)) = from_end.next_if(|(_, method)| method == frame) {
                places.extend(ids.get(at).map(|path| Place { path: *path, deeper }));
            }
        }
        if places.is_empty() {
            places.extend(ids.last().map(|path| Place { path: *path, deeper: 0 }));
        }
        places
    }
}
