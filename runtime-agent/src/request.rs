//! Requests to the agent thread, and its answers.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::{Duration, Instant};

use log_format::pattern::Pattern;

use crate::drain::hot_methods::Hottest;
use crate::drain::hot_methods::Period;
use crate::drain::in_flight::InFlight;
use crate::drain::samples::SamplingFigures;
use crate::error::Error;
use crate::instrument::guards::Rule;
use crate::instrument::method_states::MethodStates;
use crate::instrument::methods::Method;
use crate::instrument::postponed::Postponed;
use crate::jvm::pauses;
use crate::overhead::Millionths;
use crate::overhead::Throttled;
use crate::sampling::off_cpu::ThreadNow;
use crate::self_test;

/// How long an answer may take: a flush waits for the disk.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a request that changes classes may take: a detach restores thousands.
const DETACH: Duration = Duration::from_secs(120);

/// The answer to requests that come too late.
pub(crate) const ENDED: Error = Error::State("the agent has ended, or is ending with its JVM");

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
    /// Set the threshold, in nanoseconds, of the methods that a pattern names or of all others.
    Threshold(Option<Pattern>, u64),
    /// Find the methods with the most self time, at most this many.
    Top(Period, usize),
    /// Find calls in progress that have run for at least this many nanoseconds.
    InFlight(u64),
    /// Find what threads do now.
    Threads,
    /// Find what has become of the methods that a pattern names.
    Methods(Pattern),
    /// Mute the methods that a pattern names, or unmute them.
    Mute(Pattern, bool),
    /// Set the overhead budget, or remove it.
    Overhead(Option<Millionths>),
    /// List the throttled methods.
    Throttled,
    /// The JVM ends: write everything, then stop.
    Finish,
    /// Restore the JVM to its state before the agent, and end.
    Detach,
}

/// The agent's status.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Status {
    pub is_recording: bool,
    /// Of all methods except those that `own_thresholds` names, in nanoseconds.
    pub threshold_ns: u64,
    /// Of the methods that patterns name, in nanoseconds.
    pub own_thresholds: Vec<(Pattern, u64)>,
    /// What the hour's budget raised all thresholds to, or 0.
    pub raised_to_ns: u64,
    /// Since when recording is on or off, in unix nanoseconds.
    pub since_ns: u64,
    pub classes: u64,
    pub methods: u64,
    pub calls: u64,
    pub recorded_calls: u64,
    pub recorded_calls_dropped: u64,
    pub lost_calls: u64,
    /// Threads of which at least some calls were lost for lack of memory.
    pub threads_not_measured: u64,
    /// Bytes in use, and the most allowed.
    pub memory: (u64, u64),
    pub unseen_ends: u64,
    /// The mute and unmute rules that still have an effect.
    pub mute_rules: Vec<Rule>,
    pub muted_methods: u64,
    /// Calls that were in progress, and dropped, when a rule muted or unmuted their method.
    pub muted_calls: u64,
    /// Calls that were in progress when the budget throttled their method, or measured it again.
    pub throttled_calls: u64,
    /// The overhead budget.
    pub overhead: Option<Millionths>,
    /// What the profiler costs now, as a share of the CPU time; 0 while recording is off.
    pub overhead_share: f64,
    /// Methods that are throttled.
    pub throttled_methods: u64,
    pub methods_not_instrumented: u64,
    /// Trivial leaves that were not instrumented.
    pub leaves: u64,
    pub io_errors: u64,
    /// The run's folder.
    pub logs: String,
    pub bytes_this_hour: u64,
    /// Bytes that this hour may take; `None` for no limit.
    pub hour_budget: Option<u64>,
    pub recorded_calls_over_budget: u64,
    pub deleted_hours: u64,
    /// Loaded classes that were retransformed.
    pub retransformed_classes: u64,
    /// Loaded classes that the JVM refused, or that would have stopped all threads for too long.
    pub not_retransformed: u64,
    /// Classes that wait for a loop to end, or were given up because of one.
    pub postponed: Vec<Postponed>,
    /// Loops that began just before their class was retransformed.
    pub caught_loops: u64,
    /// Instrumented classes that the JVM has not loaded so far; counted at a detach.
    pub not_seen_loaded: u64,
    /// How long threads were stopped by the agent.
    pub pauses: pauses::Figures,
    /// How often the agent has read stacks, and for how long that stopped a thread (before JDK 12, all threads).
    pub stack_looks: pauses::Figures,
    /// The clock that the probe reads: `tsc` or `monotonic`.
    pub clock: &'static str,
    /// How often a clock jumped, as when the machine was suspended.
    pub clock_jumps: u64,
    /// CPU samples; `None` with `cpu=off`.
    pub sampling: Option<SamplingFigures>,
    /// Timers of threads that the kernel refused.
    pub timers_refused: u64,
    /// What self-tests found.
    pub self_tests: self_test::Results,
    /// Hints for the user, a line each.
    pub hints: Vec<String>,
}

/// The result of a request that asks for one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    Nothing,
    /// With the methods' names, in the same order, and whether they were throttled for a time.
    Top(Hottest, Vec<(Method, bool)>),
    InFlight(InFlight),
    /// Those that use most CPU time first; and their calls in progress.
    Threads(Vec<ThreadNow>, InFlight),
    Methods(MethodStates),
    /// Those with the most calls first.
    Throttled(Vec<(Method, Throttled)>),
}

/// The agent thread's reply to a request that it has carried out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reply {
    pub status: Status,
    pub found: Found,
}

pub(crate) type Answer = Result<Reply, Error>;

/// Waits for a detach after the agent thread has panicked, and refuses all else. Returns where the answer goes; `None` if the
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
