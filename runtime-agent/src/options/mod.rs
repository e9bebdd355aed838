//! The agent's options: those after `-agentpath:libtprofiler.so=`, in `TPROFILER_OPTS`, and in the file that `config`
//! names. `docs/options.md` is the authority on what they mean.
//!
//! Every source becomes a list of settings, the weakest source first. [`option_table`] knows the keys.

mod alloc;
mod cpu_share;
pub(crate) mod engine;
mod fault;
mod file;
pub(crate) mod filters;
mod log_limits;
pub mod option_table;
mod properties;
pub(crate) mod retransform;
mod self_tests;
mod setting;
mod toml;
mod tprofiler;
mod value_texts;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use self::fault::Fault;
use log_format::error::BadValue;
use strsim::osa_distance;
use thiserror::Error;

pub(crate) use self::alloc::{alloc_text, parse_alloc};
pub(crate) use self::cpu_share::{CpuShare, parse_overhead, share_text};
use self::file::{is_of_tprofiler, read_file};
pub(crate) use self::log_limits::megabytes_text;
use self::option_table::OPTIONS;
pub use self::self_tests::{Pretend, ProbeChoice, Trick};
use self::setting::Setting;
use self::values::Given;
pub use self::values::{
    ControlOptions, DEFAULT_PORT, ExceptionOptions, LogOptions, Options, PortAccess,
    RecordingOptions, SamplingOptions, TestOptions, parse_every, parse_threshold,
};
pub(crate) use self::values::{thresholds_text, traces_text};
use crate::error;
use crate::stderr::message;
use log_format::writer::one_line;

/// Read like an option string, for deployments where no start script can be changed.
pub const ENVIRONMENT: &str = "TPROFILER_OPTS";

/// Most patterns with thresholds of their own, and most that are traced.
pub const MAX_PATTERNS: usize = 255;

/// What is wrong with an option string, and whether that should stop the JVM.
#[derive(Debug, Error)]
#[error("{error}")]
pub struct BadOptions {
    /// What is wrong.
    #[source]
    pub error: error::Error,
    /// Whether `strict` was given, before or after the error.
    pub strict: bool,
}

impl Options {
    /// Reads an option string, `TPROFILER_OPTS`, and the file that either names.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn read(text: &str) -> Result<Self, BadOptions> {
        Self::read_with(text, &environment)
    }

    /// Reads an option string and the file that it names, for an attach. The command passes all options, so
    /// `TPROFILER_OPTS` is not read.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn read_attached(text: &str) -> Result<Self, BadOptions> {
        Self::read_with(text, &|name| if name == ENVIRONMENT { None } else { environment(name) })
    }

    /// Whether an option string asks for `strict`, as far as can be told without reading a file.
    pub(crate) fn asks_for_strict(text: &str) -> bool {
        let given = settings(text, None);
        given.iter().rfind(|setting| setting.key == "strict").is_some_and(|s| s.value != "off")
    }

    /// The file that an option string names.
    #[must_use]
    pub fn config_of(text: &str) -> Option<PathBuf> {
        let config = settings(text, None).into_iter().rfind(|setting| setting.key == "config")?;
        Some(PathBuf::from(config.value)).filter(|path| !path.as_os_str().is_empty())
    }

    /// Prints the warnings.
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
            settings(&environment(ENVIRONMENT).unwrap_or_default(), Some(ENVIRONMENT)),
            settings(text, None),
        ];
        let mut options = Self::default();
        let mut wrong = None;
        let config = sources.iter().flatten().rfind(|setting| setting.key == "config");
        if let Some(setting @ Setting { value, .. }) = config {
            let read = match value.is_empty() {
                true => {
                    let needed = BadValue::because("a file is needed").of("config");
                    Err(setting.wrong(needed).into())
                }
                false => read_file(Path::new(value), environment, &mut options.warnings),
            };
            options.config = Some(PathBuf::from(value));
            match read {
                Ok(settings) => sources.insert(0, settings),
                Err(error) => wrong = Some(error),
            }
        }
        for (index, source) in sources.iter().enumerate() {
            let mut given = Given::default();
            let is_file = index + 2 < sources.len();
            for setting in source {
                let set = match &*setting.key {
                    "config" if is_file => {
                        Err(BadValue::because("a file cannot name another").of("config"))
                    }
                    _ => options.set(setting, &mut given),
                };
                if let Err(error) = set {
                    wrong.get_or_insert(setting.wrong(error).into());
                }
            }
        }
        if let (None, Err(error)) = (&wrong, options.check()) {
            wrong = Some(error.into());
        }
        if let (Some(file), Some(stronger)) = (options.config.clone(), sources.get(1..)) {
            options.open_port_for_tprofiler(&file, stronger);
        }
        options.warn_without_cpu();
        match wrong {
            None => Ok(options),
            Some(error) => Err(BadOptions { error, strict: options.strict }),
        }
    }

    /// Warns of what was asked for and does nothing without samples of CPU time.
    fn warn_without_cpu(&mut self) {
        let asked = [
            ("alloc", self.sampling.alloc.is_some()),
            ("sql", self.sampling.sql.is_some()),
            ("trace", !self.recording.traces.is_empty()),
        ];
        let in_vain =
            asked.into_iter().filter(|(_, is_asked)| *is_asked && self.sampling.cpu.is_none());
        let warnings = in_vain.map(|(option, _)| format!("{option} needs cpu, which is off"));
        self.warnings.extend(warnings.collect::<Vec<_>>());
        if self.sampling.sql_literals && self.sampling.sql.is_none() {
            self.warnings.push("sql_literals needs sql, which is off".to_owned());
        }
    }

    /// Opens the port for a TProfiler file, because TProfiler's client knows no token, and warns. A stronger source
    /// that sets `port_access` prevents both.
    fn open_port_for_tprofiler(&mut self, file: &Path, stronger: &[Vec<Setting>]) {
        if !is_of_tprofiler(file) || stronger.iter().flatten().any(|s| s.key == "port_access") {
            return;
        }
        self.control.access = PortAccess::Open;
        if self.control.port.is_some() {
            self.warnings.push(format!(
                "{}: TProfiler's client knows no token, so every user of this machine can start, stop \
                 and flush (port_access=open); port_access=token prevents that",
                one_line(&file.display().to_string())
            ));
        }
    }

    fn set(&mut self, setting: &Setting, given: &mut Given) -> Result<(), BadValue> {
        let Setting { key, value, .. } = setting;
        check_separators(value)?;
        match option_table::find(key) {
            Some(def) => (def.set)(self, value, given),
            None => {
                let keys: Vec<&str> = OPTIONS.iter().map(|def| def.key).collect();
                let near = keys.iter().map(|known| (osa_distance(known, key), known));
                let near = near.min().filter(|(distance, _)| *distance <= 2);
                let near =
                    near.map_or_else(String::new, |(_, known)| format!("; did you mean {known}?"));
                let keys = keys.join(", ");
                let key = one_line(key);
                let reason = format!("unknown option '{key}'{near}; options are {keys}");
                Err(BadValue::because(reason))
            }
        }
    }

    /// Checks the options for errors that no setting has by itself.
    fn check(&self) -> Result<(), BadValue> {
        let RecordingOptions { thresholds, traces, plan, .. } = &self.recording;
        if plan.record.is_some() != plan.pause.is_some() {
            return Err(BadValue::because("record and pause belong together"));
        }
        for (option, patterns) in [("threshold", thresholds.len()), ("trace", traces.len())] {
            if patterns > MAX_PATTERNS {
                let reason = format!("more than {MAX_PATTERNS} patterns");
                return Err(BadValue::because(reason).of(option));
            }
        }
        Ok(())
    }

    /// The options by name, in the form for `run.json`.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, String> {
        OPTIONS.iter().map(|def| (def.key.to_owned(), (def.show)(self))).collect()
    }
}

/// Refuses a value that holds another option: `include=com.shop logs=/tmp`.
fn check_separators(value: &str) -> Result<(), BadValue> {
    let parts = value.split([' ', ';', ':', '\t']).skip(1);
    let key = |part: &str| Some(option_table::find(part.split_once('=')?.0)?.key);
    match parts.filter_map(key).next() {
        Some(key) => {
            let reason = format!("a comma belongs before {key}=");
            Err(BadValue::because(reason).of(format_args!("'{}'", one_line(value))))
        }
        None => Ok(()),
    }
}

/// The environment variable `name`; `user.home`, `user.name` and `user.dir` also mean what they mean in Java.
fn environment(name: &str) -> Option<String> {
    match (std::env::var_os(name), name) {
        (Some(value), _) => Some(value.to_string_lossy().into_owned()),
        (None, "user.home") => std::env::var("HOME").ok(),
        (None, "user.name") => std::env::var("USER").ok(),
        (None, "user.dir") => Some(std::env::current_dir().ok()?.display().to_string()),
        (None, _) => None,
    }
}

/// The settings of an option string: `key=value` pairs separated by commas.
fn settings(text: &str, place: Option<&str>) -> Vec<Setting> {
    let pairs = text.split(',').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let place = place.map(str::to_owned);
            Setting { key: key.to_owned(), value: value.to_owned(), place }
        })
        .collect()
}

#[cfg(test)]
mod tests;
