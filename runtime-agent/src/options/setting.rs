//! One setting, from any source.

/// A key with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub key: String,
    pub value: String,
    /// Its source, to put in front of a message about it; empty for the option string.
    pub place: String,
}
