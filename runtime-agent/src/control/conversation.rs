//! A conversation with one client, on its own thread.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::commands::{Command, Wrong};
use super::line::{Dialect, Lines, Next};
use super::{Context, Place, answers, commands};
use crate::engine::Handle;

/// How long a client that is hung up on may go on sending.
const LINGER: Duration = Duration::from_secs(1);
/// How long a client waits that did not know the token, so that guessing takes long.
const WRONG_TOKEN: Duration = Duration::from_secs(1);

/// A client, and what its answers come from.
pub(super) struct Conversation<'c> {
    pub stream: &'c TcpStream,
    pub engine: Handle,
    pub context: &'c Context,
}

/// What comes of a line.
struct Said {
    answer: String,
    goes_on: bool,
    /// The token was wrong, or none was given.
    is_stranger: bool,
}

impl Said {
    fn and_goes_on(answer: String) -> Self {
        Self { answer, goes_on: true, is_stranger: false }
    }

    fn and_ends(answer: impl Into<String>) -> Self {
        Self { answer: answer.into(), goes_on: false, is_stranger: false }
    }
}

impl Conversation<'_> {
    /// Answers a client until it goes, is silent for too long, or says what is not understood.
    /// `make_room` gives its place to others when it has to wait for nothing.
    pub(super) fn hold(&self, make_room: impl FnOnce() -> Place) -> io::Result<()> {
        let mut stream = self.stream;
        let mut lines = Lines::new(stream);
        let mut is_known = self.context.token.is_none();
        let mut is_first = true;
        loop {
            let said = match lines.next()? {
                Next::End => return Ok(()),
                Next::TooLong => Said::and_ends("error: line too long\n"),
                Next::Line(line, dialect) => match line.strip_prefix("token ") {
                    Some(token) if is_first => self.hear_token(token.trim(), &mut is_known),
                    _ if is_known => self.hear(&line, dialect),
                    _ => Said { is_stranger: true, ..Said::and_ends("error: token needed\n") },
                },
            };
            is_first = false;
            if said.is_stranger {
                let _place = make_room();
                thread::sleep(WRONG_TOKEN);
                stream.write_all(said.answer.as_bytes())?;
                hang_up(stream);
                return Ok(());
            }
            stream.write_all(said.answer.as_bytes())?;
            if !said.goes_on {
                hang_up(stream);
                return Ok(());
            }
        }
    }

    fn hear_token(&self, token: &str, is_known: &mut bool) -> Said {
        // Where none is needed, any is good.
        *is_known = self.context.token.as_ref().is_none_or(|right| right.is(token));
        if *is_known {
            return Said::and_goes_on("ok\n".to_owned());
        }
        Said { is_stranger: true, ..Said::and_ends("error: wrong token\n") }
    }

    fn hear(&self, line: &str, dialect: Dialect) -> Said {
        match dialect {
            Dialect::Lines => self.answer(line),
            // TProfiler's server hung up after each command, and its client relies on it.
            Dialect::TProfiler => Said::and_ends(self.tprofiler_answer(line)),
        }
    }

    fn answer(&self, line: &str) -> Said {
        let Command { request, shows, is_json } = match commands::parse(line) {
            Ok(command) => command,
            Err(Wrong::Command) => {
                return Said::and_ends("error: unknown command; try help\n");
            }
            Err(Wrong::Value(error)) => return Said::and_goes_on(format!("error: {error}\n")),
        };
        let Some(request) = request else {
            return Said::and_goes_on(format!("{}ok\n", commands::HELP));
        };
        Said::and_goes_on(match self.engine.ask(request) {
            Ok(reply) => {
                let answer = answers::answer(&reply, shows, &self.context.options);
                if is_json { answer.json() } else { answer.text() }
            }
            Err(error) => format!("error: {error}\n"),
        })
    }

    fn tprofiler_answer(&self, word: &str) -> String {
        match commands::of_tprofiler(word).map(|request| self.engine.ask(request)) {
            Some(Ok(reply)) if reply.status.is_recording => "running\r".to_owned(),
            Some(Ok(_)) => "stop\r".to_owned(),
            Some(Err(error)) => format!("error: {error}\r"),
            None => "error: unknown command\r".to_owned(),
        }
    }
}

/// Ends a connection so that its last answer arrives: to close it with bytes unread would reset it,
/// and the client would lose what it has not read either.
pub(super) fn hang_up(mut stream: &TcpStream) {
    let deadline = Instant::now() + LINGER;
    let is_closing =
        stream.shutdown(Shutdown::Write).and_then(|()| stream.set_read_timeout(Some(LINGER)));
    let mut unread = [0; 512];
    while is_closing.is_ok()
        && Instant::now() < deadline
        && stream.read(&mut unread).is_ok_and(|count| count > 0)
    {}
}
