//! Why a command failed. Nothing depends on the reason: it is printed in one line, with its causes.

use std::error::Error;
use std::fmt::Display;

/// Why a command failed.
pub(super) type Failure = Box<dyn Error + Send + Sync>;

/// What failed, and why.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
struct Failed {
    what: String,
    source: Failure,
}

/// Adds what failed in front of an error.
pub(super) fn failed<E: Into<Failure>>(what: impl Display) -> impl FnOnce(E) -> Failure {
    move |error| Failed { what: what.to_string(), source: error.into() }.into()
}
