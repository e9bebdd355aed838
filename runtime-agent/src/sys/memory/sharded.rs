//! A map by thread number for concurrent use, which refuses values if there is no memory.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Account;

/// Shards of the map, each with a lock of its own.
const SHARDS: usize = 64;
/// An empty shard whose table has more bytes than this gives them back.
const KEPT: usize = 4_096;
/// A table with room for this many times its values gives half of that or more back.
const TOO_LARGE: usize = 8;

/// Spreads consecutive numbers.
#[derive(Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // Multiplies by the golden ratio; the table uses the highest bits and the lowest.
        let product = u128::from(number) * 0x9e37_79b9_7f4a_7c15;
        #[allow(clippy::cast_possible_truncation)]
        let folded = (product as u64) ^ (product >> 64) as u64;
        self.0 = folded;
    }
}

struct Table<V> {
    values: HashMap<u64, V, BuildHasherDefault<NumberHasher>>,
    /// Bytes that it has taken from the account.
    bytes: usize,
}

impl<V> Table<V> {
    const fn new() -> Self {
        Self { values: HashMap::with_hasher(BuildHasherDefault::new()), bytes: 0 }
    }
}

/// A shard of the map, in cache lines of its own.
#[repr(align(64))]
struct Shard<V>(Mutex<Table<V>>);

/// The shard of a number. Addresses of one kind are multiples of the same power of two.
#[allow(clippy::cast_possible_truncation)] // Six bits.
const fn shard_of(number: u64) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SHARDS.ilog2())) as usize
}

/// The map.
pub(crate) struct Sharded<V> {
    shards: [Shard<V>; SHARDS],
    length: AtomicUsize,
    /// The memory of the tables, without what the values allocate.
    account: Account,
}

/// The approximate size in bytes of a table with room for this many values.
const fn table_bytes<V>(capacity: usize) -> usize {
    (capacity + capacity / 7) * (size_of::<(u64, V)>() + 1)
}

impl<V> Sharded<V> {
    pub(crate) const fn new() -> Self {
        Self {
            shards: [const { Shard(Mutex::new(Table::new())) }; SHARDS],
            length: AtomicUsize::new(0),
            account: Account::new(),
        }
    }

    fn shard(&self, number: u64) -> Option<MutexGuard<'_, Table<V>>> {
        Some(lock(self.shards.get(shard_of(number))?))
    }

    /// The approximate number of values.
    pub(crate) fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    /// Inserts a value, or replaces the one with this number and returns it.
    ///
    /// # Errors
    /// Returns the value if there is no memory for it.
    pub(crate) fn insert(&self, number: u64, value: V) -> Result<Option<V>, V> {
        let Some(mut table) = self.shard(number) else { return Err(value) };
        if table.values.len() == table.values.capacity() && !self.grow(&mut table) {
            return Err(value);
        }
        let before = table.values.insert(number, value);
        if before.is_none() {
            self.length.fetch_add(1, Ordering::Relaxed);
        }
        Ok(before)
    }

    /// Makes room for one more value; `false` if there is no memory.
    fn grow(&self, table: &mut Table<V>) -> bool {
        let more = table_bytes::<V>(table.values.len().max(4));
        if !self.account.take(more) {
            return false;
        }
        let is_done = table.values.try_reserve(1).is_ok();
        let bytes = table_bytes::<V>(table.values.capacity()).max(table.bytes);
        self.account.give((table.bytes + more).saturating_sub(bytes));
        table.bytes = bytes.min(table.bytes + more);
        is_done
    }

    /// Removes and returns the value with this number.
    pub(crate) fn remove(&self, number: u64) -> Option<V> {
        if self.len() == 0 {
            return None;
        }
        let mut table = self.shard(number)?;
        let value = table.values.remove(&number)?;
        self.length.fetch_sub(1, Ordering::Relaxed);
        if table.values.is_empty() && table.bytes > KEPT {
            self.account.give(table.bytes);
            *table = Table::new();
        } else if table.values.capacity() / TOO_LARGE > table.values.len() {
            self.shrink(&mut table);
        }
        Some(value)
    }

    /// Moves the values into a smaller table, if the system has memory for one, but never so small that it is kept when
    /// it is empty.
    fn shrink(&self, table: &mut Table<V>) {
        let room = (2 * table.values.len()).max(KEPT / size_of::<(u64, V)>() + 1);
        if table.values.capacity() < 2 * room {
            return;
        }
        let mut smaller = Table::new();
        if smaller.values.try_reserve(room).is_err() {
            return;
        }
        // Both are there only for a moment. The account may be full, and then this helps most.
        let bytes = table_bytes::<V>(smaller.values.capacity()).min(table.bytes);
        self.account.give(table.bytes - bytes);
        smaller.values.extend(table.values.drain());
        *table = Table { bytes, ..smaller };
    }

    /// Changes the value with this number, if there is one.
    pub(crate) fn change(&self, number: u64, change: impl FnOnce(&mut V)) {
        if let Some(mut table) = self.shard(number)
            && let Some(value) = table.values.get_mut(&number)
        {
            change(value);
        }
    }

    /// Changes the value with this number, which is `first` if there was none; `false` if there is no memory.
    pub(crate) fn change_or_insert(
        &self,
        number: u64,
        first: V,
        change: impl FnOnce(&mut V),
    ) -> bool {
        let Some(mut table) = self.shard(number) else { return false };
        if let Some(value) = table.values.get_mut(&number) {
            change(value);
            return true;
        }
        if table.values.len() == table.values.capacity() && !self.grow(&mut table) {
            return false;
        }
        change(table.values.entry(number).or_insert(first));
        self.length.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Whether there is a value with this number.
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.len() > 0 && self.shard(number).is_some_and(|table| table.values.contains_key(&number))
    }

    /// Calls `visit` with each value, but perhaps not with one that is being inserted. Users of a shard wait while it
    /// is visited.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u64, &V)) {
        if self.len() == 0 {
            return;
        }
        for shard in &self.shards {
            lock(shard).values.iter().for_each(|(number, value)| visit(*number, value));
        }
    }

    /// Removes all values and gives the memory back.
    pub(crate) fn clear(&self) {
        drop(self.take_all());
    }

    /// Like [`clear`](Self::clear), and returns the values.
    pub(crate) fn take_all(&self) -> Vec<(u64, V)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let old = std::mem::replace(&mut *lock(shard), Table::new());
            self.length.fetch_sub(old.values.len(), Ordering::Relaxed);
            self.account.give(old.bytes);
            all.extend(old.values);
        }
        all
    }
}

fn lock<V>(shard: &Shard<V>) -> MutexGuard<'_, Table<V>> {
    shard.0.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::tests::refuse;
    use super::*;

    #[test]
    fn values_come_back_by_their_numbers() {
        let map = Sharded::new();
        for number in 0..10_000 {
            assert_eq!(map.insert(number, number.to_string()), Ok(None));
        }
        assert_eq!(map.insert(77, "other".to_owned()), Ok(Some("77".to_owned())));
        assert_eq!(map.len(), 10_000);
        let mut seen = 0;
        map.for_each(|number, value| {
            seen += 1;
            assert!(*value == number.to_string() || (number, value.as_str()) == (77, "other"));
        });
        assert_eq!(seen, 10_000);
        assert!(map.contains(3) && !map.contains(10_000));
        map.change(3, |value| value.push('!'));
        assert!(map.change_or_insert(3, String::new(), |value| value.push('?')));
        assert!(map.change_or_insert(20_000, String::new(), |value| value.push('?')));
        assert_eq!(map.remove(20_000).as_deref(), Some("?"));
        map.for_each(|number, value| assert!(number != 3 || value == "3!?"));
        for number in 0..9_999 {
            assert!(map.remove(number).is_some() && map.remove(number).is_none(), "{number}");
        }
        map.clear();
        assert_eq!((map.len(), map.remove(9_999)), (0, None));
    }

    #[test]
    fn without_memory_the_value_is_handed_back() {
        let map = Sharded::new();
        assert_eq!(map.insert(1, 10), Ok(None));
        refuse(true);
        // The first value's shard has room for one more; an empty shard has none.
        let [same, other] = [true, false].map(|is_same| {
            (2..).find(|number| (shard_of(*number) == shard_of(1)) == is_same).unwrap()
        });
        assert_eq!(map.insert(same, 11), Ok(None));
        assert_eq!(map.insert(other, 12), Err(12));
        refuse(false);
        assert_eq!(map.insert(other, 12), Ok(None));
        let removed = [1, same, other].map(|number| map.remove(number));
        assert_eq!(removed, [Some(10), Some(11), Some(12)]);
    }

    #[test]
    fn addresses_are_spread_over_the_shards() {
        let shards: HashSet<usize> =
            (0..1_000).map(|thread| shard_of(0x7f00_0000_0000 + thread * 4_096)).collect();
        assert!(shards.len() > SHARDS / 2, "{}", shards.len());
    }

    #[test]
    fn what_tables_take_is_counted_and_given_back() {
        let map = Sharded::new();
        let before = map.account.bytes();
        for number in 0..100_000 {
            assert_eq!(map.insert(number, [0_u64; 4]), Ok(None));
        }
        let full = map.account.bytes() - before;
        assert!((4_100_000..12_000_000).contains(&full), "{full}");
        // Few that stay keep little memory.
        for number in (0..100_000).filter(|number| number % 100 != 0) {
            assert!(map.remove(number).is_some());
        }
        let few = map.account.bytes() - before;
        assert!(few < full / 8, "{few} of {full}");
        for number in (0..100_000).step_by(100) {
            map.change(number, |value| value[0] = 1);
            assert!(map.remove(number).is_some());
        }
        assert_eq!(map.account.bytes(), 0);
    }
}
