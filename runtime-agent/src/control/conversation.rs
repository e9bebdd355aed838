//! A conversation with one client, on its own thread.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::access::Access;
use super::clients::Place;
use super::commands::{Command, Wrong};
use super::context::Context;
use super::line::{Dialect, Lines, Next};
use super::rate::{MAX_WAIT, RateLimit};
use super::token_proof::{Session, new_nonce};
use super::{answers, commands};
use crate::error::Error;
use crate::request::{Answer, Handle, Request};

/// How long a client may go on sending after the agent has hung up.
const LINGER: Duration = Duration::from_secs(1);
/// How long the answer to a wrong HMAC is delayed, to slow down guessing.
const WRONG_MAC: Duration = Duration::from_secs(1);

const TOKEN_NEEDED: &str = "error: token needed\n";

/// One client's connection.
pub(super) struct Conversation<'c> {
    pub stream: &'c TcpStream,
    pub place: &'c Place,
    pub agent: Handle,
    pub context: &'c Context,
    /// The client's address is a loopback address.
    pub is_loopback: bool,
}

/// The result of a line.
struct Said {
    answer: String,
    goes_on: bool,
    /// How long to delay the answer.
    after: Duration,
}

impl Said {
    fn and_goes_on(answer: String) -> Self {
        Self { answer, goes_on: true, after: Duration::ZERO }
    }

    fn and_ends(answer: impl Into<String>) -> Self {
        Self { answer: answer.into(), goes_on: false, after: Duration::ZERO }
    }
}

impl Conversation<'_> {
    /// Answers a client until it leaves, is silent for too long, sends a line that is forbidden or no command, or has
    /// to make room for another client.
    pub(super) fn hold(&self) -> io::Result<()> {
        let mut stream = self.stream;
        let mut lines = Lines::new(stream);
        let mut session = None;
        loop {
            let said = match lines.next()? {
                Next::End => return Ok(()),
                Next::TooLong => Said::and_ends("error: line too long\n"),
                Next::Line(line, dialect) => self.hear(&line, dialect, &mut session),
            };
            if !said.after.is_zero() && !self.place.wait(said.after) {
                return Ok(());
            }
            stream.write_all(said.answer.as_bytes())?;
            if !said.goes_on {
                hang_up(stream);
                return Ok(());
            }
        }
    }

    fn hear(&self, line: &str, dialect: Dialect, session: &mut Option<Session>) -> Said {
        match (dialect, session) {
            (Dialect::Lines, Some(session)) => self.hear_known(line, session),
            (Dialect::Lines, session) => match line.strip_prefix("auth ") {
                Some(nonce) => self.challenge(nonce, session),
                None => self.hear_unauthenticated(line),
            },
            (Dialect::TProfiler, None) if self.access() == Access::Switch => {
                let said = self
                    .in_turn(&self.context.unauthenticated_turns, || self.answer_tprofiler(line));
                Said { answer: said.answer.replace('\n', "\r"), ..said }
            }
            (Dialect::TProfiler, _) => Said::and_ends("error: token needed, or port_access=open\r"),
        }
    }

    /// What this client may do without the token.
    fn access(&self) -> Access {
        if self.is_loopback { self.context.access } else { Access::Nothing }
    }

    fn challenge(&self, client_nonce: &str, session: &mut Option<Session>) -> Said {
        let new = |nonce: String| Session::new(&self.context.token, client_nonce, &nonce);
        match new_nonce().map(new) {
            Ok(Some(new)) => Said::and_goes_on(session.insert(new).challenge()),
            Ok(None) => Said::and_ends("error: auth needs a nonce of 64 hexadecimal digits\n"),
            Err(error) => Said::and_ends(format!("error: {error}\n")),
        }
    }

    /// Handles a line of a client that knows the token. After `auth`, every line needs an HMAC.
    fn hear_known(&self, line: &str, session: &mut Session) -> Said {
        let Some(command) = session.command(line) else {
            return Said { after: WRONG_MAC, ..Said::and_ends("error: wrong MAC\n") };
        };
        let said = if self.place.become_known() {
            self.in_turn(&self.context.known_turns, || self.answer(command, Access::Everything))
        } else {
            Said::and_ends("error: too many clients\n")
        };
        Said { answer: session.answer(&said.answer), ..said }
    }

    fn hear_unauthenticated(&self, line: &str) -> Said {
        match self.access() {
            Access::Nothing => Said::and_ends(TOKEN_NEEDED),
            access => {
                self.in_turn(&self.context.unauthenticated_turns, || self.answer(line, access))
            }
        }
    }

    /// Waits for the client's turn, then runs `answer`. Refuses if the wait is too long.
    fn in_turn(&self, turns: &RateLimit, answer: impl FnOnce() -> Said) -> Said {
        match turns.take() {
            Some(wait) if self.place.wait(wait) => answer(),
            Some(_) => Said::and_ends(""),
            None => {
                let most = turns.per_second();
                let error = format!("error: too many commands; at most {most} a second\n");
                Said { after: MAX_WAIT, ..Said::and_ends(error) }
            }
        }
    }

    fn answer(&self, line: &str, access: Access) -> Said {
        let command = match commands::parse(line) {
            Err(error @ Wrong::Command) => return Said::and_ends(format!("error: {error}\n")),
            Err(Wrong::Value(error)) if access == Access::Everything => {
                return Said::and_goes_on(format!("error: {error}\n"));
            }
            Ok(command) if access.allows(&command) => command,
            Ok(_) | Err(Wrong::Value(_)) => return Said::and_ends(TOKEN_NEEDED),
        };
        let Command { request, shows, is_json } = command;
        let Some(request) = request else {
            return Said::and_goes_on(format!("{}ok\n", commands::HELP));
        };
        Said::and_goes_on(match self.ask(request, access) {
            Ok(reply) => {
                let answer = answers::answer(&reply, shows, access, &self.context.options);
                if is_json { answer.json() } else { answer.text() }
            }
            Err(error) => format!("error: {error}\n"),
        })
    }

    fn ask(&self, request: Request, access: Access) -> Answer {
        let Context { recent_status: recent, unauthenticated_switches: switches, .. } =
            self.context;
        let waits_for_disk = matches!(request, Request::Start | Request::Stop | Request::Flush);
        if access < Access::Everything
            && waits_for_disk
            && !switches.take().is_some_and(|wait| self.place.wait(wait))
        {
            return Err(Error::TooManyCommands(switches.per_second()));
        }
        let answer = match request {
            Request::Status if access < Access::Everything => {
                recent.get(|| self.agent.ask(Request::Status))
            }
            Request::Status => self.agent.ask(Request::Status),
            // The next status shows what this command changed.
            request => recent.forget_after(|| self.agent.ask(request)),
        };
        // The reason may name a path.
        let hidden = |error| match access {
            Access::Everything => error,
            _ => Error::State("failed; the reason is shown only to clients with the token"),
        };
        answer.map_err(hidden)
    }

    /// Closes the connection, as TProfiler's server did after each command; its client relies on that.
    fn answer_tprofiler(&self, word: &str) -> Said {
        let answer =
            match commands::of_tprofiler(word).map(|request| self.ask(request, Access::Switch)) {
                Some(Ok(reply)) if reply.status.recording.is_on => "running\n".to_owned(),
                Some(Ok(_)) => "stop\n".to_owned(),
                Some(Err(error)) => format!("error: {error}\n"),
                None => "error: unknown command\n".to_owned(),
            };
        Said::and_ends(answer)
    }
}

/// Ends a connection so that its last answer arrives: closing it with bytes unread would reset it, and the client
/// would lose what it has not read yet.
fn hang_up(mut stream: &TcpStream) {
    let deadline = Instant::now() + LINGER;
    let is_closing =
        stream.shutdown(Shutdown::Write).and_then(|()| stream.set_read_timeout(Some(LINGER)));
    let mut unread = [0; 512];
    while is_closing.is_ok()
        && Instant::now() < deadline
        && stream.read(&mut unread).is_ok_and(|count| count > 0)
    {}
}
