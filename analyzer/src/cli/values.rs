//! Option values that several commands share.

/// Parses the number of `--top`.
///
/// # Errors
/// One line that says what is wrong with it.
pub fn parse_top(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("--top: '{text}' is not a number of rows, like 20 or 0 for all"))
}
