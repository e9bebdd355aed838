//! Keeps waits for monitors from costing too much: where there are very many, they are counted only part of the time.

use crate::locks;
use crate::sys::clock::{self, as_f64, as_u64};

/// What a wait costs with the JVM's two events, in nanoseconds; the thread has the monitor for a part of it, so others
/// wait longer. With 57,000 waits a second, a program that does nothing else was slower by 20 to 30%.
const WAIT_NS: f64 = 1_000.0;
/// The longest pause, in seconds.
const MOST: u64 = 60;

/// What was counted until a moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    waits: u64,
    cpu_ns: u64,
}

/// Decides each second whether waits are counted in the next.
#[derive(Debug)]
pub(super) struct LockBrake {
    /// The most of the CPU time that waits may cost, in millionths; `None` for no limit.
    cap: Option<u32>,
    before: Option<Reading>,
    /// How many seconds nothing is counted.
    left: u64,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    GoOn,
    Pause,
    Resume,
}

impl LockBrake {
    pub(super) fn new(cap: Option<u32>) -> Self {
        Self { cap, before: None, left: 0 }
    }

    /// Begins again, as after a stop.
    pub(super) fn begin(&mut self) {
        (self.before, self.left) = (None, 0);
    }

    /// Call it each second.
    pub(super) fn second(&mut self) -> Step {
        let locks::Counts { waits, lost, .. } = locks::Counts::now();
        let cpu_ns = clock::cpu_ns_of(libc::CLOCK_PROCESS_CPUTIME_ID);
        self.judge(Reading { waits: waits + lost, cpu_ns })
    }

    fn judge(&mut self, now: Reading) -> Step {
        let before = self.before.replace(now);
        if self.left > 0 {
            self.left -= 1;
            return if self.left == 0 { Step::Resume } else { Step::GoOn };
        }
        let (Some(cap), Some(before)) = (self.cap, before) else { return Step::GoOn };
        let cost_ns = as_f64(now.waits.saturating_sub(before.waits)) * WAIT_NS;
        let may_ns = as_f64(now.cpu_ns.saturating_sub(before.cpu_ns)) * f64::from(cap) / 1e6;
        // So many seconds pay for this one.
        self.left = as_u64((cost_ns / may_ns.max(1.0)).ceil()).saturating_sub(1).min(MOST);
        if self.left > 0 { Step::Pause } else { Step::GoOn }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn very_many_waits_are_counted_part_of_the_time() {
        const CPU: u64 = 2_000_000_000;
        let steps = |cap, waits_per_s: u64, seconds: usize| {
            let mut brake = LockBrake::new(cap);
            let (mut now, mut is_on) = (Reading { waits: 7, cpu_ns: 7 }, true);
            let mut counted = 0;
            for _ in 0..seconds {
                now.cpu_ns += CPU;
                now.waits += if is_on { waits_per_s } else { 0 };
                counted += u32::from(is_on);
                match brake.judge(now) {
                    Step::GoOn => {}
                    Step::Pause => is_on = false,
                    Step::Resume => is_on = true,
                }
            }
            counted
        };
        // 1% of two processors pays for 20,000 waits a second.
        assert_eq!(steps(Some(10_000), 19_000, 100), 100);
        assert!((19..22).contains(&steps(Some(10_000), 100_000, 100)));
        assert_eq!(steps(None, 1_000_000, 100), 100);
        // In a process that is idle, few are as much.
        assert!(steps(Some(10_000), u64::from(u32::MAX), 200) < 6);
    }
}
