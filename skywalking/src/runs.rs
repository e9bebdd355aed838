//! Which runs in the log folder have an agent that answers.
//!
//! Only an answer counts: process ids mean nothing in a container beside the JVM's. A folder whose agent does not
//! answer is tried again, ever more rarely.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use log_format::error::FileError;
use log_format::file_names::RUN_JSON;
use log_format::run::Run;
use tprofiler::cli::run_agent::{TOKEN_FILE, ask};

use crate::stderr::message;

/// Waits between attempts double from the first to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Attempts in one look, the newest runs first: an agent that hangs takes seconds.
const MOST_ATTEMPTS: usize = 8;

/// A run whose agent has answered.
#[derive(Clone, Debug)]
pub(crate) struct LiveRun {
    pub(crate) folder: PathBuf,
    pub(crate) about: Run,
    /// The file that the agent deletes when it ends, if it has one.
    token: Option<PathBuf>,
}

impl LiveRun {
    /// Whether the agent has deleted its token.
    pub(crate) fn has_ended(&self) -> bool {
        self.token.as_ref().is_some_and(|token| !token.exists())
    }

    /// The file of its token, if it is in the run's folder. The JVM has it open.
    pub(crate) fn token(&self) -> Option<&Path> {
        self.token.as_deref()
    }

    /// Whether samples of threads are recorded.
    pub(crate) fn has_samples(&self) -> bool {
        ["cpu", "wall"].iter().any(|option| {
            self.about
                .options
                .get(*option)
                .is_some_and(|value| !matches!(&**value, "off" | "0" | ""))
        })
    }
}

/// A run whose agent did not answer.
struct Tried {
    wait: Duration,
    next: Instant,
}

/// The runs of a log folder.
pub(crate) struct Runs {
    logs: PathBuf,
    token_file: Option<PathBuf>,
    tried: HashMap<OsString, Tried>,
    /// The folder cannot be read, which was said.
    is_unread: bool,
}

impl Runs {
    pub(crate) fn new(logs: PathBuf, token_file: Option<PathBuf>) -> Self {
        Self { logs, token_file, tried: HashMap::new(), is_unread: false }
    }

    /// Looks for runs with an agent, besides the `known` ones. Waits for files and agents.
    pub(crate) fn look(&mut self, known: &[PathBuf]) -> Vec<LiveRun> {
        let names = match self.names() {
            Ok(names) => names,
            Err(error) => {
                if !std::mem::replace(&mut self.is_unread, true) {
                    message!("--logs: {error}; trying again");
                }
                return Vec::new();
            }
        };
        self.is_unread = false;
        self.tried.retain(|name, _| names.contains(name));
        let now = Instant::now();
        let mut attempts = 0;
        let mut live = Vec::new();
        for name in names {
            let folder = self.logs.join(&name);
            let is_due = self.tried.get(&name).is_none_or(|tried| tried.next <= now);
            if !is_due || known.contains(&folder) || attempts == MOST_ATTEMPTS {
                continue;
            }
            let Some(run) = self.candidate(folder) else { continue };
            attempts += 1;
            if ask(&run.folder, self.token_file.as_deref(), "status").is_ok() {
                self.tried.remove(&name);
                live.push(run);
            } else {
                let tried = self.tried.entry(name).or_insert(Tried { wait: FIRST_WAIT, next: now });
                tried.next = Instant::now() + tried.wait;
                tried.wait = (tried.wait * 2).min(LONGEST_WAIT);
            }
        }
        live
    }

    /// Folders that may be runs, the newest first. An empty name is the log folder itself.
    fn names(&self) -> Result<Vec<OsString>, FileError> {
        if self.logs.join(RUN_JSON).exists() {
            return Ok(vec![OsString::new()]);
        }
        let entries = fs::read_dir(&self.logs).map_err(FileError::at(&self.logs))?;
        let mut names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(names)
    }

    /// The run in a folder, if it may have an agent.
    fn candidate(&self, folder: PathBuf) -> Option<LiveRun> {
        let token = Some(folder.join(TOKEN_FILE)).filter(|token| token.exists());
        if token.is_none() && self.token_file.is_none() {
            return None;
        }
        let about = Run::read(&folder).ok()?;
        about.port?;
        Some(LiveRun { folder, about, token })
    }
}

/// Whether the agent of a run answers.
pub(crate) fn answers(folder: &Path, token_file: Option<&Path>) -> bool {
    ask(folder, token_file, "status").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let logs = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = logs.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        logs
    }

    #[test]
    fn a_run_without_an_agent_is_tried_ever_more_rarely() {
        // A port on which nothing listens, and a token that may be read.
        let json = r#"{"format_version": 1, "pid": 1, "port": 1}"#;
        let logs = folder_with(&[("r1/run.json", json), ("r1/control.token", &"x".repeat(64))]);
        let mut runs = Runs::new(logs.path().to_owned(), None);
        assert!(runs.look(&[]).is_empty());
        let tried = &runs.tried[&OsString::from("r1")];
        assert_eq!(tried.wait, FIRST_WAIT * 2);
        assert!(tried.next > Instant::now());
        fs::remove_dir_all(logs.path().join("r1")).unwrap();
        assert!(runs.look(&[]).is_empty());
        assert!(runs.tried.is_empty());
    }

    #[test]
    fn runs_that_have_ended_are_no_candidates() {
        let json = r#"{"format_version": 1, "pid": 1, "port": 1}"#;
        let none = r#"{"format_version": 1, "pid": 1, "port": null}"#;
        let files =
            [("r1/run.json", json), ("r2/run.json", none), ("r2/control.token", "x"), ("r3/x", "")];
        let logs = folder_with(&files);
        let runs = Runs::new(logs.path().to_owned(), None);
        for name in runs.names().unwrap() {
            assert!(runs.candidate(logs.path().join(&name)).is_none(), "{name:?}");
        }
        let named = Runs::new(logs.path().to_owned(), Some("/token".into()));
        assert!(named.candidate(logs.path().join("r1")).is_some());
    }
}
