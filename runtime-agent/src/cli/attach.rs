//! `tprofiler attach`, `detach` and `list`.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, thread};

use clap::Args;
use serde_json::json;

use super::failure::{Failure, failed};
use super::hotspot::{self, ENDS};
use super::jvm::{AgentState, ENDING, Jvm, fits_option};
use super::notice::with_notice;
use super::target::{Agent, loopback, reachable};
use super::time_limit::{FILES, bounded};
use crate::attach_protocol;
use crate::control::token::Token;
use crate::options::{ControlOptions, Options};

/// How long the agent may take to instrument thousands of classes, or to restore them.
const CHANGE: Duration = Duration::from_secs(130);
/// How long its thread may take to end when everything is done.
const GONE: Duration = Duration::from_secs(10);
/// What a command may wait for.
const ATTACHING: &str =
    "until classes are instrumented; it takes some seconds to see which loops are running";
const DETACHING: &str =
    "until classes are restored; it takes some seconds to see which loops are running";

#[derive(Clone, Debug, Args)]
pub(super) struct AttachArguments {
    /// Process id of the JVM
    pub pid: u32,
    /// Options as after -agentpath: include=com.shop,threshold=5ms
    #[arg(default_value = "", hide_default_value = true, value_name = "AGENT_OPTIONS")]
    pub options: String,
    /// The agent's library, as the JVM sees it; else the one beside this command
    #[arg(long, value_name = "PATH")]
    pub agent: Option<PathBuf>,
    /// Also retransform classes in which a loop runs; the loop may be slow until its method returns
    #[arg(long)]
    pub even_running: bool,
}

/// An agent that has been attached.
#[derive(Clone, Debug)]
pub(super) struct Attached {
    pub jvm: Jvm,
    /// The log folder, in the JVM's file system.
    pub logs: PathBuf,
    pub port: Option<u16>,
    /// The address that control listens on.
    bind: IpAddr,
    /// The file with the agent's token, in the JVM's file system.
    token_file: Option<PathBuf>,
}

/// Attaches, and returns a few lines about the result.
///
/// # Errors
/// Why it failed.
pub(super) fn attach_and_tell(
    arguments: &AttachArguments,
    token: Option<&Token>,
) -> Result<String, Failure> {
    let attached = attach(arguments)?;
    let Attached { jvm, logs, port, .. } = &attached;
    let first = format!("attached to {} ({})\n", jvm.pid, jvm.program());
    match status(&attached, token) {
        Some(status) => {
            let status: String =
                status.split_inclusive('\n').filter(|line| says_something(line)).collect();
            Ok(format!("{first}port: {}\n{status}", port.unwrap_or_default()))
        }
        None => {
            let port = port.map_or_else(|| "none".to_owned(), |port| port.to_string());
            Ok(format!("{first}port: {port}\nlogs: {}\n", logs.display()))
        }
    }
}

/// Whether a line of the status right after an attach has more than a count that is still 0.
fn says_something(line: &str) -> bool {
    let Some((key, value)) = line.trim_end().split_once(": ") else { return true };
    let is_zero = matches!(value, "0" | "0 bytes" | "0.00%") || value.starts_with("0% of ");
    !is_zero || key.starts_with("classes ")
}

/// The status of an agent that was just attached, if it has a control port.
pub(super) fn status(attached: &Attached, token: Option<&Token>) -> Option<String> {
    let Attached { jvm, port, bind, token_file, .. } = attached;
    // The options of this command may name the token's file.
    let file = token_file.as_ref().map(|file| jvm.seen_from_here(file));
    let own = file.map(|file| bounded("token_file", FILES, move || Token::read(&file)));
    let own = own.and_then(|read| read.ok()?.ok());
    let addresses = vec![SocketAddr::new(reachable(*bind), (*port)?)];
    let agent = agent_in(jvm, addresses, token.or(own.as_ref()))?;
    agent.connect_known().ok()?.ask("status").ok()
}

/// Attaches, and waits until classes are instrumented.
///
/// # Errors
/// Why it failed. The agent is not in the JVM then, unless it takes too long.
pub(super) fn attach(arguments: &AttachArguments) -> Result<Attached, Failure> {
    let AttachArguments { pid, options, agent, even_running } = arguments;
    let jvm = Jvm::find(*pid)?;
    let even_running = if *even_running { "retransform=even-running" } else { "" };
    let options = [options.as_str(), even_running].join(",");
    let (options, parsed) = complete(options.trim_matches(','), &jvm)?;
    match jvm.agent_state() {
        AgentState::None | AgentState::Idle => {}
        AgentState::Beginning => return Err("the agent is being attached to it already".into()),
        AgentState::Ending { .. } => return Err(ENDING.into()),
        AgentState::Attached { port } => {
            let port = port.map_or_else(String::new, |port| format!(", with control port {port}"));
            return Err(format!(
                "the agent is in it already{port}; tprofiler status --pid {pid} has the folder of its log"
            )
            .into());
        }
    }
    // A JVM that had the library before knows it by that path.
    let library = match (agent, jvm.agent_library()) {
        (Some(agent), _) => agent.clone(),
        (None, Some(library)) => library,
        (None, None) => library_beside()?,
    };
    let here = jvm.seen_from_here(&library);
    if !bounded("the agent's library", FILES, move || here.exists())? {
        return Err(format!(
            "the JVM cannot see {}, in a container perhaps; copy it there, and give its path there \
             as --agent",
            library.display()
        )
        .into());
    }
    let port = with_notice(ATTACHING, || {
        is_loaded(hotspot::load(&jvm, &library, &options)?, &parsed.log.folder)?;
        wait_until_begun(&jvm)
    })?;
    let Options { log, control: ControlOptions { bind, token_file, .. }, .. } = parsed;
    Ok(Attached { jvm, logs: log.folder, port, bind, token_file })
}

/// Checks what `Agent_OnAttach` returned for options with this log folder.
fn is_loaded(code: i32, logs: &Path) -> Result<(), Failure> {
    if code == attach_protocol::WRONG_OPTIONS {
        // The options were read here too.
        return Err(format!(
            "the JVM's user cannot write to {}, or an option is wrong there; the agent's message is on the JVM's \
             stderr",
            logs.display()
        )
        .into());
    }
    explain(code)
}

/// Checks options as the agent does, and makes their paths independent of the JVM's folder.
fn complete(options: &str, jvm: &Jvm) -> Result<(String, Options), Failure> {
    let mut options = options.to_owned();
    // If a key repeats, the last value counts.
    let with = |options: &str, key: &str, path: &Path| -> Result<String, Failure> {
        if !fits_option(path) {
            return Err(
                format!("{key}: {}: paths with commas are not supported", path.display()).into()
            );
        }
        let comma = if options.is_empty() { "" } else { "," };
        Ok(format!("{options}{comma}{key}={}", path.display()))
    };
    let absolute = |key: &str, path: &Path| -> Result<PathBuf, Failure> {
        if !jvm.shares("mnt") {
            return Err(format!(
                "the JVM has files of its own, in a container perhaps; give {key}= as a path from \
                 its root"
            )
            .into());
        }
        let folder = env::current_dir().map_err(failed("no current folder"))?;
        Ok(folder.join(path))
    };
    if let Some(config) = Options::config_of(&options) {
        if !jvm.shares("mnt") {
            return Err("the JVM has files of its own, in a container perhaps; give the options \
                        themselves instead of config="
                .into());
        }
        if config.is_relative() {
            options = with(&options, "config", &absolute("config", &config)?)?;
        }
    }
    let mut parsed = read_options(&options)?;
    if parsed.log.folder.is_relative() {
        parsed.log.folder = absolute("logs", &parsed.log.folder)?;
        options = with(&options, "logs", &parsed.log.folder)?;
    }
    if let Some(file) = parsed.control.token_file.take_if(|file| file.is_relative()) {
        let file = absolute("token_file", &file)?;
        options = with(&options, "token_file", &file)?;
        parsed.control.token_file = Some(file);
    }
    Ok((options, parsed))
}

/// Reads options as the agent does.
///
/// # Errors
/// What is wrong with them, or that the disk does not answer.
pub(super) fn read_options(options: &str) -> Result<Options, Failure> {
    let options = options.to_owned();
    let read = bounded("config", FILES, move || Options::read_attached(&options))?;
    Ok(read?)
}

fn library_beside() -> Result<PathBuf, Failure> {
    let own = env::current_exe().map_err(failed("no path of this command"))?;
    let library = own.with_file_name("libtprofiler.so");
    if library.exists() {
        Ok(library)
    } else {
        let library = library.display();
        Err(format!("{library} is not there; give the library's path as --agent").into())
    }
}

/// The meaning of what `Agent_OnAttach` returned.
fn explain(code: i32) -> Result<(), Failure> {
    let reason = match code {
        attach_protocol::OK => return Ok(()),
        attach_protocol::WRONG_OPTIONS => "an option is wrong, or the log folder cannot be used",
        attach_protocol::ATTACHED_ALREADY => "the agent is in it already",
        attach_protocol::NOT_ATTACHED => "the agent is not attached to it",
        attach_protocol::REFUSED => "the JVM refuses what the agent needs",
        attach_protocol::NOT_DETACHED => "the agent could not be detached",
        _ => "the agent failed",
    };
    if code == attach_protocol::NOT_ATTACHED {
        return Err(reason.into());
    }
    Err(format!("{reason} (code {code}); the agent's message is on the JVM's stderr").into())
}

/// Waits until recording can begin, and returns the control port.
fn wait_until_begun(jvm: &Jvm) -> Result<Option<u16>, Failure> {
    let deadline = Instant::now() + CHANGE;
    loop {
        match jvm.agent_state() {
            AgentState::Attached { port } => return Ok(port),
            AgentState::Beginning if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(10));
            }
            AgentState::Beginning => {
                return Err(format!("classes not instrumented after {} s", CHANGE.as_secs()).into());
            }
            _ => {
                // Of a JVM that is ending, the agent's thread may be gone first.
                thread::sleep(ENDS);
                return Err(match jvm.is_alive() {
                    true => "the agent has ended; its message is on the JVM's stderr".into(),
                    false => "the JVM has ended".into(),
                });
            }
        }
    }
}

/// Detaches the agent from a JVM, and waits until it has gone. Returns its report.
///
/// # Errors
/// Why it failed.
pub(super) fn detach(pid: u32, token: Option<&Token>) -> Result<String, Failure> {
    with_notice(DETACHING, || detach_and_wait(pid, token))
}

fn detach_and_wait(pid: u32, token: Option<&Token>) -> Result<String, Failure> {
    let jvm = Jvm::find(pid)?;
    let port = match jvm.agent_state() {
        AgentState::Attached { port } => port,
        AgentState::Beginning => return Err("the agent is being attached; try again".into()),
        AgentState::Ending { .. } => return Err(ENDING.into()),
        // It may have left instrumented classes.
        AgentState::Idle => None,
        AgentState::None => return Err("the agent is not attached to it".into()),
    };
    // It may listen on another address, or its token may be unknown here.
    let agent = port.and_then(|port| agent_in(&jvm, loopback(port), token));
    let answer = match agent.and_then(|agent| agent.connect_known().ok()) {
        Some(mut connection) => connection.ask("detach")?,
        None => {
            let library = jvm.agent_library().ok_or("the agent's library is not in it")?;
            explain(hotspot::load(&jvm, &library, attach_protocol::DETACH)?)?;
            String::new()
        }
    };
    let patience = if answer.is_empty() { CHANGE } else { GONE };
    let deadline = Instant::now() + patience;
    while matches!(jvm.agent_state(), AgentState::Attached { .. }) {
        if Instant::now() >= deadline {
            return Err(format!("the agent has not ended after {} s", patience.as_secs()).into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    let restored = answer.lines().filter(|line| {
        ["classes ", "left running: ", "loops ", "longest pause: ", "clock jumps: ", "hint: "]
            .iter()
            .any(|key| line.starts_with(key))
    });
    let restored: String = restored.map(|line| format!("{line}\n")).collect();
    Ok(format!("detached from {} ({})\n{restored}", jvm.pid, jvm.program()))
}

/// The agent in a JVM, if its port is in this network namespace.
fn agent_in(jvm: &Jvm, addresses: Vec<SocketAddr>, token: Option<&Token>) -> Option<Agent> {
    let tokens = token.map_or_else(|| jvm.control_tokens(), |token| Ok(vec![token.clone()]));
    jvm.shares("net").then_some(Agent { addresses, tokens, pid: None })
}

/// The JVMs of this user, or for root all JVMs: one a line, or as a line of JSON.
pub(super) fn list(as_json: bool) -> String {
    let jvms = Jvm::all().into_iter().map(|jvm| {
        let (agent, port) = match jvm.agent_state() {
            AgentState::None => (None, None),
            AgentState::Idle => (Some("detached"), None),
            AgentState::Ending { port } => (Some("ending"), Some(port)),
            AgentState::Beginning => (Some("beginning"), None),
            AgentState::Attached { port } => (Some("attached"), port),
        };
        (jvm.pid, agent, port, jvm.program())
    });
    if as_json {
        let jvms = jvms.map(|(pid, agent, port, program)| {
            json!({ "pid": pid, "agent": agent, "port": port, "program": program })
        });
        return format!("{}\n", json!({ "jvms": jvms.collect::<Vec<_>>() }));
    }
    let mut rows = vec![["PID", "AGENT", "PORT", "PROGRAM"].map(str::to_owned)];
    rows.extend(jvms.map(|(pid, agent, port, program)| {
        let port = port.map_or_else(|| "-".to_owned(), |port| port.to_string());
        [pid.to_string(), agent.unwrap_or("-").to_owned(), port, program]
    }));
    rows.iter()
        .map(|[pid, agent, port, program]| format!("{pid:>7}  {agent:<9}  {port:>5}  {program}\n"))
        .collect()
}

/// A JVM's log folder, as this process can reach it.
pub(super) fn logs_from_here(attached: &Attached) -> PathBuf {
    attached.jvm.seen_from_here(Path::new(&attached.logs))
}
