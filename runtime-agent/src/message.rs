//! The agent's own messages: one line each, on stderr. Nothing is ever printed on stdout, which
//! belongs to the service.

use std::fmt;
use std::io::Write;

/// Prints one line. Ignores a stderr that cannot be written to.
pub(crate) fn print(message: fmt::Arguments<'_>) {
    // One write, so that lines of several threads do not mix.
    let line = format!("tprofiler: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Prints one line, formatted as by `format!`.
macro_rules! message {
    ($($argument:tt)*) => { $crate::message::print(format_args!($($argument)*)) };
}
pub(crate) use message;
