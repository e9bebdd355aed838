//! What threads do now: for `threads` and `inflight`.

use std::collections::HashMap;

use log_format::ids::{JavaThreadId, OsThreadId};
use log_format::rows::LockKind;

use super::waiting::Waiting;
use crate::jvm::class_names;
use crate::jvm::thread_key::ThreadKey;
use crate::locks::{self, InProgress, Owner};
use crate::probe::thread::ThreadName;
use crate::statements::{self, Execution};
use crate::sys::clock;

/// What a thread does now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ThreadNow {
    pub name: ThreadName,
    /// The kernel's number, or 0 of a virtual thread.
    pub os_id: OsThreadId,
    pub is_virtual: bool,
    /// What it waits for; `None` if it runs.
    pub waiting: Option<Waiting>,
    /// Its share of a processor in the last second.
    pub cpu_share: f64,
    /// The lock that it waits for.
    pub lock: Option<LockNow>,
    /// The SQL statement that it executes.
    pub statement: Option<StatementNow>,
}

/// An SQL statement in progress.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatementNow {
    /// Its text without literals.
    pub text: String,
    pub ns: u64,
}

/// A lock for which a thread waits now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LockNow {
    pub kind: LockKind,
    /// The class of its object.
    pub class: String,
    pub start_ticks: u64,
    pub waited_ns: u64,
    pub owner: Owner,
}

impl ThreadNow {
    /// Of a thread that waits for a lock, or executes a statement, if these are known. What else it does is not known.
    pub(super) fn of(
        name: ThreadName,
        os_id: OsThreadId,
        wait: Option<&InProgress>,
        execution: Option<&Execution>,
    ) -> Self {
        let lock = wait.map(|wait| LockNow {
            kind: locks::kind(wait.class),
            class: class_names::name(wait.class),
            start_ticks: wait.began,
            waited_ns: clock::ticks_to_ns(clock::ticks().saturating_sub(wait.began)),
            owner: wait.owner,
        });
        let statement = execution.map(|execution| StatementNow {
            text: statements::name(execution.statement).1,
            ns: clock::ticks_to_ns(execution.ticks()),
        });
        let waiting = lock.as_ref().map(|lock| match lock.kind {
            LockKind::Monitor => Waiting::Blocked,
            _ => Waiting::Parked,
        });
        Self { name, os_id, is_virtual: false, waiting, cpu_share: 0.0, lock, statement }
    }
}

/// What these virtual threads wait for or execute, of those that do so. Without `ends_are_seen`, waits are left out.
pub(super) fn of_virtual(
    numbers: impl Iterator<Item = JavaThreadId>,
    ends_are_seen: bool,
) -> Vec<ThreadNow> {
    let mut numbers = numbers.peekable();
    if numbers.peek().is_none() {
        return Vec::new();
    }
    let waits: HashMap<ThreadKey, InProgress> =
        if ends_are_seen { locks::all().into_iter().collect() } else { HashMap::new() };
    let executions: HashMap<ThreadKey, Execution> =
        statements::in_progress().into_iter().map(|of| (of.thread, of)).collect();
    let of = |java_id| {
        let key = ThreadKey::of_virtual(java_id);
        let (wait, execution) = (waits.get(&key), executions.get(&key));
        let name = ThreadName { name: String::new(), java_id };
        let now = ThreadNow::of(name, OsThreadId::default(), wait, execution);
        (wait.is_some() || execution.is_some()).then_some(ThreadNow { is_virtual: true, ..now })
    };
    numbers.filter_map(of).collect()
}
