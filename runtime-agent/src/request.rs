//! Requests to the agent thread, and its answers.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::{Duration, Instant};

use log_format::pattern::Pattern;
use log_format::rows::TaskRow;

use crate::drain::exceptions::ExceptionFigures;
use crate::drain::hot_methods::Hottest;
use crate::drain::in_flight::InFlight;
use crate::drain::run_clock::ClockFigures;
use crate::drain::run_sums::CallSums;
use crate::drain::samples::SamplingFigures;
use crate::drain::thresholds_in_force::Thresholds;
use crate::drain::time_slices::Period;
use crate::error::Error;
use crate::instrument::change_counts::LoadedClassFigures;
use crate::instrument::class_hook::InstrumentedFigures;
use crate::instrument::guards::Muting;
use crate::instrument::method_states::MethodStates;
use crate::instrument::methods::Method;
use crate::log::LogFigures;
use crate::options::CpuShare;
use crate::overhead::{OverheadFigures, Throttled};
use crate::probe::mounts::Events;
use crate::sampling::thread_now::ThreadNow;
use crate::self_test::verdict::Verdict;
use crate::tasks::TaskCommand;

/// How long an answer may take: a flush waits for the disk.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a request that changes classes may take: a detach restores thousands.
const DETACH: Duration = Duration::from_secs(120);

/// The answer to requests that come too late.
pub(crate) const ENDED: Error = Error::State("the agent has ended, or is ending with its JVM");

/// What [`Request::Top`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Top {
    pub period: Period,
    /// At most so many of each kind.
    pub count: usize,
    /// Nothing but SQL statements.
    pub only_sql: bool,
}

/// A request to the agent thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Begin recording.
    Start,
    /// End recording.
    Stop,
    /// Write everything so far to the disk.
    Flush,
    /// Show the status.
    Status,
    /// Set the threshold of the methods that a pattern names or of all others.
    Threshold(Option<Pattern>, Duration),
    /// Find the methods with the most self time.
    Top(Top),
    /// Find calls in progress that have run for at least so long.
    InFlight(Duration),
    /// Find what threads do now.
    Threads,
    /// Find the states of the methods that a pattern matches.
    Methods(Pattern),
    /// Mute the methods that a pattern names, or unmute them.
    Mute(Pattern, bool),
    /// Set the overhead budget, or remove it.
    Overhead(Option<CpuShare>),
    /// Sample allocations with so many bytes in between, or none.
    Alloc(Option<u64>),
    /// Take the stack of one in so many calls of the methods that a pattern names; with 0, of none.
    Trace(Pattern, u64),
    /// Trace nothing any more.
    Untrace,
    /// Show which methods are traced.
    Traces,
    /// List the throttled methods.
    Throttled,
    /// Run, list or cancel profile tasks.
    Task(TaskCommand),
    /// The JVM ends: write everything, then stop.
    Finish,
    /// Restore the JVM to its state before the agent, and end.
    Detach,
}

/// The agent's status.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Status {
    pub recording: RecordingFigures,
    pub calls: CallSums,
    pub exceptions: ExceptionFigures,
    pub memory: MemoryFigures,
    pub muting: Muting,
    pub overhead: OverheadFigures,
    pub instrumented: InstrumentedFigures,
    pub loaded_classes: LoadedClassFigures,
    pub log: LogFigures,
    pub clock: ClockFigures,
    /// CPU samples; `None` with `cpu=off`.
    pub sampling: Option<SamplingFigures>,
    /// What self-tests found.
    pub self_tests: SelfTestFigures,
    /// Hints for the user, a line each.
    pub hints: Vec<String>,
}

/// Whether calls are recorded, and which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordingFigures {
    pub is_on: bool,
    /// Since when it is on or off, in unix nanoseconds.
    pub since_ns: u64,
    pub thresholds: Thresholds,
    /// Which methods are traced, and one in how many of their calls.
    pub traces: Vec<(Pattern, u64)>,
}

/// Memory that grows with threads and calls, and what happened for lack of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryFigures {
    pub used_bytes: u64,
    pub max_bytes: u64,
    /// Threads of which at least some calls were lost.
    pub threads_not_measured: u64,
}

/// The result of a request that asks for one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    Nothing,
    /// With the methods in the same order.
    Top(Hottest, Vec<TopMethod>),
    /// With what threads wait for, as far as that is known.
    InFlight(InFlight, Vec<ThreadNow>),
    /// Those that use most CPU time first; and their calls in progress.
    Threads(Vec<ThreadNow>, InFlight),
    Methods(MethodStates),
    /// Those with the most calls first.
    Throttled(Vec<(Method, Throttled)>),
    /// A profile task.
    Task(TaskRow),
    /// Those that have not ended, and the last ones that have.
    Tasks(Vec<TaskRow>),
}

/// The agent thread's reply to a request that it has carried out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reply {
    pub status: Status,
    pub found: Found,
}

pub(crate) type Answer = Result<Reply, Error>;

/// Waits for a detach after the agent thread has panicked, and refuses all else. Returns where the answer goes; `None`
/// if the JVM ends.
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
                let _ = answer.send(Err(Error::State(error)));
            }
        }
    }
    None
}

/// Asks the agent thread.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    requests: Sender<Asked>,
}

/// The agent thread's end of a [`Handle`].
pub(crate) type Requests = Receiver<Asked>;

/// A request, and where its answer goes.
#[derive(Debug)]
pub(crate) struct Asked {
    pub request: Request,
    pub answer: SyncSender<Answer>,
    /// When the client stops waiting for the answer.
    until: Instant,
}

impl Asked {
    /// Whether the client has stopped waiting and got an error. The JVM's last request is always carried out.
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
    /// What went wrong.
    pub(crate) fn ask(&self, request: Request) -> Answer {
        let (answer, answers) = mpsc::sync_channel(1);
        let changes_classes =
            matches!(request, Request::Detach | Request::Mute(..) | Request::Overhead(_));
        let patience = if changes_classes { DETACH } else { ANSWER };
        let until = Instant::now() + patience;
        self.requests.send(Asked { request, answer, until }).map_err(|_| ENDED)?;
        match answers.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(Error::NoAnswer(patience.as_secs())),
            Err(RecvTimeoutError::Disconnected) => Err(ENDED),
        }
    }
}

/// A method of `top`: whether it has more calls, because its probes were off at some time in this run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TopMethod {
    pub method: Method,
    pub was_throttled: bool,
    pub was_muted: bool,
}

/// Results of the self-tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SelfTestFigures {
    pub folded: Verdict,
    pub renewed: Verdict,
    pub is_near: bool,
    pub allocated: Verdict,
    pub events: Events,
    /// CPU time of all self-tests so far.
    pub cpu_ns: u64,
}

impl SelfTestFigures {
    pub(crate) fn compiled_out(&self) -> &'static str {
        self.folded.text("folded", "not folded")
    }

    pub(crate) fn call_site(&self) -> &'static str {
        self.renewed.text("works", "fails")
    }

    pub(crate) fn thread_word(&self) -> &'static str {
        if self.is_near { "near" } else { "far" }
    }

    pub(crate) fn allocated_bytes(&self) -> &'static str {
        self.allocated.text("read", "not read")
    }
}
