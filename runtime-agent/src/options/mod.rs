//! The agent's options: those behind `-agentpath:libtprofiler.so=`, in `TPROFILER_OPTS`, and in the
//! file that `config` names. `docs/options.md` is the authority on what they mean.
//!
//! Every source becomes a list of settings, the weakest source first, so that there is one place that
//! knows the keys.

mod fault;
mod file;
mod log_limits;
mod overhead;
mod properties;
pub(crate) mod retransform;
mod self_tests;
mod setting;
mod toml;
mod tprofiler;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use log_format::compression::Compression;
use log_format::pattern::Pattern;
use log_format::units::{self, parse_duration};

pub use self::fault::Fault;
use self::file::{is_of_tprofiler, read_file};
use self::log_limits::{BYTES_PER_MB, compression, compression_text, megabytes, megabytes_text};
pub(crate) use self::overhead::{overhead_text, parse_overhead};
use self::retransform::Retransform;
pub use self::self_tests::{Pretend, ProbeChoice, Trick};
use self::setting::Setting;
use crate::instrument::filters::{Annotation, Filters};
use crate::message::message;
use crate::schedule::{Plan, Window, parse_record};
use crate::sys::clock::ClockChoice;
use crate::sys::memory::limit;

/// The port that is tried first, as TProfiler's was.
pub const DEFAULT_PORT: u16 = 50_000;

/// Read as an option string is, for where no start script can be changed.
pub const ENVIRONMENT: &str = "TPROFILER_OPTS";

/// Most patterns that can have thresholds of their own.
pub const MAX_THRESHOLDS: usize = 255;

const KEYS: &str = "include, exclude, exclude_loader, accessors, leaves, min_code, threshold, \
                    overhead, retransform, probe, clock, logs, log_group, port, port_access, bind, token_file, \
                    start, window, record, pause, max_memory, max_mb_per_hour, max_mb, \
                    keep, compress, debug, strict, config";

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The classes and methods to give probes.
    pub filters: Filters,
    /// Calls that take at least so long are recorded one by one.
    pub threshold: Duration,
    /// Methods with a threshold of their own; of several patterns that name one, the last counts.
    pub thresholds: Vec<(Pattern, Duration)>,
    /// The share of the process's CPU time that probes may take, in millionths; `None` for any.
    pub overhead: Option<u32>,
    /// Whether loaded classes are retransformed.
    pub retransform: Retransform,
    /// Which form of the probes is used.
    pub probe: ProbeChoice,
    /// What probes read.
    pub clock: ClockChoice,
    /// The folder that gets a folder for this run.
    pub logs: PathBuf,
    /// The group that may read the log: its name or number.
    pub log_group: Option<String>,
    /// The first control port to try; `None` for no control.
    pub port: Option<u16>,
    /// Which commands clients may send without the token.
    pub port_access: PortAccess,
    /// The address that control listens on.
    pub bind: IpAddr,
    /// The file with the token for control; `None` if the agent makes one.
    pub token_file: Option<PathBuf>,
    /// Whether recording begins at once.
    pub start: bool,
    /// When recording is on.
    pub plan: Plan,
    /// Bytes of memory that may grow with threads and calls; `None` for a share of what there is.
    pub max_memory: Option<u64>,
    /// Bytes that the log of an hour may take; `None` for no limit.
    pub hour_bytes: Option<u64>,
    /// Bytes that the run's log may take.
    pub run_bytes: Option<u64>,
    /// How long closed hours are kept.
    pub keep: Option<Duration>,
    /// How closed hours are compressed.
    pub compress: Compression,
    /// Whether the decision on each class is logged.
    pub debug_classes: bool,
    /// A fault to inject, in tests.
    pub fault: Fault,
    /// What self-tests are to find, in tests.
    pub pretend: Pretend,
    /// Whether a wrong option stops the JVM instead of the agent.
    pub strict: bool,
    /// The file that the rest came from.
    pub config: Option<PathBuf>,
    /// What deserves a word and is not wrong; one line each.
    pub warnings: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            filters: Filters::default(),
            threshold: Duration::from_millis(1),
            thresholds: Vec::new(),
            overhead: Some(overhead::DEFAULT),
            retransform: Retransform::default(),
            probe: ProbeChoice::default(),
            clock: ClockChoice::default(),
            logs: PathBuf::from("logs"),
            log_group: None,
            port: Some(DEFAULT_PORT),
            port_access: PortAccess::Token,
            bind: Ipv4Addr::LOCALHOST.into(),
            token_file: None,
            start: true,
            plan: Plan::default(),
            max_memory: None,
            hour_bytes: Some(100 * BYTES_PER_MB),
            run_bytes: Some(2_048 * BYTES_PER_MB),
            keep: Some(Duration::from_hours(72)),
            compress: Compression::Gzip,
            debug_classes: false,
            fault: Fault::None,
            pretend: Pretend::default(),
            strict: false,
            config: None,
            warnings: Vec::new(),
        }
    }
}

/// What is wrong with an option string, and whether the JVM is to stop for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOptions {
    /// One line.
    pub message: String,
    /// `strict` was given, before or behind what is wrong.
    pub strict: bool,
}

/// Keys whose values are lists. What a source says takes the place of what weaker ones say.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    include: bool,
    exclude: bool,
    exclude_loader: bool,
}

impl Options {
    /// Reads an option string, `TPROFILER_OPTS`, and the file that either names.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn read(text: &str) -> Result<Self, BadOptions> {
        Self::read_with(text, &environment)
    }

    /// Reads an option string and the file that it names. Whoever attaches says all there is to say,
    /// so `TPROFILER_OPTS` is not read.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn read_attached(text: &str) -> Result<Self, BadOptions> {
        Self::read_with(text, &|name| if name == ENVIRONMENT { None } else { environment(name) })
    }

    /// Whether an option string asks for `strict`, as far as that can be told without reading a file.
    pub(crate) fn asks_for_strict(text: &str) -> bool {
        let given = settings(text, "");
        given.iter().rfind(|setting| setting.key == "strict").is_some_and(|s| s.value != "off")
    }

    /// The file that an option string names.
    #[must_use]
    pub fn config_of(text: &str) -> Option<PathBuf> {
        let config = settings(text, "").into_iter().rfind(|setting| setting.key == "config")?;
        Some(PathBuf::from(config.value)).filter(|path| !path.as_os_str().is_empty())
    }

    /// Says what deserves a word.
    pub(crate) fn tell_warnings(&self) {
        for warning in &self.warnings {
            message!("{warning}");
        }
    }

    fn read_with(
        text: &str,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, BadOptions> {
        let mut sources = vec![
            settings(&environment(ENVIRONMENT).unwrap_or_default(), &format!("{ENVIRONMENT}: ")),
            settings(text, ""),
        ];
        let mut options = Self::default();
        let mut wrong = None;
        let config = sources.iter().flatten().rfind(|setting| setting.key == "config");
        if let Some(Setting { value, place, .. }) = config {
            let read = match value.is_empty() {
                true => Err(format!("{place}config: a file is needed")),
                false => read_file(Path::new(value), environment, &mut options.warnings),
            };
            options.config = Some(PathBuf::from(value));
            match read {
                Ok(settings) => sources.insert(0, settings),
                Err(message) => wrong = Some(message),
            }
        }
        for (index, source) in sources.iter().enumerate() {
            let mut given = Given::default();
            let is_file = index + 2 < sources.len();
            for setting in source {
                let set = match &*setting.key {
                    "config" if is_file => Err("config: a file cannot name another".to_owned()),
                    _ => options.set(setting, &mut given),
                };
                if let Err(message) = set {
                    wrong.get_or_insert(format!("{}{message}", setting.place));
                }
            }
        }
        if let (None, Err(message)) = (&wrong, options.check()) {
            wrong = Some(message);
        }
        if let (Some(file), Some(stronger)) = (options.config.clone(), sources.get(1..)) {
            options.open_port_for_tprofiler(&file, stronger);
        }
        match wrong {
            None => Ok(options),
            Some(message) => Err(BadOptions { message, strict: options.strict }),
        }
    }

    /// Opens the port for a file of TProfiler's, whose client knows no token, and warns. A stronger source
    /// that sets `port_access` prevents both.
    fn open_port_for_tprofiler(&mut self, file: &Path, stronger: &[Vec<Setting>]) {
        if !is_of_tprofiler(file) || stronger.iter().flatten().any(|s| s.key == "port_access") {
            return;
        }
        self.port_access = PortAccess::Open;
        if self.port.is_some() {
            self.warnings.push(format!(
                "{}: TProfiler's client knows no token, so every user of this machine can start, stop \
                 and flush (port_access=open); port_access=token prevents that",
                one_line(&file.display().to_string())
            ));
        }
    }

    fn set(&mut self, setting: &Setting, given: &mut Given) -> Result<(), String> {
        let Setting { key, value, .. } = setting;
        match &**key {
            "include" => {
                if !std::mem::replace(&mut given.include, true) {
                    self.filters.include.clear();
                    self.filters.include_annotations.clear();
                }
                match Annotation::parse(value)? {
                    Some(annotation) => self.filters.include_annotations.push(annotation),
                    None => self.filters.include.push(Pattern::parse(value)?),
                }
            }
            "exclude" => {
                if !std::mem::replace(&mut given.exclude, true) {
                    self.filters.exclude.clear();
                    self.filters.exclude_annotations.clear();
                }
                match Annotation::parse(value)? {
                    Some(annotation) => self.filters.exclude_annotations.push(annotation),
                    None => self.filters.exclude.push(Pattern::parse(value)?),
                }
            }
            "exclude_loader" => {
                if !std::mem::replace(&mut given.exclude_loader, true) {
                    self.filters.exclude_loaders.clear();
                }
                let pattern = Pattern::parse(value).map_err(|e| format!("exclude_loader: {e}"))?;
                self.filters.exclude_loaders.push(pattern);
            }
            "accessors" => self.filters.accessors = switch(key, value)?,
            "leaves" => {
                self.filters.leaves = match value.as_str() {
                    "keep" => true,
                    "skip" => false,
                    _ => {
                        return Err(format!(
                            "leaves: '{}' is neither keep nor skip",
                            one_line(value)
                        ));
                    }
                };
            }
            "min_code" => {
                self.filters.min_code = value.parse().map_err(|_| {
                    format!("min_code: '{}' is not a number of bytes", one_line(value))
                })?;
            }
            "threshold" => match parse_threshold(value)? {
                (None, threshold) => self.threshold = threshold,
                (Some(pattern), threshold) => {
                    self.thresholds.retain(|(known, _)| *known != pattern);
                    self.thresholds.push((pattern, threshold));
                }
            },
            "overhead" => self.overhead = parse_overhead(value)?,
            "retransform" => {
                self.retransform = match value.as_str() {
                    "on" => Retransform::On,
                    "off" => Retransform::Off,
                    "even-running" => Retransform::EvenRunning,
                    _ => {
                        let value = one_line(value);
                        return Err(format!(
                            "retransform: '{value}' is not on, off or even-running"
                        ));
                    }
                };
            }
            "probe" => {
                self.probe = ProbeChoice::parse(value).ok_or_else(|| {
                    format!("probe: '{}' is not auto, fast or plain", one_line(value))
                })?;
            }
            "clock" => {
                self.clock = ClockChoice::parse(value).ok_or_else(|| {
                    format!("clock: '{}' is neither auto nor monotonic", one_line(value))
                })?;
            }
            "logs" if value.is_empty() => return Err("logs: a folder is needed".to_owned()),
            "logs" => self.logs = PathBuf::from(value),
            "log_group" if value.is_empty() => {
                return Err("log_group: a group is needed".to_owned());
            }
            "log_group" => self.log_group = Some(value.clone()),
            "port" if value == "off" => self.port = None,
            "port" => match value.parse() {
                Ok(port) if port > 0 => self.port = Some(port),
                _ => {
                    let value = one_line(value);
                    return Err(format!("port: '{value}' is not a port from 1 to 65535, or off"));
                }
            },
            "port_access" => {
                self.port_access = match value.as_str() {
                    "token" => PortAccess::Token,
                    "open" => PortAccess::Open,
                    _ => {
                        let value = one_line(value);
                        return Err(format!("port_access: '{value}' is neither token nor open"));
                    }
                };
            }
            "bind" => {
                self.bind = value.parse().map_err(|_| {
                    format!("bind: '{}' is not an address like 0.0.0.0 or ::1", one_line(value))
                })?;
            }
            "token_file" if value.is_empty() => {
                return Err("token_file: a file is needed".to_owned());
            }
            "token_file" => self.token_file = Some(PathBuf::from(value)),
            "start" => self.start = switch(key, value)?,
            "window" => {
                let window = Window::parse(value).map_err(|e| format!("window: {e}"))?;
                self.plan.window = Some(window);
            }
            "record" => {
                let record = parse_record(value).map_err(|e| format!("record: {e}"))?;
                self.plan.record = Some(record);
            }
            "pause" => {
                self.plan.pause = Some(parse_duration(value).map_err(|e| format!("pause: {e}"))?);
            }
            "max_memory" => match limit::parse(value) {
                Some(bytes) => self.max_memory = Some(bytes),
                None => {
                    let value = one_line(value);
                    return Err(format!(
                        "max_memory: '{value}' is not a size like 64m, from 1m up"
                    ));
                }
            },
            "max_mb_per_hour" => self.hour_bytes = megabytes(key, value)?,
            "max_mb" => self.run_bytes = megabytes(key, value)?,
            "keep" if value == "off" => self.keep = None,
            "keep" => self.keep = Some(parse_duration(value).map_err(|e| format!("keep: {e}"))?),
            "compress" => self.compress = compression(value)?,
            "debug" if value == "classes" => self.debug_classes = true,
            "debug" if self.pretend.set(value).is_some() => {}
            "debug" => match value.strip_prefix("fault:").and_then(Fault::parse) {
                Some(fault) => self.fault = fault,
                None => return Err(format!("debug: '{}' is not classes", one_line(value))),
            },
            "strict" if value.is_empty() => self.strict = true,
            "strict" => self.strict = switch(key, value)?,
            "config" => {}
            _ => {
                return Err(format!("unknown option '{}'; options are {KEYS}", one_line(key)));
            }
        }
        Ok(())
    }

    /// What no setting is wrong with alone.
    fn check(&self) -> Result<(), String> {
        if self.plan.record.is_some() != self.plan.pause.is_some() {
            return Err("record and pause belong together".to_owned());
        }
        if self.thresholds.len() > MAX_THRESHOLDS {
            return Err(format!("threshold: more than {MAX_THRESHOLDS} patterns"));
        }
        Ok(())
    }

    /// The options by name, as they are written to `run.json`.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let filters = &self.filters;
        let patterns = |list: &[Pattern], annotations: &[Annotation]| {
            let patterns = list.iter().map(Pattern::to_string);
            patterns
                .chain(annotations.iter().map(Annotation::to_string))
                .collect::<Vec<_>>()
                .join(",")
        };
        let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
        let duration = |duration| units::duration_text(units::as_ns(duration));
        let own = self.thresholds.iter().map(|(pattern, d)| (pattern, units::as_ns(*d)));
        let threshold = thresholds_text(units::as_ns(self.threshold), own);
        let mut map: BTreeMap<String, String> = [
            ("include", patterns(&filters.include, &filters.include_annotations)),
            ("exclude", patterns(&filters.exclude, &filters.exclude_annotations)),
            ("exclude_loader", patterns(&filters.exclude_loaders, &[])),
            ("accessors", switch(filters.accessors)),
            ("leaves", if filters.leaves { "keep" } else { "skip" }.to_owned()),
            ("min_code", filters.min_code.to_string()),
            ("threshold", threshold),
            ("overhead", overhead_text(self.overhead)),
            ("retransform", retransform_text(self.retransform).to_owned()),
            ("probe", self.probe.text().to_owned()),
            ("clock", self.clock.text().to_owned()),
            ("logs", self.logs.display().to_string()),
            ("port", self.port.map_or_else(|| "off".to_owned(), |port| port.to_string())),
            (
                "port_access",
                match self.port_access {
                    PortAccess::Token => "token",
                    PortAccess::Open => "open",
                }
                .to_owned(),
            ),
            ("bind", self.bind.to_string()),
            ("start", switch(self.start)),
            ("max_mb_per_hour", megabytes_text(self.hour_bytes)),
            ("max_mb", megabytes_text(self.run_bytes)),
            ("keep", self.keep.map_or_else(|| "off".to_owned(), duration)),
            ("compress", compression_text(self.compress)),
            ("debug", if self.debug_classes { "classes" } else { "" }.to_owned()),
            ("strict", switch(self.strict)),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
        // Those that are empty when they are not given.
        let optional = [
            ("window", self.plan.window.map(|window| window.to_string())),
            ("record", self.plan.record.map(duration)),
            ("pause", self.plan.pause.map(duration)),
            ("log_group", self.log_group.clone()),
            ("token_file", self.token_file.as_ref().map(|path| path.display().to_string())),
            ("max_memory", self.max_memory.map(limit::text)),
            ("config", self.config.as_ref().map(|path| path.display().to_string())),
        ];
        for (key, value) in optional {
            map.insert(key.to_owned(), value.unwrap_or_default());
        }
        map
    }
}

/// Thresholds as they are written to `run.json`: that of all methods, then those of patterns.
pub(crate) fn thresholds_text<'p>(
    all_ns: u64,
    own: impl Iterator<Item = (&'p Pattern, u64)>,
) -> String {
    let text = units::duration_text;
    let own = own.map(|(pattern, ns)| format!(",{pattern}:{}", text(ns)));
    format!("{}{}", text(all_ns), own.collect::<String>())
}

fn retransform_text(retransform: Retransform) -> &'static str {
    match retransform {
        Retransform::On => "on",
        Retransform::Off => "off",
        Retransform::EvenRunning => "even-running",
    }
}

/// A variable of the environment, or one of Java's.
fn environment(name: &str) -> Option<String> {
    match (std::env::var_os(name), name) {
        (Some(value), _) => Some(value.to_string_lossy().into_owned()),
        (None, "user.home") => std::env::var("HOME").ok(),
        (None, "user.name") => std::env::var("USER").ok(),
        (None, "user.dir") => Some(std::env::current_dir().ok()?.display().to_string()),
        (None, _) => None,
    }
}

/// Reads `1ms`, or `com.shop.dao.*:20ms` for the methods that a pattern names.
///
/// # Errors
/// A sentence that says what is wrong with `value`.
pub fn parse_threshold(value: &str) -> Result<(Option<Pattern>, Duration), String> {
    let of = |e: String| format!("threshold: {e}");
    match value.rsplit_once(':') {
        None => Ok((None, parse_duration(value).map_err(of)?)),
        Some((pattern, duration)) => {
            let pattern = Pattern::parse(pattern).map_err(of)?;
            Ok((Some(pattern), parse_duration(duration).map_err(of)?))
        }
    }
}

/// The settings of an option string: `key=value` pairs with commas between them.
fn settings(text: &str, place: &str) -> Vec<Setting> {
    let pairs = text.split(',').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Setting { key: key.to_owned(), value: value.to_owned(), place: place.to_owned() }
        })
        .collect()
}

fn switch(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{key}: '{}' is neither on nor off", one_line(value))),
    }
}

/// A value in a message.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests;
