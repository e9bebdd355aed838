//! The profile tasks that have not ended, for the log: new files repeat their rows.

use log_format::file_names::Hour;
use log_format::rows::TaskRow;

/// See the module.
#[derive(Debug)]
pub(super) struct OpenTasks {
    pub rows: Vec<TaskRow>,
    /// How many files had been begun at the last look.
    pub begun: u64,
    /// Bytes of requests written in this hour.
    pub bytes: (Hour, u64),
}

impl Default for OpenTasks {
    fn default() -> Self {
        Self { rows: Vec::new(), begun: 0, bytes: (Hour::of_unix_ns(0), 0) }
    }
}
