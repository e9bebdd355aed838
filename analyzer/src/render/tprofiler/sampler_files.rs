//! The files of TProfiler's sampler, for scripts that read them: `tsampler.log`, from samples, and what its analysis
//! makes of it:
//!
//! ```text
//! samplermethodresult.log   com.shop.Order.pay(Order.java:42) <tab> lines       classes from com and org
//! samplerthreadresult.log   id <tab> name <tab> RUNNABLE <tab> thread lines
//! ```
//!
//! The largest count comes first.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use log_format::ids::{JavaThreadId, SampledStackId, ThreadId};
use log_format::pattern::Pattern;
use log_format::rows::SampleRow;
use log_format::writer::one_line;

use crate::analysis::{Selected, select};
use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::options::Options;
use crate::render::shared::output::to_file;
use crate::render::shared::streamed::StreamError;
use crate::run::cpu_samples::{
    SampleNames, SampledFrame, each_sample, has_samples, is_sample_or_wait,
};
use crate::run::names::Names;
use crate::run::selection::Selection;
use crate::stats::aggregate::Group;
use crate::stats::sampled_stacks::{SampledStacks, is_part_of_caller};
use crate::stats::thread_dumps::{DumpCounts, DumpedFrame, DumpedThread, ThreadState};
use crate::tprofiler::{EXPORT_MARK, ThreadLine, is_export, read_dumps};

const SAMPLER: &str = "tsampler.log";

const NS_PER_S: u64 = 1_000_000_000;

/// A row of a wait lasts up to a minute and an interval between looks, which is a minute at most.
const LONGEST_WAIT_S: u64 = 120;

/// How long a second waits for its last row: that of a wait is written when it has ended.
const HELD_S: u64 = LONGEST_WAIT_S + 10;

/// The kind of a row of a wait.
const OFF_CPU: &str = "off_cpu";

/// What TProfiler's analysis counts.
const COUNTED: [&str; 2] = ["com", "org"];

/// Writes the files into a folder, if the logs have samples or dumps: `tsampler.log` only from samples, because a copy
/// could replace the log that it is made from. Returns what could not be read.
///
/// # Errors
/// There is nothing to read, or a file cannot be written.
pub fn write(options: &Options, folder: &Path) -> Result<Problems, StreamError> {
    // The report has the problems of finding the logs.
    let (found, _) = select(options, &Arc::default(), &mut Problems::default())?;
    let Selected { runs, old_logs, selection } = &found;
    let mut problems = Problems::default();
    let mut counts = DumpCounts::default();
    let sampled: Vec<&RunInput> = runs.iter().filter(|run| has_samples(run)).collect();
    if !sampled.is_empty() {
        let file = folder.join(SAMPLER);
        if file.exists() && !is_export(&file) {
            let why = format!("{} is TProfiler's: choose another folder", file.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why).into());
        }
        to_file(&file, |out| {
            writeln!(out, "{EXPORT_MARK}")?;
            sampled
                .iter()
                .try_for_each(|run| write_run(run, selection, &mut counts, &mut problems, out))
        })?;
    }
    // A log that was named, and has been replaced, has the samples that are counted.
    let is_ours = |path: &Path| !sampled.is_empty() && is_same(path, &folder.join(SAMPLER));
    let old_logs = old_logs.iter().flatten();
    for log in old_logs.filter(|log| log.dumps_path().is_some_and(|path| !is_ours(path))) {
        let stacks = &mut SampledStacks::default();
        read_dumps(log, selection, |_| Group::All, &mut problems, stacks, &mut counts);
    }
    if !sampled.is_empty() || !counts.is_empty() {
        to_file(&folder.join("samplermethodresult.log"), |out| methods(&counts, out))?;
        to_file(&folder.join("samplerthreadresult.log"), |out| threads(&counts, out))?;
    }
    Ok(problems)
}

/// Whether two paths are the same existing file.
fn is_same(one: &Path, other: &Path) -> bool {
    fs::canonicalize(one).is_ok_and(|one| fs::canonicalize(other).is_ok_and(|other| one == other))
}

/// Frame lines and how often they occur.
fn methods(counts: &DumpCounts, out: &mut dyn Write) -> io::Result<()> {
    let frames = counts.frames().into_iter().map(|(frame, lines)| (frame.to_string(), lines));
    for (frame, lines) in frames.filter(|(frame, _)| COUNTED.iter().any(|of| frame.starts_with(of)))
    {
        writeln!(out, "{}\t{lines}", one_line(&frame))?;
    }
    Ok(())
}

/// Threads in a state and how often they were.
fn threads(counts: &DumpCounts, out: &mut dyn Write) -> io::Result<()> {
    for (DumpedThread { id, name, state }, lines) in counts.threads() {
        writeln!(out, "{id}\t{}\t{}\t{lines}", one_line(name), state.java_name())?;
    }
    Ok(())
}

/// Writes the samples of a run as dumps, and counts them.
fn write_run(
    run: &RunInput,
    selection: &Selection,
    counts: &mut DumpCounts,
    problems: &mut Problems,
    out: &mut dyn Write,
) -> io::Result<()> {
    let names = SampleNames::read(run, problems);
    // Problems with these names are reported where all names are read.
    let threads = Names::read_threads_of(run, &mut Problems::default());
    let stacks = HashMap::new();
    let mut dumps =
        Dumps { names: &names, threads: &threads, seconds: BTreeMap::new(), counts, stacks, out };
    let mut failed = None;
    let takes = |row: &SampleRow| is_sample_or_wait(row, selection);
    each_sample(run, selection, &threads, problems, takes, |row| {
        if failed.is_none() {
            failed = dumps.add(&row, selection).err();
        }
        Ok(())
    });
    failed.map_or_else(|| dumps.finish(selection.method.as_ref()), Err)
}

/// A thread, what it did, and its stack.
type Stood = (JavaThreadId, ThreadState, SampledStackId);

/// What was sampled in a second.
#[derive(Default)]
struct Second {
    /// For how long, in ns.
    times: BTreeMap<Stood, u64>,
    /// The threads in the log.
    threads: HashMap<JavaThreadId, ThreadId>,
}

/// The dumps of a run: one a second, with a line a thread.
struct Dumps<'d> {
    names: &'d SampleNames,
    threads: &'d Names,
    /// What is not written yet: a row of a wait comes after those of the seconds in which it lasted.
    seconds: BTreeMap<u64, Second>,
    counts: &'d mut DumpCounts,
    /// Lines of threads by stack.
    stacks: HashMap<SampledStackId, u64>,
    out: &'d mut dyn Write,
}

impl Dumps<'_> {
    /// Adds a row: of a wait, to each second in which it lasted. Threads that are not Java's are not dumped.
    fn add(&mut self, row: &SampleRow, selection: &Selection) -> io::Result<()> {
        let first_s = row.start_ns / NS_PER_S;
        if let Some(thread) = java_id(self.threads, row.thread) {
            let state = state(row, &self.names.sampled_frames(row.sampled_stack));
            for (at_s, ns) in seconds(row, selection) {
                let second = self.seconds.entry(at_s).or_default();
                let sum = second.times.entry((thread, state, row.sampled_stack)).or_default();
                *sum = sum.saturating_add(ns);
                second.threads.insert(thread, row.thread);
            }
        }
        self.write_until(first_s.saturating_sub(HELD_S))
    }

    /// Writes the dumps before a second.
    fn write_until(&mut self, end_s: u64) -> io::Result<()> {
        while let Some(first) = self.seconds.first_entry().filter(|first| *first.key() < end_s) {
            let (at_s, Second { times, threads }) = first.remove_entry();
            let times: Vec<(Stood, u64)> = times.into_iter().collect();
            for of_thread in times.chunk_by(|((one, ..), _), ((other, ..), _)| one == other) {
                let Some((id, state, stack)) = longest(of_thread) else { continue };
                let name = threads.get(&id).map(|thread| self.threads.thread_name(*thread));
                let thread = DumpedThread { id, name: name.unwrap_or_default(), state };
                self.write_thread(at_s, thread, stack)?;
            }
        }
        Ok(())
    }

    fn write_thread(
        &mut self,
        at_s: u64,
        thread: DumpedThread,
        stack: SampledStackId,
    ) -> io::Result<()> {
        writeln!(self.out, "{}", ThreadLine(&thread, at_s))?;
        let frames = self.names.sampled_frames(stack).into_iter().filter_map(dumped);
        for frame in frames {
            writeln!(self.out, "{}", one_line(&frame.to_string()))?;
        }
        self.counts.add_thread(thread, 1);
        *self.stacks.entry(stack).or_default() += 1;
        Ok(())
    }

    /// Writes the rest, and counts the frames of the selected methods.
    fn finish(mut self, pattern: Option<&Pattern>) -> io::Result<()> {
        self.write_until(u64::MAX)?;
        for (stack, lines) in self.stacks {
            for frame in self.names.sampled_frames(stack).into_iter().filter_map(dumped) {
                if pattern.is_none_or(|of| of.method(&frame.class, &frame.method)) {
                    self.counts.add_frame(frame, lines);
                }
            }
        }
        Ok(())
    }
}

/// The seconds of a row, and how long each was, in ns: samples belong to the second in which they were taken, a wait
/// lasts from its start on.
fn seconds(row: &SampleRow, selection: &Selection) -> Vec<(u64, u64)> {
    let first_s = row.start_ns / NS_PER_S;
    if row.kind != OFF_CPU {
        return vec![(first_s, row.weight_ns)];
    }
    let end_ns = row.start_ns.saturating_add(row.weight_ns);
    let part = |at_s: u64| {
        let from_ns = at_s.saturating_mul(NS_PER_S);
        let to_ns = from_ns.saturating_add(NS_PER_S).min(end_ns);
        let ns = selection.range.part_ns(from_ns.max(row.start_ns), to_ns);
        (ns > 0).then_some((at_s, ns))
    };
    let touched = (first_s..first_s.saturating_add(LONGEST_WAIT_S))
        .take_while(|at_s| at_s.saturating_mul(NS_PER_S) < end_ns);
    touched.filter_map(part).collect()
}

/// What a thread did longest, and the stack on which it did that longest. Times are sorted by state.
fn longest(times: &[(Stood, u64)]) -> Option<Stood> {
    let of_states = times.chunk_by(|((_, one, _), _), ((_, other, _), _)| one == other);
    let sum =
        |times: &&[(Stood, u64)]| times.iter().fold(0_u64, |sum, (_, ns)| sum.saturating_add(*ns));
    let of_state = of_states.max_by_key(sum)?;
    of_state.iter().max_by_key(|(_, ns)| *ns).map(|(stood, _)| *stood)
}

/// A thread's id in Java; `None` if it has none.
fn java_id(threads: &Names, id: ThreadId) -> Option<JavaThreadId> {
    threads.named_thread(id).map(|thread| thread.java_id).filter(|id| !id.is_none())
}

/// A frame as Java prints it, whose line the log does not have; `None` if it is none of Java's, or a probe.
fn dumped(frame: &SampledFrame) -> Option<DumpedFrame> {
    let SampledFrame { method, source } = frame;
    let (class, name, _) = method.parts();
    let place = if source.is_empty() { "Unknown Source" } else { source };
    (!class.is_empty() && !is_part_of_caller(method)).then(|| DumpedFrame {
        class: java_name(class),
        method: name.into_owned(),
        place: place.to_owned(),
    })
}

/// A class as `Class.getName()` names it: the log has a dot before the number of a hidden class, Java a slash.
fn java_name(class: &str) -> String {
    match class.rsplit_once('.') {
        Some((class, number)) if number.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{class}/{number}")
        }
        _ => class.to_owned(),
    }
}

/// What `Thread.getState()` would have returned.
fn state(row: &SampleRow, frames: &[&SampledFrame]) -> ThreadState {
    let is_wait = row.kind == OFF_CPU;
    match row.state.as_str() {
        "blocked" if is_wait => ThreadState::Blocked,
        "waiting" if is_wait => ThreadState::Waiting,
        "timed_waiting" | "sleeping" if is_wait => ThreadState::TimedWaiting,
        "parked" if is_wait && has_time_limit(frames) => ThreadState::TimedWaiting,
        "parked" if is_wait => ThreadState::Waiting,
        _ => ThreadState::Runnable,
    }
}

/// Whether a parked thread has called a method that takes a limit.
fn has_time_limit(frames: &[&SampledFrame]) -> bool {
    frames.iter().any(|frame| {
        let (class, name, _) = frame.method.parts();
        class == "java.util.concurrent.locks.LockSupport"
            && ["parkNanos", "parkUntil"].contains(&&*name)
    })
}
