//! Finds the agents of the log folder, and serves them until a signal ends the program.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinHandle, LocalSet, spawn_blocking, spawn_local};
use tokio::time::sleep;
use tprofiler::cli::endpoints::Endpoints;

use crate::error::Error;
use crate::instance::Instance;
use crate::kafka::Kafka;
use crate::oap::Link;
use crate::options::Options;
use crate::queue::{Identity, Queue};
use crate::runs::Runs;
use crate::sender::Sender;
use crate::service::Shared;
use crate::stderr::message;

const LOOK_EVERY: Duration = Duration::from_secs(1);
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
    match shared.queue.requests() {
        0 => message!("ended"),
        count => message!("ended; {count} requests were not sent, analyze --task shows them"),
    }
    Ok(())
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

/// Begins to serve each agent that appears.
async fn find_agents(shared: &Rc<Shared>) {
    let Options { logs, token_file, .. } = &shared.options;
    let mut runs = Runs::new(logs.clone(), token_file.clone());
    let mut served: BTreeMap<PathBuf, (Arc<Identity>, JoinHandle<()>)> = BTreeMap::new();
    loop {
        served.retain(|_, (_, agent)| !agent.is_finished());
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
            let taken = served.values().map(|(identity, _)| &*identity.instance);
            let instance = instance_name(base, run.about.pid, &taken.collect::<Vec<_>>());
            let service = shared.options.service.clone();
            let identity = Arc::new(Identity { service, instance });
            let folder = run.folder.clone();
            let agent = Instance::new(Rc::clone(shared), Arc::clone(&identity), run);
            served.insert(folder, (identity, spawn_local(agent.serve())));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// The name of an agent's instance: `web07`, or `web07@4242` while another agent has that name.
fn instance_name(base: &str, pid: u32, taken: &[&str]) -> String {
    let names = [base.to_owned(), format!("{base}@{pid}")];
    let free = names.into_iter().find(|name| !taken.contains(&&**name));
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
    fn an_instance_has_its_own_name() {
        assert_eq!(instance_name("web07", 4242, &[]), "web07");
        assert_eq!(instance_name("web07", 4242, &["web07"]), "web07@4242");
        assert_eq!(instance_name("web07", 4242, &["web07@4243"]), "web07");
        assert_eq!(instance_name("web07", 1, &["web07", "web07@1"]), "web07@1-2");
    }
}
