//! Finds the agents of the log folder, and serves them until a signal ends the program.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, LocalSet, spawn_blocking, spawn_local};
use tokio::time::{sleep, timeout};
use tprofiler::cli::endpoints::Endpoints;

use crate::error::Error;
use crate::instance::Instance;
use crate::kafka::Kafka;
use crate::oap::Link;
use crate::options::Options;
use crate::queue::{Identity, Queue};
use crate::runs::{Runs, answers};
use crate::sender::Sender;
use crate::service::Shared;
use crate::stderr::message;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long an agent may take to say that it still has its name.
const ANSWER: Duration = Duration::from_secs(3);
/// Threads that read files and wait for agents. Agents that hang take one each for some seconds.
const MOST_THREADS: usize = 8;
/// How long such threads may take when the program ends.
const END: Duration = Duration::from_millis(500);

/// Serves until SIGINT or SIGTERM.
///
/// # Errors
/// It cannot begin.
pub fn run(options: Options) -> Result<(), Error> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MOST_THREADS)
        .thread_keep_alive(Duration::from_secs(5))
        .build()?;
    let served = LocalSet::new().block_on(&runtime, serve(options));
    runtime.shutdown_timeout(END);
    served
}

async fn serve(options: Options) -> Result<(), Error> {
    let endpoints = options.endpoints.as_deref().map(Endpoints::read).transpose();
    let endpoints = endpoints.map_err(|error| error.of("--endpoints"))?.unwrap_or_default();
    let link = Rc::new(Link::new(&options)?);
    let queue = Rc::new(Queue::default());
    let kafka = (!options.kafka.is_empty()).then(|| Kafka::new(options.kafka.clone()));
    let mut ended = Ended::new()?;
    message!(
        "service {}: following {}, server {}",
        options.service,
        options.logs.display(),
        link.addresses()
    );
    spawn_local(Sender::new(Rc::clone(&link), Rc::clone(&queue), kafka).run());
    let shared = Rc::new(Shared::new(options, link, queue, endpoints));
    tokio::select! {
        () = find_agents(&shared) => {}
        () = ended.wait() => {}
    }
    let (requests, ends) = shared.queue.unsent();
    message!("{}", last_message(requests, shared.open_tasks() + ends));
    Ok(())
}

/// What is printed at the end.
fn last_message(requests: usize, tasks: usize) -> String {
    let requests = match requests {
        0 => String::new(),
        count => format!("; {count} requests were not sent, analyze --task shows them"),
    };
    let tasks = match tasks {
        0 => String::new(),
        count => format!("; {count} tasks were open"),
    };
    format!("ended{requests}{tasks}")
}

/// SIGINT and SIGTERM.
struct Ended {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Ended {
    fn new() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// An agent that is served.
struct Served {
    identity: Arc<Identity>,
    task: JoinHandle<()>,
    /// Tells it that its agent is gone.
    given_up: Rc<Notify>,
    /// Another agent may not have its name.
    has_name: bool,
}

/// Begins to serve each agent that appears.
async fn find_agents(shared: &Rc<Shared>) {
    let Options { logs, token_file, .. } = &shared.options;
    let mut runs = Runs::new(logs.clone(), token_file.clone());
    let mut served: BTreeMap<PathBuf, Served> = BTreeMap::new();
    loop {
        served.retain(|_, agent| !agent.task.is_finished());
        let known: Vec<PathBuf> = served.keys().cloned().collect();
        let looked = spawn_blocking(move || {
            let found = runs.look(&known);
            (runs, found)
        });
        // It does not panic; if it does, nothing is left to look with.
        let Ok((looked, found)) = looked.await else { return };
        runs = looked;
        for run in found {
            let base = shared.options.instance.as_deref().unwrap_or(&run.about.host);
            free_names(&names(base, run.about.pid), &mut served, token_file.as_ref()).await;
            let taken = served.values().filter(|agent| agent.has_name);
            let taken: Vec<&str> = taken.map(|agent| &*agent.identity.instance).collect();
            let instance = instance_name(base, run.about.pid, &taken);
            let service = shared.options.service.clone();
            let identity = Arc::new(Identity { service, instance });
            let folder = run.folder.clone();
            let agent = Instance::new(Rc::clone(shared), Arc::clone(&identity), run);
            let given_up = Rc::new(Notify::new());
            let task = spawn_local(agent.serve(Rc::clone(&given_up)));
            served.insert(folder, Served { identity, task, given_up, has_name: true });
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Asks the agents that have one of these names, up to the first that is free or stays. One that does not answer any
/// more, because its JVM was killed, loses its name to its successor.
async fn free_names(
    names: &[String],
    served: &mut BTreeMap<PathBuf, Served>,
    token_file: Option<&PathBuf>,
) {
    for name in names {
        let is_holder = |agent: &Served| agent.has_name && agent.identity.instance == *name;
        let holder = served.iter_mut().find(|(_, agent)| is_holder(agent));
        let Some((folder, agent)) = holder else { return };
        let (folder, token_file) = (folder.clone(), token_file.cloned());
        let asked = spawn_blocking(move || answers(&folder, token_file.as_deref()));
        // One that is slow may be suspended: it keeps its name until it is known to be gone.
        if let Ok(Ok(false)) = timeout(ANSWER, asked).await {
            agent.given_up.notify_one();
            agent.has_name = false;
            return;
        }
    }
}

/// The names that an agent's instance is to have, the best first.
fn names(base: &str, pid: u32) -> [String; 2] {
    [base.to_owned(), format!("{base}@{pid}")]
}

/// The name of an agent's instance: `web07`, or `web07@4242` while another agent has that name.
fn instance_name(base: &str, pid: u32, taken: &[&str]) -> String {
    let free = names(base, pid).into_iter().find(|name| !taken.contains(&&**name));
    // Containers beside each other may have the same process ids.
    free.unwrap_or_else(|| {
        let numbered = (2_u32..).map(|number| format!("{base}@{pid}-{number}"));
        numbered.into_iter().find(|name| !taken.contains(&&**name)).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_says_what_is_left() {
        assert_eq!(last_message(0, 0), "ended");
        assert_eq!(last_message(0, 1), "ended; 1 tasks were open");
        assert_eq!(
            last_message(3, 2),
            "ended; 3 requests were not sent, analyze --task shows them; 2 tasks were open"
        );
    }

    #[test]
    fn an_agent_that_is_gone_loses_its_name() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let given_up = Rc::new(Notify::new());
            let told = Rc::clone(&given_up);
            let identity = Identity { service: "shop".into(), instance: "web07".into() };
            let agent = Served {
                identity: Arc::new(identity),
                task: spawn_local(async move { told.notified().await }),
                given_up,
                has_name: true,
            };
            let run = PathBuf::from("/nonexistent/run");
            let mut served = BTreeMap::from([(run.clone(), agent)]);
            free_names(&names("web08", 7), &mut served, None).await;
            assert!(served[&run].has_name, "another name was wanted");
            free_names(&names("web07", 7), &mut served, None).await;
            let agent = served.remove(&run).unwrap();
            assert!(!agent.has_name);
            timeout(ANSWER, agent.task).await.unwrap().unwrap();
        });
    }

    #[test]
    fn an_instance_has_its_own_name() {
        assert_eq!(instance_name("web07", 4242, &[]), "web07");
        assert_eq!(instance_name("web07", 4242, &["web07"]), "web07@4242");
        assert_eq!(instance_name("web07", 4242, &["web07@4243"]), "web07");
        assert_eq!(instance_name("web07", 1, &["web07", "web07@1"]), "web07@1-2");
    }
}
