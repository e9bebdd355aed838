//! Turns samples into rows: frames, stacks and threads get ids, and what a thread did in a second is one row for each
//! stack.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use log_format::ids::{FrameId, MethodId, OsThreadId, SampledStackId, StackId, ThreadId};
use log_format::rows::{SampleRow, ThreadRow, counter};
use sampling_handler::queue::{MAX_SHADOW, Sample};
use sampling_handler::signal::Counts;
use sampling_handler::walk::{End, Frame};

use crate::allocations;
use crate::drain::call_paths::{self, CallPaths};
use crate::drain::hot_samples::{HotSampled, HotSamples, SampledName};
use crate::drain::method_waits::{Waited, Waits};
use crate::drain::run_sums::SampledProbes;
use crate::drain::sampled_stacks::SampledStacks;
use crate::drain::sampled_threads::SampledThreads;
use crate::drain::second_sums::SampleCounts;
use crate::drain::time_slices::Period;
use crate::hotspot::own_stack::OwnStack;
use crate::instrument::methods::Method;
use crate::instrument::park_probes;
use crate::locks;
use crate::log::run_log::Now;
use crate::probe::ProbeId;
use crate::probe::traced;
use crate::sampling::NoSamples;
use crate::sampling::cost;
use crate::sampling::off_cpu::{OffCpuTime, Standing};
use crate::sampling::sampler::{Sampler, TimerFigures};
use crate::sampling::waiting::Waiting;
use crate::statements::StatementFigures;
use crate::sys::clock::{self, Anchors};

const SECOND_NS: u64 = 1_000_000_000;
/// How long after the end of a second its samples may still come.
const LATE_NS: u64 = SECOND_NS / 5;

/// A minute's end also ends what is known of a thread that still waits.
const MINUTE_NS: u64 = 60 * SECOND_NS;

/// Kinds of samples.
const CPU: &str = "cpu";
const OFF_CPU: &str = "off_cpu";

/// What samples of a second have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    kind: &'static str,
    thread: ThreadId,
    state: &'static str,
    stack: SampledStackId,
    path: StackId,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    weight_ns: u64,
    count: u64,
}

impl Sum {
    fn add(&mut self, weight_ns: u64, count: u64) {
        self.weight_ns += weight_ns;
        self.count += count;
    }
}

/// The samples of a second, and their threads.
#[derive(Default)]
struct Second {
    sums: HashMap<Key, Sum>,
    threads: HashSet<ThreadId>,
}

/// A thread that stands where it stood.
struct Wait {
    key: Key,
    start_ns: u64,
    /// The minute in which this began.
    minute: u64,
    sum: Sum,
}

/// All samples, their stacks and threads.
#[derive(Default)]
pub(crate) struct Samples {
    /// What a weight of 1 stands for.
    unit_ns: u64,
    stacks: SampledStacks,
    threads: SampledThreads,
    /// By the kernel's number of the thread.
    waits: HashMap<OsThreadId, Wait>,
    waited: Waited,
    /// What the sampler keeps of threads.
    names_bytes: usize,
    /// By the start of the second.
    seconds: BTreeMap<u64, Second>,
    generation: u64,
    over_budget: u64,
    taken: u64,
    /// The CPU time that they stand for.
    taken_ns: u64,
    /// Of samples with Java stacks, for the overhead budget.
    probes: SampledProbes,
    /// Stacks of which outer frames are missing, and those that are missing as a whole.
    truncated: u64,
    failed: u64,
    /// What handlers had counted when the run began.
    before: Counts,
    now: Counts,
    timers_refused: u64,
    kernel_refused: u64,
    /// Looks at threads that may wait.
    looks: u64,
    /// What sampling had cost when the run began, and now.
    cost_ns: (u64, u64),
    /// The interval of CPU time in force; 0 while nothing was sampled.
    interval_in_force_ns: u64,
    /// For `top`; `None` before the first round.
    hot: Option<HotSamples>,
    /// Names of the frames that are in it.
    hot_names: HashMap<FrameId, Arc<SampledName>>,
}

/// CPU samples since the run began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuSampleFigures {
    pub samples: u64,
    /// Samples whose outer frames are missing.
    pub truncated: u64,
    /// Samples without a Java stack that should have one.
    pub without_stack: u64,
    pub dropped: u64,
    /// The CPU time that they stand for, and the process's meanwhile.
    pub taken_ns: u64,
    pub cpu_ns: u64,
    /// What they took of the process's CPU time since sampling began.
    pub cost_share: f64,
}

/// Sampled allocations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AllocationFigures {
    /// How many bytes between two were asked for.
    pub chosen_bytes: Option<u64>,
    /// How many there are; `None` while they are not sampled.
    pub interval_bytes: Option<u64>,
    pub counts: SampleCounts,
}

/// Events so far, and what is missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventCounts {
    pub lock_waits: locks::Counts,
    pub allocations: SampleCounts,
    pub traces: SampleCounts,
    pub statements: StatementFigures,
}

/// What `status` says of samples and events.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SamplingFigures {
    pub timers: TimerFigures,
    pub cpu: CpuSampleFigures,
    /// Looks at threads that may wait, and how many threads there are.
    pub looks: (u64, usize),
    /// Stacks that the walker's test compared, and walks from random registers for another.
    pub compared: usize,
    pub random_walks: u64,
    /// Waits for locks, and whether they include parks.
    pub lock_waits: locks::Counts,
    pub counts_parks: bool,
    pub allocations: AllocationFigures,
    /// Executions of SQL statements, if they are counted.
    pub statements: Option<StatementFigures>,
    /// Stacks of traced methods' calls, and how many times as few are taken as was asked for.
    pub traces: SampleCounts,
    pub trace_factor: u64,
    /// Why nothing is sampled, if that is not what was asked for.
    pub stopped: Option<NoSamples>,
}

/// What the rest of the drain knows: threads by the kernel's number, and call paths.
pub(super) struct Context<'c> {
    pub anchors: &'c Anchors,
    pub paths: &'c mut CallPaths,
    /// The kernel's number of the agent thread.
    pub own_os_id: OsThreadId,
    /// The log's id of a thread with probes.
    pub known: &'c dyn Fn(OsThreadId) -> Option<ThreadId>,
    /// The log's id of a virtual thread.
    pub virtual_thread: &'c mut dyn FnMut(u64) -> ThreadId,
    pub next_thread: &'c mut dyn FnMut() -> ThreadId,
}

impl Samples {
    pub(crate) fn new() -> Self {
        let cost_ns = cost::total_ns();
        Self { before: Counts::now(), cost_ns: (cost_ns, cost_ns), ..Self::default() }
    }

    /// Takes what was sampled since the last round. Returns the threads that are new in their second, for which names
    /// must be written while they are known.
    pub(super) fn round(
        &mut self,
        sampler: &mut Sampler<'_>,
        context: &mut Context<'_>,
        all: bool,
    ) -> Vec<(u64, ThreadId)> {
        self.threads.forget_gone();
        let now = Now::read();
        self.hot.get_or_insert_with(|| HotSamples::new(now)).go_on(now);
        self.unit_ns = sampler.weight_ns();
        self.names_bytes = sampler.bytes();
        (self.now, self.timers_refused, self.kernel_refused) = Sampler::counts();
        self.cost_ns.1 = cost::total_ns();
        self.interval_in_force_ns = sampler.current_interval_ns();
        let mut taken = Vec::new();
        sampler.round(|sample, shadow, frames| {
            taken.push((*sample, shadow.to_vec(), frames.to_vec()));
        });
        if sampler.generation() != self.generation {
            self.generation = sampler.generation();
            self.stacks.forget_method_ids();
        }
        let mut new = Vec::new();
        for (sample, shadow, frames) in taken {
            new.extend(self.add(&sample, &shadow, &frames, sampler, context));
        }
        let now_ns = clock::unix_ns();
        let times = sampler.off_cpu_times();
        // Its number may be another thread's from now on, one of these times.
        let forgotten = self.threads.forgotten(sampler.take_scanned());
        for gone in sampler.take_gone().into_iter().chain(forgotten) {
            new.extend(self.end_wait(gone.os_id));
            self.threads.is_gone(gone);
        }
        if !sampler.is_on() {
            self.threads.forget_ended();
        }
        for time in times {
            new.extend(self.add_off_cpu(&time, now_ns, sampler, context));
        }
        self.looks = sampler.looks().0;
        if all {
            let waiting: Vec<OsThreadId> = self.waits.keys().copied().collect();
            new.extend(waiting.into_iter().filter_map(|thread| self.end_wait(thread)));
        }
        new
    }

    /// Adds a time in which a thread did not run. Returns the second and thread of a wait that has ended, if the thread
    /// is new in that second.
    fn add_off_cpu(
        &mut self,
        time: &OffCpuTime,
        now_ns: u64,
        sampler: &mut Sampler<'_>,
        context: &mut Context<'_>,
    ) -> Option<(u64, ThreadId)> {
        let key = match &time.standing {
            None => self.waits.get(&time.os_id)?.key,
            Some(standing) => Key {
                kind: OFF_CPU,
                thread: self.thread(time.os_id, true, sampler, context),
                state: standing.waiting.name(),
                stack: self.stack_of_waiting(time.os_id, standing, sampler),
                path: StackId::NONE,
            },
        };
        self.hot.iter_mut().for_each(|hot| hot.add_waiting(key.state, time.ns));
        self.waited.add(key.state, key.stack, time.ns);
        let minute = now_ns / MINUTE_NS;
        if let Some(wait) = self.waits.get_mut(&time.os_id)
            && (wait.key, wait.minute) == (key, minute)
        {
            wait.sum.add(time.ns, 1);
            return None;
        }
        let ended = self.end_wait(time.os_id);
        let start_ns = now_ns.saturating_sub(time.ns);
        let sum = Sum { weight_ns: time.ns, count: 1 };
        self.waits.insert(time.os_id, Wait { key, start_ns, minute, sum });
        ended
    }

    /// A thread does not stand where it stood, or a minute has ended.
    fn end_wait(&mut self, os_id: OsThreadId) -> Option<(u64, ThreadId)> {
        let Wait { key, start_ns, sum, .. } = self.waits.remove(&os_id)?;
        self.add_to_second(start_ns, key, sum)
    }

    fn add_to_second(&mut self, at_ns: u64, key: Key, sum: Sum) -> Option<(u64, ThreadId)> {
        let start_ns = at_ns - at_ns % SECOND_NS;
        let second = self.seconds.entry(start_ns).or_default();
        second.sums.entry(key).or_default().add(sum.weight_ns, sum.count);
        second.threads.insert(key.thread).then_some((start_ns, key.thread))
    }

    /// The log's id of a platform thread; one that `is_listed` is one of Java's, though it may not have noted its name
    /// yet.
    pub(super) fn thread(
        &mut self,
        os_id: OsThreadId,
        is_listed: bool,
        sampler: &mut Sampler<'_>,
        context: &mut Context<'_>,
    ) -> ThreadId {
        (context.known)(os_id).unwrap_or_else(|| {
            // Names of CPU samples' threads were taken after the samples.
            if is_listed && sampler.thread_name(os_id).is_none() {
                sampler.take_new_names();
            }
            let sampler = &*sampler;
            let listed = || sampler.listed_name(os_id);
            let noted = sampler.thread_name(os_id);
            let java = noted.or_else(|| listed().filter(|_| is_listed));
            self.threads.id(os_id, java, listed, &mut *context.next_thread)
        })
    }

    fn stack_of_waiting(
        &mut self,
        os_id: OsThreadId,
        standing: &Standing,
        sampler: &mut Sampler<'_>,
    ) -> SampledStackId {
        let Standing { end, frames, .. } = standing;
        let root = match end {
            Some(end) => self.root(os_id, *end, frames),
            None if standing.waiting == Waiting::Runnable => {
                self.stacks.of_name("[waiting for a processor]")
            }
            None => self.stacks.of_name(self.threads.group(os_id)),
        };
        self.stacks.add_frames(root, frames, sampler)
    }

    /// Adds a sample. Returns its second and thread if the thread is new in that second.
    fn add(
        &mut self,
        sample: &Sample,
        shadow: &[u32],
        frames: &[Frame],
        sampler: &mut Sampler<'_>,
        context: &mut Context<'_>,
    ) -> Option<(u64, ThreadId)> {
        self.taken += 1;
        let in_kernel = frames.iter().take_while(|frame| frame.kernel().is_some()).count();
        let (in_kernel, frames) = frames.split_at(in_kernel);
        let natives = frames.iter().take_while(|frame| frame.native().is_some()).count();
        let (natives, java) = frames.split_at(natives);
        if !sample.end.is_whole() {
            let missing = if java.is_empty() { &mut self.failed } else { &mut self.truncated };
            *missing += 1;
        }
        let at_ns = context.anchors.unix_ns(sample.ticks);
        let thread = OsThreadId::new(sample.thread);
        let thread = match sample.virtual_thread {
            0 => self.thread(thread, false, sampler, context),
            number => (context.virtual_thread)(number),
        };
        let stack = self.stack_of(sample, natives, java, sampler);
        let stack = self.stacks.add_frames(stack, in_kernel, sampler);
        let path = self.path_of(shadow, context.paths);
        let key = Key { kind: CPU, thread, state: state(sample.state), stack, path };
        let weight_ns = u64::from(sample.weight) * self.unit_ns;
        sampler.add_native(if natives.is_empty() { 0 } else { weight_ns });
        sampler.add_in_kernel(if in_kernel.is_empty() { 0 } else { weight_ns });
        self.taken_ns += weight_ns;
        self.add_hot(stack, weight_ns);
        // Calls of the agent thread only measure what a call costs.
        if sampler.has_stacks() && sample.thread != context.own_os_id.get() {
            self.probes.all_ns += weight_ns;
            self.probes.probes_ns += if self.stacks.is_in_probe(stack) { weight_ns } else { 0 };
        }
        self.add_to_second(at_ns, key, Sum { weight_ns, count: 1 })
    }

    fn add_hot(&mut self, stack: SampledStackId, ns: u64) {
        let (Some(frame), Some(hot)) = (self.stacks.own_frame(stack), &mut self.hot) else {
            return;
        };
        let name = match self.hot_names.entry(frame) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => match self.stacks.frame_row(frame) {
                Some(row) => place.insert(Arc::new(SampledName::of(row))),
                None => return,
            },
        };
        hot.add_cpu(name, ns);
    }

    /// What `top` shows; `None` if nothing was sampled.
    pub(super) fn hottest(&mut self, period: Period, count: usize) -> Option<HotSampled> {
        Some(self.hot.as_mut()?.hottest(period, count, Now::read()))
    }

    /// The whole stack of a sample.
    fn stack_of(
        &mut self,
        sample: &Sample,
        natives: &[Frame],
        java: &[Frame],
        sampler: &mut Sampler<'_>,
    ) -> SampledStackId {
        let root = self.root(OsThreadId::new(sample.thread), sample.end, java);
        let stack = self.stacks.add_frames(root, java, sampler);
        match natives {
            [] if !java.is_empty() => stack,
            // The stack was not walked.
            [] => self.stacks.add_native(stack, sample.pc, sampler),
            _ => self.stacks.add_frames(stack, natives, sampler),
        }
    }

    /// The stack that a thread has read of itself.
    pub(super) fn stack_of_own(
        &mut self,
        os_id: OsThreadId,
        OwnStack { end, frames, .. }: &OwnStack,
        sampler: &mut Sampler<'_>,
    ) -> SampledStackId {
        let root = self.root(os_id, *end, frames);
        self.stacks.add_frames(root, frames, sampler)
    }

    /// The call path of a shadow stack.
    pub(super) fn path_of(&self, shadow: &[u32], paths: &mut CallPaths) -> StackId {
        // Those that are deeper are cut.
        if shadow.len() >= MAX_SHADOW || shadow.contains(&0) {
            return call_paths::UNKNOWN;
        }
        shadow
            .iter()
            .fold(StackId::NONE, |path, method| paths.id(path, ProbeId::new(*method).method()))
    }

    /// Rows of the seconds that are over by now; with `all`, of all.
    pub(super) fn take_rows(&mut self, now_ns: u64, all: bool) -> Vec<SampleRow> {
        let mut rows = Vec::new();
        while let Some(second) = self.seconds.first_entry() {
            let start_ns = *second.key();
            if !all && now_ns < start_ns + SECOND_NS + LATE_NS {
                break;
            }
            let mut sums: Vec<(Key, Sum)> = second.remove().sums.into_iter().collect();
            sums.sort_unstable_by_key(|(key, _)| *key);
            rows.extend(sums.into_iter().map(|(Key { kind, thread, state, stack, path }, sum)| {
                SampleRow {
                    start_ns,
                    thread,
                    kind: kind.to_owned(),
                    state: state.to_owned(),
                    weight_ns: sum.weight_ns,
                    samples: sum.count,
                    sampled_stack: stack,
                    stack: path,
                }
            }));
        }
        rows
    }

    /// Counts samples that are not written, to leave the hour's budget to recorded calls.
    pub(super) fn add_over_budget(&mut self, rows: &[SampleRow]) {
        self.over_budget += rows.iter().map(|row| row.samples).sum::<u64>();
    }

    /// The interval of CPU time between samples; 0 while nothing was sampled.
    pub(super) const fn interval_in_force_ns(&self) -> u64 {
        self.interval_in_force_ns
    }

    /// CPU time in probes by samples, so far.
    pub(super) const fn probes(&self) -> SampledProbes {
        self.probes
    }

    /// How long threads have waited in these methods since the last call.
    pub(super) fn take_waited(
        &mut self,
        methods: impl Iterator<Item = (MethodId, Method)>,
    ) -> Vec<(MethodId, Waits)> {
        self.waited.take(&self.stacks, methods)
    }

    /// What `status` says of them.
    pub(super) fn figures(&self, sampler: &Sampler<'_>, counts: EventCounts) -> SamplingFigures {
        let EventCounts { lock_waits, allocations, traces, statements } = counts;
        SamplingFigures {
            timers: sampler.timer_figures(),
            cpu: CpuSampleFigures {
                samples: self.taken,
                truncated: self.truncated,
                without_stack: self.failed,
                dropped: self.now.dropped.saturating_sub(self.before.dropped),
                taken_ns: self.taken_ns,
                cpu_ns: sampler.sampled_cpu_ns(),
                cost_share: sampler.cost_share(),
            },
            looks: sampler.looks(),
            compared: sampler.compared(),
            random_walks: sampler.random_walks(),
            lock_waits,
            counts_parks: park_probes::are_there(),
            allocations: AllocationFigures {
                chosen_bytes: sampler.events.alloc(),
                interval_bytes: allocations::interval(),
                counts: allocations,
            },
            statements: sampler.events.sql().map(|_| statements),
            traces,
            trace_factor: traced::factor(),
            stopped: sampler.stopped().cloned(),
        }
    }

    /// What was sampled, and what is missing.
    pub(super) fn counters(&self) -> [(&'static str, u64); 12] {
        let since = |of: fn(&Counts) -> u64| of(&self.now).saturating_sub(of(&self.before));
        [
            (counter::SAMPLES, self.taken),
            (counter::SAMPLES_TRUNCATED, self.truncated),
            (counter::SAMPLES_WITHOUT_STACK, self.failed),
            (counter::SAMPLES_DROPPED, since(|counts| counts.dropped)),
            (counter::SAMPLES_OVER_BUDGET, self.over_budget),
            (counter::SAMPLES_UNGUARDED, since(|counts| counts.unguarded)),
            (counter::FOREIGN_SIGNALS, since(|counts| counts.foreign)),
            (counter::GUARDED_FAULTS, since(|counts| counts.faults)),
            (counter::TIMERS_REFUSED, self.timers_refused),
            (counter::KERNEL_FRAMES_REFUSED, self.kernel_refused),
            (counter::OFF_CPU_LOOKS, self.looks),
            (counter::SAMPLING_NS, self.cost_ns.1.saturating_sub(self.cost_ns.0)),
        ]
    }

    /// The frame below a stack that is not whole, or of a thread that runs no Java code.
    fn root(&mut self, os_id: OsThreadId, end: End, frames: &[Frame]) -> SampledStackId {
        let name = match end {
            End::Whole | End::Continuation if !frames.is_empty() => return SampledStackId::NONE,
            End::NoJava | End::Whole | End::Continuation => self.threads.group(os_id).to_owned(),
            end if frames.is_empty() => format!("[no stack: {}]", end.name()),
            end => format!("[truncated: {}]", end.name()),
        };
        self.stacks.of_name(&name)
    }

    /// Their stacks and methods.
    pub(super) fn stacks(&self) -> &SampledStacks {
        &self.stacks
    }

    /// Forgets all stacks and methods. All rows are taken, and waits ended.
    pub(super) fn clear_stacks(&mut self) {
        self.waited.clear();
        self.stacks.clear();
        self.hot_names.clear();
    }

    /// A thread with probes has ended.
    pub(super) fn ended(&mut self, row: &ThreadRow) {
        if self.hot.is_some() {
            self.threads.ended(row);
        }
    }

    /// The threads that were met only in samples.
    pub(super) const fn threads(&self) -> &SampledThreads {
        &self.threads
    }

    pub(super) const fn threads_mut(&mut self) -> &mut SampledThreads {
        &mut self.threads
    }

    /// Approximate memory that they use.
    pub(super) fn bytes(&self) -> usize {
        self.hot.as_ref().map_or(0, HotSamples::bytes)
            + self.waited.bytes()
            + self.names_bytes
            + self.stacks.bytes()
            + self.waits.capacity() * size_of::<(u32, Wait)>()
    }
}

/// HotSpot's states of a thread.
fn state(number: u8) -> &'static str {
    match number {
        4 | 5 => "native",
        6 | 7 => "vm",
        8 | 9 => "java",
        10 | 11 => "blocked",
        _ => "",
    }
}
