//! Profile tasks: the requests that they recorded, as snapshots and trees of SkyWalking's kind.
//!
//! ```text
//! tasks.csv, task_requests.csv --list--> tasks
//! task_calls.csv               --read--> one task with its calls --snapshots--> stacks each dump period
//! samples.csv                  --read_samples--> deeper frames -------^             |
//!                                                                              trees::analyze
//! ```
//!
//! A log may still be written: [`Request::is_complete`] says whether all calls of a request have been read.

mod code_names;
mod exact;
pub mod find;
mod read;
mod samples;
mod snapshots;
mod task;
pub mod trees;

pub use self::code_names::CodeNames;
pub use self::exact::{ExactCalls, ExactKind, exact};
pub use self::read::{list, read};
pub use self::samples::{ThreadSamples, read_samples};
pub use self::snapshots::{MOST_FRAMES, MOST_SNAPSHOTS, Snapshot, snapshots};
pub use self::task::{Call, Request, Task};
