//! Finds the agent that a command is for: its addresses and its token.
//!
//! The token is in the run's folder, and among the JVM's open files.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::thread;

use log_format::run::Run;

use super::bounded::{FILES, bounded};
use super::connection::Connection;
use super::jvm::{Jvm, Presence};
use crate::control::token::Token;

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
    pub tokens: Result<Vec<Token>, String>,
}

impl Target {
    /// Finds the agent. A `token` that the user gives replaces the search for one.
    ///
    /// # Errors
    /// One line: there is no agent, or it cannot be reached.
    pub(super) fn find(&self, token: Option<&Token>) -> Result<Agent, String> {
        let given = token.map(|token| vec![token.clone()]);
        let (addresses, found) = match self {
            Self::Address(address) => {
                let addresses: Vec<SocketAddr> =
                    address.to_socket_addrs().map_err(|error| error.to_string())?.collect();
                let found = if given.is_some() { Ok(Vec::new()) } else { tokens_of(&addresses) };
                (addresses, found)
            }
            Self::Pid(pid) => {
                let jvm = Jvm::find(*pid)?;
                let port = match jvm.presence() {
                    Presence::Attached { port } => port.ok_or("the agent has no control port")?,
                    Presence::Beginning => {
                        return Err("the agent is being attached; try again".to_owned());
                    }
                    Presence::None | Presence::Idle => {
                        return Err("the agent is not attached to it".to_owned());
                    }
                };
                if !jvm.shares("net") {
                    return Err(format!(
                        "the JVM has its own network namespace; run tprofiler in it: nsenter -t \
                         {pid} -n tprofiler"
                    ));
                }
                (loopback(port), jvm.control_tokens())
            }
            Self::Run(folder) => {
                let path = folder.clone();
                let read = move || (Run::read(&path), Token::read_of_run(&path));
                let (run, token) = bounded("the run's folder", FILES, read)?;
                let run = run?;
                let port = run.port.ok_or("this run has no control port")?;
                let bind = run.options.get("bind").and_then(|bind| bind.parse().ok());
                let bind = reachable(bind.unwrap_or(Ipv4Addr::LOCALHOST.into()));
                (vec![SocketAddr::new(bind, port)], token.map(|token| vec![token]))
            }
        };
        Ok(Agent { addresses, tokens: given.map_or(found, Ok) })
    }
}

impl Agent {
    /// Connects to the agent and checks its proof that it knows the token. If no token was found, only connects, and
    /// returns the reason.
    ///
    /// # Errors
    /// One line: the connection fails, or the proof is wrong.
    pub(super) fn connect(&self) -> Result<(Connection, Option<&str>), String> {
        let mut failed = None;
        for address in &self.addresses {
            let connected = match &self.tokens {
                Ok(tokens) => Connection::open_known(*address, tokens).map(|known| (known, None)),
                Err(why) => Connection::open(*address).map(|unknown| (unknown, Some(&**why))),
            };
            match connected {
                Ok(connected) => return Ok(connected),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(failed.unwrap_or_else(|| "no such address".to_owned()))
    }

    /// Does the same, but fails if no token was found.
    ///
    /// # Errors
    /// One line: why there is no token, the connection fails, or the proof is wrong.
    pub(super) fn connect_known(&self) -> Result<Connection, String> {
        match self.connect()? {
            (connection, None) => Ok(connection),
            (_, Some(why)) => Err(format!("token needed: {why}")),
        }
    }
}

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

/// The tokens of the JVMs whose agent has this control port. There can be several, on different
/// addresses; the agent's proof shows which one is right.
fn tokens_of(addresses: &[SocketAddr]) -> Result<Vec<Token>, String> {
    let Some(address) = addresses.iter().find(|address| address.ip().is_loopback()) else {
        return Err("not a loopback address; give the token with --token-file FILE".to_owned());
    };
    let mut tokens = Vec::new();
    let mut why =
        "no JVM that this user may look into has this control port; run tprofiler as the JVM's user \
         or root, or give --token-file FILE, or --no-token where port_access=open allows the command"
            .to_owned();
    let jvms = Jvm::all().into_iter();
    let jvms: Vec<Jvm> =
        jvms.filter(|jvm| jvm.shares("net") && jvm.has_control_port(address.port())).collect();
    // In parallel: one that does not answer does not hold up the others.
    thread::scope(|scope| {
        let ask = |jvm| (jvm, scope.spawn(move || Jvm::control_tokens(jvm)));
        for (jvm, asked) in jvms.iter().map(ask).collect::<Vec<_>>() {
            match asked.join() {
                Ok(Ok(found)) => tokens.extend(found),
                Ok(Err(error)) => why = format!("{}: {error}", jvm.pid),
                Err(_) => why = format!("{}: internal error", jvm.pid),
            }
        }
    });
    if tokens.is_empty() { Err(why) } else { Ok(tokens) }
}
