//! Finds the agent that a command is for: its addresses and its token.
//!
//! The token is in the run's folder, and among the JVM's open files.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::thread;

use log_format::run::Run;

use super::connection::Connection;
use super::failure::{Failure, failed};
use super::jvm::{AgentState, ENDING, Jvm};
use super::time_limit::{FILES, bounded};
use crate::control::token::Token;
use crate::options::DEFAULT_PORT;

/// How the user names an agent.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// `HOST:PORT`.
    Address(String),
    Pid(u32),
    /// A run's folder.
    Run(PathBuf),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => f.write_str(address),
            Self::Pid(pid) => pid.fmt(f),
            Self::Run(folder) => folder.display().fmt(f),
        }
    }
}

/// Where an agent may be reached, and the tokens it may know.
pub(super) struct Agent {
    pub addresses: Vec<SocketAddr>,
    /// The agent knows one of these; or the reason why none was found.
    pub tokens: Result<Vec<Token>, Failure>,
    /// The process id that it must have.
    pub pid: Option<u32>,
}

impl Target {
    /// The only agent that this user can see, or else whatever has the default port.
    ///
    /// # Errors
    /// There are several.
    pub(super) fn only() -> Result<Self, Failure> {
        let jvms: Vec<Jvm> = Jvm::all().into_iter().filter(|jvm| jvm.shares("net")).collect();
        let mut agents: Vec<(&Jvm, Option<u16>)> = Vec::new();
        for jvm in &jvms {
            match jvm.agent_state() {
                AgentState::Attached { port: Some(port) } => agents.push((jvm, Some(port))),
                // Its port is not known yet, but it may be meant.
                AgentState::Beginning => agents.push((jvm, None)),
                _ => {}
            }
        }
        match &*agents {
            all if all.iter().all(|(_, port)| port.is_none()) => {
                match jvms.iter().find(|jvm| matches!(jvm.agent_state(), AgentState::Ending { .. }))
                {
                    Some(jvm) => Err(failed(jvm.pid)(ENDING)),
                    None => Ok(Self::Address(default_address())),
                }
            }
            [(jvm, _)] => Ok(Self::Pid(jvm.pid)),
            several => {
                let named = several.iter().take(NAMED);
                let named: Vec<String> = named
                    .map(|(jvm, port)| {
                        let port =
                            port.map_or("starting".to_owned(), |port| format!("port {port}"));
                        format!("{} ({}, {port})", jvm.pid, jvm.program())
                    })
                    .collect();
                let more = if several.len() > NAMED { ", ..." } else { "" };
                Err(format!(
                    "{} JVMs have an agent; say which with --pid: {}{more}",
                    several.len(),
                    named.join(", ")
                )
                .into())
            }
        }
    }

    /// Finds the agent. A `token` that the user gives replaces the search for one.
    ///
    /// # Errors
    /// There is no agent, or it cannot be reached.
    pub(super) fn find(&self, token: Option<&Token>) -> Result<Agent, Failure> {
        let given = token.map(|token| vec![token.clone()]);
        let mut expected = None;
        let (addresses, found) = match self {
            Self::Address(address) => {
                let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
                if given.is_some() { (addresses, Ok(Vec::new())) } else { of_address(addresses)? }
            }
            Self::Pid(pid) => {
                let jvm = Jvm::find(*pid)?;
                let port = match jvm.agent_state() {
                    AgentState::Attached { port } => port.ok_or("the agent has no control port")?,
                    AgentState::Beginning => {
                        return Err("the agent is being attached; try again".into());
                    }
                    AgentState::Ending { .. } => return Err(ENDING.into()),
                    AgentState::None | AgentState::Idle => {
                        return Err("the agent is not attached to it".into());
                    }
                };
                if !jvm.shares("net") {
                    return Err(format!(
                        "the JVM has its own network namespace; run tprofiler in it: nsenter -t \
                         {pid} -n tprofiler"
                    )
                    .into());
                }
                let tokens = jvm.control_tokens();
                // Its files are closed before it is gone.
                if tokens.is_err() && !jvm.is_alive() {
                    return Err("the JVM has ended".into());
                }
                if tokens.is_err() && jvm.is_ending_with(port) {
                    return Err(ENDING.into());
                }
                (loopback(port), tokens)
            }
            Self::Run(folder) => {
                let path = folder.clone();
                let read = move || (Run::read(&path), Token::read_of_run(&path));
                let (run, token) = bounded("the run's folder", FILES, read)?;
                let run = run?;
                expected = Some(run.pid);
                let port = run.port.ok_or("this run has no control port")?;
                let bind = run.options.get("bind").and_then(|bind| bind.parse().ok());
                let bind = reachable(bind.unwrap_or(Ipv4Addr::LOCALHOST.into()));
                (
                    vec![SocketAddr::new(bind, port)],
                    token.map(|token| vec![token]).map_err(Failure::from),
                )
            }
        };
        Ok(Agent { addresses, tokens: given.map_or(found, Ok), pid: expected })
    }
}

impl Agent {
    /// Connects to the agent and checks its proof that it knows the token. If no token was found, only connects, and
    /// returns the reason.
    ///
    /// # Errors
    /// The connection fails, or the proof is wrong.
    pub(super) fn connect(&self) -> Result<(Connection, Option<&Failure>), Failure> {
        let mut failed = None;
        for address in &self.addresses {
            let connected = match &self.tokens {
                Ok(tokens) => Connection::open_known(*address, tokens).map(|known| (known, None)),
                Err(why) => Connection::open(*address).map(|unknown| (unknown, Some(why))),
            };
            match connected {
                Ok(connected) => return Ok(connected),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(failed.unwrap_or_else(|| "no such address".into()))
    }

    /// Does the same, but fails if no token was found.
    ///
    /// # Errors
    /// Why there is no token, the connection fails, or the proof is wrong.
    pub(super) fn connect_known(&self) -> Result<Connection, Failure> {
        match self.connect()? {
            (connection, None) => Ok(connection),
            // The kernel accepts connections for a process that ends.
            (connection, Some(_)) if connection.is_closed() => {
                Err("the JVM is ending, or another program closes the connection".into())
            }
            (_, Some(why)) => Err(format!("token needed: {why}").into()),
        }
    }
}

/// The address at which an agent listens by default.
pub(super) fn default_address() -> String {
    format!("127.0.0.1:{DEFAULT_PORT}")
}

/// Agents that an error names.
const NAMED: usize = 8;

/// The loopback addresses with this port.
pub(super) fn loopback(port: u16) -> Vec<SocketAddr> {
    let addresses: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    addresses.map(|address| SocketAddr::new(address, port)).into()
}

/// The address at which to reach an agent of this machine that listens on `bind`.
pub(super) fn reachable(bind: IpAddr) -> IpAddr {
    match bind {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

/// What can be found out about the agent at an address: its tokens, or why there are none.
type Found = (Vec<SocketAddr>, Result<Vec<Token>, Failure>);

/// The addresses, and the tokens of the JVMs whose agent has this control port.
///
/// # Errors
/// The JVM with this port is ending.
fn of_address(addresses: Vec<SocketAddr>) -> Result<Found, Failure> {
    let Some(port) = addresses.iter().find(|at| at.ip().is_loopback()).map(SocketAddr::port) else {
        let why = "not a loopback address; give the token with --token-file FILE";
        return Ok((addresses, Err(why.into())));
    };
    let jvms: Vec<Jvm> = Jvm::all().into_iter().filter(|jvm| jvm.shares("net")).collect();
    let tokens = tokens_of(&jvms, port);
    match jvms.iter().find(|jvm| tokens.is_err() && jvm.is_ending_with(port)) {
        Some(jvm) => Err(failed(jvm.pid)(ENDING)),
        None => Ok((addresses, tokens)),
    }
}

/// The tokens of the JVMs whose agent has this control port. There can be several, on different
/// addresses; the agent's proof shows which one is right.
fn tokens_of(jvms: &[Jvm], port: u16) -> Result<Vec<Token>, Failure> {
    let mut tokens = Vec::new();
    let mut why = Failure::from(
        "no JVM that this user may look into has this control port; run tprofiler as the JVM's user \
         or root, or give --token-file FILE, or --no-token where port_access=open allows the command",
    );
    let jvms: Vec<&Jvm> = jvms.iter().filter(|jvm| jvm.has_control_port(port)).collect();
    // In parallel: one that does not answer does not hold up the others.
    thread::scope(|scope| {
        let ask = |jvm| (jvm, scope.spawn(move || Jvm::control_tokens(jvm)));
        for (jvm, asked) in jvms.into_iter().map(ask).collect::<Vec<_>>() {
            match asked.join() {
                Ok(Ok(found)) => tokens.extend(found),
                Ok(Err(error)) => why = failed(jvm.pid)(error),
                Err(_) => why = failed(jvm.pid)("internal error"),
            }
        }
    });
    if tokens.is_empty() { Err(why) } else { Ok(tokens) }
}
