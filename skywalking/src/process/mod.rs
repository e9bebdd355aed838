//! The agent's JVM as a process of SkyWalking's eBPF profiling: reported, kept alive, and profiled for fixed times, from
//! its log. Nothing of eBPF is used, and the agent does nothing more than without a task.

mod order;
mod stacks;
mod switches;

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};
use tprofiler::cli::run_agent::ask;

use self::order::{NAME, ProfilingOrder, Target, update_time};
use self::switches::Switches;
use crate::oap::messages::{Command, Commands, KeyValue};
use crate::oap::process_messages::{
    HostProcess, ProcessEntity, ProcessPing, ProcessPings, ProcessProperties, ProcessReport,
    Profiled, ProfilingData, ProfilingQuery, ProfilingTask, ReportedProcesses,
};
use crate::oap::{Refused, method};
use crate::queue::Identity;
use crate::runs::LiveRun;
use crate::service::Shared;
use crate::stderr::message;

/// The server forgets a process that is silent for longer than a minute or so.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// How often the kernel's counts of context switches are read.
const LOOK: Duration = Duration::from_secs(5);
/// Rows may take so long to reach the log after a flush.
const ROWS_FOLLOW: Duration = Duration::from_millis(1_500);
/// The least time between two moments that the server can tell apart, and how many there are at most in a task.
const LEAST_SLICE_MS: u64 = 10_000;
const MOST_SLICES: u64 = 60;
/// Stacks in a call.
const BATCH: usize = 1_000;
/// Most tasks at a time: one of each kind is usual.
const MOST_TASKS: usize = 8;

/// A task that has not ended.
struct OpenTask {
    order: ProfilingOrder,
    process: String,
    began_ms: u64,
    ends: Instant,
    switches: Switches,
    next_look: Instant,
}

/// The process of one agent.
pub(crate) struct Process {
    shared: Rc<Shared>,
    identity: Arc<Identity>,
    run: LiveRun,
    tasks: RefCell<Vec<OpenTask>>,
}

impl Process {
    pub(crate) fn new(shared: Rc<Shared>, identity: Arc<Identity>, run: LiveRun) -> Self {
        Self { shared, identity, run, tasks: RefCell::default() }
    }

    /// Reports the process and carries out its tasks, for ever.
    pub(crate) async fn serve(&self) {
        if let Err(refused) = self.go_on().await {
            let why = if refused.is_unimplemented() {
                "the server has no eBPF receiver".to_owned()
            } else {
                format!("the server refuses processes: {refused}")
            };
            self.shared.say_once(format!("{why}; processes are not profiled"));
        }
        std::future::pending().await
    }

    async fn go_on(&self) -> Result<(), Refused> {
        let link = &self.shared.link;
        let (mut returns, mut process) = (None, None);
        let mut newest = 0;
        let mut next_ping = Instant::now();
        let mut next_poll = Instant::now();
        loop {
            let now = Instant::now();
            // A server that was away may have forgotten it.
            if process.is_none() || returns != Some(link.returns()) {
                process = self.report().await?;
                returns = Some(link.returns());
                next_ping = now + KEEP_ALIVE;
            }
            if now >= next_ping {
                let pings = ProcessPings {
                    processes: vec![ProcessPing {
                        entity: Some(self.entity()),
                        properties: properties(),
                    }],
                    agent_id: self.agent_id(),
                };
                link.call::<_, Commands>(method::PROCESS_KEEP_ALIVE, &pings).await?;
                next_ping = now + KEEP_ALIVE;
            }
            if let Some(process) = process.as_deref().filter(|_| now >= next_poll) {
                let query =
                    ProfilingQuery { agent_id: self.agent_id(), latest_update_time: newest };
                let commands: Commands = link.call(method::QUERY_PROFILING, &query).await?;
                for command in commands.commands {
                    newest = newest.max(update_time(&command));
                    self.take(&command, process);
                }
                next_poll = now + self.shared.options.poll;
            }
            self.look_at_tasks().await;
            sleep_until(now + Duration::from_secs(1)).await;
        }
    }

    /// Reports the process; its id.
    async fn report(&self) -> Result<Option<String>, Refused> {
        let host_process = HostProcess {
            entity: Some(self.entity()),
            pid: i32::try_from(self.run.about.pid).unwrap_or(0),
            properties: properties(),
        };
        let processes = vec![ProcessProperties { host_process: Some(host_process) }];
        let report = ProcessReport { processes, agent_id: self.agent_id() };
        let link = &self.shared.link;
        let reported: ReportedProcesses = link.call(method::REPORT_PROCESSES, &report).await?;
        Ok(reported.processes.into_iter().next().map(|process| process.id))
    }

    fn entity(&self) -> ProcessEntity {
        ProcessEntity {
            layer: self.shared.options.layer.clone(),
            service: self.identity.service.clone(),
            instance: self.identity.instance.clone(),
            process: self.run.about.service.clone(),
            labels: vec!["tprofiler".to_owned()],
        }
    }

    /// Unique: a run has its own.
    fn agent_id(&self) -> String {
        let run = self.run.folder.file_name().unwrap_or_default().to_string_lossy();
        format!("tprofiler-{run}")
    }

    /// Begins the task of a command.
    fn take(&self, command: &Command, process: &str) {
        if command.command != NAME {
            let name = &command.command;
            return self.shared.say_once(format!("the server's command {name} is not known here"));
        }
        let order = match ProfilingOrder::of(command) {
            Ok(order) => order,
            Err(error) => return message!("a profiling task is ignored: {error}"),
        };
        let is_known = self.tasks.borrow().iter().any(|task| task.order.id == order.id);
        let now_ms = now_ms();
        let end_ms = order.start_ms.saturating_add(order.seconds * 1_000);
        if is_known || !order.processes.iter().any(|id| id == process) || now_ms >= end_ms {
            return;
        }
        if self.tasks.borrow().len() >= MOST_TASKS {
            return message!("profiling task {} is ignored: {MOST_TASKS} others run", order.id);
        }
        let (id, seconds, target) = (&order.id, order.seconds, name(order.target));
        message!("profiling task {id} of {}: {target}, {seconds} s", self.identity.instance);
        let began_ms = order.start_ms.max(now_ms);
        let now = Instant::now();
        self.tasks.borrow_mut().push(OpenTask {
            process: process.to_owned(),
            began_ms,
            ends: now + Duration::from_millis(end_ms - now_ms),
            switches: Switches::new(self.run.about.pid, self.run.token().map(Path::to_owned)),
            next_look: now + Duration::from_millis(began_ms - now_ms),
            order,
        });
    }

    /// Looks at the switches of running tasks, and ends those whose time is over.
    async fn look_at_tasks(&self) {
        let now = Instant::now();
        for task in self.tasks.borrow_mut().iter_mut() {
            if task.order.target == Target::OffCpu && now >= task.next_look {
                task.switches.look();
                task.next_look = (now + LOOK).min(task.ends);
            }
        }
        let ended: Vec<OpenTask> =
            self.tasks.borrow_mut().extract_if(.., |task| now >= task.ends).collect();
        if ended.is_empty() {
            return;
        }
        let (folder, token_file) =
            (self.run.folder.clone(), self.shared.options.token_file.clone());
        let flushed = spawn_blocking(move || ask(&folder, token_file.as_deref(), "flush")).await;
        if let Ok(Err(error)) = flushed {
            message!("the agent's log may lack the last minute: {error}");
        }
        sleep(ROWS_FOLLOW).await;
        for task in ended {
            let end_ms = task.order.start_ms.saturating_add(task.order.seconds * 1_000);
            self.send(task, end_ms).await;
        }
    }

    /// Ends its tasks with what is in the log, because the agent has ended.
    pub(crate) async fn end(&self) {
        let now_ms = now_ms();
        let tasks: Vec<OpenTask> = self.tasks.borrow_mut().drain(..).collect();
        for task in tasks {
            message!("profiling task {} ends with the agent", task.order.id);
            self.send(task, now_ms).await;
        }
    }

    /// Sends what a task has found up to a moment.
    async fn send(&self, task: OpenTask, end_ms: u64) {
        let OpenTask { order, process, began_ms, switches, .. } = task;
        let (id, target, folder) = (order.id.clone(), order.target, self.run.folder.clone());
        let slices = slices(began_ms, end_ms, target);
        let counted = (target == Target::OffCpu).then_some(switches);
        let read = spawn_blocking(move || {
            let read = |(from, to)| (to, stacks::read(&folder, target, from, to, counted.as_ref()));
            slices.into_iter().map(read).collect::<Vec<_>>()
        });
        let Ok(read) = read.await else { return };
        let source = read.first().map(|(_, stacks)| stacks.source.clone()).unwrap_or_default();
        let mut sent = 0;
        for (to_ms, stacks) in read {
            let task = ProfilingTask {
                task_id: id.clone(),
                process_id: process.clone(),
                start_time: as_i64(began_ms),
                current_time: as_i64(to_ms),
            };
            for batch in stacks.profiled.chunks(BATCH) {
                let data = |profiled: &Profiled| ProfilingData {
                    task: Some(task.clone()),
                    profiled: Some(profiled.clone()),
                };
                let data: Vec<ProfilingData> = batch.iter().map(data).collect();
                let link = &self.shared.link;
                if let Err(refused) =
                    link.send::<_, Commands>(method::COLLECT_PROFILING, &data).await
                {
                    return message!("profiling task {id}: the server refuses stacks: {refused}");
                }
                sent += batch.len();
            }
        }
        message!("profiling task {id} ({}): {sent} stacks sent, by {source}", name(target));
    }
}

/// The parts of a task's time that the server can tell apart. Switches are counted for all of it, so its waits are one
/// part.
fn slices(from_ms: u64, to_ms: u64, target: Target) -> Vec<(u64, u64)> {
    let all = to_ms.saturating_sub(from_ms);
    if target == Target::OffCpu {
        return vec![(from_ms, to_ms)];
    }
    let step = LEAST_SLICE_MS.max(all.div_ceil(MOST_SLICES)).next_multiple_of(1_000);
    let starts = (from_ms..to_ms).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    starts.map(|start| (start, (start + step).min(to_ms))).collect()
}

/// What SkyWalking's UI needs to offer tasks.
fn properties() -> Vec<KeyValue> {
    vec![KeyValue::new("support_ebpf_profiling", "true")]
}

const fn name(target: Target) -> &'static str {
    match target {
        Target::OnCpu => "ON_CPU",
        Target::OffCpu => "OFF_CPU",
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn as_i64(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_slices_that_follow_each_other() {
        let (on, off) = (Target::OnCpu, Target::OffCpu);
        assert_eq!(slices(500, 25_500, on), [(500, 10_500), (10_500, 20_500), (20_500, 25_500)]);
        assert_eq!(slices(500, 25_500, off), [(500, 25_500)]);
        assert_eq!(slices(5, 5, on), []);
        let hour = slices(0, 3_600_000, on);
        assert_eq!((hour.len(), hour[0]), (60, (0, 60_000)));
        assert!(hour.windows(2).all(|pair| pair[0].1 == pair[1].0));
    }
}
