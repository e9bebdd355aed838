//! Virtual threads: their frames go with them from carrier to carrier.
//!
//! A mounted virtual thread uses the shadow stack of its carrier, so that a probe knows nothing of
//! it. When it is unmounted with calls in progress, its frames are copied out and kept by its number;
//! when it is mounted again, they are copied in. Totals are the carrier's, which know how many of its frames are
//! of a method. A carrier's own frames are set aside meanwhile.

pub(crate) use super::mount_events::{Events, begin, events};
use super::mounted::set_mounted;
use super::recording::{guarded, recording};
use super::save_frames;
use super::saved::SavedStack;
use super::thread::{self, ProbeThread};
use super::{lost_calls, mount_events};
use crate::sys::memory::sharded::Sharded;

/// Frames of virtual threads that are not mounted, by number of the thread.
static UNMOUNTED: Sharded<SavedStack> = Sharded::new();

/// The calling thread, which is `thread` and has just been met, runs virtual thread `number`.
pub(crate) fn is_mounted(thread: &ProbeThread, number: u64) {
    thread.set_carrier();
    if mount_events::are_missing_at_first_call() {
        return;
    }
    set_mounted(number);
    thread.set_runs(number);
}

/// Whether virtual threads may be mounted in this JVM: it says so, or the calling thread is one, `is_virtual`.
pub(crate) fn are_virtual_threads_here(is_virtual: bool) -> bool {
    is_virtual || events() != Events::NotNeeded
}

/// The calling thread runs virtual thread `number` from now on.
pub(crate) fn mount(number: u64) {
    mount_events::arrived();
    set_mounted(number);
    let saved = take(number);
    let thread = match (thread::current().filter(|thread| !thread.is_retired()), &saved) {
        (None, Some(_)) => guarded(thread::begin_current).flatten(),
        (current, _) => current,
    };
    let Some(thread) = thread else { return lose(saved) };
    thread.set_aside(save_frames::save(thread));
    thread.set_runs(number);
    restore(thread, saved);
}

/// The calling thread stops to run virtual thread `number`.
pub(crate) fn unmount(number: u64) {
    mount_events::arrived();
    set_mounted(0);
    let Some(thread) = thread::current() else { return };
    // It may have been met for the first time while it ran this one.
    let own = thread.take_aside();
    if let Some(saved) = save_frames::save(thread)
        && saved.recording() == recording()
        && let Err(saved) = UNMOUNTED.insert(number, saved)
    {
        lose(Some(saved));
    }
    thread.set_runs(0);
    restore(thread, own);
}

/// Virtual thread `number` has ended.
pub(crate) fn end(number: u64) {
    mount_events::thread_ended();
    drop(take(number));
}

fn take(number: u64) -> Option<SavedStack> {
    UNMOUNTED.remove(number)
}

/// Counts calls in progress as lost.
fn lose(saved: Option<SavedStack>) {
    if let Some(saved) = saved.filter(|saved| saved.recording() == recording()) {
        lost_calls::add(saved.calls());
    }
}

fn restore(thread: &ProbeThread, saved: Option<SavedStack>) {
    if let Some(saved) = saved
        && saved.recording() == recording()
    {
        save_frames::restore(thread, &saved);
    }
}

/// Forgets all frames of threads that are not mounted.
pub(crate) fn forget_all() {
    UNMOUNTED.clear();
}

/// Calls `visit` with the frames of each virtual thread that is not mounted.
pub(crate) fn for_each(visit: impl FnMut(u64, &SavedStack)) {
    UNMOUNTED.for_each(visit);
}
