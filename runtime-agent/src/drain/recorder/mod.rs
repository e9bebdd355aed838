//! The agent thread's work: takes recorded calls and method statistics from the threads, writes them, and carries out
//! control requests. All of it runs on one thread, so nothing here is shared.

mod counters;
mod hot_events;
mod open_tasks;
mod sampled_bytes;
mod sampling;
mod tasks;
mod threshold_changes;

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

use log_format::error::FileError;
use log_format::file_names::Hour;
use log_format::ids::{JavaThreadId, MethodId, OsThreadId, ThreadId};
use log_format::rows::{CallRow, counter};
use rewriter::probe::OFFLINE;

use self::open_tasks::OpenTasks;
use self::sampled_bytes::SampledBytes;
use crate::drain::allocations::Allocations;
use crate::drain::counter_rows::{Written, row};
use crate::drain::events::{Events, Throttling};
use crate::drain::exceptions::Exceptions;
use crate::drain::hot_methods::{HotMethods, Hottest, Recent};
use crate::drain::in_flight::{self, InFlight};
use crate::drain::interval::Interval;
use crate::drain::lock_waits::LockWaits;
use crate::drain::record_limiter::{PendingCalls, Threshold};
use crate::drain::registry::Registry;
use crate::drain::run_clock::{ClockFigures, RunClock};
use crate::drain::run_sums::{CallSums, Sums};
use crate::drain::statements::Statements;
use crate::drain::task_requests::{EndedRequest, RequestThread, Requests};
use crate::drain::thread_reader::{JavaThreads, ThreadReading};
use crate::drain::time_slices::Period;
use crate::drain::traces::Traces;
use crate::drain::unfinished_calls;
use crate::instrument::class_hook::ClassCounts;
use crate::instrument::guards::Rule;
use crate::instrument::methods::Methods;
use crate::instrument::postponed::Postponed;
use crate::instrument::statement_probes;
use crate::jvm::loaders;
use crate::log::LogFigures;
use crate::log::budget::Budget;
use crate::log::run_log::{Now, RunLog};
use crate::probe::mounts;
use crate::probe::open_frames::{self, OpenFrame};
use crate::probe::thread::{self, ThreadReader};
use crate::probe::{self, slowest_calls};
use crate::stderr::message;
use crate::sys::clock;
use crate::sys::memory::{self, Account};

/// Recorded calls of several threads that are gathered before the budget is asked.
const ROWS: usize = 8_192;

/// The agent thread's state.
pub(crate) struct Recorder {
    log: RunLog,
    clock: RunClock,
    class_counts: Arc<ClassCounts>,
    registry: Registry,
    /// Threshold of all methods without one of their own.
    threshold_ns: u64,
    /// The lowest of all thresholds, raised when the budget runs short.
    lowest: Threshold,
    budget: Budget,
    /// Recorded calls that wait for the end of their slice.
    pending: PendingCalls,
    interval: Interval,
    hot: HotMethods,
    events: Events,
    /// When recording began, if it is on.
    recording_since: Option<Now>,
    /// How many methods the user has muted; `None` without patterns.
    muted_methods: Option<u64>,
    /// The kernel's id of the thread that runs this recorder.
    own_os_id: OsThreadId,
    /// Whether the log has the thresholds at the start of the interval.
    are_thresholds_reported: bool,
    written: Written,
    sums: Sums,
    /// Memory used here for threads and calls.
    account: Account,
    is_ceiling_reported: bool,
    sampled: SampledBytes,
    lock_waits: LockWaits,
    allocations: Allocations,
    traces: Traces,
    exceptions: Exceptions,
    statements: Statements,
    requests: Requests,
    /// Requests of a task that wait to be written.
    ended_requests: Vec<EndedRequest>,
    open_tasks: OpenTasks,
}

impl Recorder {
    pub(crate) fn new(
        log: RunLog,
        methods: Arc<Methods>,
        class_counts: Arc<ClassCounts>,
        threshold_ns: u64,
        hour_bytes: Option<u64>,
        java: Box<dyn JavaThreads>,
    ) -> Self {
        probe::set_threshold_ns(threshold_ns);
        let now = Now::read();
        Self {
            log,
            clock: RunClock::new(),
            class_counts,
            registry: Registry::new(methods, java),
            threshold_ns,
            lowest: Threshold::new(probe::lowest_threshold_ns()),
            budget: Budget::new(hour_bytes),
            pending: PendingCalls::default(),
            interval: Interval::first(clock::unix_ns()),
            hot: HotMethods::new(now),
            events: Events::default(),
            recording_since: None,
            muted_methods: None,
            own_os_id: thread::os_id(),
            are_thresholds_reported: false,
            written: Written::default(),
            sums: Sums::default(),
            account: Account::new(),
            is_ceiling_reported: false,
            sampled: SampledBytes::of(Hour::of_unix_ns(0)),
            lock_waits: LockWaits::new(now),
            allocations: Allocations::new(now),
            traces: Traces::begin_run(),
            exceptions: Exceptions::begin_run(now),
            statements: Statements::new(now),
            requests: Requests::default(),
            ended_requests: Vec::new(),
            open_tasks: OpenTasks::default(),
        }
    }

    /// Calls up to now.
    pub(crate) fn calls(&mut self) -> CallSums {
        self.drain(probe::recording());
        self.read_totals();
        CallSums { lost: self.lost_calls(), ..self.sums.calls }
    }

    pub(crate) fn log_figures(&self) -> LogFigures {
        LogFigures {
            folder: self.log.folder().path().display().to_string(),
            bytes_this_hour: self.budget.spent(),
            hour_budget: self.budget.hour_bytes(),
            deleted_hours: self.log.deleted_hours(),
            io_errors: self.log.io_errors,
        }
    }

    /// Corrects the clock; call it about every second. A jump ends the interval of method statistics.
    pub(crate) fn renew_clock(&mut self) {
        if self.clock.renew() {
            self.log.set_clock_jumped();
            self.requests.clock_jumped(clock::unix_ns());
            self.end_interval();
        }
    }

    pub(crate) fn clock_figures(&self) -> ClockFigures {
        self.clock.figures()
    }

    /// Lets the ids of unloaded classes be used again.
    pub(crate) fn forget_loaders(&self) {
        let gone = loaders::take_gone();
        if !gone.is_empty() {
            self.registry.methods.forget_loaders(&gone);
            statement_probes::forget_loaders(&gone);
        }
    }

    /// The methods with the most self time, at most `count`.
    pub(crate) fn top(&mut self, period: Period, count: usize) -> Hottest {
        self.drain(probe::recording());
        self.read_totals();
        let sampled = self.registry.samples.hottest(period, count);
        let events = self.hot_events(period, count);
        Hottest { sampled, events, ..self.hot.hottest(period, count, Now::read()) }
    }

    /// Those of the methods that were called at least so often, at most `count` of them.
    pub(crate) fn called(
        &mut self,
        methods: impl Iterator<Item = MethodId>,
        least_calls: u64,
    ) -> HashSet<MethodId> {
        self.read_totals();
        methods.filter(|id| self.hot.calls(*id) >= least_calls).collect()
    }

    /// What methods did since the last call of this function.
    pub(crate) fn take_recent(&mut self) -> HashMap<MethodId, Recent> {
        self.read_totals();
        self.hot.take_recent()
    }

    /// Adds what the profiler cost of the process's CPU time since the last call.
    pub(crate) fn add_cost(&mut self, cost_ns: u64, cpu_ns: u64, call_ns: u64) {
        self.sums.probe_ns += cost_ns;
        self.sums.cpu_ns += cpu_ns;
        self.sums.probe_call_ns = call_ns;
    }

    /// Logs that methods are throttled from now on.
    pub(crate) fn throttle(&mut self, methods: &[(MethodId, Throttling)]) {
        let rows = self.events.throttle(methods, &self.registry.methods);
        self.log.add_events(&rows);
    }

    /// Logs that throttled methods are unthrottled.
    pub(crate) fn measure_again(&mut self, ids: &[MethodId]) {
        let rows = self.events.unthrottle(ids, &self.registry.methods, clock::unix_ns());
        self.log.add_events(&rows);
    }

    /// Logs which classes are not retransformed for now.
    pub(crate) fn set_postponed(&mut self, postponed: &[Postponed]) {
        let rows = self.events.set_postponed(postponed, clock::unix_ns());
        self.log.add_events(&rows);
    }

    /// Calls in progress, in threads where one has run for at least `least_ns`.
    pub(crate) fn in_flight(&mut self, least_ns: u64) -> InFlight {
        self.meet_threads();
        let Registry { threads, ids, methods, java, .. } = &self.registry;
        let threads = threads.values().map(|known| &*known.thread);
        let name_of = |number: JavaThreadId| {
            ids.name_of(number).map_or_else(String::new, |thread| thread.name.clone())
        };
        in_flight::look(threads, methods, &**java, &name_of, least_ns)
    }

    /// Logs what is muted from now on.
    pub(crate) fn set_muted(&mut self, rules: &[Rule], methods: u64) {
        let now_ns = clock::unix_ns();
        let rows = self.events.set_muted(rules, now_ns);
        self.log.add_events(&rows);
        // The next intervals repeat this row while there are patterns.
        self.log.add_counters(&[row(now_ns, counter::MUTED_METHODS, methods)]);
        self.muted_methods = (!rules.is_empty()).then_some(methods);
    }

    /// Runs one round: takes the threads' recorded calls, writes them, and ends the interval if it is over.
    pub(crate) fn round(&mut self) {
        let now = Now::read();
        self.budget.set_hour(Hour::of_unix_ns(now.unix_ns), now.monotonic_ns);
        self.drain(probe::recording());
        self.end_round_of_requests();
        self.tell_thresholds();
        if self.pending.is_over(now.monotonic_ns) || self.budget.hour_bytes().is_none() {
            self.write_pending(now);
        }
        if self.hot.is_slice_over(now) {
            self.read_totals();
            self.next_slice(now);
        }
        if self.interval.is_over(now.unix_ns) {
            self.end_interval();
        }
        self.flush_log(now, false);
        self.count_memory();
    }

    /// Counts the memory used here, and reports once if none is left for others.
    fn count_memory(&mut self) {
        let bytes = self.registry.bytes()
            + self.pending.bytes()
            + self.lock_waits.bytes()
            + self.allocations.hot.bytes()
            + self.exceptions.hot.bytes()
            + self.statements.bytes()
            + self.requests.bytes();
        self.account.set(bytes);
        if !self.is_ceiling_reported && memory::take_refusal() {
            self.is_ceiling_reported = true;
            let (used, max) = memory::used_and_max();
            message!(
                "no more memory for profiling ({used} of {max} bytes in use, option max_memory): \
                 calls of new threads are counted as lost; see tprofiler status"
            );
        }
    }

    fn flush_log(&mut self, now: Now, sync: bool) {
        let skipped = self.class_counts.take_not_instrumented();
        self.log.add_events(&Events::not_instrumented(skipped, now.unix_ns));
        let rows = self.events.repeated(self.log.begun(), &self.registry.methods, now.unix_ns);
        self.log.add_events(&rows);
        self.repeat_tasks();
        self.budget.spend(self.log.take_added());
        self.log.flush(now, sync, &self.registry);
    }

    /// Writes the recorded calls of a slice, as far as the budget allows.
    fn write_pending(&mut self, now: Now) {
        let before = self.raised_to_ns();
        let allowance = self.budget.allowance(now.monotonic_ns);
        let (rows, cut) = self.pending.end(
            allowance,
            &mut self.lowest,
            slowest_calls::is_slower,
            now.monotonic_ns,
        );
        for row in &rows {
            self.pending.is_written(row);
            slowest_calls::keep(row.method, row.total_ns);
        }
        self.name_held();
        self.sums.calls.recorded_over_budget += cut;
        self.write_calls(&rows);
        self.registry.ids.limit();
        self.registry.ended.clear();
        self.raised_since(before);
    }

    /// Begins recording. Time before that, spent looking at stacks for an attach, is not recorded time.
    pub(crate) fn begin_recording(&mut self) {
        let now = Now::read();
        if !self.are_thresholds_reported && self.interval.is_untouched() {
            self.interval = Interval::first(now.unix_ns);
            self.begin_hot(now);
        }
        self.recording_since = Some(now);
    }

    /// Writes everything, method statistics included, and waits for the disk.
    ///
    /// # Errors
    /// The disk does not accept it now.
    pub(crate) fn flush(&mut self) -> Result<(), FileError> {
        self.write_all(false)
    }

    /// Does the same at the end of a run.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub(crate) fn finish(&mut self) -> Result<(), FileError> {
        self.write_all(true)
    }

    fn write_all(&mut self, is_end: bool) -> Result<(), FileError> {
        // A run may be over before the clock is corrected.
        self.renew_clock();
        let now = Now::read();
        self.drain(probe::recording());
        self.write_pending(now);
        self.end_interval();
        if is_end {
            // An interval with no other rows begins here, which shows how long the last one was.
            self.tell_thresholds();
        }
        self.flush_log(now, true);
        self.log.failure().cloned().map_or(Ok(()), Err)
    }

    /// Writes what is left, closes the files and forgets all threads. After this, the recorder may only be dropped.
    pub(crate) fn close(&mut self) {
        // A failure has been reported already.
        let _ = self.finish();
        self.log.close();
        self.registry.threads.clear();
    }

    /// Adds the calls that were unfinished when a recording ended, at `now_ticks`.
    pub(crate) fn end_recording(&mut self, recording: u32, now_ticks: u64) {
        if let Some(since) = self.recording_since.take() {
            self.sums.recorded_ns += Now::read().since(since);
        }
        self.drain(recording);
        let mut rows = Vec::new();
        let threads = std::mem::take(&mut self.registry.threads);
        for known in threads.values() {
            let Self { registry: Registry { ids, paths, .. }, clock, .. } = self;
            let open = known.unfinished_calls(recording, now_ticks, &clock.anchors, paths, ids);
            self.requests.add_unfinished(known.request_thread(), &open);
            self.gather_open(open, &mut rows);
        }
        self.registry.threads = threads;
        mounts::for_each(|number, saved| {
            if saved.recording() == recording {
                let Self { registry: Registry { ids, paths, .. }, clock, .. } = self;
                let id = ids.of(number, ThreadId::NONE);
                let frames = open_frames::without_dropped(OpenFrame::all_of(saved));
                let open = unfinished_calls::rows(&frames, id, now_ticks, &clock.anchors, paths);
                self.requests.add_unfinished(RequestThread::Virtual(number), &open);
                self.gather_open(open, &mut rows);
            }
        });
        self.add_pending(rows);
        self.name_held();
    }

    /// Adds unfinished calls to `rows`. Moves many of them to the pending ones: 100,000 virtual threads may be parked.
    fn gather_open(&mut self, open: Vec<CallRow>, rows: &mut Vec<CallRow>) {
        rows.extend(open.into_iter().filter(unfinished_calls::is_over_threshold));
        if rows.len() >= ROWS {
            self.add_pending(std::mem::take(rows));
        }
    }

    fn add_pending(&mut self, mut rows: Vec<CallRow>) {
        // Methods that the `rewrite` command instrumented have no names.
        rows.retain(|row| row.method.get() < OFFLINE);
        for row in &rows {
            self.hot.add_slow(row.method, row.total_ns);
        }
        let before = self.raised_to_ns();
        let allowance = self.budget.allowance(clock::monotonic_ns());
        self.sums.calls.recorded_over_budget +=
            self.pending.add(rows, allowance, &mut self.lowest, slowest_calls::is_slower);
        self.raised_since(before);
    }

    /// Adds the names of held calls to the log while the names are still known.
    fn name_held(&mut self) {
        let held = self.pending.take_newly_held();
        for row in &held {
            slowest_calls::keep(row.method, row.total_ns);
        }
        self.log.name_calls(&held, &self.registry);
    }

    /// Writes the slowest dropped call of each method.
    fn write_held(&mut self) {
        let held = self.pending.take_held();
        let over_budget = &mut self.sums.calls.recorded_over_budget;
        *over_budget = over_budget.saturating_sub(held.len() as u64);
        self.write_calls(&held);
    }

    fn write_calls(&mut self, rows: &[CallRow]) {
        self.sums.calls.recorded += rows.len() as u64;
        self.log.add_calls(rows, &self.registry);
    }

    /// Takes the recorded calls of all threads. Takes everything from threads that have ended, their unfinished calls
    /// of `recording` included.
    fn drain(&mut self, recording: u32) {
        self.meet_threads();
        let mut rows = Vec::new();
        let mut ended = Vec::new();
        let mut threads = std::mem::take(&mut self.registry.threads);
        for (key, known) in &mut threads {
            let Self {
                registry: Registry { ids, paths, .. },
                clock: RunClock { anchors, .. },
                sums,
                requests,
                ..
            } = self;
            // Read this first: everything that an ended thread recorded is then in its ring.
            let has_ended = known.thread.has_ended();
            known.take_records(anchors, paths, ids, requests, &mut rows);
            if has_ended {
                ended.push(*key);
                // The thread that calls System.exit ends in the middle of its calls.
                let open = known.unfinished_calls(recording, clock::ticks(), anchors, paths, ids);
                requests.add_unfinished(known.request_thread(), &open);
                rows.extend(open.into_iter().filter(unfinished_calls::is_over_threshold));
            }
            let dropped = known.add_losses(&mut sums.calls);
            requests.add_dropped(known.request_thread(), dropped);
            if rows.len() >= ROWS {
                self.add_pending(std::mem::take(&mut rows));
            }
        }
        self.registry.threads = threads;
        self.add_pending(rows);
        self.name_held();
        self.name_requests();
        for key in ended {
            if let Some(known) = self.registry.threads.get_mut(&key) {
                let Self { interval, hot, exceptions, sums, .. } = self;
                known.read_totals(interval, hot, exceptions, &mut sums.calls);
                let row = known.row(&*self.registry.java);
                self.registry.samples.ended(&row);
                self.registry.ended.insert(known.id, row);
                // Another thread may have the number by now.
                let by_os_id = &mut self.registry.by_os_id;
                if by_os_id.get(&known.thread.os_id) == Some(&known.id) {
                    by_os_id.remove(&known.thread.os_id);
                }
                thread::forget(&known.thread);
                self.registry.java.forget(&known.thread);
                self.registry.threads.remove(&key);
            }
        }
    }

    fn meet_threads(&mut self) {
        let known_so_far = thread::known_so_far();
        if known_so_far == self.registry.threads_met {
            return;
        }
        thread::make_room_in_list();
        let mut has_met_all = true;
        // The agent thread's own calls only measure what a call costs.
        let Registry { threads, ids, samples, by_os_id, .. } = &mut self.registry;
        for thread in thread::all().into_iter().filter(|thread| thread.os_id != self.own_os_id) {
            if let Entry::Vacant(place) = threads.entry(thread.address()) {
                let Some(reader) = ThreadReader::of(thread) else {
                    has_met_all = false;
                    continue;
                };
                let seen = samples.threads_mut().take_id(reader.os_id, reader.java_id());
                let id = seen.unwrap_or_else(|| ids.next());
                by_os_id.insert(reader.os_id, id);
                place.insert(ThreadReading::new(reader, id));
            }
        }
        if has_met_all {
            self.registry.threads_met = known_so_far;
        }
    }

    fn read_totals(&mut self) {
        let Self { registry, interval, hot, exceptions, sums, .. } = self;
        for known in registry.threads.values_mut() {
            known.read_totals(interval, hot, exceptions, &mut sums.calls);
        }
    }

    fn end_interval(&mut self) {
        self.read_totals();
        self.tell_thresholds();
        self.are_thresholds_reported = false;
        self.budget.spend(self.log.take_added());
        let now_ns = clock::unix_ns();
        let minutes = self.interval.minutes;
        let interval = std::mem::replace(&mut self.interval, Interval::begin(now_ns, minutes));
        self.write_held();
        // The counters are those of the rows.
        self.statements.collect(&mut self.registry.statements);
        let counters = self.counters(interval.start_ns);
        for rows in interval.rows() {
            self.log.add_stats(&rows, &self.registry);
        }
        let waits = self.lock_waits.take_rows(interval.start_ns);
        self.log.add_locks(&waits, &self.registry);
        let exceptions = self.exceptions.take_rows(interval.start_ns);
        self.log.add_exceptions(&exceptions, &self.registry);
        let Self { statements, registry, .. } = self;
        let executions = statements.take_rows(interval.start_ns, &mut registry.statements);
        self.log.add_sql(&executions, &self.registry);
        self.log.add_counters(&counters);
        let bytes = self.log.take_added();
        self.budget.spend(bytes);
        let minutes =
            self.budget.next_interval(interval.minutes, bytes, interval.was_whole(now_ns));
        self.interval = Interval::begin(now_ns, minutes);
        slowest_calls::forget();
    }
}
