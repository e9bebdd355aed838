//! Why a folder or file of the log is not used.

use std::{error, fmt, io};

use rustix::io::Errno;

/// Why something is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The id of another user, who owns it.
    Owner(u32),
    /// The mode of a new folder that others can use.
    Mode(u32),
    /// A new folder has something in it.
    NotEmpty,
    /// It has the name of a file, but is not one.
    NotAFile,
    /// A file has more than one link: this many.
    Links(u64),
    /// The group cannot be given access.
    Group(u32, Errno),
    /// The log folder was deleted, and something else has its name.
    Taken,
    /// The log folder was deleted, and the folder that contained it too.
    NoPlace,
    /// All names of runs are taken.
    TooManyRuns,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(uid) => write!(f, "another user owns it (uid {uid})"),
            Self::Mode(mode) => write!(f, "other users may use it (mode {mode:03o})"),
            Self::NotEmpty => write!(f, "it is new, and not empty"),
            Self::NotAFile => write!(f, "not a file"),
            Self::Links(links) => write!(f, "the file has {links} names"),
            Self::Group(gid, error) => {
                write!(f, "log_group: the JVM's user cannot give it to group {gid}: ")?;
                io::Error::from(*error).fmt(f)
            }
            Self::Taken => write!(f, "it was deleted, and something else has its name now"),
            Self::NoPlace => write!(f, "it was deleted, and there is no folder to make it in"),
            Self::TooManyRuns => write!(f, "too many runs at once"),
        }
    }
}

impl error::Error for Refusal {}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::other(refusal)
    }
}
