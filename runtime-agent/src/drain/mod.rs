//! Takes what probes have recorded from the threads, sums it up, and makes rows of the log of it.

pub(crate) mod call_paths;
pub(crate) mod events;
pub(crate) mod hot_methods;
pub(crate) mod in_flight;
pub(crate) mod interval;
pub(crate) mod record_limiter;
pub(crate) mod recorder;
pub(crate) mod registry;
pub(crate) mod sums;
pub(crate) mod thread_ids;
pub(crate) mod thread_reader;
pub(crate) mod unfinished_calls;
