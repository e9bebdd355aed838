//! What the JVM refuses.

use jvmti_bindings::prelude::{jni, jvmti};
use thiserror::Error;

/// Why the JVM does not do something.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JvmError {
    /// A JVMTI function failed.
    #[error("JVMTI error {0:?}")]
    Jvmti(jvmti::jvmtiError),
    /// It gives no JVMTI environment yet.
    #[error("the JVM is not ready: no JVMTI (error {0})")]
    NotReady(jni::jint),
    /// It does not know the calling thread.
    #[error("no current thread ({0:?})")]
    NoCurrentThread(jvmti::jvmtiError),
    /// It does not start the agent thread.
    #[error("the JVM refuses a thread ({0:?})")]
    NoAgentThread(jvmti::jvmtiError),
    /// It refuses this; the exception is cleared.
    #[error("the JVM refuses {0}")]
    Refused(String),
    /// It has no memory for the list of methods in this state.
    #[error("the JVM has no memory for the list of {0} methods")]
    NoMemory(&'static str),
    /// It does not have something.
    #[error("{0}")]
    Missing(&'static str),
}

impl From<jvmti::jvmtiError> for JvmError {
    fn from(error: jvmti::jvmtiError) -> Self {
        Self::Jvmti(error)
    }
}
