//! Calls that have been in progress for long: what `inflight` shows. It shows a hanging call before that call ends.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::thread;

use log_format::ids::{JavaThreadId, OsThreadId};

use crate::drain::thread_reader::JavaThreads;
use crate::instrument::methods::{Method, Methods};
use crate::probe::open_frames::{self, BETWEEN_READINGS, OpenFrame};
use crate::probe::thread::{ThreadName, ThreadRef};
use crate::probe::{self, mounts};
use crate::sys::clock;

/// Most threads that are shown; those whose innermost long call has run longest come first.
const MAX_THREADS: usize = 100;
/// Threads whose stacks are read together.
const READ_AT_ONCE: usize = 256;
/// Calls of a thread that are shown: the outermost and the innermost ones.
pub(crate) const OUTERMOST: usize = 16;
const INNERMOST: usize = 48;

/// The calls in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub threads: Vec<BusyThread>,
    /// Further threads with such calls.
    pub more_threads: usize,
}

/// A thread in which a call has run for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BusyThread {
    pub name: String,
    /// `Thread.getId()`, or 0.
    pub java_id: JavaThreadId,
    /// The kernel's thread id, or 0 for a virtual thread.
    pub os_id: OsThreadId,
    pub is_virtual: bool,
    /// From the outermost on.
    pub calls: Vec<RunningCall>,
    /// Calls that are not shown, after the first [`OUTERMOST`].
    pub more_calls: usize,
}

/// A call in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningCall {
    pub method: Method,
    pub start_ticks: u64,
    /// How long it has run.
    pub ns: u64,
    /// Whether it has run for at least the requested time; if not, its caller has.
    pub is_long: bool,
}

/// What is read from a thread.
pub(crate) struct Seen<'t> {
    /// `None` for a virtual thread that is not mounted.
    pub thread: Option<&'t ThreadRef>,
    /// The virtual thread, or 0.
    pub number: JavaThreadId,
    /// Calls in progress, outermost first.
    pub frames: Vec<OpenFrame>,
}

/// Looks at all threads. `name_of` returns the name of a virtual thread by its number.
pub(crate) fn look<'t>(
    threads: impl Iterator<Item = &'t ThreadRef>,
    methods: &Methods,
    java: &dyn JavaThreads,
    name_of: &dyn Fn(JavaThreadId) -> String,
    least_ns: u64,
) -> InFlight {
    if !probe::is_recording() {
        return InFlight::default();
    }
    let recording = probe::recording();
    let now_ticks = clock::ticks();
    let ns = |frame: &OpenFrame| clock::ticks_to_ns(now_ticks.saturating_sub(frame.start_ticks));
    let mut long = Longest::default();
    each_thread(threads, recording, |one| {
        if let Some(innermost) = one.frames.iter().map(ns).rfind(|ns| *ns >= least_ns) {
            long.add(innermost, one);
        }
    });
    let (long, more_threads) = long.end();
    let call = |frame: &OpenFrame| {
        let ns = ns(frame);
        let (method, start_ticks) = (methods.get(frame.method)?, frame.start_ticks);
        Some(RunningCall { method, start_ticks, ns, is_long: ns >= least_ns })
    };
    let threads = long.into_iter().map(|(_, one)| {
        let more_calls = one.frames.len().saturating_sub(OUTERMOST + INNERMOST);
        let frames = one.frames.iter().enumerate();
        let shown = frames.filter(|(at, _)| *at < OUTERMOST || *at >= OUTERMOST + more_calls);
        let calls = shown.filter_map(|(_, frame)| call(frame)).collect();
        let name = match one.thread {
            Some(thread) if one.number.is_none() => java.name(thread).unwrap_or_default(),
            _ => ThreadName { name: name_of(one.number), java_id: one.number },
        };
        BusyThread {
            name: name.name,
            java_id: name.java_id,
            os_id: one.thread.map_or(OsThreadId::NONE, |thread| thread.os_id),
            is_virtual: !one.number.is_none(),
            calls,
            more_calls,
        }
    });
    InFlight { threads: threads.collect(), more_threads }
}

/// Calls `with` on each thread with calls in progress that were there for some time.
pub(crate) fn each_thread<'t>(
    threads: impl Iterator<Item = &'t ThreadRef>,
    recording: u32,
    mut with: impl FnMut(Seen<'t>),
) {
    let mut with = |one: Seen<'t>| {
        let frames = open_frames::without_dropped(one.frames);
        with(Seen { frames, ..one });
    };
    let mut mounted = HashSet::new();
    let mut threads = threads.peekable();
    while threads.peek().is_some() {
        let first: Vec<_> = threads
            .by_ref()
            .take(READ_AT_ONCE)
            .map(|thread| (thread, thread.runs(), open_frames::read_frames(thread, recording)))
            .filter(|(_, _, frames)| !frames.is_empty())
            .collect();
        thread::sleep(BETWEEN_READINGS);
        for (thread, number, before) in first {
            let frames = in_both(before, &open_frames::read_frames(thread, recording));
            if !thread.has_ended() && thread.runs() == number {
                mounted.insert(number);
                with(Seen { thread: Some(thread), number, frames });
            }
        }
    }
    mounts::for_each(|number, saved| {
        // A thread that was mounted a moment ago has been read already.
        if saved.recording() == recording && !mounted.contains(&number) {
            with(Seen { thread: None, number, frames: OpenFrame::all_of(saved) });
        }
    });
}

/// The threads whose innermost long call has run longest. The others are only counted: there may be 100,000, each
/// with a deep stack.
#[derive(Default)]
struct Longest<'t> {
    threads: Vec<(u64, Seen<'t>)>,
    more: usize,
}

impl<'t> Longest<'t> {
    /// Adds a thread whose innermost long call has run for `ns` nanoseconds.
    fn add(&mut self, ns: u64, thread: Seen<'t>) {
        self.threads.push((ns, thread));
        if self.threads.len() >= 2 * MAX_THREADS {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.threads.sort_by_key(|(ns, _)| Reverse(*ns));
        self.more += self.threads.len().saturating_sub(MAX_THREADS);
        self.threads.truncate(MAX_THREADS);
    }

    /// At most [`MAX_THREADS`], the longest first, and how many more there were.
    fn end(mut self) -> (Vec<(u64, Seen<'t>)>, usize) {
        self.cut();
        (self.threads, self.more)
    }
}

/// The calls that are in both readings: they ran during the whole time between.
fn in_both(mut before: Vec<OpenFrame>, after: &[OpenFrame]) -> Vec<OpenFrame> {
    let is_same =
        |(a, b): &(&OpenFrame, &OpenFrame)| (a.method, a.start_ticks) == (b.method, b.start_ticks);
    let same = before.iter().zip(after).take_while(is_same).count();
    before.truncate(same);
    before
}

#[cfg(test)]
mod tests {
    use log_format::ids::MethodId;

    use super::*;

    #[test]
    fn the_longest_are_kept_and_the_others_counted() {
        let mut longest = Longest::default();
        // An order in which each place holds the longest for a while.
        for n in 0..10_007_u64 {
            let seen = Seen { thread: None, number: JavaThreadId::NONE, frames: Vec::new() };
            longest.add(n * 5_003 % 10_007, seen);
            assert!(longest.threads.len() < 2 * MAX_THREADS);
        }
        let (threads, more) = longest.end();
        let expected: Vec<u64> = (0..10_007).rev().take(MAX_THREADS).collect();
        assert_eq!(threads.iter().map(|(ns, _)| *ns).collect::<Vec<_>>(), expected);
        assert_eq!(more, 10_007 - MAX_THREADS);
    }

    #[test]
    fn a_call_counts_that_was_there_all_the_while() {
        let frame = |id, start_ticks| {
            let method = MethodId::new(id);
            OpenFrame { method, start_ticks, callee_ticks: 0 }
        };
        let stack = [frame(1, 10), frame(2, 20), frame(3, 30)];
        let both = |after: &[OpenFrame]| in_both(stack.to_vec(), after).len();
        assert_eq!(both(&stack), 3);
        assert_eq!(both(&stack[..2]), 2);
        assert_eq!(both(&[]), 0);
        assert_eq!(both(&[frame(1, 10), frame(2, 25), frame(3, 30)]), 1);
        assert_eq!(both(&[OpenFrame { callee_ticks: 9, ..frame(1, 10) }, frame(4, 20)]), 1);
    }
}
