//! The probe: what a call of an instrumented method does at its start and at its end.
//!
//! `start` pushes a frame on the thread's shadow stack; `end`, `threw` and `caught` pop. Each popped frame is counted
//! in the thread's method statistics, and recorded if the call reached the threshold. A probe takes its memory from the
//! kernel, and from the allocator only to enter a thread into the list at its first call. After that, a probe neither
//! allocates, waits nor calls the JVM, with two exceptions: a recorded outermost call asks for the thread's environment
//! (`allocated`), and once for each mount with a recorded call, it asks for the name of a virtual thread and enters it
//! into a sharded map. Without memory, a call is counted as lost or without its times, and the service goes on.
//!
//! Normally the newest frame is the one that ends. If it is not, an exception left the frames above it behind, such as
//! the frame of a constructor's `super(...)`, whose exceptions cannot be caught. Those frames are counted as calls that
//! threw. A constructor has another id until its `super(...)` returns, so a frame left behind there is never taken for
//! a later call. If the method that ends has no frame, recording began while it ran, and nothing happens. Calls whose
//! method was muted or unmuted while they ran leave the stack uncounted; see [`mute`].
//!
//! The end of a call must not fail for lack of stack, or frames of a recursion would be mixed up. So a call that begins
//! where its end might lack stack is refused with the StackOverflowError that it would soon meet anyway.

pub(crate) mod allocated;
pub(crate) mod buckets;
mod current_virtual_thread;
mod endpoint_search;
mod leave;
pub(crate) mod lost_calls;
#[cfg(test)]
mod memory_tests;
pub(crate) mod method_totals;
pub(crate) mod modified_utf8;
mod mount_events;
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
pub(crate) mod saved_frames;
pub(crate) mod slowest_calls;
#[cfg(test)]
mod slowest_calls_tests;
pub(crate) mod stack;
pub(crate) mod task_requests;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod thread;
mod thread_ref;
mod thread_word;
mod thresholds;
pub(crate) mod thrown_class;
pub(crate) mod throws;
#[cfg(test)]
mod throws_tests;
pub(crate) mod time_sum;
pub(crate) mod totals;
pub(crate) mod traced;

use std::sync::atomic::Ordering;

use sampling_handler::signal::Shadow;

pub(crate) use self::leave::{
    MAX_PATH_DEPTH, ask_names_by, caught, end, initialized, threw, threw_plain,
};
use self::recording::{STATE, guarded, recording_of};
pub(crate) use self::recording::{
    attachment, begin_recording, end_recording, gave_up, give_up, is_recording, recording,
};
pub(crate) use self::stack::ProbeId;
use self::thread::OwnThread;
pub(crate) use self::thresholds::{
    assign as assign_threshold, forget_thresholds, lowest_threshold_ns, raise_thresholds,
    renew_ticks, set_least_in_requests_ns, set_numbered_ns, set_threshold_ns, threshold_ns_of,
};
pub(crate) use self::thrown_class::{ClassHash, Thrown};
pub(crate) use self::throws::Left;
use crate::sys::clock::{self, ClockChoice};

/// The id of the agent's own calls, which measure what a call costs. No method has it.
pub(crate) const CALIBRATION: i32 = 1_000_001;
const CALIBRATION_PROBE: ProbeId = ProbeId::new(CALIBRATION.cast_unsigned());

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
    /// It may run, and its stack is to be taken: it stands for so many calls.
    Traced(u64),
    /// Too little stack is left: the method must throw a StackOverflowError, and is not counted.
    NoStack,
}

/// Starts a call in the common case: the thread has called the method before in this recording, and there is room. If
/// this returns `false`, it has changed nothing, and the caller must call [`start`]. `environment` is the address of
/// the thread's JNI environment.
#[inline]
pub(crate) fn start_plain(probe_id: ProbeId, environment: usize) -> bool {
    thread::with_current_if_near(|own| {
        let address = native_stack::address_here();
        let stack = own.stack();
        // No thread's state is even.
        if stack.state() != STATE.load(Ordering::Relaxed) || address < own.least_address {
            return false;
        }
        let Some(place) = stack.plain_place() else { return false };
        // No method has the id of a constructor before its `super(...)`.
        let Some(totals) = own.totals().known(probe_id.get()) else { return false };
        stack.push_at(place, probe_id, address, totals, clock::counter);
        stack.note_allocated(place.0, environment);
        true
    })
}

/// Starts a call. `first_call` runs at the thread's first call.
#[inline]
pub(crate) fn start(
    probe_id: ProbeId,
    environment: usize,
    first_call: impl FnOnce(OwnThread<'_>),
) -> Entry {
    start_at(native_stack::address_here(), probe_id, environment, first_call)
}

/// Like [`start`], from an address on the thread's own stack.
#[inline]
fn start_at(
    address: usize,
    probe_id: ProbeId,
    environment: usize,
    first_call: impl FnOnce(OwnThread<'_>),
) -> Entry {
    let state = STATE.load(Ordering::Relaxed);
    if state & 1 == 0 {
        return Entry::Go;
    }
    let checked = |own: OwnThread<'_>| start_checked(own, address, probe_id, environment);
    let started = thread::with_current(|own| (own.stack().state() == state).then(|| checked(own)));
    match started.flatten() {
        Some(entry) => entry,
        None if renew_thread(probe_id, first_call) => {
            thread::with_current(checked).unwrap_or(Entry::Go)
        }
        None => Entry::Go,
    }
}

/// Starts a call in a thread whose frames were checked for the current state.
#[inline]
fn start_checked(
    own: OwnThread<'_>,
    address: usize,
    probe_id: ProbeId,
    environment: usize,
) -> Entry {
    let stack = own.stack();
    // It was muted after the guard was passed.
    if probe_id.is_before_init() && mute::is_muted(probe_id.method()) {
        return Entry::Go;
    }
    if address < own.least_address {
        return Entry::NoStack;
    }
    if probe_id.is_before_init() {
        clear_uninitialized(own, address);
    }
    if !stack.make_room(&own.account) {
        stack.set_beyond(stack.beyond() + 1);
        return Entry::Go;
    }
    let totals = own.totals_of_method(probe_id.method());
    let depth = stack.depth();
    stack.push(probe_id, address, totals, clock::ticks);
    stack.note_allocated(depth, environment);
    if traced::is_any() && probe_id != CALIBRATION_PROBE {
        let of = std::ptr::from_ref(&*totals).addr();
        // Its number, from 0.
        let number = totals.entered().wrapping_sub(1);
        if let Some(calls) = traced::stands_for(probe_id.method(), number, of) {
            return Entry::Traced(calls);
        }
    }
    Entry::Go
}

/// A call that has just begun begins now: taking its stack is not its own time.
pub(crate) fn begin_again(probe_id: ProbeId) {
    thread::with_current(|own| {
        let stack = own.stack();
        if let Some(top) = stack.depth().checked_sub(1).map(|top| stack.frame(top))
            && top.probe_id() == probe_id
        {
            top.begin(clock::ticks());
        }
    });
}

/// Prepares the calling thread for a call: at its first call of a recording, and after methods were muted
/// or unmuted. `false` if the call must not be counted: there is no memory for the thread, or the method was muted or
/// recording ended after the guard was passed.
#[cold]
fn renew_thread(probe_id: ProbeId, first_call: impl FnOnce(OwnThread<'_>)) -> bool {
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
            if probe_id != CALIBRATION_PROBE && recording() == recording_of(state) {
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
            own.mark_traced();
            own.stack().restart(state);
        }
        !mute::is_muted(probe_id.method())
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
            leave::finish_left(own, top);
        }
        // Calls beyond the last frame were called by these.
        stack.set_beyond(0);
    }
}
