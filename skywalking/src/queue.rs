//! What waits to be sent: only what a request is called. Its rows are in the log.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;

/// Requests that wait. A task has nine at most, so this is more than a hundred tasks.
const MOST_REQUESTS: usize = 1_000;

/// How the server knows an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) service: String,
    pub(crate) instance: String,
}

/// Something to send.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    Request(RequestJob),
    /// All requests of a task were sent.
    Finish {
        identity: Arc<Identity>,
        task: String,
    },
}

/// A request of a task.
#[derive(Clone, Debug)]
pub(crate) struct RequestJob {
    pub(crate) identity: Arc<Identity>,
    /// The run's folder.
    pub(crate) folder: PathBuf,
    pub(crate) task: String,
    /// Its number in the task.
    pub(crate) number: u32,
    /// When it began, in unix nanoseconds.
    pub(crate) start_ns: u64,
    /// Samples of its thread may follow until then.
    pub(crate) not_before: Instant,
}

/// What kind of job was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Taken {
    #[default]
    Nothing,
    Request,
    Finish,
}

/// Jobs in order.
#[derive(Default)]
pub(crate) struct Queue {
    jobs: RefCell<VecDeque<Job>>,
    requests: Cell<usize>,
    /// What was taken last, and may not be sent yet.
    taken: Cell<Taken>,
    dropped: Cell<u64>,
    added: Notify,
}

impl Queue {
    /// Adds a job. Returns whether there was room; a task's end always has room.
    pub(crate) fn add(&self, job: Job) -> bool {
        if matches!(job, Job::Request(_)) {
            if self.requests.get() >= MOST_REQUESTS {
                return false;
            }
            self.requests.set(self.requests.get() + 1);
        }
        self.jobs.borrow_mut().push_back(job);
        self.added.notify_one();
        true
    }

    /// Takes the first job; waits for one. The one before it is done.
    pub(crate) async fn next(&self) -> Job {
        self.taken.set(Taken::Nothing);
        loop {
            let job = self.jobs.borrow_mut().pop_front();
            if let Some(job) = job {
                if matches!(job, Job::Request(_)) {
                    self.requests.set(self.requests.get().saturating_sub(1));
                    self.taken.set(Taken::Request);
                } else {
                    self.taken.set(Taken::Finish);
                }
                return job;
            }
            self.added.notified().await;
        }
    }

    /// Counts a request that is not sent. Returns how many there are.
    pub(crate) fn count_dropped(&self) -> u64 {
        self.dropped.set(self.dropped.get() + 1);
        self.dropped.get()
    }

    /// Requests that wait.
    pub(crate) fn requests(&self) -> usize {
        self.requests.get()
    }

    /// Requests that were not sent, with the one that is being sent, and tasks whose end the server was not told.
    pub(crate) fn unsent(&self) -> (usize, usize) {
        let taken = |kind| usize::from(self.taken.get() == kind);
        let finishes = self.jobs.borrow().len().saturating_sub(self.requests.get());
        (self.requests.get() + taken(Taken::Request), finishes + taken(Taken::Finish))
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn request(number: u32) -> Job {
        let identity = Arc::new(Identity { service: "shop".into(), instance: "web07".into() });
        Job::Request(RequestJob {
            identity,
            folder: PathBuf::new(),
            task: "t".into(),
            number,
            start_ns: 0,
            not_before: Instant::now(),
        })
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn jobs_come_in_order_and_requests_are_bounded() {
        let queue = Queue::default();
        for number in 0..1_000 {
            assert!(queue.add(request(number)));
        }
        assert!(!queue.add(request(1_000)));
        let Job::Request(RequestJob { identity, .. }) = request(0) else { panic!("a request") };
        assert!(queue.add(Job::Finish { identity, task: "t".into() }));
        assert_eq!(queue.unsent(), (1_000, 1));
        for number in 0..1_000 {
            let job = block_on(queue.next());
            // It is being sent.
            assert_eq!(queue.unsent(), (1_000 - number as usize, 1));
            assert!(matches!(job, Job::Request(RequestJob { number: n, .. }) if n == number));
        }
        assert!(matches!(block_on(queue.next()), Job::Finish { .. }));
        assert_eq!((queue.requests(), queue.unsent()), (0, (0, 1)));
        assert!(queue.add(request(1)));
    }

    #[test]
    fn an_empty_queue_waits_for_a_job() {
        let queue = Rc::new(Queue::default());
        let local = tokio::task::LocalSet::new();
        let waiting = Rc::clone(&queue);
        let taken = local.spawn_local(async move { waiting.next().await });
        let job = block_on(local.run_until(async {
            tokio::task::yield_now().await;
            queue.add(request(7));
            taken.await.unwrap()
        }));
        assert!(matches!(job, Job::Request(RequestJob { number: 7, .. })));
    }
}
