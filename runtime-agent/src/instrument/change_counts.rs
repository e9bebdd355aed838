//! Counts what became of loaded classes that were to be retransformed.

use super::postponed::Postponed;
use crate::jvm::pauses;

/// What became of classes since the attachment began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeCounts {
    /// Classes that passed the hook.
    pub changed: u64,
    /// Classes that the JVM refuses to retransform.
    pub refused: u64,
    /// Classes left alone because pauses got too long.
    pub skipped: u64,
    /// Loops that run in an old version of their method, because they began just before it was replaced.
    pub caught: u64,
    /// Classes were retransformed while there were virtual threads whose stacks could not be read.
    pub has_unchecked_threads: bool,
}

/// What became of loaded classes, and how long threads were stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadedClassFigures {
    pub retransformed: u64,
    /// Classes that the JVM refused, or that would have stopped all threads for too long.
    pub not_retransformed: u64,
    /// Classes that wait for a loop to end, or were given up because of one.
    pub postponed: Vec<Postponed>,
    /// Loops that began just before their class was retransformed.
    pub caught_loops: u64,
    /// Instrumented classes that the JVM has not loaded so far; counted at a detach.
    pub not_seen_loaded: u64,
    /// How long threads were stopped by the agent.
    pub pauses: pauses::Figures,
    /// How often the agent has read stacks, and for how long that stopped a thread (before JDK 12, all threads).
    pub stack_looks: pauses::Figures,
}

impl ChangeCounts {
    pub(super) fn figures(&self, postponed: Vec<Postponed>) -> LoadedClassFigures {
        LoadedClassFigures {
            retransformed: self.changed,
            not_retransformed: self.refused + self.skipped,
            postponed,
            caught_loops: self.caught,
            not_seen_loaded: 0,
            pauses: pauses::figures(),
            stack_looks: pauses::looks(),
        }
    }
}
