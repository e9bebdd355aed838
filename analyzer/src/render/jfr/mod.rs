//! A recording for JDK Mission Control and the JDK's `jfr`: CPU samples as `jdk.ExecutionSample`, recorded calls as
//! `jdk.MethodTrace`, recorded waits for monitors as `jdk.JavaMonitorEnter`, parks as `jdk.ThreadPark`, sampled
//! allocations as `jdk.ObjectAllocationSample`, examples of exceptions as `jdk.JavaExceptionThrow`.
//!
//! There is no specification of the format; it is that of `jdk.jfr.internal.consumer.ChunkHeader` and `ChunkParser`
//! in OpenJDK. A recording is a sequence of chunks. A chunk belongs to one run and has a limited size: its header has
//! its length, so it is kept until it is full.

mod chunk;
mod constants;
mod encoding;
mod types;

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use log_format::file_names::Table;
use log_format::ids::{SampledStackId, ThreadId};
use log_format::reader::BadRow;
use log_format::rows::{
    AllocationRow, CallRow, ExceptionExampleRow, LockKind, LockWaitRow, SampleRow,
};

use self::chunk::Chunk;
use self::constants::{Constants, NONE, RUNNABLE, StackKey};
use self::encoding::{number, text};
use self::types::{
    ALLOCATION_SAMPLE, EXCEPTION_THROW, EXECUTION_SAMPLE, JVM_INFORMATION, METHOD_TRACE,
    MONITOR_ENTER, THREAD_PARK,
};
use super::shared::streamed::{self, EventFormat, Said, StreamError};
use crate::input::problems::Problems;
use crate::input::progress::Progress;
use crate::input::runs::RunInput;
use crate::options::Options;
use crate::run::allocations::{each_allocation, has_allocations};
use crate::run::cpu_samples::{SampleNames, each_sample, has_samples, is_sample};
use crate::run::exceptions::{each_example, has_examples};
use crate::run::lock_waits::{each_lock_wait, has_lock_waits};
use crate::run::names::{NamedThread, Names};
use crate::run::recorded_calls::{RecordFilter, read_records};
use crate::run::selection::Selection;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::is_part_of_caller;

/// Most samples that a thread may have in a second: twice what the shortest interval allows.
const MOST_SAMPLES: u64 = 20_000;

const NS_PER_S: u64 = 1_000_000_000;

/// Moments that are not known.
const NO_MOMENT: u64 = 1 << 63;

/// Writes the recording.
///
/// # Errors
/// There is nothing to read, or the output cannot be written.
pub fn write(
    options: &Options,
    progress: &Arc<Progress>,
    out: &mut dyn Write,
) -> Result<Said, StreamError> {
    streamed::write(options, progress, |runs| {
        let has_many_runs = runs.len() > 1;
        let metadata = types::metadata();
        let constants = Constants::default();
        Ok(Recording { out, metadata, constants, has_many_runs, has_events: false })
    })
}

struct Recording<'o> {
    out: &'o mut dyn Write,
    metadata: Vec<u8>,
    /// Of the chunks before, between two runs.
    constants: Constants,
    has_many_runs: bool,
    /// Whether there are samples or calls.
    has_events: bool,
}

impl EventFormat for Recording<'_> {
    const TABLES: &'static [Table] = &[
        Table::Calls,
        Table::Samples,
        Table::LockWaits,
        Table::Allocations,
        Table::ExceptionExamples,
    ];
    const NOT_OF_TPROFILER: &'static str = "of a recording: they have no times";
    const EMPTY: &'static str =
        "no recorded calls, CPU samples, lock waits, allocations or examples of exceptions";

    fn run(
        &mut self,
        _: usize,
        run: &RunInput,
        selection: &Selection,
        problems: &mut Problems,
    ) -> io::Result<usize> {
        // Problems with them are reported where the counters are read.
        let names = Names::read(run, &mut Problems::default());
        let label = run.label.as_str().into();
        self.constants.next_run();
        let chunk = Chunk::new(run.about.start_ns, std::mem::take(&mut self.constants));
        let mut events =
            RunEvents { recording: self, run, names: &names, label, chunk, failed: None };
        let filter = RecordFilter::new(selection, &names);
        let unfinished = read_records(run, &filter, problems, |row| events.call(&row));
        if [has_samples, has_lock_waits, has_allocations, has_examples].iter().any(|has| has(run)) {
            let mut samples = Samples::read(run, selection, problems);
            let takes = |row: &SampleRow| is_sample(row, selection);
            let add = |row: SampleRow| samples.add(&row, &mut events);
            each_sample(run, selection, &names, problems, takes, add);
            let add = |row: LockWaitRow| samples.add_lock_wait(&row, &mut events);
            each_lock_wait(run, selection, &names, problems, add);
            let add = |row: AllocationRow| samples.add_allocation(&row, &mut events);
            each_allocation(run, selection, &names, problems, add);
            let add = |row: ExceptionExampleRow| samples.add_exception(&row, &mut events);
            each_example(run, selection, &names, problems, add);
        }
        events.end().map(|()| unfinished)
    }

    fn end(&mut self) -> io::Result<bool> {
        Ok(self.has_events)
    }
}

impl Recording<'_> {
    fn write(&mut self, chunk: &Chunk) -> io::Result<()> {
        chunk.write(&self.metadata, self.out)
    }
}

/// Writes the events of a run.
struct RunEvents<'r, 'o> {
    recording: &'r mut Recording<'o>,
    run: &'r RunInput,
    names: &'r Names,
    label: Arc<str>,
    chunk: Chunk,
    /// The first failure; nothing is written after it.
    failed: Option<io::Error>,
}

impl RunEvents<'_, '_> {
    /// As in the JDK, the stack begins with the caller.
    fn call(&mut self, row: &CallRow) {
        let method = self.names.method_or_unknown(row.method, &self.label);
        let method = self.chunk.constants.method(&method);
        let stack = self.callers(row);
        let thread = self.thread(row.thread);
        self.chunk.add_long(METHOD_TRACE, row.start_ns, row.total_ns, |out| {
            [thread, stack, method].into_iter().for_each(|field| number(out, field));
        });
        self.added();
    }

    fn callers(&mut self, row: &CallRow) -> u64 {
        let mut path = self.names.path(row.stack);
        // The path of a call that was not kept does not end in its method.
        if path.next() != Some(row.method) {
            return NONE;
        }
        let key = StackKey::Callers(row.stack);
        if let Some(known) = self.chunk.constants.known_stack(key) {
            return known;
        }
        let (names, label) = (self.names, &self.label);
        let mut is_truncated = false;
        let mut callers = Vec::new();
        for id in path {
            is_truncated |= id.is_none();
            if !id.is_none() {
                callers.push(names.method_or_unknown(id, label));
            }
        }
        if callers.is_empty() {
            return NONE;
        }
        self.chunk.constants.add_stack(key, callers.iter(), is_truncated)
    }

    fn thread(&mut self, id: ThreadId) -> u64 {
        let (names, label, is_one_of_many) =
            (self.names, &self.label, self.recording.has_many_runs);
        self.chunk.constants.thread(id, || {
            let named = names.named_thread(id).cloned().unwrap_or_default();
            let name = names.thread_name(id);
            let name = if is_one_of_many { format!("{name} in {label}") } else { name };
            NamedThread { name, ..named }
        })
    }

    /// Writes the chunk if it is full.
    fn added(&mut self) {
        self.recording.has_events = true;
        if self.chunk.is_full() {
            self.write();
        }
    }

    fn write(&mut self) {
        let about = &self.run.about;
        self.chunk.add(JVM_INFORMATION, self.chunk.start_ns(), |out| {
            text(out, Some(&about.jvm));
            // Version, arguments and flags of the JVM.
            (0..3).for_each(|_| text(out, None));
            text(out, Some(&about.command_line));
            number(out, NO_MOMENT);
            number(out, u64::from(about.pid));
        });
        if self.failed.is_none() {
            self.failed = self.recording.write(&self.chunk).err();
        }
        self.chunk.next();
    }

    fn end(mut self) -> io::Result<()> {
        if !self.chunk.is_empty() {
            self.write();
        }
        self.recording.constants = self.chunk.constants;
        self.failed.map_or(Ok(()), Err)
    }
}

/// Makes events of the samples of a run, its lock waits and its exceptions.
struct Samples<'s> {
    names: SampleNames,
    selection: &'s Selection,
    /// Whether a stack passes through the selected methods.
    selected: HashMap<SampledStackId, bool>,
    written: u64,
}

impl<'s> Samples<'s> {
    fn read(run: &RunInput, selection: &'s Selection, problems: &mut Problems) -> Self {
        let names = SampleNames::read(run, problems);
        Self { names, selection, selected: HashMap::new(), written: 0 }
    }

    /// Adds the samples of a row, one by one.
    fn add(&mut self, row: &SampleRow, events: &mut RunEvents) -> Result<(), BadRow> {
        if row.samples > MOST_SAMPLES {
            return Err("more samples than a second can have".into());
        }
        if !self.is_selected(row.sampled_stack) || events.failed.is_some() {
            return Ok(());
        }
        for _ in 0..row.samples {
            let stack = self.stack(row.sampled_stack, &mut events.chunk);
            let thread = events.thread(row.thread);
            let at_ns = row.start_ns.saturating_add(spread(self.written));
            self.written = self.written.wrapping_add(1);
            events.chunk.add(EXECUTION_SAMPLE, at_ns, |out| {
                [thread, stack, RUNNABLE].into_iter().for_each(|field| number(out, field));
            });
            events.added();
        }
        Ok(())
    }

    fn add_lock_wait(&mut self, row: &LockWaitRow, events: &mut RunEvents) {
        if !self.is_selected(row.sampled_stack) || events.failed.is_some() {
            return;
        }
        let stack = self.stack(row.sampled_stack, &mut events.chunk);
        let class = events.chunk.constants.class(&row.class);
        let thread = events.thread(row.thread);
        if row.kind == LockKind::Monitor {
            let owner = if row.owner.is_none() { NONE } else { events.thread(row.owner) };
            events.chunk.add_long(MONITOR_ENTER, row.start_ns, row.wait_ns, |out| {
                [thread, stack, class, owner].into_iter().for_each(|field| number(out, field));
            });
        } else {
            events.chunk.add_long(THREAD_PARK, row.start_ns, row.wait_ns, |out| {
                [thread, stack, class].into_iter().for_each(|field| number(out, field));
            });
        }
        events.added();
    }

    /// Adds the samples of a row, one by one.
    fn add_allocation(&mut self, row: &AllocationRow, events: &mut RunEvents) {
        if !self.is_selected(row.sampled_stack) || events.failed.is_some() {
            return;
        }
        for place in 0..row.samples.min(MOST_SAMPLES) {
            let stack = self.stack(row.sampled_stack, &mut events.chunk);
            let class = events.chunk.constants.class(&row.class);
            let thread = events.thread(row.thread);
            // The first has what is left of the division.
            let rest = if place == 0 { row.bytes % row.samples } else { 0 };
            let weight = row.bytes / row.samples + rest;
            let at_ns = row.start_ns.saturating_add(spread(self.written));
            self.written = self.written.wrapping_add(1);
            events.chunk.add(ALLOCATION_SAMPLE, at_ns, |out| {
                [thread, stack, class, weight].into_iter().for_each(|field| number(out, field));
            });
            events.added();
        }
    }

    fn add_exception(&mut self, row: &ExceptionExampleRow, events: &mut RunEvents) {
        if !self.is_selected(row.sampled_stack) || events.failed.is_some() {
            return;
        }
        let stack = self.stack(row.sampled_stack, &mut events.chunk);
        let class = events.chunk.constants.class(&row.class);
        let thread = events.thread(row.thread);
        let message = Some(row.message.as_str()).filter(|message| !message.is_empty());
        events.chunk.add(EXCEPTION_THROW, row.start_ns, |out| {
            [thread, stack].into_iter().for_each(|field| number(out, field));
            text(out, message);
            number(out, class);
        });
        events.added();
    }

    fn is_selected(&mut self, stack: SampledStackId) -> bool {
        let Some(pattern) = &self.selection.method else { return true };
        let names = &self.names;
        let is_named = |frame: &&Method| {
            let (class, name, _) = frame.parts();
            pattern.method(class, &name)
        };
        let selected = self.selected.entry(stack);
        *selected.or_insert_with(|| names.frames(stack).iter().any(is_named))
    }

    /// The stack without the frames that count for their callers, as in all reports: the frame on top has the CPU
    /// time.
    fn stack(&self, id: SampledStackId, chunk: &mut Chunk) -> u64 {
        let key = StackKey::Sampled(id);
        if let Some(known) = chunk.constants.known_stack(key) {
            return known;
        }
        let frames = self.names.frames(id);
        let outermost = frames.len().saturating_sub(1);
        let is_truncated =
            frames.last().is_some_and(|frame| frame.parts().1.starts_with("[truncated"));
        let shown = frames.into_iter().enumerate();
        let shown = shown.filter(|(place, frame)| *place == outermost || !is_part_of_caller(frame));
        chunk.constants.add_stack(key, shown.map(|(_, frame)| frame), is_truncated)
    }
}

/// Where in its second a sample lies: the log does not say. Multiples of the golden ratio spread any number of samples
/// evenly.
fn spread(number: u64) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    ((number.wrapping_mul(GOLDEN) >> 32) * NS_PER_S) >> 32
}
