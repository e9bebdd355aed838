//! Talks to an agent's control port: through `tprofiler`, and with an independent implementation of the protocol in
//! docs/control.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

use crate::artifacts::artifacts;
use crate::run::wait_until;

/// Runs `tprofiler` for the agent that listens on a port.
pub fn tprofiler(port: u16, arguments: &[&str]) -> Output {
    let mut command = Command::new(&artifacts().tprofiler);
    command.args(arguments).args(["--addr", &format!("127.0.0.1:{port}")]);
    command.output().expect("tprofiler runs")
}

/// The agent's answer to `tprofiler`, as JSON.
///
/// # Panics
/// If it refuses.
pub fn tprofiler_json(port: u16, arguments: &[&str]) -> Value {
    let output = tprofiler(port, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The output of `tprofiler` for these arguments alone.
///
/// # Panics
/// If it fails.
pub fn tprofiler_text(arguments: &[&str]) -> String {
    let output = Command::new(&artifacts().tprofiler).args(arguments).output();
    let output = output.expect("tprofiler runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The stderr of a command, without the line that says what an `attach` or `detach` of over a second waits for.
pub fn without_notice(stderr: &[u8]) -> String {
    let stderr = String::from_utf8_lossy(stderr);
    let lines = stderr.lines().filter(|line| !line.starts_with("tprofiler: waiting until "));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The single line on stderr of a failed command.
///
/// # Panics
/// If it succeeded, or printed something else.
pub fn error_line(output: &Output) -> String {
    let stderr = without_notice(&output.stderr);
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

/// The value of a line of an answer.
///
/// # Panics
/// If there is no such line.
pub fn field<'t>(text: &'t str, key: &str) -> &'t str {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("{key} in {text}"))
}

/// The tokens of all agents on this machine, as far as this user can read them.
fn tokens() -> BTreeSet<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let files = processes.flat_map(|process| {
        fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten()
    });
    let tokens = files.filter(|file| {
        fs::read_link(file.path()).is_ok_and(|link| {
            let link = link.as_os_str().as_bytes();
            link.strip_suffix(b" (deleted)").unwrap_or(link).ends_with(b"/control.token")
        })
    });
    let text = tokens.filter_map(|file| fs::read_to_string(file.path()).ok());
    text.filter_map(|text| Some(text.lines().next()?.to_owned())).collect()
}

/// The HMAC of texts, each preceded by its length.
pub fn mac(token: &str, texts: &[&str]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("a key");
    for text in texts {
        mac.update(&u32::try_from(text.len()).expect("short").to_be_bytes());
        mac.update(text.as_bytes());
    }
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The client nonce of the tests. It need not be random, because the agent's is.
pub const NONCE: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// A connection on which the agent has proved that it knows the token.
#[derive(Debug)]
pub struct Control {
    reader: BufReader<TcpStream>,
    token: String,
    agent_nonce: String,
    number: u64,
}

impl Control {
    /// Connects as soon as the agent listens, and finds its token.
    ///
    /// # Panics
    /// If its token is not found, or the agent does not know it.
    pub fn connect(port: u16) -> Self {
        Self::find(port, &tokens)
    }

    /// Connects with a given token.
    ///
    /// # Panics
    /// If the agent does not know it.
    pub fn with_token(port: u16, token: &str) -> Self {
        Self::find(port, &|| BTreeSet::from([token.to_owned()]))
    }

    fn find(port: u16, tokens: &dyn Fn() -> BTreeSet<String>) -> Self {
        let mut control = None;
        // Also after it listens: with many other clients, the agent may close the connection early.
        wait_until("the control port", || {
            let stream = TcpStream::connect(("127.0.0.1", port)).ok();
            control = stream.and_then(|stream| Self::authenticate(stream, &tokens()));
            control.is_some()
        });
        control.expect("connected")
    }

    /// Authenticates on an open connection with one of several tokens.
    ///
    /// # Panics
    /// If the agent knows none of them.
    pub fn over(stream: TcpStream, tokens: &BTreeSet<String>) -> Self {
        Self::authenticate(stream, tokens).expect("an answer")
    }

    /// Returns `None` if the connection ends without an answer.
    fn authenticate(stream: TcpStream, tokens: &BTreeSet<String>) -> Option<Self> {
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        let mut reader = BufReader::new(stream);
        let answer = exchange(&mut reader, &format!("auth {NONCE}\n"));
        if answer.is_empty() {
            return None;
        }
        let field = |key| answer.lines().find_map(|line| line.strip_prefix(key));
        let (Some(agent_nonce), Some(proof)) = (field("nonce: "), field("proof: ")) else {
            panic!("no proof: {answer}");
        };
        let is_agents =
            |token: &&String| mac(token, &["tprofiler 1 agent", NONCE, agent_nonce]) == proof;
        let token = tokens.iter().find(is_agents).expect("the agent's token").clone();
        let agent_nonce = agent_nonce.to_owned();
        Some(Self { reader, token, agent_nonce, number: 0 })
    }

    /// The line that sends the command with this number, counted from 1.
    pub fn line(&self, number: u64, command: &str) -> String {
        let number = number.to_string();
        let texts = ["tprofiler 1 command", NONCE, &self.agent_nonce, &number, command];
        format!("mac {} {command}\n", mac(&self.token, &texts))
    }

    /// Sends a raw line and returns the raw answer.
    pub fn send(&mut self, line: &str) -> String {
        exchange(&mut self.reader, line)
    }

    /// The agent's answer to a command, with its last line.
    ///
    /// # Panics
    /// If its HMAC is wrong.
    pub fn answer(&mut self, command: &str) -> String {
        self.number += 1;
        let line = self.line(self.number, command);
        let answer = self.send(&line);
        let (given, signed) = answer.split_once('\n').unwrap_or_default();
        let number = self.number.to_string();
        let texts = ["tprofiler 1 answer", NONCE, &self.agent_nonce, &number, signed];
        assert_eq!(given, format!("mac: {}", mac(&self.token, &texts)), "{command}: {answer}");
        signed.to_owned()
    }

    /// The lines of an answer, without the last, which must be `ok`.
    ///
    /// # Panics
    /// If it is not.
    pub fn ask(&mut self, command: &str) -> BTreeMap<String, String> {
        let answer = self.answer(command);
        let lines = answer.strip_suffix("ok\n").unwrap_or_else(|| panic!("{command}: {answer}"));
        let pair = |line: &str| {
            let (key, value) = line.split_once(": ").unwrap_or_else(|| panic!("{line}"));
            (key.to_owned(), value.to_owned())
        };
        lines.lines().map(pair).collect()
    }

    /// Calls that have ended so far.
    pub fn calls_seen(&mut self) -> u64 {
        self.ask("status")["calls seen"].parse().expect("a number")
    }

    /// Everything that the agent sends until it closes the connection.
    pub fn rest(mut self) -> String {
        let mut rest = String::new();
        // A reset is an end too.
        let _ = self.reader.read_to_string(&mut rest);
        rest
    }
}

/// Sends a line and reads an answer with its last line, or up to the end of the connection.
fn exchange(reader: &mut BufReader<TcpStream>, line: &str) -> String {
    let mut answer = String::new();
    // A closed connection has no answer.
    let _ = reader.get_mut().write_all(line.as_bytes());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return answer;
        }
        answer.push_str(&line);
        if line == "ok\n" || line.starts_with("error: ") {
            return answer;
        }
    }
}

/// A simple pseudo-random generator, so that a failure can be reproduced.
pub fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}
