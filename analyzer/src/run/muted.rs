//! Which patterns were muted when: their methods' figures lack that time.
//!
//! ```text
//! events     muted com.shop   unmuted com.shop.Dao   unmuted com.shop
//! Dao        |----------------|
//! others     |---------------------------------------|
//! ```
//!
//! Of the patterns that name a method, the last one counts. Each file repeats the current state, with its first moment.

use std::collections::{BTreeMap, BTreeSet};

use log_format::pattern::Pattern;
use log_format::rows::{EventRow, event};

use crate::options::time_range::TimeRange;
use crate::run::known_time::{KnownTime, overlap_ns};

/// The patterns that a run muted.
#[derive(Clone, Debug, Default)]
pub struct Muted {
    /// By moment and pattern's text: whether its methods were muted from then on.
    changes: BTreeMap<(u64, String), (Pattern, bool)>,
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
        let is_muted = row.event == event::MUTED;
        if (is_muted || row.event == event::UNMUTED)
            && let Ok(pattern) = Pattern::parse(&row.pattern)
        {
            self.known.reaches(row.at_ns);
            self.changes.insert((row.at_ns, row.pattern.clone()), (pattern, is_muted));
        }
    }

    /// Tells that the log has figures of this moment.
    pub fn saw(&mut self, ns: u64) {
        self.known.saw(ns);
    }

    /// The patterns that were muted at some moment in `covered`, by name. How long they were is of `selected`.
    pub fn in_range(
        &self,
        covered: &TimeRange,
        selected: &TimeRange,
    ) -> impl Iterator<Item = MutedPattern> {
        let (covered, known) = (*covered, self.known.within(selected));
        let texts: BTreeSet<&str> = self.changes.keys().map(|(_, text)| text.as_str()).collect();
        texts.into_iter().filter_map(move |text| {
            let mut of = self.changes.iter().filter(|((_, of), _)| of == text).peekable();
            let (_, (pattern, _)) = of.peek()?;
            let spans = spans(of.map(|((at_ns, _), (_, is_muted))| (*at_ns, *is_muted)), &covered);
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
        let of = self.changes.iter().filter(|(_, (pattern, _))| pattern.method(class, method));
        let spans = spans(of.map(|((at_ns, _), (_, is_muted))| (*at_ns, *is_muted)), covered);
        (!spans.is_empty()).then(|| within(&spans, &self.known.within(selected)))
    }
}

/// The times in which something was muted, as far as they overlap `covered`.
fn spans(changes: impl Iterator<Item = (u64, bool)>, covered: &TimeRange) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (at_ns, is_muted) in changes {
        match (spans.last_mut().filter(|span| span.to_ns.is_none()), is_muted) {
            (Some(span), false) => span.to_ns = Some(at_ns),
            (None, true) => spans.push(Span { from_ns: at_ns, to_ns: None }),
            (Some(_), true) | (None, false) => {}
        }
    }
    spans.retain(|span| covered.overlaps(span.from_ns, span.to_ns));
    spans
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
        assert_eq!(at(0, 60), ["com.dao", "com.shop"]);
        assert_eq!(muted.changes.len(), 3);
        muted.saw(0);
        muted.saw(100);
        let times = |from, to| {
            let range = TimeRange { from_ns: Some(from), to_ns: Some(to) };
            let times = |m: MutedPattern| (m.from_ns, m.to_ns, m.times, m.muted_ns);
            muted.in_range(&range, &range).map(times).collect::<Vec<_>>()
        };
        assert_eq!(times(0, 1_000), [(40, None, 1, 60), (10, Some(30), 1, 20)]);
        assert_eq!(times(20, 50), [(40, None, 1, 10), (10, Some(30), 1, 10)]);
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
}
