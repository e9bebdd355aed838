//! The kind of a file, judged by its name.

use std::ffi::OsStr;
use std::path::Path;

/// The kind of a file, judged by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Class,
    Jar,
    Other,
}

impl Kind {
    pub(super) fn of(path: &Path) -> Self {
        let kind = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        match kind.to_ascii_lowercase().as_str() {
            "class" => Self::Class,
            "jar" | "war" | "ear" | "jmod" | "zip" => Self::Jar,
            _ => Self::Other,
        }
    }
}
