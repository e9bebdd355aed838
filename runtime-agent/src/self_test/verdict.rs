//! The result of a self-test.

/// The result of a self-test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The trick is not used, so nothing was tested.
    #[default]
    Plain,
    /// Not decided yet; the plain mode is used.
    Unknown,
    Works,
    /// The plain mode is used.
    Fails,
}

impl Verdict {
    pub(crate) fn of(number: u8) -> Self {
        let all = [Self::Plain, Self::Unknown, Self::Works, Self::Fails];
        all.into_iter().find(|verdict| *verdict as u8 == number).unwrap_or_default()
    }

    /// The verdict as text; the caller gives the words for the two results.
    pub(crate) fn text(self, works: &'static str, fails: &'static str) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Unknown => "unknown",
            Self::Works => works,
            Self::Fails => fails,
        }
    }
}
