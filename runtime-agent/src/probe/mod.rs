//! The probe: what a call of an instrumented method does at its start and at its end.
//!
//! `start` pushes a frame on the thread's shadow stack; `end`, `threw` and `caught` pop. Each popped frame is counted
//! in the thread's method statistics, and recorded if the call reached the threshold. A probe takes its memory from the
//! kernel, and from the allocator only to enter a thread into the list at its first call. After that, a probe neither
//! allocates, waits nor calls the JVM, with one exception: once for each mount with a recorded call, it asks for the
//! name of a virtual thread and enters it into a sharded map. Without memory a call
//! is counted as lost, or without its times, and the service continues.
//!
//! Normally the newest frame is the one that ends. If it is not, an exception left the frames above it behind, such as
//! the frame of a constructor's `super(...)`, whose exceptions cannot be caught. Those frames are counted as calls that
//! threw. A constructor has another id until its `super(...)` returns, so a frame left behind there is never taken for
//! a later call. If the method that ends has no frame, recording began while it ran, and nothing happens. Calls whose
//! method was muted or unmuted while they ran leave the stack uncounted; see [`mute`].
//!
//! The end of a call must not fail for lack of stack, or frames of a recursion would be mixed up. So a call that begins
//! where its end might lack stack is refused with the StackOverflowError that it would soon meet anyway.

pub(crate) mod buckets;
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
pub(crate) mod own;
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
pub(crate) mod thrown;
pub(crate) mod throws;
#[cfg(test)]
mod throws_tests;
pub(crate) mod totals;

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use rewriter::probe::BEFORE_INIT;
use sampling_handler::signal::Shadow;

use self::own::Own;
use self::recording::{STATE, guarded, recording_of};
pub(crate) use self::recording::{
    attachment, begin_recording, end_recording, gave_up, give_up, is_recording, recording,
};
use self::ring::{Kind, Record};
use self::stack::{Place, ShadowStack, method_of};
use self::thread::OwnThread;
pub(crate) use self::thresholds::{
    assign as assign_threshold, forget_thresholds, lowest_threshold_ns, raise_thresholds,
    renew_ticks, set_numbered_ns, set_threshold_ns, threshold_ns_of,
};
pub(crate) use self::thrown::Thrown;
pub(crate) use self::throws::Left;
use self::totals::{EndedCall, MethodTotals};
use log_format::ids::{JavaThreadId, MethodId};

use crate::sys::clock;
use crate::sys::clock::ClockChoice;

/// Frames deeper than this have no call path: their recorded calls say that it was too deep.
pub(crate) const MAX_PATH_DEPTH: u32 = 1_024;

/// Notes the name of the virtual thread with this number, which the calling thread runs.
static NOTE_NAME: OnceLock<fn(JavaThreadId)> = OnceLock::new();

/// Sets the function that notes names of virtual threads.
pub(crate) fn ask_names_by(note: fn(JavaThreadId)) {
    let _ = NOTE_NAME.set(note);
}

/// The id of the agent's own calls, which measure what a call costs. No method has it.
pub(crate) const CALIBRATION: i32 = 1_000_001;

/// Chooses the clock, and tests whether the thread word is near, if `wants_near`. Takes some milliseconds, once.
/// Recording must be off. In tests, `fails` makes the self-test fail.
pub(crate) fn init(choice: ClockChoice, wants_near: bool, fails: bool) {
    clock::init(choice);
    thread_word::init(wants_near, fails);
    renew_ticks();
}

/// Whether probes read the thread word in place.
pub(crate) fn is_thread_word_near() -> bool {
    thread_word::is_near()
}

/// Where a thread's shadow stack is, for the sampler; `None` if the thread word is not near.
pub(crate) fn shadow_layout() -> Option<Shadow> {
    Some(thread::shadow_layout(thread_word::distance_if_near()?))
}

/// Whether a method may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The method may run.
    Go,
    /// Too little stack is left: the method must throw a StackOverflowError, and is not counted.
    NoStack,
}

/// Starts a call in the common case: the thread has called the method before in this recording, and there is room. If
/// this returns `false`, it has changed nothing, and the caller must call [`start`].
#[inline]
pub(crate) fn start_plain(probe_id: u32) -> bool {
    thread::with_current_if_near(|own| {
        let address = native_stack::address_here();
        let stack = own.stack();
        // No thread's state is even.
        if stack.state() != STATE.load(Ordering::Relaxed) || address < own.least_address {
            return false;
        }
        let Some(place) = stack.plain_place() else { return false };
        // No method has the id of a constructor before its `super(...)`.
        let Some(totals) = own.totals().known(probe_id) else { return false };
        stack.push_at(place, probe_id, address, totals, clock::counter);
        true
    })
}

/// Starts a call. `first_call` runs at the thread's first call.
#[inline]
pub(crate) fn start(probe_id: u32, first_call: impl FnOnce(OwnThread<'_>)) -> Entry {
    start_at(native_stack::address_here(), probe_id, first_call)
}

/// Like [`start`], from an address on the thread's own stack.
#[inline]
fn start_at(address: usize, probe_id: u32, first_call: impl FnOnce(OwnThread<'_>)) -> Entry {
    let state = STATE.load(Ordering::Relaxed);
    if state & 1 == 0 {
        return Entry::Go;
    }
    let started = thread::with_current(|own| {
        (own.stack().state() == state).then(|| start_checked(own, address, probe_id))
    });
    match started.flatten() {
        Some(entry) => entry,
        None if renew_thread(probe_id, first_call) => {
            thread::with_current(|own| start_checked(own, address, probe_id)).unwrap_or(Entry::Go)
        }
        None => Entry::Go,
    }
}

/// Starts a call in a thread whose frames were checked for the current state.
#[inline]
fn start_checked(own: OwnThread<'_>, address: usize, probe_id: u32) -> Entry {
    let stack = own.stack();
    // It was muted after the guard was passed.
    if probe_id & BEFORE_INIT != 0 && mute::is_muted(method_of(probe_id)) {
        return Entry::Go;
    }
    if address < own.least_address {
        return Entry::NoStack;
    }
    if probe_id & BEFORE_INIT != 0 {
        clear_uninitialized(own, address);
    }
    if !stack.make_room(&own.account) {
        stack.set_beyond(stack.beyond() + 1);
        return Entry::Go;
    }
    let totals = own.totals_of_method(method_of(probe_id));
    stack.push(probe_id, address, totals, clock::ticks);
    Entry::Go
}

/// Prepares the calling thread for a call: at its first call of a recording, and after methods were muted
/// or unmuted. `false` if the call must not be counted: there is no memory for the thread, or the method was muted or
/// recording ended after the guard was passed.
#[cold]
fn renew_thread(probe_id: u32, first_call: impl FnOnce(OwnThread<'_>)) -> bool {
    // Whatever was muted before is visible from here on.
    let state = STATE.load(Ordering::Acquire);
    if state & 1 == 0 {
        return false;
    }
    if !thread::is_known() {
        #[allow(unsafe_code)]
        let begun = guarded(|| {
            // SAFETY: closures of `with_current` run no Java code, so this probe is in none.
            let begun = unsafe { thread::begin_current(recording_of(state)) };
            if begun {
                thread::with_current(first_call);
            }
            begun
        });
        if begun != Some(true) {
            // The agent's own calls do not count as the service's, nor do those after the end.
            if probe_id != CALIBRATION.cast_unsigned() && recording() == recording_of(state) {
                lost_calls::add(1);
            }
            return false;
        }
    }
    let renewed = thread::with_current(|own| {
        if mount_events::cannot_measure(own) {
            own.lost().count_without_times(false);
            return false;
        }
        if own.stack().recording() == recording_of(state) {
            mute::drop_frames(own, state);
        } else {
            own.stack().restart(state);
        }
        !mute::is_muted(method_of(probe_id))
    });
    renewed == Some(true)
}

/// Most constructors in one compiled frame, each called in another's `super(...)`. Compilers inline about ten calls
/// deep.
const MAX_INLINED: u32 = 32;

/// Clears frames that exceptions out of `super(...)` left behind and no instrumented method caught; they would fill the
/// stack. If more of them than a compiler can inline are at or below `address`, where the next one begins, all have
/// ended.
#[inline]
fn clear_uninitialized(own: OwnThread<'_>, address: usize) {
    let stack = own.stack();
    let ended = |index: &u32| {
        let frame = stack.frame(*index);
        frame.is_before_init() && frame.is_not_above(address)
    };
    let depth = stack.depth();
    if depth > MAX_INLINED && (depth - MAX_INLINED..depth).rev().all(|index| ended(&index)) {
        while let Some(top) = stack.depth().checked_sub(1).filter(ended) {
            finish_left(own, top);
        }
        // Calls beyond the last frame were called by these.
        stack.set_beyond(0);
    }
}

/// Notes that a constructor's `super(...)` has returned. `probe_id` is the one it had until now.
#[inline]
pub(crate) fn initialized(probe_id: u32) {
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
pub(crate) fn end(probe_id: u32) {
    if !thread::with_current_if_near(|own| {
        leave_plain(own, probe_id, Exit::Return, |_, _, _, _| true)
    }) {
        leave_other(probe_id);
    }
}

/// Ends a call that an exception leaves, in the common case: its class is that of all exceptions that have left the
/// method in this thread. If this returns `false`, it has changed nothing, and the caller must call [`threw`].
#[inline]
pub(crate) fn threw_plain(probe_id: u32, thrown: Thrown) -> bool {
    thread::with_current_if_near(|own| {
        leave_plain(own, probe_id, Exit::Throw, |own, totals, start_ticks, now| {
            totals.class() == thrown.class && {
                throws::note_thrown(own, totals, start_ticks, thrown, now);
                true
            }
        })
    })
}

/// Ends a call that an exception leaves. `None` if nothing else is to be done.
pub(crate) fn threw(probe_id: u32, thrown: Thrown) -> Option<Left> {
    let mut left = None;
    leave_slowly(probe_id, Exit::Throw, |own, totals, start_ticks, now| {
        left = throws::note(own, totals, (probe_id, start_ticks), thrown, now);
    });
    left
}

/// Enters an exception handler of a method: everything it called has ended.
#[inline]
pub(crate) fn caught(probe_id: u32) {
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
fn caught_below(own: OwnThread<'_>, probe_id: u32, now: u64) {
    if let Some(index) = find(own, probe_id) {
        throw_above(own, index, now);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Exit {
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
    probe_id: u32,
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
extern "C" fn leave_other(probe_id: u32) {
    leave_slowly(probe_id, Exit::Return, |_, _, _, _| ());
}

#[inline(always)]
fn leave_slowly(probe_id: u32, exit: Exit, mut note: impl Note) {
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
    probe_id: u32,
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
    let totals = own.totals_of_method(method_of(probe_id));
    // When it began is not known.
    guarded(|| note(own, totals, 0, now));
    totals.count_without_times(exit == Exit::Throw);
    true
}

/// Ends a call that is not the newest.
#[cold]
fn leave_below(own: OwnThread<'_>, probe_id: u32, exit: Exit, now: u64, mut note: impl Note) {
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
fn find(own: OwnThread<'_>, probe_id: u32) -> Option<u32> {
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
fn finish_left(own: OwnThread<'_>, index: u32) {
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
    finish(own, index, Exit::Throw, now);
}

/// Counts the newest frame, at `index`, as a call that ended `now`, and pops it.
fn finish(own: OwnThread<'_>, index: u32, exit: Exit, now: u64) {
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

/// Records a call that reached its method's threshold. While thresholds are raised, records shorter calls only if they
/// are the slowest of their method.
#[cold]
fn record_if_slow(own: OwnThread<'_>, index: u32, exit: Exit, total_ticks: u64) {
    let frame = own.stack().frame(index);
    let method = frame.method();
    if total_ticks < thresholds::ticks_of(method) {
        return;
    }
    // Slower than any in the log, and than any of this thread since the agent thread last read.
    let is_slowest = kept::is_slower_by_ticks(method, total_ticks)
        && own.totals_of(frame).is_longest(total_ticks);
    if is_slowest || total_ticks >= thresholds::raised_to_ticks() {
        record(own, index, exit, total_ticks, is_slowest);
    }
}

/// Puts a call into the ring, after the frames of its call path that the agent thread does not know yet.
fn record(own: OwnThread<'_>, index: u32, exit: Exit, total_ticks: u64, is_slowest: bool) {
    let stack = own.stack();
    let mut untold = index + 1;
    if index < MAX_PATH_DEPTH {
        while untold > 0 && !stack.frame(untold - 1).is_told() {
            untold -= 1;
        }
    }
    let capacity = if is_slowest { ring::CAPACITY } else { ring::CAPACITY - ring::RESERVED };
    if !own.ring().make_room(u64::from(index + 1 - untold) + 2, capacity, &own.account) {
        own.ring().count_drop();
        return;
    }
    if !own.is_runs_told() {
        own.set_runs_told();
        if !own.runs().is_none()
            && let Some(note) = NOTE_NAME.get()
        {
            note(own.runs());
        }
        own.ring().push(Record {
            kind: Kind::Runs,
            depth: 0,
            method: MethodId::NONE,
            start_ticks: own.runs().get(),
            total_ticks: 0,
            self_ticks: 0,
        });
    }
    for depth in untold..=index {
        let frame = stack.frame(depth);
        frame.set_told();
        own.ring().push(Record {
            kind: Kind::Frame,
            depth: depth_of(depth),
            method: frame.method(),
            start_ticks: 0,
            total_ticks: 0,
            self_ticks: 0,
        });
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
