//! Values of cells that are one of a few words.

use serde::{Deserialize, Serialize};

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit {
    /// It returned.
    Return,
    /// An exception left it.
    Throw,
    /// It had not ended when recording stopped.
    Unfinished,
}

impl Exit {
    /// Its name in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Return => "return",
            Self::Throw => "throw",
            Self::Unfinished => "unfinished",
        }
    }
}

/// The state of a profile task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// It waits for its start.
    Notified,
    /// It records.
    Running,
    /// It has ended.
    Finished,
    /// It was refused.
    Rejected,
}

impl TaskState {
    /// Its name in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Notified => "notified",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Rejected => "rejected",
        }
    }
}

/// What a thread waited for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum LockKind {
    /// The monitor of an object: `synchronized`.
    #[default]
    Monitor,
    /// A lock or semaphore of `java.util.concurrent`.
    Lock,
    /// Something else for which threads park: a condition, queue, future or latch.
    Park,
}

impl LockKind {
    /// Its name in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Monitor => "monitor",
            Self::Lock => "lock",
            Self::Park => "park",
        }
    }
}
