//! `classes.log` in the run's folder, with `debug=classes`: the decision on each class, a line each.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::message::message;

/// The file does not grow beyond this.
const MAX_BYTES: usize = 10 << 20;

/// The open file.
#[derive(Debug)]
pub(crate) struct ClassLog {
    /// With how much was written; `None` when no more is.
    file: Mutex<Option<(File, usize)>>,
}

impl ClassLog {
    /// Makes the file in a run's folder. Without it the agent does its work all the same.
    pub(crate) fn create(folder: &Path) -> Option<Self> {
        let path = folder.join("classes.log");
        match File::create(&path) {
            Ok(file) => Some(Self { file: Mutex::new(Some((file, 0))) }),
            Err(error) => {
                message!("{}: {error}; decisions on classes are not logged", path.display());
                None
            }
        }
    }

    /// Writes a line: a class and what became of it.
    pub(crate) fn write(&self, class: &str, decision: fmt::Arguments<'_>) {
        let line = format!("{}: {decision}", class.replace('/', "."));
        let mut line = line.replace(char::is_control, "?");
        line.push('\n');
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((file, written)) = open.as_mut() else { return };
        let is_full = *written + line.len() > MAX_BYTES;
        if is_full {
            line = "the file is full; what comes after is not in it\n".to_owned();
        }
        *written += line.len();
        let result = file.write_all(line.as_bytes());
        if let Err(error) = &result {
            message!("classes.log: {error}; it ends here");
        }
        if is_full || result.is_err() {
            *open = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_it_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let log = ClassLog::create(folder.path()).unwrap();
        let long = "x".repeat(1 << 20);
        for _ in 0..12 {
            log.write("com/shop/Order", format_args!("{long}\n"));
        }
        let text = std::fs::read_to_string(folder.path().join("classes.log")).unwrap();
        assert!(text.len() <= MAX_BYTES + 100, "{}", text.len());
        assert_eq!(text.lines().count(), 10);
        assert!(text.starts_with("com.shop.Order: xxx"));
        assert!(text.ends_with("?\nthe file is full; what comes after is not in it\n"));
    }
}
