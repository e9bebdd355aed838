//! Lock waits, allocations and exceptions for `top`.

use log_format::ids::MethodId;

use super::Recorder;
use crate::drain::hot_methods::HotMethods;
use crate::drain::hot_sums::{EventSum, HotEvent, HotEvents, HotSums};
use crate::drain::time_slices::Period;
use crate::exceptions;
use crate::jvm::class_names;
use crate::log::run_log::Now;

impl Recorder {
    /// Those with the greatest sums, at most `count` of each kind.
    pub(super) fn hot_events(&mut self, period: Period, count: usize) -> HotEvents {
        self.lock_waits.collect();
        self.exceptions.correct();
        let now = Now::read();
        let methods = &self.registry.methods;
        let of = |class: String, method: MethodId, sum: EventSum| {
            let method = if method.is_none() { None } else { methods.get(method) };
            HotEvent { class, method, sum }
        };
        let locks = self.lock_waits.hot.hottest(period, count, now).into_iter();
        let allocations = self.allocations.hot.hottest(period, count, now).into_iter();
        let thrown = self.exceptions.hot.hottest(period, count, now).into_iter();
        HotEvents {
            lock_seconds_skipped: self.lock_waits.counts().seconds_skipped,
            locks: locks
                .map(|((class, method), sum)| of(class_names::name(class), method, sum))
                .collect(),
            allocations: allocations
                .map(|(class, sum)| of(class_names::name(class), MethodId::NONE, sum))
                .collect(),
            exceptions: thrown
                .map(|((class, method), sum)| of(exceptions::name(class), method, sum))
                .collect(),
        }
    }

    /// Recording begins: `top` covers what comes from now on.
    pub(super) fn begin_hot(&mut self, now: Now) {
        self.lock_waits.collect();
        self.exceptions.correct();
        self.hot = HotMethods::new(now);
        self.lock_waits.hot = HotSums::new(now);
        self.allocations.hot = HotSums::new(now);
        self.exceptions.hot = HotSums::new(now);
    }

    /// A slice of the last minute is over; everything up to now is added.
    pub(super) fn next_slice(&mut self, now: Now) {
        self.lock_waits.collect();
        self.exceptions.correct();
        self.hot.next_slice(now);
        self.lock_waits.hot.next_slice(now);
        self.allocations.hot.next_slice(now);
        self.exceptions.hot.next_slice(now);
    }
}
