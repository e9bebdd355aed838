//! The `tprofiler-skywalking` command; everything it does is in [`skywalking::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    skywalking::cli::main()
}
