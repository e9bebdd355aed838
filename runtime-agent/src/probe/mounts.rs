//! Virtual threads: their frames move with them from carrier to carrier.
//!
//! A mounted virtual thread uses the shadow stack of its carrier, so a probe need not know about it. When it is
//! unmounted with calls in progress, its frames are copied out and kept under its number; when it is mounted again,
//! they are copied in. Method statistics are the carrier's: they know how many of its frames are of a method.
//! Meanwhile, the carrier's own frames are set aside.

pub(crate) use super::mount_events::{Events, begin, events};
use super::mounted::set_mounted;
use super::recording::{guarded, recording};
use super::save_frames;
use super::saved::SavedStack;
use super::thread::{self, ProbeThread};
use super::{lost_calls, mount_events};
use crate::sys::memory::sharded::Sharded;

/// Frames of unmounted virtual threads, by thread number.
static UNMOUNTED: Sharded<SavedStack> = Sharded::new();

/// Notes at the first call of the calling thread, `thread`, that it runs virtual thread `number`.
pub(crate) fn is_mounted(thread: &ProbeThread, number: u64) {
    thread.set_carrier();
    if mount_events::are_missing_at_first_call() {
        return;
    }
    set_mounted(number);
    thread.set_runs(number);
}

/// Whether virtual threads may be mounted in this JVM: the JVM says so, or the calling thread is virtual.
pub(crate) fn are_virtual_threads_here(is_virtual: bool) -> bool {
    is_virtual || events() != Events::NotNeeded
}

/// Mounts virtual thread `number` on the calling thread.
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

/// Unmounts virtual thread `number` from the calling thread.
pub(crate) fn unmount(number: u64) {
    mount_events::arrived();
    set_mounted(0);
    let Some(thread) = thread::current() else { return };
    // The calling thread's first call may have been while it ran this virtual thread.
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

/// Drops the frames of virtual thread `number`, which has ended.
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

/// Forgets the frames of all unmounted virtual threads.
pub(crate) fn forget_all() {
    UNMOUNTED.clear();
}

/// Calls `visit` with the frames of each unmounted virtual thread.
pub(crate) fn for_each(visit: impl FnMut(u64, &SavedStack)) {
    UNMOUNTED.for_each(visit);
}
