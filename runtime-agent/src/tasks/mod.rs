//! Profile tasks: for some minutes, all calls inside the slow requests of an endpoint are recorded.
//!
//! A task waits for its start (`notified`), records (`running`), and ends by time, by number of requests, by a command
//! or with the agent (`finished`). The probe decides which calls belong to a request (`probe::requests`), the agent
//! thread holds them back until it has ended (`drain::requests`). At most one task runs at a time, as with SkyWalking.

mod missing;
mod order;

use std::collections::HashSet;

use log_format::file_names::utc_text;
use log_format::rows::{TaskRow, TaskState};
use log_format::units::as_ns;

pub(crate) use self::missing::Missing;
pub(crate) use self::order::{Start, TaskOrder};
use crate::error::TaskError;
use crate::log::run_log::Now;
use crate::sys::local_time;

/// Tasks that are listed, the newest; those that have not ended always are.
const MOST_LISTED: usize = 100;
/// Tasks that may wait: new files of the log repeat them.
const MOST_WAITING: usize = 20;
/// Ids that are remembered, because an id names one task of the run.
const MOST_IDS: usize = 10_000;
/// Rejected tasks are in the log at most so often.
const REJECTED_EACH_NS: u64 = 1_000_000_000;
/// Calls in requests are recorded if they take at least this part of the time between two snapshots, and at least
/// [`LEAST_CALL_NS`].
const DUMP_PERIOD_PART: u64 = 100;
const LEAST_CALL_NS: u64 = 100_000;
const DAY_S: u32 = 24 * 3600;

/// From which duration on calls inside a task's requests are recorded.
pub(crate) fn least_call_ns(task: &TaskRow) -> u64 {
    (task.dump_period_ns / DUMP_PERIOD_PART).max(LEAST_CALL_NS)
}

/// What a client wants of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskCommand {
    Add(TaskOrder),
    List,
    /// End the one with this id.
    Cancel(String),
}

/// Why a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Time,
    Count,
    Cancelled,
    AgentEnded,
}

impl End {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Count => "count",
            Self::Cancelled => "cancelled",
            Self::AgentEnded => "agent ended",
        }
    }
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Start,
    End(End),
}

/// A task with what was ordered.
#[derive(Clone, Debug)]
struct Task {
    row: TaskRow,
    order: TaskOrder,
    /// When it is to end, on CLOCK_MONOTONIC; set when it begins.
    ends_ns: u64,
}

impl Task {
    fn is_open(&self) -> bool {
        matches!(self.row.state, TaskState::Notified | TaskState::Running)
    }

    fn overlaps(&self, start_ns: u64, duration_ns: u64) -> bool {
        let end = |start: u64, duration: u64| start.saturating_add(duration);
        self.is_open()
            && start_ns < end(self.row.start_ns, self.row.duration_ns)
            && self.row.start_ns < end(start_ns, duration_ns)
    }
}

/// The tasks of a run.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    all: Vec<Task>,
    /// All ids.
    ids: HashSet<String>,
    /// When a rejected one was last in the log, on CLOCK_MONOTONIC.
    rejected_ns: Option<u64>,
    /// What the running one could not see.
    pub missing: Missing,
}

impl Tasks {
    /// Adds a task, or a rejected one, as one with a mistake is.
    ///
    /// # Errors
    /// Its id is in use.
    pub(crate) fn add(
        &mut self,
        order: TaskOrder,
        mistake: Option<String>,
        now: Now,
    ) -> Result<TaskRow, TaskError> {
        if let Some(id) = &order.id
            && self.ids.contains(id)
        {
            return Err(TaskError::Exists(id.clone()));
        }
        if self.ids.len() >= MOST_IDS {
            return Err(TaskError::TooMany(MOST_IDS));
        }
        let mut row = TaskRow {
            at_ns: now.unix_ns,
            task: order.id.clone().unwrap_or_else(|| self.new_id(now.unix_ns)),
            state: TaskState::Notified,
            endpoint: order.endpoint.clone(),
            methods: order
                .methods
                .iter()
                .map(|pattern| pattern.as_str())
                .collect::<Vec<_>>()
                .join(","),
            start_ns: start_ns(order.start, now.unix_ns),
            duration_ns: as_ns(order.duration),
            min_duration_ns: as_ns(order.min_duration),
            dump_period_ns: as_ns(order.dump_period),
            max_samples: order.max_samples,
            requests: 0,
            reason: String::new(),
        };
        let wrong = order.rejection().or_else(|| {
            let other =
                self.all.iter().find(|task| task.overlaps(row.start_ns, row.duration_ns))?;
            let TaskRow { task, endpoint, start_ns, duration_ns, .. } = &other.row;
            let until = utc_text(start_ns.saturating_add(*duration_ns));
            Some(format!("overlaps task {task} ({endpoint}), which lasts until {until}"))
        });
        let open = self.all.iter().filter(|task| task.is_open()).count();
        let wrong = wrong
            .or_else(|| (open >= MOST_WAITING).then(|| format!("{open} tasks wait; cancel some")))
            .or(mistake);
        if let Some(reason) = wrong {
            row.state = TaskState::Rejected;
            row.reason = reason;
        }
        self.ids.insert(row.task.clone());
        self.all.push(Task { row: row.clone(), order, ends_ns: 0 });
        if self.all.len() > MOST_LISTED
            && let Some(oldest) = self.all.iter().position(|task| !task.is_open())
        {
            self.all.remove(oldest);
        }
        Ok(row)
    }

    /// Whether a task is to be written to the log: of those that are rejected, one a second.
    pub(crate) fn is_for_log(&mut self, row: &TaskRow, now: Now) -> bool {
        if row.state != TaskState::Rejected {
            return true;
        }
        let is_due = self.rejected_ns.is_none_or(|ns| now.monotonic_ns >= ns + REJECTED_EACH_NS);
        if is_due {
            self.rejected_ns = Some(now.monotonic_ns);
        }
        is_due
    }

    /// All of them, in the order in which they came.
    pub(crate) fn rows(&self) -> Vec<TaskRow> {
        self.all.iter().map(|task| task.row.clone()).collect()
    }

    /// Those that have not ended.
    pub(crate) fn open_rows(&self) -> Vec<TaskRow> {
        self.all.iter().filter(|task| task.is_open()).map(|task| task.row.clone()).collect()
    }

    /// The running task.
    pub(crate) fn running(&self) -> Option<&TaskRow> {
        self.all.iter().map(|task| &task.row).find(|row| row.state == TaskState::Running)
    }

    /// What is to be done now, with the task's id: first an end, then a start.
    pub(crate) fn due(&self, now: Now) -> Option<(String, Due)> {
        let of = |task: &Task| {
            let due = match task.row.state {
                TaskState::Running if task.row.requests >= task.row.max_samples => {
                    Due::End(End::Count)
                }
                TaskState::Running if now.monotonic_ns >= task.ends_ns => Due::End(End::Time),
                TaskState::Notified
                    if now.unix_ns >= task.row.start_ns && self.running().is_none() =>
                {
                    Due::Start
                }
                _ => return None,
            };
            Some((task.row.task.clone(), due))
        };
        self.all.iter().find_map(of)
    }

    /// Notes that a task runs from now on. Returns it, and what was ordered.
    pub(crate) fn begin(&mut self, id: &str, now: Now) -> Option<(TaskRow, TaskOrder)> {
        self.missing = Missing::default();
        let task = self.find(id)?;
        task.row.state = TaskState::Running;
        task.row.at_ns = now.unix_ns;
        // It may have waited for another one.
        task.row.start_ns = now.unix_ns;
        task.ends_ns = now.monotonic_ns.saturating_add(task.row.duration_ns);
        Some((task.row.clone(), task.order.clone()))
    }

    /// The number of another request of the running task; `None` if it has enough.
    pub(crate) fn count_request(&mut self) -> Option<u32> {
        let task = self.all.iter_mut().find(|task| task.row.state == TaskState::Running)?;
        let row = &mut task.row;
        if row.requests >= row.max_samples {
            return None;
        }
        row.requests += 1;
        Some(row.requests)
    }

    /// Notes that a task has ended, and why.
    pub(crate) fn end(&mut self, id: &str, reason: String, now: Now) -> Option<TaskRow> {
        let task = self.find(id)?;
        task.row.state = TaskState::Finished;
        task.row.at_ns = now.unix_ns;
        task.row.reason = reason;
        Some(task.row.clone())
    }

    /// The state of a task.
    pub(crate) fn state(&self, id: &str) -> Option<TaskState> {
        self.all.iter().find(|task| task.row.task == id).map(|task| task.row.state)
    }

    fn find(&mut self, id: &str) -> Option<&mut Task> {
        self.all.iter_mut().find(|task| task.row.task == id && task.is_open())
    }

    /// The moment, and if there is one already, a number.
    fn new_id(&self, now_ns: u64) -> String {
        let digits: String =
            utc_text(now_ns).chars().filter(char::is_ascii_digit).take(14).collect();
        let (date, time) = digits.split_at_checked(8).unwrap_or((&digits, ""));
        let id = format!("{date}-{time}");
        let is_free = |id: &String| !self.ids.contains(id);
        let numbered = || (2..).map(|number| format!("{id}-{number}")).find(is_free);
        if is_free(&id) { id } else { numbered().unwrap_or(id) }
    }
}

/// When a task begins, in unix nanoseconds.
fn start_ns(start: Start, now_ns: u64) -> u64 {
    match start {
        Start::In(after) => {
            now_ns.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
        }
        Start::UnixMs(ms) => ms.saturating_mul(1_000_000).max(now_ns),
        Start::SecondOfDay(second) => {
            let seconds = (second + DAY_S - local_time::second_of_day()) % DAY_S;
            // From the beginning of this second on.
            (now_ns - now_ns % 1_000_000_000).saturating_add(u64::from(seconds) * 1_000_000_000)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Now {
        Now { unix_ns: (1_700_000_000 + seconds) * S, monotonic_ns: seconds * S }
    }

    fn order(text: &str) -> TaskOrder {
        TaskOrder::parse(text).unwrap()
    }

    #[test]
    fn a_task_begins_and_ends_by_time() {
        let mut tasks = Tasks::default();
        let start = format!("start={} duration=1m endpoint=a.B.c", at(30).unix_ns / 1_000_000);
        let row = tasks.add(order(&start), None, at(0)).unwrap();
        assert_eq!((&*row.task, row.state), ("20231114-221320", TaskState::Notified));
        assert_eq!(tasks.due(at(29)), None);
        assert_eq!(tasks.due(at(30)), Some((row.task.clone(), Due::Start)));
        tasks.begin(&row.task, at(30)).unwrap();
        assert_eq!(tasks.due(at(89)), None);
        // A clock that is set back does not prolong it.
        let set_back = Now { unix_ns: at(0).unix_ns, ..at(90) };
        assert_eq!(tasks.due(set_back), Some((row.task.clone(), Due::End(End::Time))));
        let ended = tasks.end(&row.task, "time".to_owned(), at(90)).unwrap();
        assert_eq!((ended.state, ended.at_ns), (TaskState::Finished, at(90).unix_ns));
        assert_eq!((tasks.due(at(1_000)), tasks.open_rows()), (None, Vec::new()));
    }

    #[test]
    fn a_task_ends_by_its_number_of_requests() {
        let mut tasks = Tasks::default();
        let row = tasks.add(order("id=x max_samples=2 endpoint=a.B.c"), None, at(0)).unwrap();
        assert_eq!(tasks.count_request(), None);
        tasks.begin(&row.task, at(0)).unwrap();
        assert_eq!([(); 3].map(|()| tasks.count_request()), [Some(1), Some(2), None]);
        assert_eq!(tasks.due(at(1)), Some(("x".to_owned(), Due::End(End::Count))));
    }

    #[test]
    fn tasks_do_not_overlap() {
        let mut tasks = Tasks::default();
        let start =
            |s: u64| format!("start={} duration=1m endpoint=a.B.c", at(s).unix_ns / 1_000_000);
        let states: Vec<(TaskState, String)> = [100, 159, 160, 41, 40, 100]
            .map(|s| tasks.add(order(&start(s)), None, at(0)).unwrap())
            .map(|row| (row.state, row.reason))
            .into();
        let rejected = |reason: &&(TaskState, String)| reason.0 == TaskState::Rejected;
        assert_eq!(states.iter().filter(rejected).count(), 3);
        assert_eq!(
            states[1].1,
            "overlaps task 20231114-221320 (a.B.c), which lasts until 2023-11-14T22:16:00Z"
        );
        let ids: Vec<String> = tasks.rows().into_iter().map(|row| row.task).collect();
        assert_eq!(ids[1..3], ["20231114-221320-2", "20231114-221320-3"]);
        // One that has ended is in nobody's way.
        tasks.begin(&ids[0], at(100)).unwrap();
        tasks.end(&ids[0], String::new(), at(101)).unwrap();
        assert_eq!(
            tasks.add(order(&start(100)), None, at(100)).unwrap().state,
            TaskState::Notified
        );
    }

    #[test]
    fn an_id_is_used_once_and_old_tasks_are_forgotten() {
        let mut tasks = Tasks::default();
        tasks.add(order("id=x endpoint=a.B.c"), None, at(0)).unwrap();
        assert_eq!(
            tasks.add(order("id=x endpoint=a.B.c"), None, at(0)),
            Err(TaskError::Exists("x".to_owned()))
        );
        for n in 0..300 {
            let wrong = tasks.add(order("duration=1s endpoint=a.B.c"), None, at(n)).unwrap();
            assert_eq!(wrong.reason, "duration=1s: must be from 1m to 15m");
        }
        let rows = tasks.rows();
        assert_eq!((rows.len(), &*rows[0].task), (MOST_LISTED, "x"));
    }

    #[test]
    fn a_time_of_the_day_is_the_next_one() {
        let now = crate::sys::clock::unix_ns();
        let second = local_time::second_of_day();
        let wait =
            |second: u32| (start_ns(Start::SecondOfDay(second % DAY_S), now) - now / S * S) / S;
        // The second may change meanwhile.
        assert!((9..=10).contains(&wait(second + 10)));
        assert!(wait(second + DAY_S - 10) >= u64::from(DAY_S) - 11);
    }
}
