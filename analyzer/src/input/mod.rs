//! What there is to read, and how it is read: runs and their files, rows in blocks by several threads.

pub(crate) mod file_blocks;
pub(crate) mod parallel;
pub mod problems;
pub mod progress;
pub mod runs;
pub(crate) mod table_rows;
pub(crate) mod text_lines;
