//! The `rewrite` command; everything it does is in [`rewriter::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    rewriter::cli::main()
}
