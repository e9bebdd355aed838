//! Reads the profile tasks of a run.

use std::path::Path;

use log_format::rows::{Exit, TaskCallRow, TaskRequestRow, TaskRow, TaskState};

use crate::profile::{MethodName, rows};
use crate::samples::Names;

/// A task, as its newest row has it.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Task {
    pub row: TaskRow,
    /// Its states, in the order in which it had them.
    pub states: Vec<TaskState>,
    pub requests: Vec<Request>,
}

/// A request of a task.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Request {
    pub thread: String,
    pub start_ns: u64,
    pub total_ns: u64,
    pub exit: Exit,
    pub dropped: u64,
    /// In the order of the file.
    pub calls: Vec<TaskCall>,
}

/// A call in a request.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct TaskCall {
    /// Methods from the outermost to this one.
    pub path: Vec<MethodName>,
    pub start_ns: u64,
    pub total_ns: u64,
    pub self_ns: u64,
    pub exit: Exit,
}

impl TaskCall {
    /// Names of the methods of its path, without classes.
    #[must_use]
    pub fn names(&self) -> String {
        let names: Vec<&str> =
            self.path.iter().filter_map(|method| method.split(' ').nth(1)).collect();
        names.join(" ")
    }
}

/// The tasks of a run, in the order in which they came.
///
/// # Panics
/// If its logs are not flawless, or contradict themselves.
#[must_use]
pub fn tasks(run: &Path) -> Vec<Task> {
    let names = Names::of(run);
    let mut tasks: Vec<Task> = Vec::new();
    for row in rows::<TaskRow>(run) {
        match tasks.iter_mut().find(|task| task.row.task == row.task) {
            Some(task) => {
                if task.states.last() != Some(&row.state) {
                    task.states.push(row.state);
                }
                task.row = row;
            }
            None => {
                tasks.push(Task { states: vec![row.state], row, requests: Vec::new() });
            }
        }
    }
    let calls = rows::<TaskCallRow>(run);
    for row in rows::<TaskRequestRow>(run) {
        let task = tasks.iter_mut().find(|task| task.row.task == row.task).expect("its task");
        assert_eq!(row.request as usize, task.requests.len() + 1, "{row:?}");
        let own =
            calls.iter().filter(|call| (&call.task, call.request) == (&row.task, row.request));
        let call = |call: &TaskCallRow| TaskCall {
            path: names.path(call.stack),
            start_ns: call.start_ns,
            total_ns: call.total_ns,
            self_ns: call.self_ns,
            exit: call.exit,
        };
        let calls: Vec<TaskCall> = own.map(call).collect();
        assert_eq!(calls.len(), row.calls as usize, "{row:?}");
        let last = calls.last().expect("the request itself");
        assert_eq!((last.total_ns, last.exit), (row.total_ns, row.exit), "{row:?}");
        assert_eq!(last.path, names.path(row.stack), "{row:?}");
        let thread = names.thread(row.thread).0;
        let TaskRequestRow { start_ns, total_ns, exit, calls_dropped: dropped, .. } = row;
        task.requests.push(Request { thread, start_ns, total_ns, exit, dropped, calls });
    }
    tasks
}
