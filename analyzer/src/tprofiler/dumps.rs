//! Reads `tsampler.log`: TProfiler's dumps of all threads, as samples of what threads do.
//!
//! A line says where a thread stood at one moment. It stands for the time until the next dump, so times are what they
//! are in samples of `wall`. A running thread is in the dumps too: `RUNNABLE` does not say whether it used a processor.

use std::collections::HashMap;
use std::io;

use log_format::ids::{JavaThreadId, ThreadId};
use log_format::reader::{BadLine, BadRow};

use super::dump_times::DumpTimes;
use super::files::{LogFile, OldLog, open};
use super::sampler_line::{EXPORT_MARK, SamplerLine};
use super::times_of_day::not_part_of;
use crate::input::problems::Problems;
use crate::options::By;
use crate::options::glob::Glob;
use crate::run::old_counts::OldCounts;
use crate::run::selection::Selection;
use crate::stats::aggregate::Group;
use crate::stats::method::{Method, MethodName};
use crate::stats::sampled_stacks::SampledStacks;
use crate::stats::thread_dumps::{DumpCounts, DumpedFrame, DumpedThread};

/// Frames that are kept of a stack; no JVM writes more.
const MOST_FRAMES: usize = 1_024;

/// Different frames that are kept of a log: no program has more.
const MOST_DIFFERENT: usize = 1_000_000;

/// Stands for the time until the next dump if there is none.
const ONLY_DUMP_NS: u64 = 1_000_000_000;

/// What is known of dumps apart from their stacks.
#[derive(Debug, Default)]
pub struct DumpsRead {
    /// Names of the threads, if these are groups.
    pub threads: HashMap<ThreadId, String>,
    /// How many dumps there are.
    pub counts: OldCounts,
}

/// Adds the selected dumps of a log: their time to `stacks`, each thread's to its group, and their lines to `counts`.
pub fn read_dumps(
    log: &OldLog,
    selection: &Selection,
    group: impl Fn(ThreadId) -> Group,
    problems: &mut Problems,
    stacks: &mut SampledStacks,
    counts: &mut DumpCounts,
) -> DumpsRead {
    let Some(file) = &log.dumps else { return DumpsRead::default() };
    if let Some(reason) = not_part_of(selection) {
        problems.unread(&file.path, reason);
        return DumpsRead::default();
    }
    let mut reader = DumpReader {
        selection,
        group,
        stacks,
        counts,
        entry: None,
        skips: false,
        frames: HashMap::new(),
        known: Vec::new(),
        lines: HashMap::new(),
        times: DumpTimes::default(),
        large: HashMap::new(),
        threads: HashMap::new(),
    };
    if let Err(error) = reader.read(file, problems) {
        problems.unread(&file.path, error);
    }
    reader.finish()
}

/// Passes the methods of a log's dumps to `look_at`.
pub fn look_at_dumped(log: &OldLog, mut look_at: impl FnMut(&MethodName)) {
    let Some(file) = &log.dumps else { return };
    // The reading of the dumps reports problems.
    let _ = each_line(file, &mut Problems::default(), |line| {
        if let Ok(SamplerLine::Frame(DumpedFrame { class, method, .. })) = SamplerLine::parse(line)
        {
            look_at(&MethodName { class, method, descriptor: String::new() });
        }
        Ok(())
    });
}

/// Passes each line that is neither blank nor [`EXPORT_MARK`] to `each`.
fn each_line(
    file: &LogFile,
    problems: &mut Problems,
    mut each: impl FnMut(&str) -> Result<(), BadRow>,
) -> io::Result<()> {
    let mut lines = open(&file.path, file.len)?;
    while let Some(line) = lines.next_line()? {
        let is_dump = |line: &str| !line.trim().is_empty() && line != EXPORT_MARK;
        let read = line.and_then(|line| if is_dump(line) { each(line) } else { Ok(()) });
        if let Err(reason) = read {
            problems.bad_line(&file.path, &BadLine { line: lines.number(), reason });
        }
    }
    if lines.is_torn() {
        problems.torn_line();
    }
    Ok(())
}

/// A thread whose frames are being read.
struct Entry {
    thread: DumpedThread,
    /// Places in the list of frames, from the innermost.
    frames: Vec<usize>,
}

/// A frame, and in how many lines it is.
struct KnownFrame {
    method: Method,
    frame: DumpedFrame,
    lines: u64,
}

struct DumpReader<'r, G> {
    selection: &'r Selection,
    group: G,
    stacks: &'r mut SampledStacks,
    counts: &'r mut DumpCounts,
    entry: Option<Entry>,
    /// Whether frames belong to a thread that is not selected or cannot be read.
    skips: bool,
    /// Places in the list of frames, by the text of the line.
    frames: HashMap<String, usize>,
    known: Vec<KnownFrame>,
    /// Threads that stood there, by group and stack.
    lines: HashMap<(Group, usize), u64>,
    times: DumpTimes,
    /// Ids of threads whose Java id is too large for one.
    large: HashMap<JavaThreadId, ThreadId>,
    threads: HashMap<ThreadId, String>,
}

impl<G: Fn(ThreadId) -> Group> DumpReader<'_, G> {
    fn read(&mut self, file: &LogFile, problems: &mut Problems) -> io::Result<()> {
        let read = each_line(file, problems, |line| self.line(line));
        self.end_entry();
        read
    }

    fn line(&mut self, line: &str) -> Result<(), BadRow> {
        if !SamplerLine::is_of_thread(line) {
            return self.frame(line);
        }
        self.end_entry();
        // The frames of a line that is no thread are not those of the thread before it.
        self.skips = true;
        if let SamplerLine::Thread { thread, shown_s } = SamplerLine::parse(line)? {
            self.times.add(thread.id, shown_s);
            let pattern = self.selection.calls.thread.as_ref();
            let is_named = |pattern: &Glob| {
                let label = format!("{} #{}", thread.name, thread.id);
                pattern.matches(&thread.name) || pattern.has_number() && pattern.matches(&label)
            };
            if pattern.is_none_or(is_named) {
                self.entry = Some(Entry { thread, frames: Vec::new() });
            }
        }
        Ok(())
    }

    fn frame(&mut self, line: &str) -> Result<(), BadRow> {
        let Some(entry) = &mut self.entry else {
            // A file may begin within a thread's frames; one message is enough.
            let is_reported = std::mem::replace(&mut self.skips, true);
            return if is_reported { Ok(()) } else { Err("a frame without its thread".into()) };
        };
        if entry.frames.len() == MOST_FRAMES {
            return Ok(());
        }
        if let Some(place) = self.frames.get(line) {
            entry.frames.push(*place);
            return Ok(());
        }
        let SamplerLine::Frame(frame) = SamplerLine::parse(line)? else { return Ok(()) };
        if self.known.len() == MOST_DIFFERENT {
            return Err("more different frames than any program has".into());
        }
        entry.frames.push(self.known.len());
        self.frames.insert(line.to_owned(), self.known.len());
        let method = Method::named(&frame.class, &frame.method, "");
        self.known.push(KnownFrame { method, frame, lines: 0 });
        Ok(())
    }

    /// Adds the thread whose frames have been read.
    fn end_entry(&mut self) {
        let Some(Entry { thread, frames }) = self.entry.take() else { return };
        let mut stack = 0;
        for place in frames.into_iter().rev() {
            if let Some(known) = self.known.get_mut(place) {
                known.lines += 1;
                stack = self.stacks.stack(stack, &known.method);
            }
        }
        let state = Method::named("", &format!("[{}]", thread.state.name()), "");
        let stack = self.stacks.stack(stack, &state);
        let id = self.id(thread.id);
        *self.lines.entry(((self.group)(id), stack)).or_default() += 1;
        if self.selection.by == By::Thread {
            self.threads.entry(id).or_insert_with(|| format!("{} #{}", thread.name, thread.id));
        }
        self.counts.add_thread(thread, 1);
    }

    /// The id of a thread: Java's, as in the log of calls.
    fn id(&mut self, java_id: JavaThreadId) -> ThreadId {
        let next = u32::MAX.saturating_sub(u32::try_from(self.large.len()).unwrap_or(u32::MAX));
        match u32::try_from(java_id.get()) {
            Ok(id) => ThreadId::new(id),
            Err(_) => *self.large.entry(java_id).or_insert(ThreadId::new(next)),
        }
    }

    fn finish(self) -> DumpsRead {
        let interval_ns = self.times.interval_ns();
        for ((group, stack), lines) in self.lines {
            let ns = lines.saturating_mul(interval_ns.unwrap_or(ONLY_DUMP_NS));
            self.stacks.add(group, stack, ns, lines);
        }
        let pattern = self.selection.method.as_ref();
        for KnownFrame { frame, lines, .. } in self.known {
            if lines > 0 && pattern.is_none_or(|of| of.method(&frame.class, &frame.method)) {
                self.counts.add_frame(frame, lines);
            }
        }
        let counts = OldCounts {
            dumps: self.times.dumps(),
            dump_interval_ns: interval_ns.map(|ns| (ns, ns)),
            ..OldCounts::default()
        };
        DumpsRead { threads: self.threads, counts }
    }
}
