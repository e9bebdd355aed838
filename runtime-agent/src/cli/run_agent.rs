//! What other programs of this project ask the agent of a run.

use std::path::Path;

use thiserror::Error;

use super::failure::Failure;
use super::target::Target;
use super::time_limit::{FILES, bounded};
use crate::control::token::Token;

/// Name of the file in a run's folder that has the agent's token, unless `token_file` names another. It is deleted
/// when the agent ends.
pub use crate::attach_protocol::TOKEN_FILE;
pub use crate::error::TaskError;

/// Why the agent of a run did not do what was asked.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct NotDone(#[from] Failure);

impl NotDone {
    /// Why the agent refuses the task that it was asked for; `None` if it could not be asked, or cannot do it now.
    #[must_use]
    pub fn task_error(&self) -> Option<TaskError> {
        TaskError::of_order(&self.to_string())
    }
}

impl From<String> for NotDone {
    fn from(reason: String) -> Self {
        Self(reason.into())
    }
}

/// Sends a command line to the agent that writes the run in `folder`, and returns its answer. Without `token_file`,
/// the token is that in the folder. Takes up to some 30 s if the agent does not answer.
///
/// # Errors
/// There is no agent, or it does not know the token, or its error.
pub fn ask(folder: &Path, token_file: Option<&Path>, line: &str) -> Result<String, NotDone> {
    Ok(try_ask(folder, token_file, line)?)
}

fn try_ask(folder: &Path, token_file: Option<&Path>, line: &str) -> Result<String, Failure> {
    let token = match token_file.map(Path::to_owned) {
        Some(file) => Some(bounded("--token-file", FILES, move || Token::read(&file))??),
        None => None,
    };
    Target::Run(folder.to_owned()).find(token.as_ref())?.connect_known()?.ask(line)
}
