//! `analyze`: says which methods cost the time, from the profiler's logs. Exit status: 0 all was
//! read, 1 part of the logs could not be read, 2 no report.

mod cli;

use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use analyzer::render::{remarks, render};
use clap::Parser;
use cli::Cli;

fn main() -> ExitCode {
    let options = match Cli::parse().into_options() {
        Ok(options) => options,
        Err(reason) => return no_report(&[reason]),
    };
    let analysis = match analyzer::analyze(&options) {
        Ok(analysis) => analysis,
        Err(reasons) => return no_report(&reasons),
    };
    say(&analysis.problems.messages());
    say(&remarks(&analysis.report, options.format));
    let mut out = BufWriter::new(io::stdout().lock());
    let written = render(&analysis.report, options.format, &mut out).and_then(|()| out.flush());
    match written {
        // Whoever read us has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        Err(error) => return no_report(&[format!("the report cannot be written: {error}")]),
        Ok(()) => {}
    }
    if analysis.problems.all_unread().is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn no_report(reasons: &[String]) -> ExitCode {
    say(reasons);
    ExitCode::from(2)
}

fn say(lines: &[String]) {
    let mut stderr = io::stderr().lock();
    for line in lines {
        // There is nowhere left to complain to.
        let _ = writeln!(stderr, "analyze: {line}");
    }
}
