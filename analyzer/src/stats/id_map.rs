//! Maps with ids and the like as keys, which are looked up for every row.
//!
//! The standard hasher resists keys that are chosen to collide, but takes most of a row's time for it. This one
//! multiplies. It starts with a different number in every process, so nobody can choose colliding keys without
//! knowing that number.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// Ids up to this one have a place in an array; the agent assigns them from 1 on.
pub const MAX_DENSE_ID: u32 = 1 << 20;

/// A map whose keys are hashed with [`IdHasher`].
pub type IdMap<K, V> = HashMap<K, V, IdState>;

/// Makes hashers.
#[derive(Clone, Copy, Debug)]
pub struct IdState {
    seed: u64,
}

impl Default for IdState {
    fn default() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        Self { seed: *SEED.get_or_init(|| RandomState::new().hash_one(0)) }
    }
}

impl BuildHasher for IdState {
    type Hasher = IdHasher;

    #[inline]
    fn build_hasher(&self) -> IdHasher {
        IdHasher { state: self.seed }
    }
}

/// Multiplies each word to 128 bits, and folds them.
#[derive(Debug)]
pub struct IdHasher {
    state: u64,
}

/// The golden ratio's fraction: odd, with irregular bits.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for IdHasher {
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(FACTOR);
        // Both halves are used.
        #[allow(clippy::cast_possible_truncation)]
        let (low, high) = (product as u64, (product >> 64) as u64);
        self.state = low ^ high;
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let word = chunk.iter().fold(1, |word, byte| word << 8 | u64::from(*byte));
            self.write_u64(word);
        }
    }

    #[inline]
    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn neighbours_and_texts_have_hashes_of_their_own() {
        let state = IdState::default();
        // The bits that a map uses: the low bits for the place, the highest seven to compare.
        let places: HashSet<u64> =
            (0..100_000_u32).map(|id| state.hash_one(id) % (1 << 20)).collect();
        assert!(places.len() > 90_000, "{}", places.len());
        let tops: HashSet<u64> = (0..10_000_u32).map(|id| state.hash_one(id) >> 57).collect();
        assert_eq!(tops.len(), 128);
        let pairs: HashSet<u64> = (0..300_u32)
            .flat_map(|a| (0..300_u32).map(move |b| (a, b)))
            .map(|p| state.hash_one(p))
            .collect();
        assert_eq!(pairs.len(), 90_000);
        let texts: HashSet<u64> = (0..1_000).map(|i| state.hash_one("x".repeat(i))).collect();
        assert_eq!(texts.len(), 1_000);
    }
}
