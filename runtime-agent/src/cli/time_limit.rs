//! Waits with a time limit: a network file system may never answer.

use std::time::Duration;

use super::failure::Failure;
use crate::sys::native_thread::within;

/// How long a disk may take to read a small file.
pub(super) const FILES: Duration = Duration::from_secs(10);

/// Runs a function that may hang.
///
/// # Errors
/// No answer in time.
pub(super) fn bounded<T: Send + 'static>(
    what: &str,
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let seconds = limit.as_secs();
    within(limit, work).ok_or_else(|| format!("{what}: no answer within {seconds} s").into())
}
