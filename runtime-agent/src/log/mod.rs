//! The files of a run: where they are, how much they may take, and when they are deleted.

pub(crate) mod budget;
pub(crate) mod compress;
pub(crate) mod folder;
pub(crate) mod part_files;
pub(crate) mod retention;
pub(crate) mod run_log;
pub(crate) mod table_file;
