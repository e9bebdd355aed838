//! Talks to an agent's control port: by the command, and on a connection of its own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Output};

use serde_json::Value;

use crate::artifacts::artifacts;
use crate::run::wait_until;

/// Runs `tprofiler` for the agent that listens on a port.
pub fn tprofiler(port: u16, arguments: &[&str]) -> Output {
    let mut command = Command::new(&artifacts().tprofiler);
    command.args(arguments).args(["--addr", &format!("127.0.0.1:{port}")]);
    command.output().expect("tprofiler runs")
}

/// What the agent answers to `tprofiler`, as JSON.
///
/// # Panics
/// If it refuses.
pub fn tprofiler_json(port: u16, arguments: &[&str]) -> Value {
    let output = tprofiler(port, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A connection to the agent.
#[derive(Debug)]
pub struct Control {
    reader: BufReader<TcpStream>,
}

impl Control {
    /// Connects, as soon as the agent listens.
    pub fn connect(port: u16) -> Self {
        let mut stream = None;
        wait_until("the control port", || {
            stream = TcpStream::connect(("127.0.0.1", port)).ok();
            stream.is_some()
        });
        Self { reader: BufReader::new(stream.expect("connected")) }
    }

    /// The lines of an answer, without the last, which must be `ok`.
    ///
    /// # Panics
    /// If it is not.
    pub fn ask(&mut self, command: &str) -> BTreeMap<String, String> {
        self.reader.get_mut().write_all(format!("{command}\n").as_bytes()).expect("a connection");
        let mut answer = BTreeMap::new();
        loop {
            let mut line = String::new();
            assert!(
                self.reader.read_line(&mut line).expect("a connection") > 0,
                "{command}: hung up"
            );
            if line == "ok\n" {
                return answer;
            }
            let (key, value) = line.trim_end().split_once(": ").unwrap_or_else(|| panic!("{line}"));
            assert_ne!(key, "error", "{command}: {value}");
            answer.insert(key.to_owned(), value.to_owned());
        }
    }

    /// Calls that have ended so far.
    pub fn calls_seen(&mut self) -> u64 {
        self.ask("status")["calls seen"].parse().expect("a number")
    }
}

/// A simple generator, so that a failure can be run again.
pub fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}
