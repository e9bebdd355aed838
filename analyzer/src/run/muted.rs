//! Which patterns were muted when: what methods' figures lack then.

use std::collections::BTreeMap;

use log_format::pattern::Pattern;
use log_format::rows::{CounterRow, counter};

use crate::options::time_range::TimeRange;

/// The patterns that a run had muted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Muted {
    /// Whether each was muted from a moment on.
    changes: BTreeMap<String, BTreeMap<u64, bool>>,
}

impl Muted {
    /// Adds a row of counters, if it is about that. Rows in order that only repeat cost nothing.
    pub fn add(&mut self, row: &CounterRow) {
        let Some(pattern) = row.name.strip_prefix(counter::MUTED) else { return };
        let changes = self.changes.entry(pattern.to_owned()).or_default();
        let is_muted = row.value > 0;
        let is_repeated = changes
            .last_key_value()
            .is_some_and(|(at, last)| *at <= row.start_ns && *last == is_muted);
        if !is_repeated {
            changes.insert(row.start_ns, is_muted);
        }
    }

    /// The patterns that were muted at some moment of a time.
    pub fn in_range(&self, range: &TimeRange) -> impl Iterator<Item = Pattern> {
        let is_in = move |changes: &BTreeMap<u64, bool>| {
            let ends = changes.keys().skip(1).copied().map(Some).chain([None]);
            let mut spans = changes.iter().zip(ends);
            spans.any(|((start, is_muted), end)| *is_muted && range.overlaps(*start, end))
        };
        let muted = self.changes.iter().filter(move |(_, changes)| is_in(changes));
        muted.filter_map(|(pattern, _)| Pattern::parse(pattern).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_muted_until_it_is_unmuted() {
        let mut muted = Muted::default();
        let rows =
            [("com.shop", 10, 1), ("com.shop", 20, 1), ("com.shop", 30, 0), ("com.dao", 40, 1)];
        for (pattern, start_ns, value) in rows {
            muted.add(&CounterRow { start_ns, name: format!("muted:{pattern}"), value });
        }
        muted.add(&CounterRow { start_ns: 5, name: counter::MUTED_CALLS.into(), value: 3 });
        let at = |from, to| {
            let range = TimeRange { from_ns: Some(from), to_ns: Some(to) };
            muted.in_range(&range).map(|pattern| pattern.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(at(0, 10), [""; 0]);
        assert_eq!(at(15, 16), ["com.shop"]);
        assert_eq!(at(30, 40), [""; 0]);
        assert_eq!(at(50, 60), ["com.dao"]);
        assert_eq!(at(0, 60), ["com.dao", "com.shop"]);
        assert_eq!(muted.changes["com.shop"].len(), 2);
    }
}
