//! The requests that a profile task records: outermost calls of its endpoint's methods.
//!
//! Inside them, calls under their thresholds are recorded too. A call that reaches the lowest of all these durations
//! looks for the endpoint on its thread's stack; shorter calls do not notice a task.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use log_format::ids::MethodId;

use super::endpoint_search::Searched;
use super::own::Own;
use super::stack::ShadowStack;
use crate::sys::clock;
use crate::sys::memory::two_level::TwoLevel;

/// Calls in requests are recorded from this duration on; `u64::MAX` without a task.
static LEAST_NS: AtomicU64 = AtomicU64::new(u64::MAX);
/// The same in ticks.
static LEAST_TICKS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Not 0 for the endpoint's methods. It has room for sixteen million methods; others are no endpoints.
static NUMBERS: TwoLevel<AtomicU8, 4_096> = TwoLevel::new();

/// Changes with the endpoint's methods.
static SET: AtomicU32 = AtomicU32::new(1);

/// Whether a method is the endpoint of the task.
pub(crate) fn is_endpoint(method: MethodId) -> bool {
    NUMBERS.get(method.get()).is_some_and(|number| number.load(Ordering::Relaxed) > 0)
}

/// If a call with this place and duration belongs to a request and is to be recorded, the place of the request. It is
/// searched up to the place `deepest`.
pub(super) fn request_of(
    stack: Own<'_, ShadowStack>,
    (index, deepest): (u32, u32),
    total_ticks: u64,
) -> Option<u32> {
    if total_ticks < LEAST_TICKS.load(Ordering::Relaxed) {
        return None;
    }
    let set = SET.load(Ordering::Relaxed);
    let known = stack.searched();
    let last = known.frames.checked_sub(1).filter(|last| known.set == set && *last <= index);
    let is_there = |last: &u32| stack.frame(*last).start_ticks() == known.start_ticks;
    let from = last.filter(is_there).map_or(0, |last| last + 1);
    let found = (from..=deepest).find(|at| is_endpoint(stack.frame(*at).method()));
    // If this one is among them, half of them, because its caller ends next.
    let frames = if index > deepest { deepest + 1 } else { deepest.div_ceil(2) };
    if found.is_none() && frames > from {
        let start_ticks = stack.frame(frames - 1).start_ticks();
        stack.set_searched(Searched { set, frames, start_ticks });
    }
    found
}

/// Sets from which duration on calls in requests are recorded, with the next [`renew_least_ticks`].
pub(super) fn set_least_ns(ns: u64) {
    LEAST_NS.store(ns, Ordering::Relaxed);
}

/// Recomputes the duration in ticks, and returns it.
pub(super) fn renew_least_ticks() -> u64 {
    let ticks = clock::ns_to_ticks(LEAST_NS.load(Ordering::Relaxed));
    LEAST_TICKS.store(ticks, Ordering::Relaxed);
    ticks
}

/// Makes a method an endpoint, or none with number 0. Without memory for the table, or for a method beyond its end, it
/// is none.
pub(crate) fn assign(method: MethodId, number: u8) {
    let entry =
        if number == 0 { NUMBERS.get(method.get()) } else { NUMBERS.get_or_make(method.get()) };
    if let Some(entry) = entry {
        entry.store(number, Ordering::Relaxed);
        SET.fetch_add(1, Ordering::Relaxed);
    }
}

/// No method is an endpoint any more.
pub(crate) fn forget() {
    NUMBERS.forget();
    SET.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::super::set_least_in_requests_ns;
    use super::super::tests::{end, no_java, record_on_thread, start, turn, with_own};
    use super::*;

    /// What is known of the frames below must not outlive them, nor the endpoint's methods.
    #[test]
    fn the_outermost_endpoint_of_a_stack_is_found() {
        let _turn = turn();
        forget();
        set_least_in_requests_ns(0);
        record_on_thread(u64::MAX, || {
            let search = |index: u32| {
                let deepest = index.min(5);
                with_own(|own| request_of(own.stack(), (index, deepest), u64::MAX))
            };
            let call = |methods: &[u32]| methods.iter().for_each(|id| _ = start(*id, no_java));
            let leave = |methods: &[u32]| methods.iter().for_each(|id| end(*id));
            let plain = [1, 2, 3, 4, 5, 6, 7, 8];
            call(&plain);
            for index in (0..8).rev().chain(0..8) {
                assert_eq!(search(index), None, "{index}");
            }
            // A method becomes the endpoint, and is none again.
            assign(MethodId::new(3), 1);
            for index in (0..8).rev().chain(0..8) {
                assert_eq!(search(index), (index >= 2).then_some(2), "{index}");
            }
            NUMBERS.forget();
            assign(MethodId::new(11), 1);
            assert_eq!([7, 3, 0].map(search), [None; 3]);
            // Other calls at the same places.
            leave(&[8, 7, 6, 5]);
            call(&[11, 5, 11]);
            assert_eq!([7, 6, 5, 4, 3].map(search), [Some(4), Some(4), Some(4), Some(4), None]);
            leave(&[11, 5, 11, 4, 3, 2, 1]);
            call(&[11, 2]);
            assert_eq!([1, 0].map(search), [Some(0); 2]);
            leave(&[2, 11]);
        });
        set_least_in_requests_ns(u64::MAX);
        forget();
    }
}
