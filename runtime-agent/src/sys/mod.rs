//! The operating system: clocks, memory, native threads.

pub(crate) mod clock;
pub(crate) mod end_signals;
pub(crate) mod local_time;
pub(crate) mod mapped_memory;
pub(crate) mod memory;
pub(crate) mod native_thread;
pub(crate) mod run_delay;
