//! A Java program whose agent has a control port, for tests of who may do what over it.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::classes::classes;
use crate::control::Control;
use crate::jdk::Jdk;
use crate::profile::Profile;
use crate::run::{Java, Running, free_port, wait_until};

/// The answer to a client without the token.
pub const TOKEN_NEEDED: &str = "error: token needed\n";

/// A program under the agent with a control port.
#[derive(Debug)]
pub struct Service {
    /// `programs.Busy`.
    pub program: Running,
    /// The control port.
    pub port: u16,
    /// Has the folder `logs`.
    pub folder: TempDir,
}

impl Service {
    /// Starts it with more options, each after a comma, on a free port.
    pub fn start(jdk: &Jdk, more: &str) -> Self {
        Self::start_as(jdk, None, free_port(), more)
    }

    /// Starts it as a user. If the port is taken, the agent takes one of the next.
    pub fn start_as(jdk: &Jdk, user: Option<u32>, port: u16, more: &str) -> Self {
        // Shown if the test fails.
        println!("{jdk} {more}");
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("a folder");
        let logs = folder.path().join("logs");
        let options = format!("include=programs,logs={},port={port}{more}", logs.display());
        let mut java = Java::new(jdk).agent(&options).main(classes(), "programs.Busy");
        if let Some(user) = user {
            java = java.user(user);
        }
        let program = java.arg("1").arg(folder.path().join("stop")).arg("9").start();
        let service = Self { program, port, folder };
        wait_until("the control port", || {
            TcpStream::connect(("127.0.0.1", service.run_port().unwrap_or(1))).is_ok()
        });
        Self { port: service.run_port().expect("a port"), ..service }
    }

    /// The port in run.json.
    fn run_port(&self) -> Option<u16> {
        let run = fs::read(self.run()?.join("run.json")).ok()?;
        let run: Value = serde_json::from_slice(&run).ok()?;
        u16::try_from(run["port"].as_u64()?).ok()
    }

    /// The run's folder, once it exists.
    pub fn run(&self) -> Option<PathBuf> {
        let logs = self.folder.path().join("logs");
        if logs.exists() { Profile::runs(&logs).pop() } else { None }
    }

    /// The file of the run's token.
    pub fn token_file(&self) -> PathBuf {
        self.run().expect("a run").join("control.token")
    }

    /// A new connection.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        stream
    }

    /// Sends bytes without the token, then closes, and reads until the agent closes.
    pub fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).expect("a connection");
        // The agent may have closed the connection before.
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Everything that only a client with the token may change.
    pub fn settings(&self) -> Vec<(String, String)> {
        let mut control = Control::connect(self.port);
        let mut all = control.ask("status");
        all.retain(|key, _| {
            ["profiling", "since", "methods muted", "overhead budget", "classes retransformed"]
                .contains(&&**key)
        });
        all.extend(control.ask("options"));
        all.extend(control.ask("mute"));
        // It exists until the first class is instrumented.
        all.remove("hint");
        all.into_iter().collect()
    }

    /// Ends the program.
    ///
    /// # Panics
    /// If it fails.
    pub fn stop(self) {
        fs::write(self.folder.path().join("stop"), "").expect("a file");
        assert_eq!(self.program.wait().status, Some(0));
    }
}
