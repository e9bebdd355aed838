//! Sums of all waits that have ended, by class of the lock and instrumented method.

use log_format::ids::MethodId;
use log_format::rows::LockRow;
use rewriter::probe::OFFLINE;

use super::kinds;
use crate::jvm::class_names::{self, ClassNumber};
use crate::probe::time_sum::TimeSum;
use crate::sys::memory::sharded::Sharded;

/// The row of waits for locks of one class from one method.
pub(crate) fn row(start_ns: u64, class: ClassNumber, method: MethodId, sum: &TimeSum) -> LockRow {
    LockRow {
        start_ns,
        kind: kinds::kind(class),
        class: class_names::name(class),
        method,
        waits: sum.count(),
        total_ns: sum.total_ns(),
        max_ns: sum.max_ns(),
        hist: sum.histogram(),
    }
}

/// By class and method.
static SUMS: Sharded<TimeSum> = Sharded::new();

/// Adds a wait; `false` if there is no memory.
pub(super) fn add(class: ClassNumber, method: MethodId, ticks: u64) -> bool {
    let key = u64::from(class.bits()) << 32 | u64::from(method.get());
    SUMS.change_or_insert(key, TimeSum::NONE, |sum| sum.add(ticks))
}

pub(super) fn clear() {
    SUMS.clear();
}

/// Takes the sums since the last call, by class and method.
pub(crate) fn take_sums() -> Vec<((ClassNumber, MethodId), TimeSum)> {
    let key = |(key, sum): (u64, TimeSum)| {
        let [class, method] = [key >> 32, key & 0xffff_ffff].map(|half| half.try_into().ok());
        // Methods that the `rewrite` command instrumented have no names.
        let method =
            method.filter(|method| *method < OFFLINE).map_or(MethodId::NONE, MethodId::new);
        Some(((ClassNumber::from_bits(class?), method), sum))
    };
    SUMS.take_all().into_iter().filter_map(key).collect()
}
