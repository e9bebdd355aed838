//! The expected and the actual cost of a method, and whether it is too slow.

pub(crate) const HOUR_NS: u64 = 3_600_000_000_000;

/// The limit of "too slow": a change must exceed both values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Limit of the increase in cost, in percent.
    pub percent: f64,
    /// Least increase in cost.
    pub least: Least,
}

/// The least cost worth reporting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Least {
    /// Percent of the compared time: of the recorded time or, where that is not known, of the self time of all
    /// methods.
    Percent(f64),
    /// Nanoseconds in an hour or, if `after` is shorter, in all of it.
    Ns(u64),
}

impl Limit {
    /// The same limit without a least cost.
    #[must_use]
    pub fn of_any_cost(&self) -> Self {
        Self { percent: self.percent, least: Least::Ns(0) }
    }
}

/// The time that costs refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// An hour; `after` recorded for this many nanoseconds.
    Hours(u64),
    /// All of `after`, where hours are not known: this many nanoseconds of self time.
    SelfTime(u64),
}

/// Two costs in nanoseconds, both per hour, or for all of `after` where hours are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The expected cost, from `before`.
    pub was_ns: u64,
    /// The actual cost, in `after`.
    pub is_ns: u64,
}

impl Change {
    /// The increase in cost; negative if it costs less.
    #[must_use]
    pub fn cost_ns(self) -> i64 {
        let difference = i128::from(self.is_ns) - i128::from(self.was_ns);
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    }

    /// Both costs.
    pub(crate) const fn both_ns(self) -> [u64; 2] {
        [self.was_ns, self.is_ns]
    }

    /// The increase in percent of the expected cost; `None` if that is zero.
    #[must_use]
    pub fn percent(self) -> Option<f64> {
        (self.was_ns > 0).then(|| self.cost_ns() as f64 / self.was_ns as f64 * 100.0)
    }

    /// The increase in cost that was seen in a recording of less than an hour, and its length, in nanoseconds.
    #[must_use]
    pub fn seen_in_short(self, time: Compared) -> Option<(u64, u64)> {
        let cost_ns = u64::try_from(self.cost_ns()).unwrap_or(0);
        match time {
            Compared::Hours(ns) if ns < HOUR_NS => Some((scaled(cost_ns.into(), ns, HOUR_NS), ns)),
            _ => None,
        }
    }

    /// Whether this exceeds a limit, in a comparison of this much time.
    #[must_use]
    pub fn is_over(self, limit: &Limit, time: Compared) -> bool {
        let cost_ns = u64::try_from(self.cost_ns()).unwrap_or(0);
        let is_enough = match (limit.least, time) {
            (Least::Percent(percent), Compared::Hours(_)) => {
                cost_ns as f64 >= HOUR_NS as f64 * percent / 100.0
            }
            (Least::Percent(percent), Compared::SelfTime(all_ns)) => {
                cost_ns as f64 >= all_ns as f64 * percent / 100.0
            }
            // The hourly cost of a short run is mostly noise; only the observed cost counts.
            (Least::Ns(least_ns), _) => {
                self.seen_in_short(time).map_or(cost_ns, |(seen_ns, _)| seen_ns) >= least_ns
            }
        };
        let is_over = self.percent().is_none_or(|percent| percent > limit.percent);
        cost_ns > 0 && is_enough && is_over
    }
}

/// `sum * times / of`, rounded down.
pub(crate) fn scaled(sum: u128, times: u64, of: u64) -> u64 {
    let product = sum.saturating_mul(times.into());
    u64::try_from(product.checked_div(of.into()).unwrap_or(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_limit_is_passed_by_percent_and_by_time() {
        let limit = Limit { percent: 20.0, least: Least::Ns(S) };
        let (long, half) = (Compared::Hours(50 * HOUR_NS), Compared::Hours(HOUR_NS / 2));
        let all = Compared::SelfTime(100 * S);
        let over = |was_ns, is_ns, time| Change { was_ns, is_ns }.is_over(&limit, time);
        assert!(!over(10 * S, 12 * S, all));
        assert!(over(10 * S, 12 * S + 1, all));
        assert!(over(5 * S, 6 * S + 1, Compared::Hours(HOUR_NS)));
        // Far over in percent, but by less than a second.
        assert!(!over(S / 10, S, long));
        assert!(over(0, S, long));
        assert!(!over(0, 0, all));
        // Observed for half an hour: a second per hour is half a second there.
        assert!(!over(0, S, half));
        assert!(over(0, 2 * S, half));
        // Faster is never too slow, even if all limits are 0.
        let none = limit.of_any_cost();
        let none = Limit { percent: 0.0, ..none };
        assert!(!Change { was_ns: 2, is_ns: 1 }.is_over(&none, all));
        assert!(!Change { was_ns: 2, is_ns: 2 }.is_over(&none, all));
        assert!(Change { was_ns: 2, is_ns: 3 }.is_over(&none, all));
    }

    #[test]
    fn a_share_is_of_the_time_compared() {
        let limit = Limit { percent: 20.0, least: Least::Percent(0.1) };
        let costs = |is_ns, time| Change { was_ns: 0, is_ns }.is_over(&limit, time);
        // 3.6 s of an hour, however long the observed time.
        for recorded_ns in [32 * S, HOUR_NS, 50 * HOUR_NS] {
            let time = Compared::Hours(recorded_ns);
            assert!(costs(4 * S, time) && !costs(3 * S, time));
        }
        assert!(costs(S, Compared::SelfTime(900 * S)) && !costs(S, Compared::SelfTime(1_100 * S)));
    }

    #[test]
    fn changes_have_no_limits() {
        let most = Change { was_ns: 0, is_ns: u64::MAX };
        assert_eq!((most.cost_ns(), most.percent()), (i64::MAX, None));
        assert_eq!(Change { was_ns: u64::MAX, is_ns: 0 }.cost_ns(), i64::MIN);
        assert_eq!(Change { was_ns: 4, is_ns: 1 }.percent(), Some(-75.0));
        assert_eq!(scaled(u128::from(u64::MAX), u64::MAX, 1), u64::MAX);
        assert_eq!(scaled(7, 3, 0), 0);
    }
}
