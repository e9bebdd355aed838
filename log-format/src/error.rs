//! Errors that the agent, the analyzer and their commands share. Their `Display` is the one line that users see, with
//! the cause at its end; `source` returns the cause.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Something that a user gave and that cannot be used, with the reason:
/// `threshold: '5x' is not a duration like 500us, 1ms or 2s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadValue {
    /// The start of the message.
    of: String,
    value: Option<String>,
    reason: Cow<'static, str>,
}

impl BadValue {
    /// A value that cannot be used; `reason` goes on after it.
    pub fn new(value: impl Into<String>, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { value: Some(value.into()), ..Self::because(reason) }
    }

    /// No value, or several that do not fit together.
    pub fn because(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { of: String::new(), value: None, reason: reason.into() }
    }

    /// Adds what the value is for, such as an option's name, in front.
    #[must_use]
    pub fn of(self, what: impl Display) -> Self {
        Self { of: format!("{what}: {}", self.of), ..self }
    }
}

impl Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of)?;
        if let Some(value) = &self.value {
            write!(f, "'{value}' ")?;
        }
        f.write_str(&self.reason)
    }
}

impl Error for BadValue {}

/// A file or folder that cannot be used: `logs: /var/log/shop: Permission denied (os error 13)`.
#[derive(Clone, Debug)]
pub struct FileError {
    /// The start of the message.
    of: String,
    path: PathBuf,
    source: Arc<io::Error>,
}

impl FileError {
    /// Turns an I/O error into one of the file or folder at `path`.
    pub fn at<E: Into<io::Error>>(path: impl AsRef<Path>) -> impl FnOnce(E) -> Self {
        move |error| Self {
            of: String::new(),
            path: path.as_ref().to_owned(),
            source: Arc::new(error.into()),
        }
    }

    /// Adds what the file is for, such as an option's name, in front.
    #[must_use]
    pub fn of(self, what: impl Display) -> Self {
        Self { of: format!("{what}: {}", self.of), ..self }
    }
}

impl Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: {}", self.of, self.path.display(), self.source)
    }
}

impl Error for FileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_and_keeps_its_cause() {
        let bad = BadValue::new("5x", "is not a number").of("threshold").of("t.toml:3");
        assert_eq!(bad.to_string(), "t.toml:3: threshold: '5x' is not a number");
        let bad = BadValue::because("record and pause belong together");
        assert_eq!(bad.to_string(), "record and pause belong together");
        let error = FileError::at("logs/run.json")(io::Error::other("not a file")).of("logs");
        assert_eq!(error.to_string(), "logs: logs/run.json: not a file");
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::Other));
    }
}
