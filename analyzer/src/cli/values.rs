//! Option values that several commands share.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use log_format::error::BadValue;

/// Parses an option that takes only some of an enumeration's values.
pub fn one_of<T: ValueEnum + Clone + Send + Sync + 'static>(
    values: &[T],
) -> impl TypedValueParser<Value = T> {
    let names: Vec<_> = values.iter().filter_map(ValueEnum::to_possible_value).collect();
    PossibleValuesParser::new(names)
        .try_map(|name| T::from_str(&name, false).map_err(BadValue::because))
}

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
