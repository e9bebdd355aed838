//! A line on stderr about work that takes long.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How long work may take without a word.
const PATIENCE: Duration = Duration::from_secs(1);

/// Does some work. If that takes longer than a second, prints a line on stderr that says what it waits for.
pub(super) fn with_notice<T>(waits_for: &str, work: impl FnOnce() -> T) -> T {
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let notice = move || {
            if is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("tprofiler: waiting {waits_for}");
            }
        };
        // Without a thread, there is no line.
        let _ = thread::Builder::new().spawn_scoped(scope, notice);
        // Whether it returns or panics, the other thread ends.
        let _done = done;
        work()
    })
}
