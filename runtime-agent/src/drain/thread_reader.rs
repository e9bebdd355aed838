//! What the agent thread keeps of each thread that the probe knows: how far it has read that thread's data.

use log_format::ids::{JavaThreadId, StackId, ThreadId};
use log_format::rows::{CallRow, Exit, ThreadRow};
use log_format::writer::one_line;

use crate::drain::call_paths::{self, CallPaths};
use crate::drain::exceptions::Exceptions;
use crate::drain::hot_methods::HotMethods;
use crate::drain::interval::Interval;
use crate::drain::run_sums::CallSums;
use crate::drain::sampled_threads::native_name;
use crate::drain::task_requests::{RequestThread, Requests};
use crate::drain::thread_ids::ThreadIds;
use crate::drain::unfinished_calls;
use crate::probe::MAX_PATH_DEPTH;
use crate::probe::method_totals::Reading;
use crate::probe::open_frames;
use crate::probe::ring::{Kind, Record};
use crate::probe::thread::{ProbeThread, ThreadName, ThreadReader};
use crate::sys::clock::{self, Anchors};

/// What the JVM knows about threads.
pub(crate) trait JavaThreads {
    /// The thread's current name; `None` if it has ended.
    fn name(&self, thread: &ProbeThread) -> Option<ThreadName>;
    /// Forgets a thread that has ended.
    fn forget(&self, thread: &ProbeThread);
}

/// What the agent thread keeps of one thread.
pub(crate) struct ThreadReading {
    pub thread: ThreadReader,
    pub id: ThreadId,
    /// The virtual thread that recorded the calls that come next, or 0.
    runs: JavaThreadId,
    /// Last readings of its method statistics, in the order of its entries.
    readings: Vec<Reading>,
    lost: Reading,
    /// What the recorded call that comes next has allocated.
    allocated: Option<u64>,
    /// Says that the call that comes next is in a request.
    in_request: Option<Record>,
    /// Call paths of the frames in its ring, from the outermost.
    path: Vec<StackId>,
    recorded_calls_dropped: u64,
    dropped_in_requests: u64,
    unseen_ends: u64,
    /// Memory of the readings beyond what their entries already account for.
    readings_bytes: usize,
}

impl ThreadReading {
    pub(crate) fn new(thread: ThreadReader, id: ThreadId) -> Self {
        Self {
            thread,
            id,
            runs: JavaThreadId::NONE,
            in_request: None,
            readings: Vec::new(),
            lost: Reading::default(),
            allocated: None,
            path: Vec::new(),
            recorded_calls_dropped: 0,
            dropped_in_requests: 0,
            unseen_ends: 0,
            readings_bytes: 0,
        }
    }

    /// Approximate memory that it uses.
    pub(crate) fn bytes(&self) -> usize {
        self.readings_bytes + self.path.capacity() * size_of::<StackId>()
    }

    /// Names the thread for the log: its current name, or its last one if it has ended.
    pub(crate) fn row(&self, java: &dyn JavaThreads) -> ThreadRow {
        let name = self.thread.last_name().or_else(|| java.name(&self.thread));
        // A carrier that was met with a virtual thread has only the kernel's.
        let name = name.unwrap_or_else(|| native_name(self.thread.os_id));
        let ThreadName { name, java_id } = name;
        ThreadRow {
            id: self.id,
            java_id,
            os_id: self.thread.os_id,
            name: one_line(&name),
            kind: "platform".to_owned(),
        }
    }

    /// Whose requests its next calls belong to.
    pub(crate) fn request_thread(&self) -> RequestThread {
        RequestThread::of(self.thread.runs(), self.id)
    }

    /// Takes what is in its ring: call paths to `paths`, calls in requests of a task to `task_requests`, recorded calls
    /// to `rows`.
    pub(crate) fn take_records(
        &mut self,
        anchors: &Anchors,
        paths: &mut CallPaths,
        ids: &mut ThreadIds,
        requests: &mut Requests,
        rows: &mut Vec<CallRow>,
    ) {
        let Self { thread, id, runs, allocated, in_request, path, .. } = self;
        thread.drain(|record| {
            if record.kind == Kind::Runs {
                *runs = JavaThreadId::new(record.start_ticks);
                ids.runs(*runs);
                return;
            }
            if record.kind == Kind::Allocated {
                *allocated = Some(record.start_ticks);
                return;
            }
            if record.kind == Kind::InRequest {
                *in_request = Some(record);
                return;
            }
            let depth = usize::from(record.depth);
            if record.kind == Kind::Frame {
                path.truncate(depth);
                let parent = if depth == 0 { Some(StackId::NONE) } else { path.last().copied() };
                // A frame whose caller is missing should not occur; its path would be a guess.
                let unknown = path.len() < depth;
                let parent = parent.filter(|_| !unknown).unwrap_or(call_paths::UNKNOWN);
                path.resize(depth, call_paths::UNKNOWN);
                path.push(paths.id(parent, record.method));
                return;
            }
            let stack = path.get(depth).filter(|_| u32::from(record.depth) < MAX_PATH_DEPTH);
            let stack = *stack.unwrap_or(&call_paths::UNKNOWN);
            let call = call_row(&record, ids.of(*runs, *id), stack, anchors);
            if let Some(in_request) = in_request.take() {
                let thread = RequestThread::of(*runs, *id);
                requests.add(thread, &call, in_request.depth == record.depth);
                if in_request.start_ticks > 0 {
                    *allocated = None;
                    return;
                }
            }
            rows.push(CallRow { allocated_bytes: allocated.take(), ..call });
        });
    }

    /// The thread's unfinished calls at `now_ticks`, callees before callers as calls end.
    pub(crate) fn unfinished_calls(
        &self,
        recording: u32,
        now_ticks: u64,
        anchors: &Anchors,
        paths: &mut CallPaths,
        ids: &mut ThreadIds,
    ) -> Vec<CallRow> {
        let frames = open_frames::frames_when_ended(&self.thread, recording);
        if frames.is_empty() {
            return Vec::new();
        }
        let id = ids.of(self.thread.runs(), self.id);
        unfinished_calls::rows(&frames, id, now_ticks, anchors, paths)
    }

    /// Adds the increase of its method statistics since the last reading.
    pub(crate) fn read_totals(
        &mut self,
        interval: &mut Interval,
        hot: &mut HotMethods,
        exceptions: &mut Exceptions,
        sums: &mut CallSums,
    ) {
        if let Some(lost) = self.thread.lost().take_since(&mut self.lost) {
            sums.lost += lost.calls;
        }
        self.readings_bytes = 0;
        for (index, entry) in self.thread.entries().enumerate() {
            if self.readings.len() == index {
                self.readings.push(Reading::default());
            }
            let Some(before) = self.readings.get_mut(index) else { break };
            if let Some(since) = entry.take_since(before) {
                sums.ended += since.calls;
                hot.add(entry.method(), &since);
                interval.add(entry.method(), &since);
                if exceptions.add(entry.method(), &since) {
                    entry.want_example();
                }
            }
            self.readings_bytes += before.bytes_more();
        }
    }

    /// Adds its losses since the last call. Returns how many calls in requests of a task are among them.
    pub(crate) fn add_losses(&mut self, sums: &mut CallSums) -> u64 {
        let in_requests = self.thread.dropped_in_requests();
        let dropped = self.thread.dropped();
        sums.recorded_dropped +=
            dropped - std::mem::replace(&mut self.recorded_calls_dropped, dropped);
        let unseen = self.thread.unseen_ends();
        sums.unseen_ends += unseen - std::mem::replace(&mut self.unseen_ends, unseen);
        in_requests - std::mem::replace(&mut self.dropped_in_requests, in_requests)
    }
}

fn call_row(record: &Record, thread: ThreadId, stack: StackId, anchors: &Anchors) -> CallRow {
    CallRow {
        start_ns: anchors.unix_ns(record.start_ticks),
        thread,
        stack,
        method: record.method,
        total_ns: clock::ticks_to_ns(record.total_ticks),
        self_ns: clock::ticks_to_ns(record.self_ticks),
        exit: if record.kind == Kind::Throw { Exit::Throw } else { Exit::Return },
        allocated_bytes: None,
    }
}
