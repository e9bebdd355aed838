//! Begins and ends profile tasks.

use log_format::human;
use log_format::ids::MethodId;
use log_format::pattern::Pattern;
use log_format::rows::{TaskRow, TaskState};

use super::AgentLoop;
use crate::drain::requests::{EndedRequest, Wanted};
use crate::error::Error;
use crate::log::run_log::Now;
use crate::probe::requests;
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
        let row = self.tasks.add(order, Now::read()).map_err(Error::Task)?;
        self.recorder.tell_task(row.clone(), self.tasks.open_rows());
        if row.state == TaskState::Rejected {
            return Err(Error::Task(row.reason));
        }
        // One that begins now is seen to run.
        self.keep_to_tasks();
        let mut is_named = false;
        self.methods.for_each(
            || self.recorder.round(),
            |_, method| {
                let names = |pattern: &Pattern| pattern.method(&method.class.name, &method.name);
                is_named |= patterns.iter().any(names);
            },
        );
        let mut hints = Vec::new();
        if !is_named {
            hints.extend(patterns.iter().map(|pattern| self.why_not_named(pattern, "task")));
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
            Some(state) => return Err(Error::Task(format!("{id} is {} already", state.name()))),
            None => return Err(Error::Task(format!("no task {id}; tprofiler tasks lists them"))),
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

    fn begin_task(&mut self, id: &str) {
        let now = Now::read();
        let Some((row, order)) = self.tasks.begin(id, now) else { return };
        if let Err(error) = self.methods.set_endpoint(&order.methods, || self.recorder.round()) {
            message!("task {id}: {error}");
        }
        let wanted = Wanted {
            from_ns: now.unix_ns,
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
            let least_call_ns = self.recorder.least_call_ns();
            let ended = self.recorder.end_requests();
            self.write_requests(ended);
            let mut missing = self.missing();
            missing.extend(self.tasks.running().zip(least_call_ns).and_then(not_recorded));
            // An agent that ends has stopped recording.
            let was_off = !self.recording.is_on() && end != End::AgentEnded;
            for missing in missing.into_iter().chain(was_off.then(|| "recording is off".to_owned()))
            {
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

    /// What the running task could not see.
    fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let is_any = (1..=self.methods.count())
            .filter_map(|id| u32::try_from(id).ok())
            .any(|id| requests::is_endpoint(MethodId::new(id)));
        if !is_any {
            missing.push("the endpoint names no method that is measured".to_owned());
        }
        let throttled = self.cost.overhead.throttled();
        let endpoints = throttled.keys().filter(|id| requests::is_endpoint(**id)).count();
        if endpoints > 0 {
            missing.push(format!("{endpoints} methods of the endpoint are throttled"));
        }
        if throttled.len() > endpoints {
            let others = throttled.len() - endpoints;
            missing.push(format!(
                "{others} methods are throttled: their callers' self time has their time"
            ));
        }
        missing
    }
}

/// Which calls were not recorded, because there were too many.
fn not_recorded((task, least_call_ns): (&TaskRow, u64)) -> Option<String> {
    let is_raised = least_call_ns > tasks::least_call_ns(task);
    is_raised.then(|| {
        let least = human::duration(least_call_ns);
        format!("calls under {least} were not recorded any more, because there were too many")
    })
}
