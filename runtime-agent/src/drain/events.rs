//! Events of a run, for events.csv: methods throttled, muted or not instrumented, classes postponed, thresholds of
//! patterns set. New files repeat the state in force, because earlier files may be deleted.

use std::collections::{BTreeMap, HashSet};

use log_format::ids::MethodId;
use log_format::rows::{EventRow, event};
use log_format::writer::one_line;

use crate::instrument::class_hook::MethodNotInstrumented;
use crate::instrument::guards::Rule;
use crate::instrument::methods::{Methods, OwnValue};
use crate::instrument::postponed::Postponed;

/// Most postponed classes that are named.
const MOST_POSTPONED: usize = 1_000;

/// Since when a method is throttled, and what it did before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Throttling {
    pub since_unix_ns: u64,
    pub calls_per_s: u64,
    pub mean_ns: u64,
}

/// The state in force.
#[derive(Default)]
pub(crate) struct Events {
    throttled: BTreeMap<MethodId, Throttling>,
    /// By pattern. If several patterns name a method, the last counts.
    muted: Vec<EventRow>,
    thresholds: Vec<EventRow>,
    /// Classes that should be instrumented and are not, by name.
    postponed: BTreeMap<String, EventRow>,
    /// How many files had been begun at the last write.
    begun: u64,
    /// When `repeated` was last called.
    latest_ns: u64,
}

impl Events {
    /// Records that methods are throttled from now on.
    pub(crate) fn throttle(
        &mut self,
        throttled: &[(MethodId, Throttling)],
        names: &Methods,
    ) -> Vec<EventRow> {
        self.throttled.extend(throttled.iter().copied());
        throttled.iter().filter_map(|(id, throttled)| row_of(*id, *throttled, names)).collect()
    }

    /// Records that methods are unthrottled from now on.
    pub(crate) fn unthrottle(
        &mut self,
        ids: &[MethodId],
        names: &Methods,
        now_ns: u64,
    ) -> Vec<EventRow> {
        self.throttled.retain(|id, _| !ids.contains(id));
        let name_of = |id: &MethodId| name_of(*id, names);
        let again: HashSet<String> = ids.iter().filter_map(name_of).collect();
        // The same method of another class loader may still be throttled.
        let still: HashSet<String> = self.throttled.keys().filter_map(name_of).collect();
        let row = |method: &String| EventRow {
            method: method.clone(),
            ..EventRow::new(now_ns, event::UNTHROTTLED)
        };
        again.difference(&still).map(row).collect()
    }

    /// Records what the user has muted from now on.
    pub(crate) fn set_muted(&mut self, rules: &[Rule], now_ns: u64) -> Vec<EventRow> {
        let row = |rule: &Rule| EventRow {
            pattern: one_line(&rule.pattern.to_string()),
            ..EventRow::new(now_ns, if rule.mutes { event::MUTED } else { event::UNMUTED })
        };
        let rows: Vec<EventRow> = rules.iter().map(row).collect();
        let before = std::mem::take(&mut self.muted);
        let gone = before.iter().filter(|before| {
            let is_same = |row: &EventRow| row.pattern == before.pattern;
            before.event == event::MUTED && !rows.iter().any(is_same)
        });
        let gone: Vec<EventRow> = gone
            .map(|gone| EventRow {
                at_ns: now_ns,
                event: event::UNMUTED.to_owned(),
                ..gone.clone()
            })
            .collect();
        let (kept, new) = changed(before, rows);
        self.muted = [kept, new.clone()].concat();
        [gone, new].concat()
    }

    /// Records the thresholds of patterns from now on.
    pub(crate) fn set_thresholds(&mut self, own: &[OwnValue], now_ns: u64) -> Vec<EventRow> {
        let row = |own: &OwnValue| EventRow {
            pattern: one_line(&own.pattern.to_string()),
            threshold_ns: Some(own.value),
            ..EventRow::new(now_ns, event::THRESHOLD)
        };
        let before = std::mem::take(&mut self.thresholds);
        let (kept, new) = changed(before, own.iter().map(row).collect());
        self.thresholds = [kept, new.clone()].concat();
        new
    }

    /// Records which classes are not instrumented for now because they were not retransformed.
    pub(crate) fn set_postponed(&mut self, postponed: &[Postponed], now_ns: u64) -> Vec<EventRow> {
        let row = |postponed: &Postponed| EventRow {
            class: one_line(&postponed.class),
            reason: one_line(&postponed.reason.to_string()),
            ..EventRow::new(now_ns, event::CLASS_POSTPONED)
        };
        let mut now: BTreeMap<String, EventRow> =
            postponed.iter().map(row).map(|row| (row.class.clone(), row)).collect();
        let is_gone = |class: &String, _: &mut EventRow| !now.contains_key(class);
        let gone: Vec<String> =
            self.postponed.extract_if(.., is_gone).map(|(class, _)| class).collect();
        now.retain(|class, _| !self.postponed.contains_key(class));
        let room = MOST_POSTPONED.saturating_sub(self.postponed.len());
        let new: BTreeMap<String, EventRow> = now.into_iter().take(room).collect();
        self.postponed.extend(new.clone());
        let gone = gone
            .into_iter()
            .map(|class| EventRow { class, ..EventRow::new(now_ns, event::CLASS_RETRANSFORMED) });
        gone.chain(new.into_values()).collect()
    }

    /// Methods that could not be instrumented.
    pub(crate) fn not_instrumented(
        skipped: Vec<MethodNotInstrumented>,
        now_ns: u64,
    ) -> Vec<EventRow> {
        let row = |MethodNotInstrumented { method, reason }| EventRow {
            method: one_line(&method),
            reason: reason.to_owned(),
            ..EventRow::new(now_ns, event::NOT_INSTRUMENTED)
        };
        skipped.into_iter().map(row).collect()
    }

    /// Repeats the state if files were begun since the last call, or with the time of now if the clock was set back.
    pub(crate) fn repeated(&mut self, begun: u64, names: &Methods, now_ns: u64) -> Vec<EventRow> {
        let is_set_back = now_ns < std::mem::replace(&mut self.latest_ns, now_ns);
        if std::mem::replace(&mut self.begun, begun) == begun && !is_set_back {
            return Vec::new();
        }
        let throttled = self.throttled.iter();
        let throttled = throttled.filter_map(|(id, throttled)| row_of(*id, *throttled, names));
        let others = self.thresholds.iter().chain(&self.muted).chain(self.postponed.values());
        let others = others.cloned();
        let as_of_now = |row: EventRow| EventRow { at_ns: row.at_ns.min(now_ns), ..row };
        others.chain(throttled).map(as_of_now).collect()
    }
}

/// Splits the rows in force now into those that were in force before at the same place, and the others.
fn changed(before: Vec<EventRow>, now: Vec<EventRow>) -> (Vec<EventRow>, Vec<EventRow>) {
    let is_same = |(before, now): &(EventRow, &EventRow)| {
        *before == EventRow { at_ns: before.at_ns, ..(*now).clone() }
    };
    let kept = before.into_iter().zip(&now).take_while(is_same);
    let kept: Vec<EventRow> = kept.map(|(before, _)| before).collect();
    let new = now.into_iter().skip(kept.len()).collect();
    (kept, new)
}

fn name_of(id: MethodId, names: &Methods) -> Option<String> {
    names.get(id).map(|method| method.line_name())
}

fn row_of(id: MethodId, throttled: Throttling, names: &Methods) -> Option<EventRow> {
    Some(EventRow {
        method: name_of(id, names)?,
        calls_per_s: Some(throttled.calls_per_s),
        mean_ns: Some(throttled.mean_ns),
        ..EventRow::new(throttled.since_unix_ns, event::THROTTLED)
    })
}
