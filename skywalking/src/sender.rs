//! Sends what the queue has: of a request first its segment, then its snapshots, in batches.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;
use tokio::time::{sleep, sleep_until};

use crate::kafka::Kafka;
use crate::oap::messages::{Commands, TaskFinish, ThreadSnapshot};
use crate::oap::{Link, Refused, method};
use crate::queue::{Job, Queue, RequestJob};
use crate::request::{Loaded, Sendable, load};
use crate::stderr::message;

/// Time between two times of sending, as of SkyWalking's agent.
const SEND_EVERY: Duration = Duration::from_millis(500);
/// Snapshots that are sent at a time, in one batch or more.
const MOST_AT_ONCE: usize = 1_000;
/// How long the calls of a request may follow the request. An hour's files are not there for a moment when it is over.
const CALLS_FOLLOW: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Attempts to send what the server refuses: it may be starting.
const ATTEMPTS: u32 = 3;

/// Sends what the queue has.
pub(crate) struct Sender {
    link: Rc<Link>,
    queue: Rc<Queue>,
    kafka: Option<Kafka>,
    /// Snapshots that could not be sent.
    dropped: Cell<u64>,
}

impl Sender {
    pub(crate) fn new(link: Rc<Link>, queue: Rc<Queue>, kafka: Option<Kafka>) -> Self {
        Self { link, queue, kafka, dropped: Cell::default() }
    }

    /// Sends for ever.
    pub(crate) async fn run(self) {
        loop {
            match self.queue.next().await {
                Job::Request(job) => self.request(job).await,
                Job::Finish { identity, task } => {
                    let report = TaskFinish {
                        service: identity.service.clone(),
                        service_instance: identity.instance.clone(),
                        task_id: task.clone(),
                    };
                    let reported = self.deliver(async || {
                        self.link.call::<_, Commands>(method::REPORT_FINISH, &report).await
                    });
                    if let Err(refused) = reported.await {
                        message!("task {task}: the server refuses its end: {refused}");
                    }
                }
            }
        }
    }

    async fn request(&self, job: RequestJob) {
        sleep_until(job.not_before.into()).await;
        let name = format!("request {} of task {}", job.number, job.task);
        let Some(request) = self.load(job, &name).await else { return };
        let segment = [request.segment.clone()];
        let sent = self.deliver(async || {
            self.link.send::<_, Commands>(method::COLLECT_SEGMENTS, &segment).await
        });
        if let Err(refused) = sent.await {
            self.drop_snapshots(&name, request.count(), "its segment", &refused);
            return;
        }
        self.snapshots(&request, &name).await;
    }

    /// Reads a request from the log; says what is missing.
    async fn load(&self, job: RequestJob, name: &str) -> Option<Box<Sendable>> {
        let request = match read(job).await {
            Loaded::Whole(request) => request,
            Loaded::Partial(request) => {
                message!("{name}: the log lacks some of its calls");
                request
            }
            Loaded::Gone => {
                let all = self.queue.count_dropped();
                message!("{name} is dropped, {all} so far: it is not in the log");
                return None;
            }
        };
        if request.not_cut > 0 {
            let (rest, sent) = (request.not_cut, request.count());
            message!("{name}: only the first {sent} snapshots are sent, {rest} are dropped");
        }
        Some(request)
    }

    async fn snapshots(&self, request: &Sendable, name: &str) {
        let mut due = Instant::now() + SEND_EVERY;
        let (mut left, mut at_once) = (request.count(), 0);
        for batch in request.batches() {
            if at_once + batch.len() > MOST_AT_ONCE {
                sleep_until(due.into()).await;
                due = Instant::now() + SEND_EVERY;
                at_once = 0;
            }
            if let Err(refused) = self.batch(&batch).await {
                self.drop_snapshots(name, left, "snapshots", &refused);
                return;
            }
            left -= batch.len();
            at_once += batch.len();
        }
    }

    async fn batch(&self, batch: &[ThreadSnapshot]) -> Result<(), Refused> {
        if let Some(kafka) = &self.kafka {
            kafka.send(batch).await;
            return Ok(());
        }
        let sent = self.deliver(async || {
            self.link.send::<_, Commands>(method::COLLECT_SNAPSHOTS, batch).await
        });
        sent.await.map(drop)
    }

    /// Tries until the server takes it, but not for long.
    async fn deliver<A>(
        &self,
        attempt: impl AsyncFn() -> Result<A, Refused>,
    ) -> Result<A, Refused> {
        let mut wait = Duration::from_secs(1);
        for _ in 1..ATTEMPTS {
            match attempt().await {
                Err(refused) if !refused.is_unimplemented() => sleep(wait).await,
                answer => return answer,
            }
            wait *= 2;
        }
        attempt().await
    }

    fn drop_snapshots(&self, name: &str, count: usize, what: &str, refused: &Refused) {
        let all = self.dropped.get() + count as u64;
        self.dropped.set(all);
        message!(
            "{name}: the server refuses {what}: {refused}; {count} snapshots are dropped, {all} so far"
        );
    }
}

/// Reads a request from the log. Waits for what is not there yet.
async fn read(job: RequestJob) -> Loaded {
    let until = Instant::now() + CALLS_FOLLOW;
    loop {
        let wanted = job.clone();
        let loaded = spawn_blocking(move || load(&wanted)).await.unwrap_or(Loaded::Gone);
        // A folder that is deleted does not come back.
        let may_come = match loaded {
            Loaded::Whole(_) => false,
            Loaded::Partial(_) => true,
            Loaded::Gone => job.folder.exists(),
        };
        if !may_come || Instant::now() >= until {
            return loaded;
        }
        sleep(LOOK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use log_format::rows::{Exit, TaskState};

    use super::*;
    use crate::request::tests::Log;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn a_request_that_is_not_in_the_log_for_a_moment_is_waited_for() {
        let log = Log::new();
        let loaded = block_on(async {
            let write = async {
                sleep(Duration::from_millis(200)).await;
                log.add_task(TaskState::Running, "");
                log.add_request(0, Exit::Return);
            };
            tokio::join!(read(log.job()), write).0
        });
        assert!(matches!(loaded, Loaded::Whole(_)));
        let gone = log.job();
        drop(log);
        let began = Instant::now();
        assert!(matches!(block_on(read(gone)), Loaded::Gone));
        assert!(began.elapsed() < CALLS_FOLLOW);
    }
}
