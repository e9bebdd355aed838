//! The probe: what a call of an instrumented method does at its start and at its end.
//!
//! `start` pushes a frame on the thread's shadow stack; `end`, `threw` and `caught` pop. Every frame
//! that is popped is counted in the thread's totals, and recorded if it took at least the threshold.
//! Nothing here allocates through the allocator: what a thread needs comes from the kernel. Nothing waits, or calls
//! the JVM, after a thread's first call, but for the name of a virtual thread, which is asked once each time that it is
//! mounted and has a record. Without memory a call is counted as lost, or without its times, and the service goes on.
//!
//! Normally the newest frame is the one that ends. If it is not, the frames above it were left behind
//! by an exception, as that of a constructor's `super(...)`, which nothing can catch. They are counted
//! as calls that threw. A constructor has another id until its `super(...)` has returned, so that what
//! such a call left behind is never taken for a later call. If the method that ends has no frame at
//! all, recording began while it ran: nothing happens. Calls whose method was muted or unmuted meanwhile
//! are taken off the stack uncounted; see [`mute`].
//!
//! The end of a call must not fail for lack of stack, or frames of a recursion would be taken for one
//! another: a call that begins where there might be too little later on is refused, with the
//! StackOverflowError that it is about to meet anyway.

mod buckets;
pub(crate) mod kept;
pub(crate) mod lost_calls;
#[cfg(test)]
mod memory_tests;
pub(crate) mod modified_utf8;
mod mount_events;
mod mounted;
pub(crate) mod mounts;
pub(crate) mod mute;
#[cfg(test)]
mod mute_tests;
mod native_stack;
pub(crate) mod open_frames;
mod recording;
pub(crate) mod ring;
mod save_frames;
pub(crate) mod saved;
pub(crate) mod stack;
#[cfg(test)]
mod tests;
pub(crate) mod thread;
mod thread_ref;
mod thread_word;
mod thresholds;
pub(crate) mod totals;

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use rewriter::probe::BEFORE_INIT;

use self::recording::{STATE, guarded, recording_of};
pub(crate) use self::recording::{
    attachment, begin_recording, end_recording, gave_up, give_up, is_recording, recording,
};
use self::ring::{Kind, Record};
use self::stack::{Place, ShadowStack};
use self::thread::ProbeThread;
use self::thread::{totals_in, totals_of};
pub(crate) use self::thresholds::{
    assign as assign_threshold, forget_thresholds, lowest_threshold_ns, raise_thresholds,
    renew_ticks, set_numbered_ns, set_threshold_ns, threshold_ns_of,
};
use self::totals::{EndedCall, MethodTotals};
use crate::sys::clock;
use crate::sys::clock::ClockChoice;

/// Frames above this depth have no call path: their records say that it was too deep.
pub(crate) const MAX_PATH_DEPTH: u32 = 1_024;

/// Notes the name of the virtual thread that the calling thread runs, whose number it is given.
static NOTE_NAME: OnceLock<fn(u64)> = OnceLock::new();

/// Who notes names of virtual threads.
pub(crate) fn ask_names_by(note: fn(u64)) {
    let _ = NOTE_NAME.set(note);
}

/// The id that no method has, of the calls that the agent makes itself to see what a call costs.
pub(crate) const CALIBRATION: i32 = 1_000_001;

/// Chooses the clock, and finds out how near a thread's own word is, if `wants_near`. Takes some milliseconds, once.
/// Recording is off. In tests the self-test `fails`.
pub(crate) fn init(choice: ClockChoice, wants_near: bool, fails: bool) {
    clock::init(choice);
    thread_word::init(wants_near, fails);
    renew_ticks();
}

/// Whether probes read a thread's own word in place.
pub(crate) fn is_thread_word_near() -> bool {
    thread_word::is_near()
}

/// Whether a method may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It may.
    Go,
    /// There is too little stack left: it has to throw a StackOverflowError, and is not counted.
    NoStack,
}

/// A method is entered, if that is as simple as it is most of the time: the thread has called it before
/// in this recording, and there is room. Otherwise nothing has happened, and [`start`] is to be called.
#[inline]
pub(crate) fn start_plain(method: u32) -> bool {
    let Some(thread) = thread::current_if_near() else { return false };
    let address = native_stack::address_here();
    let stack = &thread.stack;
    // An even number is never a thread's.
    if stack.state() != STATE.load(Ordering::Relaxed) || address < thread.least_address {
        return false;
    }
    let Some(place) = stack.plain_place() else { return false };
    // A constructor's id before its `super(...)` is no method's.
    let Some(totals) = thread.totals.known(method) else { return false };
    stack.push_at(place, method, address, totals, clock::counter);
    true
}

/// A method is entered. `first_call` runs when the thread is met for the first time.
#[inline]
pub(crate) fn start(method: u32, first_call: impl FnOnce(&ProbeThread)) -> Entry {
    start_at(native_stack::address_here(), method, first_call)
}

/// As [`start`], from an address on the thread's own stack.
#[inline]
fn start_at(address: usize, method: u32, first_call: impl FnOnce(&ProbeThread)) -> Entry {
    let state = STATE.load(Ordering::Relaxed);
    if state & 1 == 0 {
        return Entry::Go;
    }
    let thread = match thread::current() {
        Some(thread) if thread.stack.state() == state => thread,
        known => match renew_thread(known, method, first_call) {
            Some(thread) => thread,
            None => return Entry::Go,
        },
    };
    let stack = &thread.stack;
    // It was muted after the guard was asked.
    if method & BEFORE_INIT != 0 && mute::is_muted(method & !BEFORE_INIT) {
        return Entry::Go;
    }
    if address < thread.least_address {
        return Entry::NoStack;
    }
    if method & BEFORE_INIT != 0 {
        clear_uninitialized(thread, address);
    }
    if !stack.make_room(&thread.account) {
        stack.set_beyond(stack.beyond() + 1);
        return Entry::Go;
    }
    let totals = thread.totals_of_method(method & !BEFORE_INIT);
    stack.push(method, address, totals, clock::ticks);
    Entry::Go
}

/// The calling thread as it has to be now for a call of `method`: at its first call of a recording, and
/// when methods were muted or unmuted since its last. `None` if the call is not to be counted: there is
/// no memory for the thread, or the guard in Java was still open when it was asked.
#[cold]
fn renew_thread(
    known: Option<&'static ProbeThread>,
    method: u32,
    first_call: impl FnOnce(&ProbeThread),
) -> Option<&'static ProbeThread> {
    // What was muted before is seen from here on.
    let state = STATE.load(Ordering::Acquire);
    if state & 1 == 0 {
        return None;
    }
    let thread = match known.filter(|thread| !thread.is_retired()) {
        Some(thread) => thread,
        None => {
            let begun =
                guarded(|| thread::begin_current().inspect(|thread| first_call(thread))).flatten();
            // The agent's own calls are none of the service's.
            if begun.is_none() && method != CALIBRATION.cast_unsigned() {
                lost_calls::add(1);
            }
            begun?
        }
    };
    if mount_events::cannot_measure(thread) {
        thread.lost.count_without_times(false);
        return None;
    }
    if thread.stack.recording() == recording_of(state) {
        mute::drop_frames(thread, state);
    } else {
        thread.stack.restart(state);
    }
    (!mute::is_muted(method & !BEFORE_INIT)).then_some(thread)
}

/// Most constructors that are called in one another's `super(...)` in one compiled frame. Compilers
/// go about ten calls deep.
const MAX_INLINED: u32 = 32;

/// Where nobody with probes catches what constructors throw out of their `super(...)`, what they leave
/// behind would fill the stack. More of them than a compiler can have inlined, none of which stands
/// above `address`, where the next one begins, have ended.
#[inline]
fn clear_uninitialized(thread: &ProbeThread, address: usize) {
    let stack = &thread.stack;
    let ended = |index: &u32| {
        let frame = stack.frame(*index);
        frame.is_before_init() && frame.is_not_above(address)
    };
    let depth = stack.depth();
    if depth > MAX_INLINED && (depth - MAX_INLINED..depth).rev().all(|index| ended(&index)) {
        while let Some(top) = stack.depth().checked_sub(1).filter(ended) {
            finish_left(thread, top);
        }
        // Those beyond the last frame were called by these.
        stack.set_beyond(0);
    }
}

/// A constructor's `super(...)` has returned. `method` is the id that it had until now.
#[inline]
pub(crate) fn initialized(method: u32) {
    let Some(thread) = thread_of_this_recording() else { return };
    let stack = &thread.stack;
    let depth = stack.depth();
    if stack.beyond() > 0 {
        return;
    }
    if depth > 0 && stack.frame(depth - 1).probe_id() == method {
        stack.frame(depth - 1).set_initialized();
    } else if let Some(index) = find(thread, method) {
        while stack.depth() > index + 1 {
            finish_left(thread, stack.depth() - 1);
        }
        stack.frame(index).set_initialized();
    }
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
    if thread.stack.beyond() == 0 && depth > 0 && thread.stack.frame(depth - 1).probe_id() != method
    {
        let now = clock::ticks();
        guarded(|| caught_below(thread, method, now));
    }
}

#[cold]
fn caught_below(thread: &ProbeThread, method: u32, now: u64) {
    if let Some(index) = find(thread, method) {
        throw_above(thread, index, now);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Exit {
    Return,
    Throw,
}

#[inline]
fn thread_of_this_recording() -> Option<&'static ProbeThread> {
    let thread = thread::current()?;
    let state = STATE.load(Ordering::Relaxed);
    // An even number is never a thread's.
    if thread.stack.state() == state || is_of_recording(thread) { Some(thread) } else { None }
}

/// Whether the thread's frames are of the recording that is going on; if so, those that are to be
/// dropped are gone afterwards.
#[cold]
fn is_of_recording(thread: &ProbeThread) -> bool {
    // What was muted before is seen from here on.
    let state = STATE.load(Ordering::Acquire);
    let is_same =
        thread.stack.recording() == recording_of(state) && !mount_events::cannot_measure(thread);
    if is_same {
        mute::drop_frames(thread, state);
    }
    is_same
}

#[inline(always)]
fn leave(method: u32, exit: Exit) {
    if !leave_plain(method, exit) {
        leave_other(method, exit);
    }
}

/// Ends a call, if that is as simple as it is most of the time: it is the newest of this recording.
/// Otherwise nothing has happened.
#[inline(always)]
fn leave_plain(method: u32, exit: Exit) -> bool {
    let Some(thread) = thread::current_if_near() else { return false };
    let now = clock::counter();
    let stack = &thread.stack;
    // An even number is never a thread's.
    if stack.state() != STATE.load(Ordering::Relaxed) {
        return false;
    }
    let Some(top) = stack.plain_top() else { return false };
    if top.frame().probe_id() != method {
        return false;
    }
    let Some(totals) = totals_in(thread, top.frame()) else { return false };
    finish_in(thread, top, totals, exit, now);
    true
}

/// The same of a call that is not like most. As a function that no panic leaves, it is a jump away.
#[cold]
#[inline(never)]
extern "C" fn leave_other(method: u32, exit: Exit) {
    let now = clock::ticks();
    let Some(thread) = thread_of_this_recording() else { return };
    let stack = &thread.stack;
    if stack.beyond() > 0 && leave_beyond(thread, native_stack::address_here(), method, exit) {
        return;
    }
    let depth = stack.depth();
    if depth > 0 && stack.frame(depth - 1).probe_id() == method {
        finish(thread, depth - 1, exit, now);
    } else {
        guarded(|| leave_below(thread, method, exit, now));
    }
}

/// Ends a call for which the stack had no frame left. `false` if the call that ends has one, since
/// it stands above the last: what was beyond was left behind.
#[cold]
fn leave_beyond(thread: &ProbeThread, address: usize, method: u32, exit: Exit) -> bool {
    let stack = &thread.stack;
    let last = stack.depth().checked_sub(1);
    if last.is_some_and(|last| stack.frame(last).is_below(address)) {
        stack.set_beyond(0);
        return false;
    }
    stack.set_beyond(stack.beyond() - 1);
    let totals = thread.totals_of_method(method & !BEFORE_INIT);
    totals.count_without_times(exit == Exit::Throw);
    true
}

/// Ends a call that is not the newest.
#[cold]
fn leave_below(thread: &ProbeThread, method: u32, exit: Exit, now: u64) {
    if let Some(index) = find(thread, method) {
        match exit {
            Exit::Throw => throw_above(thread, index, now),
            Exit::Return => {
                while thread.stack.depth() > index + 1 {
                    finish_left(thread, thread.stack.depth() - 1);
                }
            }
        }
        finish(thread, index, exit, now);
    }
}

/// The newest frame whose probes have this id.
fn find(thread: &ProbeThread, method: u32) -> Option<u32> {
    (0..thread.stack.depth()).rev().find(|index| thread.stack.frame(*index).probe_id() == method)
}

/// Ends the calls above `index`, which an exception has left that arrives here `now`.
fn throw_above(thread: &ProbeThread, index: u32, now: u64) {
    while thread.stack.depth() > index + 1 {
        finish_unseen(thread, thread.stack.depth() - 1, now);
    }
}

/// Ends the newest call, at `index`, which an exception left some time ago: at the end of its last
/// callee, for want of anything better.
#[cold]
fn finish_left(thread: &ProbeThread, index: u32) {
    let frame = thread.stack.frame(index);
    finish_unseen(thread, index, frame.start_ticks().saturating_add(frame.callee_ticks()));
}

/// Ends the newest call, at `index`, whose end no probe saw.
fn finish_unseen(thread: &ProbeThread, index: u32, now: u64) {
    let frame = thread.stack.frame(index);
    if mute::concerns(frame.method(), frame.start_ticks()) {
        mute::drop_frame(thread, frame, index);
        thread.stack.pop_to(index);
        return;
    }
    // A constructor's `super(...)` that throws is nothing to wonder at.
    if !frame.is_before_init() {
        thread.count_unseen_end();
    }
    finish(thread, index, Exit::Throw, now);
}

/// Counts the newest frame, at `index`, as a call that ended `now`, and pops it.
fn finish(thread: &ProbeThread, index: u32, exit: Exit, now: u64) {
    let place = thread.stack.place(index);
    finish_in(thread, place, totals_of(thread, place.frame()), exit, now);
}

#[inline(always)]
fn finish_in(thread: &ProbeThread, place: Place<'_>, totals: &MethodTotals, exit: Exit, now: u64) {
    let stack = &thread.stack;
    let total_ticks = now.saturating_sub(place.frame().start_ticks());
    let self_ticks = self_ticks(place.frame(), total_ticks);
    let ended = totals.add(&EndedCall { total_ticks, self_ticks, threw: exit == Exit::Throw });
    if total_ticks >= thresholds::short_ticks() || stack.is_trimmed_at(place.index) {
        return finish_longer(thread, place.index, totals, total_ticks, exit, ended);
    }
    totals.count(buckets::SHORTEST, ended);
    pop(stack, place, total_ticks);
}

#[inline(always)]
fn pop(stack: &ShadowStack, place: Place<'_>, total_ticks: u64) {
    stack.pop_to(place.index);
    if let Some(caller) = place.caller() {
        caller.add_callee_ticks(total_ticks);
    }
}

/// The rest for a call that is not one of the shortest. As a function with no more parameters than registers, it
/// is a jump away, and so is what may come after it.
#[inline(never)]
#[allow(improper_ctypes_definitions)]
extern "C" fn finish_longer(
    thread: &ProbeThread,
    index: u32,
    totals: &MethodTotals,
    total_ticks: u64,
    exit: Exit,
    ended: u64,
) {
    totals.count(buckets::of_ticks(total_ticks), ended);
    if total_ticks >= thresholds::lowest_ticks() || thread.stack.is_trimmed_at(index) {
        return pop_other(thread, index, total_ticks, exit);
    }
    pop(&thread.stack, thread.stack.place(index), total_ticks);
}

/// Pops the frame of a call that may have a record, or after which memory is given back.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)]
extern "C" fn pop_other(thread: &ProbeThread, index: u32, total_ticks: u64, exit: Exit) {
    if total_ticks >= thresholds::lowest_ticks() {
        guarded(|| record_if_slow(thread, index, exit, total_ticks));
    }
    pop(&thread.stack, thread.stack.place(index), total_ticks);
    if thread.stack.is_trimmed_at(index) {
        thread.stack.trim(clock::ticks(), &thread.account);
    }
}

/// The time of a call without that of its callees.
fn self_ticks(frame: &stack::Frame, total_ticks: u64) -> u64 {
    total_ticks.saturating_sub(frame.callee_ticks())
}

/// A place on the stack, as a record has it: it is below [`stack::MAX_DEPTH`].
fn depth_of(index: u32) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// Records a call if it took as long as calls of its method must. Where there are too many, only the slowest of
/// their methods are.
#[cold]
fn record_if_slow(thread: &ProbeThread, index: u32, exit: Exit, total_ticks: u64) {
    let frame = thread.stack.frame(index);
    let method = frame.method();
    if total_ticks < thresholds::ticks_of(method) {
        return;
    }
    // Slower than what the log has, and than what this thread had since the agent thread looked last.
    let is_slowest = kept::is_slower_by_ticks(method, total_ticks)
        && totals_of(thread, frame).is_longest(total_ticks);
    if is_slowest || total_ticks >= thresholds::raised_to_ticks() {
        record(thread, index, exit, total_ticks, is_slowest);
    }
}

/// Puts a call into the ring, behind the frames of its call path that the agent thread does not know yet.
fn record(thread: &ProbeThread, index: u32, exit: Exit, total_ticks: u64, is_slowest: bool) {
    let stack = &thread.stack;
    let mut untold = index + 1;
    if index < MAX_PATH_DEPTH {
        while untold > 0 && !stack.frame(untold - 1).is_told() {
            untold -= 1;
        }
    }
    let capacity = if is_slowest { ring::CAPACITY } else { ring::CAPACITY - ring::RESERVED };
    if !thread.ring.make_room(u64::from(index + 1 - untold) + 2, capacity, &thread.account) {
        thread.ring.count_drop();
        return;
    }
    if !thread.is_runs_told() {
        thread.set_runs_told();
        if thread.runs() != 0
            && let Some(note) = NOTE_NAME.get()
        {
            note(thread.runs());
        }
        thread.ring.push(Record {
            kind: Kind::Runs,
            depth: 0,
            method: 0,
            start_ticks: thread.runs(),
            total_ticks: 0,
            self_ticks: 0,
        });
    }
    for depth in untold..=index {
        let frame = stack.frame(depth);
        frame.set_told();
        thread.ring.push(Record {
            kind: Kind::Frame,
            depth: depth_of(depth),
            method: frame.method(),
            start_ticks: 0,
            total_ticks: 0,
            self_ticks: 0,
        });
    }
    let frame = stack.frame(index);
    thread.ring.push(Record {
        kind: if exit == Exit::Throw { Kind::Throw } else { Kind::Return },
        depth: depth_of(index),
        method: frame.method(),
        start_ticks: frame.start_ticks(),
        total_ticks,
        self_ticks: self_ticks(frame, total_ticks),
    });
}
