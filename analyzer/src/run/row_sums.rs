//! Sums up rows as they are read. Each thread has its own [`RowSums`], which can be merged in any order with the same
//! result. All threads share a [`Scope`], which selects the rows.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use log_format::ids::{MethodId, StackId, ThreadId};
use log_format::rows::{CallRow, Exit, StatsRow};

use crate::input::parallel::RowWorker;
use crate::options::time_range::TimeRange;
use crate::run::names::Names;
use crate::run::read_counts::Counts;
use crate::run::recorded_time::RecordedTime;
use crate::run::selection::Selection;
use crate::run::unfinished_calls::UnfinishedKeys;
use crate::stats::aggregate::{Figures, Group, Totals};
use crate::stats::allocated_calls::AllocatedSums;
use crate::stats::by_minute::Minutes;
use crate::stats::call_tree::PathSums;
use crate::stats::id_map::MAX_DENSE_ID;
use crate::stats::method::PathKind;
use crate::stats::sketch::Sketches;
use crate::stats::slow_calls::SlowestByThread;

/// Figures that all threads together keep before they add them to the common sums.
const FIGURES_KEPT: usize = 1 << 19;

/// How many figures take as much memory as a sketch.
const FIGURES_OF_SKETCH: usize = 4;

/// Whether a row counts, and for which group.
pub struct Scope<'s> {
    /// The run's names.
    pub names: &'s Names,
    /// The run's index in the list of runs.
    pub place: usize,
    /// What was selected.
    pub selection: &'s Selection,
    /// The range in which the selected intervals of the run's statistics begin.
    pub statistics: TimeRange,
    /// Ids of the selected methods; `None` selects all.
    selected: Option<HashSet<MethodId>>,
    /// Ids of the selected threads; `None` selects all.
    threads: Option<HashSet<ThreadId>>,
    /// Ids of methods that were throttled or muted for part of the time.
    partial: HashSet<MethodId>,
    /// Calls that ended later are in no method statistics.
    statistics_end_ns: u64,
    /// By method id.
    methods: Vec<MethodScope>,
    /// By call path, for a call of the method that it ends in: [`PathKind`] as a number from 1 on, and the method
    /// above. 0 if not looked up yet.
    path_kinds: Vec<AtomicU32>,
}

/// What the sums need to know about a method.
#[derive(Clone, Copy)]
struct MethodScope {
    has_name: bool,
    is_selected: bool,
}

impl<'s> Scope<'s> {
    /// What is selected of a run.
    pub fn new(names: &'s Names, place: usize, selection: &'s Selection) -> Self {
        let threads = selection.calls.thread.as_ref();
        let mut scope = Self {
            names,
            place,
            selection,
            statistics: selection.statistics_of(place),
            selected: selection.method.as_ref().map(|pattern| names.ids_named_by(pattern)),
            threads: threads.map(|pattern| names.threads_named_by(pattern)),
            partial: HashSet::new(),
            statistics_end_ns: u64::MAX,
            methods: Vec::new(),
            path_kinds: Vec::new(),
        };
        let methods = 0..=names.last_method().get().min(MAX_DENSE_ID);
        scope.methods = methods.map(|id| scope.look_up(MethodId::new(id))).collect();
        if selection.counts_records() {
            let stacks = 0..=names.last_stack().get().min(MAX_DENSE_ID);
            scope.path_kinds.resize_with(stacks.count(), AtomicU32::default);
        }
        scope
    }

    /// Excludes methods from the sums by minute.
    pub fn set_partial(&mut self, partial: HashSet<MethodId>) {
        self.partial = partial;
    }

    /// Leaves recorded calls that ended later out of percentiles, where method statistics count calls.
    pub fn end_statistics(&mut self, at_ns: u64) {
        self.statistics_end_ns = at_ns;
    }

    /// The selected methods that are missing from the sums by minute.
    pub fn partial(&self) -> impl Iterator<Item = MethodId> {
        self.partial.iter().copied().filter(|id| self.is_selected(*id))
    }

    /// Whether a method is in the sums by minute.
    #[inline]
    fn is_in_minutes(&self, method: MethodId) -> bool {
        self.selection.overview && (self.partial.is_empty() || !self.partial.contains(&method))
    }

    /// Whether a method is selected by pattern and the run has none that matches.
    pub fn selects_none(&self) -> bool {
        self.selected.as_ref().is_some_and(HashSet::is_empty)
    }

    fn look_up(&self, method: MethodId) -> MethodScope {
        MethodScope {
            has_name: self.names.method(method).is_some(),
            is_selected: self.selected.as_ref().is_none_or(|ids| ids.contains(&method)),
        }
    }

    /// Whether a method is selected.
    pub fn is_selected(&self, method: MethodId) -> bool {
        self.method(method).is_selected
    }

    #[inline]
    fn method(&self, id: MethodId) -> MethodScope {
        self.methods.get(id.index()).copied().unwrap_or_else(|| self.look_up(id))
    }

    /// Whether the call filter takes this call.
    pub fn takes(&self, row: &CallRow) -> bool {
        self.selection.calls.takes(row)
            && self.threads.as_ref().is_none_or(|ids| ids.contains(&row.thread))
    }

    #[inline]
    fn path_kind(&self, stack: StackId, method: MethodId) -> PathKind {
        let slot = self.path_kinds.get(stack.index());
        let Some(slot) = slot.filter(|_| method.get() <= MAX_DENSE_ID) else {
            return self.names.path_kind(stack, method);
        };
        let known = slot.load(Ordering::Relaxed);
        if known >> 2 == method.get() {
            match known & 3 {
                1 => return PathKind::Outermost,
                2 => return PathKind::Recursive,
                3 => return PathKind::Unknown,
                _ => {}
            }
        }
        let kind = self.names.path_kind(stack, method);
        let number = match kind {
            PathKind::Outermost => 1,
            PathKind::Recursive => 2,
            PathKind::Unknown => 3,
        };
        slot.store(method.get() << 2 | number, Ordering::Relaxed);
        kind
    }
}

/// Sums of rows, and counts of them. Everything collected from rows is added here: in `add_record` or `add_stats`,
/// and in `merge`.
#[derive(Default)]
pub struct RowSums {
    /// Sums of the selected calls.
    pub totals: Totals<MethodId>,
    current: CurrentGroup,
    /// Durations of the selected calls, for reports that need them.
    pub sketches: Sketches,
    /// Sums of the selected calls by call path.
    pub paths: PathSums,
    /// Sums of the selected calls by minute.
    pub minutes: Minutes,
    /// The slowest of the selected calls.
    pub slowest: SlowestByThread,
    /// What the selected recorded calls allocated.
    pub allocated: AllocatedSums,
    /// Methods without a name.
    pub unknown_methods: HashSet<MethodId>,
    /// What was read.
    pub counts: Counts,
    /// When the run recorded.
    pub recorded: RecordedTime,
}

impl RowSums {
    /// Adds method statistics of an interval.
    pub fn add_stats(&mut self, row: &StatsRow, scope: &Scope) {
        self.recorded.add_stats(row.start_ns);
        self.counts.stats_rows = self.counts.stats_rows.saturating_add(1);
        if scope.selection.counts_records() || !scope.statistics.contains(row.start_ns) {
            return;
        }
        self.counts.rows_in_range = self.counts.rows_in_range.saturating_add(1);
        if self.selects(row.method, scope) {
            self.of(scope.selection.group(scope.place, row.start_ns, ThreadId::NONE), row.method)
                .add_stats(row);
            if scope.is_in_minutes(row.method) {
                self.minutes.add_stats(row);
            }
        }
    }

    /// Adds a recorded call, if it has ended. Returns whether it may be one that is unfinished before or after: then
    /// its place among the rows counts.
    #[inline]
    pub fn add_record(
        &mut self,
        row: &CallRow,
        scope: &Scope,
        unfinished: &UnfinishedKeys,
    ) -> bool {
        self.counts.records = self.counts.records.saturating_add(1);
        let end_ns = row.start_ns.saturating_add(row.total_ns);
        // What is unfinished says nothing of the last statistics: nothing may have been called since.
        if row.exit != Exit::Unfinished {
            self.counts.last_call_ns = self.counts.last_call_ns.max(Some(end_ns));
        }
        if !scope.selection.range.contains(end_ns) {
            return false;
        }
        let selection = scope.selection;
        let is_used = selection.counts_records() || selection.allocated || selection.sketches;
        if row.exit != Exit::Unfinished && is_used {
            self.add_ended(row, end_ns, scope);
        }
        unfinished.is_ordered(row)
    }

    fn add_ended(&mut self, row: &CallRow, end_ns: u64, scope: &Scope) {
        let selection = scope.selection;
        let is_counted = selection.counts_records();
        if is_counted {
            self.counts.rows_in_range = self.counts.rows_in_range.saturating_add(1);
        }
        if !scope.takes(row) {
            return;
        }
        if selection.stacks || selection.overview {
            self.paths.add(row);
        }
        if !self.selects(row.method, scope) {
            return;
        }
        if selection.allocated {
            self.allocated.add(row);
        }
        if selection.overview {
            self.slowest.add(row);
        }
        if scope.is_in_minutes(row.method) {
            self.minutes.add_record(row, is_counted);
        }
        if !is_counted {
            if selection.sketches && end_ns < scope.statistics_end_ns {
                self.sketches.add(row.method, row.total_ns);
            }
            return;
        }
        let path = scope.path_kind(row.stack, row.method);
        if path == PathKind::Unknown {
            self.counts.records_without_path = self.counts.records_without_path.saturating_add(1);
        }
        let is_sketched = selection.sketches && self.sketches.add(row.method, row.total_ns);
        let figures = self.of(scope.selection.group(scope.place, end_ns, row.thread), row.method);
        if is_sketched {
            figures.add_sums(row, path);
        } else {
            figures.add_record(row, path);
        }
    }

    /// The figures of a method in a group.
    #[inline]
    fn of(&mut self, group: Group, method: MethodId) -> &mut Figures {
        // Threads alternate from row to row; all other groups stay for long.
        if method.get() > MAX_DENSE_ID || matches!(group, Group::Thread(..)) {
            return self.totals.of(group, &method);
        }
        if self.current.group != Some(group) {
            self.settle();
            self.current.group = Some(group);
        }
        match self.current.of(method) {
            Some(figures) => figures,
            None => self.totals.of(group, &method),
        }
    }

    /// Adds the figures of the current group to the others.
    fn settle(&mut self) {
        if let Some(group) = self.current.group.take() {
            for (method, figures) in self.current.drain() {
                self.totals.add(group, &method, figures);
            }
        }
    }

    /// How much memory these sums take, counted in figures.
    fn len(&self) -> usize {
        let figures = self.totals.len() + self.current.figures.len();
        let sketches = self.sketches.len() * FIGURES_OF_SKETCH;
        figures + sketches + self.paths.len() + self.slowest.count()
    }

    /// Whether a method is selected. One without a name is counted.
    #[inline]
    pub fn selects(&mut self, method: MethodId, scope: &Scope) -> bool {
        let MethodScope { has_name, is_selected } = scope.method(method);
        if !has_name {
            self.unknown_methods.insert(method);
        }
        is_selected
    }

    /// Adds all rows of `other`.
    pub fn merge(&mut self, mut other: Self) {
        other.settle();
        self.totals.merge(other.totals);
        self.sketches.merge(other.sketches);
        self.paths.merge(other.paths);
        self.minutes.merge(other.minutes);
        self.slowest.merge(other.slowest);
        self.allocated.merge(other.allocated);
        self.unknown_methods.extend(other.unknown_methods);
        self.counts.merge(&other.counts);
        self.recorded.merge(&other.recorded);
    }
}

/// The figures of one group, for rows in a row of the same group.
#[derive(Default)]
struct CurrentGroup {
    group: Option<Group>,
    /// By method id, the index in `figures`, from 1 on.
    places: Vec<u32>,
    figures: Vec<(MethodId, Figures)>,
}

impl CurrentGroup {
    #[inline]
    fn of(&mut self, method: MethodId) -> Option<&mut Figures> {
        let index = method.index();
        if self.places.len() <= index {
            self.places.resize(index + 1, 0);
        }
        let place = self.places.get_mut(index)?;
        if *place == 0 {
            self.figures.push((method, Figures::default()));
            *place = u32::try_from(self.figures.len()).ok()?;
        }
        let (_, figures) = self.figures.get_mut(usize::try_from(*place - 1).ok()?)?;
        Some(figures)
    }

    fn drain(&mut self) -> impl Iterator<Item = (MethodId, Figures)> {
        for (method, _) in &self.figures {
            if let Some(place) = self.places.get_mut(method.index()) {
                *place = 0;
            }
        }
        self.figures.drain(..)
    }
}

/// The sums of a thread.
pub struct Worker<'r> {
    scope: &'r Scope<'r>,
    sums: RowSums,
    /// The sums of all threads.
    all: &'r Mutex<RowSums>,
    /// Most figures that this thread keeps for itself.
    max_figures: usize,
}

impl<'r> Worker<'r> {
    /// One of `workers` workers.
    pub fn new(scope: &'r Scope<'r>, all: &'r Mutex<RowSums>, workers: usize) -> Self {
        let max_figures = FIGURES_KEPT / workers.max(1);
        Self { scope, sums: RowSums::default(), all, max_figures }
    }

    /// Called at the end of a file: the next one has other hours, so these sums may not be needed again.
    pub fn end_file(&mut self) {
        let sums = std::mem::take(&mut self.sums);
        self.all.lock().unwrap_or_else(PoisonError::into_inner).merge(sums);
    }

    fn relieve(&mut self) {
        if self.sums.len() > self.max_figures {
            self.end_file();
        }
    }
}

impl RowWorker<CallRow, UnfinishedKeys> for Worker<'_> {
    #[inline]
    fn add(&mut self, row: &CallRow, unfinished: &UnfinishedKeys) -> bool {
        self.sums.add_record(row, self.scope, unfinished)
    }

    fn end_block(&mut self) {
        self.relieve();
    }
}

impl RowWorker<StatsRow, ()> for Worker<'_> {
    fn add(&mut self, row: &StatsRow, (): &()) -> bool {
        self.sums.add_stats(row, self.scope);
        false
    }

    fn end_block(&mut self) {
        self.relieve();
    }
}
