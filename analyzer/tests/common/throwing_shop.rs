//! Logs with exceptions that left methods.

use log_format::ids::SampledStackId;
use log_format::rows::{ExceptionExampleRow, ExceptionRow, counter as name};
use log_format::writer::one_line;

use super::sampled_shop::{self, RUN, frame, sampled_stack};
use super::*;

pub const OUT_OF_STOCK: &str = "com.shop.stock.OutOfStock";
pub const TIMEOUT: &str = "java.net.SocketTimeoutException";

/// Exceptions of a class that left a method: all, and those that began there.
pub fn exceptions(
    start_ns: u64,
    method: u32,
    class: &str,
    [thrown, began]: [u64; 2],
) -> ExceptionRow {
    ExceptionRow { start_ns, method: MethodId::new(method), class: class.into(), thrown, began }
}

/// One of them, with its sampled stack and its call path.
pub fn example(
    start_ns: u64,
    thread: u32,
    class: &str,
    message: &str,
    [sampled_stack, stack]: [u32; 2],
) -> ExceptionExampleRow {
    ExceptionExampleRow {
        start_ns,
        thread: ThreadId::new(thread),
        class: class.into(),
        message: one_line(message),
        sampled_stack: SampledStackId::new(sampled_stack),
        stack: StackId::new(stack),
    }
}

/// Two hours, with 2,000 calls of `pay` and 160 of `count`. What leaves `count` leaves `pay` too.
///
/// ```text
///              14:00    15:00    examples
/// OutOfStock   20       60       of count: a second after each hour began, the latter with six frames
/// OutOfStock            1        of pay: none
/// Timeout               5        of pay: one, a minute after 15:00
/// ```
pub fn shop() -> Logs {
    let logs = sampled_shop::shop();
    let run = logs.run(RUN, "web07", 4242);
    run.rows(T14, &[counter(T14, name::RECORDED_NS, HOUR)]);
    run.rows(T15, &[counter(T15, name::RECORDED_NS, HOUR)]);
    run.rows(T15, &[stats(T15, 1, 86, MS, &[MS; 1_999]), stats(T15, 2, 80, MS, &[MS; 158])]);
    run.rows(T14, &[thread(3, "exec-2")]).rows(T14, &[stack(2, 1, 2)]);
    run.rows(
        T14,
        &[
            frame(20, "java", "java.lang.Thread", "run", "()V"),
            frame(21, "java", "com.shop.Worker", "run", "()V"),
            frame(22, "java", "com.shop.web.Filter", "filter", "(I)V"),
            frame(23, "java", "com.shop.web.Handler", "handle", "(I)V"),
        ],
    );
    let stacks = [(30, 0, 20), (31, 30, 21), (32, 31, 22), (33, 32, 23), (34, 33, 1), (35, 34, 2)];
    run.rows(T14, &stacks.map(|(id, parent, frame)| sampled_stack(id, parent, frame)));
    run.rows(
        T14,
        &[exceptions(T14, 1, OUT_OF_STOCK, [20, 0]), exceptions(T14, 2, OUT_OF_STOCK, [20, 20])],
    );
    run.rows(
        T15,
        &[
            exceptions(T15, 1, OUT_OF_STOCK, [61, 1]),
            exceptions(T15, 2, OUT_OF_STOCK, [60, 60]),
            exceptions(T15 + MIN, 1, TIMEOUT, [5, 5]),
        ],
    );
    run.rows(T14, &[example(T14 + S, 1, OUT_OF_STOCK, "", [3, 2])]);
    run.rows(
        T15,
        &[
            example(T15 + S, 3, OUT_OF_STOCK, "no item 17\nin any store", [35, 2]),
            example(T15 + MIN, 3, TIMEOUT, "Read timed out", [1, 1]),
        ],
    );
    logs
}
