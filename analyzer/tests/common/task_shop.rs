//! Logs with profile tasks.

use std::ops::Range;

use log_format::rows::{
    SampleRow, TaskCallRow, TaskRequestRow, TaskRow, TaskState, counter as name,
};

use super::sampled_shop::{ORDER, RUN, STOCK, samples};
use super::*;

/// When the tasks began, and when request 1 did.
pub const BEGIN: u64 = T14 + MIN;
pub const REQUEST: u64 = BEGIN + 5 * S;

/// Methods, and their call paths from `FILTER` on.
pub const FILTER: u32 = 1;
pub const PAY: u32 = 2;
pub const CHECK: u32 = 3;
pub const QUERY: u32 = 4;

pub fn task(at_ns: u64, id: &str, state: TaskState, requests: u32, reason: &str) -> TaskRow {
    TaskRow {
        at_ns,
        task: id.into(),
        state,
        endpoint: "/orders/pay".into(),
        methods: format!("{ORDER}.pay,{ORDER}.refund"),
        start_ns: BEGIN,
        duration_ns: 5 * MIN,
        min_duration_ns: 200 * MS,
        dump_period_ns: 10 * MS,
        max_samples: 5,
        requests,
        reason: reason.into(),
    }
}

/// A request of `pay` below the filter.
pub fn request(
    id: &str,
    number: u32,
    thread: u32,
    start_ns: u64,
    ms: u64,
    calls: u32,
) -> TaskRequestRow {
    TaskRequestRow {
        start_ns,
        task: id.into(),
        request: number,
        thread: ThreadId::new(thread),
        stack: StackId::new(PAY),
        total_ns: ms * MS,
        exit: Exit::Return,
        calls,
        calls_dropped: 0,
        least_call_ns: 100_000,
    }
}

/// A call in a request from and to these milliseconds after its start, without callees that are not recorded. The path
/// has the number of the method.
pub fn task_call(of: &TaskRequestRow, stack: u32, method: u32, ms: Range<u64>) -> TaskCallRow {
    TaskCallRow {
        start_ns: of.start_ns + ms.start * MS,
        task: of.task.clone(),
        request: of.request,
        stack: StackId::new(stack),
        method: MethodId::new(method),
        total_ns: (ms.end - ms.start) * MS,
        self_ns: (ms.end - ms.start) * MS,
        exit: of.exit,
    }
}

/// A run with names, and without tasks.
///
/// ```text
/// path 1   Filter.doFilter:20
///      2     pay:41
///      3       check:12
///      4         query
///      5       query
///      6       pay:41
/// ```
pub fn empty_shop() -> Logs {
    let logs = Logs::new();
    let run = logs.run(RUN, "web07", 4242);
    let with_line = |line, method: MethodRow| MethodRow { line, ..method };
    run.rows(
        T14,
        &[
            with_line(20, method(FILTER, "com.shop.web.Filter", "doFilter", "()V")),
            with_line(41, method(PAY, ORDER, "pay", "(ILjava/lang/String;)Z")),
            with_line(12, method(CHECK, STOCK, "check", "(I)Z")),
            method(QUERY, "com.shop.Db", "query", "()V"),
        ],
    );
    run.rows(T14, &[thread(1, "exec-1"), thread(2, "exec-2")]);
    let stacks = [(1, 0, FILTER), (2, 1, PAY), (3, 2, CHECK), (4, 3, QUERY)];
    run.rows(T14, &stacks.map(|(id, parent, method)| stack(id, parent, method)));
    run.rows(T14, &[stack(5, 2, QUERY), stack(6, 2, PAY)]);
    run.rows(T14, &[counter(T14, name::RECORDED_NS, MIN)]);
    logs
}

/// Request 1 of a task: 500 ms, all of them in `check`, which queries for 300 ms.
///
/// ```text
/// ms      0         100                           400       500
/// pay     |=================================================|
/// check   |=================================================|
/// query             |=============================|
/// ```
pub fn known_request(run: &RunFolder, id: &str, at_ns: u64) -> TaskRequestRow {
    let of = request(id, 1, 1, at_ns, 500, 3);
    run.rows(
        at_ns,
        &[
            task_call(&of, 4, QUERY, 100..400),
            task_call(&of, 3, CHECK, 0..500),
            task_call(&of, 2, PAY, 0..500),
        ],
    );
    run.rows(at_ns, std::slice::from_ref(&of));
    of
}

/// A finished task with three requests, beside one that was refused and one that runs.
///
/// ```text
/// request 1, exec-1   see `known_request`
///         2, exec-2   pay 250 ms, threw; check from 20 to 60, query from 100 to 200
///         3, exec-1   pay 300 ms, unfinished; 7 calls dropped
/// ```
pub fn shop() -> Logs {
    let logs = empty_shop();
    let run = logs.run(RUN, "web07", 4242);
    run.rows(T14, &[task(BEGIN - S, "3", TaskState::Notified, 0, "")]);
    run.rows(T14, &[task(BEGIN, "3", TaskState::Running, 0, "")]);
    known_request(&run, "3", REQUEST);
    let threw = TaskRequestRow { exit: Exit::Throw, ..request("3", 2, 2, REQUEST + S, 250, 3) };
    run.rows(
        T14,
        &[
            task_call(&threw, 3, CHECK, 20..60),
            task_call(&threw, 5, QUERY, 100..200),
            task_call(&threw, 2, PAY, 0..250),
        ],
    );
    let unfinished = TaskRequestRow {
        exit: Exit::Unfinished,
        calls_dropped: 7,
        ..request("3", 3, 1, BEGIN + 4 * MIN + 59 * S + 700 * MS, 300, 1)
    };
    run.rows(T14, &[task_call(&unfinished, 2, PAY, 0..300)]);
    run.rows(T14, &[threw, unfinished]);
    let rejected = TaskRow {
        endpoint: "com.shop.Nobody".into(),
        methods: "com.shop.Nobody".into(),
        ..task(BEGIN + S, "4", TaskState::Rejected, 0, "task 3 is running")
    };
    run.rows(T14, &[rejected, task(BEGIN + 5 * MIN, "3", TaskState::Finished, 3, "time")]);
    run.rows(T14, &[task(BEGIN + 6 * MIN, "5", TaskState::Running, 0, "")]);
    logs
}

/// A row of samples with the call path `stack`.
pub fn sample(
    kind: &str,
    start_ns: u64,
    weight_ms: u64,
    sampled_stack: u32,
    stack: u32,
) -> SampleRow {
    SampleRow {
        kind: kind.into(),
        state: if kind == "cpu" { "java" } else { "parked" }.into(),
        weight_ns: weight_ms * MS,
        stack: StackId::new(stack),
        ..samples(start_ns, 1, sampled_stack, 1)
    }
}
