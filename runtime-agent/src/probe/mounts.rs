//! Virtual threads: their frames go with them from carrier to carrier.
//!
//! A mounted virtual thread uses the shadow stack of its carrier, so that a probe knows nothing of
//! it. When it is unmounted with calls in progress, its frames are copied out and kept by its number;
//! when it is mounted again, they are copied in. Totals are the carrier's, which know how many of its frames are
//! of a method. A carrier's own frames are set aside meanwhile.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;

use super::stack::SavedFrame;
use super::thread::{self, ProbeThread};
use super::{guarded, recording, recording_of};

/// The frames of a thread that does not run.
#[derive(Debug, Default)]
pub(crate) struct SavedStack {
    /// What the frames belong to; see `probe::STATE`.
    pub(super) state: u64,
    pub frames: Vec<SavedFrame>,
    pub beyond: u64,
}

impl SavedStack {
    /// The recording that the frames are of.
    pub(crate) fn recording(&self) -> u32 {
        recording_of(self.state)
    }
}

/// Frames of virtual threads that are not mounted, by number of the thread.
static UNMOUNTED: LazyLock<DashMap<u64, SavedStack>> = LazyLock::new(DashMap::new);
/// How many there are, so that nobody looks for nothing.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of the virtual thread that this carrier runs, or 0, and the attachment in which
    /// that was so.
    static MOUNTED: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

/// The number of the virtual thread that the calling thread runs, or 0.
pub(super) fn mounted() -> u64 {
    let (attachment, number) = MOUNTED.get();
    if attachment == thread::attachment() { number } else { 0 }
}

/// The calling thread, which is `thread` and has just been met, runs virtual thread `number`.
pub(crate) fn is_mounted(thread: &ProbeThread, number: u64) {
    MOUNTED.set((thread::attachment(), number));
    thread.set_runs(number);
}

/// The calling thread runs virtual thread `number` from now on.
pub(crate) fn mount(number: u64) {
    MOUNTED.set((thread::attachment(), number));
    let saved = take(number);
    let thread = match (thread::current().filter(|thread| !thread.is_retired()), &saved) {
        (None, Some(_)) => guarded(thread::begin_current).flatten(),
        (current, _) => current,
    };
    let Some(thread) = thread else { return };
    thread.set_aside(thread.stack.save());
    thread.set_runs(number);
    restore(thread, saved);
}

/// The calling thread stops to run virtual thread `number`.
pub(crate) fn unmount(number: u64) {
    MOUNTED.set((0, 0));
    let Some(thread) = thread::current() else { return };
    // It may have been met for the first time while it ran this one.
    let own = thread.take_aside();
    if let Some(saved) = thread.stack.save()
        && saved.recording() == recording()
        && UNMOUNTED.insert(number, saved).is_none()
    {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
    thread.set_runs(0);
    restore(thread, own);
}

/// Virtual thread `number` has ended.
pub(crate) fn end(number: u64) {
    drop(take(number));
}

fn take(number: u64) -> Option<SavedStack> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let (_, saved) = UNMOUNTED.remove(&number)?;
    COUNT.fetch_sub(1, Ordering::Relaxed);
    Some(saved)
}

fn restore(thread: &ProbeThread, saved: Option<SavedStack>) {
    if let Some(saved) = saved
        && saved.recording() == recording()
    {
        thread.stack.restore(&saved, |method| thread.totals.of(method).unwrap_or(&thread.lost));
    }
}

/// Forgets all frames of threads that are not mounted.
pub(crate) fn forget_all() {
    let numbers: Vec<u64> = UNMOUNTED.iter().map(|entry| *entry.key()).collect();
    for number in numbers {
        drop(take(number));
    }
    UNMOUNTED.shrink_to_fit();
}

/// Calls `visit` with the frames of each virtual thread that is not mounted.
pub(crate) fn for_each(mut visit: impl FnMut(u64, &SavedStack)) {
    for entry in UNMOUNTED.iter() {
        visit(*entry.key(), entry.value());
    }
}
