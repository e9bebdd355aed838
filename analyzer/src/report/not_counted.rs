//! How long methods were throttled or muted in the time and the runs of each group of a report: the time that their
//! figures lack.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::options::time_range::TimeRange;
use crate::run::muted::Muted;
use crate::run::selection::Selection;
use crate::run::throttled::Throttled;
use crate::stats::aggregate::Group;
use crate::stats::method::Method;

const NS_PER_MINUTE: u64 = 60_000_000_000;

/// How long methods were throttled, in nanoseconds, by their names in the log.
type Times = HashMap<String, u64>;

/// How long a method's calls were not counted, in nanoseconds of the selected time. `None` if its figures lack none of
/// their time; 0 if they lack some outside the selected time, in an interval that it touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotCounted {
    /// By the overhead budget.
    pub throttled_ns: Option<u64>,
    /// By the user.
    pub muted_ns: Option<u64>,
}

impl NotCounted {
    /// Whether the method's figures lack some of their time.
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.throttled_ns.is_some() || self.muted_ns.is_some()
    }
}

/// What a run did not measure, when.
#[derive(Debug, Default)]
pub(crate) struct NotMeasured {
    pub throttled: Throttled,
    pub muted: Muted,
}

/// What one run did not measure, the time that its figures cover, and the selected part of that.
#[derive(Clone, Copy)]
struct OfRun<'r> {
    run: &'r NotMeasured,
    covered: TimeRange,
    selected: TimeRange,
}

/// The times of all runs.
pub(crate) struct NotCountedTimes<'r> {
    runs: Vec<OfRun<'r>>,
    /// In the whole time: of all runs together, and of each.
    whole: Times,
    by_run: Vec<Times>,
}

/// The times in a group.
pub(crate) struct OfGroup<'t> {
    throttled: Cow<'t, Times>,
    /// Its runs that muted something.
    runs: Vec<OfRun<'t>>,
}

impl<'r> NotCountedTimes<'r> {
    pub(crate) fn new(runs: &'r [NotMeasured], selection: &Selection) -> Self {
        let of_run = |(place, run)| OfRun {
            run,
            covered: selection.covered(place),
            selected: selection.range,
        };
        let runs: Vec<OfRun> = runs.iter().enumerate().map(of_run).collect();
        let by_run: Vec<Times> = runs.iter().map(|run| sum([run])).collect();
        Self { whole: sum(&runs), by_run, runs }
    }

    /// The times in a group. If it is a host, `is_of` says whether a run belongs to it.
    pub(crate) fn of(&self, group: Group, is_of: Option<&dyn Fn(usize) -> bool>) -> OfGroup<'_> {
        match (group, is_of) {
            (Group::Run(run) | Group::Thread(run, _), _) => OfGroup::new(
                self.by_run.get(run).map_or_else(Cow::default, Cow::Borrowed),
                self.runs.get(run).copied(),
            ),
            (Group::Named(_), Some(is_of)) => {
                let runs = self.runs.iter().enumerate().filter(|(place, _)| is_of(*place));
                let runs = runs.map(|(_, run)| run);
                OfGroup::new(Cow::Owned(sum(runs.clone())), runs.copied())
            }
            (Group::All | Group::Named(_), _) => {
                OfGroup::new(Cow::Borrowed(&self.whole), self.runs.iter().copied())
            }
            (Group::Hour(hour), _) => self.within(hour.start_unix_ns(), 60 * NS_PER_MINUTE),
            (Group::Minute(minute), _) => {
                self.within(minute.saturating_mul(NS_PER_MINUTE), NS_PER_MINUTE)
            }
        }
    }

    fn within(&self, start_ns: u64, length_ns: u64) -> OfGroup<'_> {
        let part = |range: &TimeRange| range.within(start_ns, start_ns.saturating_add(length_ns));
        let runs = self.runs.iter().map(|of| OfRun {
            run: of.run,
            covered: part(&of.covered),
            selected: part(&of.selected),
        });
        let runs: Vec<OfRun<'_>> = runs.collect();
        let throttled = match self.whole.is_empty() {
            true => Cow::default(),
            false => Cow::Owned(sum(&runs)),
        };
        OfGroup::new(throttled, runs)
    }
}

impl<'t> OfGroup<'t> {
    fn new(throttled: Cow<'t, Times>, runs: impl IntoIterator<Item = OfRun<'t>>) -> Self {
        let has_muted =
            |of: &OfRun<'_>| of.run.muted.in_range(&of.covered, &of.selected).next().is_some();
        Self { throttled, runs: runs.into_iter().filter(has_muted).collect() }
    }

    /// Whether any method was throttled or muted.
    pub(crate) fn has_any(&self) -> bool {
        !self.throttled.is_empty() || !self.runs.is_empty()
    }

    /// How long a method was throttled or muted.
    pub(crate) fn of(&self, method: &Method) -> NotCounted {
        let throttled_ns = match self.throttled.is_empty() {
            true => None,
            false => self.throttled.get(&method.log_name()).copied(),
        };
        let muted_ns = self.runs.iter().filter_map(|OfRun { run, covered, selected }| {
            let Method::Named(name) = method else { return None };
            run.muted.of_method(&name.class, &name.method, covered, selected)
        });
        NotCounted { throttled_ns, muted_ns: muted_ns.reduce(u64::saturating_add) }
    }
}

fn sum<'r>(runs: impl IntoIterator<Item = &'r OfRun<'r>>) -> Times {
    let mut times = Times::new();
    let methods = |of: &'r OfRun| of.run.throttled.in_range(&of.covered, &of.selected);
    for method in runs.into_iter().flat_map(methods) {
        let ns = times.entry(method.name).or_default();
        *ns = ns.saturating_add(method.throttled_ns);
    }
    times
}
