//! Finds runs and their data files, each once, even if it was named twice.
//!
//! The length of each file is taken here, and the reading stops there. Names are read after that, so the names of all
//! rows are there even in a run that is still being written.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use log_format::compression::Compression;
use log_format::file_names::{FileName, Hour, Part, RUN_JSON, Table, parse_file_name};
use log_format::run::Run;

use crate::input::problems::Problems;

/// A run to read.
#[derive(Clone, Debug)]
pub struct RunInput {
    /// The name of its folder, or the folder's path where several runs have the same name.
    pub label: String,
    /// Its folder, as it was named or found.
    pub folder: PathBuf,
    /// Its `run.json`.
    pub about: Run,
    /// The data files to count, by hour.
    pub files: Vec<DataFile>,
    /// Missing data files.
    pub missing: Vec<PathBuf>,
    /// Whether its last hour has recorded calls but no method statistics, as when it has just begun.
    pub awaits_totals: bool,
    /// The hour from which on names are read; `None`: of all hours.
    pub names_from: Option<Hour>,
}

impl RunInput {
    /// Leaves out the files of earlier hours. Each hour names what its rows refer to, so their names are not read
    /// either.
    #[must_use]
    pub fn since(mut self, first: Hour) -> Self {
        self.files.retain(|file| file.part.hour >= first);
        self.names_from = Some(first);
        self
    }
}

/// A data file: one that does not contain names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataFile {
    /// Its hour, and which part of it.
    pub part: Part,
    /// Its table.
    pub table: Table,
    /// Its path, as it was named or found.
    pub path: PathBuf,
    /// Its length in bytes when it was found.
    pub len: u64,
}

/// Finds all runs in `paths`, in the order of their names. A path may be a run's folder, a folder of runs, or one
/// file of a run; in the last case only the named files are counted. For a folder without a run, `has_others` says
/// whether it has other logs.
pub fn discover(
    paths: &[PathBuf],
    has_others: fn(&Path) -> bool,
    problems: &mut Problems,
) -> Vec<RunInput> {
    let mut finder = Finder { runs: BTreeMap::new(), seen: HashSet::new(), has_others, problems };
    for path in paths {
        finder.path(path);
    }
    finder.finish()
}

/// A run before its `run.json` is read.
struct Found {
    folder: PathBuf,
    /// Whether all of its files are to be read.
    whole: bool,
    files: Vec<DataFile>,
}

struct Finder<'p> {
    /// By the folder's canonical path.
    runs: BTreeMap<PathBuf, Found>,
    /// Canonical paths of all files found.
    seen: HashSet<PathBuf>,
    has_others: fn(&Path) -> bool,
    problems: &'p mut Problems,
}

impl Finder<'_> {
    fn path(&mut self, path: &Path) {
        match fs::metadata(path) {
            Err(error) => self.problems.unread(path, error),
            Ok(metadata) if metadata.is_dir() => self.folder(path),
            Ok(_) if path.file_name().is_some_and(|name| name == RUN_JSON) => {
                self.folder(&folder_of(path));
            }
            Ok(_) => self.named_file(path),
        }
    }

    fn folder(&mut self, folder: &Path) {
        let inside = match entries(folder) {
            Ok(inside) => inside,
            Err(error) => return self.problems.unread(folder, error),
        };
        let mut has_run = looks_like_run(&inside);
        if has_run {
            self.run(folder, &inside);
        }
        if inside.contains(&folder.join(RUN_JSON)) {
            return;
        }
        for sub_folder in inside.iter().filter(|path| path.is_dir()) {
            match entries(sub_folder) {
                Ok(inside) if looks_like_run(&inside) => {
                    has_run = true;
                    self.run(sub_folder, &inside);
                }
                Ok(_) => {}
                Err(error) => self.problems.unread(sub_folder, error),
            }
        }
        if !has_run && !(self.has_others)(folder) {
            let deeper = inside.iter().find(|sub| has_runs(sub));
            let hint = deeper.map(|sub| format!("; there is one in {}", sub.display()));
            let hint = hint.unwrap_or_default();
            self.problems.warn(folder, format!("there is no run in this folder{hint}"));
        }
    }

    /// Adds every file of a run.
    fn run(&mut self, folder: &Path, inside: &[PathBuf]) {
        let Some(key) = self.register(folder) else { return };
        if let Some(found) = self.runs.get_mut(&key) {
            found.whole = true;
        }
        for path in inside {
            if let Some(name) = table_of(path) {
                self.file(&key, path, name);
            }
        }
    }

    /// Adds a single file. The file or its run may be named by a symlink, so either the given path or the true one
    /// may be the one inside a run.
    fn named_file(&mut self, path: &Path) {
        let canonical = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let names: Vec<(&Path, FileName)> = [path, canonical.as_path()]
            .into_iter()
            .filter_map(|name| Some((name, table_of(name)?)))
            .collect();
        let in_a_run = names.iter().find(|(name, _)| folder_of(name).join(RUN_JSON).exists());
        let Some((name, said)) = in_a_run.or(names.first()) else {
            return self.problems.warn(path, "not a file of a run, ignored");
        };
        if let Some(key) = self.register(&folder_of(name)) {
            self.file(&key, path, *said);
        }
    }

    /// Registers a run and returns its key.
    fn register(&mut self, folder: &Path) -> Option<PathBuf> {
        match canonical(folder) {
            Ok(key) => {
                self.runs.entry(key.clone()).or_insert_with(|| Found {
                    folder: folder.to_owned(),
                    whole: false,
                    files: Vec::new(),
                });
                Some(key)
            }
            Err(error) => {
                self.problems.unread(folder, error);
                None
            }
        }
    }

    fn file(&mut self, run: &Path, path: &Path, name: FileName) {
        let FileName { part, table, compression } = name;
        if !is_data(table) {
            return;
        }
        let found = canonical(path).and_then(|c| Ok((c, fs::metadata(path)?)));
        let (canonical, metadata) = match found {
            Ok(found) => found,
            Err(error) => return self.problems.unread(path, error),
        };
        if !self.seen.insert(canonical) {
            return;
        }
        let file = DataFile { part, table, path: path.to_owned(), len: metadata.len() };
        let Some(found) = self.runs.get_mut(run) else { return };
        match found.files.iter_mut().find(|f| (f.part, f.table) == (part, table)) {
            None => found.files.push(file),
            // While a file is being compressed, both files exist; the plain one is complete.
            Some(other) if compression == Compression::Off => *other = file,
            Some(_) => {}
        }
    }

    fn finish(self) -> Vec<RunInput> {
        let mut runs = Vec::new();
        for (canonical, mut found) in self.runs {
            match Run::read(&found.folder) {
                Ok(about) => {
                    found.files.sort();
                    let last = found.files.last().map(|file| file.part.hour);
                    let without = if found.whole { without_totals(&found) } else { Vec::new() };
                    let is_missing = |hour: &&Hour| Some(**hour) != last;
                    let totals_of = |hour: &Hour| found.folder.join(hour.file_name(Table::Stats));
                    runs.push(RunInput {
                        label: file_name(&canonical),
                        missing: without.iter().filter(is_missing).map(totals_of).collect(),
                        awaits_totals: last.is_some_and(|last| without.contains(&last)),
                        names_from: None,
                        folder: found.folder,
                        about,
                        files: found.files,
                    });
                }
                Err(reason) => self.problems.skip_run(&reason),
            }
        }
        warn_of_copies(&runs, self.problems);
        name_apart(&mut runs);
        runs.sort_by(|a, b| (&a.label, &a.folder).cmp(&(&b.label, &b.folder)));
        runs
    }
}

/// The canonical path of a file. Through `/proc/<pid>/root`, files of a container can be read, but their canonical
/// paths name something else outside it: there, the given path is used.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path).or_else(|error| match fs::metadata(path) {
        Ok(_) => Ok(path.to_owned()),
        Err(_) => Err(error),
    })
}

/// Whether a table holds data, not names.
fn is_data(table: Table) -> bool {
    is_of_calls(table)
        || matches!(
            table,
            Table::Counters
                | Table::Events
                | Table::Samples
                | Table::Locks
                | Table::LockWaits
                | Table::Allocations
                | Table::Exceptions
                | Table::ExceptionExamples
                | Table::Traces
                | Table::Sql
                | Table::SlowSql
                | Table::Tasks
                | Table::TaskRequests
                | Table::TaskCalls
        )
}

/// Whether the rows of a table describe calls.
pub fn is_of_calls(table: Table) -> bool {
    matches!(table, Table::Calls | Table::Stats)
}

/// Parses the name of a run's file.
pub fn table_of(path: &Path) -> Option<FileName> {
    parse_file_name(path.file_name()?.to_str()?)
}

/// The sorted paths of a folder's entries.
pub fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn looks_like_run(entries: &[PathBuf]) -> bool {
    entries.iter().any(|entry| {
        let is_run_json = entry.file_name().is_some_and(|name| name == RUN_JSON);
        is_run_json || (table_of(entry).is_some() && !entry.is_dir())
    })
}

/// Whether a folder contains folders of runs.
fn has_runs(folder: &Path) -> bool {
    let inside = if folder.is_dir() { entries(folder).unwrap_or_default() } else { Vec::new() };
    inside.iter().any(|sub| entries(sub).is_ok_and(|inside| looks_like_run(&inside)))
}

/// The folder of a file; for a bare file name it is `.`.
fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// The hours that have recorded calls but no method statistics. An hour gets some after its first interval.
fn without_totals(found: &Found) -> Vec<Hour> {
    let hours_of = |table| -> BTreeSet<Hour> {
        found.files.iter().filter(|f| f.table == table).map(|f| f.part.hour).collect()
    };
    let with_totals = hours_of(Table::Stats);
    hours_of(Table::Calls).difference(&with_totals).copied().collect()
}

/// Warns of possible copies of a run. They cannot be told from hours of it that were shipped to several places, so
/// both are counted.
fn warn_of_copies(runs: &[RunInput], problems: &mut Problems) {
    let mut known = HashMap::new();
    for run in runs.iter().filter(|run| run.about.start_ns > 0) {
        let identity = (&run.about.host, run.about.pid, run.about.start_ns);
        if let Some(other) = known.insert(identity, run) {
            let other = other.folder.display();
            problems.warn(&run.folder, format!("the same run as {other}, both are counted"));
        }
    }
}

fn name_apart(runs: &mut [RunInput]) {
    let mut times: HashMap<String, usize> = HashMap::new();
    for run in runs.iter() {
        *times.entry(run.label.clone()).or_default() += 1;
    }
    for run in runs.iter_mut() {
        if times.get(&run.label).is_some_and(|n| *n > 1) {
            run.label = run.folder.display().to_string();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: &str = "20261120T14Z";

    /// A folder with a run for each name; each has a file of calls, of stats and of methods.
    fn logs(runs: &[&str]) -> tempfile::TempDir {
        let logs = tempfile::tempdir().unwrap();
        for run in runs {
            let folder = logs.path().join(run);
            fs::create_dir_all(&folder).unwrap();
            let about = Run { format_version: 1, ..Run::default() };
            fs::write(folder.join(RUN_JSON), about.to_json()).unwrap();
            for table in ["calls", "stats", "methods"] {
                fs::write(folder.join(format!("{HOUR}.{table}.csv")), "x\n").unwrap();
            }
        }
        logs
    }

    fn find(paths: &[PathBuf]) -> (Vec<(String, usize)>, Problems) {
        let mut problems = Problems::default();
        let runs = discover(paths, |_| false, &mut problems);
        (runs.into_iter().map(|run| (run.label, run.files.len())).collect(), problems)
    }

    #[test]
    fn a_run_a_folder_of_runs_and_a_file() {
        let logs = logs(&["b", "a"]);
        fs::write(logs.path().join("README"), "").unwrap();
        fs::create_dir(logs.path().join("other")).unwrap();
        let both = vec![("a".to_owned(), 2), ("b".to_owned(), 2)];
        assert_eq!(find(&[logs.path().into()]), (both.clone(), Problems::default()));
        let run = logs.path().join("a");
        assert_eq!(find(std::slice::from_ref(&run)).0, both[..1]);
        assert_eq!(find(&[run.join(RUN_JSON)]).0, both[..1]);
        let file = run.join(format!("{HOUR}.calls.csv"));
        assert_eq!(find(&[file]).0, [("a".to_owned(), 1)]);
        let names = run.join(format!("{HOUR}.methods.csv"));
        assert_eq!(find(&[names]).0, [("a".to_owned(), 0)]);
    }

    #[test]
    fn runs_that_lie_deeper_are_pointed_to() {
        let logs = logs(&["service/logs/a"]);
        let (found, problems) = find(&[logs.path().join("service")]);
        let hint = format!("; there is one in {}", logs.path().join("service/logs").display());
        assert!(found.is_empty() && problems.messages()[0].ends_with(&hint), "{problems:?}");
        assert_eq!(find(&[logs.path().join("service/logs")]).0, [("a".to_owned(), 2)]);
    }

    #[test]
    fn a_file_named_twice_is_found_once() {
        let logs = logs(&["a"]);
        let run = logs.path().join("a");
        let file = run.join(format!("{HOUR}.calls.csv"));
        let roundabout = logs.path().join("a/../a").join(format!("{HOUR}.calls.csv"));
        let mut paths = vec![file.clone(), roundabout, run.clone(), logs.path().into(), run];
        #[cfg(unix)]
        {
            let link = logs.path().join("link.csv");
            std::os::unix::fs::symlink(&file, &link).unwrap();
            std::os::unix::fs::symlink(&paths[2], logs.path().join("latest")).unwrap();
            assert_eq!(find(std::slice::from_ref(&link)).0, [("a".to_owned(), 1)]);
            paths.push(link);
        }
        assert_eq!(find(&paths), (vec![("a".to_owned(), 2)], Problems::default()));
    }

    #[test]
    fn a_file_that_is_there_both_ways_is_found_once() {
        let logs = logs(&["a"]);
        let run = logs.path().join("a");
        let plain = run.join(format!("{HOUR}.calls.csv"));
        let compressed = run.join(format!("{HOUR}.calls.csv.gz"));
        fs::write(&compressed, "x").unwrap();
        fs::write(run.join(format!("{HOUR}.stats.csv.zst")), "x").unwrap();
        fs::write(run.join(format!("{HOUR}-10.calls.csv")), "x").unwrap();
        fs::write(run.join(format!("{HOUR}-2.calls.csv.gz")), "x").unwrap();
        fs::write(run.join(format!("{HOUR}.calls.csv.gz.new")), "x").unwrap();
        for paths in [vec![run.clone()], vec![compressed, plain.clone(), run]] {
            let runs = discover(&paths, |_| false, &mut Problems::default());
            let calls = runs[0].files.iter().filter(|file| file.table == Table::Calls);
            let names: Vec<String> = calls.map(|file| file_name(&file.path)).collect();
            // In the order in which they were written, not that of their names.
            let expected = ["calls.csv", "-2.calls.csv.gz", "-10.calls.csv"];
            let expected = expected
                .map(|end| format!("{HOUR}{}{end}", if end.starts_with('-') { "" } else { "." }));
            assert_eq!(names, expected);
            assert_eq!(runs[0].files.len(), 4);
        }
    }

    #[test]
    fn runs_of_the_same_name_are_shown_by_their_paths() {
        let logs = logs(&["x/a", "y/a"]);
        let paths = [logs.path().join("y"), logs.path().join("x")];
        let labels: Vec<String> = find(&paths).0.into_iter().map(|(label, _)| label).collect();
        let expected = ["x/a", "y/a"].map(|p| logs.path().join(p).display().to_string());
        assert_eq!(labels, expected);
    }

    #[test]
    fn an_hour_of_recorded_calls_without_method_statistics_misses_them() {
        let logs = logs(&["a"]);
        let file = |name: &str| logs.path().join("a").join(name);
        let stats = file(&format!("{HOUR}.stats.csv"));
        fs::remove_file(&stats).unwrap();
        let find = || discover(&[logs.path().into()], |_| false, &mut Problems::default());
        // It may have begun a moment ago.
        assert_eq!((find()[0].missing.len(), find()[0].awaits_totals), (0, true));
        fs::write(file("20261120T15Z.counters.csv"), "x\n").unwrap();
        assert_eq!((&*find()[0].missing, find()[0].awaits_totals), (&[stats][..], false));
    }

    #[test]
    fn copies_of_a_run_are_reported() {
        let logs = logs(&["a", "b"]);
        for run in ["a", "b"] {
            let about = Run { format_version: 1, start_ns: 7, ..Run::default() };
            fs::write(logs.path().join(run).join(RUN_JSON), about.to_json()).unwrap();
        }
        let messages = find(&[logs.path().into()]).1.messages();
        assert_eq!(messages.len(), 1);
        assert!(messages[0].contains("the same run as"), "{messages:?}");
    }
}
