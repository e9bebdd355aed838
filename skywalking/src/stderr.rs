//! This program's messages: one line each, on stderr.

use std::fmt;
use std::io::Write;

use log_format::writer::one_line;

/// Prints one line. Ignores a stderr that cannot be written to.
pub(crate) fn print(message: fmt::Arguments<'_>) {
    let line = format!("tprofiler skywalking: {}\n", one_line(&message.to_string()));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Prints one line, formatted as by `format!`.
macro_rules! message {
    ($($argument:tt)*) => { $crate::stderr::print(format_args!($($argument)*)) };
}
pub(crate) use message;
