//! Writes the files of a run.
//!
//! [`RunLog::flush`] writes the rows gathered in memory, names before the rows that use them, so that concurrent
//! readers find them. It retries a failed write after a second, from where it stopped; when too much waits, rows are
//! dropped and counted. It creates files that somebody deleted again, with all names that they need.
//!
//! An hour's files are closed and compressed when another hour has begun and no more rows come for them. Rows that
//! still come for a closed hour, because the clock was set back, begin another part of the hour.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;

use log_format::compression::Compression;
use log_format::error::FileError;
use log_format::file_names::{Hour, Part, RUN_JSON, Table, run_name};
use log_format::ids::{MethodId, ThreadId};
use log_format::rows::{
    CallRow, CounterRow, EventRow, ExceptionRow, LockRow, Row, SqlRow, StatsRow, TaskCallRow,
    TaskRequestRow,
};
use log_format::run::Run;

use crate::log::compress::{Background, Compressed};
use crate::log::folder::{LogFolder, RunFolder};
use crate::log::part_files::{Names, PartFiles};
use crate::log::retention::{Limits, Retention};
use crate::log::sampled_row::SampledRow;
use crate::log::table_file::TableFile;
use crate::stderr::message;
use crate::sys::clock;

/// Most bytes that wait for a disk that does not accept them.
const MAX_PENDING: usize = 16 << 20;
/// Delay after a write that failed.
const RETRY_NS: u64 = 1_000_000_000;
/// Delay after the log folder was deleted and could not be created again.
const RETRY_FOLDER_NS: u64 = 5_000_000_000;
/// The files of a past hour are closed after this time without new rows: its last recorded calls may still be in a
/// ring, and a clock that is set back a little goes on in the same files.
const IDLE_NS: u64 = 10_000_000_000;

/// Name of `run.json` while it is being written.
const NEW_RUN_JSON: &str = "run.json.new";

/// The current time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub unix_ns: u64,
    pub monotonic_ns: u64,
}

impl Now {
    /// Nanoseconds since an earlier moment, whatever happened to the clock since.
    pub(crate) fn since(self, earlier: Self) -> u64 {
        self.monotonic_ns.saturating_sub(earlier.monotonic_ns)
    }

    pub(crate) fn read() -> Self {
        Self { unix_ns: clock::unix_ns(), monotonic_ns: clock::monotonic_ns() }
    }
}

/// The folder of a run and its open files.
#[derive(Debug)]
pub(crate) struct RunLog {
    logs: LogFolder,
    folder: Arc<RunFolder>,
    run: Run,
    /// The open parts of hours.
    open: BTreeMap<Part, PartFiles>,
    /// Increases whenever files are begun, or rows were dropped.
    begun: u64,
    /// How many parts of an hour are closed.
    closed: HashMap<Hour, u32>,
    retention: Retention,
    background: Background,
    /// When to retry after a failure.
    retry_ns: u64,
    /// When to retry creating the log folder, and why that failed.
    retry_folder: Option<(u64, FileError)>,
    pub bytes: u64,
    /// Writes that failed.
    pub io_errors: u64,
    /// Rows dropped because the disk accepted none for too long.
    pub rows_dropped: u64,
    /// Why the last flush did not write everything.
    failure: Option<FileError>,
    /// Set if a clock has jumped. Then no call ended later than now, whatever its duration says.
    has_clock_jumped: bool,
}

impl RunLog {
    /// Creates the folder of a new run in `logs`.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub(crate) fn create(
        logs: LogFolder,
        run: &Run,
        compression: Compression,
        limits: Limits,
    ) -> Result<Self, FileError> {
        let folder = make_run(&logs, run).map_err(FileError::at(logs.path()))?;
        Ok(Self {
            logs,
            folder: Arc::new(folder),
            run: run.clone(),
            open: BTreeMap::new(),
            begun: 0,
            closed: HashMap::new(),
            retention: Retention::new(limits),
            background: Background::new(compression),
            retry_ns: 0,
            retry_folder: None,
            bytes: 0,
            io_errors: 0,
            rows_dropped: 0,
            failure: None,
            has_clock_jumped: false,
        })
    }

    pub(crate) fn folder(&self) -> &Arc<RunFolder> {
        &self.folder
    }

    /// Deletes the folder of a run in which nothing was recorded.
    pub(crate) fn discard(self) {
        // Anything that cannot be deleted stays.
        let _ = self.logs.remove_run(&self.folder);
    }

    /// Sets the control port and writes `run.json`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn set_port(&mut self, port: Option<u16>) -> Result<(), FileError> {
        self.run.port = port;
        self.write_run().map_err(FileError::at(self.folder.path().join(RUN_JSON)))
    }

    /// Writes `run.json`, whole or not at all.
    fn write_run(&self) -> io::Result<()> {
        self.folder.create(NEW_RUN_JSON)?.write_all(self.run.to_json().as_bytes())?;
        self.folder.rename(NEW_RUN_JSON, RUN_JSON)
    }

    /// Increases whenever files are begun that do not repeat what earlier ones say.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// The open part of an hour.
    fn part(&mut self, hour: Hour) -> &mut PartFiles {
        let number = 1 + self.closed.get(&hour).copied().unwrap_or(0);
        let begun = &mut self.begun;
        self.open.entry(Part { hour, number }).or_insert_with(|| {
            *begun += 1;
            PartFiles::default()
        })
    }

    /// Notes that a clock has jumped: calls during the jump may have any duration.
    pub(crate) fn set_clock_jumped(&mut self) {
        self.has_clock_jumped = true;
    }

    /// Adds calls, each to the hour in which it ended.
    pub(crate) fn add_calls(&mut self, rows: &[CallRow], names: &dyn Names) {
        let hour = self.hours_of_ends();
        let hour = |row: &CallRow| hour(row.start_ns, row.total_ns);
        self.by_hour(rows, hour, |part, rows| {
            part.name_calls(rows, names);
            part.add(rows);
        });
    }

    /// Adds the names of calls that will be added later.
    pub(crate) fn name_calls(&mut self, rows: &[CallRow], names: &dyn Names) {
        let hour = self.hours_of_ends();
        let hour = |row: &CallRow| hour(row.start_ns, row.total_ns);
        self.by_hour(rows, hour, |part, rows| part.name_calls(rows, names));
    }

    /// Finds the hour in which something ended, by its start and duration.
    fn hours_of_ends(&self) -> impl Fn(u64, u64) -> Hour + use<> {
        let latest = if self.has_clock_jumped { clock::unix_ns() } else { u64::MAX };
        move |start_ns, length_ns| Hour::of_unix_ns(start_ns.saturating_add(length_ns).min(latest))
    }

    fn by_hour<R>(
        &mut self,
        rows: &[R],
        hour: impl Fn(&R) -> Hour,
        mut add: impl FnMut(&mut PartFiles, &[R]),
    ) {
        for rows in rows.chunk_by(|a, b| hour(a) == hour(b)) {
            let Some(first) = rows.first() else { continue };
            add(self.part(hour(first)), rows);
        }
    }

    /// Adds the method statistics of one interval.
    pub(crate) fn add_stats(&mut self, rows: &[StatsRow], names: &dyn Names) {
        self.add_interval(rows, |row| (row.start_ns, row.method), names);
    }

    /// Adds the statistics of waits for monitors of one interval.
    pub(crate) fn add_locks(&mut self, rows: &[LockRow], names: &dyn Names) {
        self.add_interval(rows, |row| (row.start_ns, row.method), names);
    }

    /// Adds the statistics of SQL statements of one interval.
    pub(crate) fn add_sql(&mut self, rows: &[SqlRow], names: &dyn Names) {
        if let Some(first) = rows.first() {
            let part = self.part(Hour::of_unix_ns(first.start_ns));
            rows.iter().for_each(|row| part.name_statement(row.statement, names));
        }
        self.add_interval(rows, |row| (row.start_ns, row.method), names);
    }

    /// Adds the counts of exceptions of one interval.
    pub(crate) fn add_exceptions(&mut self, rows: &[ExceptionRow], names: &dyn Names) {
        self.add_interval(rows, |row| (row.start_ns, row.method), names);
    }

    /// Adds rows of one interval, with its start and a method.
    fn add_interval<R: Row>(
        &mut self,
        rows: &[R],
        of: impl Fn(&R) -> (u64, MethodId),
        names: &dyn Names,
    ) {
        let Some(first) = rows.first() else { return };
        let part = self.part(Hour::of_unix_ns(of(first).0));
        for row in rows {
            part.name_method(of(row).1, names);
        }
        part.add(rows);
    }

    /// Adds rows with sampled stacks, each to the hour in which it ended. Returns how many bytes they and their names
    /// take.
    pub(crate) fn add_sampled<R: SampledRow>(&mut self, rows: &[R], names: &dyn Names) -> u64 {
        let mut bytes = 0;
        let hour = self.hours_of_ends();
        let hour = |row: &R| {
            let (start_ns, length_ns) = row.time();
            hour(start_ns, length_ns)
        };
        self.by_hour(rows, hour, |part, rows| {
            let before = part.added;
            part.name_sampled(rows, names);
            part.add(rows);
            bytes += part.added - before;
        });
        bytes
    }

    /// Adds the name of a thread that has rows in this hour later.
    pub(crate) fn name_thread(&mut self, hour: Hour, thread: ThreadId, names: &dyn Names) {
        self.part(hour).name_thread(thread, names);
    }

    /// Adds counters of one interval.
    pub(crate) fn add_counters(&mut self, rows: &[CounterRow]) {
        let Some(first) = rows.first() else { return };
        self.part(Hour::of_unix_ns(first.start_ns)).add(rows);
    }

    /// Adds a request of a task with its calls, to the hour in which it ended. Returns how many bytes they and their
    /// names take.
    pub(crate) fn add_request(
        &mut self,
        request: &TaskRequestRow,
        calls: &[TaskCallRow],
        names: &dyn Names,
    ) -> u64 {
        let hour = self.hours_of_ends()(request.start_ns, request.total_ns);
        let part = self.part(hour);
        let before = part.added;
        part.name_request(request, calls, names);
        part.add(calls);
        part.add(std::slice::from_ref(request));
        part.added - before
    }

    /// Adds rows to the current hour.
    pub(crate) fn add_now<R: Row>(&mut self, rows: &[R]) {
        if !rows.is_empty() {
            self.part(Hour::of_unix_ns(clock::unix_ns())).add(rows);
        }
    }

    /// Adds events. A repeated one goes into the current hour.
    pub(crate) fn add_events(&mut self, rows: &[EventRow]) {
        self.add_now(rows);
    }

    /// Bytes of rows added since the last call.
    pub(crate) fn take_added(&mut self) -> u64 {
        self.open.values_mut().map(|part| std::mem::take(&mut part.added)).sum()
    }

    /// Parts of hours deleted because the run was too large or they were too old.
    pub(crate) fn deleted_hours(&self) -> u64 {
        self.retention.deleted()
    }

    /// Why the last flush did not write everything, if so.
    pub(crate) fn failure(&self) -> Option<&FileError> {
        self.failure.as_ref()
    }

    /// Hands all added rows to the kernel; with `sync`, to the disk. Reports when writing begins to fail, and when it
    /// works again. Closes the files of past hours, and deletes the oldest if the run is too large or they are too
    /// old.
    pub(crate) fn flush(&mut self, now: Now, sync: bool, names: &dyn Names) {
        let is_waiting = now.monotonic_ns < self.retry_ns;
        if !is_waiting || sync {
            let before = self.failure.take();
            self.failure = self.write(now, sync, names).err();
            match (&before, &self.failure) {
                (None, Some(error)) => message!("{error}; it is tried again"),
                (Some(_), None) => {
                    message!("the log is written again; {} rows were dropped", self.rows_dropped);
                }
                _ => {}
            }
            self.retry_ns = self.failure.as_ref().map_or(0, |_| now.monotonic_ns + RETRY_NS);
        }
        self.give_up_excess();
        self.close_idle(now);
        for Compressed { part, saved, errors } in self.background.finished() {
            self.retention.shrink(part, saved);
            for error in errors {
                self.io_errors += 1;
                message!("{error}; it stays without compression");
            }
        }
        let open_bytes = self.open.values().map(|part| part.bytes).sum();
        while let Some(part) = self.retention.next_to_delete(open_bytes, now.monotonic_ns) {
            self.background.delete(self.folder.clone(), files(part));
        }
    }

    /// Closes all files, even if rows still wait.
    pub(crate) fn close(&mut self) {
        self.open.clear();
    }

    fn write(&mut self, now: Now, sync: bool, names: &dyn Names) -> Result<(), FileError> {
        if !self.open.values().any(PartFiles::is_behind) && !sync {
            return Ok(());
        }
        self.make_deleted_folder(now, names)?;
        let mut failures = self.write_tables(sync, names);
        // Somebody may delete the folder while files are being begun in it.
        if failures.iter().any(|(_, error)| error.kind() == ErrorKind::NotFound) {
            self.make_deleted_folder(now, names)?;
            failures = self.write_tables(sync, names);
        }
        self.io_errors += failures.len() as u64;
        let last = failures.pop().map(|(path, error)| FileError::at(path)(error));
        last.map_or(Ok(()), Err)
    }

    /// Creates the run's folder again if somebody has deleted it, or only `run.json`: without it nobody could read
    /// the other files.
    fn make_deleted_folder(&mut self, now: Now, names: &dyn Names) -> Result<(), FileError> {
        let is_deleted = self.folder.is_deleted();
        if !is_deleted && self.folder.has(RUN_JSON) {
            return Ok(());
        }
        if let Some((retry_ns, error)) = &self.retry_folder
            && now.monotonic_ns < *retry_ns
        {
            return Err(error.clone());
        }
        let made = if is_deleted { self.make_folder(now) } else { self.write_run() };
        // The deletion may still be going on.
        let made = made.or_else(|error| match error.kind() {
            ErrorKind::NotFound => self.make_folder(now),
            _ => Err(error),
        });
        if let Err(error) = made {
            self.io_errors += 1;
            return Err(match &self.retry_folder {
                Some((_, error)) => error.clone(),
                None => FileError::at(self.folder.path())(error),
            });
        }
        message!("files of the log were deleted; it goes on in {}", self.folder.path().display());
        // The other files may have been moved away.
        self.open.values_mut().for_each(|part| part.forget_files(names));
        self.begun += 1;
        Ok(())
    }

    /// Creates another folder for the run, and the log folder if that was deleted too.
    fn make_folder(&mut self, now: Now) -> io::Result<()> {
        let made = self.logs.make_again().map_err(|error| (error.kind(), error));
        self.retry_folder = None;
        if let Err((kind, error)) = made {
            let error = FileError::at(self.logs.path())(error);
            self.retry_folder = Some((now.monotonic_ns + RETRY_FOLDER_NS, error));
            return Err(kind.into());
        }
        self.folder = Arc::new(make_run(&self.logs, &self.run)?);
        self.write_run()
    }

    /// Writes what waits; returns what could not be written.
    fn write_tables(&mut self, sync: bool, names: &dyn Names) -> Vec<(PathBuf, io::Error)> {
        let mut failures = Vec::new();
        for (name, part) in &mut self.open {
            if part.tables.values().any(TableFile::was_deleted) {
                part.forget_files(names);
                self.begun += 1;
            }
            for table in Table::ALL {
                let Some(file) = part.tables.get_mut(&table) else { continue };
                let file_name = name.file_name(table);
                let (written, error) = file.write(|| self.folder.append(&file_name), sync);
                part.bytes += written;
                self.bytes += written;
                failures.extend(error.map(|error| (self.folder.path().join(file_name), error)));
            }
        }
        failures
    }

    /// Drops rows when too much waits for the disk: recorded calls first, because the method statistics count them
    /// too.
    fn give_up_excess(&mut self) {
        let waiting = |open: &BTreeMap<Part, PartFiles>| -> usize {
            open.values().flat_map(|part| part.tables.values()).map(TableFile::waiting).sum()
        };
        if waiting(&self.open) <= MAX_PENDING {
            return;
        }
        let calls = self.open.values_mut().filter_map(|part| part.tables.get_mut(&Table::Calls));
        self.rows_dropped += calls.map(TableFile::give_up).sum::<u64>();
        if waiting(&self.open) <= MAX_PENDING / 2 {
            return;
        }
        for part in self.open.values_mut() {
            self.rows_dropped += part.tables.values_mut().map(TableFile::give_up).sum::<u64>();
            part.forget_names();
            self.begun += 1;
        }
    }

    /// Closes the files of past hours, and files that alone take much of the run's limit.
    fn close_idle(&mut self, now: Now) {
        let current = Hour::of_unix_ns(now.unix_ns);
        let mut idle = Vec::new();
        for (name, part) in &mut self.open {
            if std::mem::take(&mut part.is_touched) {
                part.touched_ns = now.monotonic_ns;
            }
            let is_idle = now.monotonic_ns.saturating_sub(part.touched_ns) >= IDLE_NS;
            let is_over = name.hour != current && is_idle;
            if (is_over || self.retention.is_too_large(part.bytes)) && !part.is_behind() {
                idle.push(*name);
            }
        }
        for name in idle {
            if let Some(part) = self.open.remove(&name) {
                self.closed.insert(name.hour, name.number);
                self.retention.add(name, part.bytes, now.monotonic_ns);
                self.background.compress(name, self.folder.clone(), files(name));
            }
        }
    }
}

/// Creates a folder for a run.
fn make_run(logs: &LogFolder, run: &Run) -> io::Result<RunFolder> {
    logs.make_run(|attempt| run_name(run.start_ns, &run.host, run.pid, attempt))
}

/// The files of a part, by their plain names.
fn files(part: Part) -> Vec<String> {
    Table::ALL.into_iter().map(|table| part.file_name(table)).collect()
}

#[cfg(test)]
#[path = "run_log_tests.rs"]
mod tests;
