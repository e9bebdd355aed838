//! Writes the files of a run.
//!
//! Rows are gathered in memory and written by [`RunLog::flush`], names before the rows that use them,
//! so that whoever reads along finds them. A write that fails is tried again at the next flush, from
//! where it stopped; when too much has gathered, it is given up and counted.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use log_format::names::{Hour, RUN_JSON, Table, run_name};
use log_format::rows::{CallRow, CounterRow, MethodRow, Row, StackRow, StatsRow, ThreadRow};
use log_format::run::Run;
use log_format::writer::{write_header, write_rows};

/// Most bytes of a file that wait for a disk that does not take them.
const MAX_PENDING: usize = 16 << 20;

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
    hours: BTreeMap<Hour, HourFiles>,
    pub bytes: u64,
    pub io_errors: u64,
    /// The last error, until it was told.
    pub last_error: Option<String>,
}

#[derive(Debug, Default)]
struct HourFiles {
    tables: BTreeMap<Table, TableFile>,
    methods: HashSet<u32>,
    threads: HashSet<u32>,
    stacks: HashSet<u32>,
    bytes: u64,
}

#[derive(Debug, Default)]
struct TableFile {
    file: Option<File>,
    /// Whole lines, but for what has been written of the first.
    pending: Vec<u8>,
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
                        hours: BTreeMap::new(),
                        bytes: 0,
                        io_errors: 0,
                        last_error: None,
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

    /// Writes `run.json`, whole or not at all.
    ///
    /// # Errors
    /// One line: the file cannot be written.
    pub(crate) fn write_run(&self, run: &Run) -> Result<(), String> {
        let path = self.folder.join(RUN_JSON);
        let new = self.folder.join("run.json.new");
        fs::write(&new, run.to_json())
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|e| format!("{}: {e}", path.display()))
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

    /// Hands everything that was added to the kernel; with `sync`, to the disk.
    pub(crate) fn flush(&mut self, now_ns: u64, sync: bool) {
        let mut errors = Vec::new();
        for (name, hour) in &mut self.hours {
            for table in Table::ALL {
                let Some(file) = hour.tables.get_mut(&table) else { continue };
                let path = self.folder.join(name.file_name(table));
                let before = file.pending.len();
                if let Err(error) = file.write(&path, sync) {
                    errors.push(format!("{}: {error}", path.display()));
                }
                let written = before.saturating_sub(file.pending.len()) as u64;
                hour.bytes += written;
                self.bytes += written;
                file.limit();
            }
        }
        self.io_errors += errors.len() as u64;
        self.last_error = errors.pop().or_else(|| self.last_error.take());
        // Calls of the hour before may still come from a ring; of earlier hours there are none.
        let current = Hour::of_unix_ns(now_ns);
        self.hours.retain(|hour, files| {
            *hour >= current
                || hour.start_unix_ns() + 2 * 3_600_000_000_000 > now_ns
                || files.tables.values().any(|file| !file.pending.is_empty())
        });
    }
}

impl HourFiles {
    fn add<R: Row>(&mut self, rows: &[R]) {
        let file = self.tables.entry(R::TABLE).or_insert_with(|| {
            let mut pending = Vec::new();
            write_header::<R>(&mut pending);
            TableFile { file: None, pending }
        });
        // No row of ours has a field that cannot be written.
        let _ = write_rows(&mut file.pending, rows);
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

impl TableFile {
    /// Writes what is pending, as far as it goes.
    fn write(&mut self, path: &Path, sync: bool) -> io::Result<()> {
        if self.pending.is_empty() && !sync {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let new = OpenOptions::new().append(true).create(true).open(path)?;
                none.insert(new)
            }
        };
        let mut written = 0;
        let result = loop {
            match file.write(self.pending.get(written..).unwrap_or_default()) {
                _ if written == self.pending.len() => break Ok(()),
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.pending.drain(..written);
        result?;
        if sync { file.sync_data() } else { Ok(()) }
    }

    /// Gives up what the disk has not taken for too long.
    fn limit(&mut self) {
        if self.pending.len() > MAX_PENDING {
            self.pending.clear();
            // The end of the line that may have been written in part.
            self.pending.push(b'\n');
        }
    }
}
