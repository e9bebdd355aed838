//! Control with a `token_file`, which addresses other than loopback require: clients without the token learn nothing
//! and block nobody.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use test_classes::{
    Control, Java, Jdk, NONCE, Profile, Running, artifacts, at_once, classes, free_port, jdks,
    wait_until,
};

const TOKEN: &str = "s3cret-0f-the-sh0p";

fn token_file(folder: &Path, text: &str, mode: u32) -> PathBuf {
    let path = folder.join("token");
    fs::write(&path, text).expect("a file");
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a file of ours");
    path
}

#[test]
#[allow(clippy::too_many_lines, reason = "a list of cases")]
fn without_a_good_token_file_no_port_opens_and_profiling_goes_on() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("token").display().to_string();
        for (options, token, mode, reason) in [
            (
                "bind=0.0.0.0".to_owned(),
                "",
                0o600,
                "bind: 0.0.0.0 can be reached from elsewhere, which takes a token_file".to_owned(),
            ),
            (
                "bind=::".to_owned(),
                "",
                0o600,
                "bind: :: can be reached from elsewhere, which takes a token_file".to_owned(),
            ),
            (
                format!("bind=0.0.0.0,token_file={file}"),
                "s3cret-0f-the-sh0p\n",
                0o644,
                format!("token_file: {file}: others than its owner may use it (mode 644)"),
            ),
            (
                format!("token_file={file}"),
                "\n",
                0o600,
                format!("token_file: {file}: its first line is empty"),
            ),
            (
                format!("token_file={file}"),
                "s3cret\n",
                0o600,
                format!(
                    "token_file: {file}: token of 6 characters; use 16 to 1024 random ones, for \
                     example from openssl rand -hex 32"
                ),
            ),
            (
                format!("bind=0.0.0.0,token_file={file}.absent"),
                "",
                0o600,
                format!("token_file: {file}.absent: No such file or directory (os error 2)"),
            ),
        ] {
            token_file(folder.path(), token, mode);
            let logs = tempfile::tempdir().expect("a temporary folder");
            let port = free_port();
            let options =
                format!("include=programs,logs={},port={port},{options}", logs.path().display());
            let program = Java::new(jdk).agent(&options).main(classes(), "programs.Exits");
            let finished = program.arg("return").run();
            assert_eq!(finished.status, Some(0), "{jdk}: {options}");
            let message = format!("tprofiler: {reason}; there is no remote control\n");
            assert_eq!(finished.stderr, message, "{jdk}");
            let profile = Profile::only_run(logs.path());
            assert!(!profile.counts.is_empty(), "{jdk}: {options}");
            let run = fs::read_to_string(profile.folder.join("run.json")).expect("run.json");
            let run: serde_json::Value = serde_json::from_str(&run).expect("JSON");
            assert_eq!(run["port"], serde_json::Value::Null, "{jdk}: {options}");
            assert!(!profile.folder.join("control.token").exists(), "{jdk}: {options}");
        }
    }
}

/// A program whose agent has a `token_file`.
struct Guarded {
    program: Running,
    port: u16,
    token: PathBuf,
    folder: tempfile::TempDir,
}

impl Guarded {
    fn start(jdk: &Jdk, bind: &str) -> Self {
        println!("{jdk} {bind}");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let token = token_file(folder.path(), &format!("{TOKEN}\n"), 0o600);
        let port = free_port();
        let options = format!(
            "include=programs,logs={},port={port},bind={bind},token_file={}",
            folder.path().join("logs").display(),
            token.display()
        );
        let program = Java::new(jdk)
            .agent(&options)
            .main(classes(), "programs.Busy")
            .arg("1")
            .arg(folder.path().join("stop"))
            .arg("9")
            .start();
        let guarded = Self { program, port, token, folder };
        wait_until("the control port", || guarded.ask(&["status"]).status.success());
        guarded
    }

    fn stop(self) {
        fs::write(self.folder.path().join("stop"), "").expect("a file");
        self.program.wait().expect_quiet_success("Busy");
    }

    /// Asks with the token.
    fn ask(&self, arguments: &[&str]) -> Output {
        let token = self.token.display().to_string();
        self.command(&[arguments, &["--token-file", &token]].concat())
    }

    fn command(&self, arguments: &[&str]) -> Output {
        Command::new(&artifacts().tprofiler)
            .args(arguments)
            .args(["--addr", &format!("127.0.0.1:{}", self.port)])
            .output()
            .expect("tprofiler runs")
    }

    /// A new connection to an address of this machine.
    fn connect_to(&self, address: &str) -> TcpStream {
        let stream = TcpStream::connect((address, self.port)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        stream
    }

    /// Sends bytes, then closes, and reads until the agent closes.
    fn say_to(&self, address: &str, bytes: &[u8]) -> String {
        let mut stream = self.connect_to(address);
        stream.write_all(bytes).expect("a connection");
        // The agent may have closed the connection before.
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    fn say(&self, bytes: &[u8]) -> String {
        self.say_to("127.0.0.1", bytes)
    }
}

/// An address of this machine that is not loopback: the source address of a route. Sends nothing.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_unspecified())
}

#[test]
fn clients_that_prove_the_token_do_everything_and_others_look() {
    for jdk in jdks() {
        let service = Guarded::start(jdk, "0.0.0.0");
        let mut control = Control::with_token(service.port, TOKEN);
        assert_eq!(control.ask("stop")["profiling"], "off", "{jdk}");
        assert_eq!(control.ask("start")["service"], "programs.Busy", "{jdk}");
        // Sending the token, or anything but a correct HMAC, achieves nothing.
        let zeros = "0".repeat(64);
        let unknown = "error: unknown command; try help\n";
        for (line, expected) in [
            (format!("token {TOKEN}\nstop\n"), unknown),
            (format!("mac {zeros} stop\n"), unknown),
            ("stop\n".to_owned(), "error: token needed\n"),
            ("status\r".to_owned(), "error: token needed, or port_access=open\r"),
            ("auth \nstop\n".to_owned(), unknown),
            (format!("auth {TOKEN}\n"), "error: auth needs a nonce of 64 hexadecimal digits\n"),
        ] {
            assert_eq!(service.say(line.as_bytes()), expected, "{jdk}: {line}");
        }
        for line in ["stop".to_owned(), format!("mac {zeros} stop"), format!("auth {NONCE}")] {
            let asked = Instant::now();
            let answer = service.say(format!("auth {NONCE}\n{line}\nstop\n").as_bytes());
            let (challenge, rest) = answer.split_once("ok\n").expect("a challenge");
            assert!(
                challenge.starts_with("nonce: ") && challenge.contains("\nproof: "),
                "{answer}"
            );
            assert_eq!(rest, "error: wrong MAC\n", "{jdk}: {line}");
            assert!(asked.elapsed() >= Duration::from_secs(1), "guessing is fast");
        }
        assert_eq!(control.ask("status")["profiling"], "on", "{jdk}: nobody stopped");

        let output = service.command(&["stop"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = ": the agent made no token (option token_file); give --token-file FILE\n";
        assert!(message.ends_with(expected) && message.lines().count() == 1, "{message}");
        let output = service.command(&["status"]);
        assert!(output.status.success(), "{output:?}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("service: "), "{output:?}");
        // No command shows the token.
        let options = service.ask(&["options"]);
        let options = String::from_utf8(options.stdout).expect("text");
        assert!(options.contains("\ntoken_file: ") && !options.contains("s3cret"), "{options}");
        fs::set_permissions(&service.token, Permissions::from_mode(0o640)).expect("a file");
        let output = service.ask(&["status"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains("others than its owner may use it (mode 640)"), "{message}");
        assert_eq!(output.status.code(), Some(1));
        let run = &Profile::runs(&service.folder.path().join("logs"))[0];
        assert!(!run.join("control.token").exists(), "{jdk}: token_file replaces it");
        let run = fs::read_to_string(run.join("run.json")).expect("run.json");
        assert!(run.contains("token_file") && !run.contains("s3cret"), "{run}");
        service.stop();
    }
}

#[test]
fn other_addresses_than_loopback_see_nothing_without_the_token() {
    let own = own_address().expect("a network interface beside loopback is needed").to_string();
    let jdk = jdks().first().expect("a JDK");
    for more in ["", ",port_access=open"] {
        let service = Guarded::start(jdk, &format!("0.0.0.0{more}"));
        for line in ["status", "help", "start", "json status", "detach", "what"] {
            let answer = service.say_to(&own, format!("{line}\n").as_bytes());
            assert_eq!(answer, "error: token needed\n", "{line}{more}");
        }
        let answer = service.say_to(&own, b"status\r");
        assert_eq!(answer, "error: token needed, or port_access=open\r", "{more}");
        let tokens = BTreeSet::from([TOKEN.to_owned()]);
        let mut control = Control::over(service.connect_to(&own), &tokens);
        assert_eq!(control.ask("stop")["profiling"], "off");
        let address = format!("{own}:{}", service.port);
        let command = |arguments: &[&str]| {
            let mut command = Command::new(&artifacts().tprofiler);
            command.args(arguments).args(["--addr", &address]).output().expect("tprofiler runs")
        };
        let token = service.token.display().to_string();
        assert!(command(&["start", "--token-file", &token]).status.success());
        let output = command(&["stop"]);
        let message = String::from_utf8_lossy(&output.stderr);
        let expected = "token needed: not a loopback address; give the token with --token-file";
        assert!(message.contains(expected), "{message}");
        service.stop();
    }
}

#[test]
fn wrong_guesses_block_no_others() {
    let jdk = jdks().first().expect("a JDK");
    let service = Guarded::start(jdk, "127.0.0.1");
    let began = Instant::now();
    // Each has sent a wrong HMAC and waits a second for the answer.
    let mut guessers: Vec<TcpStream> = (0..8)
        .map(|n| {
            let mut client = service.connect_to("127.0.0.1");
            let guess = format!("auth {NONCE}\nmac {n}{} stop\n", "0".repeat(63));
            client.write_all(guess.as_bytes()).expect("a connection");
            client
        })
        .collect();
    // As many as there are places.
    let served: Vec<Control> = (0..16)
        .map(|_| {
            let mut control = Control::with_token(service.port, TOKEN);
            assert_eq!(control.ask("status")["profiling"], "on");
            control
        })
        .collect();
    println!("16 clients were served after {:?}", began.elapsed());
    for guesser in &mut guessers {
        let mut answer = String::new();
        guesser.read_to_string(&mut answer).expect("an answer");
        // The oldest are closed without an answer when their places are needed.
        let refused = answer.ends_with("error: wrong MAC\n");
        assert!(refused || answer.ends_with("\nok\n"), "{answer}");
    }
    drop(served);
    wait_until("room", || service.ask(&["status"]).status.success());
    service.stop();
}

#[test]
fn attach_and_detach_know_the_token() {
    at_once(jdks(), |jdk| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        token_file(folder.path(), TOKEN, 0o600);
        let mut program = Java::new(jdk).main(classes(), "programs.Phases").talk();
        assert_eq!(program.ask("wait"), "ready");
        let (pid, port) = (program.program.pid().to_string(), free_port());
        let tprofiler = |arguments: &[&str]| {
            let mut command = Command::new(&artifacts().tprofiler);
            let output = command.current_dir(folder.path()).args(arguments).output();
            let output = output.expect("tprofiler runs");
            assert!(output.status.success(), "{jdk}: {output:?}");
            String::from_utf8(output.stdout).expect("text")
        };
        let options = format!("include=programs.Phases,bind=0.0.0.0,port={port},token_file=token");
        for detach in [&["detach", &pid][..], &["detach", &pid, "--token-file", "token"]] {
            let answer = tprofiler(&["attach", &pid, &options]);
            assert!(answer.contains("\nprofiling: on\n"), "{jdk}: {answer}");
            program.ask("calls 10");
            let answer = tprofiler(detach);
            assert!(answer.starts_with("detached from "), "{jdk}: {answer}");
            // With the token over the port, which reports more.
            let has_token = detach.len() > 2;
            assert_eq!(answer.contains("classes restored: "), has_token, "{jdk}: {answer}");
        }
        assert_eq!(program.end().status, Some(0), "{jdk}");
    });
}
