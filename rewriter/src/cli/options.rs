//! What is to be rewritten, where to, and which methods.

use std::path::PathBuf;

use log_format::pattern::Filter;

/// What is to be rewritten, where to, and which methods.
#[derive(Clone, Debug)]
pub struct Options {
    /// A class file, a jar or a folder.
    pub input: PathBuf,
    /// Where the result goes. It does not exist yet, or is of the same kind as the input.
    pub output: PathBuf,
    /// The methods to give probes.
    pub filter: Filter,
    /// Leave out methods that only read or write one field.
    pub skip_accessors: bool,
}
