//! Who may talk to the agent: addresses other than loopback take a token, and who does not know it
//! learns nothing and holds up nobody.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use test_classes::{Java, Jdk, Profile, Running, artifacts, classes, free_port, jdks, wait_until};

fn token_file(folder: &Path, text: &str, mode: u32) -> PathBuf {
    let path = folder.join("token");
    fs::write(&path, text).expect("a file");
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a file of ours");
    path
}

#[test]
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
                "s3cret\n",
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
        }
    }
}

/// A program whose agent wants to hear a token, on every address of this machine.
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
        let token = token_file(folder.path(), "s3cret-0f-the-sh0p\n", 0o600);
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

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        stream
    }

    /// Sends bytes and no more, and reads until the agent hangs up.
    fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).expect("a connection");
        // The agent may have hung up by now.
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }
}

#[test]
fn the_token_is_the_first_line_of_a_connection() {
    for jdk in jdks() {
        let service = Guarded::start(jdk, "0.0.0.0");
        let answer = service.say(b"token s3cret-0f-the-sh0p\nstop\nstart\n");
        assert!(answer.starts_with("ok\nservice: programs.Busy\n"), "{answer}");
        assert_eq!(answer.matches("ok\n").count(), 3, "{answer}");
        assert_eq!(service.say(b"token s3cret-0f-the-sh0p\rstop\r"), "ok\nstop\r");
        // It is good for one connection, and nothing else is heard before it.
        for (line, expected) in [
            (&b"start\n"[..], "error: token needed\n"),
            (b"status\r", "error: token needed\n"),
            (b"help\n", "error: token needed\n"),
            (b"\n", "error: token needed\n"),
            (b"GET / HTTP/1.1\r\n\r\ntoken s3cret-0f-the-sh0p\nstart\n", "error: token needed\n"),
            (b"token s3cret\nstart\n", "error: wrong token\n"),
            (b"token s3cret-0f-the-sh0p2\nstart\n", "error: wrong token\n"),
            (b"token \nstart\n", "error: token needed\n"),
            (b"token  s3cret-0f-the-sh0p \nstatus\n", "ok\nservice"),
        ] {
            let asked = Instant::now();
            let answer = service.say(line);
            if expected.starts_with("error") {
                assert_eq!(answer, expected);
                assert!(asked.elapsed() >= Duration::from_secs(1), "guessing is fast");
            } else {
                assert!(answer.starts_with(expected), "{answer}");
            }
        }
        let again = service.say(b"token s3cret-0f-the-sh0p\ntoken s3cret-0f-the-sh0p\n");
        assert_eq!(again, "ok\nerror: unknown command; try help\n");
        let status = service.say(b"token s3cret-0f-the-sh0p\nstatus\n");
        assert!(status.contains("\nprofiling: off\n"), "nobody started: {status}");

        let output = service.command(&["status"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).ends_with(": token needed\n"));
        // The token is shown to nobody.
        let options = service.ask(&["options"]);
        let options = String::from_utf8(options.stdout).expect("text");
        assert!(options.contains("\ntoken_file: ") && !options.contains("s3cret"), "{options}");
        fs::set_permissions(&service.token, Permissions::from_mode(0o640)).expect("a file");
        let output = service.ask(&["status"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains("others than its owner may use it (mode 640)"), "{message}");
        assert_eq!(output.status.code(), Some(1));
        let run = &Profile::runs(&service.folder.path().join("logs"))[0];
        let run = fs::read_to_string(run.join("run.json")).expect("run.json");
        assert!(run.contains("token_file") && !run.contains("s3cret"), "{run}");
        service.stop();
    }
}

#[test]
fn who_guesses_holds_up_nobody() {
    let jdk = jdks().first().expect("a JDK");
    let service = Guarded::start(jdk, "127.0.0.1");
    let guessers: Vec<TcpStream> = (0..12)
        .map(|n| {
            let mut client = service.connect();
            client.write_all(format!("token guess{n}\n").as_bytes()).expect("a connection");
            client
        })
        .collect();
    let mut served = Vec::new();
    let asked = Instant::now();
    // More than there is room for, if those who guess had any of it. They have until what they say has
    // been read, and whoever comes in that moment may be sent away.
    while served.len() < 16 {
        let mut client = service.connect();
        client.write_all(b"token s3cret-0f-the-sh0p\n").expect("a connection");
        let mut answer = [0; 3];
        client.read_exact(&mut answer).expect("an answer");
        if &answer == b"ok\n" {
            served.push(client);
        }
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    }
    for mut guesser in guessers {
        let mut answer = String::new();
        guesser.read_to_string(&mut answer).expect("an answer");
        assert_eq!(answer, "error: wrong token\n");
    }
    drop(served);
    wait_until("room", || service.ask(&["status"]).status.success());
    service.stop();
}

#[test]
fn attach_and_detach_know_the_token() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        token_file(folder.path(), "s3cret\n", 0o600);
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
            // With the token over the port, which has more to say.
            let has_token = detach.len() > 2;
            assert_eq!(answer.contains("classes restored: "), has_token, "{jdk}: {answer}");
        }
        assert_eq!(program.end().status, Some(0), "{jdk}");
    }
}
