//! How long methods were throttled in the time and the runs of each group of a report: the time that their figures
//! lack.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::options::time_range::TimeRange;
use crate::run::selection::Selection;
use crate::run::throttled::Throttled;
use crate::stats::aggregate::Group;
use crate::stats::method::Method;

const NS_PER_MINUTE: u64 = 60_000_000_000;

/// Nanoseconds, by the name as in the log of each method whose figures lack some time.
type Times = HashMap<String, u64>;

/// What one run throttled, the time that its figures cover, and the selected part of that.
struct OfRun<'r> {
    throttled: &'r Throttled,
    covered: TimeRange,
    selected: TimeRange,
}

/// The times of all runs.
pub(crate) struct ThrottledTimes<'r> {
    runs: Vec<OfRun<'r>>,
    /// In the whole time: of all runs together, and of each.
    whole: Times,
    by_run: Vec<Times>,
}

/// The times in a group.
pub(crate) struct OfGroup<'t>(Cow<'t, Times>);

impl<'r> ThrottledTimes<'r> {
    pub(crate) fn new(runs: &'r [Throttled], selection: &Selection) -> Self {
        let of_run = |(place, throttled)| OfRun {
            throttled,
            covered: selection.covered(place),
            selected: selection.range,
        };
        let runs: Vec<OfRun> = runs.iter().enumerate().map(of_run).collect();
        let by_run: Vec<Times> = runs.iter().map(|run| sum([run])).collect();
        Self { whole: sum(&runs), by_run, runs }
    }

    /// The times in a group. If it is a host, `is_of` says whether a run belongs to it.
    pub(crate) fn of(&self, group: Group, is_of: Option<&dyn Fn(usize) -> bool>) -> OfGroup<'_> {
        OfGroup(match (group, is_of) {
            (Group::Run(run) | Group::Thread(run, _), _) => {
                self.by_run.get(run).map_or_else(Cow::default, Cow::Borrowed)
            }
            (Group::Named(_), Some(is_of)) => {
                let runs = self.runs.iter().enumerate().filter(|(place, _)| is_of(*place));
                Cow::Owned(sum(runs.map(|(_, run)| run)))
            }
            (Group::All | Group::Named(_), _) => Cow::Borrowed(&self.whole),
            (Group::Hour(hour), _) => self.within(hour.start_unix_ns(), 60 * NS_PER_MINUTE),
            (Group::Minute(minute), _) => {
                self.within(minute.saturating_mul(NS_PER_MINUTE), NS_PER_MINUTE)
            }
        })
    }

    fn within(&self, start_ns: u64, length_ns: u64) -> Cow<'_, Times> {
        if self.whole.is_empty() {
            return Cow::default();
        }
        let part = |range: &TimeRange| range.within(start_ns, start_ns.saturating_add(length_ns));
        let runs = self.runs.iter().map(|run| OfRun {
            throttled: run.throttled,
            covered: part(&run.covered),
            selected: part(&run.selected),
        });
        Cow::Owned(sum(&runs.collect::<Vec<_>>()))
    }
}

impl OfGroup<'_> {
    /// Whether any method was throttled.
    pub(crate) fn has_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// How long a method was throttled in the selected time, in nanoseconds; `None` if its figures lack none of
    /// their time.
    pub(crate) fn ns(&self, method: &Method) -> Option<u64> {
        match self.0.is_empty() {
            true => None,
            false => self.0.get(&method.log_name()).copied(),
        }
    }
}

fn sum<'r>(runs: impl IntoIterator<Item = &'r OfRun<'r>>) -> Times {
    let mut times = Times::new();
    let methods = |run: &'r OfRun| run.throttled.in_range(&run.covered, &run.selected);
    for method in runs.into_iter().flat_map(methods) {
        let ns = times.entry(method.name).or_default();
        *ns = ns.saturating_add(method.out_ns);
    }
    times
}
