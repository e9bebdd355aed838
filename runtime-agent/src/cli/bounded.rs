//! Waits with a time limit: a network file system may never answer.

use std::time::Duration;

use crate::sys::native_thread::within;

/// How long a disk may take to read a small file.
pub(super) const FILES: Duration = Duration::from_secs(10);

/// Runs a function that may hang.
///
/// # Errors
/// One line: no answer in time.
pub(super) fn bounded<T: Send + 'static>(
    what: &str,
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    within(limit, work).ok_or_else(|| format!("{what}: no answer within {} s", limit.as_secs()))
}
