//! Rows with a sampled stack: when they ended, and what names they need.

use log_format::ids::{SampledStackId, StackId, StatementId, ThreadId};
use log_format::rows::{
    AllocationRow, ExceptionExampleRow, LockWaitRow, Row, SampleRow, SlowSqlRow, TraceRow,
};

/// See the module.
pub(crate) trait SampledRow: Row {
    /// When it began, and how long it took.
    fn time(&self) -> (u64, u64);
    /// The SQL statement in it.
    fn statement(&self) -> Option<StatementId> {
        None
    }
    /// The sampled stack of another thread in it.
    fn other_stack(&self) -> Option<SampledStackId> {
        None
    }
    /// The sampled stack, and the call path.
    fn stacks(&self) -> (SampledStackId, StackId);
    /// Its thread, and another one in it.
    fn threads(&self) -> (ThreadId, Option<ThreadId>);
}

macro_rules! sampled_row {
    ($($row:ty),*) => {$(
        impl SampledRow for $row {
            fn time(&self) -> (u64, u64) {
                (self.start_ns, 0)
            }
            fn stacks(&self) -> (SampledStackId, StackId) {
                (self.sampled_stack, self.stack)
            }
            fn threads(&self) -> (ThreadId, Option<ThreadId>) {
                (self.thread, None)
            }
        }
    )*};
}

sampled_row!(SampleRow, AllocationRow, TraceRow, ExceptionExampleRow);

impl SampledRow for LockWaitRow {
    fn time(&self) -> (u64, u64) {
        (self.start_ns, self.wait_ns)
    }
    fn other_stack(&self) -> Option<SampledStackId> {
        self.owner_stack
    }
    fn stacks(&self) -> (SampledStackId, StackId) {
        (self.sampled_stack, self.stack)
    }
    fn threads(&self) -> (ThreadId, Option<ThreadId>) {
        (self.thread, Some(self.owner))
    }
}

impl SampledRow for SlowSqlRow {
    fn time(&self) -> (u64, u64) {
        (self.start_ns, self.total_ns)
    }
    fn statement(&self) -> Option<StatementId> {
        Some(self.statement)
    }
    fn stacks(&self) -> (SampledStackId, StackId) {
        (self.sampled_stack, self.stack)
    }
    fn threads(&self) -> (ThreadId, Option<ThreadId>) {
        (self.thread, None)
    }
}
