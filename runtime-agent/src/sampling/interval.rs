//! How many bytes or calls are between two samples: what was chosen, or more, so that samples keep to the cap.

use crate::options::CpuShare;
use crate::sys::clock::{self, as_f64, as_u64};

/// The longest interval: one sample a gigabyte.
const MOST: u64 = 1 << 30;

/// Decides each second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    chosen: u64,
    now: u64,
    /// The most of the CPU time that samples may take; `None` for no limit.
    cap: Option<CpuShare>,
    before: Option<Spent>,
}

/// What samples cost until a moment, and the CPU time of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub at_ns: u64,
    pub cost_ns: u64,
    pub cpu_ns: u64,
}

impl Spent {
    /// Samples cost this until now.
    pub(crate) fn until_now(cost_ns: u64) -> Self {
        let cpu_ns = clock::process_cpu_ns();
        Self { at_ns: clock::monotonic_ns(), cost_ns, cpu_ns }
    }

    /// What was spent since then, and what `cap` allows, in nanoseconds. A process counts as using one processor at
    /// least: of an idle one, a few samples are a large part.
    pub(crate) fn since(self, before: Self, cap: CpuShare) -> (f64, f64) {
        let of = |spent: fn(&Self) -> u64| spent(&self).saturating_sub(spent(&before));
        let cpu_ns = of(|spent| spent.cpu_ns).max(of(|spent| spent.at_ns));
        (as_f64(of(|spent| spent.cost_ns)), as_f64(cpu_ns) * cap.of_one())
    }
}

impl Interval {
    pub(crate) fn new(chosen: u64, cap: Option<CpuShare>) -> Self {
        Self { chosen, now: chosen, cap, before: None }
    }

    pub(crate) const fn chosen(self) -> u64 {
        self.chosen
    }

    /// Samples begin, with the chosen interval.
    pub(crate) fn begin(&mut self, now: Spent) {
        (self.now, self.before) = (self.chosen, Some(now));
    }

    /// A second is over: the interval from now on, if it is another.
    pub(crate) fn second(&mut self, now: Spent) -> Option<u64> {
        let (cost_ns, may_ns) = now.since(self.before.replace(now)?, self.cap?);
        // Half of the cap, so that it does not change with each second.
        let wanted = as_f64(self.now) * cost_ns / (may_ns / 2.0).max(1.0);
        let is_over = cost_ns > may_ns;
        let is_far_below = cost_ns < may_ns / 8.0;
        let next = if is_over { as_u64(wanted) } else { self.now / 2 };
        let next = next.clamp(self.chosen, MOST.max(self.chosen));
        let is_other = (is_over || is_far_below) && next != self.now;
        self.now = if is_other { next } else { self.now };
        is_other.then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_keep_to_the_cap() {
        // 1 GB a second, 10 us a sample, two processors.
        let run = |cap, seconds: u64| {
            let mut interval = Interval::new(1 << 10, cap);
            let (mut cost_ns, mut now, mut last) = (0, 1 << 10, 0);
            for second in 0..seconds {
                last = (1 << 30) / now * 10_000;
                cost_ns += last;
                let at_ns = second * 1_000_000_000;
                let spent = Spent { at_ns, cost_ns, cpu_ns: 2 * at_ns };
                now = interval.second(spent).unwrap_or(now);
            }
            (now, last)
        };
        let (now, cost_ns) = run(Some(CpuShare::from_millionths(10_000)), 10);
        assert!(cost_ns <= 20_000_000 && cost_ns > 2_500_000, "{cost_ns} ns at {now} bytes");
        assert_eq!(run(None, 10).0, 1 << 10);
        // Where little is allocated, the interval is the chosen one again.
        let mut interval = Interval::new(1 << 18, Some(CpuShare::from_millionths(10_000)));
        interval.begin(Spent { at_ns: 0, cost_ns: 0, cpu_ns: 0 });
        interval.now = 1 << 20;
        let idle = |s: u64| Spent { at_ns: s * 1_000_000_000, cost_ns: 0, cpu_ns: 0 };
        let next: Vec<_> = (1..4).map(|s| interval.second(idle(s))).collect();
        assert_eq!(next, [Some(1 << 19), Some(1 << 18), None]);
        // In an idle process, few samples are no matter.
        let few = Spent { at_ns: 4_000_000_000, cost_ns: 9_000_000, cpu_ns: 9_000_000 };
        assert_eq!(interval.second(few), None);
    }
}
