//! How many bytes or calls are between two samples: what was chosen, or more, so that samples keep to the cap.

use crate::sys::clock::{as_f64, as_u64};

/// The longest interval: one sample a gigabyte.
const MOST: u64 = 1 << 30;

/// Decides each second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    chosen: u64,
    now: u64,
    /// The most of the CPU time that samples may take, in millionths; `None` for no limit.
    cap: Option<u32>,
    /// What samples cost, and the CPU time of the process, until the last second.
    before: Option<(u64, u64)>,
}

impl Interval {
    pub(crate) fn new(chosen: u64, cap: Option<u32>) -> Self {
        Self { chosen, now: chosen, cap, before: None }
    }

    pub(crate) const fn chosen(self) -> u64 {
        self.chosen
    }

    /// Samples begin, with the chosen interval; until now they have cost this, and the process's CPU time is that.
    pub(crate) fn begin(&mut self, cost_ns: u64, cpu_ns: u64) {
        (self.now, self.before) = (self.chosen, Some((cost_ns, cpu_ns)));
    }

    /// A second is over: the interval from now on, if it is another.
    pub(crate) fn second(&mut self, cost_ns: u64, cpu_ns: u64) -> Option<u64> {
        let (cost_before, cpu_before) = self.before.replace((cost_ns, cpu_ns))?;
        let may_ns = as_f64(cpu_ns.saturating_sub(cpu_before)) * f64::from(self.cap?) / 1e6;
        let cost_ns = as_f64(cost_ns.saturating_sub(cost_before));
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
                now = interval.second(cost_ns, second * 2_000_000_000).unwrap_or(now);
            }
            (now, last)
        };
        let (now, cost_ns) = run(Some(10_000), 10);
        assert!(cost_ns <= 20_000_000 && cost_ns > 2_500_000, "{cost_ns} ns at {now} bytes");
        assert_eq!(run(None, 10).0, 1 << 10);
        // Where little is allocated, the interval is the chosen one again.
        let mut interval =
            Interval { now: 1 << 20, before: Some((0, 0)), ..Interval::new(1 << 18, Some(10_000)) };
        let next: Vec<_> = (1..4).map(|s| interval.second(0, s * 1_000_000_000)).collect();
        assert_eq!(next, [Some(1 << 19), Some(1 << 18), None]);
    }
}
