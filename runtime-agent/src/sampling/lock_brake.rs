//! Keeps waits for locks from costing too much: where there are very many, they are counted only part of the time.

use super::interval::Spent;
use crate::locks;
use crate::options::CpuShare;
use crate::sys::clock::as_u64;

/// The longest pause, in seconds.
const MOST: u64 = 60;

/// Decides each second whether waits are counted in the next.
#[derive(Debug)]
pub(super) struct LockBrake {
    /// The most of the CPU time that waits may cost; `None` for no limit.
    cap: Option<CpuShare>,
    before: Option<Spent>,
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
    pub(super) fn new(cap: Option<CpuShare>) -> Self {
        Self { cap, before: None, left: 0 }
    }

    /// Begins again, as after a stop.
    pub(super) fn begin(&mut self) {
        (self.before, self.left) = (None, 0);
    }

    /// Call it each second.
    pub(super) fn second(&mut self) -> Step {
        self.judge(Spent::until_now(locks::cost_ns()))
    }

    fn judge(&mut self, now: Spent) -> Step {
        let before = self.before.replace(now);
        if self.left > 0 {
            self.left -= 1;
            return if self.left == 0 { Step::Resume } else { Step::GoOn };
        }
        let (Some(cap), Some(before)) = (self.cap, before) else { return Step::GoOn };
        let (cost_ns, may_ns) = now.since(before, cap);
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
        const ONE_PERCENT: CpuShare = CpuShare::from_millionths(10_000);
        const CPU: u64 = 2_000_000_000;
        let steps_of = |cpu_ns: u64, cap, ns_per_s: u64, seconds: usize| {
            let mut brake = LockBrake::new(cap);
            let (mut now, mut is_on) = (Spent { at_ns: 7, cost_ns: 7, cpu_ns: 7 }, true);
            let mut counted = 0;
            for _ in 0..seconds {
                now.cpu_ns += cpu_ns;
                now.at_ns += 1_000_000_000;
                now.cost_ns += if is_on { ns_per_s } else { 0 };
                counted += u32::from(is_on);
                match brake.judge(now) {
                    Step::GoOn => {}
                    Step::Pause => is_on = false,
                    Step::Resume => is_on = true,
                }
            }
            counted
        };
        let steps = |cap, ns_per_s, seconds| steps_of(CPU, cap, ns_per_s, seconds);
        // 1% of two processors pays for 20 ms of each second.
        assert_eq!(steps(Some(ONE_PERCENT), 19_000_000, 100), 100);
        assert!((19..22).contains(&steps(Some(ONE_PERCENT), 100_000_000, 100)));
        assert_eq!(steps(None, CPU, 100), 100);
        assert!(steps(Some(ONE_PERCENT), 2 * CPU, 200) < 6);
        // In an idle process, a few are no matter.
        assert_eq!(steps_of(1_000, Some(ONE_PERCENT), 9_900_000, 100), 100);
        assert!((48..53).contains(&steps_of(1_000, Some(ONE_PERCENT), 19_900_000, 100)));
    }
}
