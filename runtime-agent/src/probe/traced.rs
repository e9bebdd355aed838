//! Which methods are traced: of each so manieth call of these, the stack is taken.
//!
//! Each thread marks its own statistics of these methods, so that their calls do not start the plain way, which knows
//! nothing of all this. [`mute::tell`](super::mute::tell) has threads mark them anew.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use log_format::ids::MethodId;

use crate::sys::memory::two_level::TwoLevel;

/// Number of different patterns, with 0 for none.
const COUNT: usize = 256;

/// How many calls of a method are between two stacks, by the number of the pattern that names it; 0 for none.
static EVERY: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];
/// How often as many calls are between them, because stacks cost too much.
static FACTOR: AtomicU64 = AtomicU64::new(1);

/// By method, its pattern's number in the uppermost byte, and its calls since it got that.
static METHODS: TwoLevel<AtomicU64, 8_192> = TwoLevel::new();
const NUMBER: u32 = 56;

static IS_ANY: AtomicBool = AtomicBool::new(false);
/// Threads may have marks.
static MAY_BE_MARKED: AtomicBool = AtomicBool::new(false);

/// Whether any method is traced.
#[inline]
pub(crate) fn is_any() -> bool {
    IS_ANY.load(Ordering::Relaxed)
}

/// Whether threads may have marks, or need some.
pub(super) fn may_be_marked() -> bool {
    MAY_BE_MARKED.load(Ordering::Relaxed)
}

/// Whether a method is traced.
pub(crate) fn is_traced(method: MethodId) -> bool {
    is_any() && METHODS.get(method.get()).is_some_and(|entry| every(entry) > 0)
}

fn every(entry: &AtomicU64) -> u64 {
    let number = usize::try_from(entry.load(Ordering::Relaxed) >> NUMBER);
    let every = number.ok().and_then(|number| EVERY.get(number));
    every.map_or(0, |every| every.load(Ordering::Relaxed))
}

/// Counts a call. If its stack is to be taken, returns for how many calls it stands.
pub(crate) fn count(method: MethodId) -> Option<u64> {
    let entry = METHODS.get(method.get())?;
    let every = every(entry).saturating_mul(FACTOR.load(Ordering::Relaxed));
    if every == 0 {
        return None;
    }
    let calls = entry.fetch_add(1, Ordering::Relaxed) & ((1 << NUMBER) - 1);
    (calls % every == chosen(calls / every, every)).then_some(every)
}

/// Which of `every` calls in a row is taken: by chance, because a program may call in a rhythm.
fn chosen(row: u64, every: u64) -> u64 {
    let mixed = (row ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 32)) % every
}

/// Sets how many calls are between two stacks of a pattern's methods; 0 for none.
pub(crate) fn set_numbered(number: u8, every: u64) {
    if let Some(own) = EVERY.get(usize::from(number)) {
        own.store(every, Ordering::Relaxed);
    }
    let is_any = EVERY.iter().any(|every| every.load(Ordering::Relaxed) > 0);
    IS_ANY.store(is_any, Ordering::Relaxed);
    MAY_BE_MARKED.fetch_or(is_any, Ordering::Relaxed);
}

/// Takes so many times as few stacks.
pub(crate) fn set_factor(factor: u64) {
    FACTOR.store(factor.max(1), Ordering::Relaxed);
}

/// How many times as few stacks are taken.
pub(crate) fn factor() -> u64 {
    FACTOR.load(Ordering::Relaxed)
}

/// Gives a method the pattern with this number. Without memory for the table, or for a method beyond its end, it is not
/// traced.
pub(crate) fn assign(method: MethodId, number: u8) {
    let entry =
        if number == 0 { METHODS.get(method.get()) } else { METHODS.get_or_make(method.get()) };
    if let Some(entry) = entry {
        entry.store(u64::from(number) << NUMBER, Ordering::Relaxed);
    }
}

/// Nothing is traced any more. Recording must be off.
pub(crate) fn forget() {
    EVERY.iter().for_each(|every| every.store(0, Ordering::Relaxed));
    IS_ANY.store(false, Ordering::Relaxed);
    METHODS.forget();
    set_factor(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_so_many_calls_in_a_row_is_taken_by_chance() {
        // No other test has this method and number.
        const METHOD: MethodId = MethodId::new(3_999_999);
        assert_eq!((is_traced(METHOD), count(METHOD)), (false, None));
        set_numbered(255, 100);
        assign(METHOD, 255);
        assert!(is_traced(METHOD));
        let mut places = Vec::new();
        for _ in 0..1_000 {
            let taken: Vec<u64> =
                (0..100).filter(|_| count(METHOD).is_some_and(|calls| calls == 100)).collect();
            assert_eq!(taken.len(), 1);
            places.extend(taken);
        }
        // Four standard errors of the mean.
        let mean = places.iter().sum::<u64>() as f64 / 1_000.0;
        assert!((mean - 49.5).abs() < 3.7, "{mean}");
        let in_rhythm = places.iter().filter(|place| *place % 4 == 3).count();
        assert!((195..306).contains(&in_rhythm), "{in_rhythm}");
        set_numbered(255, 1);
        assert!((0..100).all(|_| count(METHOD) == Some(1)));
        set_numbered(255, 0);
        assert_eq!((is_traced(METHOD), count(METHOD)), (false, None));
    }
}
