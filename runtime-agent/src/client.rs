//! The `tprofiler` command: sends one request to an agent and prints its answer, or brings an agent
//! into a JVM that runs, and out of it.

mod attach;
mod hotspot;
mod jvm;
mod profile;

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use self::attach::AttachArguments;
use self::profile::ProfileArguments;
use crate::options::DEFAULT_PORT;

const CONNECT: Duration = Duration::from_secs(5);
/// Longer than the agent takes at most.
const ANSWER: Duration = Duration::from_secs(15);
/// The same where classes are put back.
const DETACHED: Duration = Duration::from_secs(130);
/// More than any answer.
const MAX_ANSWER: u64 = 1 << 20;

/// Talk to the profiling agent in a running JVM.
///
/// Exit status: 0 if the agent did what was asked, 1 if not or if it cannot be reached, 2 for a
/// wrong command line.
#[derive(Debug, Parser)]
#[command(name = "tprofiler", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// The agent's address; run.json in the log folder has its port
    #[arg(long, global = true, value_name = "HOST:PORT", default_value_t = default_address(), value_parser = address)]
    addr: String,
}

fn default_address() -> String {
    format!("127.0.0.1:{DEFAULT_PORT}")
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

/// Runs the command with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    let Arguments { command, addr } = Arguments::parse();
    let with_pid = |pid: u32, answer: Result<String, String>| {
        answer.map_err(|message| format!("{pid}: {message}"))
    };
    let ask = |line: &str| ask(&addr, line).map_err(|message| format!("{addr}: {message}"));
    let answer = match &command {
        Command::Status => ask("status"),
        Command::Start => ask("start"),
        Command::Stop => ask("stop"),
        Command::Flush => ask("flush"),
        // Not a second line, whatever it is.
        Command::Threshold { value: Some(value) } => {
            ask(&format!("threshold {}", value.replace(char::is_control, "?")))
        }
        Command::Threshold { value: None } => ask("threshold"),
        Command::Attach(arguments) => with_pid(arguments.pid, attach::attach_and_tell(arguments)),
        Command::Detach { pid: Some(pid) } => with_pid(*pid, attach::detach(*pid)),
        Command::Detach { pid: None } => ask("detach"),
        Command::List => Ok(attach::list()),
        Command::Profile(arguments) => match profile::profile(arguments) {
            Ok(code) => return code,
            Err(message) => with_pid(arguments.pid(), Err(message)),
        },
    };
    match answer {
        Ok(answer) => {
            // Whoever reads may have gone.
            let _ = io::stdout().write_all(answer.as_bytes());
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("tprofiler: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Sends one command to the agent at `address` and reads its answer, without the `ok`.
///
/// # Errors
/// One line: what the agent says, or why it says nothing.
pub fn ask(address: &str, command: &str) -> Result<String, String> {
    let stream = connect(address)?;
    let patience = if command == "detach" { DETACHED } else { ANSWER };
    stream.set_read_timeout(Some(patience)).map_err(|e| e.to_string())?;
    (&stream).write_all(format!("{command}\n").as_bytes()).map_err(|e| e.to_string())?;
    let mut answer = String::new();
    let mut reader = BufReader::new(stream.take(MAX_ANSWER));
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
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}
