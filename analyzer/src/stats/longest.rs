//! The longest of many events, kept one by one.

use std::cmp::Reverse;

/// How many are kept.
const KEPT: usize = 20;

/// How long an event took, when it began, and its run's index in the list of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// How long it took.
    pub ns: u64,
    /// When it began, in unix nanoseconds.
    pub start_ns: u64,
    /// The run.
    pub run: usize,
}

/// The longest events so far.
#[derive(Debug)]
pub struct Longest<T>(Vec<(Length, T)>);

impl<T> Default for Longest<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Longest<T> {
    /// Whether an event of this length is one of the longest so far.
    #[must_use]
    pub fn is_long(&self, ns: u64) -> bool {
        self.0.len() < KEPT || self.0.last().is_some_and(|(shortest, _)| ns > shortest.ns)
    }

    /// Adds one of the longest.
    pub fn add(&mut self, length: Length, event: T) {
        let key = |length: &Length| (Reverse(length.ns), length.start_ns, length.run);
        let place = self.0.partition_point(|(known, _)| key(known) <= key(&length));
        self.0.insert(place, (length, event));
        self.0.truncate(KEPT);
    }

    /// All of them, the longest first.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.0.into_iter().map(|(_, event)| event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_longest_are_kept() {
        let mut longest = Longest::default();
        for start_ns in 0..100 {
            // 37 and 100 have no common divisor, so every length comes once.
            let ns = start_ns * 37 % 100;
            if longest.is_long(ns) {
                longest.add(Length { ns, start_ns, run: 0 }, ns);
            }
        }
        assert_eq!(longest.into_vec(), (80..100).rev().collect::<Vec<_>>());
    }
}
