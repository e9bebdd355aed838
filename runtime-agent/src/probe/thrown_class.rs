//! Which exception leaves a call.

use std::cell::Cell;

/// The identity hash of an exception's class, below 2^31; [`NONE`](Self::NONE) if it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClassHash(u32);

impl ClassHash {
    pub(crate) const NONE: Self = Self(0);
    /// Instead of a class: no probe saw the exception. No class has this hash, but by chance.
    pub(crate) const UNSEEN: Self = Self(1);

    pub(crate) const fn new(hash: u32) -> Self {
        Self(hash)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }
}

/// An exception that leaves a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thrown {
    pub class: ClassHash,
    /// Its own: its address would change with each garbage collection.
    pub exception: u32,
}

/// How many exceptions a thread remembers beside the last: while one passes a method, handlers there may catch others.
const OTHERS: usize = 7;

/// The last exceptions that left calls of a thread, and when each left one last.
#[derive(Clone, Debug, Default)]
pub(super) struct LastThrown {
    last: Cell<(Thrown, u64)>,
    others: [Cell<(Thrown, u64)>; OTHERS],
}

impl LastThrown {
    /// Notes that an exception leaves a call `now` which began then; `true` if it left no callee before. It did if it
    /// is remembered, and left a call while this one was in progress: the same object may be thrown again later.
    #[inline(always)]
    pub(super) fn note(&self, thrown: Thrown, start_ticks: u64, now: u64) -> bool {
        if self.last.get().0 != thrown {
            self.bring_back(thrown);
        }
        let (_, at) = self.last.replace((thrown, now));
        at <= start_ticks
    }

    /// Makes another exception the last: one that is remembered, or a new one, for which the oldest is forgotten.
    #[cold]
    #[inline(never)]
    fn bring_back(&self, thrown: Thrown) {
        let is_it = |other: &&Cell<(Thrown, u64)>| other.get().0 == thrown;
        if let Some(known) = self.others.iter().find(is_it) {
            self.last.swap(known);
        } else if let Some(oldest) = self.others.iter().min_by_key(|other| other.get().1) {
            oldest.set(self.last.replace((thrown, 0)));
        }
    }

    /// Remembers what another one does.
    pub(super) fn copy(&self, from: &Self) {
        self.last.set(from.last.get());
        self.others.iter().zip(&from.others).for_each(|(to, from)| to.set(from.get()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_is_remembered_while_seven_others_are_thrown() {
        let last = LastThrown::default();
        let thrown = |exception| Thrown { class: ClassHash(9), exception };
        // A call that began at 10: one exception is on its way, and others are caught meanwhile, some twice.
        assert!(last.note(thrown(1), 10, 20));
        for other in 2..=8 {
            let at = u64::from(other);
            assert!(last.note(thrown(other), 20 + at, 21 + at), "{other}");
            assert!(!last.note(thrown(other), 10, 22 + at), "{other}");
        }
        assert!(!last.note(thrown(1), 10, 40));
        // It is thrown again, by a later call.
        assert!(last.note(thrown(1), 40, 41));
        // The oldest is forgotten.
        assert!(last.note(thrown(9), 42, 43));
        assert!(last.note(thrown(2), 10, 44));
        let copy = LastThrown::default();
        copy.copy(&last);
        assert!(!copy.note(thrown(1), 10, 45) && !copy.note(thrown(9), 10, 46));
    }
}
