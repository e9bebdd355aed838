//! Option values that several commands share.

use log_format::error::BadValue;

/// Parses the number of `--top`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_top(text: &str) -> Result<usize, BadValue> {
    text.parse().map_err(|_| {
        BadValue::new(text, "is not a number of rows, like 20 or 0 for all").of("--top")
    })
}

/// Most calls of `--slowest`: each has a call tree in memory.
const MOST_SLOWEST: usize = 1_000;

/// Parses the number of `--slowest`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_slowest(text: &str) -> Result<usize, BadValue> {
    let number = text.parse().ok().filter(|number| (1..=MOST_SLOWEST).contains(number));
    number.ok_or_else(|| {
        BadValue::new(text, format!("is not a number of calls from 1 to {MOST_SLOWEST}, like 5"))
            .of("--slowest")
    })
}
