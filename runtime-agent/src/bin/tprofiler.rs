//! The `tprofiler` command; everything it does is in [`tprofiler::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    tprofiler::cli::main()
}
