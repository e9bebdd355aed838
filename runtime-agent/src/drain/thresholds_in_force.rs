//! The thresholds in force.

use log_format::pattern::Pattern;

/// The thresholds in force, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// Of all methods except those that `own` names.
    pub all_ns: u64,
    /// Of the methods that patterns name.
    pub own: Vec<(Pattern, u64)>,
    /// What the hour's budget raised all thresholds to, or 0.
    pub raised_to_ns: u64,
}
