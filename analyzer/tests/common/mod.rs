//! Writes log folders through `log-format`, as an agent would, and runs the real `analyze` on them. The binary runs
//! in the folder above `logs`, so that messages and reports contain no temporary path.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod allocating_shop;
pub mod browser;
pub mod jfr;
pub mod locked_shop;
pub mod sampled_shop;
pub mod shop;
pub mod sql_shop;
pub mod task_shop;
pub mod throwing_shop;
pub mod traced_shop;
pub mod two_jvms;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use log_format::file_names::{Hour, RUN_JSON, Table};
use log_format::histogram::{Histogram, bucket_of};
use log_format::ids::{JavaThreadId, MethodId, OsThreadId, StackId, ThreadId};
use log_format::rows::{
    CallRow, CounterRow, EventRow, Exit, MethodRow, Row, StackRow, StatsRow, ThreadRow, event,
};
use log_format::run::Run;
use log_format::writer::{write_header, write_rows};
use tempfile::TempDir;

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
pub const MIN: u64 = 60 * S;
pub const HOUR: u64 = 60 * MIN;
/// 2026-11-20T14:00:00Z.
pub const T14: u64 = 1_795_183_200 * S;
pub const T15: u64 = T14 + HOUR;

/// A folder with an empty folder `logs` in it.
pub struct Logs(TempDir);

impl Logs {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("logs")).unwrap();
        Self(folder)
    }

    /// The folder that `analyze` runs in.
    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// Makes `logs/<name>` with a `run.json`.
    pub fn run(&self, name: &str, host: &str, pid: u32) -> RunFolder {
        let run = RunFolder(self.root().join("logs").join(name));
        fs::create_dir_all(&run.0).unwrap();
        let about = Run {
            format_version: 1,
            service: "shop.jar".into(),
            host: host.into(),
            pid,
            start_ns: T14 + u64::from(pid),
            ..Run::default()
        };
        fs::write(run.0.join(RUN_JSON), about.to_json()).unwrap();
        run
    }

    /// Writes `logs/<name>`.
    pub fn file(&self, name: &str, text: &str) {
        let path = self.root().join("logs").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs `analyze` with these arguments.
    pub fn analyze(&self, args: &[&str]) -> Outcome {
        let output = self.command(args).output().unwrap();
        Outcome {
            status: output.status.code().expect("ended by itself"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_analyze"));
        command.args(args).current_dir(self.root());
        command
    }
}

/// The result of a run of `analyze`.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// The report of a run that printed no messages.
    pub fn quiet(self) -> String {
        assert_eq!((self.status, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        self.stdout
    }

    /// The rows of a CSV report, with the header.
    pub fn csv(&self) -> Vec<Vec<String>> {
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).from_reader(self.stdout.as_bytes());
        let rows = reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect());
        rows.collect()
    }

    /// A column of a CSV report, without its header.
    pub fn csv_column(&self, name: &str) -> Vec<String> {
        let rows = self.csv();
        let column = rows[0].iter().position(|c| c == name).expect("a column of that name");
        rows[1..].iter().map(|row| row[column].clone()).collect()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// The folder of a run.
pub struct RunFolder(pub PathBuf);

impl RunFolder {
    pub fn file(&self, at_ns: u64, table: Table) -> PathBuf {
        self.0.join(Hour::of_unix_ns(at_ns).file_name(table))
    }

    /// Appends rows to the file of the hour of `at_ns`; a new file gets its header.
    pub fn rows<R: Row>(&self, at_ns: u64, rows: &[R]) -> &Self {
        let path = self.file(at_ns, R::TABLE);
        let mut text = Vec::new();
        if !path.exists() {
            write_header::<R>(&mut text);
        }
        write_rows(&mut text, rows).unwrap();
        self.append(&path, &text)
    }

    /// Appends bytes to the file of a table.
    pub fn raw(&self, at_ns: u64, table: Table, text: &str) -> &Self {
        self.append(&self.file(at_ns, table), text.as_bytes())
    }

    fn append(&self, path: &Path, text: &[u8]) -> &Self {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(text).unwrap();
        self
    }
}

pub fn method(id: u32, class: &str, method: &str, descriptor: &str) -> MethodRow {
    MethodRow {
        id: MethodId::new(id),
        loader: "app".into(),
        class: class.into(),
        method: method.into(),
        descriptor: descriptor.into(),
        source: String::new(),
        line: 0,
    }
}

pub fn thread(id: u32, name: &str) -> ThreadRow {
    ThreadRow {
        id: ThreadId::new(id),
        java_id: JavaThreadId::NONE,
        os_id: OsThreadId::NONE,
        name: name.into(),
        kind: "platform".into(),
    }
}

pub fn stack(id: u32, parent: u32, method: u32) -> StackRow {
    StackRow { id: StackId::new(id), parent: StackId::new(parent), method: MethodId::new(method) }
}

/// Method statistics of calls with these durations, none of them recursive.
pub fn stats(start_ns: u64, method: u32, throws: u64, self_ns: u64, calls_ns: &[u64]) -> StatsRow {
    let mut hist = Histogram::default();
    for ns in calls_ns {
        hist.add(bucket_of(*ns), 1);
    }
    StatsRow {
        start_ns,
        method: MethodId::new(method),
        calls: calls_ns.len() as u64,
        throws,
        total_ns: calls_ns.iter().sum(),
        self_ns,
        max_ns: calls_ns.iter().copied().max().unwrap_or(0),
        hist,
    }
}

/// A call that ended with a return after `total_ns`, all of it self time.
pub fn call(start_ns: u64, thread: u32, stack: u32, method: u32, total_ns: u64) -> CallRow {
    CallRow {
        start_ns,
        thread: ThreadId::new(thread),
        stack: StackId::new(stack),
        method: MethodId::new(method),
        total_ns,
        self_ns: total_ns,
        exit: Exit::Return,
        allocated_bytes: None,
    }
}

pub fn counter(start_ns: u64, name: &str, value: u64) -> CounterRow {
    CounterRow { start_ns, name: name.into(), value }
}

/// An event: a method is throttled.
pub fn throttled(at_ns: u64, method: &str, calls_per_s: u64, mean_ns: u64) -> EventRow {
    EventRow {
        method: method.into(),
        calls_per_s: Some(calls_per_s),
        mean_ns: Some(mean_ns),
        ..EventRow::new(at_ns, event::THROTTLED)
    }
}

/// An event: the methods of a pattern are muted, or unmuted.
pub fn muted(at_ns: u64, pattern: &str, is_muted: bool) -> EventRow {
    let event = if is_muted { event::MUTED } else { event::UNMUTED };
    EventRow { pattern: pattern.into(), ..EventRow::new(at_ns, event) }
}

/// The beginning of a text report, up to and with the line on what to run next.
pub fn first_screen(text: &str) -> &str {
    let next = text.find("\nNext: ").expect("a line on what to run next") + 1;
    let length = text[next..].find('\n').expect("an end of that line");
    &text[..=next + length]
}

/// Compares a text with `tests/golden/<name>`. `UPDATE_GOLDEN=1` writes the file instead.
pub fn assert_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        fs::write(&path, text).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(text == golden, "{name} differs; it is now:\n{text}");
}
