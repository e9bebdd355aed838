//! Threads of the agent that the JVM does not know.
#![allow(unsafe_code)]

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How much of the processor a thread gets when the service wants it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    Normal,
    Lowest,
}

/// Starts a thread that the service's signals do not reach.
///
/// # Errors
/// There is no thread to be had.
pub(crate) fn spawn(
    name: &str,
    priority: Priority,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<thread::JoinHandle<()>> {
    let work = move || {
        block_signals();
        if priority == Priority::Lowest {
            step_back();
        }
        work();
    };
    thread::Builder::new().name(name.to_owned()).spawn(work)
}

/// Does what may hang, as files on a network do, on a thread of its own. `None` if it is not done in time; the thread is
/// then left to itself.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = mpsc::sync_channel(1);
    let work = move || {
        // Nobody may wait any more.
        let _ = done.send(work());
    };
    spawn("tprofiler-wait", Priority::Normal, work).ok()?;
    result.recv_timeout(limit).ok()
}

/// Keeps the service's signals away from this thread.
fn block_signals() {
    // SAFETY: fills a set of this function's own and sets the mask of this thread.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}

/// Makes this thread the last to get the processor. Where that is refused, it has to share.
fn step_back() {
    // SAFETY: on Linux the call concerns the calling thread alone, and touches no memory.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}
