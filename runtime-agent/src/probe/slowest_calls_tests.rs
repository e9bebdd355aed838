//! Calls that are the slowest of their method in an interval.

use std::time::{Duration, Instant};

use log_format::ids::MethodId;

use super::ring::{Kind, Record};
use super::tests::{end, no_java, record_on_thread, records, start, turn, with_own};
use super::*;

/// Makes calls of these methods that take this many milliseconds, and returns the recorded ones.
fn recorded_ms(calls: &[(u32, u64)]) -> Vec<(u32, u64)> {
    for (method, ms) in calls {
        start(*method, no_java);
        std::thread::sleep(Duration::from_millis(*ms));
        end(*method);
    }
    let calls = records().into_iter().filter(|r| r.kind == Kind::Return);
    let ms = |r: &Record| clock::ticks_to_ns(r.total_ticks) / 1_000_000;
    calls.map(|r| (r.method.get(), ms(&r))).filter(|(_, ms)| *ms > 0).collect()
}

#[test]
fn the_slowest_call_of_a_method_is_recorded_beside_any_others() {
    let _turn = turn();
    const NOISY: u32 = 70_010;
    // A sleep may take longer than asked for, much longer on a busy machine.
    let slow = [(70_011, 100), (70_012, 30), (70_011, 1), (70_011, 800), (70_012, 1)];
    let expected = |recorded: Vec<(u32, u64)>| {
        // A noisy call may have waited for a processor, and be the slowest of its method.
        let methods = recorded.iter().map(|(method, _)| *method).filter(|method| *method != NOISY);
        let methods: Vec<u32> = methods.collect();
        assert_eq!(methods, [70_011, 70_012, 70_011], "{recorded:?}");
    };
    // Full rings.
    expected(record_on_thread(0, || {
        for _ in 0..10 * ring::CAPACITY {
            start(NOISY, no_java);
            end(NOISY);
        }
        assert!(with_own(|own| own.dropped()) > 0);
        recorded_ms(&slow)
    }));
    // A raised threshold.
    raise_thresholds(3_600_000_000_000);
    expected(record_on_thread(1_000_000, || recorded_ms(&slow)));
    // The log has slower calls of this interval.
    slowest_calls::keep(MethodId::new(70_011), 30_000_000_000);
    let recorded = record_on_thread(1_000_000, || recorded_ms(&slow));
    assert_eq!(recorded.iter().map(|(method, _)| *method).collect::<Vec<_>>(), [70_012]);
    slowest_calls::forget();
    expected(record_on_thread(1_000_000, || recorded_ms(&slow)));
    raise_thresholds(0);
}

#[test]
fn calls_that_are_each_a_little_slower_leave_room_for_other_methods() {
    let _turn = turn();
    let recorded = record_on_thread(0, || {
        let call = |method, lasts: Duration| {
            start(method, no_java);
            let began = Instant::now();
            while began.elapsed() < lasts {}
            end(method);
        };
        (0..10 * ring::CAPACITY).for_each(|_| call(70_022, Duration::ZERO));
        (1..=2_000).for_each(|n| call(70_023, Duration::from_nanos(500 * n)));
        recorded_ms(&[(70_024, 1)])
    });
    assert!(recorded.iter().any(|(method, _)| *method == 70_024), "{recorded:?}");
    slowest_calls::forget();
    let of_noisy = (1_000..100_000)
        .filter(|ticks| slowest_calls::may_use_reserve(MethodId::new(70_020), *ticks));
    assert!(of_noisy.count() < 45);
    assert!(slowest_calls::may_use_reserve(MethodId::new(70_021), 1));
    assert!(!slowest_calls::may_use_reserve(MethodId::new(70_020), 100_000));
    slowest_calls::forget();
    assert!(slowest_calls::may_use_reserve(MethodId::new(70_020), 1_000));
    slowest_calls::forget();
}
