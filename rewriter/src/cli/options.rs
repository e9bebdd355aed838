//! The command's input, output and choice of methods.

use std::path::PathBuf;

use log_format::pattern::Filter;

/// The command's input, output and choice of methods.
#[derive(Clone, Debug)]
pub struct Options {
    /// A class file, a jar or a folder.
    pub input: PathBuf,
    /// Where the result goes. It must not exist yet, or must be of the same kind as the input.
    pub output: PathBuf,
    /// The methods to instrument.
    pub filter: Filter,
    /// Whether to exclude methods that only read or write one field.
    pub skip_accessors: bool,
}
