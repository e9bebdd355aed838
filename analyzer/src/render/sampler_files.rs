//! The files of TProfiler's sampler, for scripts that read them: `tsampler.log`, from samples, and what its analysis
//! makes of it:
//!
//! ```text
//! samplermethodresult.log   com.shop.Order.pay(Order.java:42) <tab> lines       classes from com and org
//! samplerthreadresult.log   id <tab> name <tab> RUNNABLE <tab> thread lines
//! ```
//!
//! The largest count comes first. Each row of samples is one thread line, so counts are those of rows.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use log_format::ids::{JavaThreadId, SampledStackId, ThreadId};
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
    let mut rows: HashMap<SampledStackId, u64> = HashMap::new();
    let mut failed = None;
    each_sample_or_wait(run, selection, &threads, problems, |row| {
        if failed.is_none() {
            let frames = names.sampled_frames(row.sampled_stack);
            let thread = DumpedThread {
                id: java_id(&threads, row.thread),
                name: threads.thread_name(row.thread),
                state: state(&row, &frames),
            };
            failed = write_stack(&thread, row.start_ns, &frames, out).err();
            counts.add_thread(thread, 1);
            *rows.entry(row.sampled_stack).or_default() += 1;
        }
        Ok(())
    });
    let pattern = selection.method.as_ref();
    for (stack, lines) in rows {
        for frame in names.sampled_frames(stack).into_iter().filter_map(dumped) {
            if pattern.is_none_or(|of| of.method(&frame.class, &frame.method)) {
                counts.add_frame(frame, lines);
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// A thread's id in Java; of a thread that has none, or whose is unknown, its id in the log.
fn java_id(threads: &Names, id: ThreadId) -> JavaThreadId {
    let known = threads.named_thread(id).map(|thread| thread.java_id);
    known.filter(|id| !id.is_none()).unwrap_or(JavaThreadId::new(id.get().into()))
}

fn write_stack(
    thread: &DumpedThread,
    start_ns: u64,
    frames: &[&SampledFrame],
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}", ThreadLine(thread, start_ns / NS_PER_S))?;
    let mut frames = frames.iter().copied().filter_map(dumped);
    frames.try_for_each(|frame| writeln!(out, "{}", one_line(&frame.to_string())))
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
