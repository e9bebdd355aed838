//! The stacks in which a JVM spent a time, as the library gives them to other programs.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use crate::common::locked_shop;
use crate::common::sampled_shop::{frame, sampled_stack, samples, shop, waiting_shop};
use crate::common::*;
use analyzer::input::problems::Problems;
use analyzer::input::runs::{RunInput, discover};
use analyzer::run::stacks_in_time::{OffCpu, WaitSource, off_cpu, on_cpu};

fn only_run(logs: &Logs) -> RunInput {
    let mut problems = Problems::default();
    let mut runs = discover(&[logs.root().join("logs")], |_| false, &mut problems);
    assert_eq!((runs.len(), problems.messages()), (1, Vec::new()));
    runs.remove(0)
}

/// Symbols, milliseconds and looks.
fn waits(logs: &Logs, from_ns: u64, to_ns: u64) -> (Vec<(String, u64, u64)>, WaitSource) {
    let (stacks, source) = off_cpu(&only_run(logs), from_ns, to_ns, &mut Problems::default());
    let row = |stack: &OffCpu| (stack.symbols.join(" "), stack.wait_ns / MS, stack.looks);
    (stacks.iter().map(row).collect(), source)
}

#[test]
fn cpu_samples_of_a_time_by_stack() {
    let logs = shop();
    let stacks = |from_ns, to_ns| {
        let stacks = on_cpu(&only_run(&logs), from_ns, to_ns, &mut Problems::default()).unwrap();
        let row = |stack: analyzer::run::stacks_in_time::OnCpu| {
            assert_eq!(stack.cpu_ns, stack.samples * 10 * MS);
            (stack.symbols.join(" "), stack.samples)
        };
        stacks.into_iter().map(row).collect::<Vec<_>>()
    };
    let (pay, count) = ("com.shop.order.OrderService.pay", "com.shop.stock.Stock.count");
    // Both methods pay, and the one with a probe on top.
    assert_eq!(
        stacks(T14, T14 + MIN),
        [
            (pay.to_owned(), 7),
            (format!("java.util.HashMap.get {count} {count} {pay}"), 4),
            ("[libjvm.so] [gc]".to_owned(), 3),
            ("com.shop.Util.hash".to_owned(), 2),
            (format!("{count} {pay}"), 2),
        ]
    );
    let later = stacks(T14 + MIN, T14 + MIN + 1);
    assert_eq!(later.len(), 2);
    assert_eq!(stacks(T14 + 2 * S, T14 + MIN), []);
    let without = Logs::new();
    without
        .run("20261120T140000Z-web07-4242", "web07", 4242)
        .rows(T14, &[stats(T14, 1, 0, 0, &[])]);
    assert_eq!(on_cpu(&only_run(&without), 0, u64::MAX, &mut Problems::default()), None);
    assert_eq!(waits(&without, 0, u64::MAX), (Vec::new(), WaitSource::Nothing));
}

/// A row that is partly in the time counts with this part.
#[test]
fn waits_of_a_time_by_thread_and_stack() {
    let logs = waiting_shop();
    let (take, park) =
        ("java.util.concurrent.LinkedBlockingQueue.take", "jdk.internal.misc.Unsafe.park");
    let pay = "com.shop.order.OrderService.pay".to_owned();
    let expected = [
        (format!("{park} {take} {pay}"), 2_000, 20),
        (format!("{park} {take} java.lang.Thread.run"), 500, 5),
        (pay.clone(), 100, 1),
    ];
    assert_eq!(waits(&logs, T14, T14 + 2 * MIN), (expected.to_vec(), WaitSource::Looks));
    let later = [(format!("{park} {take} {pay}"), 1_500, 15)];
    assert_eq!(waits(&logs, T14 + MIN, T14 + 2 * MIN), (later.to_vec(), WaitSource::Looks));
}

#[test]
fn recorded_waits_for_locks_stand_in_for_looks() {
    let logs = locked_shop::shop();
    let (stacks, source) = waits(&logs, 0, u64::MAX);
    assert_eq!(source, WaitSource::Locks);
    assert!(
        !stacks.is_empty()
            && stacks
                .iter()
                .all(|(symbols, ms, looks)| !symbols.is_empty() && *ms > 0 && *looks > 0)
    );
}

#[test]
fn stacks_in_the_kernel_are_apart() {
    let logs = Logs::new();
    let run = logs.run("20261120T140000Z-web07-4242", "web07", 4242);
    run.rows(T14, &[thread(1, "exec-1")]);
    let frames = [
        (1, "java", "com.shop.Store", "read"),
        (2, "native", "[libc.so.6]", "read"),
        (3, "kernel", "[kernel]", "ksys_read"),
        (4, "kernel", "[kernel]", "vfs_read"),
        (5, "kernel", "", "[kernel]"),
    ];
    run.rows(T14, &frames.map(|(id, kind, class, method)| frame(id, kind, class, method, "")));
    let stacks = [(1, 0, 1), (2, 1, 2), (3, 2, 3), (4, 3, 4), (5, 1, 5)];
    run.rows(T14, &stacks.map(|(id, parent, frame)| sampled_stack(id, parent, frame)));
    run.rows(T14, &[samples(T14, 1, 4, 3), samples(T14, 1, 5, 2), samples(T14, 1, 1, 1)]);
    let stacks = on_cpu(&only_run(&logs), T14, T14 + S, &mut Problems::default()).unwrap();
    let both = |stack: &analyzer::run::stacks_in_time::OnCpu| {
        (stack.symbols.join(" "), stack.kernel.join(" "), stack.samples)
    };
    let read = "com.shop.Store.read";
    assert_eq!(
        stacks.iter().map(both).collect::<Vec<_>>(),
        [
            (format!("read [libc.so.6] {read}"), "vfs_read ksys_read".to_owned(), 3),
            (read.to_owned(), "[kernel]".to_owned(), 2),
            (read.to_owned(), String::new(), 1),
        ]
    );
}
