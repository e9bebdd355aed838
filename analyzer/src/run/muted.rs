//! Which patterns were muted when: their methods' figures lack that time.

use std::collections::BTreeMap;

use log_format::pattern::Pattern;
use log_format::rows::{EventRow, event};

use crate::options::time_range::TimeRange;

/// The patterns that a run muted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Muted {
    /// By pattern and moment: whether it was muted from then on.
    changes: BTreeMap<String, BTreeMap<u64, bool>>,
}

impl Muted {
    /// Adds an event if it is a mute or unmute. A repeated one changes nothing.
    pub fn add_event(&mut self, row: &EventRow) {
        let is_muted = row.event == event::MUTED;
        if is_muted || row.event == event::UNMUTED {
            self.changes.entry(row.pattern.clone()).or_default().insert(row.at_ns, is_muted);
        }
    }

    /// The patterns that were muted at some moment in `range`.
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
        let rows = [
            ("com.shop", 10, event::MUTED),
            ("com.shop", 10, event::MUTED),
            ("com.shop", 30, event::UNMUTED),
            ("com.dao", 40, event::MUTED),
        ];
        for (pattern, at_ns, event) in rows {
            muted.add_event(&EventRow { pattern: pattern.into(), ..EventRow::new(at_ns, event) });
        }
        muted.add_event(&EventRow::new(5, event::THROTTLED));
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
