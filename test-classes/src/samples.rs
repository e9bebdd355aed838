//! Reads the samples of a run.

use std::collections::BTreeMap;
use std::path::Path;

use log_format::ids::{FrameId, JavaThreadId, MethodId, SampledStackId, StackId, ThreadId};
use log_format::rows::{
    ExceptionExampleRow, FrameRow, LockKind, LockWaitRow, SampleRow, SampledStackRow, StackRow,
    ThreadRow, TraceRow,
};

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
        let is_method = |frame: &&String| {
            !frame.starts_with('[') && !frame.starts_with("java.lang.invoke.$TProfiler")
        };
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

/// The waits for locks of a run that took long enough to be recorded.
///
/// # Panics
/// As [`samples`].
#[must_use]
pub fn lock_waits(run: &Path) -> Vec<LockWait> {
    let names = Names::of(run);
    let wait = |row: LockWaitRow| LockWait {
        thread: names.thread(row.thread).0,
        kind: row.kind,
        class: row.class,
        wait_ns: row.wait_ns,
        owner: (!row.owner.is_none()).then(|| names.thread(row.owner).0),
        owner_frames: row.owner_stack.map(|stack| names.frames(stack)).unwrap_or_default(),
        frames: names.frames(row.sampled_stack),
        path: names.path(row.stack),
    };
    rows::<LockWaitRow>(run).into_iter().map(wait).collect()
}

/// A wait for a lock.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct LockWait {
    pub thread: String,
    pub kind: LockKind,
    pub class: String,
    pub wait_ns: u64,
    pub owner: Option<String>,
    /// Where the owner was, as [`Sampled::frames`]; empty if that is not known.
    pub owner_frames: Vec<String>,
    /// As [`Sampled::frames`].
    pub frames: Vec<String>,
    /// As [`Sampled::path`].
    pub path: Vec<MethodName>,
}

/// The examples of exceptions of a run.
///
/// # Panics
/// As [`samples`].
#[must_use]
pub fn exception_examples(run: &Path) -> Vec<ExceptionExample> {
    let names = Names::of(run);
    let example = |row: ExceptionExampleRow| ExceptionExample {
        thread: names.thread(row.thread).0,
        class: row.class,
        message: row.message,
        frames: names.frames(row.sampled_stack),
        path: names.path(row.stack),
    };
    rows::<ExceptionExampleRow>(run).into_iter().map(example).collect()
}

/// Calls of traced methods of a run.
///
/// # Panics
/// As [`samples`].
#[must_use]
pub fn traced_calls(run: &Path) -> Vec<TracedCalls> {
    let (names, methods) = (Names::of(run), methods(run));
    let calls = |row: TraceRow| TracedCalls {
        thread: names.thread(row.thread).0,
        method: methods[&row.method].clone(),
        calls: row.calls,
        samples: row.samples,
        frames: names.frames(row.sampled_stack),
        path: names.path(row.stack),
    };
    rows::<TraceRow>(run).into_iter().map(calls).collect()
}

/// Calls of a traced method in a second with the same stack.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct TracedCalls {
    pub thread: String,
    pub method: MethodName,
    pub calls: u64,
    pub samples: u64,
    /// As [`Sampled::frames`].
    pub frames: Vec<String>,
    /// As [`Sampled::path`].
    pub path: Vec<MethodName>,
}

/// An exception that began to leave a method.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct ExceptionExample {
    pub thread: String,
    pub class: String,
    pub message: String,
    /// As [`Sampled::frames`].
    pub frames: Vec<String>,
    /// As [`Sampled::path`].
    pub path: Vec<MethodName>,
}

fn of_kind(run: &Path, kind: &str) -> Vec<Sampled> {
    let names = Names::of(run);
    let sampled = |row: SampleRow| {
        let (thread, java_id) = names.thread(row.thread);
        Sampled {
            kind: row.kind,
            start_ns: row.start_ns,
            thread,
            java_id,
            state: row.state,
            weight_ns: row.weight_ns,
            samples: row.samples,
            frames: names.frames(row.sampled_stack),
            path: names.path(row.stack),
        }
    };
    let rows = rows::<SampleRow>(run).into_iter();
    rows.filter(|row| row.kind == kind).map(sampled).collect()
}

/// Names of threads and stacks.
pub(crate) struct Names {
    methods: BTreeMap<MethodId, MethodName>,
    paths: BTreeMap<StackId, (StackId, MethodId)>,
    stacks: BTreeMap<SampledStackId, (SampledStackId, FrameId)>,
    frames: BTreeMap<FrameId, String>,
    threads: BTreeMap<ThreadId, (String, JavaThreadId)>,
}

impl Names {
    pub(crate) fn of(run: &Path) -> Self {
        let name = |row: &FrameRow| match row.class.is_empty() {
            true => row.method.clone(),
            false => format!("{}.{}", row.class, row.method),
        };
        let path = |row: StackRow| (row.id, (row.parent, row.method));
        let stack = |row: SampledStackRow| (row.id, (row.parent, row.frame));
        let thread = |row: ThreadRow| (row.id, (row.name, row.java_id));
        Self {
            methods: methods(run),
            paths: rows(run).into_iter().map(path).collect(),
            stacks: rows(run).into_iter().map(stack).collect(),
            frames: rows::<FrameRow>(run).iter().map(|row| (row.id, name(row))).collect(),
            threads: rows(run).into_iter().map(thread).collect(),
        }
    }

    pub(crate) fn thread(&self, id: ThreadId) -> (String, JavaThreadId) {
        self.threads.get(&id).expect("a thread has a name").clone()
    }

    /// From the outermost.
    pub(crate) fn frames(&self, stack: SampledStackId) -> Vec<String> {
        let mut found = Vec::new();
        let mut next = stack;
        while !next.is_none() {
            let (parent, frame) = self.stacks.get(&next).expect("a sampled stack has a row");
            found.push(self.frames.get(frame).expect("a frame has a name").clone());
            next = *parent;
        }
        found.reverse();
        found
    }

    /// From the outermost.
    pub(crate) fn path(&self, stack: StackId) -> Vec<MethodName> {
        let mut path = Vec::new();
        let mut next = stack;
        while let Some((parent, method)) = self.paths.get(&next) {
            path.push(self.methods.get(method).cloned().unwrap_or_default());
            next = *parent;
        }
        path.reverse();
        path
    }
}
