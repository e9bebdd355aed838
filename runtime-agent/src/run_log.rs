//! Writes the files of a run.
//!
//! Rows are gathered in memory and written by [`RunLog::flush`], names before the rows that use them,
//! so that whoever reads along finds them. A write that fails is tried again at the next flush, from
//! where it stopped; when too much has gathered, it is given up and counted. Files that somebody
//! deletes are made anew, with all names that they need.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use log_format::names::{Hour, RUN_JSON, Table, run_name};
use log_format::rows::{CallRow, CounterRow, MethodRow, Row, StackRow, StatsRow, ThreadRow};
use log_format::run::Run;

use crate::message::message;
use crate::table_file::TableFile;

/// Gives names to the ids in rows.
pub(crate) trait Names {
    /// The method with an id.
    fn method(&self, id: u32) -> Option<MethodRow>;
    /// The thread with an id, as it is called now.
    fn thread(&self, id: u32) -> Option<ThreadRow>;
    /// The call path with an id.
    fn stack(&self, id: u32) -> Option<StackRow>;
}

/// The folder of a run and its open files.
#[derive(Debug)]
pub(crate) struct RunLog {
    folder: PathBuf,
    run: Run,
    hours: BTreeMap<Hour, HourFiles>,
    pub bytes: u64,
    /// Writes that failed.
    pub io_errors: u64,
    /// Rows that were given up, because the disk took none for too long.
    pub lost_rows: u64,
    /// Why the last flush did not write everything.
    failure: Option<String>,
}

#[derive(Debug, Default)]
struct HourFiles {
    tables: BTreeMap<Table, TableFile>,
    methods: HashSet<u32>,
    threads: HashSet<u32>,
    stacks: HashSet<u32>,
    bytes: u64,
}

impl RunLog {
    /// Makes the folder of a new run in `logs`.
    ///
    /// # Errors
    /// One line: the folder cannot be made.
    pub(crate) fn create(logs: &Path, run: &Run) -> Result<Self, String> {
        let of = |path: &Path, e: io::Error| format!("{}: {e}", path.display());
        fs::create_dir_all(logs).map_err(|e| of(logs, e))?;
        for attempt in 1.. {
            let folder = logs.join(run_name(run.start_ns, &run.host, run.pid, attempt));
            match fs::create_dir(&folder) {
                Ok(()) => {
                    return Ok(Self {
                        folder,
                        run: run.clone(),
                        hours: BTreeMap::new(),
                        bytes: 0,
                        io_errors: 0,
                        lost_rows: 0,
                        failure: None,
                    });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => {}
                Err(e) => return Err(of(&folder, e)),
            }
        }
        Err(format!("{}: too many runs at once", logs.display()))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Says on which port control listens, and writes `run.json`.
    ///
    /// # Errors
    /// One line: the file cannot be written.
    pub(crate) fn set_port(&mut self, port: Option<u16>) -> Result<(), String> {
        self.run.port = port;
        self.write_run().map_err(|e| format!("{}: {e}", self.folder.join(RUN_JSON).display()))
    }

    /// Writes `run.json`, whole or not at all.
    fn write_run(&self) -> io::Result<()> {
        let new = self.folder.join("run.json.new");
        fs::write(&new, self.run.to_json())?;
        fs::rename(&new, self.folder.join(RUN_JSON))
    }

    fn hour(&mut self, unix_ns: u64) -> &mut HourFiles {
        self.hours.entry(Hour::of_unix_ns(unix_ns)).or_default()
    }

    /// Adds calls, each to the hour in which it ended.
    pub(crate) fn add_calls(&mut self, rows: &[CallRow], names: &dyn Names) {
        let ended = |row: &CallRow| Hour::of_unix_ns(row.start_ns.saturating_add(row.total_ns));
        for rows in rows.chunk_by(|a, b| ended(a) == ended(b)) {
            let Some(first) = rows.first() else { continue };
            let hour = self.hours.entry(ended(first)).or_default();
            for row in rows {
                hour.name_thread(row.thread, names);
                hour.name_stack(row.stack, names);
                hour.name_method(row.method, names);
            }
            hour.add(rows);
        }
    }

    /// Adds totals of one interval.
    pub(crate) fn add_stats(&mut self, rows: &[StatsRow], names: &dyn Names) {
        let Some(first) = rows.first() else { return };
        let hour = self.hour(first.start_ns);
        for row in rows {
            hour.name_method(row.method, names);
        }
        hour.add(rows);
    }

    /// Adds counters of one interval.
    pub(crate) fn add_counters(&mut self, rows: &[CounterRow]) {
        let Some(first) = rows.first() else { return };
        self.hour(first.start_ns).add(rows);
    }

    /// Bytes written to the files of the hour of `unix_ns`.
    pub(crate) fn bytes_of_hour(&self, unix_ns: u64) -> u64 {
        self.hours.get(&Hour::of_unix_ns(unix_ns)).map_or(0, |hour| hour.bytes)
    }

    /// Why the last flush did not write everything, if it did not.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Hands everything that was added to the kernel; with `sync`, to the disk. Says in a message
    /// when writing begins to fail, and when it works again.
    pub(crate) fn flush(&mut self, now_ns: u64, sync: bool) {
        let before = self.failure.take();
        self.failure = self.write(sync).err();
        match (&before, &self.failure) {
            (None, Some(error)) => message!("{error}; it is tried again"),
            (Some(_), None) => {
                message!("the log is written again; {} rows were given up", self.lost_rows);
            }
            _ => {}
        }
        // Calls of the hour before may still come from a ring; of earlier hours there are none.
        let current = Hour::of_unix_ns(now_ns);
        self.hours.retain(|hour, files| {
            *hour >= current
                || hour.start_unix_ns() + 2 * 3_600_000_000_000 > now_ns
                || files.tables.values().any(TableFile::is_behind)
        });
    }

    /// Closes all files, whether everything is written or not.
    pub(crate) fn close(&mut self) {
        self.hours.clear();
    }

    fn write(&mut self, sync: bool) -> Result<(), String> {
        if !self.hours.values().any(|hour| hour.tables.values().any(TableFile::is_behind)) && !sync
        {
            return Ok(());
        }
        if !self.folder.exists() {
            let made = fs::create_dir_all(&self.folder).and_then(|()| self.write_run());
            if let Err(error) = made {
                self.io_errors += 1;
                return Err(format!("{}: {error}", self.folder.display()));
            }
            message!("{} was deleted; it is made anew", self.folder.display());
        }
        let mut failure = None;
        for (name, hour) in &mut self.hours {
            if hour.tables.values().any(TableFile::was_deleted) {
                hour.forget_files();
            }
            let mut gave_up = false;
            for table in Table::ALL {
                let Some(file) = hour.tables.get_mut(&table) else { continue };
                let path = self.folder.join(name.file_name(table));
                let (written, error) = file.write(&path, sync);
                hour.bytes += written;
                self.bytes += written;
                if let Some(error) = error {
                    self.io_errors += 1;
                    failure = Some(format!("{}: {error}", path.display()));
                }
                let lost = file.limit();
                self.lost_rows += lost;
                gave_up |= lost > 0;
            }
            if gave_up {
                hour.forget_names();
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

impl HourFiles {
    fn add<R: Row>(&mut self, rows: &[R]) {
        self.tables.entry(R::TABLE).or_insert_with(TableFile::new::<R>).add(rows);
    }

    /// Has all names written again when they are used next.
    fn forget_names(&mut self) {
        self.methods.clear();
        self.threads.clear();
        self.stacks.clear();
    }

    /// Begins new files: the old ones are gone.
    fn forget_files(&mut self) {
        self.forget_names();
        for file in self.tables.values_mut() {
            file.forget();
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

    fn name_thread(&mut self, id: u32, names: &dyn Names) {
        if self.threads.insert(id)
            && let Some(row) = names.thread(id)
        {
            self.add(&[row]);
        }
    }

    fn name_stack(&mut self, id: u32, names: &dyn Names) {
        // From the call up to the first caller that is known, written in the other direction.
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
