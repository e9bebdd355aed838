//! The `tprofiler` command: sends one request to an agent and prints its answer, or brings an agent
//! into a JVM that runs, and out of it.

mod attach;
mod hotspot;
mod jvm;
mod profile;

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind as ArgumentErrorKind;
use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::attach::AttachArguments;
use self::profile::ProfileArguments;
use crate::control::token::Token;
use crate::options::DEFAULT_PORT;

const CONNECT: Duration = Duration::from_secs(5);
/// Longer than the agent takes at most.
const ANSWER: Duration = Duration::from_secs(15);
/// The same where classes are put back.
const DETACHED: Duration = Duration::from_secs(130);
/// More than any answer.
const MAX_ANSWER: u64 = 16 << 20;

/// Talk to the profiling agent in a running JVM.
///
/// Exit status: 0 if the agent did what was asked, 1 if not or if it cannot be reached, 2 for a
/// wrong command line.
#[derive(Debug, Parser)]
#[command(name = "tprofiler", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[arg(long, global = true, value_name = "HOST:PORT", value_parser = address, help = address_help())]
    addr: Option<String>,
    /// A file whose first line is the agent's token, and that only its owner may read
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print the answer as a line of JSON
    #[arg(long, global = true)]
    json: bool,
}

fn address_help() -> String {
    let default = default_address();
    format!("The agent's address; run.json in the log folder has its port [default: {default}]")
}

fn default_address() -> String {
    format!("127.0.0.1:{DEFAULT_PORT}")
}

/// The command line, where no command's help offers what is only for commands that an agent answers.
fn command_line() -> clap::Command {
    let without = |command: clap::Command| {
        let hidden = |name: &'static str, action| {
            Arg::new(name).long(name).action(action).global(true).hide(true)
        };
        let addr = hidden("addr", ArgAction::Set).value_parser(address);
        command.arg(addr).arg(hidden("json", ArgAction::SetTrue))
    };
    ["attach", "list", "profile"]
        .into_iter()
        .fold(Arguments::command(), |line, name| line.mut_subcommand(name, without))
}

/// Checks the form of an address; whether there is such a host, connecting shows.
fn address(text: &str) -> Result<String, String> {
    let is_address = text.rsplit_once(':').is_some_and(|(host, port)| {
        // Of an IPv6 address without brackets, nobody can tell the port.
        let is_host = !host.contains(':') || host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if is_address {
        Ok(text.to_owned())
    } else {
        Err("not HOST:PORT, as in 127.0.0.1:50000".to_owned())
    }
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Say what is going on
    Status,
    /// Begin recording
    Start,
    /// End recording; calls still open are written as such
    Stop,
    /// Write everything so far to the disk
    Flush,
    /// Show from which duration on calls are recorded, or set it
    Threshold {
        /// A duration like 5ms, or one for some methods, like com.shop.dao.*:20ms
        value: Option<String>,
    },
    /// Show the methods with the most time of their own
    Top {
        /// How many methods, from 1 to 1000
        #[arg(default_value_t = 10)]
        count: u64,
        /// Of the last minute, not since the run began
        #[arg(long)]
        minute: bool,
    },
    /// Show calls that run now and have for long, with what they were called by and what they call
    Inflight {
        /// How long they have run at least: a duration like 2s, or a number of milliseconds
        #[arg(default_value = "1000", value_name = "TIME")]
        time: String,
    },
    /// Stop measuring the methods that a pattern names, at once, or show what is muted
    Mute {
        /// A pattern like com.shop.util.*
        pattern: Option<String>,
    },
    /// Measure the methods that a pattern names again
    Unmute {
        /// A pattern like com.shop.util.*
        pattern: String,
    },
    /// Show which methods are left out for their cost, or set the overhead budget
    Overhead {
        /// A share of the process's CPU time, like 2%, or off
        value: Option<String>,
    },
    /// Show the options in force
    Options,
    /// Bring the agent into a JVM that runs
    Attach(AttachArguments),
    /// Take the agent out of a JVM, which goes on as before; without PID, that at --addr
    Detach {
        /// Process id of the JVM
        pid: Option<u32>,
    },
    /// Show the JVMs of this user, and whether the agent is in them
    List,
    /// Attach, record for a while, detach, and print the report
    Profile(ProfileArguments),
}

impl Command {
    /// The line that asks an agent; `None` for what is more than that.
    fn line(&self) -> Option<String> {
        // What is given is not a second line, whatever it is.
        let with = |word: &str, value: &Option<String>| match value {
            Some(value) => format!("{word} {}", value.replace(char::is_control, "?")),
            None => word.to_owned(),
        };
        Some(match self {
            Self::Status => "status".to_owned(),
            Self::Start => "start".to_owned(),
            Self::Stop => "stop".to_owned(),
            Self::Flush => "flush".to_owned(),
            Self::Threshold { value } => with("threshold", value),
            Self::Top { count, minute } => {
                format!("top {count}{}", if *minute { " minute" } else { "" })
            }
            Self::Inflight { time } => with("inflight", &Some(time.clone())),
            Self::Mute { pattern } => with("mute", pattern),
            Self::Unmute { pattern } => with("unmute", &Some(pattern.clone())),
            Self::Overhead { value } => with("overhead", value),
            Self::Options => "options".to_owned(),
            Self::Detach { pid: None } => "detach".to_owned(),
            Self::Detach { pid: Some(_) } | Self::Attach(_) | Self::List | Self::Profile(_) => {
                return None;
            }
        })
    }
}

/// Runs the command with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::from_arg_matches(&command_line().get_matches());
    let Arguments { command, addr, token_file, json } =
        arguments.unwrap_or_else(|error| error.exit());
    let line = command.line();
    for (option, is_given) in [("--json", json), ("--addr", addr.is_some())] {
        if is_given && line.is_none() {
            let message = format!("{option} is for the commands that an agent answers");
            Arguments::command().error(ArgumentErrorKind::ArgumentConflict, message).exit();
        }
    }
    let addr = addr.unwrap_or_else(default_address);
    let answer = read_token(token_file).and_then(|token| {
        let token = token.as_ref();
        let with_pid = |pid: u32, error: String| format!("{pid}: {error}");
        let text = match &command {
            Command::Attach(arguments) => attach::attach_and_tell(arguments, token)
                .map_err(|error| with_pid(arguments.pid, error)),
            Command::Detach { pid: Some(pid) } => {
                attach::detach(*pid, token).map_err(|error| with_pid(*pid, error))
            }
            Command::List => Ok(attach::list()),
            Command::Profile(arguments) => {
                return profile::profile(arguments, token)
                    .map_err(|error| with_pid(arguments.pid(), error));
            }
            _ => {
                let line = line.unwrap_or_default();
                let line = if json { format!("json {line}") } else { line };
                ask(&addr, token, &line).map_err(|error| format!("{addr}: {error}"))
            }
        }?;
        // Whoever reads may have gone.
        let _ = io::stdout().write_all(text.as_bytes());
        Ok(ExitCode::SUCCESS)
    });
    answer.unwrap_or_else(|message| {
        eprintln!("tprofiler: {message}");
        ExitCode::FAILURE
    })
}

fn read_token(file: Option<PathBuf>) -> Result<Option<Token>, String> {
    file.map(|file| Token::read(&file)).transpose()
}

/// Sends one command to the agent at `address` and reads its answer, without the `ok`.
///
/// # Errors
/// One line: what the agent says, or why it says nothing.
fn ask(address: &str, token: Option<&Token>, command: &str) -> Result<String, String> {
    let stream = connect(address)?;
    let is_detach = command == "detach" || command == "json detach";
    let patience = if is_detach { DETACHED } else { ANSWER };
    stream.set_read_timeout(Some(patience)).map_err(|e| e.to_string())?;
    let mut reader = BufReader::new((&stream).take(MAX_ANSWER));
    let send = |line: &str| (&stream).write_all(line.as_bytes()).map_err(|e| e.to_string());
    // The command goes behind the token only when that was right: another program may listen there.
    if let Some(token) = token {
        send(&token.line())?;
        read_answer(&mut reader)?;
    }
    send(&format!("{command}\n"))?;
    read_answer(&mut reader)
}

/// Reads an answer, without the `ok`.
fn read_answer(reader: &mut impl BufRead) -> Result<String, String> {
    let mut answer = String::new();
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(0) => return Err("the answer ends early; is this an agent's port?".to_owned()),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err("no answer; is this an agent's port?".to_owned());
            }
            Err(error) => return Err(error.to_string()),
        }
        if line == "ok\n" {
            return Ok(answer);
        }
        if let Some(error) = line.strip_prefix("error: ") {
            return Err(error.trim_end().to_owned());
        }
        answer.push_str(&line);
    }
}

fn connect(address: &str) -> Result<TcpStream, String> {
    let addresses = address.to_socket_addrs().map_err(|e| e.to_string())?;
    let mut last = "no such address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                last = "nobody listens there; tprofiler list shows JVMs and their ports".to_owned();
            }
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}
