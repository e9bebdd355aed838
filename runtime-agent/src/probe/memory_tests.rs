//! Probes without memory, stacks that grow while another thread reads them, and counts meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64};

use log_format::ids::JavaThreadId;

use super::stack::FIRST_DEPTH;
use super::tests::{
    beyond, caught, counts, depth, end, is_plain, no_java, record_on_thread, records, start, threw,
    totals, turn, unseen, with_own, with_reader,
};
use super::thread::ThreadReader;
use super::*;
use crate::probe::open_frames;
use crate::sys::memory::tests::{refusals, refuse};

/// Virtual threads.
const FIRST: JavaThreadId = JavaThreadId::new(900_001);
const SECOND: JavaThreadId = JavaThreadId::new(900_002);

/// Calls lost by `work`, while other tests wait for their turn.
fn lost(work: impl FnOnce()) -> u64 {
    let before = lost_calls::calls();
    work();
    lost_calls::calls() - before
}

/// Calls counted without statistics for lack of memory.
fn counted_as_lost() -> u64 {
    let lost =
        with_reader(|reader| reader.lost().take_since(&mut method_totals::Reading::default()));
    lost.map_or(0, |lost| lost.calls)
}

fn account_bytes() -> usize {
    with_own(|own| own.account.bytes())
}

fn end_thread() {
    #[allow(unsafe_code)]
    // SAFETY: not called in a closure of `with_current`.
    unsafe {
        thread::end_current(no_java);
    }
}

/// Begins a call.
fn call(method: u32) {
    assert_eq!(start(method, no_java), Entry::Go);
}

#[test]
fn a_thread_without_memory_loses_its_calls_and_is_measured_later() {
    let _turn = turn();
    let threads = lost_calls::threads();
    let calls = lost(|| {
        record_on_thread(0, || {
            refuse(true);
            for _ in 0..100 {
                start(1, no_java);
                start(2, no_java);
                threw(2);
                caught(1);
                end(1);
            }
            assert!(!thread::is_known());
            refuse(false);
            // It does not try again each time.
            while !thread::is_known() {
                start(3, no_java);
                end(3);
            }
            start(3, no_java);
            end(3);
            assert_eq!((counts(1), counts(3)), ((0, 0), (2, 0)));
        });
    });
    // After the first try, the thread tries again after a thousand calls.
    assert_eq!(calls, 1_001);
    assert_eq!(lost_calls::threads() - threads, 1);
}

#[test]
fn without_memory_for_frames_calls_are_counted_without_times() {
    let _turn = turn();
    record_on_thread(u64::MAX, || {
        start(1, no_java);
        refuse(true);
        for _ in 1..1_000 {
            start(1, no_java);
        }
        assert_eq!((depth(), beyond()), (FIRST_DEPTH, 1_000 - u64::from(FIRST_DEPTH)));
        // There is memory again, but calls beyond the last frame stay there.
        refuse(false);
        with_own(|own| own.account.forget_refusal());
        start(1, no_java);
        assert_eq!(depth(), FIRST_DEPTH);
        for _ in 0..1_001 {
            end(1);
        }
        assert_eq!((counts(1), depth(), beyond()), ((1_001, 0), 0, 0));
        for _ in 0..1_000 {
            start(1, no_java);
        }
        assert_eq!((depth(), beyond()), (1_000, 0));
        for _ in 0..1_000 {
            end(1);
        }
        assert_eq!((counts(1), unseen()), ((2_001, 0), 0));
    });
}

/// Calls beyond the last frame are forgotten with their recording, and the next recording is on the common path again.
#[test]
fn a_recording_after_one_without_memory_for_frames_is_plain() {
    let _turn = turn();
    record_on_thread(u64::MAX, || {
        call(1);
        refuse(true);
        (0..1_000).for_each(|_| call(1));
        refuse(false);
        assert!(beyond() > 0 && !is_plain());
        assert!(end_recording() && begin_recording());
        call(1);
        assert_eq!((depth(), beyond()), (1, 0));
        assert!(is_plain());
        end(1);
    });
}

#[test]
fn without_memory_calls_and_recorded_calls_are_counted_as_lost() {
    let _turn = turn();
    record_on_thread(0, || {
        start(1, no_java);
        refuse(true);
        for method in 2..500 {
            start(method, no_java);
            end(method);
        }
        end(1);
        refuse(false);
        with_own(|own| own.account.forget_refusal());
        let known: u64 = (1..500).map(|method| counts(method).0).sum();
        assert_eq!(known + counted_as_lost(), 499);
        assert!((2..30).contains(&known), "{known}");
        assert_eq!((records().len(), with_own(|own| own.dropped())), (0, 499));
        start(500, no_java);
        end(500);
        assert_eq!((counts(500), records().len()), ((1, 0), 2));
    });
}

#[test]
fn a_thread_without_memory_for_its_methods_or_frames_seldom_asks_for_it() {
    let _turn = turn();
    record_on_thread(u64::MAX, || {
        // The first chunk of method statistics is full.
        for method in 1..=24 {
            start(method, no_java);
            end(method);
        }
        let call_often = || {
            for _ in 0..10_000 {
                start(25, no_java);
                end(25);
            }
        };
        let asked = |work: &dyn Fn()| {
            let before = refusals();
            refuse(true);
            work();
            refuse(false);
            refusals() - before
        };
        assert!((1..=200).contains(&asked(&call_often)));
        // With memory, the method's calls are counted soon.
        call_often();
        assert!((9_800..=10_000).contains(&counts(25).0), "{:?}", counts(25));
        // A loop just past the last frame for which there was memory.
        for _ in 0..FIRST_DEPTH {
            start(1, no_java);
        }
        assert!((1..=200).contains(&asked(&call_often)));
        assert!((19_800..=20_000).contains(&counts(25).0), "{:?}", counts(25));
    });
}

#[test]
fn frames_of_a_virtual_thread_without_memory_are_lost_and_the_rest_is_exact() {
    let _turn = turn();
    let calls = lost(|| {
        record_on_thread(u64::MAX, || {
            // The carrier's own call, and two of the virtual thread.
            start(1, no_java);
            mounts::mount(FIRST);
            start(2, no_java);
            start(3, no_java);
            refuse(true);
            mounts::unmount(FIRST);
            refuse(false);
            end(1);
            mounts::mount(FIRST);
            end(3);
            start(4, no_java);
            end(4);
            end(2);
            mounts::unmount(FIRST);
            assert_eq!([1, 2, 3, 4].map(counts), [(1, 0), (0, 0), (0, 0), (1, 0)]);
            // With memory, nothing is lost.
            mounts::mount(FIRST);
            (0..300).for_each(|_| call(2));
            mounts::unmount(FIRST);
            mounts::mount(FIRST);
            (0..300).for_each(|_| end(2));
            mounts::unmount(FIRST);
            assert_eq!((counts(2), depth()), ((300, 0), 0));
        });
    });
    assert_eq!(calls, 2);
}

/// A carrier without memory for all frames of a virtual thread takes as many as fit.
#[test]
fn a_virtual_thread_moves_to_a_carrier_without_memory() {
    let _turn = turn();
    record_on_thread(u64::MAX, || {
        mounts::mount(SECOND);
        (0..1_000).for_each(|_| call(5));
        mounts::unmount(SECOND);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start(6, no_java);
                end(6);
                refuse(true);
                mounts::mount(SECOND);
                assert_eq!(u64::from(depth()) + beyond(), 1_000);
                (0..1_000).for_each(|_| end(5));
                assert_eq!((depth(), beyond()), (0, 0));
                mounts::unmount(SECOND);
                assert_eq!(counts(5).0 + counted_as_lost(), 1_000);
            });
        });
    });
}

#[test]
fn a_deep_recursion_is_exact_through_growth_and_gives_memory_back() {
    let _turn = turn();
    // No other test gives this id a threshold, so there are no recorded calls.
    record_on_thread(u64::MAX, || {
        start(77_001, no_java);
        let flat = account_bytes();
        for round in 1..=3 {
            for _ in 1..60_000 {
                start(77_001, no_java);
            }
            let deep = account_bytes() - flat;
            assert!(deep > 60_000 * 32 && deep < 8 << 20, "{deep}");
            for _ in 1..60_000 {
                end(77_001);
            }
            assert_eq!(counts(77_001).0, round * 59_999);
            assert_eq!(account_bytes(), flat, "round {round}");
        }
        end(77_001);
        let total = totals(77_001);
        assert_eq!((total.calls, total.total_ticks), (180_000 - 2, total.self_ticks));
    });
}

/// A reader from outside sees frames that the thread has or had, outermost first, while blocks change.
#[test]
fn a_stack_can_be_read_while_it_grows_and_shrinks() {
    let _turn = turn();
    set_threshold_ns(u64::MAX);
    assert!(begin_recording());
    let (is_over, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 1..=3_u32 {
            let is_over = &is_over;
            scope.spawn(move || {
                let (mut random, mut calls) = (seed, 0);
                // At least once: the thread may begin late.
                loop {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // Mostly shallow, sometimes deep; the method at each depth is always the same.
                    let depth = 1 + (random >> 8) % (1 << (random >> 28).max(4));
                    (0..depth).for_each(|at| call(1_000 + at % 7));
                    (0..depth).rev().for_each(|at| end(1_000 + at % 7));
                    calls += u64::from(depth);
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
                let counted: u64 = (0..7).map(|n| counts(1_000 + n).0).sum();
                assert_eq!((counted, unseen()), (calls, 0));
                end_thread();
            });
        }
        let mut deepest = 0;
        let least_looks = if cfg!(miri) { 20 } else { 3_000 };
        let is_enough = |deepest: usize| cfg!(miri) || deepest > 1_024;
        while looks.fetch_add(1, Ordering::Relaxed) < least_looks || !is_enough(deepest) {
            for thread in thread::all() {
                let frames = open_frames::read_frames(&thread, recording());
                deepest = deepest.max(frames.len());
                for (at, frame) in frames.iter().enumerate() {
                    let expected = 1_000 + u32::try_from(at % 7).unwrap();
                    // Ended threads of other tests are still in the list.
                    assert!(
                        frame.method.get() == expected || thread.has_ended(),
                        "{frame:?} at {at}"
                    );
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(end_recording());
}

/// As at a detach: pages are given back while their owner's stack, method statistics and ring grow.
#[test]
fn a_thread_may_be_in_a_probe_while_its_memory_is_given_back() {
    let _turn = turn();
    set_threshold_ns(0);
    for _ in 0..if cfg!(miri) { 2 } else { 50 } {
        assert!(begin_recording());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        (1..2_000).for_each(call);
                        (1..2_000).rev().for_each(end);
                    }
                    // A thread that calls again begins with new data.
                    end_thread();
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(end_recording());
            let retired = thread::retire_all();
            for _ in 0..20 {
                retired
                    .iter()
                    .cloned()
                    .filter_map(ThreadReader::of)
                    .for_each(ThreadReader::give_back);
                std::thread::yield_now();
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
    assert!(thread::all().is_empty());
}
