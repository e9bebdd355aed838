//! Why the agent does not do something. `Display` is the line that stderr or a client gets, with the cause at its end;
//! `source` returns the cause.

use std::io;

use jvmti_bindings::prelude::{jni, jvmti};
use log_format::error::{BadValue, FileError};
use rustix::io::Errno;
use thiserror::Error;

/// Why the agent does not start, or does not carry out a request.
#[derive(Debug, Error)]
pub enum Error {
    /// The JVM refuses something.
    #[error(transparent)]
    Jvm(#[from] JvmError),
    /// An option, or a command's argument, is wrong.
    #[error(transparent)]
    Value(#[from] BadValue),
    /// A file or folder cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The agent is in a state that does not allow it.
    #[error("{0}")]
    State(&'static str),
    /// A profile task is refused.
    #[error("{TASK}{0}")]
    Task(#[from] TaskError),
    /// A pattern names nothing, by mistake as it seems: the command and why.
    #[error("{0}: {1}")]
    NamesNothing(&'static str, String),
    /// A command needs the sampler.
    #[error("{0} needs samples of CPU time (option cpu)")]
    NeedsCpu(&'static str),
    /// The files that options name were not read in so many seconds.
    #[error("config, token_file or logs: the disk did not answer within {0} s")]
    DiskHangs(u64),
    /// The agent thread did not answer in so many seconds.
    #[error("the agent did not answer within {0} s; does the disk of its log folder hang?")]
    NoAnswer(u64),
    /// A client without the token sends more commands a second than this.
    #[error("too many commands; at most {0} a second")]
    TooManyCommands(u32),
    /// Recording has ended, but the disk does not accept the rest.
    #[error("recording is off; what was recorded is not on the disk yet: {0}")]
    NotOnDisk(#[source] FileError),
    /// None of these ports is free.
    #[error("no free port from {first} to {last} ({source})")]
    NoPort {
        /// The first one tried.
        first: u16,
        /// The last one tried.
        last: u16,
        /// Why the last one cannot be taken.
        source: io::Error,
    },
    /// The kernel gives no random bytes.
    #[error("no random bytes: {0}")]
    NoRandomBytes(#[source] Errno),
}

/// What an answer begins with that refuses a task.
pub(crate) const TASK: &str = "task: ";

/// Why a profile task does not begin, or does not end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TaskError {
    /// Its id names another one of the run.
    #[error("task {0} exists")]
    Exists(String),
    /// The run has had this many.
    #[error("no more than {0} tasks in a run")]
    TooMany(usize),
    /// No task has this id.
    #[error("no task {0}; tprofiler tasks lists them")]
    Unknown(String),
    /// The one with this id is in this state.
    #[error("{0} is {1} already")]
    Ended(String, &'static str),
    /// Its order is wrong, or in the way of another one. The log has the reason too.
    #[error("{0}")]
    Rejected(String),
}

impl TaskError {
    /// Reads the answer to an order: `None` if it is another error than one of tasks.
    #[cfg(feature = "cli")]
    pub(crate) fn of_order(answer: &str) -> Option<Self> {
        let reason = answer.strip_prefix(TASK)?;
        let id = reason.strip_prefix("task ").and_then(|rest| rest.strip_suffix(" exists"));
        Some(match id {
            Some(id) => Self::Exists(id.to_owned()),
            None => Self::Rejected(reason.to_owned()),
        })
    }
}

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
    #[error("the JVM cannot start the agent thread ({0:?})")]
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

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_an_order_says_why_it_is_refused() {
        for error in [
            TaskError::Exists("t-1".to_owned()),
            TaskError::Rejected("duration=1s: must be from 1m to 15m".to_owned()),
        ] {
            let answer = Error::from(error.clone()).to_string();
            assert_eq!(TaskError::of_order(&answer), Some(error), "{answer}");
        }
        assert_eq!(TaskError::of_order(&Error::NoAnswer(5).to_string()), None);
    }
}
