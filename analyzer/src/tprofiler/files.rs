//! Finds TProfiler's files by their default names; its options allow others, but few users change them.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use log_format::compression::{self, Compression};
use log_format::run::Run;

use super::sampler_line::EXPORT_MARK;
use crate::input::problems::Problems;
use crate::input::runs::{RunInput, entries};
use crate::input::text_lines::TextLines;

const LOG: &str = "tprofiler.log";
const METHODS: &str = "tmethod.log";
const SAMPLER: &str = "tsampler.log";

/// TProfiler's log of a run: its calls, its thread dumps, or both.
#[derive(Clone, Debug)]
pub struct OldLog {
    /// Its `tprofiler.log`.
    pub(super) calls: Option<LogFile>,
    /// The file that names its methods, if there is one.
    pub(super) methods: Option<PathBuf>,
    /// Its `tsampler.log`.
    pub(super) dumps: Option<LogFile>,
}

/// A file to read.
#[derive(Clone, Debug)]
pub(super) struct LogFile {
    pub path: PathBuf,
    /// Its length when it was found.
    pub len: u64,
}

impl OldLog {
    /// Its file of thread dumps.
    #[must_use]
    pub fn dumps_path(&self) -> Option<&Path> {
        self.dumps.as_ref().map(|file| &*file.path)
    }

    /// The file that names it in messages.
    pub(super) fn path(&self) -> &Path {
        self.calls.as_ref().or(self.dumps.as_ref()).map_or(Path::new(""), |file| &file.path)
    }
}

/// Finds TProfiler's logs in `paths`: files, or folders with [such files](logs_in). Also returns the other `paths`, to
/// be searched for runs.
pub fn discover(paths: &[PathBuf], problems: &mut Problems) -> (Vec<OldLog>, Vec<PathBuf>) {
    let (mut logs, mut methods, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        if path.is_dir() {
            logs.extend(logs_in(path));
            rest.push(path.clone());
        } else if path.exists() && is_log(path) {
            logs.push(path.clone());
        } else if path.exists() && suffix(path, METHODS).is_some() {
            methods.push(path.clone());
        } else {
            rest.push(path.clone());
        }
    }
    let mut seen = HashSet::new();
    logs.retain(|log| seen.insert(fs::canonicalize(log).unwrap_or_else(|_| log.clone())));
    let found = with_lengths(logs, problems);
    let (calls, dumps): (Vec<LogFile>, Vec<LogFile>) =
        found.into_iter().partition(|file| suffix(&file.path, LOG).is_some());
    if calls.is_empty() {
        for path in &methods {
            problems.warn(path, "names methods, but there is no tprofiler.log, ignored");
        }
    }
    (put_together(calls, dumps, methods.first()), rest)
}

/// The files that can be read, with their lengths.
fn with_lengths(paths: Vec<PathBuf>, problems: &mut Problems) -> Vec<LogFile> {
    let mut files = Vec::new();
    for path in paths {
        match fs::metadata(&path) {
            Ok(metadata) => files.push(LogFile { path, len: metadata.len() }),
            Err(error) => problems.unread(&path, error),
        }
    }
    files
}

/// The logs of runs: dumps belong to the calls of the same folder and day.
fn put_together(
    calls: Vec<LogFile>,
    dumps: Vec<LogFile>,
    other_methods: Option<&PathBuf>,
) -> Vec<OldLog> {
    let with_calls = |calls: LogFile| {
        let methods = methods_of(&calls.path).or_else(|| other_methods.cloned());
        OldLog { calls: Some(calls), methods, dumps: None }
    };
    let mut logs: Vec<OldLog> = calls.into_iter().map(with_calls).collect();
    for file in dumps {
        let day = suffix(&file.path, SAMPLER);
        let is_same_run = |log: &&mut OldLog| {
            let path = log.path();
            log.dumps.is_none() && path.parent() == file.path.parent() && suffix(path, LOG) == day
        };
        match logs.iter_mut().find(is_same_run) {
            Some(log) => log.dumps = Some(file),
            None => logs.push(OldLog { calls: None, methods: None, dumps: Some(file) }),
        }
    }
    logs
}

fn is_log(path: &Path) -> bool {
    [LOG, SAMPLER].into_iter().any(|name| suffix(path, name).is_some())
}

/// The logs in a folder and its direct subfolders, sorted, without dumps that were written from samples: the samples
/// count already.
#[must_use]
pub fn logs_in(folder: &Path) -> Vec<PathBuf> {
    all_in(folder).into_iter().filter(|path| !is_export(path)).collect()
}

/// The dumps in folders that were written from samples, and are read only if they are named.
pub fn exports_in(paths: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    paths.iter().flat_map(|folder| all_in(folder)).filter(|path| is_export(path))
}

fn all_in(folder: &Path) -> Vec<PathBuf> {
    // The search for runs reports what cannot be read.
    let inside = |folder: &Path| entries(folder).unwrap_or_default();
    let is_log = |path: &PathBuf| is_log(path) && path.is_file();
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) =
        inside(folder).into_iter().partition(|path| path.is_dir());
    let below = folders.iter().flat_map(|folder| inside(folder));
    files.into_iter().chain(below).filter(is_log).collect()
}

/// Whether a file is a `tsampler.log` that was written from samples.
#[must_use]
pub fn is_export(path: &Path) -> bool {
    let first_line = || open(path, u64::MAX)?.next_line().map(|line| line == Some(Ok(EXPORT_MARK)));
    // The reading of the file reports errors.
    suffix(path, SAMPLER).is_some() && first_line().unwrap_or(false)
}

/// The text after a file's name: nothing, or its day, `.2012-01-31`.
fn suffix(path: &Path, name: &str) -> Option<String> {
    let (_, plain) = Compression::of_name(path.file_name()?.to_str()?);
    let day = plain.strip_prefix(name)?;
    let is_day = |day: &str| {
        day.len() == 10 && day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    (day.is_empty() || day.strip_prefix('.').is_some_and(is_day)).then(|| day.to_owned())
}

/// The file that names the methods of a log: that of its day, else the one without a day.
fn methods_of(log: &Path) -> Option<PathBuf> {
    let folder = log.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let day = suffix(log, LOG)?;
    let files = entries(folder).ok()?;
    let of_day = |day: &str| {
        let found = files.iter().find(|path| suffix(path, METHODS).is_some_and(|d| d == day));
        found.cloned()
    };
    of_day(&day).or_else(|| of_day(""))
}

/// The logs as runs without files.
#[must_use]
pub fn as_runs(logs: &[OldLog]) -> Vec<RunInput> {
    let run = |(number, log): (u32, &OldLog)| {
        let folder = log.path().parent().map(Path::to_owned).unwrap_or_default();
        let lacks_names = log.calls.is_some() && log.methods.is_none();
        RunInput {
            label: log.path().display().to_string(),
            missing: if lacks_names { vec![folder.join(METHODS)] } else { Vec::new() },
            folder,
            // The log does not identify the process: each log counts as one.
            about: Run { pid: number, ..Run::default() },
            files: Vec::new(),
            awaits_totals: false,
            names_from: None,
        }
    };
    (1..).zip(logs).map(run).collect()
}

/// Opens a file, to be read up to its length when it was found; a compressed one, which does not grow, to its end.
pub(super) fn open(path: &Path, len: u64) -> io::Result<TextLines<BufReader<impl Read>>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let len = if Compression::of_name(&name).0 == Compression::Off { len } else { u64::MAX };
    Ok(TextLines::new(BufReader::with_capacity(1 << 16, compression::open(path)?.take(len))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names() {
        for (file, day) in [
            ("tprofiler.log", Some("")),
            ("a/tprofiler.log.2012-01-31", Some(".2012-01-31")),
            ("tprofiler.log.2012-01-31.gz", Some(".2012-01-31")),
            ("tprofiler.log.old", None),
            ("tprofiler.logs", None),
            ("mytprofiler.log", None),
            ("tmethod.log", None),
        ] {
            assert_eq!(suffix(Path::new(file), LOG).as_deref(), day, "{file}");
        }
    }
}
