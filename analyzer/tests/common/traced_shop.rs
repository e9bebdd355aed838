//! Logs with calls of traced methods.

use log_format::ids::{MethodId, SampledStackId, StackId, ThreadId};
use log_format::rows::TraceRow;

use super::sampled_shop::{self, RUN};
use super::*;

/// Calls of a method, one in a hundred, by a thread with a stack of [`sampled_shop::shop`].
pub fn traced(
    start_ns: u64,
    thread: u32,
    method: u32,
    samples: u64,
    sampled_stack: u32,
) -> TraceRow {
    TraceRow {
        start_ns,
        thread: ThreadId::new(thread),
        method: MethodId::new(method),
        calls: samples * 100,
        samples,
        sampled_stack: SampledStackId::new(sampled_stack),
        stack: StackId::NONE,
    }
}

/// `count` is called by `pay` and by itself; `pay` by nobody, and a minute later by another thread.
pub fn shop() -> Logs {
    let logs = sampled_shop::shop();
    logs.run(RUN, "web07", 4242).rows(
        T14,
        &[
            traced(T14 + S, 1, 2, 60, 3),
            traced(T14 + 2 * S, 1, 2, 20, 4),
            traced(T14 + S, 1, 1, 5, 1),
            traced(T14 + MIN, 2, 1, 3, 1),
        ],
    );
    logs
}
