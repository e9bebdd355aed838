//! Classes that have not been retransformed, and why.

use std::fmt;

use super::first_pause;
use crate::instrument::methods::ClassKey;
use crate::stderr::message;

/// How many classes messages name; the rest are only counted.
pub(super) const NAMED: usize = 5;

/// A class that has not been retransformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Postponed {
    /// Name with dots.
    pub class: String,
    pub reason: PostponedReason,
    /// It is not tried any more.
    pub is_given_up: bool,
    pub key: ClassKey,
    /// It has probes: they are to be removed, or are those of an earlier attachment.
    pub has_probes: bool,
}

/// Why a class has not been retransformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PostponedReason {
    /// A method of its own with a loop has been running for long.
    Runs {
        /// The method's name.
        method: String,
        /// The thread's name.
        thread: String,
    },
    /// Not all stacks could be read in time.
    NotChecked,
    /// Retransforming a class stops all threads for too long.
    Pauses,
    /// The first retransformation in this JVM would.
    FirstPause,
}

impl fmt::Display for Postponed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.reason)
    }
}

impl fmt::Display for PostponedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs { method, thread } if thread.is_empty() => {
                write!(f, "{method} runs in many virtual threads")
            }
            Self::Runs { method, thread } => write!(f, "{method} runs in thread {thread}"),
            Self::NotChecked => f.write_str("not all stacks could be read in time"),
            Self::Pauses => f.write_str("retransforming would stop all threads for too long"),
            Self::FirstPause => write!(
                f,
                "with over {} frames on all stacks the first retransformation would stop all threads for too long; \
                 start the JVM with -XX:-UseBiasedLocking, or with the agent",
                first_pause::MOST_FRAMES
            ),
        }
    }
}

/// Prints which classes were given up. `consequence` is what is true of each.
pub(super) fn tell(postponed: &[Postponed], consequence: &str) {
    for postponed in postponed.iter().take(NAMED) {
        message!("{postponed}; the class {consequence}");
    }
    if let Some(more) = postponed.len().checked_sub(NAMED).filter(|more| *more > 0) {
        message!("{more} more classes: each {consequence}");
    }
}
