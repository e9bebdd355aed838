//! Threads of the agent that are not attached to the JVM.
#![allow(unsafe_code)]

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The share of the processor that a thread gets when the service needs it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    Normal,
    Lowest,
}

/// Starts a thread with all signals blocked, so that it gets none of the service's.
///
/// # Errors
/// The thread could not be created.
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

/// Does work that may hang, such as reading files on a network, on a thread of its own. `None` if it takes longer than
/// `limit`; the thread then continues unobserved.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = mpsc::sync_channel(1);
    let work = move || {
        // The caller may have stopped waiting.
        let _ = done.send(work());
    };
    spawn("tprofiler-wait", Priority::Normal, work).ok()?;
    result.recv_timeout(limit).ok()
}

/// The end of the calling thread's stack, if it is known.
pub(crate) fn lowest_stack_address() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut lowest = std::ptr::null_mut();
    let mut size = 0;
    // SAFETY: the first call initializes the attributes if it returns 0, and only then are they
    // read and destroyed; all pointers are to variables of this function.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let found =
            libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (found == 0).then(|| lowest.addr())
    }
}

/// Blocks all signals in this thread, so that the service's go elsewhere.
fn block_signals() {
    // SAFETY: fills a local signal set and sets the mask of this thread.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}

/// Gives this thread the lowest priority. If that is refused, it keeps its priority.
fn step_back() {
    // SAFETY: on Linux the call affects only the calling thread, and touches no memory.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}
