//! Turns samples into rows: frames, stacks and threads get ids, and what a thread did in a second is one row for each
//! stack.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;

use log_format::ids::{FrameId, JavaThreadId, SampledStackId, StackId, ThreadId};
use log_format::rows::{FrameRow, SampleRow, SampledStackRow, ThreadRow, counter};
use log_format::writer::one_line;
use sampling_handler::queue::{MAX_SHADOW, Sample};
use sampling_handler::signal::Counts;
use sampling_handler::walk::{End, Frame};

use crate::drain::call_paths::{self, CallPaths};
use crate::probe::stack::method_of;
use crate::probe::thread::ThreadName;
use crate::sampling::cost;
use crate::sampling::methods::Named;
use crate::sampling::off_cpu::{OffCpuTime, Standing, Waiting};
use crate::sampling::sampler::Sampler;
use crate::sys::clock::{self, Anchors};

const SECOND_NS: u64 = 1_000_000_000;
/// How long after the end of a second its samples may still come.
const LATE_NS: u64 = SECOND_NS / 5;
/// Most stacks and methods that are kept; of the rest, only the innermost frame is. If half of them are there when an
/// hour ends, all begin anew.
const MOST_STACKS: usize = 200_000;
const MOST_FRAMES: usize = 100_000;

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

/// A thread that was met only in samples.
struct Seen {
    id: ThreadId,
    name: ThreadName,
    /// It is one of Java's; of others, the name says what they do.
    is_java: bool,
}

/// A thread that stands where it stood.
struct Wait {
    key: Key,
    start_ns: u64,
    /// The minute in which this began.
    minute: u64,
    sum: Sum,
}

/// All frames, stacks and threads of samples, by id from 1.
#[derive(Default)]
pub(crate) struct Samples {
    interval_ns: u64,
    frame_ids: HashMap<Named, FrameId>,
    frames: Vec<FrameRow>,
    stack_ids: HashMap<(SampledStackId, FrameId), SampledStackId>,
    stacks: Vec<(SampledStackId, FrameId)>,
    /// Ids that were given before they last began anew. No id is given twice.
    frames_before: u32,
    stacks_before: u32,
    /// By the kernel's number.
    seen: HashMap<u32, Seen>,
    /// Those of them that have ended, and those that were not in the last scan.
    gone: Vec<u32>,
    absent: HashSet<u32>,
    /// By the kernel's number of the thread.
    waits: HashMap<u32, Wait>,
    /// By the start of the second.
    seconds: BTreeMap<u64, Second>,
    /// Frames by the `jmethodID`, as long as ids keep their meaning.
    frame_of: HashMap<usize, FrameId>,
    generation: u64,
    over_budget: u64,
    taken: u64,
    /// The CPU time that they stand for.
    taken_ns: u64,
    /// Stacks of which outer frames are missing, and those that are missing as a whole.
    truncated: u64,
    failed: u64,
    /// What handlers had counted when the run began.
    before: Counts,
    now: Counts,
    timers_refused: u64,
    /// Looks at threads that may wait.
    looks: u64,
    /// What sampling had cost when the run began, and now.
    cost_ns: (u64, u64),
    /// The interval of CPU time in force; 0 while nothing was sampled.
    interval_in_force_ns: u64,
}

/// What `status` says of CPU samples.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SamplingFigures {
    /// The interval of CPU time in force.
    pub interval_ns: u64,
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
    /// Looks at threads that may wait, and how many threads there are.
    pub looks: (u64, usize),
    /// Stacks that the walker's test compared, and walks from random registers for another.
    pub compared: usize,
    pub random_walks: u64,
    /// The signal of the timers; `None` while there are none.
    pub signal: Option<&'static str>,
    /// Why nothing is sampled, if that is not what was asked for.
    pub stopped: Option<String>,
}

/// What the rest of the drain knows: threads by the kernel's number, and call paths.
pub(super) struct Context<'c> {
    pub anchors: &'c Anchors,
    pub paths: &'c mut CallPaths,
    /// The log's id of a thread with probes.
    pub known: &'c dyn Fn(u32) -> Option<ThreadId>,
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
        // Their last rows have been named.
        for gone in self.gone.drain(..) {
            self.seen.remove(&gone);
        }
        self.interval_ns = sampler.interval_ns();
        (self.now, self.timers_refused) = Sampler::counts();
        self.cost_ns.1 = cost::total_ns();
        self.interval_in_force_ns = sampler.current_interval_ns();
        let mut taken = Vec::new();
        sampler.round(|sample, shadow, frames| {
            taken.push((*sample, shadow.to_vec(), frames.to_vec()));
        });
        if sampler.generation() != self.generation {
            self.generation = sampler.generation();
            self.frame_of.clear();
        }
        let mut new = Vec::new();
        for (sample, shadow, frames) in taken {
            new.extend(self.add(&sample, &shadow, &frames, sampler, context));
        }
        let now_ns = clock::unix_ns();
        let times = sampler.off_cpu_times();
        // Its number may be another thread's from now on, one of these times.
        let gone = sampler.take_gone();
        let gone = gone.into_iter().chain(self.forgotten(sampler.take_scanned()));
        for gone in gone {
            new.extend(self.end_wait(gone));
            self.gone.push(gone);
        }
        for time in times {
            new.extend(self.add_off_cpu(&time, now_ns, sampler, context));
        }
        self.looks = sampler.looks().0;
        if all {
            let waiting: Vec<u32> = self.waits.keys().copied().collect();
            new.extend(waiting.into_iter().filter_map(|thread| self.end_wait(thread)));
        }
        new
    }

    /// Threads that were seen, and were in none of the last two scans: nobody saw their end.
    fn forgotten(&mut self, scanned: Option<&HashSet<u32>>) -> Vec<u32> {
        let Some(present) = scanned else { return Vec::new() };
        let absent = self.seen.keys().filter(|number| !present.contains(number));
        let absent: HashSet<u32> = absent.copied().collect();
        let forgotten = absent.intersection(&self.absent).copied().collect();
        self.absent = absent;
        forgotten
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
                thread: self.thread(time.os_id, sampler, context),
                state: standing.waiting.name(),
                stack: self.stack_of_waiting(time.os_id, standing, sampler),
                path: StackId::NONE,
            },
        };
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
    fn end_wait(&mut self, os_id: u32) -> Option<(u64, ThreadId)> {
        let Wait { key, start_ns, sum, .. } = self.waits.remove(&os_id)?;
        self.add_to_second(start_ns, key, sum)
    }

    fn add_to_second(&mut self, at_ns: u64, key: Key, sum: Sum) -> Option<(u64, ThreadId)> {
        let start_ns = at_ns - at_ns % SECOND_NS;
        let second = self.seconds.entry(start_ns).or_default();
        second.sums.entry(key).or_default().add(sum.weight_ns, sum.count);
        second.threads.insert(key.thread).then_some((start_ns, key.thread))
    }

    /// The log's id of a platform thread.
    fn thread(&mut self, os_id: u32, sampler: &Sampler<'_>, context: &mut Context<'_>) -> ThreadId {
        (context.known)(os_id).unwrap_or_else(|| self.seen(os_id, sampler, context))
    }

    fn stack_of_waiting(
        &mut self,
        os_id: u32,
        standing: &Standing,
        sampler: &mut Sampler<'_>,
    ) -> SampledStackId {
        let Standing { end, frames, .. } = standing;
        let root = match end {
            Some(end) => self.root(os_id, *end, frames),
            None if standing.waiting == Waiting::Runnable => {
                self.stack_of_name("[waiting for a processor]")
            }
            None => self.stack_of_name(self.group(os_id)),
        };
        self.add_frames(root, frames, sampler)
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
        if !sample.end.is_whole() {
            let missing = if frames.is_empty() { &mut self.failed } else { &mut self.truncated };
            *missing += 1;
        }
        let at_ns = context.anchors.unix_ns(sample.ticks);
        let thread = match sample.virtual_thread {
            0 => self.thread(sample.thread, sampler, context),
            number => (context.virtual_thread)(number),
        };
        let stack = self.stack_of(sample, frames, sampler);
        let path = self.path_of(shadow, context.paths);
        let key = Key { kind: CPU, thread, state: state(sample.state), stack, path };
        let weight_ns = u64::from(sample.weight) * self.interval_ns;
        self.taken_ns += weight_ns;
        self.add_to_second(at_ns, key, Sum { weight_ns, count: 1 })
    }

    /// The whole stack of a sample.
    fn stack_of(
        &mut self,
        sample: &Sample,
        frames: &[Frame],
        sampler: &mut Sampler<'_>,
    ) -> SampledStackId {
        let root = self.root(sample.thread, sample.end, frames);
        let stack = self.add_frames(root, frames, sampler);
        match sampler.library(sample.pc) {
            Some(library) => {
                let frame = self.frame(pseudo("native", &library));
                self.stack(stack, frame)
            }
            None => stack,
        }
    }

    /// Adds frames, which begin with the innermost, to a stack.
    fn add_frames(
        &mut self,
        root: SampledStackId,
        frames: &[Frame],
        sampler: &mut Sampler<'_>,
    ) -> SampledStackId {
        let mut stack = root;
        for frame in frames.iter().rev() {
            let known = self.frame_of.get(&frame.id()).copied();
            let frame = known.unwrap_or_else(|| {
                let id = self.frame(sampler.name(*frame).unwrap_or_else(unknown));
                self.frame_of.insert(frame.id(), id);
                id
            });
            stack = self.stack(stack, frame);
        }
        stack
    }

    /// The call path of a shadow stack.
    fn path_of(&self, shadow: &[u32], paths: &mut CallPaths) -> StackId {
        // Those that are deeper are cut.
        if shadow.len() >= MAX_SHADOW || shadow.contains(&0) {
            return call_paths::UNKNOWN;
        }
        shadow.iter().fold(StackId::NONE, |path, method| paths.id(path, method_of(*method)))
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

    /// What `status` says of them.
    pub(crate) fn figures(&self, sampler: &Sampler<'_>) -> SamplingFigures {
        SamplingFigures {
            interval_ns: sampler.current_interval_ns(),
            samples: self.taken,
            truncated: self.truncated,
            without_stack: self.failed,
            dropped: self.now.dropped.saturating_sub(self.before.dropped),
            taken_ns: self.taken_ns,
            cpu_ns: sampler.sampled_cpu_ns(),
            cost_share: sampler.cost_share(),
            looks: sampler.looks(),
            compared: sampler.compared(),
            random_walks: sampler.random_walks(),
            signal: sampler.signal(),
            stopped: sampler.stopped().map(ToString::to_string),
        }
    }

    /// What was sampled, and what is missing.
    pub(super) fn counters(&self) -> [(&'static str, u64); 11] {
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
            (counter::OFF_CPU_LOOKS, self.looks),
            (counter::SAMPLING_NS, self.cost_ns.1.saturating_sub(self.cost_ns.0)),
        ]
    }

    /// The frame below a stack that is not whole, or of a thread that runs no Java code.
    fn root(&mut self, os_id: u32, end: End, frames: &[Frame]) -> SampledStackId {
        let name = match end {
            End::Whole | End::Continuation if !frames.is_empty() => return SampledStackId::NONE,
            End::NoJava | End::Whole | End::Continuation => self.group(os_id).to_owned(),
            end if frames.is_empty() => format!("[no stack: {}]", end.name()),
            end => format!("[truncated: {}]", end.name()),
        };
        self.stack_of_name(&name)
    }

    /// A stack of one frame that is no method.
    fn stack_of_name(&mut self, name: &str) -> SampledStackId {
        let frame = self.frame(pseudo("other", name));
        self.stack(SampledStackId::NONE, frame)
    }

    /// What kind of thread it is that runs no Java code.
    fn group(&self, number: u32) -> &'static str {
        let Some(seen) = self.seen.get(&number) else { return "[no Java]" };
        let name = &*seen.name.name;
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        if seen.is_java {
            // The application may name its threads as it likes.
            let is_of_vm = ["Signal Dispatcher", "Notification Thread"].contains(&name);
            return if is_of_vm { "[vm]" } else { "[no Java]" };
        }
        if name.starts_with("tprofiler") {
            "[tprofiler]"
        } else if starts(&["C1 Comp", "C2 Comp", "JVMCI"]) {
            "[jit]"
        } else if starts(&["GC ", "G1 ", "Z", "Shenandoah", "XGC", "VM Periodic", "Concurrent"]) {
            "[gc]"
        } else if starts(&["VM ", "Monitor", "Service", "Signal", "Notification", "Sweeper"]) {
            "[vm]"
        } else {
            "[native thread]"
        }
    }

    fn seen(&mut self, number: u32, sampler: &Sampler<'_>, context: &mut Context<'_>) -> ThreadId {
        let seen = self.seen.entry(number).or_insert_with(|| {
            let java = sampler.thread_name(number);
            let comm = || {
                let name = fs::read_to_string(format!("/proc/self/task/{number}/comm"));
                let name = name.unwrap_or_default().trim_end().to_owned();
                ThreadName { name, java_id: JavaThreadId::NONE }
            };
            Seen {
                id: (context.next_thread)(),
                name: java.cloned().unwrap_or_else(comm),
                is_java: java.is_some(),
            }
        });
        seen.id
    }

    fn frame(&mut self, named: Named) -> FrameId {
        if let Some(id) = self.frame_ids.get(&named) {
            return *id;
        }
        if self.frames.len() >= MOST_FRAMES && named.kind == "java" {
            return self.frame(pseudo("other", "[too many methods]"));
        }
        let id = FrameId::new(next_id(self.frames_before, self.frames.len()));
        self.frames.push(row(id, &named));
        self.frame_ids.insert(named, id);
        id
    }

    /// The stack of `frame` above another stack, or none.
    fn stack(&mut self, parent: SampledStackId, frame: FrameId) -> SampledStackId {
        if let Some(id) = self.stack_ids.get(&(parent, frame)) {
            return *id;
        }
        if self.stacks.len() < MOST_STACKS {
            return self.keep_stack((parent, frame));
        }
        let root = self.frame(pseudo("other", "[too many stacks]"));
        let root = self.keep_stack((SampledStackId::NONE, root));
        self.keep_stack((root, frame))
    }

    fn keep_stack(&mut self, stack: (SampledStackId, FrameId)) -> SampledStackId {
        *self.stack_ids.entry(stack).or_insert_with(|| {
            let id = next_id(self.stacks_before, self.stacks.len());
            self.stacks.push(stack);
            SampledStackId::new(id)
        })
    }

    /// Whether there are so many stacks or methods that there may soon be no room for new ones.
    pub(super) fn are_many(&self) -> bool {
        self.stacks.len() >= MOST_STACKS / 2 || self.frames.len() >= MOST_FRAMES / 2
    }

    /// Forgets all stacks and methods. All rows are taken, and waits ended.
    pub(super) fn begin_anew(&mut self) {
        self.frames_before = next_id(self.frames_before, self.frames.len()) - 1;
        self.stacks_before = next_id(self.stacks_before, self.stacks.len()) - 1;
        (self.frame_ids, self.frames) = <_>::default();
        (self.stack_ids, self.stacks) = <_>::default();
        self.frame_of = HashMap::new();
    }

    pub(super) fn frame_row(&self, id: FrameId) -> Option<FrameRow> {
        self.frames.get(place(id.get(), self.frames_before)?).cloned()
    }

    pub(super) fn stack_row(&self, id: SampledStackId) -> Option<SampledStackRow> {
        let (parent, frame) = *self.stacks.get(place(id.get(), self.stacks_before)?)?;
        Some(SampledStackRow { id, parent, frame })
    }

    pub(super) fn thread_row(&self, id: ThreadId) -> Option<ThreadRow> {
        let (number, seen) = self.seen.iter().find(|(_, seen)| seen.id == id)?;
        Some(ThreadRow {
            id,
            java_id: seen.name.java_id,
            os_id: *number,
            name: one_line(&seen.name.name),
            kind: "platform".to_owned(),
        })
    }

    /// Approximate memory that they use.
    pub(super) fn bytes(&self) -> usize {
        const NAMES: usize = 100;
        self.stacks.capacity() * size_of::<(SampledStackId, FrameId)>()
            + self.waits.capacity() * size_of::<(u32, Wait)>()
            + self.stack_ids.capacity() * size_of::<((SampledStackId, FrameId), SampledStackId)>()
            + self.frames.len() * 2 * (size_of::<FrameRow>() + NAMES)
    }
}

/// The next id after those of before and these.
fn next_id(before: u32, len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX).saturating_add(before).saturating_add(1)
}

/// The place of an id; `None` if it was given before.
fn place(id: u32, before: u32) -> Option<usize> {
    Some(id.checked_sub(before)?.checked_sub(1)? as usize)
}

fn row(id: FrameId, named: &Named) -> FrameRow {
    let Named { kind, class, method, descriptor, source } = named;
    FrameRow {
        id,
        kind: (*kind).to_owned(),
        class: one_line(class),
        method: one_line(method),
        descriptor: one_line(descriptor),
        source: one_line(source),
    }
}

fn pseudo(kind: &'static str, name: &str) -> Named {
    Named {
        kind,
        class: String::new(),
        method: name.to_owned(),
        descriptor: String::new(),
        source: String::new(),
    }
}

fn unknown() -> Named {
    pseudo("java", "[unloaded]")
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

#[cfg(test)]
mod tests {
    use super::*;

    fn method(number: usize) -> Named {
        Named { kind: "java", ..pseudo("java", &format!("m{number}")) }
    }

    #[test]
    fn of_too_many_stacks_and_methods_the_innermost_frame_is_kept() {
        let mut samples = Samples::default();
        let frame = samples.frame(method(0));
        let fill = |samples: &mut Samples| {
            let mut parent = SampledStackId::NONE;
            (0..MOST_STACKS).for_each(|_| parent = samples.stack(parent, frame));
            parent
        };
        let last = fill(&mut samples);
        assert_eq!(samples.stack_row(last).map(|row| row.frame), Some(frame));
        let over = samples.stack(last, frame);
        let row = samples.stack_row(over).expect("a stack");
        assert_eq!(row.frame, frame);
        let root = samples.stack_row(row.parent).expect("a root");
        assert_eq!(root.parent, SampledStackId::NONE);
        let root = samples.frame_row(root.frame).expect("its frame");
        assert_eq!(root.method, "[too many stacks]");
        let frames: Vec<FrameId> =
            (0..MOST_FRAMES + 9).map(|number| samples.frame(method(number))).collect();
        let row = samples.frame_row(*frames.last().expect("many")).expect("a frame");
        assert_eq!((&*row.kind, &*row.method), ("other", "[too many methods]"));
        assert_eq!(samples.frame_row(frames[5]).expect("a frame").method, "m5");
    }

    #[test]
    fn no_id_is_given_twice() {
        let mut samples = Samples::default();
        assert!(!samples.are_many());
        let frames = [samples.frame(method(1)), samples.frame(method(2))];
        let stack = samples.stack(SampledStackId::NONE, frames[0]);
        samples.begin_anew();
        assert!(samples.frame_row(frames[1]).is_none() && samples.stack_row(stack).is_none());
        let again = samples.frame(method(2));
        assert!(!frames.contains(&again));
        let new = samples.stack(SampledStackId::NONE, again);
        assert_ne!(new, stack);
        assert_eq!(samples.frame_row(again).expect("a frame").method, "m2");
        assert_eq!(samples.stack_row(new).expect("a stack").frame, again);
    }
}
