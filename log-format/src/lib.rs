//! The profiler's logs, version 1: names of folders and files, columns, encoding and decoding.
//!
//! This is the only crate that defines the format. The agent writes through it, the analyzer reads through it, and
//! `docs/log-format.md` explains it to users. It also holds types that both share:
//! [`Histogram`](histogram::Histogram), [`Pattern`](pattern::Pattern) and [errors](error).
//!
//! ```text
//! logs/<run>/run.json                    what was profiled, and with which options
//! logs/<run>/20261120T14Z.calls.csv      one file per hour (UTC) and table
//! ```
//! Begin to read at [`rows`], the columns of each table; [`reader`] and [`writer`] turn them into lines and back,
//! [`run`] is `run.json`, [`ids`] says what refers to what.
#![forbid(unsafe_code)]

pub mod compression;
pub mod counts;
pub mod descriptor;
pub mod error;
pub mod file_names;
pub mod histogram;
pub mod human;
pub mod ids;
pub mod method_state;
pub mod pattern;
pub mod plain;
pub mod reader;
pub mod rows;
pub mod run;
pub mod units;
pub mod writer;

/// Version of the format that this crate writes, and the newest that it reads. It increases only when the meaning of
/// something existing changes, not for new columns and files.
pub const FORMAT_VERSION: u32 = 1;
