//! Reads the samples of a run.

use std::collections::HashMap;

use log_format::file_names::Table;
use log_format::ids::{FrameId, SampledStackId, ThreadId};
use log_format::reader::BadRow;
use log_format::rows::{FrameRow, SampleRow, SampledStackRow};
use log_format::writer::one_line;

use crate::input::problems::Problems;
use crate::input::runs::{DataFile, RunInput};
use crate::input::table_rows::{TablePart, read_part, read_rows};
use crate::options::By;
use crate::run::names::{Names, name_files};
use crate::run::native_names::readable;
use crate::run::selection::Selection;
use crate::stats::aggregate::Group;
use crate::stats::method::{Method, MethodName};
use crate::stats::sampled_stacks::{Sampled, SampledStacks, is_of_jdk};

/// Most frames of a stack: rows that name each other as callers would loop for ever.
const MOST_FRAMES: usize = 1_024;

/// Adds the selected samples of a run, each to its group. Returns the names of their threads if these are groups.
pub fn read_samples(
    run: &RunInput,
    selection: &Selection,
    group: impl Fn(&SampleRow) -> Group,
    problems: &mut Problems,
    sampled: &mut Sampled,
) -> HashMap<ThreadId, String> {
    if !has_samples(run) {
        return HashMap::new();
    }
    let names = SampleNames::read(run, problems);
    let by_thread = selection.by == By::Thread;
    let needs_threads = by_thread || selection.calls.thread.is_some();
    let thread_names = if needs_threads {
        // Problems with these names are reported where all names are read.
        Names::read_threads_of(run, &mut Problems::default())
    } else {
        Names::default()
    };
    let mut threads = HashMap::new();
    let mut stacks = Stacks { names: &names, cpu: HashMap::new(), off_cpu: HashMap::new() };
    each_sample(
        run,
        selection,
        &thread_names,
        problems,
        |_| true,
        |row| {
            if stacks.add(&row, selection, &group, sampled) && by_thread {
                threads.entry(row.thread).or_insert_with(|| thread_names.thread(row.thread));
            }
            Ok(())
        },
    );
    threads
}

/// Passes each row of samples of a run that `takes` says to `each`, in the order of the files, if its thread is
/// selected. `names` has the names of threads, if the selection asks for some. If `each` refuses a row, it is a bad
/// line.
pub fn each_sample(
    run: &RunInput,
    selection: &Selection,
    names: &Names,
    problems: &mut Problems,
    takes: impl Fn(&SampleRow) -> bool,
    mut each: impl FnMut(SampleRow) -> Result<(), BadRow>,
) {
    let pattern = selection.calls.thread.as_ref();
    let threads = pattern.map(|pattern| names.threads_named_by(pattern));
    for file in files(run) {
        let progress = Some(&selection.progress);
        let part = TablePart { path: &file.path, len: file.len, progress };
        read_part(part, problems, |row: SampleRow| {
            let is_selected = threads.as_ref().is_none_or(|threads| threads.contains(&row.thread));
            if is_selected && takes(&row) { each(row) } else { Ok(()) }
        });
    }
}

/// Whether a row has selected CPU samples.
pub fn is_sample(row: &SampleRow, selection: &Selection) -> bool {
    row.kind == "cpu" && selection.range.contains(row.start_ns)
}

/// Whether a row has selected CPU samples or waits.
pub fn is_sample_or_wait(row: &SampleRow, selection: &Selection) -> bool {
    is_sample(row, selection) || waited_ns(row, selection) > 0
}

/// How long a thread stood where a row says, in the selected time: without pauses from the row's start on, because the
/// log does not say when it ran in between.
fn waited_ns(row: &SampleRow, selection: &Selection) -> u64 {
    let end_ns = row.start_ns.saturating_add(row.weight_ns);
    let is_wait = row.kind == "off_cpu";
    if is_wait { selection.range.part_ns(row.start_ns, end_ns) } else { 0 }
}

/// The stacks of the run that are known among those of all runs.
struct Stacks<'n> {
    names: &'n SampleNames,
    cpu: HashMap<SampledStackId, usize>,
    /// By what threads did there.
    off_cpu: HashMap<String, HashMap<SampledStackId, usize>>,
}

impl Stacks<'_> {
    /// Adds a row, if it is selected.
    fn add(
        &mut self,
        row: &SampleRow,
        selection: &Selection,
        group: impl Fn(&SampleRow) -> Group,
        sampled: &mut Sampled,
    ) -> bool {
        let Self { names, cpu, off_cpu } = self;
        let id = row.sampled_stack;
        if is_sample(row, selection) {
            let to = &mut sampled.cpu;
            let stack = *cpu.entry(id).or_insert_with(|| names.add_stack(id, to));
            to.add(group(row), stack, row.weight_ns, row.samples);
            return true;
        }
        let part_ns = waited_ns(row, selection);
        if part_ns == 0 {
            return false;
        }
        if !off_cpu.contains_key(&row.state) {
            off_cpu.insert(row.state.clone(), HashMap::new());
        }
        let to = &mut sampled.off_cpu;
        let known = off_cpu.get_mut(&row.state).and_then(|known| known.get(&id).copied());
        let stack = known.unwrap_or_else(|| {
            let state = Method::named("", &format!("[{}]", one_line(&row.state)), "");
            let below = names.add_stack(id, to);
            to.stack(below, &state)
        });
        if let Some(known) = off_cpu.get_mut(&row.state) {
            known.insert(id, stack);
        }
        to.add(group(row), stack, part_ns, row.samples);
        true
    }
}

/// Passes the methods of a run's samples to `look_at`.
pub fn look_at_sampled(run: &RunInput, mut look_at: impl FnMut(&MethodName)) {
    // The reading of the samples reports problems.
    let problems = &mut Problems::default();
    for (_, path) in name_files(run, &[Table::Frames], problems) {
        read_rows(
            &path,
            u64::MAX,
            problems,
            |FrameRow { kind, class, method, descriptor, .. }| {
                if kind == "java" && !class.is_empty() {
                    look_at(&MethodName { class, method, descriptor });
                }
                Ok(())
            },
        );
    }
}

/// Whether a run has samples.
pub fn has_samples(run: &RunInput) -> bool {
    files(run).next().is_some()
}

fn files(run: &RunInput) -> impl Iterator<Item = &DataFile> {
    run.files.iter().filter(|file| file.table == Table::Samples)
}

/// A frame of a sampled stack.
pub struct SampledFrame {
    /// Its method, or what else it is.
    pub method: Method,
    /// The source file as the class file names it, or empty.
    pub source: String,
}

/// What samples of a run refer to.
pub struct SampleNames {
    frames: HashMap<FrameId, SampledFrame>,
    /// The stack of the caller, and the frame on top.
    stacks: HashMap<SampledStackId, (SampledStackId, FrameId)>,
    /// Stands for what has no row.
    missing: SampledFrame,
}

impl SampleNames {
    /// Reads the frames and sampled stacks of a run, of all of its hours.
    pub fn read(run: &RunInput, problems: &mut Problems) -> Self {
        let method = Method::named("", "[missing]", "");
        let missing = SampledFrame { method, source: String::new() };
        let mut names = Self { frames: HashMap::new(), stacks: HashMap::new(), missing };
        for (table, path) in name_files(run, &[Table::Frames, Table::SampledStacks], problems) {
            if table == Table::Frames {
                read_rows(&path, u64::MAX, problems, |row: FrameRow| {
                    let method = match &*row.kind {
                        "native" => Method::named(&row.class, &readable(&row.method), ""),
                        _ => Method::named(&row.class, &row.method, &row.descriptor),
                    };
                    names.frames.insert(row.id, SampledFrame { method, source: row.source });
                    Ok(())
                });
            } else {
                read_rows(&path, u64::MAX, problems, |row: SampledStackRow| {
                    names.stacks.insert(row.id, (row.parent, row.frame));
                    Ok(())
                });
            }
        }
        names
    }

    /// The methods of a stack from the top, at least one.
    pub fn frames(&self, id: SampledStackId) -> Vec<&Method> {
        self.sampled_frames(id).into_iter().map(|frame| &frame.method).collect()
    }

    /// The frames of a stack from the top, at least one.
    pub fn sampled_frames(&self, id: SampledStackId) -> Vec<&SampledFrame> {
        let mut frames = Vec::new();
        let mut next = id;
        while frames.is_empty() || !next.is_none() && frames.len() < MOST_FRAMES {
            let Some((parent, frame)) = self.stacks.get(&next) else {
                frames.push(&self.missing);
                break;
            };
            frames.push(self.frames.get(frame).unwrap_or(&self.missing));
            next = *parent;
        }
        frames
    }

    /// The innermost method of a stack outside the JDK, else the method on top.
    pub fn outside_jdk(&self, id: SampledStackId) -> Method {
        let frames = self.frames(id);
        let outside = frames.iter().find(|method| !is_of_jdk(method)).or(frames.first());
        outside.map_or_else(|| self.missing.method.clone(), |method| (*method).clone())
    }

    /// The innermost methods of a stack outside the JDK, at most `most`; if there are none, the method on top. Hidden
    /// classes have another name in each run.
    pub fn innermost(&self, id: SampledStackId, most: usize) -> Vec<Method> {
        let is_shown = |method: &&&Method| !is_of_jdk(method) && !method.parts().0.contains(".0x");
        let frames = self.frames(id);
        let shown = frames.iter().filter(is_shown).take(most);
        let shown: Vec<Method> = shown.map(|method| (*method).clone()).collect();
        let top = || frames.first().map(|method| (*method).clone());
        if shown.is_empty() { top().into_iter().collect() } else { shown }
    }

    /// Adds a stack of the run to those of all runs.
    pub fn add_stack(&self, id: SampledStackId, to: &mut SampledStacks) -> usize {
        self.frames(id).into_iter().rev().fold(0, |stack, frame| to.stack(stack, frame))
    }
}
