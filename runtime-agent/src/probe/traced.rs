//! Which methods are traced: the stack of one in so many of their calls is taken.
//!
//! Each thread marks its own statistics of these methods ([`mute::tell`](super::mute::tell) makes it do so again). A
//! call of a marked method does not start in the common way, which does not look for traced methods.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use log_format::ids::MethodId;

use crate::sys::memory::two_level::TwoLevel;

/// Number of different patterns, with 0 for none.
const COUNT: usize = 256;

/// How many calls of a method are between two stacks, by the number of the pattern that names it; 0 for none.
static EVERY: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];
/// How often as many calls are between them, because stacks cost too much.
static FACTOR: AtomicU64 = AtomicU64::new(1);

/// The number of each method's pattern. It has room for sixteen million methods; others are not traced.
static NUMBERS: TwoLevel<AtomicU8, 4_096> = TwoLevel::new();

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
    is_any() && every(method) > 0
}

fn every(method: MethodId) -> u64 {
    let number = NUMBERS.get(method.get()).map_or(0, |number| number.load(Ordering::Relaxed));
    EVERY.get(usize::from(number)).map_or(0, |every| every.load(Ordering::Relaxed))
}

/// If the stack of a call is to be taken, for how many calls it stands. It is the one with this number among the
/// method's calls in its thread; `of` is another value in each thread and method.
pub(super) fn stands_for(method: MethodId, number: u64, of: usize) -> Option<u64> {
    let every = every(method).saturating_mul(FACTOR.load(Ordering::Relaxed));
    (every > 0 && number % every == chosen(number / every, of, every)).then_some(every)
}

/// Which of `every` calls in a row is taken: by chance, because a program may call in a rhythm.
fn chosen(row: u64, of: usize, every: u64) -> u64 {
    if every == 1 {
        return 0;
    }
    let mixed = (row ^ (of as u64).rotate_left(32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
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
        if number == 0 { NUMBERS.get(method.get()) } else { NUMBERS.get_or_make(method.get()) };
    if let Some(entry) = entry {
        entry.store(number, Ordering::Relaxed);
    }
}

/// No thread of this attachment has called yet.
pub(crate) fn begin_attachment() {
    forget();
    MAY_BE_MARKED.store(false, Ordering::Relaxed);
}

/// Nothing is traced any more, and no method has a pattern.
pub(crate) fn forget() {
    EVERY.iter().for_each(|every| every.store(0, Ordering::Relaxed));
    IS_ANY.store(false, Ordering::Relaxed);
    NUMBERS.forget();
    set_factor(1);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{end, no_java, record_on_thread, start, turn, with_own};
    use super::super::{Entry, mute, save_frames};
    use super::*;

    /// Also where a thread takes over frames of another one, which has noticed the change.
    #[test]
    fn threads_notice_what_is_traced() {
        let _turn = turn();
        let call = |method| {
            let entry = start(method, no_java);
            end(method);
            entry
        };
        let trace = |every| {
            set_numbered(254, every);
            assign(MethodId::new(2), 254);
            mute::tell();
        };
        record_on_thread(0, || {
            assert_eq!([1, 2].map(call), [Entry::Go; 2]);
            trace(1);
            assert_eq!([1, 2, 2].map(call), [Entry::Go, Entry::Traced(1), Entry::Traced(1)]);
            trace(0);
            assert_eq!([1, 2].map(call), [Entry::Go; 2]);
            // A virtual thread with a call in progress goes on here, which its last carrier has noticed in.
            trace(1);
            let saved = std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    assert_eq!(start(1, no_java), Entry::Go);
                    with_own(save_frames::save)
                });
                other.join().unwrap().unwrap()
            });
            with_own(|own| save_frames::restore(own, &saved));
            assert_eq!(call(2), Entry::Traced(1));
        });
        forget();
    }

    #[test]
    fn one_of_so_many_calls_in_a_row_is_taken_by_chance() {
        // No other test has this method.
        let _turn = turn();
        const METHOD: MethodId = MethodId::new(15_999_999);
        let taken = |number, of| stands_for(METHOD, number, of);
        assert_eq!((is_traced(METHOD), taken(0, 0)), (false, None));
        set_numbered(255, 100);
        assign(METHOD, 255);
        assert!(is_traced(METHOD));
        // In the first row of each thread, and in many rows of one.
        let first = (0..1_000).map(|thread| (0, 0x7f00_1234_5000 + thread * 384));
        let many = (0..1_000).map(|row| (row, 0x7f00_1234_5000));
        for rows in [first.collect::<Vec<_>>(), many.collect()] {
            let place = |(row, of): (u64, usize)| {
                let row = row * 100..(row + 1) * 100;
                let taken: Vec<u64> = row.filter(|call| taken(*call, of) == Some(100)).collect();
                assert_eq!(taken.len(), 1);
                taken[0] % 100
            };
            let places: Vec<u64> = rows.into_iter().map(place).collect();
            // Four standard errors.
            let mean = places.iter().sum::<u64>() as f64 / 1_000.0;
            assert!((mean - 49.5).abs() < 3.7, "{mean}");
            let in_rhythm = places.iter().filter(|place| *place % 4 == 3).count();
            assert!((195..306).contains(&in_rhythm), "{in_rhythm}");
        }
        set_numbered(255, 1);
        assert!((0..100).all(|call| taken(call, 7) == Some(1)));
        forget();
        assert_eq!((is_traced(METHOD), taken(0, 0)), (false, None));
    }
}
