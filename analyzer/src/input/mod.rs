//! Finds runs and their files, and reads rows in blocks on several threads.

pub(crate) mod file_blocks;
pub(crate) mod parallel;
pub mod problems;
pub mod progress;
pub mod runs;
pub(crate) mod table_rows;
pub(crate) mod text_lines;
