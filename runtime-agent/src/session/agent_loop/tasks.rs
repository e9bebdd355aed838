//! Begins and ends profile tasks.

use std::collections::HashSet;

use log_format::ids::MethodId;
use log_format::pattern::Pattern;
use log_format::rows::{TaskRow, TaskState};

use super::AgentLoop;
use crate::drain::task_requests::{EndedRequest, Wanted};
use crate::error::{Error, TaskError};
use crate::log::run_log::Now;
use crate::probe::task_requests;
use crate::request::Found;
use crate::stderr::message;
use crate::tasks::{self, Due, End, TaskCommand, TaskOrder};

impl AgentLoop<'_> {
    /// Carries out a command of profile tasks. Returns what it shows, and hints.
    ///
    /// # Errors
    /// The task is refused, or cannot be cancelled.
    pub(super) fn carry_out_task(
        &mut self,
        command: TaskCommand,
    ) -> Result<(Found, Vec<String>), Error> {
        match command {
            TaskCommand::Add(order) => self.add_task(order),
            TaskCommand::List => Ok((Found::Tasks(self.tasks.rows()), Vec::new())),
            TaskCommand::Cancel(id) => Ok((self.cancel_task(&id)?, Vec::new())),
        }
    }

    /// Adds a task. Returns it, and a hint if its endpoint is not there.
    ///
    /// # Errors
    /// It is rejected; the log says so too.
    fn add_task(&mut self, order: TaskOrder) -> Result<(Found, Vec<String>), Error> {
        let patterns = order.methods.clone();
        let mistakes: Option<Vec<String>> =
            patterns.iter().map(|pattern| self.why_mistaken(pattern, "task")).collect();
        let mistake = mistakes.and_then(|all| all.into_iter().next());
        let row = self.tasks.add(order, mistake, Now::read())?;
        if self.tasks.is_for_log(&row, Now::read()) {
            self.recorder.tell_task(row.clone(), self.tasks.open_rows());
        }
        if row.state == TaskState::Rejected {
            return Err(TaskError::Rejected(row.reason).into());
        }
        // One that begins now is seen to run.
        self.keep_to_tasks();
        let (mut is_named, mut is_measured) = (false, false);
        let muted: HashSet<MethodId> = self.guards.muted().collect();
        self.methods.for_each(
            || self.recorder.round(),
            |id, method| {
                let names = |pattern: &Pattern| pattern.method(&method.class.name, &method.name);
                if patterns.iter().any(names) {
                    is_named = true;
                    is_measured |= !muted.contains(&id);
                }
            },
        );
        let mut hints = Vec::new();
        if !is_named {
            hints.extend(patterns.iter().map(|pattern| self.why_not_named(pattern, "task")));
        }
        if is_named && !is_measured {
            hints.push("the endpoint is muted: nothing is recorded until it is unmuted".to_owned());
        }
        if !self.recording.is_on() {
            hints.push("recording is off: nothing is recorded until it is started".to_owned());
        }
        let now = self.tasks.rows().into_iter().find(|task| task.task == row.task);
        Ok((Found::Task(now.unwrap_or(row)), hints))
    }

    /// Ends a task.
    ///
    /// # Errors
    /// There is no such task, or it has ended.
    fn cancel_task(&mut self, id: &str) -> Result<Found, Error> {
        match self.tasks.state(id) {
            Some(TaskState::Running | TaskState::Notified) => self.end_task(id, End::Cancelled),
            Some(state) => return Err(TaskError::Ended(id.to_owned(), state.name()).into()),
            None => return Err(TaskError::Unknown(id.to_owned()).into()),
        }
        Ok(Found::Tasks(self.tasks.rows().into_iter().filter(|task| task.task == id).collect()))
    }

    /// Ends all tasks, because the agent ends.
    pub(super) fn end_tasks(&mut self) {
        for task in self.tasks.open_rows() {
            self.end_task(&task.task, End::AgentEnded);
        }
    }

    /// Writes the requests of the running task, and begins and ends tasks that are due.
    pub(super) fn keep_to_tasks(&mut self) {
        if self.tasks.running().is_some() {
            let ended = self.recorder.take_requests();
            self.write_requests(ended);
        }
        while let Some((id, due)) = self.tasks.due(Now::read()) {
            match due {
                Due::Start => self.begin_task(&id),
                Due::End(end) => self.end_task(&id, end),
            }
        }
    }

    /// Notes what is throttled while a task runs. Once a second is enough: methods stay throttled for longer.
    pub(super) fn note_throttled(&mut self) {
        if self.tasks.running().is_none() {
            return;
        }
        let throttled = self.cost.overhead.throttled();
        let endpoints = throttled.keys().filter(|id| task_requests::is_endpoint(**id)).count();
        self.tasks.missing.note_throttled(endpoints, throttled.len() - endpoints);
    }

    fn begin_task(&mut self, id: &str) {
        let Some((row, order)) = self.tasks.begin(id, Now::read()) else { return };
        self.tasks.missing.was_off = !self.recording.is_on();
        if let Err(error) = self.methods.set_endpoint(&order.methods, || self.recorder.round()) {
            message!("task {id}: {error}");
        }
        let wanted = Wanted {
            min_duration_ns: row.min_duration_ns,
            least_call_ns: tasks::least_call_ns(&row),
            most_call_ns: row.dump_period_ns,
        };
        self.recorder.begin_requests(wanted);
        self.recorder.tell_task(row, self.tasks.open_rows());
    }

    fn end_task(&mut self, id: &str, end: End) {
        let mut reason = end.name().to_owned();
        if self.tasks.state(id) == Some(TaskState::Running) {
            self.note_missing();
            let ended = self.recorder.end_requests();
            self.write_requests(ended);
            for missing in self.tasks.missing.texts() {
                reason = format!("{reason}; {missing}");
            }
            self.methods.forget_endpoint();
        }
        if let Some(row) = self.tasks.end(id, reason, Now::read()) {
            self.recorder.tell_task(row, self.tasks.open_rows());
        }
    }

    fn write_requests(&mut self, ended: Vec<EndedRequest>) {
        for request in ended {
            let Some(number) = self.tasks.count_request() else { break };
            if let Some(TaskRow { task, .. }) = self.tasks.running() {
                self.recorder.write_request(task, number, request);
            }
        }
    }

    /// Notes what the running task could not see.
    fn note_missing(&mut self) {
        self.note_throttled();
        let Some(task) = self.tasks.running() else { return };
        let least_call_ns = self.recorder.least_call_ns();
        let least_call_ns = least_call_ns.filter(|ns| *ns > tasks::least_call_ns(task));
        let has_endpoint = (1..=self.methods.count())
            .filter_map(|id| u32::try_from(id).ok())
            .any(|id| task_requests::is_endpoint(MethodId::new(id)));
        let missing = &mut self.tasks.missing;
        missing.endpoint = !has_endpoint;
        missing.least_call_ns = least_call_ns;
        missing.lost = self.recorder.lost_in_requests();
    }
}
