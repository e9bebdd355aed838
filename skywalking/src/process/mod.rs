//! The agent's JVM as a process of SkyWalking's eBPF profiling: reported, kept alive, and profiled for fixed times,
//! from its log. Nothing of eBPF is used, and the agent does nothing more than without a task.

mod order;
mod stacks;
mod switches;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::{spawn_blocking, spawn_local};
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
use crate::service::{Open, Shared};
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

/// A last look that is later than this counts nothing: its switches are not the task's.
const LATE: Duration = Duration::from_secs(1);

/// A task that has not ended.
struct OpenTask {
    order: ProfilingOrder,
    process: String,
    began_ms: u64,
    ends: Instant,
    switches: Switches,
    next_look: Instant,
    /// It is counted among the open ones.
    _open: Open,
}

impl OpenTask {
    fn end_ms(&self) -> u64 {
        self.order.start_ms.saturating_add(self.order.seconds * 1_000)
    }

    /// Looks at the switches if it is time to: from the task's begin to its end, with a last look there.
    fn look(&mut self, now: Instant) {
        if self.order.target == Target::OffCpu && now >= self.next_look && now < self.ends + LATE {
            self.switches.look();
            let next = if now < self.ends { (now + LOOK).min(self.ends) } else { now + LOOK };
            self.next_look = next;
        }
    }
}

/// What the server knows of the process.
#[derive(Default)]
struct Known {
    /// How often the server had come back when the process was reported.
    returns: Option<u32>,
    /// The process's id.
    process: Option<String>,
    /// When the newest task was changed.
    newest: i64,
    next_ping: Option<Instant>,
    next_poll: Option<Instant>,
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

    /// Reports the process and carries out its tasks, for ever. Looks at threads do not wait for the server.
    pub(crate) async fn serve(&self) {
        tokio::join!(self.talk(), self.look_at_tasks());
    }

    /// Reports the process and asks for tasks, again and again.
    async fn talk(&self) {
        let mut known = Known::default();
        loop {
            let began = Instant::now();
            let wait = match self.turn(&mut known).await {
                Ok(()) => Duration::from_secs(1),
                Err(refused) if refused.is_unimplemented() => {
                    let text = "the server has no eBPF receiver; processes are not profiled";
                    self.shared.say_once(text.to_owned());
                    return;
                }
                Err(refused) => {
                    self.shared.say_once(format!("the server refuses processes: {refused}"));
                    known.returns = None;
                    self.shared.options.poll
                }
            };
            sleep_until(began + wait).await;
        }
    }

    /// Tells the server what is due, and asks it.
    async fn turn(&self, known: &mut Known) -> Result<(), Refused> {
        let link = &self.shared.link;
        let now = Instant::now();
        let is_due = |next: Option<Instant>| next.is_none_or(|next| now >= next);
        // A server that was away may have forgotten it.
        if known.returns != Some(link.returns())
            || (known.process.is_none() && is_due(known.next_ping))
        {
            known.process = self.report().await?;
            known.returns = Some(link.returns());
            known.next_ping = Some(now + KEEP_ALIVE);
        }
        if is_due(known.next_ping) {
            let ping = ProcessPing { entity: Some(self.entity()), properties: properties() };
            let pings = ProcessPings { processes: vec![ping], agent_id: self.agent_id() };
            link.call::<_, Commands>(method::PROCESS_KEEP_ALIVE, &pings).await?;
            known.next_ping = Some(now + KEEP_ALIVE);
        }
        if let Some(process) = known.process.as_deref().filter(|_| is_due(known.next_poll)) {
            known.next_poll = Some(now + self.shared.options.poll);
            let query =
                ProfilingQuery { agent_id: self.agent_id(), latest_update_time: known.newest };
            let commands: Commands = link.call(method::QUERY_PROFILING, &query).await?;
            for command in commands.commands {
                known.newest = known.newest.max(update_time(&command));
                self.take(&command, process);
            }
        }
        Ok(())
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
            _open: self.shared.open(),
        });
    }

    /// Looks at the switches of running tasks, and ends those whose time is over, for ever.
    async fn look_at_tasks(&self) {
        loop {
            let now = Instant::now();
            let next = {
                let mut tasks = self.tasks.borrow_mut();
                tasks.iter_mut().for_each(|task| task.look(now));
                let ended: Vec<OpenTask> = tasks.extract_if(.., |task| now >= task.ends).collect();
                if !ended.is_empty() {
                    spawn_local(self.sending().send_ended(ended));
                }
                tasks.iter().map(|task| task.ends).min()
            };
            // A new one may come meanwhile.
            let soon = now + Duration::from_secs(1);
            sleep_until(next.map_or(soon, |next| next.min(soon))).await;
        }
    }

    /// Ends its tasks with what is in the log, because the agent has ended.
    pub(crate) fn end(&self) {
        let now_ms = now_ms();
        let tasks: Vec<OpenTask> = self.tasks.borrow_mut().drain(..).collect();
        if tasks.is_empty() {
            return;
        }
        let sending = self.sending();
        spawn_local(async move {
            sleep(ROWS_FOLLOW).await;
            for task in tasks {
                message!("profiling task {} ends with the agent", task.order.id);
                let end_ms = task.end_ms().min(now_ms);
                sending.send(task, end_ms).await;
            }
        });
    }

    fn sending(&self) -> Sending {
        Sending { shared: Rc::clone(&self.shared), folder: self.run.folder.clone() }
    }
}

/// Sends what tasks have found. It goes on when the agent has ended, and does not hold up others while the server is
/// away.
struct Sending {
    shared: Rc<Shared>,
    folder: PathBuf,
}

impl Sending {
    /// Sends tasks whose time is over.
    async fn send_ended(self, tasks: Vec<OpenTask>) {
        let (folder, token_file) = (self.folder.clone(), self.shared.options.token_file.clone());
        let flushed = spawn_blocking(move || ask(&folder, token_file.as_deref(), "flush")).await;
        if let Ok(Err(error)) = flushed {
            message!("the agent's log may lack the last minute: {error}");
        }
        sleep(ROWS_FOLLOW).await;
        for task in tasks {
            let end_ms = task.end_ms();
            self.send(task, end_ms).await;
        }
    }

    /// Sends what a task has found up to a moment.
    async fn send(&self, task: OpenTask, end_ms: u64) {
        let OpenTask { order, process, began_ms, switches, _open, .. } = task;
        let (id, target, folder) = (order.id.clone(), order.target, self.folder.clone());
        let slices = slices(began_ms, end_ms, target);
        if slices.is_empty() {
            return message!("profiling task {id} had not begun");
        }
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
    if target == Target::OffCpu && all > 0 {
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
    fn a_task_is_looked_at_from_its_begin_to_its_end() {
        let now = Instant::now();
        let s = |seconds: u64| now + Duration::from_secs(seconds);
        let order = ProfilingOrder {
            id: "t".into(),
            processes: vec![],
            target: Target::OffCpu,
            start_ms: 0,
            seconds: 12,
        };
        let mut task = OpenTask {
            order,
            process: "p".into(),
            began_ms: 0,
            ends: s(12),
            switches: Switches::new(std::process::id(), None),
            next_look: s(0),
            _open: Open::default(),
        };
        assert_eq!(task.end_ms(), 12_000);
        let mut looks = Vec::new();
        for second in 0..20 {
            let next = task.next_look;
            task.look(s(second));
            if task.next_look != next {
                looks.push(second);
            }
        }
        // The last one is at its end.
        assert_eq!(looks, [0, 5, 10, 12]);
        (task.next_look, task.order.target) = (s(0), Target::OnCpu);
        task.look(s(1));
        assert_eq!(task.next_look, s(0));
    }

    #[test]
    fn a_task_has_slices_that_follow_each_other() {
        let (on, off) = (Target::OnCpu, Target::OffCpu);
        assert_eq!(slices(500, 25_500, on), [(500, 10_500), (10_500, 20_500), (20_500, 25_500)]);
        assert_eq!(slices(500, 25_500, off), [(500, 25_500)]);
        for (from_ms, to_ms) in [(5, 5), (6, 5)] {
            assert_eq!((slices(from_ms, to_ms, on), slices(from_ms, to_ms, off)), (vec![], vec![]));
        }
        let hour = slices(0, 3_600_000, on);
        assert_eq!((hour.len(), hour[0]), (60, (0, 60_000)));
        assert!(hour.windows(2).all(|pair| pair[0].1 == pair[1].0));
    }
}
