//! The CPU time of all self-tests.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::clock;

static CPU_NS: AtomicU64 = AtomicU64::new(0);

/// Runs a part of a self-test and adds the calling thread's CPU time to the sum.
pub(crate) fn timed<R>(test: impl FnOnce() -> R) -> R {
    let before = clock::thread_cpu_ns();
    let result = test();
    let after = clock::thread_cpu_ns();
    CPU_NS.fetch_add(after.saturating_sub(before), Ordering::Relaxed);
    result
}

/// CPU time of all self-tests since the attachment began.
pub(crate) fn used_ns() -> u64 {
    CPU_NS.load(Ordering::Relaxed)
}

/// Forgets the sum, because an attachment begins.
pub(crate) fn forget() {
    CPU_NS.store(0, Ordering::Relaxed);
}
