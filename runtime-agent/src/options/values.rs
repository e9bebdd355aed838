//! The options in force, and their defaults.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use log_format::compression::Compression;
use log_format::error::BadValue;
use log_format::pattern::Pattern;
use log_format::units::{self, parse_duration};
use log_format::writer::one_line;

use super::cpu_share::CpuShare;
use super::engine::Engine;
use super::fault::Fault;
use super::log_limits::BYTES_PER_MB;
use super::retransform::Retransform;
use super::self_tests::{Pretend, ProbeChoice};
use crate::options::filters::Filters;
use crate::schedule::Plan;
use crate::sys::clock::ClockChoice;

/// The port that is tried first; TProfiler used the same one.
pub const DEFAULT_PORT: u16 = 50_000;

/// Which commands clients on loopback may send without the token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortAccess {
    /// Only `status` and `help`.
    #[default]
    Token,
    /// Also `start`, `stop`, `flush`, and the commands of TProfiler's client.
    Open,
}

/// Options in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The classes and methods to instrument.
    pub filters: Filters,
    /// How they are instrumented.
    pub probes: ProbeOptions,
    /// Which calls are recorded, and when.
    pub recording: RecordingOptions,
    /// What the agent may take of the process's CPU time and memory.
    pub limits: CostLimits,
    /// How threads are sampled.
    pub sampling: SamplingOptions,
    /// What is kept of exceptions that leave methods.
    pub exceptions: ExceptionOptions,
    /// The log: where it is, and how much of it is kept.
    pub log: LogOptions,
    /// Remote control.
    pub control: ControlOptions,
    /// What the agent's own tests make it do.
    pub tests: TestOptions,
    /// Whether a wrong option stops the JVM, and not just the agent.
    pub strict: bool,
    /// The file with more options.
    pub config: Option<PathBuf>,
    /// Warnings: what is worth mentioning but not wrong; one line each.
    pub warnings: Vec<String>,
}

/// How methods are instrumented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeOptions {
    /// The form of the probes.
    pub form: ProbeChoice,
    /// The clock that probes read.
    pub clock: ClockChoice,
    /// Whether loaded classes are retransformed.
    pub retransform: Retransform,
}

/// Which calls are recorded, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingOptions {
    /// Calls that take at least this long are recorded.
    pub threshold: Duration,
    /// Methods with a threshold of their own; if several patterns name one, the last counts.
    pub thresholds: Vec<(Pattern, Duration)>,
    /// Methods of which stacks are taken, of one in so many calls; if several patterns name one, the last counts.
    pub traces: Vec<(Pattern, u64)>,
    /// Whether recording begins at once.
    pub start: bool,
    /// When recording is on.
    pub plan: Plan,
}

impl Default for RecordingOptions {
    fn default() -> Self {
        Self {
            threshold: Duration::from_millis(1),
            thresholds: Vec::new(),
            traces: Vec::new(),
            start: true,
            plan: Plan::default(),
        }
    }
}

/// What the agent may take of the process's CPU time and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostLimits {
    /// The share of the process's CPU time that probes may take; `None` for no limit.
    pub overhead: Option<CpuShare>,
    /// Bytes of memory that may grow with threads and calls; `None` for a share of the available memory.
    pub memory: Option<u64>,
}

impl Default for CostLimits {
    fn default() -> Self {
        Self { overhead: Some(CpuShare::from_millionths(20_000)), memory: None }
    }
}

/// How threads are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingOptions {
    /// How much CPU time of a thread is between two samples; `None` for no samples.
    pub cpu: Option<Duration>,
    /// How often threads that wait are looked at.
    pub wall: Option<Duration>,
    /// Waits for monitors that take at least this long are recorded; `None` to count none.
    pub lock: Option<Duration>,
    /// Whether waits for locks include parks.
    pub parks: bool,
    /// Statements that take at least this long are recorded; `None` to count none.
    pub sql: Option<Duration>,
    /// Whether recorded statements have their literals, which may be secrets.
    pub sql_literals: bool,
    /// How many bytes are between two sampled allocations; `None` for none.
    pub alloc: Option<u64>,
    /// The most of the CPU time that samples may take; `None` for no cap.
    pub cap: Option<CpuShare>,
    /// What interrupts threads; `None` for the best that the kernel allows.
    pub engine: Option<Engine>,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        Self {
            cpu: Some(Duration::from_millis(10)),
            wall: Some(Duration::from_millis(100)),
            lock: Some(Duration::from_millis(1)),
            parks: true,
            sql: None,
            sql_literals: false,
            alloc: None,
            cap: Some(CpuShare::from_millionths(10_000)),
            engine: None,
        }
    }
}

/// What is kept of exceptions that leave methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceptionOptions {
    /// Whether they are counted by class.
    pub count: bool,
    /// Whether examples have their messages, which may hold secrets.
    pub messages: bool,
}

impl Default for ExceptionOptions {
    fn default() -> Self {
        Self { count: true, messages: false }
    }
}

/// The log: where it is, and how much of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The log folder, in which this run gets a folder.
    pub folder: PathBuf,
    /// The group that may read the log: its name or number.
    pub group: Option<String>,
    /// Bytes that the log of an hour may take; `None` for no limit.
    pub hour_bytes: Option<u64>,
    /// Bytes that the run's log may take; `None` for no limit.
    pub run_bytes: Option<u64>,
    /// How long closed hours are kept.
    pub keep: Option<Duration>,
    /// How closed hours are compressed.
    pub compress: Compression,
    /// Whether the decision on each class is logged.
    pub debug_classes: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            folder: PathBuf::from("logs"),
            group: None,
            hour_bytes: Some(100 * BYTES_PER_MB),
            run_bytes: Some(2_048 * BYTES_PER_MB),
            keep: Some(Duration::from_hours(72)),
            compress: Compression::Gzip,
            debug_classes: false,
        }
    }
}

/// Where the agent listens for commands, and who may send them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlOptions {
    /// The first port to try; `None` for no control.
    pub port: Option<u16>,
    /// Which commands clients may send without the token.
    pub access: PortAccess,
    /// The address to listen on.
    pub bind: IpAddr,
    /// The file with the token; `None` if the agent makes one.
    pub token_file: Option<PathBuf>,
}

impl Default for ControlOptions {
    fn default() -> Self {
        Self {
            port: Some(DEFAULT_PORT),
            access: PortAccess::Token,
            bind: Ipv4Addr::LOCALHOST.into(),
            token_file: None,
        }
    }
}

/// What the agent's own tests make it do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestOptions {
    /// A fault to inject.
    pub fault: Fault,
    /// What self-tests should find.
    pub pretend: Pretend,
}

/// Keys whose values are lists, and that a source has set: its values replace those of weaker sources.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Given {
    pub include: bool,
    pub exclude: bool,
    pub exclude_loader: bool,
}

/// Thresholds in the form for `run.json`: that of all methods, then those of patterns.
pub(crate) fn thresholds_text<'p>(
    all_ns: u64,
    own: impl Iterator<Item = (&'p Pattern, u64)>,
) -> String {
    let text = units::duration_text;
    let own = own.map(|(pattern, ns)| format!(",{pattern}:{}", text(ns)));
    format!("{}{}", text(all_ns), own.collect::<String>())
}

/// Reads `1ms`, or `com.shop.dao.*:20ms` for the methods that a pattern names.
///
/// # Errors
/// What is wrong with `value`.
pub fn parse_threshold(value: &str) -> Result<(Option<Pattern>, Duration), BadValue> {
    let of = |error: BadValue| error.of("threshold");
    match value.rsplit_once(':') {
        None => Ok((None, parse_duration(value).map_err(of)?)),
        Some((pattern, duration)) => {
            let pattern = Pattern::parse(pattern).map_err(of)?;
            Ok((Some(pattern), parse_duration(duration).map_err(of)?))
        }
    }
}

/// Traced methods in the form for `run.json`.
pub(crate) fn traces_text(traces: &[(Pattern, u64)]) -> String {
    let text = |(pattern, every): &(Pattern, u64)| format!("{pattern}:{every}");
    if traces.is_empty() {
        "off".to_owned()
    } else {
        traces.iter().map(text).collect::<Vec<_>>().join(",")
    }
}

/// Most calls of a method between two whose stacks are taken.
const MOST_CALLS: u64 = 1_000_000_000;

/// Reads one in how many calls are traced.
///
/// # Errors
/// What is wrong with `value`.
pub fn parse_every(value: &str) -> Result<u64, BadValue> {
    value.parse().ok().filter(|every| (1..=MOST_CALLS).contains(every)).ok_or_else(|| {
        let reason = format!("is not a number of calls from 1 to {MOST_CALLS}, like 100");
        BadValue::new(one_line(value), reason).of("trace")
    })
}

/// Reads `com.shop.Order.pay:100`; without a number, each call is traced.
///
/// # Errors
/// What is wrong with `value`.
pub fn parse_trace(value: &str) -> Result<(Pattern, u64), BadValue> {
    let (pattern, every) = value.rsplit_once(':').unwrap_or((value, "1"));
    let is_one = value != "on" && !pattern.contains([' ', '=', '(', '#', ':']);
    match Pattern::parse(pattern) {
        Ok(pattern) if is_one => Ok((pattern, parse_every(every)?)),
        _ => {
            let reason =
                "is neither off nor methods and a number of calls, like com.shop.Order.pay:100";
            Err(BadValue::new(one_line(value), reason).of("trace"))
        }
    }
}
