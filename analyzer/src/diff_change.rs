//! What a method was to cost, what it did cost, and whether that is too much more.

pub(crate) const HOUR_NS: u64 = 3_600_000_000_000;

/// What is too slow: both must be passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Costs more by over so many percent.
    pub percent: f64,
    /// Costs at least so many nanoseconds more, in an hour or, if `after` is shorter, in all of it.
    pub min_ns: u64,
}

/// Two costs in nanoseconds, both of an hour; or of all of `after` where hours are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// What it was to cost, going by `before`.
    pub was_ns: u64,
    /// What it did cost.
    pub is_ns: u64,
}

impl Change {
    /// What it cost more; less than 0 if it cost less.
    #[must_use]
    pub fn cost_ns(self) -> i64 {
        let difference = i128::from(self.is_ns) - i128::from(self.was_ns);
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    }

    /// The same in percent of what it was to cost; `None` of nothing.
    #[must_use]
    pub fn percent(self) -> Option<f64> {
        (self.was_ns > 0).then(|| self.cost_ns() as f64 / self.was_ns as f64 * 100.0)
    }

    /// Whether this passes a limit, where `after` recorded for so long.
    #[must_use]
    pub fn is_over(self, limit: &Limit, recorded_ns: Option<u64>) -> bool {
        let cost_ns = u64::try_from(self.cost_ns()).unwrap_or(0);
        // Of a short run an hour's cost is mostly noise; what counts is what was seen.
        let seen_ns = match recorded_ns {
            Some(ns) if ns < HOUR_NS => scaled(cost_ns.into(), ns, HOUR_NS),
            _ => cost_ns,
        };
        let is_worth_it = cost_ns > 0 && seen_ns >= limit.min_ns;
        is_worth_it && self.percent().is_none_or(|percent| percent > limit.percent)
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
        let limit = Limit { percent: 20.0, min_ns: S };
        let over =
            |was_ns, is_ns, recorded_ns| Change { was_ns, is_ns }.is_over(&limit, recorded_ns);
        assert!(!over(10 * S, 12 * S, None));
        assert!(over(10 * S, 12 * S + 1, None));
        assert!(over(5 * S, 6 * S + 1, Some(HOUR_NS)));
        // Over by far, but not by a second.
        assert!(!over(S / 10, S, Some(50 * HOUR_NS)));
        assert!(over(0, S, Some(HOUR_NS)));
        assert!(!over(0, 0, None));
        // Seen for half an hour: a second of an hour is half a second there.
        assert!(!over(0, S, Some(HOUR_NS / 2)));
        assert!(over(0, 2 * S, Some(HOUR_NS / 2)));
        // Faster is never too slow, even if all limits are 0.
        let none = Limit { percent: 0.0, min_ns: 0 };
        assert!(!Change { was_ns: 2, is_ns: 1 }.is_over(&none, None));
        assert!(!Change { was_ns: 2, is_ns: 2 }.is_over(&none, None));
        assert!(Change { was_ns: 2, is_ns: 3 }.is_over(&none, None));
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
