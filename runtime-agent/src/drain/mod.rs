//! Takes what threads have recorded, sums it up, and makes rows for the log. All on the agent thread, which calls
//! [`recorder`] each round; nothing here waits for a thread of the program.
//!
//! ```text
//! recorder           the one entry: holds all of the below, and writes the log
//! thread_reader      how far each thread's data has been read
//! registry, thread_ids, call_paths, events, run_clock   ids, names and moments of what is written
//!
//! calls              interval (statistics), record_limiter and thresholds (which recorded calls are written),
//!                    unfinished_calls, in_flight, requests (of profile tasks)
//! samples            samples, sampled_stacks, sampled_threads
//! other events       lock_waits, statements, allocations, exceptions, traces; second_sums for those of a second
//! for `top`          hot_methods, hot_samples, hot_sums; time_slices for the last minute
//! for the budget     run_sums, method_waits, hot_methods
//! ```

mod allocations;
pub(crate) mod call_paths;
mod counter_rows;
pub(crate) mod events;
pub(crate) mod exceptions;
pub(crate) mod hot_methods;
pub(crate) mod hot_samples;
pub(crate) mod hot_sums;
pub(crate) mod in_flight;
pub(crate) mod interval;
mod lock_waits;
pub(crate) mod method_waits;
pub(crate) mod record_limiter;
pub(crate) mod recorder;
pub(crate) mod registry;
pub(crate) mod run_clock;
pub(crate) mod run_sums;
mod sampled_stacks;
mod sampled_threads;
pub(crate) mod samples;
pub(crate) mod second_sums;
mod statements;
pub(crate) mod task_requests;
pub(crate) mod thread_ids;
pub(crate) mod thread_reader;
pub(crate) mod thresholds_in_force;
pub(crate) mod time_slices;
mod traces;
pub(crate) mod unfinished_calls;
