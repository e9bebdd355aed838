//! The `rewrite` command: reads a class file, a jar or a folder, writes the same with probes, and prints a summary.
//!
//! It is for inspecting and checking what the rewriter does. Profiling a service does not need it: the agent rewrites
//! classes itself, with other method ids.
//!
//! It never changes its input. A class that cannot be read is copied unchanged and reported, and makes the exit
//! status 1.

mod input;
mod jar;
mod kind;
mod options;
mod selection;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use log_format::pattern::{Filter, Pattern};

pub use input::rewrite;
pub use options::Options;
pub use summary::Summary;

/// Show what the profiler does to Java classes: put its probes into them, without running them.
///
/// This is for looking at rewritten classes and for checking them, with javap, a verifier, or a
/// tool that reads class files. It is no step of profiling: the agent rewrites classes itself while
/// they are loaded. Do not run the output under the agent: the numbers that its probes give to
/// methods are not the agent's, so it would leave these classes out.
///
/// The input is a class file, a jar or a folder with classes and jars; the output gets everything
/// that was in it, the selected methods with probes. Jars in jars and other files are copied as
/// they are. Exit status: 0 if everything could be read, 1 if not, 2 for a wrong command line.
#[derive(Debug, Parser)]
#[command(name = "rewrite", version, long_version = command_line::VERSION)]
struct Arguments {
    /// Class file, jar or folder to read
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Where to write the result
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Packages, classes or methods to take; all without it
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::parse)]
    include: Vec<Pattern>,
    /// Packages, classes or methods to leave out; it wins over --include
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::parse)]
    exclude: Vec<Pattern>,
    /// Leave out methods that only read or write one field
    #[arg(long)]
    skip_accessors: bool,
}

impl From<Arguments> for Options {
    fn from(arguments: Arguments) -> Self {
        Self {
            input: arguments.input,
            output: arguments.output,
            filter: Filter { include: arguments.include, exclude: arguments.exclude },
            skip_accessors: arguments.skip_accessors,
        }
    }
}

/// Runs the command with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = command_line::generated(Arguments::command) {
        return code;
    }
    match rewrite(&Arguments::parse().into()) {
        Ok(summary) => {
            print!("{summary}");
            if summary.unreadable.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("rewrite: {error}");
            ExitCode::FAILURE
        }
    }
}
