//! A connection to a control port: the client's side of `control::session`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::failure::Failure;
use crate::control::token::Token;
use crate::control::token_proof::{Session, new_nonce};
use log_format::writer::is_unprintable;

const CONNECT: Duration = Duration::from_secs(5);
/// Longer than the agent takes to answer.
const ANSWER: Duration = Duration::from_secs(15);
/// Longer than the agent takes to retransform classes.
const RETRANSFORMED: Duration = Duration::from_secs(130);
/// Attempts until both sides have proved that they know the token.
const ATTEMPTS: usize = 3;
/// How soon a process that ends closes its connections.
const CLOSES: Duration = Duration::from_millis(200);
/// Larger than any answer.
const MAX_ANSWER: usize = 16 << 20;

/// Why there was no answer.
#[derive(Debug, Error)]
enum NoAnswer {
    /// The other end closed the connection.
    #[error("the answer ends early: the JVM is ending, or this is no agent's port")]
    Closed,
    #[error(transparent)]
    Other(#[from] Failure),
}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Self::Closed,
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                Self::Other("no answer; is this an agent's port?".into())
            }
            _ => Self::Other(error.into()),
        }
    }
}

/// A connection to an agent, or to another program that listens on its port.
pub(super) struct Connection {
    stream: TcpStream,
    /// Bytes read after the last line.
    unused: Vec<u8>,
    /// Set once the agent has proved that it knows the token.
    session: Option<Session>,
}

impl Connection {
    /// Connects, and sends nothing.
    ///
    /// # Errors
    /// Why it failed.
    pub(super) fn open(address: SocketAddr) -> Result<Self, Failure> {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => Ok(Self { stream, unused: Vec::new(), session: None }),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                Err("connection refused; tprofiler list shows JVMs and their ports".into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the other end has closed the connection. It says nothing by itself, so any bytes are an answer.
    pub(super) fn is_closed(&self) -> bool {
        let waits = self.stream.set_read_timeout(Some(CLOSES));
        match waits.and_then(|()| self.stream.peek(&mut [0])) {
            Ok(count) => count == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    /// Connects; then the agent and this side prove that they know one of these tokens. Before the agent's proof,
    /// this sends only a nonce, and nothing that changes anything.
    ///
    /// # Errors
    /// No connection, no answer, or no proof.
    pub(super) fn open_known(address: SocketAddr, tokens: &[Token]) -> Result<Self, Failure> {
        let mut attempt = 1;
        loop {
            let mut connection = Self::open(address)?;
            let proved = connection.authenticate(tokens).and_then(|()| connection.prove());
            match proved {
                Ok(()) => return Ok(connection),
                // With many other clients, the agent may have closed the connection before this side's proof arrived.
                Err(NoAnswer::Closed) if attempt < ATTEMPTS => attempt += 1,
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// Sends a first command, whose HMAC is this side's proof. From then on the agent does not close the connection
    /// in favour of other clients. So a command that changes something never has to be sent twice.
    fn prove(&mut self) -> Result<(), NoAnswer> {
        self.try_ask("help").map(drop)
    }

    fn authenticate(&mut self, tokens: &[Token]) -> Result<(), NoAnswer> {
        let nonce = new_nonce().map_err(Failure::from)?;
        let answer = self.exchange(&format!("auth {nonce}\n"), ANSWER)?;
        let field =
            |key| answer.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        let (agent_nonce, proof) = (field("nonce: "), field("proof: "));
        let sessions = tokens.iter().filter_map(|token| Session::new(token, &nonce, agent_nonce));
        let proved = sessions.into_iter().find(|session| session.is_proof(proof));
        self.session = Some(proved.ok_or_else(|| {
            let why = error_in(&answer).unwrap_or("wrong proof");
            Failure::from(format!(
                "the program on this port does not know the agent's token ({}); no command was sent",
                printable(why)
            ))
        })?);
        Ok(())
    }

    /// Sends one command and returns its answer, without the `ok`.
    ///
    /// # Errors
    /// The agent's error, or why there was no answer.
    pub(super) fn ask(&mut self, command: &str) -> Result<String, Failure> {
        Ok(self.try_ask(command)?)
    }

    fn try_ask(&mut self, command: &str) -> Result<String, NoAnswer> {
        let command = command.trim();
        let word = command.strip_prefix("json ").unwrap_or(command).split(' ').next();
        let retransforms = matches!(word, Some("detach" | "mute" | "unmute" | "overhead"));
        let patience = if retransforms { RETRANSFORMED } else { ANSWER };
        let line = match &mut self.session {
            Some(session) => session.command_line(command),
            None => format!("{command}\n"),
        };
        let answer = self.exchange(&line, patience)?;
        let answer = match &self.session {
            None => &*answer,
            Some(session) => {
                let (mac, signed) = answer.split_once('\n').unwrap_or_default();
                let is_agents =
                    mac.strip_prefix("mac: ").is_some_and(|mac| session.is_answer(signed, mac));
                match error_in(&answer) {
                    _ if is_agents => signed,
                    Some(error) => return Err(Failure::from(printable(error)).into()),
                    None => return Err(Failure::from("the answer was changed on the way").into()),
                }
            }
        };
        if let Some(error) = error_in(answer) {
            return Err(Failure::from(printable(error)).into());
        }
        let body = answer.strip_suffix("ok\n").unwrap_or(answer);
        Ok(body.lines().map(|line| printable(line) + "\n").collect())
    }

    /// Sends a line and reads an answer, including the line that ends it.
    fn exchange(&mut self, line: &str, patience: Duration) -> Result<String, NoAnswer> {
        self.stream.write_all(line.as_bytes())?;
        let deadline = Instant::now() + patience;
        let mut answer = String::new();
        loop {
            let line = self.line(deadline)?;
            answer.push_str(&line);
            if line == "ok\n" || line.starts_with("error: ") {
                return Ok(answer);
            }
            if answer.len() > MAX_ANSWER {
                let error = "the answer does not end; is this an agent's port?";
                return Err(Failure::from(error).into());
            }
        }
    }

    fn line(&mut self, deadline: Instant) -> Result<String, NoAnswer> {
        loop {
            if let Some(end) = self.unused.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unused.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.unused.len() > MAX_ANSWER {
                return Err(io::Error::from(ErrorKind::TimedOut).into());
            }
            self.stream.set_read_timeout(Some(left))?;
            let mut bytes = [0; 16 << 10];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(NoAnswer::Closed),
                Ok(count) => self.unused.extend_from_slice(bytes.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The error at the end of an answer.
fn error_in(answer: &str) -> Option<&str> {
    answer.lines().next_back()?.strip_prefix("error: ")
}

/// Removes control characters: another program's answer must not control the terminal.
fn printable(line: &str) -> String {
    line.replace(is_unprintable, "?")
}
