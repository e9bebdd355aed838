//! Which exception leaves a call.

use std::cell::Cell;

/// An exception that leaves a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thrown {
    /// The identity hash of its class, below 2^31.
    pub class: u32,
    /// Its own: its address would change with each garbage collection.
    pub exception: u32,
}

/// How many exceptions a thread remembers: while one passes a method, handlers there may catch others.
const REMEMBERED: usize = 8;

/// The last exceptions that left calls of a thread.
#[derive(Clone, Debug, Default)]
pub(super) struct LastThrown {
    exceptions: [Cell<(Thrown, u64)>; REMEMBERED],
    latest: Cell<usize>,
}

impl LastThrown {
    /// Notes that an exception leaves a call `now` which began then; `true` if it left no callee before. It did if it is
    /// remembered, and left a call while this one was in progress: the same object may be thrown again later.
    #[inline(always)]
    pub(super) fn note(&self, thrown: Thrown, start_ticks: u64, now: u64) -> bool {
        if let Some(latest) = self.exceptions.get(self.latest.get()) {
            let (last, at) = latest.get();
            if last == thrown {
                latest.set((thrown, now));
                return at <= start_ticks;
            }
        }
        self.note_other(thrown, start_ticks, now)
    }

    #[inline(never)]
    fn note_other(&self, thrown: Thrown, start_ticks: u64, now: u64) -> bool {
        let known = self.exceptions.iter().position(|other| other.get().0 == thrown);
        let place = known.unwrap_or((self.latest.get() + 1) % REMEMBERED);
        self.latest.set(place);
        let before = self.exceptions.get(place).map(|other| other.replace((thrown, now)));
        known.is_none() || before.is_none_or(|(_, at)| at <= start_ticks)
    }

    /// Remembers what another one does.
    pub(super) fn copy(&self, from: &Self) {
        self.exceptions.iter().zip(&from.exceptions).for_each(|(to, from)| to.set(from.get()));
        self.latest.set(from.latest.get());
    }
}
