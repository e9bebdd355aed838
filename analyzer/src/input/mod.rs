//! Finds runs and their files, and reads rows in blocks on several threads. What is wrong becomes a problem and never
//! ends the reading; the result does not depend on the number of threads.
//!
//! ```text
//! runs          finds them
//! file_blocks   whole lines --parallel, table_rows--> rows of one table
//! text_lines    any other text
//! problems, progress   what the user sees meanwhile
//! ```

pub(crate) mod file_blocks;
pub(crate) mod parallel;
pub mod problems;
pub mod progress;
pub mod runs;
pub(crate) mod table_rows;
pub(crate) mod text_lines;
