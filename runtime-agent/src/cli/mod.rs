//! The `tprofiler` command: sends one request to an agent and prints its answer, attaches an agent to a running JVM,
//! or detaches it. It shares no state with an agent: it is another process.
//!
//! ```text
//! target, connection, listening    finds the agent of a command, and talks to it
//! attach, hotspot, trigger, jvm    attaches, by HotSpot's protocol; the JVMs of this machine
//! profile, task, beside            one-shot sessions, profile tasks, `analyze` and `skywalking`
//! endpoints, run_agent             for other programs of this project
//! values, bounded, notice, failure checks, time limits, messages
//! ```

mod attach;
mod connection;
pub mod endpoints;
mod failure;
mod hotspot;
mod jvm;
mod listening;
mod notice;
mod profile;
pub mod run_agent;
mod sibling_programs;
mod target;
mod task;
mod time_limit;
mod trigger;
mod values;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind as ArgumentErrorKind;
use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, value_parser};

use log_format::writer::is_unprintable;

use self::attach::AttachArguments;
use self::failure::{Failure, failed};
use self::profile::ProfileArguments;
use self::sibling_programs::Program;
use self::target::{Target, default_address};
use self::task::TaskArguments;
use self::time_limit::{FILES, bounded};
use self::values::{address, given};
use crate::control::token::Token;

/// Talk to the profiling agent in a running JVM.
///
/// Exit status: 0 if the agent did what was asked, 1 if not or if it cannot be reached, 2 for a
/// wrong command line.
#[derive(Debug, Parser)]
#[command(name = "tprofiler", version, long_version = command_line::VERSION)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[arg(long, global = true, value_name = "HOST:PORT", value_parser = address, help = address_help())]
    addr: Option<String>,
    /// Ask the agent in the JVM with this process id
    #[arg(long = "pid", global = true, value_name = "PID")]
    agent_pid: Option<u32>,
    /// Ask the agent of the run in this folder
    #[arg(long, global = true, value_name = "FOLDER")]
    run: Option<PathBuf>,
    /// A file whose first line is the agent's token, with mode 0600; by default tprofiler finds the token
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Send the command without a token, to whatever listens there: an agent with port_access=open does status,
    /// start, stop and flush
    #[arg(long, global = true, conflicts_with = "token_file")]
    no_token: bool,
    /// Print the answer as a line of JSON
    #[arg(long, global = true)]
    json: bool,
}

fn address_help() -> String {
    let default = default_address();
    format!(
        "The agent's address; run.json in the log folder has its port [default: that of the only agent, or {default}]"
    )
}

/// The command line. Hides options that only apply to commands for an agent from the help of the other commands.
fn command_line() -> clap::Command {
    let without = |command: clap::Command| {
        let hidden = |name: &'static str, action| {
            Arg::new(name).long(name).action(action).global(true).hide(true)
        };
        let addr = hidden("addr", ArgAction::Set).value_parser(address);
        let run = hidden("run", ArgAction::Set).value_parser(value_parser!(PathBuf));
        let pid = hidden("agent_pid", ArgAction::Set).long("pid").value_parser(value_parser!(u32));
        let no_token = hidden("no_token", ArgAction::SetTrue).long("no-token");
        let json = (command.get_name() != "list").then(|| hidden("json", ArgAction::SetTrue));
        command.args([addr, run, pid, no_token]).args(json)
    };
    ["analyze", "attach", "list", "profile", "skywalking"]
        .into_iter()
        .fold(Arguments::command(), |line, name| line.mut_subcommand(name, without))
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Show the agent's status
    Status,
    /// Begin recording
    Start,
    /// End recording, and write unfinished calls
    Stop,
    /// Write everything recorded so far to the disk
    Flush,
    /// Show or set the threshold: how long a call must take to be recorded
    Threshold {
        /// A duration like 5ms, or one for some methods, like com.shop.dao.*:20ms
        #[arg(value_parser = given)]
        value: Option<String>,
    },
    /// Show the methods with the most self time
    Top {
        /// How many methods, from 1 to 1000
        #[arg(default_value_t = 10)]
        count: u64,
        /// Of the last minute, not since the run began
        #[arg(long)]
        minute: bool,
        /// Show SQL statements instead
        #[arg(long)]
        sql: bool,
    },
    /// Show calls in progress that have run for at least TIME, with their callers and callees
    Inflight {
        /// A duration like 2s, or a number of milliseconds
        #[arg(value_parser = given, default_value = "1000", value_name = "TIME")]
        time: String,
    },
    /// Show what threads do: their state, CPU time, and the call that they are in
    Threads,
    /// Show the state of methods: instrumented, throttled, muted, excluded and so on
    Methods {
        /// A class, a method, or a pattern like com.shop.util.*
        #[arg(value_parser = given)]
        pattern: String,
    },
    /// Mute the methods that a pattern names, or show what is muted
    Mute {
        /// A pattern like com.shop.util.*
        #[arg(value_parser = given)]
        pattern: Option<String>,
    },
    /// Measure the methods that a pattern names again
    Unmute {
        /// A pattern like com.shop.util.*
        #[arg(value_parser = given)]
        pattern: String,
    },
    /// Show which methods are throttled, or set the overhead budget
    Overhead {
        /// A share of the process's CPU time, like 2%, or off
        #[arg(value_parser = given)]
        value: Option<String>,
    },
    /// Show whether allocations are sampled, or sample them from now on
    Alloc {
        /// How many bytes are between two samples, like 512k, or off
        #[arg(value_parser = given)]
        value: Option<String>,
    },
    /// Show which methods are traced, or take the stack of one in N of their calls
    Trace {
        /// A method, or a pattern like com.shop.Order.*
        #[arg(value_parser = given)]
        pattern: Option<String>,
        /// One in how many calls
        #[arg(value_parser = given, value_name = "N")]
        every: Option<String>,
    },
    /// Stop tracing these methods, or all
    Untrace {
        /// A pattern like com.shop.Order.*
        #[arg(value_parser = given)]
        pattern: Option<String>,
    },
    /// Record the slow requests of an endpoint for some minutes with their calls, or end such a task
    Task(TaskArguments),
    /// Show the profile tasks: analyze --task ID reports them
    Tasks,
    /// Report which methods cost the time, from logs
    ///
    /// Runs the program analyze, which is in the same folder.
    #[command(disable_help_flag = true)]
    Analyze {
        /// Its arguments; --help shows them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Carry out the profile tasks of a SkyWalking server
    ///
    /// Runs the program tprofiler-skywalking, which is in the same folder.
    #[command(disable_help_flag = true)]
    Skywalking {
        /// Its arguments; --help shows them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Show the options in force
    Options,
    /// Attach the agent to a running JVM
    #[command(after_help = crate::options::option_table::help())]
    Attach(AttachArguments),
    /// Detach the agent from a JVM; without PID, the agent at --addr
    Detach {
        /// Process id of the JVM
        pid: Option<u32>,
    },
    /// List the JVMs of this user, and whether the agent is in them
    List,
    /// Attach, record for a while, detach, and print the report
    Profile(ProfileArguments),
}

impl Command {
    /// The line to send to an agent; `None` for commands that are more than that.
    fn line(&self) -> Option<String> {
        // Whatever the value contains, it cannot become a second line.
        let with = |word: &str, value: &Option<String>| match value {
            Some(value) => format!("{word} {}", value.replace(is_unprintable, "?")),
            None => word.to_owned(),
        };
        Some(match self {
            Self::Status => "status".to_owned(),
            Self::Start => "start".to_owned(),
            Self::Stop => "stop".to_owned(),
            Self::Flush => "flush".to_owned(),
            Self::Threshold { value } => with("threshold", value),
            Self::Top { count, minute, sql } => {
                let word = |is_given, word| if is_given { word } else { "" };
                format!("top {count}{}{}", word(*minute, " minute"), word(*sql, " sql"))
            }
            Self::Inflight { time } => with("inflight", &Some(time.clone())),
            Self::Threads => "threads".to_owned(),
            Self::Methods { pattern } => with("methods", &Some(pattern.clone())),
            Self::Mute { pattern } => with("mute", pattern),
            Self::Unmute { pattern } => with("unmute", &Some(pattern.clone())),
            Self::Overhead { value } => with("overhead", value),
            Self::Alloc { value } => with("alloc", value),
            Self::Trace { pattern, every } => {
                let every = every.as_ref().map(|every| format!(" {every}")).unwrap_or_default();
                with("trace", &pattern.as_ref().map(|pattern| pattern.clone() + &every))
            }
            Self::Untrace { pattern } => with("untrace", pattern),
            Self::Task(task) => task.line(),
            Self::Tasks => "tasks".to_owned(),
            Self::Options => "options".to_owned(),
            Self::Detach { pid: None } => "detach".to_owned(),
            Self::Detach { pid: Some(_) }
            | Self::Attach(_)
            | Self::List
            | Self::Profile(_)
            | Self::Analyze { .. }
            | Self::Skywalking { .. } => return None,
        })
    }
}

/// Runs the command with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    // Before anything else is read: its options have the names of ours.
    if let Some((program, arguments)) = sibling_programs::named(std::env::args_os()) {
        return program.run(&arguments);
    }
    if let Some(code) = command_line::generated(command_line) {
        return code;
    }
    let arguments = Arguments::from_arg_matches(&command_line().get_matches());
    let arguments = arguments.unwrap_or_else(|error| error.exit());
    match run(arguments) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("tprofiler: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Arguments) -> Result<ExitCode, Failure> {
    if let Command::Task(task) = &mut arguments.command {
        let of_file = task.clone();
        let read = bounded("--endpoints", FILES, move || of_file.with_endpoints())?;
        *task = read.map_err(|error| error.of("--endpoints"))?;
    }
    let (line, target) = check(&arguments);
    // With a PID, detach also works through the JVM.
    if let Command::Detach { pid: pid @ None } = &mut arguments.command
        && !arguments.json
    {
        *pid = arguments.agent_pid;
    }
    let Arguments { command, token_file, json, no_token, .. } = arguments;
    let token = token_file.map(|file| bounded("--token-file", FILES, move || Token::read(&file)));
    let token = token.transpose()?.transpose();
    let token = token.map_err(|error| error.of("--token-file"))?;
    let token = token.as_ref();
    let text = match &command {
        Command::Attach(arguments) => {
            attach::attach_and_tell(arguments, token).map_err(failed(arguments.pid))
        }
        Command::Detach { pid: Some(pid) } => attach::detach(*pid, token).map_err(failed(pid)),
        Command::List => Ok(attach::list(json)),
        Command::Analyze { arguments } => return Ok(Program::Analyze.run(arguments)),
        Command::Skywalking { arguments } => return Ok(Program::Skywalking.run(arguments)),
        Command::Profile(arguments) => {
            return profile::profile(arguments, token).map_err(failed(arguments.pid()));
        }
        _ => {
            let line = line.unwrap_or_default();
            let line = if json { format!("json {line}") } else { line };
            let target = target.map_or_else(Target::only, Ok)?;
            let answer = if no_token {
                ask_without_token(&target, &line)
            } else {
                ask(&target, token, &line)
            };
            answer.map_err(failed(&target))
        }
    }?;
    match io::stdout().write_all(text.as_bytes()) {
        // The reader has seen enough, as `head` has.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(failed("the answer cannot be written")(error))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Sends one command to an agent and returns its answer. Without a token, sends only `status`.
fn ask(target: &Target, token: Option<&Token>, line: &str) -> Result<String, Failure> {
    let agent = target.find(token)?;
    if !matches!(line, "status" | "json status") {
        return agent.connect_known()?.ask(line);
    }
    let (mut connection, why) = agent.connect()?;
    let answer = connection.ask(line)?;
    if let Some(why) = why {
        if agent.pid.is_some_and(|pid| !is_of(&answer, pid)) {
            return Err("this run has ended, and another agent has its port".into());
        }
        eprintln!("tprofiler: {target}: no token, so only public values are shown: {why}");
    }
    Ok(answer)
}

/// Whether a status, as text or JSON, is that of the agent in this process.
fn is_of(status: &str, pid: u32) -> bool {
    let json = serde_json::from_str::<serde_json::Value>(status).ok();
    let of_json = json.and_then(|status| status.get("pid")?.as_u64());
    of_json == Some(pid.into()) || status.lines().any(|line| line == format!("pid: {pid}"))
}

/// Sends one command, without proof, to whatever program listens: with `port_access=open` an agent accepts some.
fn ask_without_token(target: &Target, line: &str) -> Result<String, Failure> {
    let mut agent = target.find(None)?;
    agent.tokens = Err("--no-token".into());
    let (mut connection, _) = agent.connect()?;
    connection.ask(line)
}

/// The line to send and the agent to send it to, if one is named. Ends the process if options conflict.
fn check(arguments: &Arguments) -> (Option<String>, Option<Target>) {
    let Arguments { command, addr, agent_pid: pid, run, json, no_token, .. } = arguments;
    let refuse = |message: String| -> ! {
        Arguments::command().error(ArgumentErrorKind::ArgumentConflict, message).exit()
    };
    let line = command.line();
    let agents = [("--addr", addr.is_some()), ("--run", run.is_some()), ("--pid", pid.is_some())];
    let flags = [("--json", *json), ("--no-token", *no_token)];
    for (option, is_given) in flags.into_iter().chain(agents) {
        let is_for_list = option == "--json" && matches!(command, Command::List);
        if is_given && line.is_none() && !is_for_list {
            refuse(format!("{option} is for the commands that an agent answers"));
        }
    }
    let mut given = agents.iter().filter(|(_, is_given)| *is_given).map(|(option, _)| *option);
    if let (Some(one), Some(other)) = (given.next(), given.next()) {
        refuse(format!("{one} and {other} both name an agent; give one of them"));
    }
    let target = match (pid, run) {
        (Some(pid), _) => Some(Target::Pid(*pid)),
        (_, Some(folder)) => Some(Target::Run(folder.clone())),
        _ => addr.clone().map(Target::Address),
    };
    (line, target)
}
