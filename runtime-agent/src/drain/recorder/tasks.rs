//! Holds back the calls of a profile task's requests, and writes them.

use std::collections::{HashMap, HashSet};

use log_format::file_names::Hour;
use log_format::ids::ThreadId;
use log_format::rows::{CallRow, TaskCallRow, TaskRequestRow, TaskRow};

use super::Recorder;
use crate::drain::in_flight;
use crate::drain::task_requests::{EndedRequest, RequestThread, Wanted, keep_longest};
use crate::drain::unfinished_calls;
use crate::probe::open_frames::OpenFrame;
use crate::probe::{self, task_requests};
use crate::sys::clock;

/// Bytes of a row of task_calls.csv with a typical task id.
const ROW_BYTES: u64 = 100;

impl Recorder {
    /// Begins to record the requests that are wanted, of those that begin from now on.
    pub(crate) fn begin_requests(&mut self, wanted: Wanted) {
        // Before the clock is read, so that no request has calls from before it.
        probe::set_least_in_requests_ns(wanted.least_call_ns);
        self.requests.begin(wanted, clock::unix_ns());
    }

    /// Calls in requests that were lost with their request.
    pub(crate) fn lost_in_requests(&self) -> u64 {
        self.requests.lost()
    }

    /// From which duration on calls in requests are recorded now.
    pub(crate) fn least_call_ns(&self) -> Option<u64> {
        Some(self.requests.wanted()?.least_call_ns)
    }

    /// Takes the requests that have ended by this round. If threads had too many calls, only longer ones are recorded
    /// from now on.
    pub(super) fn end_round_of_requests(&mut self) {
        self.ended_requests.extend(self.requests.end_round(false));
        if let Some(ns) = self.requests.raise_least_call(clock::unix_ns()) {
            probe::set_least_in_requests_ns(ns);
        }
    }

    /// Records no more requests, and returns those that have ended or are in progress.
    pub(crate) fn end_requests(&mut self) -> Vec<EndedRequest> {
        // First the stacks: a request that ends meanwhile is then in a ring.
        let open = if probe::is_recording() { self.unfinished_requests() } else { Vec::new() };
        self.drain(probe::recording());
        for (thread, calls) in open {
            self.requests.add_unfinished(thread, &calls);
        }
        probe::set_least_in_requests_ns(u64::MAX);
        let mut ended = std::mem::take(&mut self.ended_requests);
        ended.extend(self.requests.end_round(true));
        self.requests.end();
        ended
    }

    /// Takes the requests that have ended and were long enough.
    pub(crate) fn take_requests(&mut self) -> Vec<EndedRequest> {
        std::mem::take(&mut self.ended_requests)
    }

    /// The calls in progress in requests, by what their threads' stacks are now.
    fn unfinished_requests(&mut self) -> Vec<(RequestThread, Vec<CallRow>)> {
        self.meet_threads();
        let recording = probe::recording();
        let now_ticks = clock::ticks();
        let Self { registry, clock, .. } = self;
        let mut unfinished = Vec::new();
        let known: Vec<_> =
            registry.threads.values().map(|known| (&*known.thread, known.id)).collect();
        let id_of: HashMap<usize, ThreadId> =
            known.iter().map(|(thread, id)| (thread.address(), *id)).collect();
        let (ids, paths) = (&mut registry.ids, &mut registry.paths);
        in_flight::each_thread(known.iter().map(|(thread, _)| *thread), recording, |seen| {
            let is_in_request = |frame: &OpenFrame| task_requests::is_endpoint(frame.method);
            if !seen.frames.iter().any(is_in_request) {
                return;
            }
            let own = seen.thread.and_then(|thread| id_of.get(&thread.address()).copied());
            let own = own.unwrap_or(ThreadId::NONE);
            let thread = RequestThread::of(seen.number, own);
            let id = ids.of(seen.number, own);
            let open = unfinished_calls::rows(&seen.frames, id, now_ticks, &clock.anchors, paths);
            unfinished.push((thread, open));
        });
        unfinished
    }

    /// Writes a request of a task, as far as the hour's budget allows.
    pub(crate) fn write_request(&mut self, task: &str, number: u32, request: EndedRequest) {
        let EndedRequest { call, mut calls, mut dropped, least_call_ns } = request;
        let hour = Hour::of_unix_ns(clock::unix_ns());
        if self.open_tasks.bytes.0 != hour {
            self.open_tasks.bytes = (hour, 0);
        }
        let room = self.part_of_others().saturating_sub(self.open_tasks.bytes.1) / ROW_BYTES;
        let most = usize::try_from(room).unwrap_or(usize::MAX).max(1);
        dropped += keep_longest(&mut calls, most) as u64;
        let rows: Vec<TaskCallRow> =
            calls.iter().map(|call| call_row(task, number, call)).collect();
        let row = TaskRequestRow {
            start_ns: call.start_ns,
            task: task.to_owned(),
            request: number,
            thread: call.thread,
            stack: call.stack,
            total_ns: call.total_ns,
            exit: call.exit,
            calls: u32::try_from(rows.len()).unwrap_or(u32::MAX),
            calls_dropped: dropped,
            least_call_ns,
        };
        self.open_tasks.bytes.1 += self.log.add_request(&row, &rows, &self.registry);
    }

    /// Writes a change of a task's state. `open` are the tasks that have not ended.
    pub(crate) fn tell_task(&mut self, row: TaskRow, open: Vec<TaskRow>) {
        self.open_tasks.rows = open;
        self.log.add_now(&[row]);
    }

    /// Repeats the tasks that have not ended, if files were begun.
    pub(super) fn repeat_tasks(&mut self) {
        let begun = self.log.begun();
        if std::mem::replace(&mut self.open_tasks.begun, begun) != begun {
            self.log.add_now(&self.open_tasks.rows);
        }
    }

    /// Names the threads of requests that ended in this round, while they are known.
    pub(super) fn name_requests(&mut self) {
        let Self { log, registry, requests, .. } = self;
        let threads: HashSet<_> = requests
            .ended_now()
            .map(|call| {
                (Hour::of_unix_ns(call.start_ns.saturating_add(call.total_ns)), call.thread)
            })
            .collect();
        for (hour, thread) in threads {
            log.name_thread(hour, thread, registry);
        }
    }
}

fn call_row(task: &str, request: u32, call: &CallRow) -> TaskCallRow {
    TaskCallRow {
        start_ns: call.start_ns,
        task: task.to_owned(),
        request,
        stack: call.stack,
        method: call.method,
        total_ns: call.total_ns,
        self_ns: call.self_ns,
        exit: call.exit,
    }
}
