//! Virtual threads: their frames move with them from carrier to carrier.
//!
//! A mounted virtual thread uses the shadow stack of its carrier, so a probe need not know about it. When it is
//! unmounted with calls in progress, its frames are copied out and kept under its number; when it is mounted again,
//! they are copied in. Method statistics are the carrier's: they know how many of its frames are of a method.
//! Meanwhile, the carrier's own frames are set aside.

use super::current_virtual_thread::{mounted, set_mounted};
pub(crate) use super::mount_events::{Events, begin, events};
use super::recording::{guarded, recording};
use super::save_frames;
use super::saved_frames::SavedStack;
use super::thread::{self, OwnThread};
use super::{lost_calls, mount_events};
use log_format::ids::JavaThreadId;

use crate::sys::memory::sharded::Sharded;

/// Frames of unmounted virtual threads, by thread number.
static UNMOUNTED: Sharded<SavedStack> = Sharded::new();

/// Notes at the thread's first call that it runs virtual thread `number`.
pub(crate) fn is_mounted(own: OwnThread<'_>, number: JavaThreadId) {
    own.set_carrier();
    if mount_events::are_missing_at_first_call() {
        return;
    }
    set_mounted(number);
    own.set_runs(number);
}

/// Whether virtual threads may be mounted in this JVM: the JVM says so, or the calling thread is virtual.
pub(crate) fn are_virtual_threads_here(is_virtual: bool) -> bool {
    is_virtual || events() != Events::NotNeeded
}

/// The number of the virtual thread that the calling thread runs, or 0; `None` if the JVM must be asked.
pub(crate) fn current_virtual_thread() -> Option<JavaThreadId> {
    if events() == Events::NotNeeded {
        return Some(JavaThreadId::NONE);
    }
    let number = mounted();
    (!number.is_none() || mount_events::are_complete()).then_some(number)
}

/// Mounts virtual thread `number` on the calling thread.
pub(crate) fn mount(number: JavaThreadId) {
    mount_events::arrived();
    set_mounted(number);
    let saved = take(number);
    let begin = |saved: &SavedStack| {
        #[allow(unsafe_code)]
        let begun = guarded(|| {
            // SAFETY: closures of `with_current` run no Java code, so this event is in none.
            unsafe { thread::begin_current(saved.recording()) }
        });
        begun == Some(true)
    };
    if !thread::is_known() && !saved.as_ref().is_some_and(begin) {
        return lose(saved);
    }
    thread::with_current(|own| {
        own.set_aside(save_frames::save(own));
        own.set_runs(number);
        restore(own, saved);
    });
}

/// Unmounts virtual thread `number` from the calling thread.
pub(crate) fn unmount(number: JavaThreadId) {
    mount_events::arrived();
    set_mounted(JavaThreadId::NONE);
    thread::with_current(|own| {
        // The thread's first call may have been while it ran this virtual thread.
        let aside = own.take_aside();
        if let Some(saved) = save_frames::save(own)
            && saved.recording() == recording()
            && let Err(saved) = UNMOUNTED.insert(number.get(), saved)
        {
            lose(Some(saved));
        }
        own.set_runs(JavaThreadId::NONE);
        restore(own, aside);
    });
}

/// Drops the frames of virtual thread `number`, which has ended.
pub(crate) fn end(number: JavaThreadId) {
    mount_events::thread_ended();
    drop(take(number));
}

fn take(number: JavaThreadId) -> Option<SavedStack> {
    UNMOUNTED.remove(number.get())
}

/// Counts calls in progress as lost.
fn lose(saved: Option<SavedStack>) {
    if let Some(saved) = saved.filter(|saved| saved.recording() == recording()) {
        lost_calls::add(saved.calls());
    }
}

fn restore(own: OwnThread<'_>, saved: Option<SavedStack>) {
    if let Some(saved) = saved
        && saved.recording() == recording()
    {
        save_frames::restore(own, &saved);
    }
}

/// Forgets the frames of all unmounted virtual threads.
pub(crate) fn forget_all() {
    UNMOUNTED.clear();
}

/// Calls `visit` with the frames of each unmounted virtual thread.
pub(crate) fn for_each(mut visit: impl FnMut(JavaThreadId, &SavedStack)) {
    UNMOUNTED.for_each(|number, saved| visit(JavaThreadId::new(number), saved));
}
