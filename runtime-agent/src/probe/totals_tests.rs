//! A method's statistics, and how they are found and read.

use super::super::method_totals::Reading;
use super::super::method_totals::tests::{count, own};
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

#[test]
fn thousands_of_methods_keep_their_own_statistics() {
    let totals = ThreadData::new();
    // Ids far apart collide in the table; consecutive ids fill chunks.
    let ids = || (1..5_000u32).chain((1..2_000).map(|i| i * 65_536));
    for round in 0..2 {
        for id in ids() {
            let entry = totals.of(id).unwrap();
            assert_eq!(MethodReader::new(&entry).method().get(), id);
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
