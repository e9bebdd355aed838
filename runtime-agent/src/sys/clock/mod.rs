//! The probe's clock, and how its ticks become nanoseconds and moments.
//!
//! The probe reads raw ticks: the time-stamp counter where it is invariant (the `quanta` crate finds
//! that out) and the kernel trusts it ([`kernel`]), CLOCK_MONOTONIC elsewhere. One calibration drifts by
//! milliseconds an hour, so the agent thread takes an anchor every second: all clocks at one moment. Start
//! times and the length of a tick come from the [`Anchors`].
#![allow(unsafe_code)]

mod anchors;
mod kernel;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use self::anchors::{Anchors, Jump};
use self::kernel::ClockSources;
pub(crate) use self::kernel::Watch;

/// Which clock the options ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockChoice {
    /// The processor's counter where it can be trusted.
    #[default]
    Auto,
    /// CLOCK_MONOTONIC.
    Monotonic,
}

impl ClockChoice {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Auto, Self::Monotonic].into_iter().find(|choice| choice.text() == text)
    }

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Monotonic => "monotonic",
        }
    }
}

/// The counter with its calibration.
static COUNTER: OnceLock<quanta::Clock> = OnceLock::new();

/// What the probe reads: nothing was chosen yet, or one of those below.
static SOURCE: AtomicU8 = AtomicU8::new(0);
const MONOTONIC: u8 = 1;
const COUNTS: u8 = 2;

/// Nanoseconds of 2^32 ticks where each is one.
const NANOSECONDS: u64 = 1 << 32;

/// Nanoseconds of 2^32 ticks.
static NS_PER_2_32_TICKS: AtomicU64 = AtomicU64::new(NANOSECONDS);

/// Chooses the clock of a run. Calibrates the counter, which takes some milliseconds, once. Recording is
/// off, for ticks of one clock mean nothing to the other.
pub(crate) fn init(choice: ClockChoice) {
    let is_trusted = || !cfg!(target_arch = "x86_64") || ClockSources::read().trust_tsc();
    let (source, ns) = match choice == ClockChoice::Auto && is_trusted() {
        true => match COUNTER.get_or_init(quanta::Clock::new).delta_as_nanos(0, NANOSECONDS) {
            // Without an invariant counter, quanta takes CLOCK_MONOTONIC.
            NANOSECONDS => (MONOTONIC, NANOSECONDS),
            ns => (COUNTS, ns.max(1)),
        },
        false => (MONOTONIC, NANOSECONDS),
    };
    // What was measured since is better than the calibration.
    if SOURCE.load(Ordering::Relaxed) != source {
        NS_PER_2_32_TICKS.store(ns, Ordering::Relaxed);
        SOURCE.store(source, Ordering::Relaxed);
    }
}

/// Whether [`counter`] is the clock.
#[inline]
pub(crate) fn is_counter() -> bool {
    cfg!(target_arch = "x86_64") && SOURCE.load(Ordering::Relaxed) == COUNTS
}

/// The processor's counter; to be asked only if it is the clock.
#[inline]
pub(crate) fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    other_ticks()
}

/// Ticks now; of CLOCK_MONOTONIC before [`init`].
#[inline]
pub(crate) fn ticks() -> u64 {
    if is_counter() { counter() } else { other_ticks() }
}

fn other_ticks() -> u64 {
    match COUNTER.get() {
        Some(clock) if SOURCE.load(Ordering::Relaxed) == COUNTS => clock.raw(),
        _ => monotonic_ticks(),
    }
}

/// CLOCK_MONOTONIC, in nanoseconds.
fn monotonic_ticks() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to the variable, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let [seconds, nanos] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Nanoseconds of a number of ticks, by the length of a tick known best.
#[inline]
pub(crate) fn ticks_to_ns(ticks: u64) -> u64 {
    scale(ticks, NS_PER_2_32_TICKS.load(Ordering::Relaxed))
}

/// Ticks of a number of nanoseconds, rounded up, so that `ticks_to_ns` gives at least as many.
pub(crate) fn ns_to_ticks(ns: u64) -> u64 {
    let per = u128::from(NS_PER_2_32_TICKS.load(Ordering::Relaxed).max(1));
    u64::try_from((u128::from(ns) << 32).div_ceil(per)).unwrap_or(u64::MAX)
}

/// A counter that jumped can give more ticks than there are nanoseconds.
#[inline]
fn scale(ticks: u64, ns_per_2_32: u64) -> u64 {
    u64::try_from((u128::from(ticks) * u128::from(ns_per_2_32)) >> 32).unwrap_or(u64::MAX)
}

/// What the probe reads: `tsc` or `monotonic`; `none` before [`init`].
pub(crate) fn source() -> &'static str {
    match SOURCE.load(Ordering::Relaxed) {
        MONOTONIC => "monotonic",
        COUNTS => "tsc",
        _ => "none",
    }
}

/// Now, in unix nanoseconds.
pub(crate) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// CLOCK_MONOTONIC, which is what `Instant` reads, from an arbitrary start.
pub(crate) fn monotonic_ns() -> u64 {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    // One second ahead, so that no reading is 0.
    let since = START.get_or_init(std::time::Instant::now).elapsed();
    1_000_000_000 + u64::try_from(since.as_nanos()).unwrap_or(u64::MAX - 1_000_000_000)
}

/// What a clock of CPU time shows.
#[allow(unsafe_code)]
pub(crate) fn cpu_ns_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the variable.
    let done = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if done != 0 {
        return 0;
    }
    let (s, ns) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    s * 1_000_000_000 + ns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests of this process take the counter for the clock, so no other is chosen here.
    #[test]
    fn ticks_and_nanoseconds_agree_with_the_clock() {
        init(ClockChoice::Auto);
        let mut anchors = Anchors::new();
        let (begin, wall) = (ticks(), std::time::Instant::now());
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let (end, wall) = (ticks(), wall.elapsed());
        assert_eq!(anchors.renew(), None);
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

    #[test]
    fn ticks_of_a_counter_that_jumped_are_not_wrapped() {
        assert_eq!(scale(u64::MAX, 2 * NANOSECONDS), u64::MAX);
        assert_eq!(scale(u64::MAX, NANOSECONDS), u64::MAX);
        assert_eq!(scale(1 << 63, NANOSECONDS / 2), 1 << 62);
    }
}
