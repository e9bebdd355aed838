//! `classes.log` in the run's folder, with `debug=classes`: the decision on each class, a line each.
//!
//! Threads that load classes only add lines; the agent thread writes them. So a disk that hangs delays no class.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use crate::log::folder::RunFolder;
use crate::stderr::message;
use log_format::writer::is_unprintable;

const NAME: &str = "classes.log";

/// The file does not grow beyond this.
const MAX_BYTES: usize = 10 << 20;
const FULL: &str = "the file is full; what comes after is not in it";

/// The open file, and the lines that wait.
#[derive(Debug)]
pub(crate) struct ClassLog {
    /// `None` when a write has failed.
    file: Mutex<Option<File>>,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: String,
    /// Bytes added so far.
    added: usize,
    is_full: bool,
}

impl ClassLog {
    /// Creates the file in a run's folder. If that fails, the agent works without it.
    pub(crate) fn create(folder: &RunFolder) -> Option<Self> {
        match folder.create(NAME) {
            Ok(file) => Some(Self { file: Mutex::new(Some(file)), lines: Mutex::default() }),
            Err(error) => {
                let path = folder.path().join(NAME);
                message!("{}: {error}; decisions on classes are not logged", path.display());
                None
            }
        }
    }

    /// Adds a line: a class and what became of it.
    pub(crate) fn add(&self, class: &str, decision: fmt::Arguments<'_>) {
        let line = format!("{}: {decision}", class.replace('/', "."));
        let line = line.replace(is_unprintable, "?");
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.is_full {
            return;
        }
        lines.added += line.len() + 1;
        lines.is_full = lines.added > MAX_BYTES;
        let line = if lines.is_full { FULL } else { &line };
        lines.waiting.push_str(line);
        lines.waiting.push('\n');
    }

    /// Writes the lines that wait. For the agent thread.
    pub(crate) fn write(&self) {
        let waiting = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut lines.waiting)
        };
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = open.as_mut().filter(|_| !waiting.is_empty()) else { return };
        if let Err(error) = file.write_all(waiting.as_bytes()) {
            message!("{NAME}: {error}; it ends here");
            *open = None;
            self.lines.lock().unwrap_or_else(PoisonError::into_inner).is_full = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_it_is_full() {
        let logs = tempfile::tempdir().unwrap();
        let folder = RunFolder::for_test(logs.path());
        let log = ClassLog::create(&folder).unwrap();
        let long = "x".repeat(1 << 20);
        for _ in 0..12 {
            log.add("com/shop/Order", format_args!("{long}\n"));
            log.write();
        }
        let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert!(text.len() <= MAX_BYTES + 100, "{}", text.len());
        assert_eq!(text.lines().count(), 10);
        assert!(text.starts_with("com.shop.Order: xxx"));
        assert!(text.ends_with("?\nthe file is full; what comes after is not in it\n"));
    }
}
