//! The files of a run: where they are, how much they may take, and when they are deleted.

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
