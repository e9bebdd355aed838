//! The probe's clock, and how its ticks become nanoseconds and times.
//!
//! The probe reads raw ticks: the time-stamp counter if it is invariant (the `quanta` crate finds out) and the kernel
//! trusts it ([`kernel`]), else CLOCK_MONOTONIC. A calibration of some milliseconds drifts by seconds an hour, so the
//! agent thread takes an anchor every second: all clocks at one moment. Start times and the length of a tick come from
//! the [`Anchors`].

mod anchors;
mod kernel;
mod reading;
mod time_on;

use std::sync::atomic::Ordering;

pub(crate) use self::anchors::{Anchors, Jump};
use self::kernel::ClockSources;
pub(crate) use self::kernel::Watch;
use self::reading::{COUNTER, COUNTS, MONOTONIC, NANOSECONDS, NS_PER_2_32_TICKS, SOURCE};
pub(crate) use self::reading::{
    clock_of, counter, cpu_ns_of, cpu_ns_of_thread, is_counter, monotonic_ns, ns_to_ticks,
    process_cpu_ns, source, thread_cpu_ns, ticks, ticks_to_ns, unix_ns,
};
pub(crate) use self::time_on::TimeOn;

/// Which clock the options ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockChoice {
    /// The processor's counter if it can be trusted.
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

/// Chooses the clock of a run. Calibrates the counter once, which takes some milliseconds. Recording must be off,
/// because ticks of one clock mean nothing to the other.
///
/// The calibration of `quanta` is not used: if its thread was off the processor between two readings, it was wrong by
/// 6%, which the first anchors took for a jump.
pub(crate) fn init(choice: ClockChoice) {
    let is_trusted = || !cfg!(target_arch = "x86_64") || ClockSources::read().trust_tsc();
    let (source, ns) = match choice == ClockChoice::Auto && is_trusted() {
        true => match COUNTER.get_or_init(quanta::Clock::new).delta_as_nanos(0, NANOSECONDS) {
            // Without an invariant counter, quanta uses CLOCK_MONOTONIC.
            NANOSECONDS => (MONOTONIC, NANOSECONDS),
            ns => (COUNTS, ns.max(1)),
        },
        false => (MONOTONIC, NANOSECONDS),
    };
    // If the clock is unchanged, its measured tick length is better than a calibration.
    if SOURCE.load(Ordering::Relaxed) != source {
        NS_PER_2_32_TICKS.store(ns, Ordering::Relaxed);
        SOURCE.store(source, Ordering::Relaxed);
        if source == COUNTS
            && let Some(ns) = anchors::calibrate()
        {
            NS_PER_2_32_TICKS.store(ns, Ordering::Relaxed);
        }
    }
}

/// Nanoseconds or a count for calculations: far below the 52 bits that are exact.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn as_f64(number: u64) -> f64 {
    number as f64
}

/// A result of such a calculation.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn as_u64(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::reading::scale;
    use super::*;

    /// Other tests of this process rely on the counter as the clock, so this one chooses no other.
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
    fn a_busy_machine_does_not_spoil_the_length_of_a_tick() {
        init(ClockChoice::Auto);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let busy = 4 * std::thread::available_parallelism().map_or(2, usize::from);
        let lengths: Vec<u64> = std::thread::scope(|scope| {
            for _ in 0..busy {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let lengths = (0..20).filter_map(|_| anchors::calibrate()).collect();
            is_over.store(true, Ordering::Relaxed);
            lengths
        });
        let (shortest, longest) = (lengths.iter().min().unwrap(), lengths.iter().max().unwrap());
        assert_eq!(lengths.len(), 20);
        assert!(longest - shortest <= longest / 300, "{lengths:?}");
    }

    #[test]
    fn ticks_of_a_counter_that_jumped_are_not_wrapped() {
        assert_eq!(scale(u64::MAX, 2 * NANOSECONDS), u64::MAX);
        assert_eq!(scale(u64::MAX, NANOSECONDS), u64::MAX);
        assert_eq!(scale(1 << 63, NANOSECONDS / 2), 1 << 62);
    }
}
