//! Why the program cannot begin.

use std::io;

use log_format::error::{BadValue, FileError};
use thiserror::Error;

/// Why the program cannot begin.
#[derive(Debug, Error)]
pub enum Error {
    /// An address of the server is none.
    #[error("--oap {address}: {reason}")]
    Address {
        /// As it was given.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// Certificates or keys cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The value of an option.
    #[error(transparent)]
    Value(#[from] BadValue),
    /// The system refuses something.
    #[error(transparent)]
    System(#[from] io::Error),
}
