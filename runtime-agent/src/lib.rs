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
#[cfg(feature = "cli")]
pub mod cli;
mod control;
mod drain;
mod instrument;
mod jvm;
mod log;
mod message;
mod options;
mod overhead;
mod probe;
mod request;
mod schedule;
mod self_test;
mod session;
mod sys;

pub use agent::TProfiler;

#[allow(unsafe_code, clippy::undocumented_unsafe_blocks, missing_docs)]
mod entry_points {
    //! What the JVM looks for in an agent library; each catches every panic.
    jvmti_bindings::export_agent!(super::TProfiler);
}
