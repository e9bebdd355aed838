//! A map in two generations, which forgets what was not used since the younger one was last empty.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sys::memory::sharded::Sharded;

/// See the module.
pub(super) struct Generations<V> {
    maps: [Sharded<V>; 2],
    /// Which of them is the younger one.
    young: AtomicUsize,
    /// With so many values, the younger one becomes the older one.
    most: usize,
}

impl<V: Copy> Generations<V> {
    pub(super) const fn new(most: usize) -> Self {
        Self { maps: [const { Sharded::new() }; 2], young: AtomicUsize::new(0), most }
    }

    /// The younger one, and the older one.
    fn both(&self) -> (&Sharded<V>, &Sharded<V>) {
        let [first, second] = &self.maps;
        if self.young.load(Ordering::Acquire) == 0 { (first, second) } else { (second, first) }
    }

    /// The value with this number.
    pub(super) fn get(&self, number: u64) -> Option<V> {
        let (young, old) = self.both();
        let mut found = None;
        young.change(number, |value| found = Some(*value));
        if found.is_none() {
            found = old.remove(number);
            if let Some(value) = found {
                // Without memory, it is forgotten.
                let _ = young.insert(number, value);
            }
        }
        found
    }

    /// Sets a value. Without memory, it is forgotten.
    pub(super) fn insert(&self, number: u64, value: V) {
        let _ = self.both().0.insert(number, value);
    }

    /// Calls `visit` with each value.
    pub(super) fn for_each(&self, mut visit: impl FnMut(&V)) {
        self.maps.iter().for_each(|map| map.for_each(|_, value| visit(value)));
    }

    /// Forgets the older generation, if the younger one is full. One thread calls this.
    pub(super) fn age(&self) {
        let (young, old) = self.both();
        if young.len() >= self.most {
            old.clear();
            let is_first = self.young.load(Ordering::Relaxed) == 0;
            self.young.store(usize::from(is_first), Ordering::Release);
        }
    }

    pub(super) fn clear(&self) {
        self.maps.iter().for_each(Sharded::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays() {
        let map = Generations::new(100);
        for number in 0..10_000_u64 {
            map.insert(number, number * 2);
            assert_eq!(map.get(7), (number >= 7).then_some(14));
            map.age();
        }
        assert_eq!((map.get(9_999), map.get(9_000)), (Some(19_998), None));
        let mut count = 0;
        map.for_each(|_| count += 1);
        assert!((100..=202).contains(&count), "{count}");
        map.clear();
        assert_eq!(map.get(7), None);
    }
}
