//! `analyze`: reports which methods cost the time, from the profiler's logs. Exit status: 0 all was read, 1 part of
//! the logs could not be read, 2 no report, 3 slower than the limit of `diff`.

mod cli;

use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use analyzer::Analysis;
use analyzer::diff;
use analyzer::error::NoReport;
use analyzer::input::problems::Problems;
use analyzer::input::progress;
use analyzer::options::tasks::TaskOptions;
use analyzer::options::{Format, Options};
use analyzer::render::output::{check_place, to_file, to_stdout};
use analyzer::render::{
    Said, StreamError, constructors, diff_missing, missing, mysql_log, render, render_diff,
    render_tasks, sampler_files, stream,
};
use analyzer::tasks::find::find;
use clap::{CommandFactory, Parser};
use cli::DiffArgs;
use cli::{Cli, Command};

fn main() -> ExitCode {
    let mut cli = Cli::parse();
    if let Some(what) = cli.generate {
        let written = to_stdout(|out| what.write(Cli::command(), out));
        return written.map_or_else(|error| fail(&[error.to_string()]), |()| ExitCode::SUCCESS);
    }
    match cli.command.take() {
        None => match cli.with_format() {
            Ok(cli) => report(cli),
            Err(error) => no_report(&error.into()),
        },
        Some(Command::Diff(args)) => compare(args),
    }
}

fn report(cli: Cli) -> ExitCode {
    match cli.task_options() {
        Ok(None) => {}
        Ok(Some(options)) => return tasks(&options),
        Err(error) => return no_report(&error),
    }
    let options = match cli.into_options() {
        Ok(options) => options,
        Err(error) => return no_report(&error),
    };
    let output = &options.output;
    if output.format.is_of_events() {
        return events(&options);
    }
    if let (Some(path), true) = (&output.file, output.format != Format::Tprofiler)
        && let Err(error) = check_place(path)
    {
        return not_written(Some(path), &error, &Problems::default());
    }
    let progress = Arc::default();
    let shown = progress::show(&progress);
    let analysis = analyzer::analyze(&options, &progress);
    drop(shown);
    let mut analysis = match analysis {
        Ok(analysis) => analysis,
        Err(error) => return no_report(&error),
    };
    say(&analysis.problems.messages());
    say(&missing(&analysis.report, output));
    let written = match &output.file {
        None => to_stdout(|out| render(&analysis.report, &options, out)),
        Some(folder) if output.format == Format::Tprofiler => {
            tprofiler_files(&mut analysis, &options, folder)
        }
        Some(path) => to_file(path, |out| render(&analysis.report, &options, out)),
    };
    match written {
        Err(error) => not_written(output.file.as_deref(), &error, &analysis.problems),
        Ok(()) => read(&analysis.problems),
    }
}

/// A report on profile tasks.
fn tasks(options: &TaskOptions) -> ExitCode {
    let file = options.file.as_deref();
    if let Some(Err(error)) = file.map(check_place) {
        return not_written(file, &error, &Problems::default());
    }
    let mut problems = Problems::default();
    let found = match find(options, &mut problems) {
        Ok(found) => found,
        Err(error) => return no_report(&error),
    };
    say(&problems.messages());
    let written = match file {
        None => to_stdout(|out| render_tasks(&found, options, out)),
        Some(path) => to_file(path, |out| render_tasks(&found, options, out)),
    };
    match written {
        Err(error) => not_written(file, &error, &problems),
        Ok(()) => read(&problems),
    }
}

/// TProfiler's files of methods, slow SQL statements, and those of its sampler.
fn tprofiler_files(analysis: &mut Analysis, options: &Options, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let report = &analysis.report;
    to_file(&folder.join("topmethod.log"), |out| render(report, options, out))?;
    to_file(&folder.join("topobject.log"), |out| constructors(report, out))?;
    for write in [mysql_log, sampler_files] {
        let problems = match write(options, folder) {
            Ok(problems) => problems,
            Err(StreamError::Output(error)) => return Err(error),
            Err(StreamError::NoReport(error)) => return Err(io::Error::other(error)),
        };
        say(&problems.messages());
        analysis.problems.merge(problems);
    }
    Ok(())
}

/// Events are written as they are read, so problems are known only afterwards.
fn events(options: &Options) -> ExitCode {
    let mut said = Said::default();
    let file = options.output.file.as_deref();
    // The bar and the events on the same terminal would overwrite each other.
    let has_room = file.is_some() || !io::stdout().is_terminal();
    let progress = Arc::default();
    let shown = has_room.then(|| progress::show(&progress));
    let write = |out: &mut dyn Write| {
        said = stream(options, &progress, out)?;
        Ok(())
    };
    let written = match file {
        None => to_stdout(write),
        Some(path) => to_file(path, write),
    };
    drop(shown);
    match written {
        Err(StreamError::NoReport(error)) => no_report(&error),
        Err(StreamError::Output(error)) => not_written(file, &error, &said.problems),
        Ok(()) => {
            say(&said.problems.messages());
            say(&said.missing);
            read(&said.problems)
        }
    }
}

fn not_written(file: Option<&Path>, error: &io::Error, problems: &Problems) -> ExitCode {
    match file {
        // The reader has closed the pipe.
        None if error.kind() == ErrorKind::BrokenPipe => read(problems),
        None => fail(&[format!("the report cannot be written: {error}")]),
        Some(path) => fail(&[format!("{}: cannot be written: {error}", path.display())]),
    }
}

fn read(problems: &Problems) -> ExitCode {
    if problems.all_unread().is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn compare(args: DiffArgs) -> ExitCode {
    let options = match args.into_options() {
        Ok(options) => options,
        Err(error) => return no_report(&error.into()),
    };
    let file = options.file.as_deref();
    if let Some(Err(error)) = file.map(check_place) {
        return not_written(file, &error, &Problems::default());
    }
    let progress = Arc::default();
    let shown = progress::show(&progress);
    let comparison = diff::compare(&options, &progress);
    drop(shown);
    let comparison = match comparison {
        Ok(comparison) => comparison,
        Err(error) => return no_report(&error),
    };
    let sides = [&comparison.before.problems, &comparison.after.problems];
    for problems in sides {
        say(&problems.messages());
    }
    say(&diff_missing(&comparison, options.format));
    let write = |out: &mut dyn Write| render_diff(&comparison, options.format, options.top, out);
    let written = match file {
        None => to_stdout(write),
        Some(path) => to_file(path, write),
    };
    match written {
        Err(error) if file.is_some() || error.kind() != ErrorKind::BrokenPipe => {
            not_written(file, &error, &Problems::default())
        }
        _ if comparison.fails() => ExitCode::from(3),
        _ if let Some(why) = comparison.judges_nothing() => {
            fail(&[format!("--fail-above: {why}, so nothing was judged")])
        }
        _ if sides.iter().all(|problems| problems.all_unread().is_empty()) => ExitCode::SUCCESS,
        _ => ExitCode::from(1),
    }
}

fn no_report(error: &NoReport) -> ExitCode {
    match error {
        NoReport::NothingRead(lines) => fail(lines),
        _ => fail(&[error.to_string()]),
    }
}

fn fail(lines: &[String]) -> ExitCode {
    say(lines);
    ExitCode::from(2)
}

fn say(lines: &[String]) {
    let mut stderr = io::stderr().lock();
    for line in lines {
        // There is nowhere left to report it.
        let _ = writeln!(stderr, "analyze: {line}");
    }
}
