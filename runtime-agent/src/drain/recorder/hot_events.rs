//! Lock waits, allocations and exceptions for `top`.

use std::collections::HashMap;

use log_format::ids::MethodId;

use super::Recorder;
use crate::drain::allocations::OBJECT_PARTS;
use crate::drain::hot_methods::HotMethods;
use crate::drain::hot_sums::{EventSum, HotEvent, HotEvents, HotSums};
use crate::drain::time_slices::Period;
use crate::exceptions;
use crate::jvm::class_names;
use crate::log::run_log::Now;
use crate::probe::ClassHash;

/// Sums by the name of the class: classes of different loaders may have one name, and those without one are `[other
/// classes]`.
fn by_name(sums: Vec<((ClassHash, MethodId), EventSum)>) -> Vec<((String, MethodId), EventSum)> {
    let mut named: HashMap<(String, MethodId), EventSum> = HashMap::new();
    for ((class, method), sum) in sums {
        named.entry((exceptions::name(class), method)).or_default().add(sum);
    }
    let mut named: Vec<_> = named.into_iter().collect();
    named.sort_by(|(one, sum), (other, others)| {
        others.amount.cmp(&sum.amount).then_with(|| one.cmp(other))
    });
    named
}

impl Recorder {
    /// Those with the greatest sums, at most `count` of each kind.
    pub(super) fn hot_events(&mut self, period: Period, count: usize) -> HotEvents {
        self.lock_waits.collect();
        self.statements.collect(&mut self.registry.statements);
        self.exceptions.correct();
        let now = Now::read();
        let methods = &self.registry.methods;
        let of = |class: String, method: MethodId, sum: EventSum| {
            let method = if method.is_none() { None } else { methods.get(method) };
            HotEvent { class, method, sum }
        };
        let locks = self.lock_waits.hot.hottest(period, count, now).into_iter();
        let statements = self.statements.hot.hottest(period, count, now).into_iter();
        let allocations = self.allocations.hot.hottest(period, count, now).into_iter();
        let thrown = self.exceptions.hot.hottest(period, usize::MAX, now);
        HotEvents {
            lock_seconds_skipped: self.lock_waits.counts().seconds_skipped,
            locks: locks
                .map(|((class, method), sum)| of(class_names::name(class), method, sum))
                .collect(),
            statements: statements
                .map(|((key, method), sum)| {
                    let id = self.registry.statements.of(key);
                    let row = self.registry.statements.row(id);
                    of(row.map(|row| row.text).unwrap_or_default(), method, sum)
                })
                .collect(),
            allocations: allocations
                .map(|(class, sum)| {
                    let sum = EventSum { count: sum.count / OBJECT_PARTS, ..sum };
                    of(class_names::name(class), MethodId::NONE, sum)
                })
                .collect(),
            exceptions: by_name(thrown)
                .into_iter()
                .take(count)
                .map(|((class, method), sum)| of(class, method, sum))
                .collect(),
        }
    }

    /// Recording begins: `top` covers what comes from now on.
    pub(super) fn begin_hot(&mut self, now: Now) {
        self.lock_waits.collect();
        self.statements.collect(&mut self.registry.statements);
        self.exceptions.correct();
        self.hot = HotMethods::new(now);
        self.lock_waits.hot = HotSums::new(now);
        self.statements.hot = HotSums::new(now);
        self.allocations.hot = HotSums::new(now);
        self.exceptions.hot = HotSums::new(now);
    }

    /// A slice of the last minute is over; everything up to now is added.
    pub(super) fn next_slice(&mut self, now: Now) {
        self.lock_waits.collect();
        self.statements.collect(&mut self.registry.statements);
        self.exceptions.correct();
        self.hot.next_slice(now);
        self.lock_waits.hot.next_slice(now);
        self.statements.hot.next_slice(now);
        self.allocations.hot.next_slice(now);
        self.exceptions.hot.next_slice(now);
    }
}
