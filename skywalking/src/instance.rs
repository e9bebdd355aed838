//! One agent: an instance of the service for the server. It is kept alive there, its tasks are ordered from the agent,
//! and the log is followed while a task lasts.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use analyzer::tasks::Task;
use log_format::pattern::Pattern;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tprofiler::cli::endpoints::Endpoints;
use tprofiler::cli::run_agent::{NotDone, TaskError, ask};

use crate::command::{self, ServerTask, argument};
use crate::oap::messages::{
    Command, Commands, InstancePing, InstanceProperties, KeyValue, TaskQuery,
};
use crate::oap::method;
use crate::process::Process;
use crate::queue::{Identity, Job, RequestJob};
use crate::request::{list, missing};
use crate::runs::{LiveRun, answers};
use crate::service::{Open, Shared};
use crate::stderr::message;

/// The server forgets an instance that is silent for longer than a minute or so.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// The properties are reported with one in so many.
const PROPERTIES_EVERY: u32 = 10;
/// How often the log is read while a task lasts.
const FOLLOW: Duration = Duration::from_millis(500);
/// How often to look whether the agent has deleted its token.
const LOOK: Duration = Duration::from_secs(1);
/// How often to ask whether the agent answers, without a task and with one.
const ASK: Duration = Duration::from_secs(20);
const ASK_IN_TASK: Duration = Duration::from_secs(5);
/// Attempts without an answer after which the agent is gone.
const MOST_SILENT: u32 = 2;
/// How long rows may take to reach the log after the agent has ended, or after the end of their task.
const ROWS_FOLLOW: Duration = Duration::from_secs(2);
/// A second's samples are written after it. SkyWalking's agent sends each half second, but has no samples to wait for.
const SAMPLES_FOLLOW: Duration = Duration::from_secs(3);
/// Rows of a task may be in the hour of this long before.
const HOUR_BEFORE_NS: u64 = 60_000_000_000;
/// How long after its end a task may be missing in the log.
const NOT_LISTED: Duration = Duration::from_secs(60);

/// A task that has not ended.
struct OpenTask {
    id: String,
    endpoint: String,
    /// No row of it is older, in unix nanoseconds.
    from_ns: u64,
    /// Requests that were queued, or had no room.
    seen: BTreeSet<u32>,
    /// When it was first seen to have ended while the log lacked requests.
    ended: Option<Instant>,
    /// If it is not in the log then, it does not come any more.
    gone: Instant,
    /// It is counted among the open ones.
    _open: Open,
}

/// A task that the agent is to take.
struct Order {
    task: ServerTask,
    /// The agent did not take it at first, for a reason that may pass.
    is_late: bool,
    _open: Open,
}

/// How an agent has answered an order.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Ordered,
    /// It does not want the task.
    Rejected(String),
    /// It could not be asked, or cannot do it now.
    Postponed(String),
}

impl Answer {
    /// By the answer to the order, and the state that the agent says the task has.
    fn of(answer: Result<String, NotDone>, state: Option<&str>) -> Self {
        let error = match answer {
            // The answer may have been lost.
            _ if state.is_some_and(|state| state != "rejected") => return Self::Ordered,
            Ok(_) => return Self::Ordered,
            Err(error) => error,
        };
        let text = error.to_string();
        match (error.task_error(), state) {
            (Some(TaskError::Exists(_)), None) => Self::Postponed(text),
            (Some(_), _) | (None, Some(_)) => Self::Rejected(text),
            (None, None) => Self::Postponed(text),
        }
    }
}

/// One agent.
pub(crate) struct Instance {
    shared: Rc<Shared>,
    identity: Arc<Identity>,
    run: LiveRun,
    process: Process,
    tasks: RefCell<Vec<OpenTask>>,
    orders: RefCell<VecDeque<Order>>,
    /// A task was added.
    added: Notify,
}

impl Instance {
    pub(crate) fn new(shared: Rc<Shared>, identity: Arc<Identity>, run: LiveRun) -> Self {
        let process = Process::new(Rc::clone(&shared), Arc::clone(&identity), run.clone());
        let (tasks, orders) = (RefCell::default(), RefCell::default());
        Self { shared, identity, run, process, tasks, orders, added: Notify::new() }
    }

    /// Serves until the agent is gone, or `given_up`.
    pub(crate) async fn serve(self, given_up: Rc<Notify>) {
        let name = self.run.folder.file_name().unwrap_or_default().to_string_lossy();
        message!("instance {}: following run {name}", self.identity.instance);
        tokio::select! {
            () = self.keep_alive() => {}
            () = self.poll() => {}
            () = self.follow() => {}
            () = self.process.serve() => {}
            () = self.until_gone() => {}
            () = given_up.notified() => {}
        }
        message!("instance {}: the agent of run {name} has ended", self.identity.instance);
        self.end().await;
    }

    /// Tells the server of the instance, again and again.
    async fn keep_alive(&self) {
        let Identity { service, instance } = &*self.identity;
        let layer = self.shared.options.layer.clone();
        let properties = InstanceProperties {
            service: service.clone(),
            service_instance: instance.clone(),
            properties: self.properties(),
            layer: layer.clone(),
        };
        let ping =
            InstancePing { service: service.clone(), service_instance: instance.clone(), layer };
        let link = &self.shared.link;
        let mut returns = None;
        for number in 0_u32.. {
            // A server that was away may have forgotten them.
            let now = Some(link.returns());
            if number % PROPERTIES_EVERY == 0 || returns != now {
                let told = link.call::<_, Commands>(method::REPORT_PROPERTIES, &properties).await;
                if let Err(refused) = told {
                    let text = format!("the server refuses properties of instances: {refused}");
                    self.shared.say_once(text);
                }
                returns = now;
            }
            if let Err(refused) = link.call::<_, Commands>(method::KEEP_ALIVE, &ping).await {
                self.shared.say_once(format!("the server does not keep instances: {refused}"));
            }
            sleep(KEEP_ALIVE).await;
        }
    }

    /// What the UI shows of the instance, with SkyWalking's names where it has one.
    fn properties(&self) -> Vec<KeyValue> {
        let about = &self.run.about;
        let mut properties = vec![
            KeyValue::new("language", "java"),
            KeyValue::new("hostname", &*about.host),
            KeyValue::new("Process No.", about.pid.to_string()),
            KeyValue::new("JVM", &*about.jvm),
            KeyValue::new("Main class or jar", &*about.service),
            KeyValue::new("TProfiler version", &*about.agent_version),
            KeyValue::new("TProfiler run", self.run.folder.display().to_string()),
        ];
        let own = self.shared.options.properties.iter();
        properties.extend(own.map(|(key, value)| KeyValue::new(key, value)));
        properties
    }

    /// Asks the server for tasks, again and again.
    async fn poll(&self) {
        let Identity { service, instance } = &*self.identity;
        loop {
            // Those that the agent could not take are tried again.
            self.order_all().await;
            let query = TaskQuery {
                service: service.clone(),
                service_instance: instance.clone(),
                last_command_time: self.shared.last_taken(instance),
            };
            match self.shared.link.call::<_, Commands>(method::GET_TASKS, &query).await {
                Ok(Commands { commands }) => {
                    for command in commands {
                        self.shared.note_taken(instance, command::create_ms(&command));
                        self.take(&command);
                    }
                    self.order_all().await;
                }
                Err(refused) if refused.is_unimplemented() => {
                    let text =
                        "the server has no profile tasks (UNIMPLEMENTED): not asked any more";
                    self.shared.say_once(text.to_owned());
                    return std::future::pending().await;
                }
                Err(refused) => {
                    self.shared.say_once(format!("the server refuses to say its tasks: {refused}"));
                }
            }
            sleep(self.shared.options.poll).await;
        }
    }

    /// Carries out a command of the server.
    fn take(&self, command: &Command) {
        let name = &command.command;
        if name != command::NAME {
            let text = format!("commands {name} are not understood, and ignored");
            return self.shared.say_once(text);
        }
        match ServerTask::of(command) {
            Ok(task) => {
                let order = Order { task, is_late: false, _open: self.shared.open() };
                self.orders.borrow_mut().push_back(order);
            }
            Err(bad) => match argument(command, "TaskId") {
                Some(id) => self.reject(id, &bad.to_string()),
                None => message!("a task is ignored: {bad}"),
            },
        }
    }

    /// Orders tasks from the agent. What is interrupted, because the agent has ended, stays.
    async fn order_all(&self) {
        let count = self.orders.borrow().len();
        for _ in 0..count {
            let first =
                self.orders.borrow().front().map(|order| (order.task.clone(), order.is_late));
            let Some((task, is_late)) = first else { return };
            let is_taken = self.order(&task, is_late).await;
            let mut orders = self.orders.borrow_mut();
            let order = orders.pop_front().filter(|_| !is_taken);
            orders.extend(order.map(|order| Order { is_late: true, ..order }));
        }
    }

    /// Orders a task from the agent, which may have it already if this program was started again. Returns
    /// `false` if it is to be tried again.
    async fn order(&self, task: &ServerTask, is_late: bool) -> bool {
        let (id, endpoint) = (&*task.id, &*task.endpoint);
        let is_open = self.tasks.borrow().iter().any(|open| open.id == id);
        if is_open || self.shared.has_finished(&self.run.folder, id) {
            return true;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let from_ns =
            u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).saturating_sub(HOUR_BEFORE_NS);
        if let Some((state, start_ns)) = self.state(id).await {
            if state == "rejected" {
                self.reject(id, &format!("{endpoint}: the agent has rejected it before"));
                return true;
            }
            // The same requests may be sent twice: their ids are the same.
            message!("task {id} ({endpoint}): {state} in the agent already, going on");
            let from_ns = from_ns.min(start_ns.saturating_sub(HOUR_BEFORE_NS));
            self.add(task, from_ns, state == "finished");
            return true;
        }
        if task.is_over(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)) {
            message!("task {id} ({endpoint}): its time is over, ignored");
            if is_late {
                self.finish(id);
            }
            return true;
        }
        self.read_endpoints().await;
        let line = {
            let endpoints = self.shared.endpoints.borrow();
            task.line(endpoints.methods(endpoint))
        };
        let answer = self.ask(line).await;
        if let Some(hint) = answer.as_deref().ok().and_then(hint_of) {
            message!("task {id} ({endpoint}): {hint}");
        }
        let state = self.state(id).await.map(|(state, _)| state);
        let instance = &self.identity.instance;
        match Answer::of(answer, state.as_deref()) {
            Answer::Ordered => {
                message!("task {id} ({endpoint}): ordered from instance {instance}");
                self.add(task, from_ns, false);
            }
            Answer::Rejected(why) => {
                self.reject(id, &format!("{endpoint}: {why}{}", self.hint(endpoint)));
            }
            Answer::Postponed(why) => {
                let text = format!("task {id} ({endpoint}): instance {instance}: {why}");
                self.shared.say_once(format!("{text}; trying again"));
                return false;
            }
        }
        true
    }

    fn add(&self, task: &ServerTask, from_ns: u64, has_ended: bool) {
        let lasts = if has_ended { Duration::ZERO } else { task.duration() };
        self.tasks.borrow_mut().push(OpenTask {
            id: task.id.clone(),
            endpoint: task.endpoint.clone(),
            from_ns,
            seen: BTreeSet::new(),
            ended: None,
            gone: Instant::now() + lasts + NOT_LISTED,
            _open: self.shared.open(),
        });
        self.added.notify_one();
    }

    fn reject(&self, id: &str, reason: &str) {
        message!("task {id} is rejected: {reason}");
        self.finish(id);
    }

    /// Why a name that is no method may not be an endpoint.
    fn hint(&self, endpoint: &str) -> String {
        let is_known = self.shared.endpoints.borrow().methods(endpoint).is_some();
        let is_method = Pattern::parse(endpoint).is_ok();
        match &self.shared.options.endpoints {
            _ if is_known || is_method => String::new(),
            Some(file) => format!("; {} has no line for it", file.display()),
            None => "; --endpoints FILE says which methods it has".to_owned(),
        }
    }

    /// Reads the mapping file again: a task is rare, and the file may have changed.
    async fn read_endpoints(&self) {
        let Some(file) = self.shared.options.endpoints.clone() else { return };
        match spawn_blocking(move || Endpoints::read(&file)).await {
            Ok(Ok(endpoints)) => drop(self.shared.endpoints.replace(endpoints)),
            Ok(Err(error)) => message!("--endpoints: {error}; the file's former lines hold"),
            Err(_) => {}
        }
    }

    /// Sends the agent a line.
    async fn ask(&self, line: String) -> Result<String, NotDone> {
        let (folder, token_file) =
            (self.run.folder.clone(), self.shared.options.token_file.clone());
        let asked = spawn_blocking(move || ask(&folder, token_file.as_deref(), &line)).await;
        asked.unwrap_or_else(|error| Err(NotDone::from(error.to_string())))
    }

    /// The state of a task in the agent, and when it began; `None` if the agent does not have it, or does not answer.
    async fn state(&self, id: &str) -> Option<(String, u64)> {
        let answer: Value =
            serde_json::from_str(&self.ask("json tasks".to_owned()).await.ok()?).ok()?;
        let tasks = answer.get("tasks")?.as_array()?;
        let task = tasks.iter().find(|task| task.get("id").and_then(Value::as_str) == Some(id))?;
        Some((task.get("state")?.as_str()?.to_owned(), task.get("start_ns")?.as_u64()?))
    }

    /// Reads the log while a task lasts.
    async fn follow(&self) {
        loop {
            if self.tasks.borrow().is_empty() {
                self.added.notified().await;
            }
            sleep(FOLLOW).await;
            self.look_at_log().await;
        }
    }

    /// Queues the requests that are new in the log, and the ends of tasks.
    async fn look_at_log(&self) {
        let Some(from_ns) = self.tasks.borrow().iter().map(|open| open.from_ns).min() else {
            return;
        };
        let folder = self.run.folder.clone();
        let Ok(tasks) = spawn_blocking(move || list(&folder, from_ns)).await else { return };
        let now = Instant::now();
        let is_gone =
            |open: &mut OpenTask| now >= open.gone && !tasks.iter().any(|task| task.id == open.id);
        let gone: Vec<OpenTask> = self.tasks.borrow_mut().extract_if(.., is_gone).collect();
        for open in gone {
            message!("task {} ({}) is not in the log", open.id, open.endpoint);
            self.finish(&open.id);
        }
        for task in tasks {
            let mut open = self.tasks.borrow_mut();
            let Some(index) = open.iter().position(|open| open.id == task.id) else { continue };
            if let Some(open) = open.get_mut(index) {
                self.queue_requests(open, &task);
                if !has_all(open, &task) {
                    continue;
                }
            }
            let ended = open.remove(index);
            drop(open);
            say_end(&ended, &task);
            self.finish(&ended.id);
        }
    }

    fn queue_requests(&self, open: &mut OpenTask, task: &Task) {
        for request in &task.requests {
            if !open.seen.insert(request.number) {
                continue;
            }
            let wait = if self.run.has_samples() { SAMPLES_FOLLOW } else { Duration::ZERO };
            let has_room = self.shared.queue.add(Job::Request(RequestJob {
                identity: Arc::clone(&self.identity),
                folder: self.run.folder.clone(),
                task: task.id.clone(),
                number: request.number,
                start_ns: request.start_ns,
                not_before: Instant::now() + wait,
            }));
            if !has_room {
                let queue = &self.shared.queue;
                let (waiting, all) = (queue.requests(), queue.count_dropped());
                message!(
                    "request {} of task {} is dropped, {all} so far: {waiting} wait",
                    request.number,
                    task.id
                );
            }
        }
    }

    fn finish(&self, id: &str) {
        let identity = Arc::clone(&self.identity);
        self.shared.note_finished(&self.run.folder, id);
        self.shared.queue.add(Job::Finish { identity, task: id.to_owned() });
    }

    /// Returns when the agent is gone.
    async fn until_gone(&self) {
        let mut asked = Instant::now();
        let mut silent = 0;
        loop {
            sleep(LOOK).await;
            if self.run.has_ended() {
                return;
            }
            let every = if self.tasks.borrow().is_empty() { ASK } else { ASK_IN_TASK };
            if asked.elapsed() < every {
                continue;
            }
            let (folder, token_file) =
                (self.run.folder.clone(), self.shared.options.token_file.clone());
            let answers = spawn_blocking(move || answers(&folder, token_file.as_deref())).await;
            silent = if answers.unwrap_or(true) { 0 } else { silent + 1 };
            if silent >= MOST_SILENT {
                return;
            }
            asked = Instant::now();
        }
    }

    /// Ends its tasks with what is in the log.
    async fn end(&self) {
        self.process.end();
        for Order { task, .. } in self.orders.take() {
            let ServerTask { id, endpoint, .. } = &task;
            message!("task {id} ({endpoint}) ends with the agent, which did not take it");
            self.finish(id);
        }
        if self.tasks.borrow().is_empty() {
            return;
        }
        sleep(ROWS_FOLLOW).await;
        self.look_at_log().await;
        for open in self.tasks.take() {
            let (id, endpoint, requests) = (&open.id, &open.endpoint, open.seen.len());
            message!("task {id} ({endpoint}) ends with the agent: {requests} requests");
            self.finish(id);
        }
    }
}

/// What the agent's answer says of an endpoint that is not there.
fn hint_of(answer: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let hints = answer.get("hints")?.as_array()?.iter().filter_map(Value::as_str);
    let hints = hints.collect::<Vec<_>>().join("; ");
    Some(hints).filter(|hints| !hints.is_empty())
}

/// Whether a task has ended, and all of its requests are in the log.
fn has_all(open: &mut OpenTask, task: &Task) -> bool {
    if !task.has_ended() {
        return false;
    }
    let ended = *open.ended.get_or_insert_with(Instant::now);
    task.requests.len() >= usize::try_from(task.recorded).unwrap_or(usize::MAX)
        || ended.elapsed() > ROWS_FOLLOW
}

fn say_end(open: &OpenTask, task: &Task) {
    let OpenTask { id, endpoint, seen, .. } = open;
    let why = task.reason.split("; ").next().unwrap_or_default();
    message!("task {id} ({endpoint}): {} ({why}), {} requests", task.state.name(), seen.len());
    if let Some(missing) = missing(&task.reason) {
        message!("task {id} ({endpoint}) could not record all: {missing}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_agent_rejects_tasks() {
        let failed = |error: &str, state| Answer::of(Err(error.to_owned().into()), state);
        let overlaps = "task: overlaps task 1 (a.B.c), which lasts until 2023-11-14T22:16:00Z";
        assert_eq!(failed(overlaps, None), Answer::Rejected(overlaps.into()));
        assert_eq!(failed(overlaps, Some("rejected")), Answer::Rejected(overlaps.into()));
        for error in
            ["Connection refused (os error 111)", "too many clients", "no answer within 5 s"]
        {
            assert_eq!(failed(error, None), Answer::Postponed(error.into()));
            assert_eq!(failed(error, Some("running")), Answer::Ordered);
        }
        // An earlier order's answer was lost.
        let exists = "task: task t exists";
        assert_eq!(failed(exists, Some("notified")), Answer::Ordered);
        assert_eq!(failed(exists, None), Answer::Postponed(exists.into()));
        assert_eq!(Answer::of(Ok(String::new()), None), Answer::Ordered);
    }
}
