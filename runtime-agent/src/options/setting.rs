//! One setting, from any source.

use log_format::error::BadValue;

/// A key with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub key: String,
    pub value: String,
    /// Its source, to put in front of a message about it; `None` for the option string.
    pub place: Option<String>,
}

impl Setting {
    /// An error about it, with its source in front.
    pub(super) fn wrong(&self, error: BadValue) -> BadValue {
        match &self.place {
            Some(place) => error.of(place),
            None => error,
        }
    }
}
