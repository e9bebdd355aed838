//! Counts exceptional exits by class of the exception.
//!
//! Nearly all exceptions that leave a method in a thread have one class: that of the first one. So the method's
//! statistics in the thread have a class, and all throws count for it. What has another class, or none because no probe
//! saw the exception, is corrected in a map.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::method_totals::MethodTotals;
use super::own::Own;
use super::stack::ProbeId;
use super::thread::OwnThread;
use super::thrown_class::{ClassHash, Thrown};
use log_format::ids::MethodId;

use crate::sys::memory::sharded::Sharded;

/// An exception has left a call, and somebody has to look at it: its class is new to the method in this thread, or
/// another one than the first, or an example is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub probe_id: ProbeId,
    pub class: ClassHash,
    /// Whether the exception came out of no other instrumented call.
    pub began: bool,
}

/// What has to be added to the throws of a method that count for a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Correction {
    pub thrown: i64,
    pub began: i64,
}

static ARE_COUNTED: AtomicBool = AtomicBool::new(false);
/// By method and class.
static CORRECTIONS: Sharded<Correction> = Sharded::new();
/// Corrections for which there was no memory.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Whether throws are counted by class from now on.
pub(crate) fn count(are_counted: bool) {
    ARE_COUNTED.store(are_counted, Ordering::Relaxed);
}

/// Whether throws are counted by class.
pub(crate) fn are_counted() -> bool {
    ARE_COUNTED.load(Ordering::Relaxed)
}

/// Corrections that were lost so far.
pub(crate) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Takes the corrections since the last call: class, method and what is to be added.
pub(crate) fn take_corrections() -> Vec<(ClassHash, MethodId, Correction)> {
    let halves = |(key, correction): (u64, Correction)| {
        let [method, class] = [key >> 32, key & 0xffff_ffff].map(|half| half.try_into().ok());
        Some((ClassHash::new(class?), MethodId::new(method?), correction))
    };
    CORRECTIONS.take_all().into_iter().filter_map(halves).collect()
}

/// Moves a throw from one class to another, or to none.
fn correct(method: MethodId, from: ClassHash, to: Option<ClassHash>, began: bool) {
    if !are_counted() {
        return;
    }
    let add = |class: ClassHash, sign: i64| {
        // The lower half chooses the shard: many threads throw from one method.
        let key = u64::from(method.get()) << 32 | u64::from(class.bits());
        CORRECTIONS.change_or_insert(key, Correction::default(), |correction| {
            correction.thrown += sign;
            correction.began += if began { sign } else { 0 };
        })
    };
    let is_done = add(from, -1) && to.is_none_or(|to| add(to, 1));
    if !is_done {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

/// Notes the exception that leaves a call of this method now; `true` if it came out of no other instrumented call.
#[inline(always)]
pub(super) fn note_thrown(
    own: OwnThread<'_>,
    totals: Own<'_, MethodTotals>,
    start_ticks: u64,
    thrown: Thrown,
    now: u64,
) -> bool {
    let began = own.note_thrown(thrown, start_ticks, now);
    if began {
        totals.add_began();
    }
    began
}

/// Notes the exception that leaves a call of this method now, and for which class it counts. The throw itself is
/// counted elsewhere.
pub(super) fn note(
    own: OwnThread<'_>,
    totals: Own<'_, MethodTotals>,
    (probe_id, start_ticks): (ProbeId, u64),
    thrown: Thrown,
    now: u64,
) -> Option<Left> {
    let began = note_thrown(own, totals, start_ticks, thrown, now);
    // With the mark of a wanted example, it is another.
    if totals.class_bits() == thrown.class.bits() || totals.is_of_lost_calls() {
        return None;
    }
    let left = Left { probe_id, class: thrown.class, began };
    match totals.class() {
        ClassHash::NONE => totals.set_class(left.class),
        same if same == left.class => {
            if !left.began {
                return None;
            }
            totals.set_class(same);
        }
        other => {
            correct(left.probe_id.method(), other, Some(left.class), left.began);
        }
    }
    Some(left)
}

/// Notes that an exception leaves a call of this method, of which nothing is known.
pub(super) fn note_unseen(totals: Own<'_, MethodTotals>, method: MethodId) {
    match totals.class() {
        ClassHash::NONE => totals.set_class(ClassHash::UNSEEN),
        ClassHash::UNSEEN => {}
        first => correct(method, first, None, false),
    }
}
