//! Loops that were caught: they had begun just before their class was retransformed, so they go on in an old version
//! of their method, slowly, until they return.
//!
//! A second after a batch, looks at the stacks show them: activations that are old now and were not before.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::activations::{Activation, Classes, Look, Seen};
use super::postponed::NAMED;
use log_format::ids::JavaThreadId;

use crate::options::retransform::Retransform;
use crate::stderr::message;

/// How long after a batch an activation must still be there in an old version to count as caught.
const AFTER_BATCH: Duration = Duration::from_secs(1);

/// What is known about loops that may have been caught.
#[derive(Default)]
pub(super) struct CaughtLoops {
    /// When to check.
    check_at: Option<Instant>,
    /// The classes that were retransformed since the last check, without references.
    sent: Classes,
    /// When the latest batch ended, in ticks.
    sent_until: u64,
    /// Activations in these classes that did not seem to be long-lived.
    let_go: HashSet<Activation>,
    /// Activations that were old before, or have been counted.
    old: HashSet<Activation>,
}

/// Activations that may be caught loops.
pub(super) struct Suspects {
    /// The JVM says that they are old.
    old: Vec<Seen>,
    /// They are as old, by when they began: if a method's own code is unchanged, the JVM does not say so.
    as_old: Vec<Seen>,
}

impl Suspects {
    /// The threads in which one more look is needed.
    pub(super) fn threads(&self) -> HashSet<JavaThreadId> {
        self.as_old.iter().map(|seen| seen.activation.thread).collect()
    }
}

impl CaughtLoops {
    /// Whether a check is still to come.
    pub(super) fn is_waiting(&self) -> bool {
        self.check_at.is_some()
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.check_at.is_some_and(|at| now >= at)
    }

    /// Cancels the check.
    pub(super) fn cancel(&mut self) {
        self.check_at = None;
    }

    /// Notes activations that are old before a batch.
    pub(super) fn see_old(&mut self, old: Vec<Seen>) {
        if self.check_at.is_none() {
            self.old.extend(old.into_iter().map(|seen| seen.activation));
        }
    }

    /// Notes classes that were retransformed, until then, in ticks.
    pub(super) fn sent(&mut self, names: impl Iterator<Item = String>, until: u64) {
        self.sent.extend(names.map(|name| (name, std::ptr::null_mut())));
        self.sent_until = until;
        self.check_at = Some(Instant::now() + AFTER_BATCH);
    }

    /// Notes what the look before a batch saw in its classes.
    pub(super) fn let_go(&mut self, seen: Vec<Seen>) {
        let seen = seen.into_iter().filter(|seen| self.sent.contains_key(&*seen.class));
        self.let_go.extend(seen.map(|seen| seen.activation));
    }

    /// Begins a check. Returns the classes that were retransformed since the last one.
    pub(super) fn begin_check(&mut self) -> Classes {
        self.check_at = None;
        std::mem::take(&mut self.sent)
    }

    /// The activations of a look that may be caught loops of the classes in `sent`.
    pub(super) fn suspects(&mut self, look: Look, sent: &Classes) -> Suspects {
        let let_go = std::mem::take(&mut self.let_go);
        let Look { mut old, seen: mut as_old, .. } = look;
        old.retain(|seen| sent.contains_key(&*seen.class));
        as_old.retain(|seen| sent.contains_key(&*seen.class));
        as_old.retain(|seen| match seen.began {
            Some(began) => began < self.sent_until,
            None => !seen.is_measured && let_go.contains(&seen.activation),
        });
        Suspects { old, as_old }
    }

    /// Of these activations, returns the loops that are caught, each method once a thread. `still` has those that one
    /// more look saw.
    pub(super) fn confirm(&mut self, suspects: Suspects, still: Vec<Seen>) -> Vec<Seen> {
        let Suspects { old, mut as_old } = suspects;
        let is_young = |seen: &Seen| seen.began.is_some_and(|began| began >= self.sent_until);
        let still = still.into_iter().filter(|seen| !is_young(seen));
        let still: HashSet<Activation> = still.map(|seen| seen.activation).collect();
        as_old.retain(|seen| still.contains(&seen.activation));
        let is_new = |seen: &Seen| self.old.insert(seen.activation.clone());
        let mut caught: Vec<Seen> = old.into_iter().chain(as_old).filter(is_new).collect();
        let mut methods = HashSet::new();
        caught.retain(|seen| methods.insert((seen.activation.thread, seen.method.clone())));
        caught
    }
}

/// Prints which loops were caught.
pub(super) fn tell(caught: &[Seen], retransform: Retransform) {
    for Seen { class, method, thread, .. } in caught.iter().take(NAMED) {
        let class = class.replace('/', ".");
        let when = match retransform {
            Retransform::EvenRunning => "was running when",
            _ => "began just before",
        };
        message!(
            "{class}.{method} in thread {thread} {when} its class was retransformed; its loop may be slow until it \
             returns"
        );
    }
    if let Some(more) = caught.len().checked_sub(NAMED).filter(|more| *more > 0) {
        message!("{more} more loops may be slow until they return");
    }
}
