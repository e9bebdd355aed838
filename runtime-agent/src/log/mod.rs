//! The files of a run: where they are, how much they may take, and when they are deleted. Only the agent thread writes,
//! and [`compress`] on a thread of its own; a full or hanging disk delays neither the program nor its probes.
//!
//! ```text
//! run_log      the run: begins hours, and writes rows where they belong
//! part_files   the files of a part of an hour; sampled_row, table_file: what they have
//! budget       how much may be written in an hour
//! compress     compresses closed hours, and deletes what retention says
//! folder       opens all of it relative to a descriptor, and follows no links
//! ```

pub(crate) mod budget;
pub(crate) mod compress;
pub(crate) mod folder;
pub(crate) mod part_files;
pub(crate) mod retention;
pub(crate) mod run_log;
pub(crate) mod sampled_row;
pub(crate) mod table_file;

/// What the log of the run takes, and what it has lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogFigures {
    /// The run's folder.
    pub folder: String,
    pub bytes_this_hour: u64,
    /// Bytes that this hour may take; `None` for no limit.
    pub hour_budget: Option<u64>,
    pub deleted_hours: u64,
    pub io_errors: u64,
}
