//! Writes the files of a run.
//!
//! [`RunLog::flush`] writes the rows gathered in memory, names before the rows that use them, so that concurrent
//! readers find them. It retries a failed write after a second, from where it stopped; when too much waits, rows are
//! dropped and counted. It creates files that somebody deleted again, with all names that they need.
//!
//! An hour's files are closed and compressed when another hour has begun and no more rows come for them. Rows that
//! still come for a closed hour, because the clock was set back, begin another part of the hour.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;

use log_format::compression::Compression;
use log_format::names::{Hour, Part, RUN_JSON, Table, run_name};
use log_format::rows::{
    CallRow, CounterRow, EventRow, MethodRow, Row, StackRow, StatsRow, ThreadRow,
};
use log_format::run::Run;

use crate::log::compress::{Background, Compressed};
use crate::log::folder::{LogFolder, RunFolder};
use crate::log::retention::{Limits, Retention};
use crate::log::table_file::TableFile;
use crate::message::message;
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

/// Resolves the ids in rows to names.
pub(crate) trait Names {
    /// The method with an id.
    fn method(&self, id: u32) -> Option<MethodRow>;
    /// The thread with an id, with its current name.
    fn thread(&self, id: u32) -> Option<ThreadRow>;
    /// The call path with an id.
    fn stack(&self, id: u32) -> Option<StackRow>;
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
    retry_folder: Option<(u64, String)>,
    pub bytes: u64,
    /// Writes that failed.
    pub io_errors: u64,
    /// Rows dropped because the disk accepted none for too long.
    pub rows_dropped: u64,
    /// Why the last flush did not write everything.
    failure: Option<String>,
    /// Set if a clock has jumped. Then no call ended later than now, whatever its duration says.
    has_clock_jumped: bool,
}

#[derive(Debug, Default)]
struct PartFiles {
    tables: BTreeMap<Table, TableFile>,
    methods: HashSet<u32>,
    threads: HashSet<u32>,
    stacks: HashSet<u32>,
    /// Bytes written.
    bytes: u64,
    /// Bytes added since [`RunLog::take_added`].
    added: u64,
    /// Whether rows were added since the last flush.
    is_touched: bool,
    /// When there last were, on CLOCK_MONOTONIC.
    touched_ns: u64,
}

impl RunLog {
    /// Creates the folder of a new run in `logs`.
    ///
    /// # Errors
    /// One line: the folder cannot be created.
    pub(crate) fn create(
        logs: LogFolder,
        run: &Run,
        compression: Compression,
        limits: Limits,
    ) -> Result<Self, String> {
        let folder = make_run(&logs, run).map_err(|e| format!("{}: {e}", logs.path().display()))?;
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
    /// One line: the file cannot be written.
    pub(crate) fn set_port(&mut self, port: Option<u16>) -> Result<(), String> {
        self.run.port = port;
        self.write_run()
            .map_err(|e| format!("{}: {e}", self.folder.path().join(RUN_JSON).display()))
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
        self.by_hour(rows, |part, rows| {
            part.name_calls(rows, names);
            part.add(rows);
        });
    }

    /// Adds the names of calls that will be added later.
    pub(crate) fn name_calls(&mut self, rows: &[CallRow], names: &dyn Names) {
        self.by_hour(rows, |part, rows| part.name_calls(rows, names));
    }

    fn by_hour(&mut self, rows: &[CallRow], mut add: impl FnMut(&mut PartFiles, &[CallRow])) {
        let latest = if self.has_clock_jumped { clock::unix_ns() } else { u64::MAX };
        let ended =
            |row: &CallRow| Hour::of_unix_ns(row.start_ns.saturating_add(row.total_ns).min(latest));
        for rows in rows.chunk_by(|a, b| ended(a) == ended(b)) {
            let Some(first) = rows.first() else { continue };
            add(self.part(ended(first)), rows);
        }
    }

    /// Adds the method statistics of one interval.
    pub(crate) fn add_stats(&mut self, rows: &[StatsRow], names: &dyn Names) {
        let Some(first) = rows.first() else { return };
        let part = self.part(Hour::of_unix_ns(first.start_ns));
        for row in rows {
            part.name_method(row.method, names);
        }
        part.add(rows);
    }

    /// Adds counters of one interval.
    pub(crate) fn add_counters(&mut self, rows: &[CounterRow]) {
        let Some(first) = rows.first() else { return };
        self.part(Hour::of_unix_ns(first.start_ns)).add(rows);
    }

    /// Adds events. A repeated one goes into the current hour.
    pub(crate) fn add_events(&mut self, rows: &[EventRow]) {
        if !rows.is_empty() {
            self.part(Hour::of_unix_ns(clock::unix_ns())).add(rows);
        }
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
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
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
                    message!("the log is written again; {} rows were given up", self.rows_dropped);
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

    fn write(&mut self, now: Now, sync: bool, names: &dyn Names) -> Result<(), String> {
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
        let last = failures.pop().map(|(path, error)| format!("{}: {error}", path.display()));
        last.map_or(Ok(()), Err)
    }

    /// Creates the run's folder again if somebody has deleted it, or only `run.json`: without it nobody could read
    /// the other files.
    fn make_deleted_folder(&mut self, now: Now, names: &dyn Names) -> Result<(), String> {
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
                None => format!("{}: {error}", self.folder.path().display()),
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
        let made = self.logs.make_again();
        self.retry_folder = made.as_ref().err().map(|error| {
            let error = format!("{}: {error}", self.logs.path().display());
            (now.monotonic_ns + RETRY_FOLDER_NS, error)
        });
        made?;
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

impl PartFiles {
    fn is_behind(&self) -> bool {
        self.tables.values().any(TableFile::is_behind)
    }

    fn add<R: Row>(&mut self, rows: &[R]) {
        self.added += self.tables.entry(R::TABLE).or_insert_with(TableFile::new::<R>).add(rows);
        self.is_touched = true;
    }

    /// Writes all names again at their next use.
    fn forget_names(&mut self) {
        self.methods.clear();
        self.threads.clear();
        self.stacks.clear();
    }

    /// Begins new files because the old ones are gone. Adds their names again, because rows that wait need them.
    fn forget_files(&mut self, names: &dyn Names) {
        self.bytes = 0;
        for file in self.tables.values_mut() {
            file.forget();
        }
        for id in std::mem::take(&mut self.methods) {
            self.name_method(id, names);
        }
        for id in std::mem::take(&mut self.threads) {
            self.name_thread(id, names);
        }
        for id in std::mem::take(&mut self.stacks) {
            self.name_stack(id, names);
        }
    }

    fn name_method(&mut self, id: u32, names: &dyn Names) {
        if id != 0
            && self.methods.insert(id)
            && let Some(row) = names.method(id)
        {
            self.add(&[row]);
        }
    }

    fn name_calls(&mut self, rows: &[CallRow], names: &dyn Names) {
        for row in rows {
            self.name_thread(row.thread, names);
            self.name_stack(row.stack, names);
            self.name_method(row.method, names);
        }
    }

    fn name_thread(&mut self, id: u32, names: &dyn Names) {
        if !self.threads.contains(&id)
            && let Some(row) = names.thread(id)
        {
            self.threads.insert(id);
            self.add(&[row]);
        }
    }

    fn name_stack(&mut self, id: u32, names: &dyn Names) {
        // From the call up to the first known caller; rows are written in the other direction.
        let mut chain = Vec::new();
        let mut next = id;
        while next != 0 && self.stacks.insert(next) {
            let Some(row) = names.stack(next) else { break };
            next = row.parent;
            chain.push(row);
        }
        chain.reverse();
        for row in &chain {
            self.name_method(row.method, names);
        }
        if !chain.is_empty() {
            self.add(&chain);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use log_format::FORMAT_VERSION;
    use log_format::rows::Exit;

    use super::*;

    struct NumbersAsNames;

    impl Names for NumbersAsNames {
        fn method(&self, id: u32) -> Option<MethodRow> {
            let (loader, source) = (String::new(), String::new());
            let (class, method, descriptor) = ("a.B".into(), format!("m{id}"), "()V".into());
            Some(MethodRow { id, loader, class, method, descriptor, source, line: 0 })
        }

        fn thread(&self, id: u32) -> Option<ThreadRow> {
            let (name, kind) = ("main".into(), "platform".into());
            Some(ThreadRow { id, java_id: 1, os_id: 0, name, kind })
        }

        fn stack(&self, id: u32) -> Option<StackRow> {
            Some(StackRow { id, parent: id - 1, method: id })
        }
    }

    const CALL: CallRow = CallRow {
        start_ns: 0,
        thread: 5,
        stack: 2,
        method: 2,
        total_ns: 9,
        self_ns: 9,
        exit: Exit::Return,
    };

    fn log_in(logs: &Path) -> RunLog {
        let run = Run { format_version: FORMAT_VERSION, ..Run::default() };
        let limits = Limits { max_bytes: None, keep: None };
        let logs = LogFolder::open(logs, None).unwrap();
        let mut log = RunLog::create(logs, &run, Compression::Off, limits).unwrap();
        log.set_port(None).unwrap();
        log
    }

    /// The rows of a table, in order.
    fn rows(log: &RunLog, table: Table) -> Vec<String> {
        let part = Part { hour: Hour::of_unix_ns(0), number: 1 };
        let text = fs::read_to_string(log.folder().path().join(part.file_name(table))).unwrap();
        let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// Rows that wait when a deletion is noticed need names that only the deleted files had.
    #[test]
    fn files_made_again_have_the_names_of_rows_that_waited() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = log_in(folder.path());
        log.add_calls(&[CALL], &NumbersAsNames);
        log.flush(Now::read(), false, &NumbersAsNames);
        log.add_calls(&[CALL], &NumbersAsNames);
        fs::remove_dir_all(log.folder().path()).unwrap();
        log.flush(Now::read(), false, &NumbersAsNames);
        assert_eq!((log.failure(), log.io_errors), (None, 0));
        assert_eq!(rows(&log, Table::Calls).len(), 1);
        assert_eq!(rows(&log, Table::Stacks), ["1,0,1", "2,1,2"]);
        assert_eq!(rows(&log, Table::Methods), ["1,,a.B,m1,()V,,0", "2,,a.B,m2,()V,,0"]);
        assert_eq!(rows(&log, Table::Threads), ["5,1,0,main,platform"]);
    }

    #[test]
    fn a_log_folder_whose_name_is_taken_is_tried_again_after_some_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let (logs, theirs) = (folder.path().join("logs"), folder.path().join("theirs"));
        let mut log = log_in(&logs);
        fs::remove_dir_all(&logs).unwrap();
        fs::create_dir(&theirs).unwrap();
        symlink(&theirs, &logs).unwrap();
        let begin = Now::read();
        let flush = |log: &mut RunLog, later_ns| {
            log.add_calls(&[CALL], &NumbersAsNames);
            let now = Now { monotonic_ns: begin.monotonic_ns + later_ns, ..begin };
            log.flush(now, true, &NumbersAsNames);
            (log.failure().map(str::to_owned), log.io_errors)
        };
        let taken = "it was deleted, and something else has its name now";
        let failure = Some(format!("{}: {taken}", logs.display()));
        assert_eq!(flush(&mut log, 0), (failure.clone(), 1));
        fs::remove_file(&logs).unwrap();
        assert_eq!(flush(&mut log, RETRY_FOLDER_NS - 1), (failure, 1));
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
        assert!(!logs.exists());
        assert_eq!(flush(&mut log, RETRY_FOLDER_NS), (None, 1));
        assert_eq!((rows(&log, Table::Calls).len(), log.rows_dropped), (3, 0));
    }

    #[test]
    fn what_was_moved_out_of_the_folder_is_begun_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = log_in(&folder.path().join("logs"));
        log.add_calls(&[CALL], &NumbersAsNames);
        log.flush(Now::read(), false, &NumbersAsNames);
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        for file in fs::read_dir(log.folder().path()).unwrap().map(|file| file.unwrap()) {
            fs::rename(file.path(), elsewhere.join(file.file_name())).unwrap();
        }
        let old = log.folder().path().to_owned();
        log.add_calls(&[CALL], &NumbersAsNames);
        log.flush(Now::read(), false, &NumbersAsNames);
        assert_eq!((log.failure(), log.folder().path()), (None, &*old));
        assert!(old.join(RUN_JSON).exists());
        assert_eq!(rows(&log, Table::Calls).len(), 1);
        assert_eq!(rows(&log, Table::Methods).len(), 2);
    }
}
