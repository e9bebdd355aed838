//! The operating system: clocks, memory, threads, timers, perf events, libraries. All calls of the C library are here,
//! but for those of the signal handler's crate.

pub(crate) mod clock;
pub(crate) mod end_signals;
pub(crate) mod libraries;
pub(crate) mod local_time;
pub(crate) mod mapped_memory;
pub(crate) mod memory;
pub(crate) mod native_thread;
pub(crate) mod perf_event;
pub(crate) mod process_timer;
pub(crate) mod run_delay;
pub(crate) mod thread_timer;
