//! Logs with CPU samples.

use log_format::ids::{FrameId, SampledStackId, StackId, ThreadId};
use log_format::rows::{EventRow, FrameRow, SampleRow, SampledStackRow, event};

use super::*;

pub const ORDER: &str = "com.shop.order.OrderService";
pub const STOCK: &str = "com.shop.stock.Stock";
pub const RUN: &str = "20261120T140000Z-web07-4242";
const PROBES: &str = "java.lang.invoke.$TProfiler";

pub fn frame(id: u32, kind: &str, class: &str, method: &str, descriptor: &str) -> FrameRow {
    FrameRow {
        id: FrameId::new(id),
        kind: kind.into(),
        class: class.into(),
        method: method.into(),
        descriptor: descriptor.into(),
        source: String::new(),
    }
}

pub fn sampled_stack(id: u32, parent: u32, frame: u32) -> SampledStackRow {
    SampledStackRow {
        id: SampledStackId::new(id),
        parent: SampledStackId::new(parent),
        frame: FrameId::new(frame),
    }
}

/// Samples of 10 ms each.
pub fn samples(start_ns: u64, thread: u32, sampled_stack: u32, samples: u64) -> SampleRow {
    SampleRow {
        start_ns,
        thread: ThreadId::new(thread),
        kind: "cpu".into(),
        state: String::new(),
        weight_ns: samples * 10 * MS,
        samples,
        sampled_stack: SampledStackId::new(sampled_stack),
        stack: StackId::NONE,
    }
}

/// Looks at a waiting thread, one in 100 ms, from half a second before the second minute on.
pub fn waiting(sampled_stack: u32, state: &str, ms: u64) -> SampleRow {
    SampleRow {
        kind: "off_cpu".into(),
        state: state.into(),
        weight_ns: ms * MS,
        ..samples(T14 + MIN - S / 2, 1, sampled_stack, ms / 100)
    }
}

/// Two methods with calls, two threads with samples.
///
/// ```text
/// exec-1   pay 5, pay > end (a probe) 1, pay > count 2, pay > count > count > get 4, and a minute later > libc 1
///          hash 2, throttled for 30 s; pay() without parameters, never called, 1
/// GC       [gc] > libjvm 3, and a stack that is missing 1
/// ```
pub fn shop() -> Logs {
    let logs = Logs::new();
    let run = logs.run(RUN, "web07", 4242);
    let pay = "(ILjava/lang/String;)Z";
    let methods = [method(1, ORDER, "pay", pay), method(2, STOCK, "count", "(I)J")];
    run.rows(T14, &methods).rows(T14, &[thread(1, "exec-1"), thread(2, "GC Thread#0")]);
    run.rows(T14, &[stats(T14, 1, 0, 9 * MS, &[10 * MS]), stats(T14, 2, 0, MS, &[MS, MS])]);
    run.rows(T14, &[stack(1, 0, 1)]).rows(T14, &[call(T14, 1, 1, 1, 10 * MS)]);
    let hash = "com.shop.Util.hash(I)I";
    let back = EventRow::new(T14 + 30 * S, event::UNTHROTTLED);
    let back = EventRow { method: hash.into(), ..back };
    run.rows(T14, &[throttled(T14, hash, 1_000_000, 50), back]);
    run.rows(
        T14,
        &[
            frame(1, "java", ORDER, "pay", pay),
            frame(2, "java", STOCK, "count", "(I)J"),
            frame(3, "java", "java.util.HashMap", "get", "(Ljava/lang/Object;)Ljava/lang/Object;"),
            frame(4, "java", PROBES, "end", "(J)V"),
            frame(5, "native", "", "[libc.so.6]", ""),
            frame(6, "other", "", "[gc]", ""),
            frame(7, "native", "", "[libjvm.so]", ""),
            frame(8, "java", "com.shop.Util", "hash", "(I)I"),
            frame(9, "java", ORDER, "pay", "()V"),
        ],
    );
    let stacks = [(1, 0, 1), (2, 1, 4), (3, 1, 2), (4, 3, 2), (5, 4, 3), (6, 5, 5), (7, 0, 6)];
    run.rows(T14, &stacks.map(|(id, parent, frame)| sampled_stack(id, parent, frame)));
    run.rows(T14, &[sampled_stack(8, 7, 7), sampled_stack(9, 0, 8), sampled_stack(10, 0, 9)]);
    let rows = [(1, 1, 5), (1, 2, 1), (1, 3, 2), (1, 5, 4), (1, 9, 2), (1, 10, 1), (2, 8, 3)];
    run.rows(T14, &rows.map(|(thread, stack, count)| samples(T14 + S, thread, stack, count)));
    run.rows(T14, &[samples(T14 + MIN, 1, 6, 1), samples(T14 + MIN, 2, 99, 1)]);
    logs
}

/// The logs of [`shop`], with a thread that waits from 500 ms before the second minute on for 2 s, and works for 10 ms.
pub fn waiting_shop() -> Logs {
    let logs = shop();
    let run = logs.run(RUN, "web07", 4242);
    run.rows(
        T14,
        &[
            frame(10, "java", "jdk.internal.misc.Unsafe", "park", "(ZJ)V"),
            frame(11, "java", "java.util.concurrent.LinkedBlockingQueue", "take", "()V"),
            frame(12, "java", "java.lang.Thread", "run", "()V"),
        ],
    );
    // pay > take > park, and Thread.run > take > park.
    let stacks = [(20, 1, 11), (21, 20, 10), (22, 0, 12), (23, 22, 11), (24, 23, 10)];
    run.rows(T14, &stacks.map(|(id, parent, frame)| sampled_stack(id, parent, frame)));
    run.rows(T14, &[waiting(21, "parked", 2_000), waiting(24, "parked", 500)]);
    run.rows(T14, &[waiting(1, "blocked", 100)]);
    logs
}

/// Logs of two shops, as `before` and `after`, beside those of one without anything else, as `none`.
pub fn compared(before: &Logs, after: &Logs) -> Logs {
    let none = shop();
    none.run(RUN, "web07", 4242).rows(T14, &[counter(T14, "recorded_ns", MIN)]);
    let logs = Logs::new();
    for (shop, side) in [(before, "before"), (after, "after"), (&none, "none")] {
        fs::rename(shop.root().join("logs"), logs.root().join(side)).unwrap();
    }
    logs
}
