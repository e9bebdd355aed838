//! How long activations of methods with loops have been running, from look to look.
//!
//! An activation counts as long-lived if the shadow stack says that it is older than a second. If the shadow stack
//! does not know it, it must be there in every look over five seconds. Between full looks at all threads, many quick
//! ones at the threads in question notice that a short method, called again and again, has returned.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use log_format::ids::JavaThreadId;

use super::activations::{Activation, Look, Seen};

/// Which activations have been running for long, from look to look.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    first_look: Option<Instant>,
    ages: HashMap<Activation, Age>,
}

#[derive(Clone, Copy, Debug)]
struct Age {
    /// Since when every look has seen it.
    since: Instant,
    /// When it began, in ticks, if that is known.
    began: Option<u64>,
}

/// How long an activation must have been seen in every look to count as long-lived.
pub(crate) const LONG_LIVED: Duration = Duration::from_secs(5);
/// How far apart full looks are.
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_millis(1_250);

impl Ages {
    /// Takes a full look. Returns the activations that keep their classes from being retransformed now: those that are
    /// long-lived, and in the first five seconds those that may be.
    pub(crate) fn take(&mut self, look: &Look, now: Instant) -> Vec<Seen> {
        let first_look = *self.first_look.get_or_insert(now);
        let before = std::mem::take(&mut self.ages);
        let mut busy = Vec::new();
        for seen in &look.seen {
            let age = Self::age(before.get(&seen.activation), seen, now);
            self.ages.insert(seen.activation.clone(), age);
            // A young call that the shadow stack knows is not long-lived, however often it is repeated.
            let is_young = seen.began.is_some() && !seen.is_long;
            let may_be = age.since == first_look || now.duration_since(age.since) >= LONG_LIVED;
            if seen.is_long || !is_young && may_be {
                busy.push(seen.clone());
            }
        }
        busy
    }

    /// Takes a quick look at some threads: activations that it has not seen have ended.
    pub(crate) fn take_quick(
        &mut self,
        seen: &[Seen],
        threads: &HashSet<JavaThreadId>,
        now: Instant,
    ) {
        let seen: HashMap<&Activation, &Seen> =
            seen.iter().map(|seen| (&seen.activation, seen)).collect();
        self.ages.retain(|activation, age| {
            if !threads.contains(&activation.thread) {
                return true;
            }
            let Some(seen) = seen.get(activation) else { return false };
            *age = Self::age(Some(age), seen, now);
            true
        });
    }

    /// The threads whose activations may be long-lived.
    pub(crate) fn threads(&self) -> HashSet<JavaThreadId> {
        self.ages.keys().map(|activation| activation.thread).collect()
    }

    fn age(before: Option<&Age>, seen: &Seen, now: Instant) -> Age {
        let new = Age { since: now, began: seen.began };
        before.map_or(new, |age| {
            // The shadow stack tells the two calls apart. A call that it does not know may be the same.
            let is_other = seen.began.is_some() && age.began.is_some() && seen.began != age.began;
            if is_other { new } else { Age { since: age.since, began: seen.began.or(age.began) } }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(thread: u64, began: Option<u64>, is_long: bool) -> Seen {
        let thread = JavaThreadId::new(thread);
        Seen {
            activation: Activation { thread, depth: 3, method: 7 },
            class: "a/B".into(),
            method: "run".into(),
            thread: "main".into(),
            began,
            likely_began: None,
            is_long,
            is_measured: began.is_some(),
        }
    }

    fn threads<const N: usize>(ids: [u64; N]) -> HashSet<JavaThreadId> {
        HashSet::from(ids.map(JavaThreadId::new))
    }

    fn look(seen: &[Seen]) -> Look {
        Look { seen: seen.to_vec(), is_complete: true, ..Look::default() }
    }

    /// How many activations hold the class back, at looks that are 1.25 s apart.
    fn busy(looks: &[Look]) -> Vec<usize> {
        let mut ages = Ages::default();
        let begun = Instant::now();
        let times = (0..).map(|n| begun + BETWEEN_LOOKS * n);
        looks.iter().zip(times).map(|(look, now)| ages.take(look, now).len()).collect()
    }

    #[test]
    fn a_loop_is_long_lived_when_it_is_in_all_looks_over_five_seconds() {
        let running = || look(&[seen(1, None, false)]);
        let looks: Vec<Look> = (0..8).map(|_| running()).collect();
        assert_eq!(busy(&looks), [1; 8]);
        // It may be another call by now.
        let gone = [running(), running(), look(&[]), running(), running(), running(), running()];
        assert_eq!(busy(&gone), [1, 1, 0, 0, 0, 0, 0]);
        let then = (0..5).map(|_| running());
        let looks: Vec<Look> = [running(), look(&[])].into_iter().chain(then).collect();
        assert_eq!(busy(&looks), [1, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_quick_look_shows_that_a_call_has_ended() {
        let mut ages = Ages::default();
        let begun = Instant::now();
        let both = look(&[seen(1, None, false), seen(2, None, false)]);
        assert_eq!(ages.take(&both, begun).len(), 2);
        assert_eq!(ages.threads(), threads([1, 2]));
        // The other thread was not looked at.
        ages.take_quick(&[], &threads([1]), begun);
        assert_eq!(ages.threads(), threads([2]));
        assert_eq!(ages.take(&both, begun + BETWEEN_LOOKS).len(), 1);
        ages.take_quick(&[seen(2, None, false)], &threads([1, 2]), begun + BETWEEN_LOOKS);
        assert_eq!(ages.take(&both, begun + LONG_LIVED).len(), 1);
    }

    #[test]
    fn the_shadow_stack_tells_calls_apart() {
        let requests: Vec<Look> = (0..6).map(|n| look(&[seen(1, Some(n), false)])).collect();
        assert_eq!(busy(&requests), [0; 6]);
        assert_eq!(busy(&[look(&[seen(1, Some(1), true), seen(2, Some(9), false)])]), [1]);
    }

    /// Recording may begin or end while a class waits.
    #[test]
    fn an_activation_is_the_same_when_the_shadow_stack_no_longer_knows_it() {
        let known = |n: u64| look(&[seen(1, Some(n), true)]);
        let unknown = || look(&[seen(1, None, false)]);
        let looks: Vec<Look> = (0..6).map(|_| known(1)).chain([unknown(), unknown()]).collect();
        assert_eq!(busy(&looks), [1; 8]);
    }
}
