//! Which methods a run throttled, and when: its overhead budget switches off the methods that cost most for the least
//! time measured.
//!
//! ```text
//! events     throttled  unthrottled   throttled
//! throttled   |----------|             |---------...
//! ```
//!
//! Each file repeats the current state, with its first moment. Rows may come in any order.

use std::collections::{BTreeMap, HashMap};

use log_format::rows::{EventRow, event};

use crate::options::time_range::TimeRange;
use crate::run::logged_time::{KnownTime, overlap_ns};

/// Rows kept for a method. If there are more, its older times are merged into one.
const MAX_ROWS: usize = 256;

/// The methods that a run throttled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    methods: HashMap<String, Changes>,
    known: KnownTime,
}

/// A method that was throttled in a selected time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThrottledMethod {
    /// Class, method and descriptor as in the log, `com.shop.Util.hash(I)I`.
    pub name: String,
    /// When it was first throttled, in unix nanoseconds.
    pub from_ns: u64,
    /// When it was last unthrottled; `None` if that is not in the log.
    pub to_ns: Option<u64>,
    /// How often it was throttled.
    pub times: u64,
    /// How long it was throttled within the selected time; 0 if only outside, in an interval that it touches.
    pub throttled_ns: u64,
    /// Its calls per second when it was last throttled.
    pub calls_per_s: u64,
    /// Their average duration, if the log has it.
    pub mean_ns: Option<u64>,
}

impl ThrottledMethod {
    /// The time of its calls that was missed, in nanoseconds, if calls went on at the same rate.
    #[must_use]
    pub fn missed_ns(&self) -> f64 {
        // A call of unknown length counts as a short one: long ones are not throttled.
        let mean_ns = self.mean_ns.unwrap_or(1) as f64;
        self.calls_per_s as f64 * mean_ns * (self.throttled_ns as f64 / 1e9)
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

/// Sorts methods by the time missed, the most first.
pub fn sort_by_missed(found: &mut [ThrottledInRun]) {
    found.sort_by(|a, b| {
        let by_missed = b.method.missed_ns().total_cmp(&a.method.missed_ns());
        by_missed.then_with(|| (&a.method.name, &a.run).cmp(&(&b.method.name, &b.run)))
    });
}

impl Throttled {
    /// Adds an event if a method was throttled or unthrottled. A repeated one changes nothing.
    pub fn add_event(&mut self, row: &EventRow) {
        self.known.reaches(row.at_ns);
        let cost = match row.event.as_str() {
            event::THROTTLED => {
                // At least one call was seen.
                Some(Cost { calls_per_s: row.calls_per_s.unwrap_or(1), mean_ns: row.mean_ns })
            }
            event::UNTHROTTLED => None,
            _ => return,
        };
        let changes = self.methods.entry(row.method.clone()).or_default();
        let change = changes.costs.entry(row.at_ns).or_default();
        *change = cost.or(*change);
        if changes.costs.len() > MAX_ROWS {
            changes.fold();
        }
    }

    /// Tells that the log has figures of this moment.
    pub fn saw(&mut self, ns: u64) {
        self.known.saw(ns);
    }

    /// The methods that were throttled at some moment in `covered`, unordered. How long they were is of `selected`.
    pub fn in_range<'t>(
        &'t self,
        covered: &TimeRange,
        selected: &TimeRange,
    ) -> impl Iterator<Item = ThrottledMethod> + use<'t> {
        let (covered, known) = (*covered, self.known.within(selected));
        self.methods.iter().filter_map(move |(name, changes)| {
            let mut spans = changes.spans();
            spans.retain(|span| covered.overlaps(span.from_ns, span.to_ns));
            let last = spans.last()?;
            Some(ThrottledMethod {
                name: name.clone(),
                from_ns: spans.first()?.from_ns,
                to_ns: last.to_ns,
                times: spans.iter().map(|span| span.times).sum(),
                throttled_ns: spans
                    .iter()
                    .fold(0, |sum, span| u64::saturating_add(sum, span.throttled_ns_in(&known))),
                calls_per_s: last.cost.calls_per_s,
                mean_ns: last.cost.mean_ns,
            })
        })
    }
}

/// When a method was throttled, with its cost, and unthrottled, without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Changes {
    costs: BTreeMap<u64, Option<Cost>>,
    /// The merged time of the rows that are not kept.
    folded: Option<Span>,
}

/// The cost for which a method was throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    calls_per_s: u64,
    mean_ns: Option<u64>,
}

/// A time in which a method was throttled; if it is merged from several, throttled now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from_ns: u64,
    to_ns: Option<u64>,
    times: u64,
    /// How long it was throttled, if not all of that time.
    throttled_ns: Option<u64>,
    cost: Cost,
}

impl Changes {
    /// When the method was throttled, in order.
    fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> = self.folded.into_iter().collect();
        spans.extend(spans_of(&self.costs));
        spans
    }

    /// Merges the older half of the rows into one time.
    fn fold(&mut self) {
        let Some(middle_ns) = self.costs.keys().nth(MAX_ROWS / 2).copied() else { return };
        let newer = self.costs.split_off(&middle_ns);
        let older = std::mem::replace(&mut self.costs, newer);
        for span in spans_of(&older) {
            match (span.to_ns, &mut self.folded) {
                // It ends among the newer rows.
                (None, _) => drop(self.costs.insert(span.from_ns, Some(span.cost))),
                (Some(_), Some(folded)) => folded.take(&span),
                (Some(_), folded) => *folded = Some(span),
            }
        }
    }
}

fn spans_of(costs: &BTreeMap<u64, Option<Cost>>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (at_ns, cost) in costs {
        match (spans.last_mut().filter(|span| span.to_ns.is_none()), *cost) {
            (Some(span), None) => span.to_ns = Some(*at_ns),
            // There is another class with this name, or the event before was lost.
            (Some(span), Some(cost)) => span.cost = cost,
            (None, None) => {}
            (None, Some(cost)) => {
                spans.push(Span {
                    from_ns: *at_ns,
                    to_ns: None,
                    times: 1,
                    throttled_ns: None,
                    cost,
                });
            }
        }
    }
    spans
}

impl Span {
    /// Adds another one.
    fn take(&mut self, other: &Self) {
        self.throttled_ns = Some(self.whole_ns().saturating_add(other.whole_ns()));
        if self.to_ns < other.to_ns {
            self.cost = other.cost;
        }
        self.from_ns = self.from_ns.min(other.from_ns);
        self.to_ns = self.to_ns.max(other.to_ns);
        self.times = self.times.saturating_add(other.times);
    }

    fn whole_ns(&self) -> u64 {
        self.to_ns.map_or(0, |_| self.throttled_ns_in(&TimeRange::default()))
    }

    /// How long the method was throttled in `range`.
    fn throttled_ns_in(&self, range: &TimeRange) -> u64 {
        overlap_ns(range, self.from_ns, self.to_ns).min(self.throttled_ns.unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "com.shop.Util.hash(Ljava/lang/String;)I";

    /// The rows of `hash` being throttled, or unthrottled with 0 calls: moment, calls per second, mean.
    fn rows(of: &[(u64, u64, u64)]) -> Vec<EventRow> {
        let row = |(at_ns, calls_per_s, mean_ns): &(u64, u64, u64)| {
            let is_throttled = *calls_per_s > 0;
            let event = if is_throttled { event::THROTTLED } else { event::UNTHROTTLED };
            EventRow {
                method: HASH.to_owned(),
                calls_per_s: is_throttled.then_some(*calls_per_s),
                mean_ns: is_throttled.then_some(*mean_ns),
                ..EventRow::new(*at_ns, event)
            }
        };
        of.iter().map(row).collect()
    }

    fn throttled(rows: &[EventRow]) -> Throttled {
        let mut throttled = Throttled::default();
        rows.iter().for_each(|row| throttled.add_event(row));
        throttled
    }

    fn hash(
        throttled: &Throttled,
        from_ns: Option<u64>,
        to_ns: Option<u64>,
    ) -> Option<ThrottledMethod> {
        let range = TimeRange { from_ns, to_ns };
        let found: Vec<_> = throttled.in_range(&range, &range).collect();
        assert!(found.len() < 2 && found.iter().all(|method| method.name == HASH), "{found:?}");
        found.into_iter().next()
    }

    #[test]
    fn a_method_goes_out_and_comes_back() {
        let mut throttled = throttled(&rows(&[(20, 1_000, 45), (40, 0, 0), (60, 2_000, 50)]));
        throttled.saw(0);
        throttled.saw(100);
        let all = ThrottledMethod {
            name: HASH.into(),
            from_ns: 20,
            to_ns: None,
            times: 2,
            throttled_ns: 20 + 40,
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
        let early = ThrottledMethod { throttled_ns: 10, ..first.clone() };
        assert_eq!(hash(&throttled, Some(10), Some(30)), Some(early));
        let late = ThrottledMethod { throttled_ns: 5, ..first };
        assert_eq!(hash(&throttled, Some(35), Some(60)), Some(late));
        assert_eq!(hash(&throttled, Some(40), Some(60)), None);
        assert_eq!(hash(&throttled, None, Some(20)), None);
        let second = hash(&throttled, Some(70), Some(90)).unwrap();
        assert_eq!((second.from_ns, second.to_ns, second.throttled_ns), (60, None, 20));
    }

    #[test]
    fn a_method_is_throttled_no_longer_than_the_selected_time() {
        let throttled = throttled(&rows(&[(20, 1_000, 45), (60, 0, 0)]));
        let range = |from_ns, to_ns| TimeRange { from_ns: Some(from_ns), to_ns: Some(to_ns) };
        for (selected, throttled_ns) in
            [(range(30, 40), 10), (range(50, 70), 10), (range(70, 80), 0)]
        {
            let mut found = throttled.in_range(&range(0, 100), &selected);
            assert_eq!(
                found.next().map(|method| method.throttled_ns),
                Some(throttled_ns),
                "{selected:?}"
            );
        }
    }

    #[test]
    fn a_repetition_changes_nothing_and_takes_no_memory() {
        let hours = vec![(20, 1_000, 45); 10_000];
        let repeated = throttled(&rows(&hours));
        assert_eq!(repeated.methods[HASH].costs.len(), 1);
        let method = hash(&repeated, None, None).unwrap();
        assert_eq!((method.from_ns, method.to_ns, method.times), (20, None, 1));
        assert_eq!(hash(&throttled(&rows(&[(20, 0, 0)])), None, None), None);
        // Without its mean.
        let bare = EventRow { method: HASH.to_owned(), ..EventRow::new(20, event::THROTTLED) };
        assert_eq!(hash(&throttled(&[bare]), None, None).unwrap().mean_ns, None);
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
        assert_eq!(expected.as_ref().unwrap().throttled_ns, 110 + 10 + 250);
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
        assert!(kept.costs.len() <= MAX_ROWS);
        let method = hash(&short, None, None).unwrap();
        assert_eq!((method.from_ns, method.to_ns), (10, Some(999_940)));
        assert_eq!((method.times, method.throttled_ns), (10_000, 10_000 * 30));
        assert_eq!((method.calls_per_s, method.mean_ns), (10_999, Some(10_039)));
        // The newest are kept one by one.
        let newest = hash(&short, Some(999_000), None).unwrap();
        assert_eq!((newest.from_ns, newest.times, newest.throttled_ns), (999_010, 10, 300));
        // A time that is longer than all kept rows.
        let changing: Vec<_> = (0..10_000).map(|i| (i, 1 + i, 45)).collect();
        let long = throttled(&rows(&changing));
        let method = hash(&long, None, None).unwrap();
        assert_eq!((method.from_ns, method.times, method.throttled_ns), (0, 1, 9_999));
        assert!(long.methods[HASH].costs.len() <= MAX_ROWS);
    }
}
