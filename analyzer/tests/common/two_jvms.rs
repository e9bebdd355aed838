//! Logs of two JVMs, for reports.

use log_format::rows::{CallRow, Exit, StatsRow, counter as name};

use super::*;

const ORDER: &str = "com.shop.order.OrderService";
const STOCK: &str = "com.shop.stock.Stock";
pub const RUN_A: &str = "20261120T140000Z-web07-4242";
pub const RUN_B: &str = "20261120T150000Z-web08-17";
const PAY: &str = "(ILjava/lang/String;)Z";

/// Two JVMs; the same ids mean other methods in each.
///
/// ```text
/// web07, 14 to 16 h   1 pay(int, String)  2 pay()  3 Stock.count, recursive  4 Worker.run, open
/// web08, 15 h         1 Stock.count       2 pay(int, String)
/// ```
pub fn shop() -> Logs {
    let logs = Logs::new();
    add_web07(&logs);
    add_web08(&logs);
    logs
}

fn add_web07(logs: &Logs) {
    let a = logs.run(RUN_A, "web07", 4242);
    let methods = [
        method(1, ORDER, "pay", PAY),
        method(2, ORDER, "pay", "()V"),
        method(3, STOCK, "count", "(I)J"),
        method(4, "com.shop.Worker", "run", "()V"),
    ];
    let threads = [thread(1, "exec-1"), thread(2, "worker")];
    // 1: run   2: run > pay   3: run > pay > count   4: run > pay > count > count
    let stacks = [stack(1, 0, 4), stack(2, 1, 1), stack(3, 2, 3), stack(4, 3, 3)];
    a.rows(T14, &methods).rows(T14, &threads).rows(T14, &stacks);
    a.rows(T15, &methods).rows(T15, &threads).rows(T15, &stacks);
    let recursive =
        StatsRow { total_ns: 30 * MS, ..stats(T14, 3, 0, 30 * MS, &[30 * MS, 20 * MS]) };
    a.rows(
        T14,
        &[
            stats(T14, 1, 1, 60 * MS, &[40 * MS, 50 * MS]),
            stats(T14, 2, 0, 500 * US, &[200 * US, 300 * US]),
            recursive,
            stats(T14 + MIN, 1, 0, 10 * MS, &[10 * MS]),
        ],
    );
    a.rows(T15, &[stats(T15, 1, 0, 5 * MS, &[5 * MS])]);
    let started = T14 + 5 * S;
    a.rows(
        T14,
        &[
            CallRow { self_ns: 10 * MS, ..call(started + 15 * MS, 1, 4, 3, 20 * MS) },
            CallRow { self_ns: 10 * MS, ..call(started + 10 * MS, 1, 3, 3, 30 * MS) },
            CallRow { self_ns: 20 * MS, exit: Exit::Throw, ..call(started, 1, 2, 1, 50 * MS) },
            call(T14 + 10 * S, 2, 2, 1, 40 * MS),
        ],
    );
    a.rows(
        T15,
        &[CallRow {
            exit: Exit::Unfinished,
            self_ns: 5 * S,
            ..call(T14, 2, 1, 4, HOUR + 10 * MIN)
        }],
    );
    a.rows(
        T14,
        &[
            counter(T14, name::THRESHOLD_NS, MS),
            counter(T14, name::RECORDED_CALLS_DROPPED, 12),
            counter(T14, name::NOT_INSTRUMENTED, 3),
            counter(T14 + 5 * MIN, name::RAISED_TO_NS, 2 * MS),
            counter(T14 + 7 * MIN, name::RAISED_TO_NS, 0),
            counter(T14, name::RECORDED_CALLS, 99),
            counter(T14, "from_the_future", 99),
        ],
    );
}

fn add_web08(logs: &Logs) {
    let b = logs.run(RUN_B, "web08", 17);
    b.rows(T15, &[method(1, STOCK, "count", "(I)J"), method(2, ORDER, "pay", PAY)]);
    b.rows(T15, &[thread(1, "exec-1")]);
    b.rows(T15, &[stack(1, 0, 1), stack(2, 0, 2)]);
    b.rows(
        T15,
        &[stats(T15, 1, 0, 100 * MS, &[100 * MS]), stats(T15, 2, 2, 7 * MS, &[3 * MS, 4 * MS])],
    );
    b.rows(T15, &[call(T15 + S, 1, 1, 1, 100 * MS)]);
    b.rows(T15, &[counter(T15, name::THRESHOLD_NS, MS)]);
}
