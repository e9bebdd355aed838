//! Other programs between an agent and its clients: one that took the agent's port, and one that relays what they say.
//! None learns a token, and none can change, repeat or forge a command.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use test_classes::{
    Control, Java, NONCE, Service, at_once, classes, error_line, free_port, jdks, tprofiler,
};

/// A program that listens on an agent's port and keeps everything it receives.
struct Squatter {
    port: u16,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Squatter {
    fn new(answers: impl Fn(TcpStream, &Mutex<Vec<u8>>) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        Self::on(listener, answers)
    }

    fn on(
        listener: TcpListener,
        answers: impl Fn(TcpStream, &Mutex<Vec<u8>>) + Send + 'static,
    ) -> Self {
        let port = listener.local_addr().expect("an address").port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = heard.clone();
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                client.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
                answers(client, &hears);
            }
        });
        Self { port, heard }
    }

    fn heard(&self) -> String {
        let heard = std::mem::take(&mut *self.heard.lock().expect("a lock"));
        String::from_utf8(heard).expect("text")
    }
}

/// Reads and keeps a line; empty at the end of the connection.
fn hear(client: &mut BufReader<TcpStream>, heard: &Mutex<Vec<u8>>) -> String {
    let mut line = String::new();
    let _ = client.read_line(&mut line);
    heard.lock().expect("a lock").extend_from_slice(line.as_bytes());
    line
}

fn proof_of(nonce: &str, proof: &str) -> String {
    format!("nonce: {nonce}\nproof: {proof}\nok\n")
}

#[test]
fn a_program_that_took_the_port_first_learns_nothing() {
    at_once(jdks(), |jdk| {
        let listener = TcpListener::bind(("127.0.0.1", free_port())).expect("a port");
        let squatter = Squatter::on(listener, |client, heard| {
            let mut client = BufReader::new(client);
            while !hear(&mut client, heard).is_empty() {
                // The right form, with a wrong proof.
                let nonce = "0".repeat(64);
                let answer = proof_of(&nonce, &"1".repeat(64));
                let _ = client.get_mut().write_all(answer.as_bytes());
            }
        });
        let service = Service::start_as(jdk, None, squatter.port, "");
        assert!((squatter.port + 1..squatter.port + 16).contains(&service.port), "{jdk}");
        let token = fs::read_to_string(service.token_file()).expect("a token");
        let token = token.trim_end();
        let (file, addr) = (service.token_file().display().to_string(), squatter.port);
        // No JVM has this port, so no command is sent but `status`.
        for command in ["stop", "top", "detach", "options"] {
            let line = error_line(&tprofiler(addr, &[command]));
            assert!(line.contains("token needed: no JVM that this user may look into"), "{line}");
            assert_eq!(squatter.heard(), "", "{jdk}: {command}");
        }
        tprofiler(addr, &["status"]);
        assert_eq!(squatter.heard(), "status\n", "{jdk}");
        // With a token, only a nonce is sent.
        let mut nonces = BTreeSet::new();
        for command in ["stop", "status", "detach", "stop"] {
            let line = error_line(&tprofiler(addr, &[command, "--token-file", &file]));
            let expected = "does not know the agent's token (wrong proof); no command was sent";
            assert!(line.contains(expected), "{jdk}: {line}");
            let heard = squatter.heard();
            let nonce = heard.strip_prefix("auth ").and_then(|rest| rest.strip_suffix('\n'));
            let nonce = nonce.unwrap_or_else(|| panic!("{heard}")).to_owned();
            assert_eq!(nonce.len(), 64, "{heard}");
            assert!(!heard.contains(token) && nonces.insert(nonce), "{jdk}: {heard}");
        }
        assert_eq!(Control::connect(service.port).ask("status")["profiling"], "on");
        service.stop();
    });
}

/// An agent that is still starting shows no port yet, and may be the requested one.
#[test]
fn a_jvm_that_starts_elsewhere_has_nothing_to_do_with_a_port() {
    at_once(jdks(), |jdk| {
        let listener = TcpListener::bind(("127.0.0.1", free_port())).expect("a port");
        let squatter = Squatter::on(listener, |client, heard| {
            hear(&mut BufReader::new(client), heard);
        });
        for _ in 0..3 {
            let logs = tempfile::tempdir().expect("a temporary folder");
            let options =
                format!("include=programs,logs={},port={}", logs.path().display(), free_port());
            let java = Java::new(jdk).agent(&options).main(classes(), "programs.Filtered");
            let mut starting = java.start();
            while starting.is_running() {
                let line = error_line(&tprofiler(squatter.port, &["stop"]));
                assert!(line.contains("token needed: no JVM that this user may look"), "{line}");
            }
            assert_eq!(starting.wait().status, Some(0), "{jdk}");
        }
        assert_eq!(squatter.heard(), "", "{jdk}");
    });
}

/// How a relay changes a line or an answer.
type Change = fn(String) -> String;

/// Relays lines and answers between a client and the agent at `port`.
fn relay(client: TcpStream, heard: &Mutex<Vec<u8>>, port: u16, line: Change, answer: Change) {
    let mut client = BufReader::new(client);
    let agent = TcpStream::connect(("127.0.0.1", port)).expect("the agent");
    agent.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let mut agent = BufReader::new(agent);
    loop {
        let said = hear(&mut client, heard);
        if said.is_empty() {
            return;
        }
        agent.get_mut().write_all(line(said).as_bytes()).expect("the agent");
        let mut answered = String::new();
        while !answered.ends_with("ok\n") && !answered.contains("error: ") {
            if agent.read_line(&mut answered).is_ok_and(|n| n == 0) {
                break;
            }
        }
        let _ = client.get_mut().write_all(answer(answered).as_bytes());
    }
}

#[test]
fn a_relay_cannot_change_repeat_or_forge_anything() {
    at_once(jdks(), |jdk| {
        let service = Service::start(jdk, "");
        let port = service.port;
        let file = service.token_file().display().to_string();
        let token = fs::read_to_string(service.token_file()).expect("a token");
        let through = |line: Change, answer: Change, command: &str| {
            let squatter =
                Squatter::new(move |client, heard| relay(client, heard, port, line, answer));
            let output = tprofiler(squatter.port, &[command, "--token-file", &file]);
            let heard = squatter.heard();
            assert!(!heard.contains(token.trim_end()), "{jdk}: {heard}");
            (output, heard)
        };
        let same: Change = |text| text;
        let profiling = || Control::connect(port).ask("status")["profiling"].clone();

        // An unchanged command arrives.
        let (output, heard) = through(same, same, "stop");
        assert!(output.status.success(), "{jdk}: {output:?}");
        assert_eq!(profiling(), "off", "{jdk}");
        let lines: Vec<&str> = heard.split_inclusive('\n').collect();
        // The first command is the client's proof, and changes nothing.
        let [_, proof, stop] = *lines else { panic!("{jdk}: {heard}") };
        assert!(proof.starts_with("mac ") && proof.ends_with(" help\n"), "{jdk}: {heard}");
        assert!(stop.starts_with("mac ") && stop.ends_with(" stop\n"), "{jdk}: {heard}");
        Control::connect(port).ask("start");

        // The same lines on a new connection are refused.
        for again in [heard.clone(), stop.to_owned(), format!("auth {NONCE}\n{proof}{stop}")] {
            let answer = service.say(again.as_bytes());
            let refused = ["error: wrong MAC\n", "error: unknown command; try help\n"];
            assert!(refused.iter().any(|refused| answer.ends_with(refused)), "{jdk}: {answer}");
        }
        // A changed, repeated or reordered command is refused.
        let changes: [Change; 3] = [
            |line| line.replace(" start\n", " detach\n"),
            |line| line.replace("mac ", "mac 0"),
            |line| line.replace(" start\n", "  start\n"),
        ];
        for change in changes {
            let line = error_line(&through(change, same, "start").0);
            assert!(line.contains("wrong MAC"), "{jdk}: {line}");
        }
        let mut control = Control::connect(port);
        let (first, second) = (control.line(1, "flush"), control.line(2, "flush"));
        assert!(control.send(&first).ends_with("ok\n"), "{jdk}");
        assert_eq!(control.send(&first), "error: wrong MAC\n", "{jdk}: repeated");
        assert_eq!(control.rest(), "", "{jdk}");
        let mut control = Control::connect(port);
        assert_eq!(control.send(&second), "error: wrong MAC\n", "{jdk}: of another connection");
        let mut control = Control::connect(port);
        let second = control.line(2, "flush");
        assert_eq!(control.send(&second), "error: wrong MAC\n", "{jdk}: one was skipped");

        // The client rejects a changed answer.
        for (change, expected) in [
            ((|answer| answer.replace("profiling: on", "profiling: off")) as Change, "was changed"),
            (|answer| answer.replace("mac: ", "x: "), "was changed"),
            (|answer| answer.replace("proof: ", "proof: 0"), "does not know the agent's token"),
        ] {
            let line = error_line(&through(same, change, "start").0);
            assert!(line.contains(expected), "{jdk}: {line}");
        }
        assert_eq!(profiling(), "on", "{jdk}");
        service.stop();
    });
}
