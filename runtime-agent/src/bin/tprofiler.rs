//! The `tprofiler` command; everything it does is in [`tprofiler::client`].

use std::process::ExitCode;

fn main() -> ExitCode {
    tprofiler::client::main()
}
