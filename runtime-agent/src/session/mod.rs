//! One run of the agent, from the JVM's start or an attach until the JVM's end or a detach.

pub(crate) mod active;
pub(crate) mod agent_loop;
pub(crate) mod agent_thread;
pub(crate) mod claim;
pub(crate) mod java_call;
mod no_classes;
mod profile;
mod recording_switch;
pub(crate) mod run_info;
mod status;
