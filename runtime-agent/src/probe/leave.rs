//! The end of a call, or of all calls that an exception left behind.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use log_format::ids::JavaThreadId;

use super::method_totals::{EndedCall, MethodTotals};
use super::own::Own;
use super::recording::{STATE, guarded, recording_of};
use super::ring::{Kind, Record};
use super::stack::{self, Place, ProbeId, ShadowStack};
use super::thread::{self, OwnThread};
use super::thrown_class::Thrown;
use super::throws::{self, Left};
use super::{
    buckets, mount_events, mute, native_stack, ring, slowest_calls, task_requests, thresholds,
};
use crate::sys::clock;

/// Frames deeper than this have no call path: their recorded calls say that it was too deep.
pub(crate) const MAX_PATH_DEPTH: u32 = 1_024;

/// Notes the name of the virtual thread with this number, which the calling thread runs.
static NOTE_NAME: OnceLock<fn(JavaThreadId)> = OnceLock::new();

/// Sets the function that notes names of virtual threads.
pub(crate) fn ask_names_by(note: fn(JavaThreadId)) {
    let _ = NOTE_NAME.set(note);
}

/// Notes that a constructor's `super(...)` has returned. `probe_id` is the one it had until now.
#[inline]
pub(crate) fn initialized(probe_id: ProbeId) {
    with_this_recording(|own| {
        let stack = own.stack();
        let depth = stack.depth();
        if stack.beyond() > 0 {
            return;
        }
        if depth > 0 && stack.frame(depth - 1).probe_id() == probe_id {
            stack.frame(depth - 1).set_initialized();
        } else if let Some(index) = find(own, probe_id) {
            while stack.depth() > index + 1 {
                finish_left(own, stack.depth() - 1);
            }
            stack.frame(index).set_initialized();
        }
    });
}

/// Ends a call that returns. Like [`threw_plain`], it has a closure of its own, because compilers inline what is called
/// once.
#[inline]
pub(crate) fn end(probe_id: ProbeId) {
    if !thread::with_current_if_near(|own| {
        leave_plain(own, probe_id, Exit::Return, |_, _, _, _| true)
    }) {
        leave_other(probe_id);
    }
}

/// Ends a call that an exception leaves, in the common case: its class is that of all exceptions that have left the
/// method in this thread. If this returns `false`, it has changed nothing, and the caller must call [`threw`].
#[inline]
pub(crate) fn threw_plain(probe_id: ProbeId, thrown: Thrown) -> bool {
    thread::with_current_if_near(|own| {
        leave_plain(own, probe_id, Exit::Throw, |own, totals, start_ticks, now| {
            // With the mark of a wanted example, it is another.
            totals.class_bits() == thrown.class.bits() && {
                throws::note_thrown(own, totals, start_ticks, thrown, now);
                true
            }
        })
    })
}

/// Ends a call that an exception leaves. `None` if nothing else is to be done.
pub(crate) fn threw(probe_id: ProbeId, thrown: Thrown) -> Option<Left> {
    let mut left = None;
    leave_slowly(probe_id, Exit::Throw, |own, totals, start_ticks, now| {
        left = throws::note(own, totals, (probe_id, start_ticks), thrown, now);
    });
    left
}

/// Enters an exception handler of a method: everything it called has ended.
#[inline]
pub(crate) fn caught(probe_id: ProbeId) {
    with_this_recording(|own| {
        let stack = own.stack();
        let depth = stack.depth();
        if stack.beyond() == 0 && depth > 0 && stack.frame(depth - 1).probe_id() != probe_id {
            let now = clock::ticks();
            guarded(|| caught_below(own, probe_id, now));
        }
    });
}

#[cold]
fn caught_below(own: OwnThread<'_>, probe_id: ProbeId, now: u64) {
    if let Some(index) = find(own, probe_id) {
        throw_above(own, index, now);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Exit {
    Return,
    Throw,
}

/// Runs `work` with the calling thread's data, if its frames are of the current recording.
#[inline]
fn with_this_recording(work: impl FnOnce(OwnThread<'_>)) {
    thread::with_current(|own| {
        // No thread's state is even.
        if own.stack().state() == STATE.load(Ordering::Relaxed) || is_of_recording(own) {
            work(own);
        }
    });
}

/// Whether the thread's frames belong to the current recording. If so, removes those to be dropped.
#[cold]
fn is_of_recording(own: OwnThread<'_>) -> bool {
    // Whatever was muted before is visible from here on.
    let state = STATE.load(Ordering::Acquire);
    let is_same =
        own.stack().recording() == recording_of(state) && !mount_events::cannot_measure(own);
    if is_same {
        mute::drop_frames(own, state);
    }
    is_same
}

/// Ends a call in the common case: it is the newest call of this recording, and `note` agrees. If this returns `false`,
/// it has changed nothing. As [`Note`], `note` gets the thread, the method's statistics, when the call began, and the
/// time.
#[inline(always)]
fn leave_plain(
    own: OwnThread<'_>,
    probe_id: ProbeId,
    exit: Exit,
    note: impl FnOnce(OwnThread<'_>, Own<'_, MethodTotals>, u64, u64) -> bool,
) -> bool {
    let now = clock::counter();
    let stack = own.stack();
    // No thread's state is even.
    if stack.state() != STATE.load(Ordering::Relaxed) {
        return false;
    }
    let Some(top) = stack.plain_top() else { return false };
    if top.frame().probe_id() != probe_id {
        return false;
    }
    let Some(totals) = top.frame().totals() else { return false };
    if !note(own, totals, top.frame().start_ticks(), now) {
        return false;
    }
    finish_in(own, top, totals, exit, now);
    true
}

/// Ends a call that returns in all other cases. No panic leaves this function, so calling it is a plain jump.
#[cold]
#[inline(never)]
extern "C" fn leave_other(probe_id: ProbeId) {
    leave_slowly(probe_id, Exit::Return, |_, _, _, _| ());
}

#[inline(always)]
fn leave_slowly(probe_id: ProbeId, exit: Exit, mut note: impl Note) {
    let now = clock::ticks();
    with_this_recording(|own| {
        let stack = own.stack();
        let address = native_stack::address_here();
        if stack.beyond() > 0 && leave_beyond(own, address, probe_id, exit, now, &mut note) {
            return;
        }
        let depth = stack.depth();
        if depth > 0 && stack.frame(depth - 1).probe_id() == probe_id {
            let frame = stack.frame(depth - 1);
            guarded(|| note(own, own.totals_of(frame), frame.start_ticks(), now));
            finish(own, depth - 1, exit, now);
        } else {
            guarded(|| leave_below(own, probe_id, exit, now, note));
        }
    });
}

/// Ends a call that had no frame because the stack was full. `false` if the call has a frame, because it is above the
/// last one: an exception left all calls beyond.
#[cold]
fn leave_beyond(
    own: OwnThread<'_>,
    address: usize,
    probe_id: ProbeId,
    exit: Exit,
    now: u64,
    mut note: impl Note,
) -> bool {
    let stack = own.stack();
    let last = stack.depth().checked_sub(1);
    if last.is_some_and(|last| stack.frame(last).is_below(address)) {
        stack.set_beyond(0);
        return false;
    }
    stack.set_beyond(stack.beyond() - 1);
    let totals = own.totals_of_method(probe_id.method());
    // When it began is not known.
    guarded(|| note(own, totals, 0, now));
    totals.count_without_times(exit == Exit::Throw);
    true
}

/// Ends a call that is not the newest.
#[cold]
fn leave_below(own: OwnThread<'_>, probe_id: ProbeId, exit: Exit, now: u64, mut note: impl Note) {
    if let Some(index) = find(own, probe_id) {
        match exit {
            Exit::Throw => throw_above(own, index, now),
            Exit::Return => {
                while own.stack().depth() > index + 1 {
                    finish_left(own, own.stack().depth() - 1);
                }
            }
        }
        let frame = own.stack().frame(index);
        note(own, own.totals_of(frame), frame.start_ticks(), now);
        finish(own, index, exit, now);
    }
}

/// What is done with a call that ends, before it is counted: with its thread, its method's statistics, when it began,
/// and the time.
trait Note: FnMut(OwnThread<'_>, Own<'_, MethodTotals>, u64, u64) {}
impl<F: FnMut(OwnThread<'_>, Own<'_, MethodTotals>, u64, u64)> Note for F {}

/// The newest frame with this probe id.
fn find(own: OwnThread<'_>, probe_id: ProbeId) -> Option<u32> {
    (0..own.stack().depth()).rev().find(|index| own.stack().frame(*index).probe_id() == probe_id)
}

/// Ends the calls above `index`, which an exception left that arrives here `now`.
fn throw_above(own: OwnThread<'_>, index: u32, now: u64) {
    while own.stack().depth() > index + 1 {
        finish_unseen(own, own.stack().depth() - 1, now);
    }
}

/// Ends the newest call, at `index`, which an exception left earlier. Its end is taken as the end of its last callee,
/// the best estimate there is.
#[cold]
pub(super) fn finish_left(own: OwnThread<'_>, index: u32) {
    let frame = own.stack().frame(index);
    finish_unseen(own, index, frame.start_ticks().saturating_add(frame.callee_ticks()));
}

/// Ends the newest call, at `index`, whose end no probe saw.
fn finish_unseen(own: OwnThread<'_>, index: u32, now: u64) {
    let frame = own.stack().frame(index);
    if mute::concerns(frame.method(), frame.start_ticks()) {
        mute::drop_frame(own, frame, index);
        own.stack().pop_to(index);
        return;
    }
    // A `super(...)` that throws is expected.
    if !frame.is_before_init() {
        own.count_unseen_end();
    }
    throws::note_unseen(own.totals_of(frame), frame.method());
    if index == 0 {
        // It ended before, and others have allocated since.
        own.stack().forget_allocated();
    }
    finish(own, index, Exit::Throw, now);
}

/// Counts the newest frame, at `index`, as a call that ended `now`, and pops it.
pub(super) fn finish(own: OwnThread<'_>, index: u32, exit: Exit, now: u64) {
    let place = own.stack().place(index);
    finish_in(own, place, own.totals_of(place.frame()), exit, now);
}

#[inline(always)]
fn finish_in(
    own: OwnThread<'_>,
    place: Place<'_>,
    totals: Own<'_, MethodTotals>,
    exit: Exit,
    now: u64,
) {
    let stack = own.stack();
    let total_ticks = now.saturating_sub(place.frame().start_ticks());
    let self_ticks = self_ticks(place.frame(), total_ticks);
    let ended = totals.add(&EndedCall { total_ticks, self_ticks, threw: exit == Exit::Throw });
    if total_ticks >= thresholds::short_ticks() || stack.is_trimmed_at(place.index) {
        return finish_longer(own, place.index, totals, total_ticks, exit, ended);
    }
    totals.count(buckets::SHORTEST, ended);
    pop(stack, place, total_ticks);
}

#[inline(always)]
fn pop(stack: Own<'_, ShadowStack>, place: Place<'_>, total_ticks: u64) {
    stack.pop_to(place.index);
    if let Some(caller) = place.caller() {
        caller.add_callee_ticks(total_ticks);
    }
}

/// Finishes a call that is not one of the shortest. The parameters fit into registers, so calling this, and calling
/// what follows, is a plain jump.
#[inline(never)]
#[allow(improper_ctypes_definitions)]
extern "C" fn finish_longer(
    own: OwnThread<'_>,
    index: u32,
    totals: Own<'_, MethodTotals>,
    total_ticks: u64,
    exit: Exit,
    ended: u64,
) {
    totals.count(buckets::of_ticks(total_ticks), ended);
    if total_ticks >= thresholds::lowest_ticks() || own.stack().is_trimmed_at(index) {
        return pop_other(own, index, total_ticks, exit);
    }
    pop(own.stack(), own.stack().place(index), total_ticks);
}

/// Pops the frame of a call that may be recorded, or after which memory is given back.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)]
extern "C" fn pop_other(own: OwnThread<'_>, index: u32, total_ticks: u64, exit: Exit) {
    if total_ticks >= thresholds::lowest_ticks() {
        guarded(|| record_if_slow(own, index, exit, total_ticks));
    }
    pop(own.stack(), own.stack().place(index), total_ticks);
    if own.stack().is_trimmed_at(index) {
        own.stack().trim(clock::ticks(), &own.account);
    }
}

/// The duration of a call without its callees.
fn self_ticks(frame: Own<'_, stack::Frame>, total_ticks: u64) -> u64 {
    total_ticks.saturating_sub(frame.callee_ticks())
}

/// The depth of a recorded call. An index is below [`stack::MAX_DEPTH`].
fn depth_of(index: u32) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// Records a call that reached its method's threshold, or that is in a request that a task records. While thresholds
/// are raised, records shorter calls only if they are the slowest of their method.
#[cold]
fn record_if_slow(own: OwnThread<'_>, index: u32, exit: Exit, total_ticks: u64) {
    let frame = own.stack().frame(index);
    let method = frame.method();
    let is_slow = total_ticks >= thresholds::ticks_of(method);
    // Slower than any in the log, and than any of this thread since the agent thread last read.
    let is_slowest = is_slow
        && slowest_calls::is_slower_by_ticks(method, total_ticks)
        && own.totals_of(frame).is_longest(total_ticks);
    let is_recorded = is_slowest || (is_slow && total_ticks >= thresholds::raised_to_ticks());
    // Deeper calls have no call path.
    let deepest = index.min(MAX_PATH_DEPTH - 1);
    let request = task_requests::request_of(own.stack(), (index, deepest), total_ticks);
    if is_recorded || request.is_some() {
        record(own, index, exit, total_ticks, Why { is_recorded, is_slowest, request });
    }
}

/// Why a call is put into the ring.
#[derive(Clone, Copy)]
struct Why {
    /// For its duration.
    is_recorded: bool,
    /// It is the slowest of its method.
    is_slowest: bool,
    /// It belongs to the request at this place of the stack.
    request: Option<u32>,
}

/// Makes room for a call's entries in the ring.
fn make_room(own: OwnThread<'_>, index: u32, total_ticks: u64, entries: u64, why: Why) -> bool {
    let makes_room = |capacity| own.ring().make_room(entries, capacity, &own.account);
    if makes_room(ring::CAPACITY - ring::RESERVED) {
        return true;
    }
    // Without its own record, a request would be lost with all its calls.
    let is_request = why.request == Some(index);
    // A call that finds no room must not stand in the way of later ones, so it is noted last.
    (is_request || why.is_slowest)
        && makes_room(ring::CAPACITY)
        && (is_request
            || slowest_calls::may_use_reserve(own.stack().frame(index).method(), total_ticks))
}

/// Puts a call into the ring, after the frames of its call path that the agent thread does not know yet.
fn record(own: OwnThread<'_>, index: u32, exit: Exit, total_ticks: u64, why: Why) {
    let stack = own.stack();
    let mut unwritten = index + 1;
    if index < MAX_PATH_DEPTH {
        while unwritten > 0 && !stack.frame(unwritten - 1).is_written() {
            unwritten -= 1;
        }
    }
    if !make_room(own, index, total_ticks, u64::from(index + 1 - unwritten) + 4, why) {
        match why.request {
            Some(_) => own.ring().count_drop_in_request(),
            None => own.ring().count_drop(),
        }
        return;
    }
    if !own.has_written_runs() {
        own.set_runs_written();
        if !own.runs().is_none()
            && let Some(note) = NOTE_NAME.get()
        {
            note(own.runs());
        }
        own.ring().push(Record::of_number(Kind::Runs, own.runs().get()));
    }
    for depth in unwritten..=index {
        let frame = stack.frame(depth);
        frame.set_written();
        own.ring().push(Record {
            kind: Kind::Frame,
            depth: depth_of(depth),
            method: frame.method(),
            start_ticks: 0,
            total_ticks: 0,
            self_ticks: 0,
        });
    }
    // What a carrier allocates is that of its virtual threads.
    if index == 0
        && !own.is_carrier()
        && let Some(bytes) = stack.allocated_since()
    {
        own.ring().push(Record::of_number(Kind::Allocated, bytes));
    }
    if let Some(request) = why.request {
        let only = u64::from(!why.is_recorded);
        let record = Record::of_number(Kind::InRequest, only);
        own.ring().push(Record { depth: depth_of(request), ..record });
    }
    let frame = stack.frame(index);
    own.ring().push(Record {
        kind: if exit == Exit::Throw { Kind::Throw } else { Kind::Return },
        depth: depth_of(index),
        method: frame.method(),
        start_ticks: frame.start_ticks(),
        total_ticks,
        self_ticks: self_ticks(frame, total_ticks),
    });
}
