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
