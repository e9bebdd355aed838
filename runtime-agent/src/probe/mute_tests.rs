//! Methods that are muted while they run. Calls that the guard in Java would turn away are not made here.

use log_format::ids::MethodId;

use super::ring::Kind;
use super::stack::MAX_DEPTH;
use super::tests::{
    caught, counts, depth, end, initialized, no_java, record_on_thread, records, start, threw,
    totals, turn, unseen,
};
use super::*;

/// Mutes or unmutes a method, as `Muting` does.
fn set(method: u32, is_muted: bool) {
    let method = MethodId::new(method);
    if is_muted {
        assert!(mute::set(method, true, mute::Cause::User, clock::ticks()));
    }
    mute::tell();
    if !is_muted {
        assert!(mute::set(method, false, mute::Cause::User, clock::ticks()));
    }
    mute::tell();
}

#[test]
fn a_call_in_progress_is_dropped_and_the_rest_is_exact() {
    let _turn = turn();
    record_on_thread(0, || {
        let before = mute::dropped_calls(mute::Cause::User);
        start(1, no_java);
        start(81, no_java);
        start(3, no_java);
        set(81, true);
        // No probe sees the end of 81; the next probe of any method cleans up the stack.
        start(4, no_java);
        assert_eq!(depth(), 3);
        end(4);
        end(3);
        end(1);
        assert_eq!(mute::dropped_calls(mute::Cause::User) - before, 1);
        assert_eq!([1, 81, 3, 4].map(counts), [(1, 0), (0, 0), (1, 0), (1, 0)]);
        assert_eq!(unseen(), 0);
        // The call path does not include the muted method.
        let found = records().into_iter().filter(|r| r.kind == Kind::Frame);
        assert_eq!(
            found.map(|r| (r.depth, r.method.get())).collect::<Vec<_>>(),
            [(0, 1), (1, 3), (2, 4)]
        );
        set(81, false);
        start(81, no_java);
        end(81);
        assert_eq!(counts(81), (1, 0));
    });
    mute::forget();
}

#[test]
fn calls_that_the_budget_drops_are_no_muted_calls() {
    let _turn = turn();
    record_on_thread(0, || {
        let dropped = || [mute::Cause::User, mute::Cause::Agent].map(mute::dropped_calls);
        let before = dropped();
        start(1, no_java);
        start(83, no_java);
        assert!(mute::set(MethodId::new(83), true, mute::Cause::Agent, clock::ticks()));
        mute::tell();
        start(4, no_java);
        end(4);
        end(1);
        assert_eq!(dropped(), [before[0], before[1] + 1]);
    });
    mute::forget();
}

#[test]
fn what_was_left_behind_by_muting_is_no_caller_and_no_throw() {
    let _turn = turn();
    record_on_thread(0, || {
        start(1, no_java);
        start(82, no_java);
        set(82, true);
        set(82, false);
        // No probe saw the end of its call in progress. This call is no recursion of it, and has a time.
        start(82, no_java);
        assert_eq!(depth(), 2);
        end(82);
        let reading = totals(82);
        assert_eq!((reading.calls, reading.throws), (1, 0));
        assert_eq!(reading.total_ticks, reading.max_ticks);
        // Muted without callees: its caller ends.
        start(82, no_java);
        set(82, true);
        threw(1);
        assert_eq!([1, 82].map(counts), [(1, 1), (1, 0)]);
        assert_eq!(depth(), 0);
        // The end of a dropped call ends no other call.
        set(82, false);
        start(82, no_java);
        start(82, no_java);
        set(82, true);
        set(82, false);
        end(82);
        end(82);
        assert_eq!(counts(82), (1, 0));
        assert_eq!(unseen(), 0);
    });
    mute::forget();
}

#[test]
fn an_exception_through_a_muted_method_leaves_counts_exact() {
    let _turn = turn();
    record_on_thread(0, || {
        start(1, no_java);
        start(83, no_java);
        start(3, no_java);
        set(83, true);
        threw(3);
        // 83 throws on, and no probe sees it.
        caught(1);
        start(4, no_java);
        end(4);
        end(1);
        assert_eq!([1, 83, 3, 4].map(counts), [(1, 0), (0, 0), (1, 1), (1, 0)]);
        assert_eq!(unseen(), 0);
    });
    mute::forget();
}

#[test]
fn a_constructor_is_muted_before_its_super_call_too() {
    let _turn = turn();
    record_on_thread(0, || {
        let id = 84 | rewriter::probe::BEFORE_INIT;
        set(84, true);
        start(1, no_java);
        // As if the guard was passed before.
        start(id, no_java);
        initialized(id);
        start(id, no_java);
        threw(id);
        end(1);
        assert_eq!([1, 84].map(counts), [(1, 0), (0, 0)]);
        set(84, false);
        start(id, no_java);
        set(84, true);
        initialized(id);
        set(84, false);
        end(84);
        start(id, no_java);
        initialized(id);
        end(84);
        assert_eq!(counts(84), (1, 0));
        assert_eq!(depth(), 0);
    });
    mute::forget();
}

/// The guard was passed before the method was muted; the probe comes later.
#[test]
fn a_probe_that_comes_late_is_turned_away() {
    let _turn = turn();
    record_on_thread(0, || {
        start(1, no_java);
        set(85, true);
        start(85, no_java);
        end(1);
        assert_eq!([1, 85].map(counts), [(1, 0), (0, 0)]);
        start(85, no_java);
        // Its thread has checked its stack by then, so the frame is dropped when it ends without a probe.
        mute::tell();
        start(1, no_java);
        end(1);
        assert_eq!((counts(1), counts(85)), ((2, 0), (0, 0)));
        assert_eq!(depth(), 0);
    });
    mute::forget();
}

#[test]
fn beyond_the_last_frame_calls_stay_counted() {
    let _turn = turn();
    record_on_thread(u64::MAX / 4, || {
        let calls = MAX_DEPTH + 100;
        for _ in 0..calls {
            start(86, no_java);
        }
        set(87, true);
        for _ in 0..calls {
            end(86);
        }
        assert_eq!(counts(86), (u64::from(calls), 0));
        assert_eq!(depth(), 0);
    });
    mute::forget();
}
