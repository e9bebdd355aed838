//! Signs that a method which is left out has turned slow.
//!
//! Its time is its callers' own, so a method that is measured shows it: it has slow calls for which no
//! measured callee accounts, and had fewer before. What stands above it on stacks meanwhile is looked at
//! again. Where no measured call that ever ends is below a method on its stack, as below what a thread does in
//! a loop for ever, nobody would show it: such an orphan is looked at again from time to time.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::{Cost, LeftOut, SECOND_NS, as_f64};

/// How often orphans are looked at, and those that are closed; how many at a time, and on how many
/// stacks they have to have been.
const ORPHANS_NS: u64 = 20 * SECOND_NS;
const CLOSED_ORPHANS_NS: u64 = 40 * SECOND_NS;
const ORPHANS: usize = 5;
const LEAST_ORPHANED: u32 = 3;
/// A measured method that has ended no call for so long shows nothing.
const SHOWS_NS: u64 = 15 * SECOND_NS;
/// Slow time of its own, in nanoseconds a second, that a method has to have more than ever. Two periods in a
/// row count: a pause of the JVM is in one.
const UNEXPLAINED_NS: f64 = 20e6;
const UNEXPLAINED_PERIODS: u32 = 2;
/// And so many times as much: on a machine with too few processors much is slow at any time.
const MORE: f64 = 1.25;
/// How long after classes were retransformed slow time of methods' own means nothing.
const CALM_NS: u64 = 5 * SECOND_NS;
/// What remains each second of the slow time that nobody asks about; before anything is a sign, what was slow
/// is forgotten soon.
const EXPLAINED_REMAINS: f64 = 0.997;
const EARLY_REMAINS: f64 = 0.5;
/// How long stacks are looked at for what is above such a method, and how many methods are looked at again.
/// Of those that are closed it takes more stacks, and longer if need be.
const SUSPICION_NS: u64 = 3 * SECOND_NS;
const LONGEST_SUSPICION_NS: u64 = 10 * SECOND_NS;
const SUSPECTS: usize = 4;
const LEAST_CLOSED: u32 = 3;

/// A measured method with slow calls that nobody accounts for.
#[derive(Debug, Default)]
struct Suspicion {
    since_ns: u64,
    until_ns: u64,
    /// Methods that were above it on stacks, and on how many.
    above: HashMap<u32, u32>,
}

/// Slow time of a method's own, in nanoseconds a second.
#[derive(Clone, Copy, Debug, Default)]
struct OwnSlow {
    /// What is nothing new.
    explained: f64,
    /// Periods in a row in which it was more.
    more: u32,
}

/// What is known of methods that are measured, and of stacks.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// When measured methods ended calls last.
    ended: HashMap<u32, u64>,
    own_slow: HashMap<u32, OwnSlow>,
    /// Until when more of it means nothing: threads stood still, and code is compiled anew.
    calm_ns: u64,
    suspicions: HashMap<u32, Suspicion>,
    /// Orphans, and on how many stacks they were; those of all time.
    orphans: HashMap<u32, u32>,
    outer: HashSet<u32>,
    /// When orphans were looked at last.
    looked_ns: HashMap<u32, u64>,
    next_orphans_ns: u64,
    next_closed_orphans_ns: u64,
}

impl Signs {
    pub(super) fn is_suspicious(&self) -> bool {
        !self.suspicions.is_empty()
    }

    /// Whether a method was ever an orphan.
    pub(super) fn is_outer(&self, id: u32) -> bool {
        self.outer.contains(&id)
    }

    /// Classes were retransformed until now.
    pub(super) fn retransformed(&mut self, now_ns: u64) {
        self.calm_ns = now_ns + CALM_NS;
        for slow in self.own_slow.values_mut() {
            slow.more = 0;
        }
    }

    /// Takes what measured methods did in a period. It may be a sign if others were left out meanwhile.
    pub(super) fn take(&mut self, costs: &[Cost], seconds: f64, now_ns: u64, may_be_sign: bool) {
        let ended = costs.iter().filter(|cost| cost.did.calls > 0);
        self.ended.extend(ended.map(|cost| (cost.id, now_ns)));
        let remains = if may_be_sign { EXPLAINED_REMAINS } else { EARLY_REMAINS };
        let remains = remains.powf(seconds);
        self.own_slow.retain(|_, slow| {
            slow.explained *= remains;
            slow.more > 0 || slow.explained > UNEXPLAINED_NS / 10.0
        });
        let is_calm = now_ns >= self.calm_ns;
        for Cost { id, did, .. } in costs {
            let rate = as_f64(did.slow_self_ns) / seconds;
            if rate < UNEXPLAINED_NS && !self.own_slow.contains_key(id) {
                continue;
            }
            let slow = self.own_slow.entry(*id).or_default();
            let is_more = rate > MORE * slow.explained + UNEXPLAINED_NS;
            slow.more = if is_more && is_calm && may_be_sign { slow.more + 1 } else { 0 };
            if slow.more >= UNEXPLAINED_PERIODS {
                slow.more = 0;
                let new = || Suspicion { since_ns: now_ns, ..Suspicion::default() };
                self.suspicions.entry(*id).or_insert_with(new).until_ns = now_ns + SUSPICION_NS;
            }
            // What is new may have begun while nothing meant anything.
            if slow.more == 0 && (is_calm || !may_be_sign) {
                slow.explained = slow.explained.max(rate);
            }
        }
    }

    /// Looks at a stack: its methods with ids, the innermost first.
    pub(super) fn see(&mut self, stack: &[u32], left_out: &HashMap<u32, LeftOut>, now_ns: u64) {
        let is_left_out = |id: &u32| left_out.contains_key(id);
        let shows = |id: &u32| {
            !is_left_out(id) && self.ended.get(id).is_some_and(|at_ns| now_ns < at_ns + SHOWS_NS)
        };
        let Some(outermost) = stack.iter().rposition(is_left_out) else { return };
        if let Some(id) = stack.get(outermost)
            && !stack.iter().skip(outermost).any(shows)
        {
            *self.orphans.entry(*id).or_default() += 1;
            self.outer.insert(*id);
        }
        for (at, suspect) in stack.iter().enumerate() {
            let Some(suspicion) = self.suspicions.get_mut(suspect) else { continue };
            let above = stack.iter().take(at).rev().take_while(|id| is_left_out(id));
            // Of a recursion each counts once.
            for id in above.copied().collect::<HashSet<u32>>() {
                *suspicion.above.entry(id).or_default() += 1;
            }
        }
    }

    /// The methods that are to be looked at again now.
    pub(super) fn look_again(&mut self, left_out: &HashMap<u32, LeftOut>, now_ns: u64) -> Vec<u32> {
        let mut found = Vec::new();
        self.suspicions.retain(|_, suspicion| {
            if now_ns < suspicion.until_ns {
                return true;
            }
            let is_found = |id: &u32, stacks: u32| {
                stacks >= LEAST_CLOSED || left_out.get(id).is_some_and(|left| !left.is_closed())
            };
            let above = suspicion.above.iter().filter(|(id, stacks)| is_found(id, **stacks));
            let above: HashMap<u32, u32> = above.map(|(id, stacks)| (*id, *stacks)).collect();
            found.extend(most(&above, SUSPECTS));
            above.is_empty()
                && !suspicion.above.is_empty()
                && now_ns < suspicion.since_ns + LONGEST_SUSPICION_NS
        });
        if now_ns < self.next_orphans_ns {
            return found;
        }
        let is_time_for_closed = now_ns >= self.next_closed_orphans_ns;
        let mut orphans = std::mem::take(&mut self.orphans);
        orphans.retain(|id, _| {
            left_out.get(id).is_some_and(|left| is_time_for_closed || !left.is_closed())
        });
        // Not in the beginning.
        if self.next_orphans_ns > 0 {
            orphans.retain(|_, stacks| *stacks >= LEAST_ORPHANED);
            // Each in its turn, the busiest first.
            let mut orphans: Vec<(u32, u32)> = orphans.into_iter().collect();
            orphans.sort_unstable_by_key(|(id, stacks)| {
                (self.looked_ns.get(id).copied().unwrap_or(0), Reverse(*stacks), *id)
            });
            let turn: Vec<u32> = orphans.iter().take(ORPHANS).map(|(id, _)| *id).collect();
            self.looked_ns.extend(turn.iter().map(|id| (*id, now_ns)));
            found.extend(turn);
        }
        self.next_orphans_ns = now_ns + ORPHANS_NS;
        if is_time_for_closed {
            self.next_closed_orphans_ns = now_ns + CLOSED_ORPHANS_NS;
        }
        found
    }
}

/// The ids that were seen most, at most `count`.
fn most(seen: &HashMap<u32, u32>, count: usize) -> Vec<u32> {
    let mut seen: Vec<(u32, u32)> = seen.iter().map(|(id, times)| (*id, *times)).collect();
    seen.sort_unstable_by_key(|(id, times)| (Reverse(*times), *id));
    seen.into_iter().take(count).map(|(id, _)| id).collect()
}
