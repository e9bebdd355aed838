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

use super::output::to_file;
use super::streamed::StreamError;
use crate::analysis::{Selected, select};
use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::options::Options;
use crate::run::cpu_samples::{SampleNames, SampledFrame, each_sample_or_wait, has_samples};
use crate::run::names::Names;
use crate::run::selection::Selection;
use crate::stats::aggregate::Group;
use crate::stats::sampled_stacks::{SampledStacks, is_part_of_caller};
use crate::stats::thread_dumps::{DumpCounts, DumpedFrame, DumpedThread, ThreadState};
use crate::tprofiler::{ThreadLine, read_dumps};

const SAMPLER: &str = "tsampler.log";

const NS_PER_S: u64 = 1_000_000_000;

/// A row of a wait lasts up to a minute and an interval between looks, which is a minute at most.
const LONGEST_WAIT_S: u64 = 120;

/// What TProfiler's analysis counts.
const COUNTED: [&str; 2] = ["com", "org"];

/// Writes the files into a folder, if the logs have samples or dumps: `tsampler.log` only from samples, because a copy
/// could replace the log that it is made from. Returns what could not be read.
///
/// # Errors
/// There is nothing to read, or a file cannot be written.
pub fn write(options: &Options, folder: &Path) -> Result<Problems, StreamError> {
    // The report has told the problems of finding the logs.
    let (found, _) = select(options, &Arc::default(), &mut Problems::default())?;
    let Selected { runs, old_logs, selection } = &found;
    let mut problems = Problems::default();
    let mut counts = DumpCounts::default();
    let sampled: Vec<&RunInput> = runs.iter().filter(|run| has_samples(run)).collect();
    if !sampled.is_empty() {
        to_file(&folder.join(SAMPLER), |out| {
            sampled
                .iter()
                .try_for_each(|run| write_run(run, selection, &mut counts, &mut problems, out))
        })?;
    }
    // An earlier output that lies among the logs has been replaced, and its samples are counted.
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
    each_sample_or_wait(run, selection, &threads, problems, |row| {
        if failed.is_none() {
            failed = dumps.add(&row, selection).err();
        }
        Ok(())
    });
    failed.map_or_else(|| dumps.finish(selection.method.as_ref()), Err)
}

/// A thread, what it did, and its stack.
type Stood = (ThreadId, ThreadState, SampledStackId);

/// The dumps of a run: one a second, with every stack that a sample found in it.
struct Dumps<'d> {
    names: &'d SampleNames,
    threads: &'d Names,
    /// What is not written yet: a row of a wait comes after those of the seconds in which it lasted.
    seconds: BTreeMap<u64, Vec<Stood>>,
    counts: &'d mut DumpCounts,
    /// Lines of threads by stack.
    stacks: HashMap<SampledStackId, u64>,
    out: &'d mut dyn Write,
}

impl Dumps<'_> {
    /// Adds a row: of a wait, to each second in which it lasted.
    fn add(&mut self, row: &SampleRow, selection: &Selection) -> io::Result<()> {
        let seconds = row.weight_ns.div_ceil(NS_PER_S).clamp(1, LONGEST_WAIT_S);
        let stood = (
            row.thread,
            state(row, &self.names.sampled_frames(row.sampled_stack)),
            row.sampled_stack,
        );
        for second in 0..seconds {
            let at_ns = row.start_ns.saturating_add(second * NS_PER_S);
            if selection.range.contains(at_ns) {
                self.seconds.entry(at_ns / NS_PER_S).or_default().push(stood);
            }
        }
        self.write_until((row.start_ns / NS_PER_S).saturating_sub(LONGEST_WAIT_S))
    }

    /// Writes the dumps before a second.
    fn write_until(&mut self, end_s: u64) -> io::Result<()> {
        while let Some(first) = self.seconds.first_entry().filter(|first| *first.key() < end_s) {
            let (at_s, stood) = first.remove_entry();
            stood.into_iter().try_for_each(|stood| self.write_stack(at_s, stood))?;
        }
        Ok(())
    }

    fn write_stack(&mut self, at_s: u64, (id, state, stack): Stood) -> io::Result<()> {
        let name = self.threads.thread_name(id);
        let thread = DumpedThread { id: java_id(self.threads, id), name, state };
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

/// A thread's id in Java; of a thread that has none, or whose is unknown, its id in the log.
fn java_id(threads: &Names, id: ThreadId) -> JavaThreadId {
    let known = threads.named_thread(id).map(|thread| thread.java_id);
    known.filter(|id| !id.is_none()).unwrap_or(JavaThreadId::new(id.get().into()))
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
    let is_wait = row.kind == "off_cpu";
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
