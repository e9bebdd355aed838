//! What all agents share.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tprofiler::cli::endpoints::Endpoints;

use crate::oap::Link;
use crate::options::Options;
use crate::queue::Queue;
use crate::stderr::message;

/// What all agents share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) link: Rc<Link>,
    pub(crate) queue: Rc<Queue>,
    /// As of the last time the file could be read.
    pub(crate) endpoints: RefCell<Endpoints>,
    /// When the server created the newest task of each instance. Another agent of that name does not begin its tasks
    /// again: the server was told that they have ended.
    taken: RefCell<HashMap<String, i64>>,
    /// Tasks of runs that the server was told have ended, the newest last.
    finished: RefCell<VecDeque<(PathBuf, String)>>,
    /// Messages that are printed once.
    said: RefCell<HashSet<String>>,
    open: Open,
}

/// A task that has not ended is counted as long as this exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open(Rc<()>);

impl Shared {
    pub(crate) fn new(
        options: Options,
        link: Rc<Link>,
        queue: Rc<Queue>,
        endpoints: Endpoints,
    ) -> Self {
        let endpoints = RefCell::new(endpoints);
        let (taken, said, open) = (RefCell::default(), RefCell::default(), Open::default());
        let finished = RefCell::default();
        Self { options, link, queue, endpoints, taken, finished, said, open }
    }

    /// Counts a task.
    pub(crate) fn open(&self) -> Open {
        Open(Rc::clone(&self.open.0))
    }

    /// Tasks that have not ended.
    pub(crate) fn open_tasks(&self) -> usize {
        Rc::strong_count(&self.open.0) - 1
    }

    /// When the server created the newest task that an instance has taken, in unix milliseconds.
    pub(crate) fn last_taken(&self, instance: &str) -> i64 {
        self.taken.borrow().get(instance).copied().unwrap_or(0)
    }

    /// Notes that an instance has taken a task.
    pub(crate) fn note_taken(&self, instance: &str, create_ms: i64) {
        /// Names with process ids would be ever more.
        const MOST: usize = 1_000;
        let mut taken = self.taken.borrow_mut();
        if taken.len() >= MOST && !taken.contains_key(instance) {
            taken.clear();
        }
        let newest = taken.entry(instance.to_owned()).or_insert(0);
        *newest = create_ms.max(*newest);
    }

    /// Notes that a run's task was reported as finished.
    pub(crate) fn note_finished(&self, run: &Path, task: &str) {
        /// Tasks older than these are over.
        const MOST: usize = 1_000;
        let mut finished = self.finished.borrow_mut();
        if finished.len() >= MOST {
            finished.pop_front();
        }
        finished.push_back((run.to_owned(), task.to_owned()));
    }

    /// Whether this process has told the server that a run's task has ended. An agent that did not answer for a while
    /// may get the task again under another name.
    pub(crate) fn has_finished(&self, run: &Path, task: &str) -> bool {
        self.finished.borrow().iter().any(|(of, id)| of == run && id == task)
    }

    /// Prints a message, unless it was printed before.
    pub(crate) fn say_once(&self, text: String) {
        /// More different ones are not kept, nor printed.
        const MOST: usize = 1_000;
        let mut said = self.said.borrow_mut();
        if said.len() < MOST && !said.contains(&text) {
            message!("{text}");
            said.insert(text);
        }
    }
}
