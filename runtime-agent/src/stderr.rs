//! The agent's own messages: one line each, on stderr. Nothing is ever printed on stdout, which
//! belongs to the service.
//!
//! Writing to a full pipe blocks, but the JVM must start and end all the same. So a separate thread writes, and others
//! wait for it only briefly.

use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::sys::native_thread::{self, Priority};

/// How long to wait for the writer. After that, nobody waits until it has caught up.
const PATIENCE: Duration = Duration::from_millis(200);
/// Lines that may wait for it. More are dropped and counted.
const MOST: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// There is none: no line waits.
    None,
    Works,
    /// It has worked on its lines for longer than anybody waits.
    Hangs,
}

struct Lines {
    waiting: VecDeque<String>,
    dropped: u64,
    writer: Writer,
}

static LINES: Mutex<Lines> =
    Mutex::new(Lines { waiting: VecDeque::new(), dropped: 0, writer: Writer::None });
/// The writer has written all lines.
static WRITTEN: Condvar = Condvar::new();

fn lines() -> MutexGuard<'static, Lines> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints one line. Ignores a stderr that cannot be written to.
pub(crate) fn print(message: fmt::Arguments<'_>) {
    let line = format!("tprofiler: {message}\n");
    let mut lines = lines();
    if lines.waiting.len() >= MOST {
        lines.dropped += 1;
        return;
    }
    lines.waiting.push_back(line);
    if lines.writer == Writer::None {
        lines.writer = Writer::Works;
        drop(lines);
        let spawned = native_thread::spawn("tprofiler-log", Priority::Normal, write_lines);
        // Without room for a thread, as when memory is short.
        if spawned.is_err() && takes_a_line() {
            return write_lines();
        }
        lines = self::lines();
        if spawned.is_err() {
            // The line waits for the next message.
            lines.writer = Writer::None;
            return;
        }
    }
    let works = |lines: &mut Lines| lines.writer == Writer::Works;
    let waited = WRITTEN.wait_timeout_while(lines, PATIENCE, works);
    let (mut lines, _) = waited.unwrap_or_else(PoisonError::into_inner);
    if lines.writer == Writer::Works {
        lines.writer = Writer::Hangs;
    }
}

/// Whether stderr takes a line at once.
fn takes_a_line() -> bool {
    let stderr = std::io::stderr();
    let mut stderr = [PollFd::new(&stderr, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let ready = poll(&mut stderr, Some(&at_once));
    ready.is_ok() && stderr.iter().any(|stderr| stderr.revents().contains(PollFlags::OUT))
}

/// Writes the lines that wait, each with one write, so that they do not mix with those of others.
fn write_lines() {
    loop {
        let mut lines = lines();
        let line = match (lines.waiting.pop_front(), std::mem::take(&mut lines.dropped)) {
            (Some(line), dropped) => {
                lines.dropped = dropped;
                line
            }
            (None, 0) => {
                lines.writer = Writer::None;
                WRITTEN.notify_all();
                return;
            }
            (None, dropped) => format!("tprofiler: {dropped} more messages were dropped\n"),
        };
        drop(lines);
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// Prints one line, formatted as by `format!`.
macro_rules! message {
    ($($argument:tt)*) => { $crate::stderr::print(format_args!($($argument)*)) };
}
pub(crate) use message;
