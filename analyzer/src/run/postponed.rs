//! Loaded classes that the agent did not instrument for some time because a loop ran in them.

use std::collections::BTreeMap;

use log_format::rows::{EventRow, event};

use crate::options::time_range::TimeRange;

/// The postponed classes of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Postponed {
    /// By class and moment: postponed from then on, with the reason, or instrumented.
    changes: BTreeMap<String, BTreeMap<u64, Option<String>>>,
}

/// A class that was not instrumented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostponedClass {
    /// Its name, with dots.
    pub class: String,
    /// Why: `run runs in thread main`.
    pub reason: String,
    /// When it was postponed, in unix nanoseconds.
    pub from_ns: u64,
    /// When it was instrumented; `None` if that is not in the log.
    pub to_ns: Option<u64>,
}

/// A class that a run did not instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostponedInRun {
    /// Label of the run.
    pub run: String,
    /// The class.
    pub class: PostponedClass,
}

impl Postponed {
    /// Adds an event if a class was postponed or instrumented. A repeated one changes nothing.
    pub fn add_event(&mut self, row: &EventRow) {
        let reason = match row.event.as_str() {
            event::CLASS_POSTPONED => Some(row.reason.clone()),
            event::CLASS_RETRANSFORMED => None,
            _ => return,
        };
        self.changes.entry(row.class.clone()).or_default().insert(row.at_ns, reason);
    }

    /// The classes that were postponed at some moment in `range`, each with its last such time.
    pub fn in_range(&self, range: &TimeRange) -> impl Iterator<Item = PostponedClass> {
        self.changes.iter().filter_map(|(class, changes)| {
            let ends = changes.keys().skip(1).copied().map(Some).chain([None]);
            let spans = changes.iter().zip(ends);
            let in_range = spans.filter_map(|((from_ns, reason), to_ns)| {
                let reason = reason.clone()?;
                range.overlaps(*from_ns, to_ns).then_some((*from_ns, to_ns, reason))
            });
            let (from_ns, to_ns, reason) = in_range.last()?;
            Some(PostponedClass { class: class.clone(), reason, from_ns, to_ns })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_postponed_until_it_is_retransformed() {
        let mut postponed = Postponed::default();
        let row = |at_ns, event| EventRow {
            class: "com.shop.Main".into(),
            reason: "run runs in thread main".into(),
            ..EventRow::new(at_ns, event)
        };
        for row in [
            row(10, event::CLASS_POSTPONED),
            row(30, event::CLASS_RETRANSFORMED),
            row(10, event::CLASS_POSTPONED),
        ] {
            postponed.add_event(&row);
        }
        let at = |from_ns, to_ns| {
            postponed.in_range(&TimeRange { from_ns, to_ns }).next().map(|class| class.to_ns)
        };
        assert_eq!(at(None, None), Some(Some(30)));
        assert_eq!(at(Some(5), Some(10)), None);
        assert_eq!(at(Some(20), Some(25)), Some(Some(30)));
        assert_eq!(at(Some(30), None), None);
    }
}
