//! The signals that ask a process to end.
#![allow(unsafe_code)]

use std::time::Duration;
use std::{io, mem, ptr};

/// The signals that ask a process to end, blocked until `came_within` takes them.
pub(crate) struct EndSignals(libc::sigset_t);

impl EndSignals {
    /// Blocks them from now on in this thread, the only one of the process.
    pub(crate) fn block() -> Self {
        // SAFETY: fills a set of this function's own and changes the mask of this thread.
        unsafe {
            let mut set = mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                // With nohup, one of them is ignored.
                let mut action: libc::sigaction = mem::zeroed();
                libc::sigaction(signal, ptr::null(), &raw mut action);
                if action.sa_sigaction != libc::SIG_IGN {
                    libc::sigaddset(&raw mut set, signal);
                }
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
            Self(set)
        }
    }

    /// Whether one of them comes within `time`, or has come before.
    pub(crate) fn came_within(&self, time: Duration) -> bool {
        let timeout = libc::timespec {
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        // SAFETY: the set is initialized, and the null pointer means that no signal information is returned.
        let signal =
            unsafe { libc::sigtimedwait(&raw const self.0, ptr::null_mut(), &raw const timeout) };
        signal > 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
    }
}
