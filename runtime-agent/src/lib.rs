//! `libtprofiler.so`: a JVMTI agent that times every call of chosen methods.
//!
//! In go the options, the classes that the JVM loads, and commands over TCP; out come rewritten classes, the
//! log's files (`log_format`) and answers.
//!
//! ```text
//! agent, java_agent  callbacks of the JVM, and calls of the Java class in tprofiler-agent.jar
//! options            what the agent is to do
//! session            the agent thread: begins a run, carries out requests in its loop, ends the run at a detach
//! control            TCP clients, which send requests to that thread (`request`)
//! instrument         which classes get probes, and gives them back without
//! probe_natives      the entry of probes from Java -> probe: a thread's shadow stack, method statistics and ring
//! sampling, locks, allocations, exceptions, statements, traces   what is recorded beside calls
//! drain              takes all of it from threads, on the agent thread -> log: files
//! overhead           decides which methods are throttled
//! jvm, hotspot, sys  calls of the JVM, its internals, and the system's calls
//! ```
//! Begin to read at `agent`, then `session::agent_thread`. `docs/architecture.md` describes how they work together. The
//! probe can run wherever Java code runs: after a thread's first call it never uses the allocator, waits, or calls the
//! JVM, except for the name of a virtual thread that has a recorded call.

mod agent;
mod allocations;
mod attach_protocol;
#[cfg(feature = "cli")]
pub mod cli;
mod control;
mod drain;
mod error;
mod exceptions;
mod hotspot;
mod instrument;
mod java_agent;
mod jvm;
mod locks;
mod log;
mod options;
mod overhead;
mod phase;
mod probe;
mod probe_natives;
mod request;
mod sampling;
mod schedule;
mod self_test;
mod session;
mod statements;
mod stderr;
mod sys;
mod tasks;
mod traces;

pub use agent::TProfiler;

/// For doc tests, which see only what is public.
#[doc(hidden)]
pub mod doc_tests {
    pub use crate::probe::thread::with_current;
}

#[allow(unsafe_code, clippy::undocumented_unsafe_blocks, missing_docs)]
mod entry_points {
    //! The functions that the JVM looks up in an agent library; each catches every panic.
    jvmti_bindings::export_agent!(super::TProfiler);
}
