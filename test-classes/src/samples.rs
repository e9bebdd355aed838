//! Reads the samples of a run.

use std::collections::BTreeMap;
use std::path::Path;

use log_format::ids::JavaThreadId;
use log_format::rows::{FrameRow, SampleRow, SampledStackRow, StackRow, ThreadRow};

use crate::profile::{MethodName, methods, rows};

/// Samples of a thread in a second that have the same stack.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Sampled {
    pub kind: String,
    pub start_ns: u64,
    pub thread: String,
    /// `Thread.getId()`; none of a thread that is not one of Java's.
    pub java_id: JavaThreadId,
    pub state: String,
    pub weight_ns: u64,
    pub samples: u64,
    /// Frames from the outermost: `class.method`, or a name in brackets.
    pub frames: Vec<String>,
    /// Instrumented methods from the outermost.
    pub path: Vec<MethodName>,
}

impl Sampled {
    /// Whether its thread runs Java code, known or not.
    #[must_use]
    pub fn is_java(&self) -> bool {
        let is_class = |frame: &String| !frame.starts_with('[');
        self.lacks_stack() || self.frames.iter().any(is_class)
    }

    /// Whether the whole Java stack is missing.
    #[must_use]
    pub fn lacks_stack(&self) -> bool {
        self.frames.first().is_some_and(|frame| frame.starts_with("[no stack"))
    }

    /// Whether outer frames are missing.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.frames.first().is_some_and(|frame| frame.starts_with("[truncated"))
    }

    /// The innermost Java method that is no probe.
    #[must_use]
    pub fn top(&self) -> Option<&str> {
        let is_method =
            |frame: &&String| !frame.starts_with('[') && !frame.starts_with("java.lang.$TProfiler");
        self.frames.iter().rfind(is_method).map(String::as_str)
    }
}

/// The CPU samples of a run.
///
/// # Panics
/// If its logs are not flawless.
#[must_use]
pub fn samples(run: &Path) -> Vec<Sampled> {
    of_kind(run, "cpu")
}

/// The times in which threads of a run did not run.
///
/// # Panics
/// As [`samples`].
#[must_use]
pub fn off_cpu(run: &Path) -> Vec<Sampled> {
    of_kind(run, "off_cpu")
}

/// The source files of the classes of a run's frames.
///
/// # Panics
/// As [`samples`].
#[must_use]
pub fn sources(run: &Path) -> BTreeMap<String, String> {
    rows::<FrameRow>(run).into_iter().map(|row| (row.class, row.source)).collect()
}

fn of_kind(run: &Path, kind: &str) -> Vec<Sampled> {
    let methods = methods(run);
    let by_id = |row: StackRow| (row.id, (row.parent, row.method));
    let paths: BTreeMap<_, _> = rows::<StackRow>(run).into_iter().map(by_id).collect();
    let by_id = |row: SampledStackRow| (row.id, (row.parent, row.frame));
    let stacks: BTreeMap<_, _> = rows::<SampledStackRow>(run).into_iter().map(by_id).collect();
    let name = |row: &FrameRow| match row.class.is_empty() {
        true => row.method.clone(),
        false => format!("{}.{}", row.class, row.method),
    };
    let frames: BTreeMap<_, _> =
        rows::<FrameRow>(run).iter().map(|row| (row.id, name(row))).collect();
    let threads: BTreeMap<_, _> =
        rows::<ThreadRow>(run).into_iter().map(|row| (row.id, (row.name, row.java_id))).collect();
    let sampled = |row: SampleRow| {
        let mut found = Vec::new();
        let mut next = row.sampled_stack;
        while !next.is_none() {
            let (parent, frame) = stacks.get(&next).expect("a sampled stack has a row");
            found.push(frames.get(frame).expect("a frame has a name").clone());
            next = *parent;
        }
        found.reverse();
        let mut path = Vec::new();
        let mut next = row.stack;
        while let Some((parent, method)) = paths.get(&next) {
            path.push(methods.get(method).cloned().unwrap_or_default());
            next = *parent;
        }
        path.reverse();
        let (thread, java_id) = threads.get(&row.thread).expect("a thread has a name").clone();
        Sampled {
            kind: row.kind,
            start_ns: row.start_ns,
            thread,
            java_id,
            state: row.state,
            weight_ns: row.weight_ns,
            samples: row.samples,
            frames: found,
            path,
        }
    };
    let rows = rows::<SampleRow>(run).into_iter();
    rows.filter(|row| row.kind == kind).map(sampled).collect()
}
