//! The timer on the process's CPU time (`setitimer`). Its signal goes to a thread that runs.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use sampling_handler::signal;

use crate::sys::{clock, process_timer};

/// Its signal, which nobody can choose.
pub(super) const SIGNAL: libc::c_int = libc::SIGPROF;

/// The agent's interval in microseconds; 0 if the agent has not started it. A program may use the timer itself.
static OURS_US: AtomicU64 = AtomicU64::new(0);
/// Old kernels round intervals up to their tick.
const ROUNDED_US: u64 = 10_000;

/// Whether the timer is off.
pub(super) fn is_free() -> bool {
    process_timer::interval_us() == Some(0)
}

/// Whether the timer still has the agent's interval, and its signal the agent's handler: another profiler may use the
/// same interval.
pub(super) fn is_ours() -> bool {
    let ours_us = OURS_US.load(Ordering::Relaxed);
    let own = signal::on_signal as *const () as usize;
    let has_handler = || signal::action(SIGNAL).is_some_and(|action| action.handler == own);
    let is_near = |us: u64| (ours_us..=ours_us + ROUNDED_US).contains(&us);
    ours_us != 0 && process_timer::interval_us().is_some_and(is_near) && has_handler()
}

/// Starts the timer, which is free or the agent's, or changes its interval.
pub(super) fn start(interval_ns: u64) -> io::Result<()> {
    let interval_us = interval_ns.div_ceil(1_000);
    process_timer::set_interval_us(interval_us)?;
    OURS_US.store(interval_us, Ordering::Relaxed);
    Ok(())
}

/// Stops the timer, if it is the agent's. Its last signal may still be on its way.
pub(super) fn stop() {
    if is_ours() {
        // The kernel refuses no valid value.
        let _ = process_timer::set_interval_us(0);
    }
    OURS_US.store(0, Ordering::Relaxed);
}

/// The clock that the timer runs on (CPUCLOCK_PROF of this process). Where the kernel counts a whole tick for the
/// thread that runs at its end, it is some percent fast or slow beside other processes that wake up with ticks.
const TICK_CLOCK: libc::clockid_t = !0 << 3;
/// With less, the clocks cannot be compared.
const COMPARED_NS: u64 = 1_000_000_000;

/// Compares the timer's clock with the process's exact CPU time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    exact_ns: u64,
    ticks_ns: u64,
}

impl Clocks {
    pub(super) fn now() -> Self {
        Self { exact_ns: clock::process_cpu_ns(), ticks_ns: clock::cpu_ns_of(TICK_CLOCK) }
    }

    /// The time, by the exact clock, that is `ns` by the timer's; both as they went since `self` was read.
    pub(super) fn exact_ns(self, ns: u64) -> u64 {
        self.exact_at(Self::now(), ns)
    }

    fn exact_at(self, now: Self, ns: u64) -> u64 {
        let exact = now.exact_ns.saturating_sub(self.exact_ns);
        let ticks = now.ticks_ns.saturating_sub(self.ticks_ns);
        if ticks < COMPARED_NS {
            return ns;
        }
        let ns = u128::from(ns) * u128::from(exact) / u128::from(ticks);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_as_the_exact_clock_went() {
        const SECOND: u64 = 1_000_000_000;
        let began = Clocks { exact_ns: 5, ticks_ns: 9 };
        let at = |exact, ticks| Clocks { exact_ns: 5 + exact, ticks_ns: 9 + ticks };
        assert_eq!(began.exact_at(at(3 * SECOND, 2 * SECOND), 10), 15);
        assert_eq!(began.exact_at(at(9 * SECOND, 10 * SECOND), 10), 9);
        // Little time says little.
        assert_eq!(began.exact_at(at(3 * SECOND, SECOND - 1), 10), 10);
        // The kernel counts whole ticks.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let mut now = Clocks::now();
        while now.ticks_ns == 0 && std::time::Instant::now() < until {
            now = Clocks::now();
        }
        assert!(now.ticks_ns > 0 && now.exact_ns > 0, "{now:?}");
    }
}
