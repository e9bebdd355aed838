//! One run: its names, the sums of its rows, and what its counters and events say. Knows files only as tables of rows
//! (`input`), and nothing of reports.
//!
//! ```text
//! selection, window, selected_rows   which rows count: time, thread, method
//! data           reads all that a report needs: row_sums, read_counts, cut_short
//! recorded_calls, unfinished_calls   calls one by one
//! cpu_samples, lock_waits, sql, allocations, exceptions, traces; sites: the methods in which they happen
//! names, short_names, nearest_names, native_names   names, and what users write instead
//! history        what the agent changed meanwhile: throttled, muted, postponed; known_time, recorded_time
//! losses         what is missing
//! stacks_in_time for SkyWalking; old_counts for TProfiler's own logs
//! ```

pub(crate) mod allocations;
pub(crate) mod cpu_samples;
pub mod cut_short;
pub mod data;
#[cfg(test)]
mod data_tests;
pub(crate) mod exceptions;
pub mod history;
pub(crate) mod lock_waits;
mod logged_time;
pub mod losses;
pub mod muted;
pub mod names;
mod native_names;
pub mod nearest_names;
pub mod old_counts;
pub mod postponed;
pub mod read_counts;
pub(crate) mod recorded_calls;
pub mod recorded_time;
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
