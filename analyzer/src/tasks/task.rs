//! What the log says of a task. Times are nanoseconds, moments unix nanoseconds.

use log_format::ids::{MethodId, StackId, ThreadId};
use log_format::rows::{Exit, TaskRow, TaskState};

/// A profile task, as of its newest row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its id, unique in the run.
    pub id: String,
    /// Its state.
    pub state: TaskState,
    /// When it came into this state.
    pub at_ns: u64,
    /// When it began to record, if it did.
    pub running_since_ns: Option<u64>,
    /// Name of the endpoint.
    pub endpoint: String,
    /// Patterns of the endpoint's methods, separated by commas.
    pub methods: String,
    /// When it begins.
    pub start_ns: u64,
    /// How long it records.
    pub duration_ns: u64,
    /// How long a request must take.
    pub min_duration_ns: u64,
    /// Time between two snapshots of a request.
    pub dump_period_ns: u64,
    /// How many requests it records at most.
    pub max_samples: u32,
    /// How many it has recorded, by its newest row.
    pub recorded: u32,
    /// Why it is in this state, and what it could not record; else empty.
    pub reason: String,
    /// Its requests, by number.
    pub requests: Vec<Request>,
}

impl Task {
    pub(super) fn new(row: TaskRow) -> Self {
        Self {
            id: row.task,
            state: row.state,
            at_ns: row.at_ns,
            running_since_ns: (row.state == TaskState::Running).then_some(row.at_ns),
            endpoint: row.endpoint,
            methods: row.methods,
            start_ns: row.start_ns,
            duration_ns: row.duration_ns,
            min_duration_ns: row.min_duration_ns,
            dump_period_ns: row.dump_period_ns,
            max_samples: row.max_samples,
            recorded: row.requests,
            reason: row.reason,
            requests: Vec::new(),
        }
    }

    /// Takes a row over if its state is not an earlier one. A repeated row has the time of the first.
    pub(super) fn update(&mut self, row: TaskRow) {
        let newer = Self::new(row);
        let running_since_ns = self.running_since_ns.or(newer.running_since_ns);
        // Its states only follow each other, whatever the clock did.
        if rank(newer.state) >= rank(self.state) {
            let requests = std::mem::take(&mut self.requests);
            *self = Self { requests, ..newer };
        }
        self.running_since_ns = running_since_ns;
    }

    /// Whether shorter calls of a request than usual have no rows, because there were too many. Usually, all have rows
    /// that take a hundredth of the dump period, and 100 us.
    #[must_use]
    pub fn lacks_short_calls(&self, request: &Request) -> bool {
        request.least_call_ns > (self.dump_period_ns / 100).max(100_000)
    }

    /// Whether it has ended, so that no more requests come.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state, TaskState::Finished | TaskState::Rejected)
    }
}

const fn rank(state: TaskState) -> u8 {
    match state {
        TaskState::Notified => 0,
        TaskState::Running => 1,
        TaskState::Finished | TaskState::Rejected => 2,
    }
}

/// A recorded request: an outermost call of the task's endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number in the task, from 1.
    pub number: u32,
    /// When it began.
    pub start_ns: u64,
    /// Its thread.
    pub thread: ThreadId,
    /// Its call path, which ends in the endpoint.
    pub stack: StackId,
    /// How long it took.
    pub total_ns: u64,
    /// How it ended.
    pub exit: Exit,
    /// Rows that it has in `task_calls.csv`.
    pub calls_written: u32,
    /// How many of them were read; 0 in a list of tasks.
    pub calls_read: u32,
    /// Calls that have no row.
    pub calls_dropped: u64,
    /// Shorter calls have no rows, and are not counted as dropped.
    pub least_call_ns: u64,
    /// Its calls in the order of their ends, callees before callers, itself last; empty in a list of tasks.
    pub calls: Vec<Call>,
}

impl Request {
    /// Whether all of its calls were read. If not, the log is still being written, or it is damaged.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.calls_read >= self.calls_written
    }

    /// When it ended.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.total_ns)
    }
}

/// A call in a request, or the request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it began.
    pub start_ns: u64,
    /// How long it took.
    pub total_ns: u64,
    /// The same without its callees.
    pub self_ns: u64,
    /// How it ended.
    pub exit: Exit,
    /// Its call path, which ends in the call.
    pub stack: StackId,
    /// Its method.
    pub method: MethodId,
}
