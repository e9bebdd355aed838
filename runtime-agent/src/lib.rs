//! `libtprofiler.so`: a JVMTI agent that times every call of chosen methods.
//!
//! ```text
//! agent          the JVM's callbacks
//!   agent_thread the agent's own thread: begins a profile, and ends it when it is detached
//!   instrument   sends classes through the hook, and back
//!   class_hook   which classes get probes; the rewriter gives them
//!   natives      the probe's entry from Java -> probe -> a thread's stack, totals and ring
//!   engine       the agent's thread: start, stop, and the recorder, which drains and writes
//!   control      TCP clients, who ask the engine
//! ```
//! `docs/architecture.md` tells how they hang together. The probe is written so that it can run
//! wherever Java code runs: after a thread's first call it never allocates through the allocator, waits,
//! or calls the JVM, but for the name of a virtual thread that has a record.

mod agent;
mod agent_thread;
mod budget;
mod call_paths;
mod class_hook;
mod class_log;
#[cfg(feature = "cli")]
pub mod client;
mod clock;
mod compress;
mod control;
mod cost_control;
mod engine;
mod filters;
mod hot_methods;
mod in_flight;
mod instrument;
mod interval;
mod java_threads;
mod known;
mod known_thread;
mod left_out_rows;
mod loaders;
mod log_folder;
mod mapped;
mod memory;
mod message;
mod methods;
mod muted_rows;
mod muting;
mod native_thread;
mod natives;
mod open_calls;
mod options;
mod overhead;
mod pauses;
pub mod presence;
mod probe;
mod probe_class;
mod recorder;
mod requests;
mod retention;
mod run_info;
mod run_log;
mod running;
mod schedule;
mod self_test;
mod slice;

mod table_file;
mod thread_ids;
mod virtual_threads;
mod why_empty;

pub use agent::TProfiler;

#[allow(unsafe_code, clippy::undocumented_unsafe_blocks, missing_docs)]
mod entry_points {
    //! What the JVM looks for in an agent library; each catches every panic.
    jvmti_bindings::export_agent!(super::TProfiler);
}
