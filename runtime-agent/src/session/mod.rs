//! One run of the agent, from the JVM's start or an attach until the JVM's end or a detach. `agent` begins it; all else
//! asks the agent thread by a request.
//!
//! ```text
//! claim, profile     the callback's side: prepares a run, and waits for the agent thread
//! agent_thread       the thread, from the beginning of a run to its end
//! agent_loop         its rounds: drains, decides, carries out requests
//! recording_switch   recording on and off
//! active             what callbacks need of the active run
//! status, run_info, no_classes   what `status` and the log have of it
//! java_call          how a Java program starts the agent
//! ```

pub(crate) mod active;
pub(crate) mod agent_loop;
pub(crate) mod agent_thread;
pub(crate) mod claim;
pub(crate) mod java_call;
mod no_classes;
mod recording_switch;
mod run;
pub(crate) mod run_info;
mod status;
