//! The probe: what a call of an instrumented method does at its start and at its end.
//!
//! `start` pushes a frame on the thread's shadow stack; `end`, `threw` and `caught` pop. Every frame
//! that is popped is counted in the thread's totals, and recorded if it took at least the threshold.
//! After a thread's first call nothing here allocates through the allocator, waits, or calls the JVM.
//!
//! Normally the newest frame is the one that ends. If it is not, frames above it were left behind:
//!
//! - by `threw` or a constructor's frame: an exception left it, as it leaves a constructor whose
//!   `super(...)` throws. It is counted as a call that threw;
//! - any other frame ended unseen; it is dropped, and counted as that;
//! - if the method has no frame at all, recording began while it ran: nothing happens.

pub(crate) mod ring;
pub(crate) mod stack;
#[cfg(test)]
mod tests;
pub(crate) mod thread;
pub(crate) mod totals;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use self::ring::{Kind, Record};
use self::stack::MAX_DEPTH;
use self::thread::ProbeThread;
use self::totals::EndedCall;
use crate::{clock, methods};

/// Which recording is going on: odd while on, even while off. Each start and stop adds one, so that
/// a thread notices that its frames are of an earlier recording.
static RECORDING: AtomicU32 = AtomicU32::new(0);

/// Calls that take at least so many ticks are recorded.
static THRESHOLD_TICKS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Frames above this depth have no call path: their records say that it was too deep.
pub(crate) const MAX_PATH_DEPTH: u32 = 1_024;

/// Begins a recording; `false` if one is going on.
pub(crate) fn begin_recording() -> bool {
    change_recording(0)
}

/// Ends the recording; `false` if none is going on.
pub(crate) fn end_recording() -> bool {
    change_recording(1)
}

fn change_recording(from_parity: u32) -> bool {
    let next = |r: u32| (r & 1 == from_parity).then(|| r.wrapping_add(1));
    RECORDING.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
}

/// The number of the recording that is going on or went on last.
pub(crate) fn recording() -> u32 {
    RECORDING.load(Ordering::Acquire)
}

pub(crate) fn is_recording() -> bool {
    recording() & 1 == 1
}

/// Sets the duration from which on calls are recorded.
pub(crate) fn set_threshold_ns(ns: u64) {
    THRESHOLD_TICKS.store(clock::ns_to_ticks(ns), Ordering::Relaxed);
}

/// A method is entered. `first_call` runs when the thread is met for the first time.
#[inline]
pub(crate) fn start(method: u32, first_call: impl FnOnce(&ProbeThread)) {
    let recording = RECORDING.load(Ordering::Relaxed);
    if recording & 1 == 0 {
        return;
    }
    let thread = match thread::current() {
        Some(thread) => thread,
        None => {
            let Some(thread) = thread::begin_current() else { return };
            first_call(thread);
            thread
        }
    };
    let stack = &thread.stack;
    if stack.recording() != recording {
        stack.restart(recording);
    }
    if stack.depth() == MAX_DEPTH {
        stack.set_beyond(stack.beyond() + 1);
        return;
    }
    let totals = thread.totals.of(method).unwrap_or(&thread.lost);
    stack.push(method, totals, clock::ticks);
}

/// A method returns.
#[inline]
pub(crate) fn end(method: u32) {
    leave(method, Exit::Return);
}

/// An exception leaves a method.
#[inline]
pub(crate) fn threw(method: u32) {
    leave(method, Exit::Throw);
}

/// A method goes on in an exception handler: what it had called has ended.
#[inline]
pub(crate) fn caught(method: u32) {
    let Some(thread) = thread_of_this_recording() else { return };
    let depth = thread.stack.depth();
    if thread.stack.beyond() == 0 && depth > 0 && thread.stack.frame(depth - 1).method() != method {
        caught_below(thread, method, clock::ticks());
    }
}

#[cold]
fn caught_below(thread: &ProbeThread, method: u32, now: u64) {
    if let Some(index) = find(thread, method) {
        drop_above(thread, index, Exit::Return, now);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Exit {
    Return,
    Throw,
}

#[inline]
fn thread_of_this_recording() -> Option<&'static ProbeThread> {
    let thread = thread::current()?;
    // An even number is never a thread's.
    (thread.stack.recording() == RECORDING.load(Ordering::Relaxed)).then_some(thread)
}

#[inline]
fn leave(method: u32, exit: Exit) {
    let now = clock::ticks();
    let Some(thread) = thread_of_this_recording() else { return };
    let stack = &thread.stack;
    if stack.beyond() > 0 {
        return leave_beyond(thread, method, exit);
    }
    let depth = stack.depth();
    if depth > 0 && stack.frame(depth - 1).method() == method {
        finish(thread, depth - 1, exit, now);
    } else {
        leave_below(thread, method, exit, now);
    }
}

/// Ends a call for which the stack had no frame left.
#[cold]
fn leave_beyond(thread: &ProbeThread, method: u32, exit: Exit) {
    thread.stack.set_beyond(thread.stack.beyond() - 1);
    let totals = thread.totals.of(method).unwrap_or(&thread.lost);
    totals.count_without_times(exit == Exit::Throw);
}

/// Ends a call that is not the newest.
#[cold]
fn leave_below(thread: &ProbeThread, method: u32, exit: Exit, now: u64) {
    if let Some(index) = find(thread, method) {
        drop_above(thread, index, exit, now);
        finish(thread, index, exit, now);
    }
}

/// The newest frame of a method.
fn find(thread: &ProbeThread, method: u32) -> Option<u32> {
    (0..thread.stack.depth()).rev().find(|index| thread.stack.frame(*index).method() == method)
}

/// Clears away the frames above `index`, which were left behind.
fn drop_above(thread: &ProbeThread, index: u32, exit: Exit, now: u64) {
    let stack = &thread.stack;
    while stack.depth() > index + 1 {
        let top = stack.depth() - 1;
        let frame = stack.frame(top);
        if exit == Exit::Throw || methods::is_constructor(frame.method()) {
            finish(thread, top, Exit::Throw, now);
        } else {
            thread.count_dropped_frame();
            totals_of(thread, frame).leave();
            // Its callees were counted; their time must not count again as the caller's own.
            if top > 0 {
                stack.frame(top - 1).add_callee_ticks(frame.callee_ticks());
            }
            stack.pop_to(top);
        }
    }
}

#[inline]
#[allow(unsafe_code)]
fn totals_of<'t>(thread: &'t ProbeThread, frame: &stack::Frame) -> &'t totals::MethodTotals {
    // SAFETY: a frame in use points to totals of its thread, which live as long as the thread.
    unsafe { frame.totals().as_ref() }.unwrap_or(&thread.lost)
}

/// Counts the newest frame, at `index`, as a call that ended `now`, and pops it.
#[inline]
fn finish(thread: &ProbeThread, index: u32, exit: Exit, now: u64) {
    let stack = &thread.stack;
    let frame = stack.frame(index);
    let total_ticks = now.saturating_sub(frame.start_ticks());
    let self_ticks = total_ticks.saturating_sub(frame.callee_ticks());
    let totals = totals_of(thread, frame);
    totals.count(&EndedCall {
        total_ticks,
        self_ticks,
        ns: clock::ticks_to_ns(total_ticks),
        threw: exit == Exit::Throw,
        is_outermost: totals.leave(),
    });
    if total_ticks >= THRESHOLD_TICKS.load(Ordering::Relaxed) {
        record(thread, index, exit, total_ticks, self_ticks);
    }
    stack.pop_to(index);
    if index > 0 {
        stack.frame(index - 1).add_callee_ticks(total_ticks);
    } else {
        stack.trim(now);
    }
}

/// Puts a call into the ring, behind the frames of its call path that the drain thread does not
/// know yet.
#[cold]
fn record(thread: &ProbeThread, index: u32, exit: Exit, total_ticks: u64, self_ticks: u64) {
    let stack = &thread.stack;
    let mut untold = index + 1;
    if index < MAX_PATH_DEPTH {
        while untold > 0 && !stack.frame(untold - 1).is_told() {
            untold -= 1;
        }
    }
    if !thread.ring.has_room(u64::from(index + 1 - untold) + 1) {
        thread.ring.count_drop();
        return;
    }
    for depth in untold..=index {
        let frame = stack.frame(depth);
        frame.set_told();
        thread.ring.push(Record {
            kind: Kind::Frame,
            depth,
            method: frame.method(),
            start_ticks: 0,
            total_ticks: 0,
            self_ticks: 0,
        });
    }
    let frame = stack.frame(index);
    thread.ring.push(Record {
        kind: if exit == Exit::Throw { Kind::Throw } else { Kind::Return },
        depth: index,
        method: frame.method(),
        start_ticks: frame.start_ticks(),
        total_ticks,
        self_ticks,
    });
}
