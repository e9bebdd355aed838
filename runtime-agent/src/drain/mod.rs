//! Takes recorded calls and method statistics from the threads, sums them up, and makes rows for the log.

mod allocations;
pub(crate) mod call_paths;
mod counters;
pub(crate) mod events;
pub(crate) mod exceptions;
pub(crate) mod hot_methods;
pub(crate) mod hot_samples;
pub(crate) mod hot_sums;
pub(crate) mod in_flight;
pub(crate) mod interval;
mod lock_waits;
pub(crate) mod record_limiter;
pub(crate) mod recorder;
pub(crate) mod registry;
pub(crate) mod run_clock;
mod sampled_stacks;
mod sampled_threads;
pub(crate) mod samples;
pub(crate) mod seconds;
pub(crate) mod sums;
pub(crate) mod thread_ids;
pub(crate) mod thread_reader;
pub(crate) mod thresholds;
pub(crate) mod time_slices;
mod traces;
pub(crate) mod unfinished_calls;
pub(crate) mod waited;
