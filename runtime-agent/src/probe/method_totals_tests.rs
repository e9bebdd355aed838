//! A method's statistics, and how they are read.

use super::super::buckets;
use super::*;

pub(in crate::probe) fn own<T>(data: &T) -> Own<'_, T> {
    // SAFETY: the data of the one thread of its test that writes.
    unsafe { Own::new(data) }
}

/// Enters and leaves a method at once.
pub(in crate::probe) fn count(totals: Own<'_, MethodTotals>, ticks: u64, threw: bool) {
    totals.enter();
    leave(totals, ticks, threw);
}

fn leave(totals: Own<'_, MethodTotals>, ticks: u64, threw: bool) {
    let ended = totals.add(&EndedCall { total_ticks: ticks, self_ticks: ticks / 2, threw });
    totals.count(buckets::of_ticks(ticks), ended);
}

/// Durations in the first and in the last bucket, whatever the length of a tick.
const SHORT: u64 = 10;
const LONG: u64 = 1 << 50;

#[test]
fn readings_are_differences_and_add_up() {
    let totals = MethodTotals::new(7);
    let (entry, reader) = (own(&totals), MethodReader::new(&totals));
    let mut before = Reading::default();
    assert_eq!(reader.take_since(&mut before), None);
    // A recursion: the outer call's time includes the inner call's.
    entry.enter();
    count(entry, SHORT, true);
    leave(entry, LONG, false);
    let first = reader.take_since(&mut before).unwrap();
    assert_eq!(first.histogram, [(0, 1), (79, 1)]);
    assert_eq!((first.calls, first.throws, first.total_ticks), (2, 1, LONG));
    assert_eq!((first.self_ticks, first.max_ticks), ((LONG + SHORT) / 2, LONG));
    assert_eq!(reader.take_since(&mut before), None);
    count(entry, SHORT, false);
    let second = reader.take_since(&mut before).unwrap();
    assert_eq!(second.histogram, [(0, 1)]);
    assert_eq!((second.calls, second.throws, second.max_ticks), (1, 0, SHORT));
}

#[test]
fn a_call_that_is_not_counted_is_on_the_stack_no_more() {
    let totals = MethodTotals::new(7);
    let (entry, reader) = (own(&totals), MethodReader::new(&totals));
    entry.enter();
    entry.leave();
    assert_eq!(reader.take_since(&mut Reading::default()), None);
    count(entry, SHORT, false);
    let reading = reader.take_since(&mut Reading::default()).unwrap();
    assert_eq!((reading.calls, reading.total_ticks), (1, SHORT));
}

/// The last call before a pause is not counted in one column and missing in the next.
#[test]
fn a_reader_loses_nothing_of_the_last_call() {
    for _ in 0..2_000 {
        let totals = MethodTotals::new(7);
        let mut sum = Added::default();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 1..=200 {
                    count(own(&totals), n, true);
                }
            });
            let mut before = Reading::default();
            loop {
                let is_last = writer.is_finished();
                if let Some(since) = MethodReader::new(&totals).take_since(&mut before) {
                    let in_buckets: u64 = since.histogram.iter().map(|(_, n)| u64::from(*n)).sum();
                    assert_eq!(since.calls, in_buckets);
                    sum.calls += since.calls;
                    sum.throws += since.throws;
                    sum.total_ticks += since.total_ticks;
                    sum.max_ticks = sum.max_ticks.max(since.max_ticks);
                }
                if is_last {
                    break;
                }
            }
        });
        assert_eq!((sum.calls, sum.throws, sum.max_ticks), (200, 200, 200));
        assert_eq!(sum.total_ticks, 200 * 201 / 2);
    }
}

/// As a thread leaves it if the JVM ends while the thread is in a probe.
#[test]
fn a_reading_has_the_calls_of_its_histogram() {
    let totals = MethodTotals::new(7);
    let (entry, reader) = (own(&totals), MethodReader::new(&totals));
    let mut before = Reading::default();
    entry.count_in(79);
    assert_eq!(reader.take_since(&mut before), None);
    count(entry, LONG, false);
    entry.count_in(79);
    let both = reader.take_since(&mut before).unwrap();
    assert_eq!((both.calls, both.histogram), (3, vec![(79, 3)]));
    entry.enter();
    entry.leave();
    assert_eq!(reader.take_since(&mut before), None);
    entry.count_without_times(true);
    let last = reader.take_since(&mut before).unwrap();
    assert_eq!((last.calls, last.throws, last.histogram), (1, 1, vec![]));
}

#[test]
fn a_throw_comes_with_its_call() {
    let totals = MethodTotals::new(7);
    let (entry, reader) = (own(&totals), MethodReader::new(&totals));
    let mut before = Reading::default();
    count(entry, SHORT, true);
    // The next call's probe is half done.
    add_one(&entry.throws);
    let first = reader.take_since(&mut before).unwrap();
    assert_eq!((first.calls, first.throws), (1, 1));
    entry.enter();
    entry.count_in(0);
    entry.leave();
    let second = reader.take_since(&mut before).unwrap();
    assert_eq!((second.calls, second.throws), (1, 1));
}
