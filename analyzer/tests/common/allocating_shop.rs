//! Logs with sampled allocations.

use log_format::ids::{SampledStackId, StackId, ThreadId};
use log_format::rows::{AllocationRow, counter as name};

use super::sampled_shop::{self, RUN};
use super::*;

/// Objects that a thread allocated with a stack of [`sampled_shop::shop`].
pub fn allocated(
    start_ns: u64,
    thread: u32,
    class: &str,
    [bytes, objects, samples]: [u64; 3],
    sampled_stack: u32,
) -> AllocationRow {
    AllocationRow {
        start_ns,
        thread: ThreadId::new(thread),
        class: class.into(),
        bytes,
        objects,
        samples,
        sampled_stack: SampledStackId::new(sampled_stack),
        stack: StackId::NONE,
    }
}

/// 50 seconds with allocations of exec-1 in `pay`, in `count` and in a method of the JDK that `count` calls; a minute
/// later, in `pay`.
pub fn shop() -> Logs {
    let logs = sampled_shop::shop();
    let run = logs.run(RUN, "web07", 4242);
    run.rows(T14, &[counter(T14, name::ALLOCATION_NS, 50 * S)]).rows(
        T14,
        &[
            allocated(T14 + S, 1, "byte[]", [6_000_000, 3_000, 12], 1),
            allocated(T14 + S, 1, "com.shop.Item", [1_000_000, 40_000, 2], 1),
            allocated(T14 + 2 * S, 1, "byte[]", [2_000_000, 1_000, 4], 3),
            allocated(T14 + 2 * S, 1, "java.util.HashMap$Node[]", [500_000, 100, 1], 5),
            allocated(T14 + MIN, 2, "byte[]", [500_000, 250, 1], 1),
        ],
    );
    logs
}
