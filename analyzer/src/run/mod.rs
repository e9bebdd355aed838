//! One run: its names, the sums of its rows, and what its counters and events say.

pub(crate) mod allocations;
pub mod counts;
pub(crate) mod cpu_samples;
pub mod cut_short;
pub mod data;
#[cfg(test)]
mod data_tests;
pub(crate) mod exceptions;
pub mod history;
mod known_time;
pub(crate) mod lock_waits;
pub mod losses;
pub mod muted;
pub mod names;
mod native_names;
pub mod nearest_names;
pub mod old_counts;
pub mod postponed;
pub mod recorded_time;
pub(crate) mod records;
pub(crate) mod row_sums;
pub(crate) mod selected_rows;
pub mod selection;
pub(crate) mod short_names;
pub(crate) mod sites;
pub(crate) mod sql;
pub mod stacks_in_time;
pub mod throttled;
pub(crate) mod traces;
pub(crate) mod unfinished_calls;
pub(crate) mod window;
