//! `tprofiler profile`: attaches, records for a while, detaches, and prints the report.

use std::collections::HashSet;
use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs};

use clap::Args;
use log_format::error::{BadValue, FileError};
use log_format::file_names::RUN_JSON;
use log_format::run::Run;
use log_format::units::parse_duration;
use rustix::fs::{Access, access};

use super::attach::{
    AttachArguments, Attached, attach, detach, logs_from_here, read_options, status,
};
use super::failure::{Failure, failed};
use super::jvm::AgentState;
use super::time_limit::{FILES, bounded};
use crate::control::token::Token;
use crate::sys::end_signals::EndSignals;

/// How often to check whether the JVM still exists.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, Args)]
pub(super) struct ProfileArguments {
    #[command(flatten)]
    attach: AttachArguments,
    /// How long to record: 30s, 5m
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    duration: Duration,
    /// Write the report to this file: .html, .svg (a flame graph), .jfr, .pprof, .collapsed, .json, .csv or .txt
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl ProfileArguments {
    /// Process id of the JVM.
    pub(super) fn pid(&self) -> u32 {
        self.attach.pid
    }
}

fn duration(text: &str) -> Result<Duration, BadValue> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err(BadValue::because("duration must be greater than zero")),
        parsed => parsed,
    }
}

/// Profiles a JVM for a while, and leaves it as it was. Ctrl-C ends it early.
///
/// # Errors
/// Why it failed.
pub(super) fn profile(
    arguments: &ProfileArguments,
    token: Option<&Token>,
) -> Result<ExitCode, Failure> {
    let analyze = analyze()?;
    let signals = EndSignals::block();
    let options = read_options(&arguments.attach.options)?;
    if !options.recording.start {
        return Err("with start=off there is nothing to report".into());
    }
    let output = arguments.output.as_deref();
    let report_of =
        |has_samples| output.map_or(Ok(&[][..]), |output: &Path| report_as(output, has_samples));
    output.map_or(Ok(()), check_folder)?;
    // A wrong name or folder is reported now.
    report_of(options.sampling.cpu.is_some())?;
    let attached = attach(&arguments.attach)?;
    // Read these now: after the JVM has ended nobody can.
    let own = (attached.jvm.own_pid(), attached.jvm.uid());
    let run = find_run(&attached, own);
    let (pid, program) = (attached.jvm.pid, attached.jvm.program());
    eprintln!(
        "tprofiler: recording {pid} ({program}) for {:?}; Ctrl-C ends it",
        arguments.duration
    );
    let status = status(&attached, token).unwrap_or_default();
    print_postponed(&status);
    let mut reported = HashSet::new();
    print_hints(&status, &mut reported);
    wait(&attached, arguments.duration, &signals);
    let detached = detach(pid, token);
    // Report why there may be nothing in the report.
    print_hints(detached.as_deref().unwrap_or_default(), &mut reported);
    if let Err(error) = detached {
        match attached.jvm.agent_state() {
            AgentState::Attached { .. } | AgentState::Beginning => return Err(error),
            _ if attached.jvm.is_alive() => {
                eprintln!("tprofiler: {pid}: the agent was detached by somebody else");
            }
            _ => eprintln!("tprofiler: {pid}: the JVM has ended"),
        }
    }
    let run = run
        .or_else(|| find_run(&attached, own))
        .ok_or_else(|| format!("no run of it is in {}", logs_from_here(&attached).display()))?;
    let mut command = Command::new(&analyze);
    command.arg(&run).args(report_of(has_samples(&run))?);
    if let Some(output) = output {
        command.arg("-o").arg(output);
    }
    let status = command.status();
    match status.map_err(FileError::at(analyze))?.code() {
        Some(0) => {
            eprintln!("tprofiler: more reports: analyze {} [OPTIONS]", run.display());
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprintln!("tprofiler: the log is kept: analyze {} [OPTIONS]", run.display());
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Checks that a report can be written where it is to be.
fn check_folder(output: &Path) -> Result<(), Failure> {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let cannot = |why: &dyn Display| Err(format!("{}: {why}", output.display()).into());
    if output.is_dir() {
        return cannot(&"is a folder");
    }
    access(folder, Access::WRITE_OK | Access::EXEC_OK).or_else(|error| cannot(&error))
}

/// Prints which classes will be missing from the report.
fn print_postponed(status: &str) {
    let mut postponed = status.lines().filter(|line| line.starts_with("postponed: ")).peekable();
    if postponed.peek().is_some() {
        eprintln!(
            "tprofiler: while they are postponed, the time of these classes is in their callers' self time; \
             --even-running instruments them at once"
        );
    }
    postponed.for_each(|line| eprintln!("tprofiler: {line}"));
}

/// Prints the hints of an answer, each once.
fn print_hints(answer: &str, reported: &mut HashSet<String>) {
    for hint in answer.lines().filter_map(|line| line.strip_prefix("hint: ")) {
        if reported.insert(hint.to_owned()) {
            eprintln!("tprofiler: {hint}");
        }
    }
}

/// Whether a run has samples: threads that use no CPU time have none.
fn has_samples(run: &Path) -> bool {
    let files = fs::read_dir(run).into_iter().flatten().flatten();
    files.into_iter().any(|file| file.file_name().to_string_lossy().contains(".samples.csv"))
}

/// The arguments of `analyze` for a file of this name, which says the format. With samples, stacks are of CPU time.
fn report_as(output: &Path, has_samples: bool) -> Result<&'static [&'static str], Failure> {
    let extension = output.extension().and_then(|extension| extension.to_str());
    match extension.unwrap_or_default() {
        "svg" | "pprof" | "collapsed" if has_samples => Ok(&["--flame", "cpu"]),
        "svg" | "pprof" | "collapsed" | "html" | "jfr" | "json" | "csv" | "txt" => Ok(&[]),
        _ => {
            let known = ".html, .svg, .jfr, .pprof, .collapsed, .json, .csv or .txt";
            Err(format!("{}: its name must end with {known}", output.display()).into())
        }
    }
}

fn analyze() -> Result<PathBuf, Failure> {
    let own = env::current_exe().map_err(failed("no path of this command"))?;
    let analyze = own.with_file_name("analyze");
    if analyze.exists() {
        Ok(analyze)
    } else {
        Err(format!("{} is not there; without it there is no report", analyze.display()).into())
    }
}

/// The newest run in the log folder of the JVM with this process id and user.
fn find_run(attached: &Attached, (pid, uid): (u32, u32)) -> Option<PathBuf> {
    let logs = logs_from_here(attached);
    bounded("logs", FILES, move || newest_run(&logs, pid, uid)).ok()?
}

/// The newest run of a process in a folder that others may be able to write to. Only runs that belong to the user or
/// root count.
fn newest_run(logs: &Path, pid: u32, uid: u32) -> Option<PathBuf> {
    let is_own = |path: &Path, is_kind: fn(&fs::Metadata) -> bool| {
        let found = fs::symlink_metadata(path);
        found.is_ok_and(|found| is_kind(&found) && [0, uid].contains(&found.uid()))
    };
    let folders = fs::read_dir(logs).ok()?.flatten().map(|entry| entry.path());
    let folders = folders.filter(|folder| {
        is_own(folder, fs::Metadata::is_dir)
            && is_own(&folder.join(RUN_JSON), fs::Metadata::is_file)
    });
    // Ignores other folders, and runs that are just being created.
    let runs = folders.filter_map(|folder| Run::read(&folder).ok().map(|run| (run, folder)));
    let own = runs.filter(|(run, _)| run.pid == pid);
    own.max_by_key(|(run, _)| run.start_ns).map(|(_, folder)| folder)
}

/// Waits until the time has passed, a signal comes, or the JVM ends.
fn wait(attached: &Attached, duration: Duration, signals: &EndSignals) {
    let deadline = Instant::now() + duration;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || signals.came_within(left.min(LOOK)) || !attached.jvm.is_alive() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::super::jvm::own_uid;
    use super::*;

    #[test]
    fn a_run_that_another_user_has_forged_is_not_taken() {
        let logs = tempfile::tempdir().unwrap();
        let make = |name: &str, start_ns: u64| {
            let folder = logs.path().join(name);
            fs::create_dir(&folder).unwrap();
            let run = Run { pid: 77, start_ns, ..Run::default() };
            fs::write(folder.join(RUN_JSON), run.to_json()).unwrap();
            folder
        };
        let found = |pid, uid| newest_run(logs.path(), pid, uid);
        let (_, own) = (make("older", 1), make("own", 2));
        assert_eq!(found(77, own_uid()).as_ref(), Some(&own));
        assert_eq!(found(78, own_uid()), None);
        // A link to an older run.
        symlink(logs.path().join("older"), logs.path().join("z-link")).unwrap();
        assert_eq!(found(77, own_uid()).as_ref(), Some(&own));
        if own_uid() != 0 {
            return assert_eq!(found(77, own_uid() + 1), None);
        }
        // The folder, or in another run the file, belongs to another user.
        for (name, start_ns, path) in [("folder", 3, ""), ("file", 4, RUN_JSON)] {
            let forged = make(name, start_ns);
            assert_eq!(found(77, 0).as_ref(), Some(&forged));
            chown(forged.join(path), Some(65_534), None).unwrap();
            assert_eq!(found(77, 0).as_ref(), Some(&own), "{name}");
        }
    }
}
