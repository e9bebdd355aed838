//! Which methods a run throttled, and when: the agent has a budget for
//! that, and takes the probes off methods that cost most for the least time measured.
//!
//! ```text
//! rows       value  repeated  0         value  0        value  repeated
//! throttled   |------------------|         |------|         |---------------...
//! ```
//!
//! The beginning of every hour repeats what is throttled, for earlier hours may be deleted. Rows may
//! come in any order.

use std::collections::{BTreeMap, HashMap};

use log_format::rows::{CounterRow, counter};

use crate::options::time_range::TimeRange;

/// Rows kept of a method. One that goes in and out more often has its older times told as one.
const MAX_ROWS: usize = 256;

/// The methods that a run throttled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    methods: HashMap<String, Rows>,
    /// The last moment of any counter: a method that is still throttled was so until then.
    last_ns: u64,
}

/// A method that was throttled, in a selected time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThrottledMethod {
    /// Class, method and descriptor as the log has them, `com.shop.Util.hash(I)I`.
    pub name: String,
    /// When it was throttled, in unix nanoseconds: the first time.
    pub from_ns: u64,
    /// When it was measured again, the last time; `None` if that is not in the log.
    pub to_ns: Option<u64>,
    /// How often it was throttled.
    pub times: u64,
    /// How long it was throttled within the selected time.
    pub out_ns: u64,
    /// How many calls a second it had when it was throttled last.
    pub calls_per_s: u64,
    /// How long they took on average, if the log tells.
    pub mean_ns: Option<u64>,
}

impl ThrottledMethod {
    /// The time of its calls that was not measured, in nanoseconds, if it went on as it had been.
    #[must_use]
    pub fn missed_ns(&self) -> f64 {
        // A call of unknown length is taken for a short one: long ones are not throttled.
        let mean_ns = self.mean_ns.unwrap_or(1) as f64;
        self.calls_per_s as f64 * mean_ns * (self.out_ns as f64 / 1e9)
    }
}

/// A method that a run throttled.
#[derive(Debug, PartialEq, Eq)]
pub struct ThrottledInRun {
    /// Label of the run.
    pub run: String,
    /// The method.
    pub method: ThrottledMethod,
}

/// Sorts methods by the time that was missed of each, the most first.
pub fn sort_by_missed(found: &mut [ThrottledInRun]) {
    found.sort_by(|a, b| {
        let by_missed = b.method.missed_ns().total_cmp(&a.method.missed_ns());
        by_missed.then_with(|| (&a.method.name, &a.run).cmp(&(&b.method.name, &b.run)))
    });
}

impl Throttled {
    /// Adds a row of counters. Rows that only repeat cost nothing.
    pub fn add(&mut self, row: &CounterRow) {
        self.last_ns = self.last_ns.max(row.start_ns);
        if let Some(name) = row.name.strip_prefix(counter::THROTTLED) {
            let rows = self.rows(name);
            add(&mut rows.calls_per_s, row);
            if rows.calls_per_s.len() > MAX_ROWS {
                rows.fold();
            }
        } else if let Some(name) = row.name.strip_prefix(counter::THROTTLED_MEAN_NS) {
            let rows = self.rows(name);
            add(&mut rows.mean_ns, row);
            if rows.mean_ns.len() > 2 * MAX_ROWS {
                // Of more times than there are rows of.
                rows.mean_ns.pop_first();
            }
        }
    }

    fn rows(&mut self, name: &str) -> &mut Rows {
        self.methods.entry(name.to_owned()).or_default()
    }

    /// The methods that were throttled at some moment of `range`, in no order.
    pub fn in_range(&self, range: &TimeRange) -> impl Iterator<Item = ThrottledMethod> {
        self.methods.iter().filter_map(|(name, rows)| {
            let mut spans = rows.spans();
            spans.retain(|span| range.overlaps(span.from_ns, span.to_ns));
            let last = spans.last()?;
            Some(ThrottledMethod {
                name: name.clone(),
                from_ns: spans.first()?.from_ns,
                to_ns: last.to_ns,
                times: spans.iter().map(|span| span.times).sum(),
                out_ns: spans.iter().fold(0, |sum, span| {
                    u64::saturating_add(sum, span.out_ns_in(range, self.last_ns))
                }),
                calls_per_s: last.calls_per_s,
                mean_ns: last.mean_ns,
            })
        })
    }
}

/// What the log says of a method; values by their moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rows {
    calls_per_s: BTreeMap<u64, u64>,
    mean_ns: BTreeMap<u64, u64>,
    /// The times whose rows are not kept, as one.
    folded: Option<Span>,
}

/// A time in which a method was throttled; if it is of several, one in which it was now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from_ns: u64,
    to_ns: Option<u64>,
    times: u64,
    /// How long it was throttled, if not all the time.
    out_ns: Option<u64>,
    calls_per_s: u64,
    mean_ns: Option<u64>,
}

/// Adds a value. One between two equal ones is a repetition and says nothing; but 0 stays, for other
/// rows that come later may lie on either side of it.
fn add(values: &mut BTreeMap<u64, u64>, row: &CounterRow) {
    let at_ns = row.start_ns;
    let value = values.entry(at_ns).or_default();
    *value = row.value.max(*value);
    let before = values.range(..at_ns).next_back().map(|(at_ns, _)| *at_ns);
    let after = values.range(at_ns..).nth(1).map(|(at_ns, _)| *at_ns);
    for at_ns in [Some(at_ns), before, after].into_iter().flatten() {
        let value = values.get(&at_ns).copied().unwrap_or(0);
        let is_equal = |other: Option<(&u64, &u64)>| other.is_some_and(|(_, v)| *v == value);
        if value > 0
            && is_equal(values.range(..at_ns).next_back())
            && is_equal(values.range(at_ns..).nth(1))
        {
            values.remove(&at_ns);
        }
    }
}

impl Rows {
    /// When the method was throttled, in order.
    fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> = self.folded.into_iter().collect();
        spans.extend(self.spans_of(&self.calls_per_s));
        spans
    }

    fn spans_of(&self, calls_per_s: &BTreeMap<u64, u64>) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for (at_ns, calls_per_s) in calls_per_s {
            let (at_ns, calls_per_s) = (*at_ns, *calls_per_s);
            let mean_ns = || self.mean_ns.range(..=at_ns).next_back().map(|(_, mean_ns)| *mean_ns);
            match spans.last_mut().filter(|span| span.to_ns.is_none()) {
                Some(span) if calls_per_s == 0 => span.to_ns = Some(at_ns),
                Some(span) => (span.calls_per_s, span.mean_ns) = (calls_per_s, mean_ns()),
                None if calls_per_s == 0 => {}
                None => spans.push(Span {
                    from_ns: at_ns,
                    to_ns: None,
                    times: 1,
                    out_ns: None,
                    calls_per_s,
                    mean_ns: mean_ns(),
                }),
            }
        }
        spans
    }

    /// Makes one time of the older half, and forgets its rows.
    fn fold(&mut self) {
        let Some(middle_ns) = self.calls_per_s.keys().nth(MAX_ROWS / 2).copied() else { return };
        let newer = self.calls_per_s.split_off(&middle_ns);
        let older = std::mem::replace(&mut self.calls_per_s, newer);
        for span in self.spans_of(&older) {
            match (span.to_ns, &mut self.folded) {
                // It ends among the newer rows.
                (None, _) => drop(self.calls_per_s.insert(span.from_ns, span.calls_per_s)),
                (Some(_), Some(folded)) => folded.take(&span),
                (Some(_), folded) => *folded = Some(span),
            }
        }
    }
}

impl Span {
    /// Takes another one in.
    fn take(&mut self, other: &Self) {
        self.out_ns = Some(self.whole_ns().saturating_add(other.whole_ns()));
        if self.to_ns < other.to_ns {
            (self.calls_per_s, self.mean_ns) = (other.calls_per_s, other.mean_ns);
        }
        self.from_ns = self.from_ns.min(other.from_ns);
        self.to_ns = self.to_ns.max(other.to_ns);
        self.times = self.times.saturating_add(other.times);
    }

    fn whole_ns(&self) -> u64 {
        self.out_ns_in(&TimeRange::default(), self.from_ns)
    }

    /// How long the method was throttled in `range`, where the log ends at `last_ns`.
    fn out_ns_in(&self, range: &TimeRange, last_ns: u64) -> u64 {
        let from_ns = self.from_ns.max(range.from_ns.unwrap_or(0));
        let to_ns = self.to_ns.unwrap_or(last_ns).min(range.to_ns.unwrap_or(u64::MAX));
        to_ns.saturating_sub(from_ns).min(self.out_ns.unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "com.shop.Util.hash(Ljava/lang/String;)I";

    fn row(start_ns: u64, name: &str, value: u64) -> CounterRow {
        CounterRow { start_ns, name: name.into(), value }
    }

    /// The rows of `hash` throttled, measured again, or repeated: moment, calls a second, mean.
    fn rows(of: &[(u64, u64, u64)]) -> Vec<CounterRow> {
        let both = of.iter().flat_map(|(at, calls_per_s, mean_ns)| {
            let mean = row(*at, &format!("throttled_mean_ns:{HASH}"), *mean_ns);
            let throttled = row(*at, &format!("throttled:{HASH}"), *calls_per_s);
            [Some(mean).filter(|_| *calls_per_s > 0), Some(throttled)]
        });
        both.flatten().collect()
    }

    fn throttled(rows: &[CounterRow]) -> Throttled {
        let mut throttled = Throttled::default();
        rows.iter().for_each(|row| throttled.add(row));
        throttled
    }

    fn hash(
        throttled: &Throttled,
        from_ns: Option<u64>,
        to_ns: Option<u64>,
    ) -> Option<ThrottledMethod> {
        let found: Vec<_> = throttled.in_range(&TimeRange { from_ns, to_ns }).collect();
        assert!(found.len() < 2 && found.iter().all(|method| method.name == HASH), "{found:?}");
        found.into_iter().next()
    }

    #[test]
    fn a_method_goes_out_and_comes_back() {
        let mut throttled = throttled(&rows(&[(20, 1_000, 45), (40, 0, 0), (60, 2_000, 50)]));
        throttled.add(&row(100, counter::BYTES, 7));
        let all = ThrottledMethod {
            name: HASH.into(),
            from_ns: 20,
            to_ns: None,
            times: 2,
            out_ns: 20 + 40,
            calls_per_s: 2_000,
            mean_ns: Some(50),
        };
        assert_eq!(hash(&throttled, None, None), Some(all.clone()));
        let first = ThrottledMethod {
            to_ns: Some(40),
            times: 1,
            calls_per_s: 1_000,
            mean_ns: Some(45),
            ..all
        };
        let early = ThrottledMethod { out_ns: 10, ..first.clone() };
        assert_eq!(hash(&throttled, Some(10), Some(30)), Some(early));
        let late = ThrottledMethod { out_ns: 5, ..first };
        assert_eq!(hash(&throttled, Some(35), Some(60)), Some(late));
        assert_eq!(hash(&throttled, Some(40), Some(60)), None);
        assert_eq!(hash(&throttled, None, Some(20)), None);
        let second = hash(&throttled, Some(70), Some(90)).unwrap();
        assert_eq!((second.from_ns, second.to_ns, second.out_ns), (60, None, 20));
    }

    #[test]
    fn a_repetition_changes_nothing_and_takes_no_memory() {
        let hours: Vec<_> = (0..10_000).map(|hour| (20 + hour * 100, 1_000, 45)).collect();
        let repeated = throttled(&rows(&hours));
        assert_eq!(repeated.methods[HASH].calls_per_s.len(), 2);
        assert_eq!(repeated.methods[HASH].mean_ns.len(), 2);
        let method = hash(&repeated, None, None).unwrap();
        assert_eq!((method.from_ns, method.to_ns, method.times), (20, None, 1));
        // The hours before were deleted.
        let late = throttled(&rows(&hours[5..]));
        assert_eq!(hash(&late, None, None).unwrap().from_ns, 520);
        assert_eq!(hash(&throttled(&rows(&[(20, 0, 0)])), None, None), None);
        // Without its mean.
        let bare = throttled(&[row(20, &format!("throttled:{HASH}"), 9)]);
        assert_eq!(hash(&bare, None, None).unwrap().mean_ns, None);
    }

    #[test]
    fn the_order_of_rows_makes_no_difference() {
        let of = [
            (20, 1_000, 45),
            (100, 1_000, 45),
            (130, 0, 0),
            (150, 1_500, 45),
            (160, 0, 0),
            (170, 900, 40),
            (200, 900, 40),
            (300, 900, 40),
            (400, 900, 40),
            (420, 0, 0),
        ];
        let mut rows = rows(&of);
        let expected = hash(&throttled(&rows), None, None);
        assert_eq!(expected.as_ref().unwrap().out_ns, 110 + 10 + 250);
        rows.reverse();
        assert_eq!(hash(&throttled(&rows), None, None), expected);
        let mut seed = 7_u64;
        for _ in 0..500 {
            for i in (1..rows.len()).rev() {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                rows.swap(i, usize::try_from(seed >> 33).unwrap() % (i + 1));
            }
            assert_eq!(hash(&throttled(&rows), None, None), expected, "{rows:?}");
        }
    }

    #[test]
    fn times_without_number_are_counted_and_not_kept() {
        let often: Vec<_> = (0..10_000)
            .flat_map(|i| [(i * 100 + 10, 1_000 + i, 40 + i), (i * 100 + 40, 0, 0)])
            .collect();
        let short = throttled(&rows(&often));
        let kept = &short.methods[HASH];
        assert!(kept.calls_per_s.len() <= MAX_ROWS && kept.mean_ns.len() <= 2 * MAX_ROWS);
        let method = hash(&short, None, None).unwrap();
        assert_eq!((method.from_ns, method.to_ns), (10, Some(999_940)));
        assert_eq!((method.times, method.out_ns), (10_000, 10_000 * 30));
        assert_eq!((method.calls_per_s, method.mean_ns), (10_999, Some(10_039)));
        // The newest are known one by one.
        let newest = hash(&short, Some(999_000), None).unwrap();
        assert_eq!((newest.from_ns, newest.times, newest.out_ns), (999_010, 10, 300));
        // A time that is longer than all rows that are kept.
        let changing: Vec<_> = (0..10_000).map(|i| (i, 1 + i, 45)).collect();
        let long = throttled(&rows(&changing));
        let method = hash(&long, None, None).unwrap();
        assert_eq!((method.from_ns, method.times, method.out_ns), (0, 1, 9_999));
        assert!(long.methods[HASH].calls_per_s.len() <= MAX_ROWS);
    }
}
