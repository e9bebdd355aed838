//! Logs in which all times add up, for formats of other tools.

use log_format::rows::{CallRow, Exit, MethodRow, counter as name};

use super::*;

const ORDER: &str = "com.shop.order.OrderService";
const RUN_A: &str = "20261120T140000Z-web07-4242";
const RUN_B: &str = "20261120T150000Z-web08-17";

/// Two JVMs, a threshold of 1 ms.
///
/// ```text
/// web07  exec-1   pay 50 (12 its own), throws > count 30 > count 20;  pay > <init> 5 (2 its own)
///        worker   run, open > pay 40
/// web08  exec-1   pay 10
/// ```
pub fn shop() -> Logs {
    let logs = Logs::new();
    let pay = "(ILjava/lang/String;)Z";
    let at = |row: MethodRow, source: &str, line| MethodRow { source: source.into(), line, ..row };
    let a = logs.run(RUN_A, "web07", 4242);
    let methods = [
        at(method(1, ORDER, "pay", pay), "OrderService.java", 41),
        at(method(2, "com.shop.stock.Stock", "count", "(I)J"), "Stock.java", 7),
        at(method(3, "com.shop.order.Order", "<init>", "()V"), "Order.java", 12),
        at(method(4, "com.shop.Worker", "run", "()V"), "Worker.java", 30),
    ];
    a.rows(T14, &methods).rows(T14, &[thread(1, "exec-1"), thread(2, "worker")]);
    // 1: pay   2: pay > count   3: pay > count > count   4: pay > <init>   5: run   6: run > pay
    let stacks = [(1, 0, 1), (2, 1, 2), (3, 2, 2), (4, 1, 3), (5, 0, 4), (6, 5, 1)];
    a.rows(T14, &stacks.map(|(id, parent, method)| stack(id, parent, method)));
    let started = T14 + 5 * S;
    let of = |row: CallRow, self_ns| CallRow { self_ns, ..row };
    let pay_50 = of(call(started, 1, 1, 1, 50 * MS), 12 * MS);
    a.rows(
        T14,
        &[
            call(started + 15 * MS, 1, 3, 2, 20 * MS),
            of(call(started + 10 * MS, 1, 2, 2, 30 * MS), 10 * MS),
            of(call(started + 41 * MS, 1, 4, 3, 5 * MS), 2 * MS),
            CallRow { exit: Exit::Throw, ..pay_50 },
            call(T14 + 10 * S, 2, 6, 1, 40 * MS),
            CallRow { exit: Exit::Unfinished, ..of(call(T14 + S, 2, 5, 4, 2 * S), 300 * MS) },
            // Written again at the next stop: the same call.
            CallRow { exit: Exit::Unfinished, ..of(call(T14 + S, 2, 5, 4, 20 * S), 3 * S) },
        ],
    );
    a.rows(
        T14,
        &[
            stats(T14, 1, 1, 52 * MS, &[50 * MS, 40 * MS]),
            stats(T14, 2, 0, 30 * MS + 600 * US, &[30 * MS, 20 * MS, 600 * US]),
            stats(T14, 3, 0, 4 * MS + 500 * US, &[5 * MS, 2 * MS + 500 * US]),
        ],
    );
    a.rows(T14, &[counter(T14, name::THRESHOLD_NS, MS)]);
    let b = logs.run(RUN_B, "web08", 17);
    b.rows(T15, &[at(method(9, ORDER, "pay", pay), "OrderService.java", 41)]);
    b.rows(T15, &[thread(1, "exec-1")]).rows(T15, &[stack(1, 0, 9)]);
    b.rows(T15, &[call(T15 + S, 1, 1, 9, 10 * MS)]);
    b.rows(T15, &[stats(T15 + MIN, 9, 0, 10 * MS, &[10 * MS])]);
    b.rows(T15, &[counter(T15, name::THRESHOLD_NS, MS)]);
    logs
}
