//! What the agent thread and the thread that waits for it tell each other: how far the run has got, and which of them
//! decided whether it begins.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};

/// How far the agent thread has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It runs, and other processes can see it.
    Runs,
    /// Everything that can hang on a disk is done.
    Prepared,
    /// Classes are instrumented, and recording has begun if it was asked for.
    Begun,
}

/// How the agent came into the JVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// With `-agentpath`: the JVM's start waits.
    AtStart,
    /// By attach: there is time to look for long-lived loops.
    Attached,
    /// From a method of the Java program, which waits.
    Called,
}

/// Who can claim a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimant {
    /// The agent thread, when it is prepared or has failed.
    Agent,
    /// The thread that waits for it, when it has waited for too long.
    Waiter,
}

/// Decides once whether a run begins, and which thread reports why not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claim(Arc<OnceLock<Claimant>>);

impl Claim {
    /// `true` for the first claimant, each time that it asks.
    pub(crate) fn take(&self, who: Claimant) -> bool {
        *self.0.get_or_init(|| who) == who
    }
}

/// Lets the thread that started the agent thread wait for it.
pub(crate) struct Started {
    pub stages: Receiver<Stage>,
    pub claim: Claim,
}
