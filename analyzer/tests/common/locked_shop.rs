//! Logs with waits for monitors.

use log_format::ids::SampledStackId;
use log_format::rows::{CallRow, LockKind, LockRow, LockWaitRow, counter as name};

use super::sampled_shop::{ORDER, RUN, STOCK, frame, sampled_stack};
use super::*;

/// The lock of a class's static methods.
pub const JOURNAL: &str = "com.shop.log.Journal.class";

/// When the slow call began.
pub const SLOW: u64 = T14 + 5 * S;

/// Statistics of waits with these lengths in a method, or in none.
pub fn locks(start_ns: u64, class: &str, method: u32, waits_ns: &[u64]) -> LockRow {
    let stats = stats(start_ns, method, 0, 0, waits_ns);
    LockRow {
        start_ns,
        kind: LockKind::Monitor,
        class: class.into(),
        method: MethodId::new(method),
        waits: stats.calls,
        total_ns: stats.total_ns,
        max_ns: stats.max_ns,
        hist: stats.hist,
    }
}

/// A wait of a thread for a lock that another one has. The sampled stack has the same number as the call path.
pub fn lock_wait(
    start_ns: u64,
    [thread, owner]: [u32; 2],
    class: &str,
    wait_ns: u64,
    stack: u32,
) -> LockWaitRow {
    LockWaitRow {
        start_ns,
        thread: ThreadId::new(thread),
        kind: LockKind::Monitor,
        class: class.into(),
        wait_ns,
        owner: ThreadId::new(owner),
        sampled_stack: SampledStackId::new(stack.max(1)),
        stack: StackId::new(stack),
        owner_stack: None,
    }
}

/// The same wait, with the sampled stack of the owner.
pub fn held_in(stack: u32, wait: LockWaitRow) -> LockWaitRow {
    LockWaitRow { owner_stack: Some(SampledStackId::new(stack)), ..wait }
}

/// A slow call of `pay` in exec-1, whose callee `reserve` was not recorded.
///
/// ```text
/// ms     0         10   12       20   25    29  30         45            60   70           90    100
/// pay    |==========================================================================================|
/// count             |====================================================|
/// reserve                                       |==========|
/// waits                 Stock         Stock     Stock                         Journal
/// owner                 exec-7        exec-7    unknown                       exec-2
/// ```
///
/// Other waits: of exec-1, one that began before the call and ended within it; of exec-2, one at the same time as the
/// call, and two of 1 ms a minute later, for exec-1. While exec-1 waited for the journal, exec-2 was in `reserve`,
/// which slept.
pub fn shop() -> Logs {
    let logs = Logs::new();
    let run = logs.run(RUN, "web07", 4242);
    let pay = "(ILjava/lang/String;)Z";
    let methods = [
        method(1, ORDER, "pay", pay),
        method(2, STOCK, "count", "(I)J"),
        method(3, STOCK, "reserve", "()V"),
    ];
    run.rows(T14, &methods);
    run.rows(T14, &[thread(1, "exec-1"), thread(2, "exec-2"), thread(3, "exec-7")]);
    run.rows(T14, &[stack(1, 0, 1), stack(2, 1, 2), stack(3, 2, 3)]);
    let slow = CallRow { self_ns: 40 * MS, ..call(SLOW, 1, 1, 1, 100 * MS) };
    let inner = CallRow { self_ns: 20 * MS, ..call(SLOW + 10 * MS, 1, 2, 2, 50 * MS) };
    run.rows(T14, &[inner, slow]);
    run.rows(T14, &[stats(T14, 1, 0, 40 * MS, &[100 * MS]), stats(T14, 2, 0, 20 * MS, &[50 * MS])]);
    run.rows(T14, &[stats(T14 + MIN, 2, 0, 2 * MS, &[2 * MS])]);
    run.rows(T14, &[counter(T14, name::THRESHOLD_NS, MS), counter(T14, name::RECORDED_NS, MIN)]);
    run.rows(T14, &[counter(T14 + MIN, name::RECORDED_NS, MIN)]);
    let frames = [
        (1, ORDER, "pay", pay),
        (2, STOCK, "count", "(I)J"),
        (3, STOCK, "reserve", "()V"),
        (4, "java.lang.Thread", "sleep", "(J)V"),
    ];
    run.rows(T14, &frames.map(|(id, class, method, of)| frame(id, "java", class, method, of)));
    run.rows(T14, &[sampled_stack(1, 0, 1), sampled_stack(2, 1, 2), sampled_stack(3, 2, 3)]);
    run.rows(T14, &[sampled_stack(4, 3, 4)]);
    let short = [100 * US; 10];
    run.rows(
        T14,
        &[
            locks(T14, STOCK, 2, &[&[8 * MS, 4 * MS], &short[..]].concat()),
            locks(T14, STOCK, 3, &[15 * MS]),
            locks(T14, JOURNAL, 1, &[20 * MS]),
            locks(T14, STOCK, 0, &[10 * MS]),
            locks(T14, STOCK, 1, &[30 * MS]),
            locks(T14 + MIN, STOCK, 2, &[MS, MS]),
        ],
    );
    let in_next_minute = |s: u64| lock_wait(T14 + MIN + s * S, [2, 1], STOCK, MS, 2);
    run.rows(
        T14,
        &[
            lock_wait(SLOW - 5 * MS, [1, 0], STOCK, 10 * MS, 0),
            held_in(1, lock_wait(SLOW + 12 * MS, [1, 3], STOCK, 8 * MS, 2)),
            lock_wait(SLOW + 25 * MS, [1, 3], STOCK, 4 * MS, 2),
            lock_wait(SLOW + 30 * MS, [1, 0], STOCK, 15 * MS, 3),
            lock_wait(SLOW + 12 * MS, [2, 1], STOCK, 30 * MS, 1),
            held_in(4, lock_wait(SLOW + 70 * MS, [1, 2], JOURNAL, 20 * MS, 1)),
            in_next_minute(10),
            in_next_minute(20),
        ],
    );
    logs
}
