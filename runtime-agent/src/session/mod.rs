//! One run of the agent, from the JVM's start or an attach until the JVM's end or a detach.

pub(crate) mod active;
pub(crate) mod agent_thread;
pub(crate) mod engine;
pub(crate) mod phase;
pub mod presence;
pub(crate) mod run_info;
