//! Logs with SQL statements.

use log_format::ids::{SampledStackId, StatementId};
use log_format::rows::{CallRow, SlowSqlRow, SqlRow, StatementRow, counter as name};

use super::sampled_shop::{ORDER, RUN, STOCK, frame, sampled_stack};
use super::*;

/// When the slow call began.
pub const SLOW: u64 = T14 + 5 * S;

pub const SHOP: &str = "jdbc:mysql://db1:3306/shop";
pub const AUDIT: &str = "jdbc:postgresql://db2/audit?ssl=true";

/// A short one, and one with what must be escaped. The agent escapes control characters as names of a log have them.
pub const BY_ID: &str = "select * from orders where id = ?";
pub const HOSTILE: &str = "</script><b>\u{1b}[31m\\u000aupdate \"stock\"\tset count = ?, note = ?";
pub const INSERT: &str = "insert into audit_log (at, who, what) values (?, ?, ?)";

pub fn long() -> String {
    let columns: Vec<String> = (0..100).map(|i| format!("o.column_{i}")).collect();
    format!("select {} from orders o where o.customer = ? order by o.at", columns.join(", "))
}

pub fn statement(id: u32, url: &str, text: &str) -> StatementRow {
    StatementRow { id: StatementId::new(id), url: url.into(), text: text.into() }
}

/// Statistics of executions with these lengths by a method, or by none.
pub fn sql(start_ns: u64, statement: u32, method: u32, throws: u64, lengths_ns: &[u64]) -> SqlRow {
    let stats = stats(start_ns, method, throws, 0, lengths_ns);
    SqlRow {
        start_ns,
        statement: StatementId::new(statement),
        method: MethodId::new(method),
        executions: stats.calls,
        throws,
        total_ns: stats.total_ns,
        max_ns: stats.max_ns,
        hist: stats.hist,
    }
}

/// A slow execution. The sampled stack has the number of the call path, and the driver on top.
pub fn slow_sql(
    start_ns: u64,
    thread: u32,
    statement: u32,
    total_ns: u64,
    stack: u32,
) -> SlowSqlRow {
    SlowSqlRow {
        start_ns,
        thread: ThreadId::new(thread),
        statement: StatementId::new(statement),
        total_ns,
        exit: Exit::Return,
        text: String::new(),
        sampled_stack: SampledStackId::new(10 + stack),
        stack: StackId::new(stack),
    }
}

/// A slow call of `pay` in exec-1, whose callee `reserve` was not recorded.
///
/// ```text
/// ms      0         10   12           30  31         45   50         60   65              95     100
/// pay     |==========================================================================================|
/// count             |=================================================|
/// reserve                             |===============|
/// SQL                    |= BY_ID ==|     |= HOSTILE =|                    |= the long one =|
/// SQL                                                                           |INSERT|
/// ```
///
/// Other executions: of exec-2, at the same time, two a minute later, and one that had not ended when recording did;
/// one of a statement without a name; and of no instrumented method, `[unknown statement]` and `[other statements]`.
pub fn shop() -> Logs {
    let logs = Logs::new();
    let run = logs.run(RUN, "web07", 4242);
    let pay = "(ILjava/lang/String;)Z";
    run.rows(
        T14,
        &[
            method(1, ORDER, "pay", pay),
            method(2, STOCK, "count", "(I)J"),
            method(3, STOCK, "reserve", "()V"),
        ],
    );
    run.rows(T14, &[thread(1, "exec-1"), thread(2, "exec-2")]);
    run.rows(T14, &[stack(1, 0, 1), stack(2, 1, 2), stack(3, 2, 3)]);
    let slow = CallRow { self_ns: 40 * MS, ..call(SLOW, 1, 1, 1, 100 * MS) };
    let inner = CallRow { self_ns: 30 * MS, ..call(SLOW + 10 * MS, 1, 2, 2, 50 * MS) };
    run.rows(T14, &[inner, slow]);
    run.rows(T14, &[stats(T14, 1, 0, 40 * MS, &[100 * MS]), stats(T14, 2, 0, 30 * MS, &[50 * MS])]);
    run.rows(T14, &[counter(T14, name::THRESHOLD_NS, MS), counter(T14, name::RECORDED_NS, MIN)]);
    run.rows(T14, &[counter(T14 + MIN, name::RECORDED_NS, MIN)]);
    run.rows(
        T14,
        &[
            frame(1, "java", ORDER, "pay", pay),
            frame(2, "java", STOCK, "count", "(I)J"),
            frame(3, "java", STOCK, "reserve", "()V"),
            frame(4, "java", "com.mysql.cj.jdbc.StatementImpl", "executeQuery", "()V"),
            frame(5, "java", "java.lang.Thread", "run", "()V"),
        ],
    );
    let stacks = [(1, 0, 1), (2, 1, 2), (3, 2, 3), (11, 1, 4), (12, 2, 4), (13, 3, 4), (10, 5, 4)];
    run.rows(T14, &stacks.map(|(id, parent, frame)| sampled_stack(id, parent, frame)));
    run.rows(T14, &[sampled_stack(5, 0, 5)]);
    executions(&run);
    logs
}

fn executions(run: &RunFolder) {
    run.rows(
        T14,
        &[
            statement(1, SHOP, BY_ID),
            statement(2, SHOP, HOSTILE),
            statement(3, SHOP, &long()),
            statement(4, AUDIT, INSERT),
            statement(5, "", "[unknown statement]"),
            statement(6, "", "[other statements]"),
        ],
    );
    let short = [200 * US; 97];
    run.rows(
        T14,
        &[
            sql(T14, 1, 2, 0, &[&[18 * MS, MS, MS], &short[..]].concat()),
            sql(T14, 1, 1, 1, &[2 * MS, 2 * MS]),
            sql(T14, 2, 3, 1, &[14 * MS]),
            sql(T14, 3, 1, 0, &[30 * MS, 22 * MS]),
            sql(T14, 4, 1, 0, &[5 * MS]),
            sql(T14, 5, 0, 0, &[7 * MS]),
            sql(T14, 6, 0, 0, &[500 * US; 4]),
            sql(T14, 7, 2, 0, &[3 * MS]),
            sql(T14 + MIN, 1, 2, 0, &[12 * MS, 11 * MS]),
        ],
    );
    let threw = SlowSqlRow {
        exit: Exit::Throw,
        text: "update stock set count = 3,\\u000a note = 'it''s'".into(),
        ..slow_sql(SLOW + 31 * MS, 1, 2, 14 * MS, 3)
    };
    let unfinished =
        SlowSqlRow { exit: Exit::Unfinished, ..slow_sql(T14 + MIN + 59 * S, 2, 1, 900 * MS, 2) };
    let literal = SlowSqlRow {
        text: "select * from orders where id = 17".into(),
        ..slow_sql(SLOW + 12 * MS, 1, 1, 18 * MS, 2)
    };
    run.rows(
        T14,
        &[
            literal,
            threw,
            // The inner one ends first.
            slow_sql(SLOW + 91 * MS, 1, 4, 3 * MS, 1),
            slow_sql(SLOW + 65 * MS, 1, 3, 30 * MS, 1),
            slow_sql(SLOW + 20 * MS, 2, 3, 22 * MS, 1),
            slow_sql(T14 + MIN + 10 * S, 2, 1, 12 * MS, 2),
            slow_sql(T14 + MIN + 20 * S, 2, 1, 11 * MS, 2),
            slow_sql(T14 + 30 * S, 2, 5, 7 * MS, 0),
            unfinished,
        ],
    );
}
