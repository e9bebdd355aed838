//! Reads the tables of tasks.

use std::collections::{BTreeMap, BTreeSet};

use log_format::rows::{Row, TaskCallRow, TaskRequestRow, TaskRow};

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::input::table_rows::read_rows;
use crate::tasks::task::{Call, Request, Task};

/// Most calls kept of a request. The agent writes fewer: this bounds what a damaged log takes.
const MOST_CALLS: usize = 50_000;

/// Most requests kept of a task, as above.
const MOST_REQUESTS: usize = 100;

/// Orphaned requests that are named.
const ORPHANS_SHOWN: usize = 5;

/// The tasks of a run in the order of their first rows, with their requests, but without calls.
#[must_use]
pub fn list(run: &RunInput, problems: &mut Problems) -> Vec<Task> {
    read_tasks(run, None, problems)
}

/// A task with its requests and their calls; `None` if the run has no task with this id.
#[must_use]
pub fn read(run: &RunInput, id: &str, problems: &mut Problems) -> Option<Task> {
    let mut task = read_tasks(run, Some(id), problems).pop()?;
    each_row(run, problems, |row: TaskCallRow| {
        if row.task != id {
            return;
        }
        let requests = &mut task.requests;
        let Ok(place) = requests.binary_search_by_key(&row.request, |r| r.number) else { return };
        let Some(request) = requests.get_mut(place) else { return };
        request.calls_read = request.calls_read.saturating_add(1);
        if request.calls.len() < MOST_CALLS {
            request.calls.push(Call {
                start_ns: row.start_ns,
                total_ns: row.total_ns,
                self_ns: row.self_ns,
                exit: row.exit,
                stack: row.stack,
                method: row.method,
            });
        }
    });
    Some(task)
}

fn read_tasks(run: &RunInput, id: Option<&str>, problems: &mut Problems) -> Vec<Task> {
    let is_wanted = |task: &str| id.is_none_or(|id| id == task);
    let mut tasks: Vec<Task> = Vec::new();
    let mut places = BTreeMap::new();
    each_row(run, problems, |row: TaskRow| {
        if !is_wanted(&row.task) {
            return;
        }
        match places.get(&row.task).and_then(|place: &usize| tasks.get_mut(*place)) {
            Some(task) => task.update(row),
            None => {
                places.insert(row.task.clone(), tasks.len());
                tasks.push(Task::new(row));
            }
        }
    });
    let mut orphans = BTreeSet::new();
    each_row(run, problems, |row: TaskRequestRow| {
        if !is_wanted(&row.task) {
            return;
        }
        match places.get(&row.task).and_then(|place| tasks.get_mut(*place)) {
            Some(task) => add_request(task, &row),
            None if orphans.len() < ORPHANS_SHOWN => drop(orphans.insert(row.task)),
            None => {}
        }
    });
    for task in orphans {
        let reason = format!("requests of task {task:?}, which is not in tasks.csv, are skipped");
        problems.warn(&run.folder, reason);
    }
    tasks
}

fn add_request(task: &mut Task, row: &TaskRequestRow) {
    let Err(place) = task.requests.binary_search_by_key(&row.request, |r| r.number) else { return };
    if task.requests.len() < MOST_REQUESTS {
        let request = Request {
            number: row.request,
            start_ns: row.start_ns,
            thread: row.thread,
            stack: row.stack,
            total_ns: row.total_ns,
            exit: row.exit,
            calls_written: row.calls,
            calls_read: 0,
            calls_dropped: row.calls_dropped,
            least_call_ns: row.least_call_ns,
            calls: Vec::new(),
        };
        task.requests.insert(place, request);
    }
}

fn each_row<R: Row>(run: &RunInput, problems: &mut Problems, mut each: impl FnMut(R)) {
    for file in run.files.iter().filter(|file| file.table == R::TABLE) {
        read_rows(&file.path, file.len, problems, |row| {
            each(row);
            Ok(())
        });
    }
}
