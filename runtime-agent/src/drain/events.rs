//! What happens in a run, for events.csv: recording goes on and off, methods are throttled, muted or not instrumented,
//! thresholds change. New files repeat what holds, because earlier ones may be deleted.

use std::collections::{BTreeMap, HashSet};

use log_format::rows::{EventRow, event};
use log_format::writer::one_line;

use crate::instrument::class_changes::Postponed;
use crate::instrument::class_hook::NotInstrumented;
use crate::instrument::methods::{Methods, OwnThreshold};
use crate::instrument::muting::Rule;
use crate::overhead::Throttled;

/// Postponed classes that are named.
const MOST_POSTPONED: usize = 1_000;

/// What holds now.
pub(crate) struct Events {
    recording: EventRow,
    throttled: BTreeMap<u32, Throttled>,
    /// By pattern. Of several that name a method the last counts.
    muted: Vec<EventRow>,
    thresholds: Vec<EventRow>,
    /// Classes that are to be instrumented and are not, by name.
    postponed: BTreeMap<String, EventRow>,
    /// How many files had been begun when this was written last.
    begun: u64,
}

impl Events {
    /// A run begins, and records nothing yet.
    pub(crate) fn new(now_ns: u64) -> Self {
        Self {
            recording: EventRow::new(now_ns, event::RECORDING_OFF),
            throttled: BTreeMap::new(),
            muted: Vec::new(),
            thresholds: Vec::new(),
            postponed: BTreeMap::new(),
            begun: 0,
        }
    }

    /// Recording goes on or off.
    pub(crate) fn set_recording(&mut self, is_on: bool, now_ns: u64) -> Vec<EventRow> {
        let event = if is_on { event::RECORDING_ON } else { event::RECORDING_OFF };
        self.recording = EventRow::new(now_ns, event);
        vec![self.recording.clone()]
    }

    /// Methods are throttled from now on.
    pub(crate) fn throttle(
        &mut self,
        throttled: &[(u32, Throttled)],
        names: &Methods,
    ) -> Vec<EventRow> {
        self.throttled.extend(throttled.iter().copied());
        throttled.iter().filter_map(|(id, throttled)| row_of(*id, *throttled, names)).collect()
    }

    /// Methods are measured again from now on.
    pub(crate) fn unthrottle(
        &mut self,
        ids: &[u32],
        names: &Methods,
        now_ns: u64,
    ) -> Vec<EventRow> {
        self.throttled.retain(|id, _| !ids.contains(id));
        let name_of = |id: &u32| name_of(*id, names);
        let again: HashSet<String> = ids.iter().filter_map(name_of).collect();
        // The same method of another class loader may be throttled still.
        let still: HashSet<String> = self.throttled.keys().filter_map(name_of).collect();
        let row = |method: &String| EventRow {
            method: method.clone(),
            ..EventRow::new(now_ns, event::UNTHROTTLED)
        };
        again.difference(&still).map(row).collect()
    }

    /// What the user has muted from now on.
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

    /// The thresholds of patterns from now on.
    pub(crate) fn set_thresholds(&mut self, own: &[OwnThreshold], now_ns: u64) -> Vec<EventRow> {
        let row = |own: &OwnThreshold| EventRow {
            pattern: one_line(&own.pattern.to_string()),
            threshold_ns: Some(own.ns),
            ..EventRow::new(now_ns, event::THRESHOLD)
        };
        let before = std::mem::take(&mut self.thresholds);
        let (kept, new) = changed(before, own.iter().map(row).collect());
        self.thresholds = [kept, new.clone()].concat();
        new
    }

    /// Which classes are not retransformed for now. Those that keep their probes are not told.
    pub(crate) fn set_postponed(&mut self, postponed: &[Postponed], now_ns: u64) -> Vec<EventRow> {
        let row = |postponed: &Postponed| EventRow {
            class: one_line(&postponed.class),
            reason: one_line(&postponed.why.to_string()),
            ..EventRow::new(now_ns, event::CLASS_POSTPONED)
        };
        let without_probes = postponed.iter().filter(|postponed| !postponed.has_probes);
        let now = without_probes.take(MOST_POSTPONED).map(row).map(|row| (row.class.clone(), row));
        let mut now: BTreeMap<String, EventRow> = now.collect();
        let before = std::mem::take(&mut self.postponed);
        let mut rows = Vec::new();
        for (class, row) in before {
            match now.get_mut(&class) {
                Some(still) => *still = row,
                None => rows
                    .push(EventRow { class, ..EventRow::new(now_ns, event::CLASS_RETRANSFORMED) }),
            }
        }
        rows.extend(now.values().filter(|row| row.at_ns == now_ns).cloned());
        self.postponed = now;
        rows
    }

    /// Methods that could not be instrumented.
    pub(crate) fn not_instrumented(skipped: Vec<NotInstrumented>, now_ns: u64) -> Vec<EventRow> {
        let row = |NotInstrumented { method, reason }| EventRow {
            method: one_line(&method),
            reason: reason.to_owned(),
            ..EventRow::new(now_ns, event::NOT_INSTRUMENTED)
        };
        skipped.into_iter().map(row).collect()
    }

    /// What holds, if files were begun since this was asked last.
    pub(crate) fn for_new_files(&mut self, begun: u64, names: &Methods) -> Vec<EventRow> {
        if std::mem::replace(&mut self.begun, begun) == begun {
            return Vec::new();
        }
        let throttled = self.throttled.iter();
        let throttled = throttled.filter_map(|(id, throttled)| row_of(*id, *throttled, names));
        let others = self.thresholds.iter().chain(&self.muted).chain(self.postponed.values());
        let others = others.cloned();
        std::iter::once(self.recording.clone()).chain(others).chain(throttled).collect()
    }
}

/// Of the rows that hold now, those that held before at the same place, and the others.
fn changed(before: Vec<EventRow>, now: Vec<EventRow>) -> (Vec<EventRow>, Vec<EventRow>) {
    let is_same = |(before, now): &(EventRow, &EventRow)| {
        *before == EventRow { at_ns: before.at_ns, ..(*now).clone() }
    };
    let kept = before.into_iter().zip(&now).take_while(is_same);
    let kept: Vec<EventRow> = kept.map(|(before, _)| before).collect();
    let new = now.into_iter().skip(kept.len()).collect();
    (kept, new)
}

fn name_of(id: u32, names: &Methods) -> Option<String> {
    names.get(id).map(|method| method.line_name())
}

fn row_of(id: u32, throttled: Throttled, names: &Methods) -> Option<EventRow> {
    Some(EventRow {
        method: name_of(id, names)?,
        calls_per_s: Some(throttled.calls_per_s),
        mean_ns: Some(throttled.mean_ns),
        ..EventRow::new(throttled.since_unix_ns, event::THROTTLED)
    })
}
