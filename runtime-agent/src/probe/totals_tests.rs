//! A method's statistics, and how they are found and read.

use super::super::buckets;
use super::*;
use crate::sys::memory::tests::refuse;

/// Method statistics with memory of their own.
struct ThreadData {
    // Dropped before the memory.
    totals: ThreadTotals,
    account: Account,
    _memory: MappedMemory,
}

impl ThreadData {
    fn new() -> Self {
        let memory = MappedMemory::new(FIRST_TABLE_BYTES + FIRST_CHUNK_BYTES).unwrap();
        // SAFETY: zeroed memory of these lengths, which is dropped last.
        let totals =
            unsafe { ThreadTotals::new(memory.start(), memory.start().add(FIRST_TABLE_BYTES)) };
        Self { totals, account: Account::new(), _memory: memory }
    }

    fn of(&self, method: u32) -> Option<Own<'_, MethodTotals>> {
        own(&self.totals).of(method, &self.account)
    }
}

fn own<T>(data: &T) -> Own<'_, T> {
    // SAFETY: the data of the one thread of its test that writes.
    unsafe { Own::new(data) }
}

/// Enters and leaves a method at once.
fn count(totals: Own<'_, MethodTotals>, ticks: u64, threw: bool) {
    totals.enter();
    leave(totals, ticks, threw);
}

fn leave(totals: Own<'_, MethodTotals>, ticks: u64, threw: bool) {
    let ended = totals.add(&EndedCall { total_ticks: ticks, self_ticks: ticks / 2, threw });
    totals.count(buckets::of_ticks(ticks), ended);
}

#[test]
fn thousands_of_methods_keep_their_own_totals() {
    let totals = ThreadData::new();
    // Ids far apart collide in the table; consecutive ids fill chunks.
    let ids = || (1..5_000u32).chain((1..2_000).map(|i| i * 65_536));
    for round in 0..2 {
        for id in ids() {
            let entry = totals.of(id).unwrap();
            assert_eq!(entry.method, id);
            count(entry, u64::from(id), round == 0);
        }
    }
    let entries: Vec<u32> = totals.totals.entries().map(|entry| entry.method().get()).collect();
    assert_eq!(entries, ids().collect::<Vec<_>>());
    for entry in totals.totals.entries() {
        let reading = entry.take_since(&mut Reading::default()).unwrap();
        assert_eq!((reading.calls, reading.throws), (2, 1));
        assert_eq!(reading.total_ticks, 2 * u64::from(entry.method().get()));
    }
}

#[test]
fn a_method_is_found_at_once_where_ids_are_near_one_another() {
    let totals = ThreadData::new();
    let ids = || (1..1_000u32).chain(5_000..6_000);
    assert!(ids().all(|id| totals.of(id).is_some()));
    assert!(ids().all(|id| own(&totals.totals).known(id).is_some()));
    // If ids are far apart, the table does not grow with the highest.
    let totals = ThreadData::new();
    assert!((1..100).all(|i| totals.of(i * 10_000).is_some()));
    assert_eq!(totals.totals.mask.get() + 1, 256);
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

#[test]
fn memory_grows_with_methods_and_without_it_there_are_no_more() {
    let totals = ThreadData::new();
    // The first table is three quarters full, and the first chunk is full.
    assert!((1..=24).all(|id| totals.of(id).is_some()));
    assert_eq!(totals.account.bytes(), 0);
    assert!(totals.of(25).is_some());
    let second = (2 * FIRST_CHUNK_BYTES).next_multiple_of(PAGE);
    assert_eq!(totals.account.bytes(), PAGE + second + readings_bytes(second));
    assert!((26..=1_000).all(|id| totals.of(id).is_some()));
    let full = totals.account.bytes();
    assert!((1_000 * 384..1_000 * 600 + LONGEST_CHUNK_BYTES).contains(&full), "{full}");
    refuse(true);
    // As many as the last chunk has room for.
    let more = (5_000..6_000).take_while(|id| totals.of(*id).is_some()).count();
    assert!(more < LONGEST_CHUNK_BYTES / 384, "{more}");
    assert!(totals.of(6_000).is_none() && totals.of(7).is_some());
    assert_eq!(totals.account.bytes(), full);
    refuse(false);
    assert!(totals.of(6_000).is_some());
    assert_eq!(totals.totals.entries().count(), 1_001 + more);
}
