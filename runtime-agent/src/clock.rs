//! The probe's clock, and how its ticks become nanoseconds and moments.
//!
//! The probe reads raw ticks: the time-stamp counter where it is invariant (the `quanta` crate finds
//! that out), CLOCK_MONOTONIC elsewhere. One calibration drifts by milliseconds an hour, so the
//! drain thread takes an [`Anchor`] every second: all clocks at one moment. Start times and the
//! length of a tick come from the anchors.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

static CLOCK: OnceLock<Clock> = OnceLock::new();

struct Clock {
    counter: quanta::Clock,
    source: &'static str,
}

/// `quanta` reads the time-stamp counter: then it is read here, which is one instruction.
static IS_TSC: AtomicBool = AtomicBool::new(false);

/// Nanoseconds of 2^32 ticks.
static NS_PER_2_32_TICKS: AtomicU64 = AtomicU64::new(1 << 32);

/// Anchors closer than this say less about the length of a tick than the calibration at start, which is of some
/// milliseconds: each may be wrong by a tenth of a microsecond.
const MIN_SPAN_NS: u64 = 50_000_000;

/// Finds out which clock to use and calibrates it. Takes some milliseconds, once.
pub fn init() {
    CLOCK.get_or_init(|| {
        let counter = quanta::Clock::new();
        let ns = counter.delta_as_nanos(0, 1 << 32);
        NS_PER_2_32_TICKS.store(ns.max(1), Ordering::Relaxed);
        // Only the monotonic clock has ticks of exactly one nanosecond.
        let source = if ns == 1 << 32 { "monotonic" } else { "tsc" };
        IS_TSC.store(ns != 1 << 32, Ordering::Relaxed);
        Clock { counter, source }
    });
}

/// Whether [`counter`] is the clock.
#[inline]
pub(crate) fn is_counter() -> bool {
    cfg!(target_arch = "x86_64") && IS_TSC.load(Ordering::Relaxed)
}

/// The processor's counter; to be asked only if it is the clock.
#[inline]
#[allow(unsafe_code)]
pub(crate) fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    ticks_by_quanta()
}

/// Ticks now; 0 before [`init`].
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    if is_counter() { counter() } else { ticks_by_quanta() }
}

fn ticks_by_quanta() -> u64 {
    match CLOCK.get() {
        Some(clock) => clock.counter.raw(),
        None => 0,
    }
}

/// Nanoseconds of a number of ticks, by the length of a tick known best.
#[inline]
#[must_use]
pub fn ticks_to_ns(ticks: u64) -> u64 {
    scale(ticks, NS_PER_2_32_TICKS.load(Ordering::Relaxed))
}

/// Ticks of a number of nanoseconds, rounded up, so that `ticks_to_ns` gives at least as many.
#[must_use]
pub fn ns_to_ticks(ns: u64) -> u64 {
    let per = u128::from(NS_PER_2_32_TICKS.load(Ordering::Relaxed).max(1));
    u64::try_from((u128::from(ns) << 32).div_ceil(per)).unwrap_or(u64::MAX)
}

#[inline]
// A duration of 2^64 ns is 584 years.
#[allow(clippy::cast_possible_truncation)]
fn scale(ticks: u64, ns_per_2_32: u64) -> u64 {
    ((u128::from(ticks) * u128::from(ns_per_2_32)) >> 32) as u64
}

/// All clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    ticks: u64,
    monotonic_ns: u64,
    unix_ns: u64,
}

impl Anchor {
    fn take() -> Self {
        // The reading between two of the others; the closest of a few tries.
        let mut best: Option<(u64, Self)> = None;
        for _ in 0..4 {
            let before = monotonic_ns();
            let ticks = ticks();
            let after = monotonic_ns();
            let spread = after.saturating_sub(before);
            if best.is_none_or(|(least, _)| spread < least) {
                best =
                    Some((spread, Self { ticks, monotonic_ns: before + spread / 2, unix_ns: 0 }));
            }
        }
        let behind = monotonic_ns();
        let unix_ns = unix_ns();
        let (_, mut anchor) = best.unwrap_or((0, Self { ticks: 0, monotonic_ns: 0, unix_ns: 0 }));
        anchor.unix_ns = unix_ns.saturating_sub(behind.saturating_sub(anchor.monotonic_ns));
        anchor
    }
}

/// Turns ticks into moments.
#[derive(Debug)]
pub struct Anchors {
    first: Anchor,
    last: Anchor,
}

impl Anchors {
    /// Takes the first anchor.
    #[must_use]
    pub fn new() -> Self {
        let first = Anchor::take();
        Self { first, last: first }
    }

    /// Takes a new anchor and corrects the length of a tick.
    pub fn renew(&mut self) {
        self.last = Anchor::take();
        if let Some(ns) = self.ns_per_2_32_ticks() {
            NS_PER_2_32_TICKS.store(ns, Ordering::Relaxed);
        }
    }

    /// The length of a tick, once there is enough time between the anchors. Setting the clock does
    /// not change it.
    fn ns_per_2_32_ticks(&self) -> Option<u64> {
        let ns = self.last.monotonic_ns.saturating_sub(self.first.monotonic_ns);
        let ticks = self.last.ticks.saturating_sub(self.first.ticks);
        let per = (u128::from(ns) << 32).checked_div(u128::from(ticks))?;
        (ns >= MIN_SPAN_NS).then(|| u64::try_from(per).unwrap_or(1 << 32).max(1))
    }

    /// The moment of a reading of the clock, in unix nanoseconds.
    #[must_use]
    pub fn unix_ns(&self, ticks: u64) -> u64 {
        let Anchor { ticks: anchor, unix_ns, .. } = self.last;
        if ticks >= anchor {
            unix_ns.saturating_add(ticks_to_ns(ticks - anchor))
        } else {
            unix_ns.saturating_sub(ticks_to_ns(anchor - ticks))
        }
    }
}

impl Default for Anchors {
    fn default() -> Self {
        Self::new()
    }
}

/// What the probe reads: `tsc` or `monotonic`; `none` before [`init`].
#[must_use]
pub fn source() -> &'static str {
    CLOCK.get().map_or("none", |clock| clock.source)
}

/// Now, in unix nanoseconds.
#[must_use]
pub fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// CLOCK_MONOTONIC, which is what `Instant` reads, from an arbitrary start.
#[must_use]
pub fn monotonic_ns() -> u64 {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    // One second ahead, so that no reading is 0.
    let since = START.get_or_init(std::time::Instant::now).elapsed();
    1_000_000_000 + u64::try_from(since.as_nanos()).unwrap_or(u64::MAX - 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_nanoseconds_agree_with_the_clock() {
        init();
        let mut anchors = Anchors::new();
        let (begin, wall) = (ticks(), std::time::Instant::now());
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let (end, wall) = (ticks(), wall.elapsed());
        anchors.renew();
        let ns = ticks_to_ns(end - begin);
        let truth = u64::try_from(wall.as_nanos()).unwrap();
        assert!(ns.abs_diff(truth) < truth / 1000, "{ns} for {truth}");
        let moments = anchors.unix_ns(end) - anchors.unix_ns(begin);
        assert!(moments.abs_diff(truth) < truth / 1000, "{moments} for {truth}");
        assert!(anchors.unix_ns(ticks()).abs_diff(unix_ns()) < 1_000_000);
        for ns in [0, 1, 999, 1_000_000, u64::from(u32::MAX)] {
            assert!(ticks_to_ns(ns_to_ticks(ns)).abs_diff(ns) <= 1, "{ns}");
        }
    }
    /// The clock is set back by an hour and a half, and later forward by two days.
    #[test]
    fn a_clock_that_is_set_moves_moments_and_no_durations() {
        const S: u64 = 1_000_000_000;
        const WALL: u64 = 1_795_186_458 * S;
        // Ticks of a nanosecond and a quarter, whatever the length of a tick is here.
        let anchor = |at_s: u64, unix_ns| Anchor {
            ticks: 77 + at_s * S / 5 * 4,
            monotonic_ns: 5 + at_s * S,
            unix_ns,
        };
        let mut anchors = Anchors { first: anchor(0, WALL), last: anchor(0, WALL) };
        assert_eq!(anchors.ns_per_2_32_ticks(), None);
        let length = 5 * (1_u64 << 32) / 4;
        for (at_s, unix_ns) in [
            (10, WALL + 10 * S),
            (20, WALL + 20 * S - 5_400 * S),
            (30, WALL + 30 * S - 5_400 * S),
            (40, WALL + 40 * S + 172_800 * S),
        ] {
            anchors.last = anchor(at_s, unix_ns);
            assert_eq!(anchors.ns_per_2_32_ticks(), Some(length));
            let now = anchors.last.ticks;
            assert_eq!(anchors.unix_ns(now), unix_ns);
            // What ended before the clock was set keeps its order, and its distance to now.
            let before = anchors.unix_ns(now - 4_000);
            assert_eq!(unix_ns - before, ticks_to_ns(4_000));
            assert!(anchors.unix_ns(now + 4_000) > unix_ns);
        }
        // Earlier than any moment that can be told.
        anchors.last.unix_ns = 3;
        assert_eq!(anchors.unix_ns(0), 0);
    }
}
