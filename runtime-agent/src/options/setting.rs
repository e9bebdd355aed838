//! One setting, wherever it stands.

/// A key with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub key: String,
    pub value: String,
    /// Where it stands, in front of a message about it; empty for the option string.
    pub place: String,
}
