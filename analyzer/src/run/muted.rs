//! Which patterns were muted when: their methods' figures lack that time.
//!
//! ```text
//! events     muted com.shop   unmuted com.shop.Dao   unmuted com.shop
//! Dao        |----------------|
//! others     |---------------------------------------|
//! ```
//!
//! Of the patterns that name a method, the last one counts. Each file repeats the current state, with its first moment.

use std::collections::BTreeMap;

use log_format::pattern::Pattern;
use log_format::rows::{EventRow, event};

use crate::options::time_range::TimeRange;
use crate::run::logged_time::{KnownTime, overlap_ns};

/// The patterns that a run muted.
#[derive(Clone, Debug, Default)]
pub struct Muted {
    /// All patterns, in the order in which they came.
    patterns: Vec<Pattern>,
    /// By moment, in the order of the file: a pattern's place, and whether its methods were muted from then on.
    changes: BTreeMap<u64, Vec<(usize, bool)>>,
    known: KnownTime,
}

/// A pattern that was muted in a selected time.
#[derive(Clone, Debug)]
pub struct MutedPattern {
    /// The pattern.
    pub pattern: Pattern,
    /// When it was first muted, in unix nanoseconds.
    pub from_ns: u64,
    /// When it was last unmuted; `None` if that is not in the log.
    pub to_ns: Option<u64>,
    /// How often it was muted.
    pub times: u64,
    /// How long it was muted within the selected time; 0 if only outside, in an interval that it touches.
    pub muted_ns: u64,
}

/// A pattern that a run muted.
#[derive(Clone, Debug)]
pub struct MutedInRun {
    /// Label of the run.
    pub run: String,
    /// The pattern.
    pub muted: MutedPattern,
}

/// A time in which something was muted.
struct Span {
    from_ns: u64,
    to_ns: Option<u64>,
}

impl Muted {
    /// Adds an event if it is a mute or unmute. A repeated one changes nothing.
    pub fn add_event(&mut self, row: &EventRow) {
        self.known.reaches(row.at_ns);
        let is_muted = row.event == event::MUTED;
        if !is_muted && row.event != event::UNMUTED {
            return;
        }
        let is_same = |known: &Pattern| known.as_str() == row.pattern;
        let place = self.patterns.iter().position(is_same).or_else(|| {
            self.patterns.push(Pattern::parse(&row.pattern).ok()?);
            Some(self.patterns.len() - 1)
        });
        if let Some(place) = place {
            // A command may change several at once: of these, too, the last counts.
            let changes = self.changes.entry(row.at_ns).or_default();
            changes.retain(|(other, _)| *other != place);
            changes.push((place, is_muted));
        }
    }

    /// Tells that the log has figures of this moment.
    pub fn saw(&mut self, ns: u64) {
        self.known.saw(ns);
    }

    /// The patterns that were muted at some moment in `covered`. How long they were is of `selected`.
    pub fn in_range(
        &self,
        covered: &TimeRange,
        selected: &TimeRange,
    ) -> impl Iterator<Item = MutedPattern> {
        let (covered, known) = (*covered, self.known.within(selected));
        self.patterns.iter().enumerate().filter_map(move |(place, pattern)| {
            let spans = self.spans(|other| other == place, &covered);
            let last = spans.last()?;
            Some(MutedPattern {
                pattern: pattern.clone(),
                from_ns: spans.first()?.from_ns,
                to_ns: last.to_ns,
                times: u64::try_from(spans.len()).unwrap_or(u64::MAX),
                muted_ns: within(&spans, &known),
            })
        })
    }

    /// How long a method was muted within `selected`, in nanoseconds; `None` if at no moment in `covered`.
    pub(crate) fn of_method(
        &self,
        class: &str,
        method: &str,
        covered: &TimeRange,
        selected: &TimeRange,
    ) -> Option<u64> {
        let names: Vec<bool> =
            self.patterns.iter().map(|pattern| pattern.method(class, method)).collect();
        let spans = self.spans(|place| names.get(place) == Some(&true), covered);
        (!spans.is_empty()).then(|| within(&spans, &self.known.within(selected)))
    }

    /// The times in which these patterns muted something, as far as they overlap `covered`.
    fn spans(&self, is_one: impl Fn(usize) -> bool, covered: &TimeRange) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for (at_ns, changes) in &self.changes {
            let last = changes.iter().rev().find(|(place, _)| is_one(*place));
            let Some((_, is_muted)) = last else { continue };
            match (spans.last_mut().filter(|span| span.to_ns.is_none()), is_muted) {
                (Some(span), false) => span.to_ns = Some(*at_ns),
                (None, true) => spans.push(Span { from_ns: *at_ns, to_ns: None }),
                (Some(_), true) | (None, false) => {}
            }
        }
        spans.retain(|span| covered.overlaps(span.from_ns, span.to_ns));
        spans
    }
}

fn within(spans: &[Span], range: &TimeRange) -> u64 {
    let ns = spans.iter().map(|span| overlap_ns(range, span.from_ns, span.to_ns));
    ns.fold(0, u64::saturating_add)
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
            muted.in_range(&range, &range).map(|m| m.pattern.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(at(0, 10), [""; 0]);
        assert_eq!(at(15, 16), ["com.shop"]);
        assert_eq!(at(30, 40), [""; 0]);
        assert_eq!(at(50, 60), ["com.dao"]);
        assert_eq!(at(0, 60), ["com.shop", "com.dao"]);
        assert_eq!((muted.changes.len(), muted.patterns.len()), (3, 2));
        muted.saw(0);
        muted.saw(100);
        let times = |from, to| {
            let range = TimeRange { from_ns: Some(from), to_ns: Some(to) };
            let times = |m: MutedPattern| (m.from_ns, m.to_ns, m.times, m.muted_ns);
            muted.in_range(&range, &range).map(times).collect::<Vec<_>>()
        };
        assert_eq!(times(0, 1_000), [(10, Some(30), 1, 20), (40, None, 1, 60)]);
        assert_eq!(times(20, 50), [(10, Some(30), 1, 10), (40, None, 1, 10)]);
    }

    #[test]
    fn the_last_pattern_that_names_a_method_counts() {
        let mut muted = Muted::default();
        for (pattern, at_ns, event) in [
            ("com.shop", 10, event::MUTED),
            ("com.shop.Dao", 40, event::UNMUTED),
            ("com.shop.Dao.read", 50, event::MUTED),
            ("com.shop", 70, event::UNMUTED),
        ] {
            muted.add_event(&EventRow { pattern: pattern.into(), ..EventRow::new(at_ns, event) });
        }
        muted.saw(0);
        muted.saw(100);
        let all = TimeRange::default();
        let ns = |class, method| muted.of_method(class, method, &all, &all);
        assert_eq!(ns("com.shop.Stock", "take"), Some(60));
        assert_eq!(ns("com.shop.Dao", "write"), Some(30));
        assert_eq!(ns("com.shop.Dao", "read"), Some(30 + 20));
        assert_eq!(ns("com.bank.Account", "pay"), None);
        let late = TimeRange { from_ns: Some(80), to_ns: None };
        assert_eq!(muted.of_method("com.shop.Stock", "take", &late, &late), None);
        // An interval that a mute touches lacks calls, though not in the selected time.
        assert_eq!(muted.of_method("com.shop.Stock", "take", &all, &late), Some(0));
    }

    /// `mute **` takes the place of `mute com.shop`: the agent writes both changes with one moment.
    #[test]
    fn of_changes_at_one_moment_the_last_in_the_file_counts() {
        let mut muted = Muted::default();
        let rows = [
            ("com.shop", 10, event::MUTED),
            ("com.shop", 20, event::UNMUTED),
            ("**", 20, event::MUTED),
            ("**", 30, event::UNMUTED),
            // The next file repeats what is in force.
            ("**", 20, event::MUTED),
        ];
        for (pattern, at_ns, event) in rows {
            muted.add_event(&EventRow { pattern: pattern.into(), ..EventRow::new(at_ns, event) });
        }
        muted.saw(0);
        muted.saw(100);
        let all = TimeRange::default();
        assert_eq!(muted.of_method("com.shop.Stock", "take", &all, &all), Some(20));
        assert_eq!(muted.of_method("com.bank.Account", "pay", &all, &all), Some(10));
    }
}
