//! What is asked of the engine, and its answers' way back.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::{Duration, Instant};

use log_format::pattern::Pattern;

use crate::drain::hot_methods::Period;
use crate::overhead::Millionths;
use crate::session::engine::{Found, Reply, Status};

/// How long an answer may take: a flush waits for the disk.
const ANSWER: Duration = Duration::from_secs(10);
/// How long it may take to put thousands of classes back.
const DETACH: Duration = Duration::from_secs(120);

/// What can be asked of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Begin recording.
    Start,
    /// End recording.
    Stop,
    /// Write everything so far to the disk.
    Flush,
    /// Say what is going on.
    Status,
    /// Set the threshold, in nanoseconds, of the methods that a pattern names or of all others.
    Threshold(Option<Pattern>, u64),
    /// Say which methods have the most time of their own, at most so many.
    Top(Period, usize),
    /// Say which calls have run for so many nanoseconds and go on.
    InFlight(u64),
    /// Mute the methods that a pattern names, or unmute them.
    Mute(Pattern, bool),
    /// Set the overhead budget, or do without one.
    Overhead(Option<Millionths>),
    /// Say which methods are left out for their cost.
    LeftOut,
    /// The JVM ends: write everything, and do no more.
    Finish,
    /// Leave the JVM as it was, and end.
    Detach,
}

pub(crate) type Answer = Result<Reply, String>;

/// Waits for a detach after the engine has panicked, and refuses all else. Returns where the answer goes; `None` if the
/// JVM ends.
pub(crate) fn answer_after_panic(requests: &Requests) -> Option<SyncSender<Answer>> {
    while let Ok(Asked { request, answer, .. }) = requests.recv() {
        match request {
            Request::Detach => return Some(answer),
            Request::Finish => {
                let _ = answer.send(Ok(Reply { status: Status::default(), found: Found::Nothing }));
                return None;
            }
            _ => {
                let error =
                    "profiling is off for good, after an internal error; detach is possible";
                let _ = answer.send(Err(error.to_owned()));
            }
        }
    }
    None
}

/// Asks the engine.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    requests: Sender<Asked>,
}

/// The engine's end of a [`Handle`].
pub(crate) type Requests = Receiver<Asked>;

/// A request, and where its answer goes.
#[derive(Debug)]
pub(crate) struct Asked {
    pub request: Request,
    pub answer: SyncSender<Answer>,
    /// Until when somebody waits for the answer.
    until: Instant,
}

impl Asked {
    /// Whether nobody waits any more, and an error has been reported. What the JVM's end asks is always done.
    pub(crate) fn is_late(&self) -> bool {
        Instant::now() >= self.until && self.request != Request::Finish
    }
}

impl Handle {
    pub(crate) fn new() -> (Self, Requests) {
        let (requests, receiver) = mpsc::channel();
        (Self { requests }, receiver)
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// One line: what went wrong.
    pub(crate) fn ask(&self, request: Request) -> Answer {
        let (answer, answers) = mpsc::sync_channel(1);
        let gone = "the profiler has ended".to_owned();
        let changes_classes =
            matches!(request, Request::Detach | Request::Mute(..) | Request::Overhead(_));
        let patience = if changes_classes { DETACH } else { ANSWER };
        let until = Instant::now() + patience;
        self.requests.send(Asked { request, answer, until }).map_err(|_| gone.clone())?;
        match answers.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("no answer within {} s", patience.as_secs()))
            }
            Err(RecvTimeoutError::Disconnected) => Err(gone),
        }
    }
}
