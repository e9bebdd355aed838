//! `analyze`: says which methods cost the time, from the profiler's logs. Exit status: 0 all was
//! read, 1 part of the logs could not be read, 2 no report, 3 slower than `diff` was to allow.

mod cli;
mod diff_cli;

use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use analyzer::diff;
use analyzer::render::{diff_remarks, remarks, render, render_diff};
use clap::Parser;
use cli::{Cli, Command};
use diff_cli::DiffArgs;

fn main() -> ExitCode {
    let mut cli = Cli::parse();
    match cli.command.take() {
        None => report(cli),
        Some(Command::Diff(args)) => compare(args),
    }
}

fn report(cli: Cli) -> ExitCode {
    let options = match cli.into_options() {
        Ok(options) => options,
        Err(reason) => return no_report(&[reason]),
    };
    let analysis = match analyzer::analyze(&options) {
        Ok(analysis) => analysis,
        Err(reasons) => return no_report(&reasons),
    };
    say(&analysis.problems.messages());
    say(&remarks(&analysis.report, options.format));
    match write(|out| render(&analysis.report, options.format, out)) {
        Err(reason) => no_report(&[reason]),
        Ok(()) if analysis.problems.all_unread().is_empty() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(1),
    }
}

fn compare(args: DiffArgs) -> ExitCode {
    let options = match args.into_options() {
        Ok(options) => options,
        Err(reason) => return no_report(&[reason]),
    };
    let comparison = match diff::compare(&options) {
        Ok(comparison) => comparison,
        Err(reasons) => return no_report(&reasons),
    };
    let sides = [&comparison.before.problems, &comparison.after.problems];
    for problems in sides {
        say(&problems.messages());
    }
    say(&diff_remarks(&comparison, options.format));
    match write(|out| render_diff(&comparison, options.format, options.top, out)) {
        Err(reason) => no_report(&[reason]),
        Ok(()) if comparison.fails() => ExitCode::from(3),
        Ok(()) if sides.iter().all(|problems| problems.all_unread().is_empty()) => {
            ExitCode::SUCCESS
        }
        Ok(()) => ExitCode::from(1),
    }
}

/// Writes to stdout. Whoever reads us may have seen enough; that is no failure.
fn write(render: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), String> {
    let mut out = BufWriter::new(io::stdout().lock());
    match render(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("the report cannot be written: {error}"))
        }
        _ => Ok(()),
    }
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
