//! Access over the control port: clients without the token can only read, the JVM's user and root can do everything
//! without giving a token, and no flood or relay by others changes that.
//!
//! The tests act as other users, so they need root.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use test_classes::{
    Control, Dialogue, Java, Jdk, NONCE, Profile, Running, artifacts, classes, free_port, jdks,
    library, project, tprofiler, tprofiler_json, wait_until,
};

const ROOT: u32 = 0;
/// The user that runs the JVM, if it is another one.
const NOBODY: u32 = 65_534;
const SOMEBODY_ELSE: u32 = 65_533;

const TOKEN_NEEDED: &str = "error: token needed\n";

/// A program under the agent with a control port.
struct Service {
    program: Running,
    port: u16,
    folder: tempfile::TempDir,
}

impl Service {
    fn start(jdk: &Jdk, more: &str) -> Self {
        Self::start_as(jdk, None, free_port(), more)
    }

    fn start_as(jdk: &Jdk, user: Option<u32>, port: u16, more: &str) -> Self {
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
        let program = java.arg("1").arg(folder.path().join("stop")).start();
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

    fn run(&self) -> Option<PathBuf> {
        let logs = self.folder.path().join("logs");
        if logs.exists() { Profile::runs(&logs).pop() } else { None }
    }

    fn token_file(&self) -> PathBuf {
        self.run().expect("a run").join("control.token")
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        stream
    }

    /// Sends bytes without the token, then closes, and reads until the agent closes.
    fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).expect("a connection");
        // The agent may have closed the connection before.
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Everything that only a client with the token may change.
    fn settings(&self) -> Vec<(String, String)> {
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

    fn stop(self) {
        fs::write(self.folder.path().join("stop"), "").expect("a file");
        assert_eq!(self.program.wait().status, Some(0));
    }
}

/// Runs `tprofiler` as a user.
fn tprofiler_as(user: u32, arguments: &[&str]) -> Output {
    let mut command = Command::new(&artifacts().tprofiler);
    command.uid(user).gid(user).args(arguments);
    command.output().expect("tprofiler runs as another user; this needs root")
}

/// The single line on stderr of a failed command.
fn fails(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// All but `status` and `help`.
const COMMANDS: [&str; 16] = [
    "start",
    "stop",
    "flush",
    "threshold",
    "threshold 1h",
    "threshold **:1h",
    "top",
    "inflight",
    "mute",
    "mute **",
    "unmute **",
    "overhead",
    "overhead off",
    "options",
    "json options",
    "detach",
];

fn expect_no_names(status: &str) {
    for name in ["service", "logs", "/", "rograms", "hint", "Busy"] {
        assert!(!status.contains(name), "{name} in {status}");
    }
}

#[test]
fn without_the_token_a_client_looks_and_changes_nothing() {
    for jdk in jdks() {
        // The include is needed for its hint, and the threshold for its pattern.
        let service = Service::start(jdk, ",threshold=programs.Busy.x:1h,include=com.shop");
        let before = service.settings();
        let status = service.say(b"status\n");
        assert!(status.starts_with(&format!("pid: {}\nprofiling: on\n", service.program.pid())));
        for key in ["since: 20", "classes instrumented: ", "calls seen: ", "threshold: 1ms\nok\n"] {
            assert!(status.contains(key), "{key} in {status}");
        }
        expect_no_names(&status);
        let json = service.say(b"json status\n");
        let status: Value =
            serde_json::from_str(json.lines().next().expect("a line")).expect("JSON");
        assert_eq!(status["pid"], service.program.pid());
        assert!(status["calls_seen"].is_u64(), "{status}");
        expect_no_names(&json);
        assert!(service.say(b"help\n").ends_with("\nok\n"));
        for command in COMMANDS {
            // Later lines on the same connection are not read.
            let answer = service.say(format!("{command}\nstop\ndetach\n").as_bytes());
            assert_eq!(answer, TOKEN_NEEDED, "{jdk}: {command}");
        }
        for word in ["status", "stop", "start", "flushmethod"] {
            let answer = service.say(format!("{word}\r").as_bytes());
            assert_eq!(answer, "error: token needed, or port_access=open\r", "{jdk}: {word}");
        }
        assert_eq!(service.settings(), before, "{jdk}");

        let addr = format!("127.0.0.1:{}", service.port);
        for command in [&["stop"][..], &["detach"], &["overhead", "off"], &["mute", "**"], &["top"]]
        {
            let output = tprofiler_as(SOMEBODY_ELSE, &[command, &["--addr", &addr]].concat());
            let expected = format!(
                "tprofiler: {addr}: token needed: no JVM that this user may look into has this \
                 control port; run tprofiler as the JVM's user or root, or give --token-file FILE, or \
                 --no-token where port_access=open allows the command\n"
            );
            assert_eq!(fails(&output), expected, "{jdk}");
        }
        let output = tprofiler_as(SOMEBODY_ELSE, &["status", "--addr", &addr]);
        assert!(output.status.success(), "{jdk}: {output:?}");
        expect_no_names(&text(&output.stdout));
        assert_eq!(text(&output.stderr).lines().count(), 1, "{jdk}: {output:?}");
        assert_eq!(service.settings(), before, "{jdk}");
        service.stop();
    }
}

#[test]
fn the_owner_and_root_give_no_token_and_others_get_one_line() {
    for jdk in jdks() {
        let service = Service::start_as(jdk, Some(NOBODY), free_port(), "");
        let (pid, addr) =
            (service.program.pid().to_string(), format!("localhost:{}", service.port));
        let run = service.run().expect("a run").display().to_string();
        let targets = [["--addr", &addr], ["--pid", &pid], ["--run", &run]];
        for target in &targets {
            for (user, command) in [NOBODY, ROOT].into_iter().flat_map(|user| {
                let commands: [&[&str]; 13] = [
                    &["status"],
                    &["stop"],
                    &["start"],
                    &["flush"],
                    &["threshold"],
                    &["threshold", "programs.Busy.x:1h"],
                    &["top"],
                    &["inflight", "1"],
                    &["mute", "com.shop"],
                    &["unmute", "com.shop"],
                    &["overhead"],
                    &["overhead", "off"],
                    &["options"],
                ];
                commands.map(|command| (user, command))
            }) {
                let output = tprofiler_as(user, &[command, &target[..]].concat());
                let answer = text(&output.stdout);
                assert!(
                    output.status.success(),
                    "{jdk}: {user} {command:?} {target:?}: {output:?}"
                );
                assert!(answer.starts_with("service: programs.Busy\n"), "{jdk}: {answer}");
                assert!(output.stderr.is_empty(), "{jdk}: {output:?}");
            }
            for command in ["stop", "detach"] {
                let output = tprofiler_as(SOMEBODY_ELSE, &[&[command], &target[..]].concat());
                let line = fails(&output);
                assert!(line.starts_with(&format!("tprofiler: {}: ", target[1])), "{jdk}: {line}");
            }
        }
        // The JVM's attach mechanism refuses other users as well.
        let line = fails(&tprofiler_as(SOMEBODY_ELSE, &["detach", &pid]));
        assert!(
            line.ends_with("it is of user 65534; only that user and root may do this\n"),
            "{line}"
        );
        let file = service.token_file();
        assert_eq!(file.metadata().expect("a token").permissions().mode() & 0o7777, 0o600);
        let first = fs::read_to_string(&file).expect("a token");
        let output = tprofiler_as(NOBODY, &["detach", "--pid", &pid]);
        assert!(text(&output.stdout).contains("classes not restored: 0\n"), "{jdk}: {output:?}");
        assert!(!file.exists(), "{jdk}: the token was not deleted");
        // Each run has its own token.
        let options =
            format!("logs={},port={}", service.folder.path().join("logs").display(), service.port);
        let output = tprofiler_as(NOBODY, &["attach", &pid, &options]);
        assert!(text(&output.stdout).contains("service: programs.Busy\n"), "{jdk}: {output:?}");
        let runs = Profile::runs(&service.folder.path().join("logs"));
        let tokens: Vec<String> = runs
            .iter()
            .filter_map(|run| fs::read_to_string(run.join("control.token")).ok())
            .collect();
        assert!(tokens.len() == 1 && tokens[0] != first, "{jdk}: {tokens:?}");
        let output = tprofiler_as(NOBODY, &["detach", &pid]);
        assert!(text(&output.stdout).contains("classes not restored: 0\n"), "{jdk}: {output:?}");
        service.stop();
    }
}

#[test]
fn the_default_port_needs_no_address() {
    let jdk = jdks().first().expect("a JDK");
    // Another agent on this machine may use it for a while.
    let service = (0..60).find_map(|_| {
        let service = Service::start_as(jdk, Some(NOBODY), 50_000, "");
        if service.port == 50_000 {
            return Some(service);
        }
        service.stop();
        thread::sleep(Duration::from_secs(1));
        None
    });
    let service = service.expect("port 50000 is free");
    for user in [NOBODY, ROOT] {
        let output = tprofiler_as(user, &["stop"]);
        let expected =
            format!("service: programs.Busy\npid: {}\nprofiling: off\n", service.program.pid());
        assert_eq!(text(&output.stdout), expected, "{user}: {output:?}");
        assert!(tprofiler_as(user, &["start"]).status.success(), "{user}");
    }
    assert!(fails(&tprofiler_as(SOMEBODY_ELSE, &["stop"])).contains(": token needed: "));
    // The JVM keeps the file open when the run's folder is deleted.
    fs::remove_dir_all(service.run().expect("a run")).expect("the run");
    assert!(tprofiler_as(NOBODY, &["stop"]).status.success());
    for (arguments, message) in [
        (
            &["stop", "--pid", "1", "--addr", "127.0.0.1:1"][..],
            "--addr and --pid both name an agent",
        ),
        (&["stop", "--pid", "1", "--run", "x"], "--run and --pid both name an agent"),
        (&["list", "--pid", "1"], "--pid is for the commands that an agent answers"),
        (&["attach", "1", "--run", "x"], "--run is for the commands that an agent answers"),
    ] {
        let output = tprofiler_as(ROOT, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.starts_with(&format!("error: {message}")), "{stderr}");
    }
    service.stop();
}

/// The client in docs/control.md.
#[test]
fn the_client_in_the_documentation_works() {
    let jdk = jdks().last().expect("a JDK");
    let service = Service::start(jdk, "");
    let page = fs::read_to_string(project().join("docs/control.md")).expect("the page");
    let (_, script) = page.split_once("```python\n").expect("a script");
    let script = script.split_once("```").expect("an end").0;
    let python = |folder: &Path, commands: &[&str]| {
        let mut python = Command::new("python3");
        python.args(["-c", script]).arg(folder).args(commands).output().expect("python3 runs")
    };
    let run = service.run().expect("a run");
    let output = python(&run, &["status", "stop", "threshold **.x:1h", "json top 1", "start"]);
    assert!(output.status.success(), "{output:?}");
    let answers = text(&output.stdout);
    assert_eq!(answers.matches("\nok\n").count(), 5, "{answers}");
    assert!(
        answers.contains("\nthreshold **.x: 1h\n") && answers.contains("\"methods\":["),
        "{answers}"
    );
    let output = python(&run, &["halt", "stop"]);
    assert!(text(&output.stdout).starts_with("error: unknown command"), "{output:?}");
    assert_eq!(Control::connect(service.port).ask("status")["profiling"], "on");
    // With another token, the client does not accept it as the agent.
    let other = tempfile::tempdir().expect("a temporary folder");
    fs::copy(run.join("run.json"), other.path().join("run.json")).expect("a file");
    fs::write(other.path().join("control.token"), NONCE).expect("a file");
    let output = python(other.path(), &["stop"]);
    assert_eq!(text(&output.stderr), "another program listens on the port\n");
    service.stop();
}

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
        text(&std::mem::take(&mut *self.heard.lock().expect("a lock")))
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
    for jdk in jdks() {
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
            let line = fails(&tprofiler(addr, &[command]));
            assert!(line.contains("token needed: no JVM that this user may look into"), "{line}");
            assert_eq!(squatter.heard(), "", "{jdk}: {command}");
        }
        tprofiler(addr, &["status"]);
        assert_eq!(squatter.heard(), "status\n", "{jdk}");
        // With a token, only a nonce is sent.
        let mut nonces = BTreeSet::new();
        for command in ["stop", "status", "detach", "stop"] {
            let line = fails(&tprofiler(addr, &[command, "--token-file", &file]));
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
    }
}

/// An agent that is still starting shows no port yet, and may be the requested one.
#[test]
fn a_jvm_that_starts_elsewhere_has_nothing_to_do_with_a_port() {
    for jdk in jdks() {
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
                let line = fails(&tprofiler(squatter.port, &["stop"]));
                assert!(line.contains("token needed: no JVM that this user may look"), "{line}");
            }
            assert_eq!(starting.wait().status, Some(0), "{jdk}");
        }
        assert_eq!(squatter.heard(), "", "{jdk}");
    }
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
    for jdk in jdks() {
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
            let line = fails(&through(change, same, "start").0);
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
            let line = fails(&through(same, change, "start").0);
            assert!(line.contains(expected), "{jdk}: {line}");
        }
        assert_eq!(profiling(), "on", "{jdk}");
        service.stop();
    }
}

#[test]
fn an_open_port_allows_start_stop_status_and_flush_and_nothing_else() {
    for jdk in jdks() {
        let service = Service::start(jdk, ",port_access=open");
        let pid = service.program.pid();
        let (on, off) = (
            format!("pid: {pid}\nprofiling: on\nok\n"),
            format!("pid: {pid}\nprofiling: off\nok\n"),
        );
        assert_eq!(service.say(b"stop\nstart\nstop\n"), format!("{off}{on}{off}"), "{jdk}");
        // A switch shows in the next status.
        for (switch, expected) in [("start", &on), ("stop", &off), ("start", &on)] {
            service.say(format!("{switch}\n").as_bytes());
            let status = service.say(b"status\n");
            assert!(
                status.starts_with(expected.strip_suffix("ok\n").expect("ok")),
                "{jdk}: {status}"
            );
            expect_no_names(&status);
        }
        assert_eq!(service.say(b"flush\n"), on, "{jdk}");
        // A user who cannot read the token gets the same from `tprofiler`.
        let addr = format!("localhost:{}", service.port);
        for (command, expected) in [("stop", &off), ("start", &on), ("flush", &on)] {
            let output = tprofiler_as(NOBODY, &[command, "--addr", &addr, "--no-token"]);
            assert_eq!(format!("{}ok\n", text(&output.stdout)), *expected, "{jdk}: {output:?}");
        }
        for line in [&["top", "--no-token"][..], &["top"], &["stop"]] {
            let output = tprofiler_as(NOBODY, &[line, &["--addr", &addr]].concat());
            assert!(fails(&output).contains("token needed"), "{jdk}: {line:?}");
        }
        for (word, expected) in
            [("stop", "stop"), ("status", "stop"), ("start", "running"), ("flushmethod", "running")]
        {
            let answer = service.say(format!("{word}\r").as_bytes());
            assert_eq!(answer, format!("{expected}\r"), "{jdk}: {word}");
        }
        let before = service.settings();
        for command in COMMANDS.iter().filter(|c| !["start", "stop", "flush"].contains(c)) {
            let answer = service.say(format!("{command}\n").as_bytes());
            assert_eq!(answer, TOKEN_NEEDED, "{jdk}: {command}");
        }
        assert_eq!(service.settings(), before, "{jdk}");
        service.stop();
    }
}

#[test]
fn a_profile_properties_opens_the_port_and_warns() {
    let jdk = jdks().last().expect("a JDK");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("profile.properties");
    fs::write(&file, "debugMode = false\n").expect("a file");
    let warning = format!(
        "tprofiler: {}: TProfiler's client knows no token, so every user of this machine can start, \
         stop and flush (port_access=open); port_access=token prevents that\n",
        file.display()
    );
    for (more, expected, is_said) in [
        ("", "stop\r", true),
        (",port_access=open", "stop\r", false),
        (",port_access=token", "error", false),
    ] {
        let service = Service::start(jdk, &format!(",config={}{more}", file.display()));
        let answer = service.say(b"stop\r");
        assert!(answer.starts_with(expected), "{more}: {answer}");
        fs::write(service.folder.path().join("stop"), "").expect("a file");
        let finished = service.program.wait();
        assert_eq!(finished.stderr, if is_said { &*warning } else { "" }, "{more}");
    }
}

/// Runs `then` while `clients` clients without the token ask for the status as fast as they can. Also returns the
/// number of their answers.
fn while_strangers_ask<R>(service: &Service, clients: usize, then: impl FnOnce() -> R) -> (R, u64) {
    let (stop, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    let result = thread::scope(|scope| {
        for client in 0..clients {
            let (stop, answers) = (&stop, &answers);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Ok(stream) = TcpStream::connect(("127.0.0.1", service.port)) else {
                        continue;
                    };
                    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
                    // Half of them ask once per connection, the others all the time.
                    let lines = if client % 2 == 0 { 1 } else { 1_000 };
                    let _ = (&stream).write_all("status\n".repeat(lines).as_bytes());
                    for line in BufReader::new(&stream).lines().map_while(Result::ok) {
                        answers.fetch_add(u64::from(line == "ok"), Ordering::Relaxed);
                        if stop.load(Ordering::Relaxed) || line == "ok" && lines == 1 {
                            break;
                        }
                    }
                }
            });
        }
        // The clients must stop even if it panics.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(then));
        stop.store(true, Ordering::Relaxed);
        result
    });
    (result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), answers.into_inner())
}

#[test]
fn a_flood_of_strangers_keeps_the_owner_from_nothing() {
    for jdk in jdks() {
        let service = Service::start(jdk, "");
        let began = Instant::now();
        let ((), answers) = while_strangers_ask(&service, 12, || {
            for _ in 0..10 {
                for command in [&["status"][..], &["top", "3"], &["mute"]] {
                    assert_eq!(tprofiler_json(service.port, command)["service"], "programs.Busy");
                }
            }
            let mut control = Control::connect(service.port);
            for _ in 0..50 {
                control.ask("status");
            }
        });
        let seconds = began.elapsed().as_secs();
        println!("{answers} answers to strangers in {seconds} s");
        // A burst of 20, then 10 per second, plus up to a second's worth of waiting ones.
        assert!(answers <= 20 + 10 * (seconds + 2), "{jdk}: {answers} in {seconds} s");
        service.stop();
    }
}

/// Reading the method statistics of all threads takes the agent thread time.
#[test]
fn clients_without_the_token_get_one_status_a_second() {
    let jdk = jdks().last().expect("a JDK");
    let service = Service::start(jdk, "");
    wait_until("calls", || Control::connect(service.port).calls_seen() > 1_000_000);
    let began = Instant::now();
    let answers = service.say("status\n".repeat(20).as_bytes());
    let seen: BTreeSet<&str> =
        answers.lines().filter(|line| line.starts_with("calls seen")).collect();
    assert_eq!(answers.matches("\nok\n").count(), 20, "{answers}");
    let most = 1 + usize::try_from(began.elapsed().as_secs()).expect("short");
    assert!(seen.len() <= most, "{seen:?} in {:?}", began.elapsed());
    let mut control = Control::connect(service.port);
    // If it could be as old as a stranger's, it would change once a second.
    let (began, mut seen) = (Instant::now(), BTreeSet::new());
    wait_until("the owner's status is current", || {
        seen.insert(control.calls_seen());
        seen.len() as u64 > 2 + began.elapsed().as_secs()
    });
    service.stop();
}

#[test]
fn silent_clients_keep_nobody_out() {
    for jdk in jdks() {
        let service = Service::start(jdk, "");
        let silent: Vec<TcpStream> = (0..40).map(|_| service.connect()).collect();
        let mut halves: Vec<TcpStream> = (0..20).map(|_| service.connect()).collect();
        for half in &mut halves {
            // The agent may have closed it.
            let _ = half.write_all(b"sta");
        }
        for _ in 0..3 {
            assert_eq!(tprofiler_json(service.port, &["status"])["service"], "programs.Busy");
        }
        assert!(service.say(b"status\n").ends_with("ok\n"), "{jdk}");
        // A client with the token keeps its place.
        let mut control = Control::connect(service.port);
        control.ask("status");
        let more: Vec<TcpStream> = (0..40).map(|_| service.connect()).collect();
        assert_eq!(control.ask("stop")["profiling"], "off", "{jdk}");
        drop((silent, halves, more));
        service.stop();
    }
}

/// How long it takes `programs.Loading` to load the classes of a jar.
fn load(program: &mut Dialogue, word: &str, jar: &str) -> Duration {
    let answer = program.ask(&format!("{word} {}", library(jar).display()));
    let (ms, classes) = answer.split_once(' ').expect("two numbers");
    assert!(classes.parse::<u32>().is_ok_and(|classes| classes > 300), "{answer}");
    Duration::from_millis(ms.parse().expect("a number"))
}

/// 255 patterns of this many bytes and stars, which take long to match.
fn patterns(bytes: usize, stars: usize) -> impl Iterator<Item = String> {
    (0..255).map(move |n| {
        let end = format!("x{n}");
        let mut left = stars;
        let mut is_kept = |c: char| {
            c != '*'
                || left > 0 && {
                    left -= 1;
                    true
                }
        };
        let start = format!("**{}", "o*e*r*".repeat(bytes));
        let start: String = start.chars().filter(|c| is_kept(*c)).take(bytes - end.len()).collect();
        start + &end
    })
}

#[test]
fn patterns_do_not_stall_class_loading() {
    let jdk = jdks().first().expect("a JDK");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let port = free_port();
    let options = format!("leaves=keep,overhead=off,logs={},port={port}", folder.path().display());
    let mut program = Java::new(jdk).agent(&options).main(classes(), "programs.Loading").talk();
    load(&mut program, "keep", "bcprov");
    let mut control = Control::connect(port);
    let methods: u64 = control.ask("status")["methods instrumented"].parse().expect("a number");
    assert!(methods > 20_000, "{methods}");
    let jar = "commons-lang3";
    load(&mut program, "load", jar);
    let before: Vec<Duration> = (0..5).map(|_| load(&mut program, "load", jar)).collect();

    // Without the token, all are refused.
    for pattern in patterns(180, 60) {
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stranger.write_all(format!("mute {pattern}\n").as_bytes()).expect("a connection");
        let mut answer = String::new();
        stranger.read_to_string(&mut answer).expect("an answer");
        let refused = [TOKEN_NEEDED, "error: too many commands; at most 10 a second\n", ""];
        assert!(refused.contains(&&*answer), "{answer}");
        if answer.starts_with("error: too many") {
            break;
        }
    }
    assert_eq!(control.ask("mute").len(), 4, "nothing is muted");

    // With the token, too long patterns and those with too many stars are refused.
    for (pattern, size) in [
        (patterns(180, 60).next(), "180 bytes with 60"),
        (Some("a".repeat(257)), "257 bytes with 0"),
    ] {
        for command in ["mute ", "unmute ", "threshold "] {
            let value = if command == "threshold " { ":1h" } else { "" };
            let line = format!("{command}{}{value}", pattern.as_deref().expect("a pattern"));
            let error = control.answer(&line);
            let expected = format!("error: {}: pattern of {size}", command.trim_end());
            assert!(error.starts_with(&expected) && error.lines().count() == 1, "{error}");
        }
    }

    // As many slow patterns as allowed, while classes are loaded.
    let is_done = AtomicBool::new(false);
    let (loads, took) = thread::scope(|scope| {
        let is_done = &is_done;
        let commands = scope.spawn(move || {
            let began = Instant::now();
            let mut control = Control::connect(port);
            for pattern in patterns(256, 8) {
                control.ask(&format!("mute {pattern}"));
            }
            for pattern in patterns(256, 8) {
                control.ask(&format!("threshold {pattern}:1h"));
            }
            is_done.store(true, Ordering::Relaxed);
            began.elapsed()
        });
        let mut loads = Vec::new();
        while !is_done.load(Ordering::Relaxed) && !commands.is_finished() {
            loads.push(load(&mut program, "load", jar));
        }
        // And with all of them set.
        loads.extend((0..3).map(|_| load(&mut program, "load", jar)));
        (loads, commands.join().expect("all patterns were taken"))
    });
    let (usual, longest) =
        (*before.iter().max().expect("loads"), *loads.iter().max().expect("loads"));
    println!(
        "{methods} methods; a load took {usual:?} at most before, {longest:?} while 510 patterns came \
         in {took:?} ({} loads)",
        loads.len()
    );
    // A stall took over a hundred times as long; other work on the machine takes a few times as long.
    assert!(longest < 8 * usual.max(Duration::from_millis(100)), "{before:?}, {loads:?}");
    // A burst of 100, then 50 a second.
    assert!(took > Duration::from_secs(6), "{took:?}: patterns are not slowed down");
    let answer = Control::connect(port).answer("mute one.more");
    assert_eq!(answer, "error: mute: more than 255 patterns; unmute ** forgets them\n");
    assert_eq!(program.end().status, Some(0));
}
