//! Control over TCP: the protocol, its two dialects, and clients that misbehave.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use test_classes::{
    Control, Java, Jdk, Profile, Running, Service as TestService, artifacts, classes, free_port,
    jdks, second_agent, wait_until,
};

/// A program under the agent with a control port.
struct Service {
    program: Running,
    port: u16,
    folder: tempfile::TempDir,
}

impl Service {
    fn start(jdk: &Jdk) -> Self {
        Self::start_with(jdk, "")
    }

    fn start_with(jdk: &Jdk, more: &str) -> Self {
        // Shown if the test fails.
        println!("{jdk}");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let logs = folder.path().join("logs");
        let options = format!("include=programs,logs={},port={port}{more}", logs.display());
        let program = Java::new(jdk)
            .agent(&options)
            .main(classes(), "programs.Busy")
            .arg("1")
            .arg(folder.path().join("stop"))
            .arg("9")
            .start();
        let service = Self { program, port, folder };
        wait_until("the program's threads", || service.calls_seen() > 100_000);
        service
    }

    fn stop(self) {
        fs::write(self.folder.path().join("stop"), "").expect("a file");
        self.program.wait().expect_quiet_success("Busy");
    }

    /// The answer to a client with the token.
    fn answer(&self, command: &str) -> String {
        Control::connect(self.port).answer(command)
    }

    /// Sends bytes without the token, then closes, and reads until the agent closes.
    fn say(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        stream.write_all(bytes).expect("a connection");
        // The agent may have closed the connection by now.
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// The lines of an answer, after those that identify the agent.
    fn named(&self, lines: &str) -> String {
        format!("service: programs.Busy\npid: {}\n{lines}", self.program.pid())
    }

    fn logs(&self) -> PathBuf {
        Profile::runs(&self.folder.path().join("logs")).remove(0)
    }

    /// The number in `status`; 0 while nobody answers.
    fn calls_seen(&self) -> u64 {
        let status = String::from_utf8(self.command("status").stdout).expect("text");
        let seen = status.lines().find_map(|line| line.strip_prefix("calls seen: "));
        seen.map_or(0, |seen| seen.parse().expect("a number"))
    }

    fn command(&self, command: &str) -> Output {
        tprofiler(&[command, "--addr", &format!("127.0.0.1:{}", self.port)])
    }
}

/// Reads until the agent has answered or closed the connection.
fn answer(stream: &TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let mut answer = String::new();
    let mut reader = BufReader::new(stream);
    while !answer.ends_with("ok\n") && reader.read_line(&mut answer).is_ok_and(|n| n > 0) {}
    answer
}

fn tprofiler(arguments: &[&str]) -> Output {
    Command::new(&artifacts().tprofiler).args(arguments).output().expect("tprofiler runs")
}

#[test]
fn commands_are_answered_and_every_answer_ends() {
    for jdk in jdks() {
        let service = Service::start(jdk);
        let mut control = Control::connect(service.port);
        let status = control.answer("status");
        let expected = service.named("profiling: on\nsince: 20");
        assert!(status.starts_with(&expected), "{status}");
        for key in [
            "classes instrumented: ",
            "methods instrumented: ",
            "calls seen: ",
            "recorded calls: ",
            "recorded calls dropped: 0",
            "logs: ",
            "log of this hour: ",
        ] {
            assert!(status.lines().any(|line| line.starts_with(key)), "{key} in {status}");
        }
        assert!(status.ends_with("\nok\n"), "{status}");
        let (on, off) =
            (service.named("profiling: on\nok\n"), service.named("profiling: off\nok\n"));
        // Several commands on one connection, and on different ones.
        assert_eq!(control.answer("stop"), off);
        assert_eq!(control.answer("stop"), off);
        assert_eq!(service.answer("stop"), off);
        assert!(service.answer("status").starts_with(&service.named("profiling: off\n")));
        assert_eq!(service.answer("flush"), off);
        assert_eq!(control.answer("start"), on);
        let help = control.answer("help");
        assert!(help.starts_with("start: ") && help.ends_with("\nok\n"), "{help}");
        // A wrong value does not end the connection; a wrong command does.
        let error = control.answer("top many");
        assert_eq!(
            error,
            "error: top: 'many' is neither a number from 1 to 1000 nor minute nor sql\n"
        );
        assert_eq!(control.answer("halt"), "error: unknown command; try help\n");
        assert_eq!(control.rest(), "");
        service.stop();
    }
}

#[test]
fn a_bare_carriage_return_speaks_tprofilers_dialect() {
    for jdk in jdks() {
        let service = Service::start_with(jdk, ",port_access=open");
        assert_eq!(service.say(b"status\r"), "running\r");
        assert_eq!(service.say(b"stop\r"), "stop\r");
        assert_eq!(service.say(b"status\r"), "stop\r");
        assert!(service.say(b"status\r\n").contains("\nprofiling: off\n"));
        assert_eq!(service.say(b"start\r"), "running\r");
        for word in [&b"halt\r"[..], b"detach\r", b"top\r", b"mute **\r", b"\r"] {
            assert_eq!(service.say(word), "error: unknown command\r");
        }
        assert_eq!(service.say(b"status\r"), "running\r", "an unknown word changes nothing");
        // Its client sends all but `status` without waiting for an answer.
        let send = |word: &[u8]| {
            let mut client = TcpStream::connect(("127.0.0.1", service.port)).expect("a connection");
            client.write_all(word).expect("a connection");
        };
        send(b"stop\r");
        wait_until("the stop", || service.say(b"status\r") == "stop\r");
        assert_eq!(service.say(b"flushmethod\r"), "stop\r");
        send(b"start\r");
        wait_until("the start", || service.say(b"status\r") == "running\r");
        let before = bytes(&service.logs());
        assert_eq!(service.say(b"flushmethod\r"), "running\r");
        assert!(bytes(&service.logs()) > before, "{jdk}: nothing was flushed");
        let before = bytes(&service.logs());
        send(b"flushmethod\r");
        wait_until("totals on disk", || bytes(&service.logs()) > before);
        assert_eq!(service.say(b"flushmethod\n"), "error: unknown command; try help\n");
        service.stop();
    }
}

#[test]
fn an_unknown_command_changes_nothing_and_ends_the_connection() {
    for jdk in jdks() {
        let service = Service::start_with(jdk, ",port_access=open");
        let request = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nstop\n";
        assert_eq!(service.say(request), "error: unknown command; try help\n");
        for word in [&b"STOP\n"[..], b"stop now\n", b"\n", b"\xff\xfe\n", b"sto\n", b"auth\n"] {
            assert_eq!(service.say(word), "error: unknown command; try help\n");
        }
        assert_eq!(service.say(&[b'x'; 10_000]), "error: line too long\n");
        // Without the end of the input: the agent closes the connection by itself, soon.
        for (line, expected) in
            [(&b"halt\n"[..], "unknown command"), (&[b'x'; 5000], "line too long")]
        {
            let mut client = TcpStream::connect(("127.0.0.1", service.port)).expect("a connection");
            client.write_all(line).expect("a connection");
            assert!(answer(&client).contains(expected));
        }
        assert!(service.say(b"status\n").contains("\nprofiling: on\n"));
        service.stop();
    }
}

#[test]
fn idle_clients_block_no_others() {
    for jdk in jdks() {
        let service = Service::start(jdk);
        // Silent clients with the token.
        let connect = || {
            let mut client = Control::connect(service.port);
            let answer = client.answer("help");
            if answer.ends_with("\nok\n") {
                return Some(client);
            }
            assert_eq!(answer, "error: too many clients\n");
            assert_eq!(client.rest(), "");
            None
        };
        let mut idle: Vec<Control> = Vec::new();
        wait_until("15 clients", || {
            idle.extend(connect());
            idle.len() == 15
        });
        assert!(service.answer("status").ends_with("ok\n"));
        // The answer did not wait until silent clients are thrown out.
        for client in &mut idle {
            assert!(client.answer("help").ends_with("\nok\n"));
        }
        wait_until("a sixteenth client", || {
            idle.extend(connect());
            idle.len() == 16
        });
        assert!(connect().is_none());
        // Clients without the token have separate places.
        assert!(service.say(b"status\n").ends_with("ok\n"));
        idle.clear();
        wait_until("room again", || connect().is_some());
        service.stop();
    }
}

#[test]
fn clients_that_do_not_read_block_no_others() {
    for jdk in jdks() {
        let service = Service::start(jdk);
        let ask = || {
            let asked = Instant::now();
            assert!(service.answer("top").ends_with("ok\n"), "{jdk}");
            asked.elapsed()
        };
        let median = |mut times: Vec<Duration>| {
            times.sort_unstable();
            times[times.len() / 2]
        };
        let usual = median((0..5).map(|_| ask()).collect());
        let many = b"help\n".repeat(10_000);
        let beside = (0..5).map(|_| {
            let mut deaf = TcpStream::connect(("127.0.0.1", service.port)).expect("a connection");
            deaf.set_write_timeout(Some(Duration::from_millis(300))).expect("a socket");
            // Until no more data passes in either direction. The agent waits five seconds for such a client.
            while deaf.write_all(&many).is_ok() {}
            ask()
        });
        let beside = median(beside.collect());
        // Each of them, waited for, would take five seconds.
        let bound = (20 * usual.max(Duration::from_millis(100))).min(Duration::from_secs(4));
        assert!(beside < bound, "{jdk}: {usual:?}, {beside:?}");
        service.stop();
    }
}

/// Bytes of the run's files.
fn bytes(run: &Path) -> u64 {
    let files = fs::read_dir(run).expect("the run's folder");
    files.map(|e| e.expect("a file").metadata().expect("a file").len()).sum()
}

#[test]
fn flush_puts_everything_on_disk_while_off_too() {
    for jdk in jdks() {
        let service = Service::start(jdk);
        let answer = service.command("flush");
        assert!(answer.status.success());
        let counted = |service: &Service| -> u64 {
            Profile::read(&service.logs()).counts.values().map(|c| c.calls).sum()
        };
        let first = counted(&service);
        assert!(first > 0, "no totals after a flush");
        assert!(service.command("flush").status.success());
        assert!(counted(&service) > first);
        assert!(service.command("stop").status.success());
        assert!(service.command("flush").status.success());
        let (last, size) = (counted(&service), bytes(&service.logs()));
        assert_eq!(service.calls_seen(), last, "all calls seen are on disk");
        let status = String::from_utf8(service.command("status").stdout).expect("text");
        assert!(status.contains(&format!("logs: {}", service.logs().display())), "{status}");
        let throws: u64 = Profile::read(&service.logs()).counts.values().map(|c| c.throws).sum();
        assert!(throws > 0 && status.contains(&format!("\nthrows: {throws}\n")), "{status}");
        assert!(size > 0);
        service.stop();
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "a list of cases")]
fn the_command_succeeds_only_if_the_agent_says_so() {
    for jdk in jdks() {
        let service = Service::start(jdk);
        for (command, expected) in [
            ("stop", "profiling: off\n"),
            ("start", "profiling: on\n"),
            ("flush", "profiling: on\n"),
        ] {
            let output = service.command(command);
            assert!(output.status.success(), "{command}");
            assert_eq!(String::from_utf8_lossy(&output.stdout), service.named(expected));
            assert!(output.stderr.is_empty());
        }
        service.stop();
    }

    let nobody = free_port();
    let output = tprofiler(&["status", "--addr", &format!("127.0.0.1:{nobody}")]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.starts_with(&format!("tprofiler: 127.0.0.1:{nobody}: ")), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(output.stdout.is_empty());

    // The port belongs to another program.
    for (says, expected) in [
        ("", "ends early"),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", "ends early"),
        ("error: no\n", "no"),
    ] {
        let stranger = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = stranger.local_addr().expect("an address").to_string();
        let answers = std::thread::spawn(move || {
            let (mut client, _) = stranger.accept().expect("a client");
            let mut command = [0; 7];
            client.read_exact(&mut command).expect("a command");
            client.write_all(says.as_bytes()).expect("a client");
        });
        let output = tprofiler(&["status", "--addr", &address]);
        assert_eq!(output.status.code(), Some(1), "{says}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{says}: {output:?}");
        answers.join().expect("a stranger");
    }
    assert_eq!(tprofiler(&["destroy"]).status.code(), Some(2));
    // Commands that no agent answers take no address, and offer none.
    for command in [&["list"][..], &["attach", "1"], &["profile", "1"], &["detach", "1"]] {
        let is_list = command[0] == "list";
        for option in [&["--addr", "127.0.0.1:1"][..], &["--json"]] {
            if is_list && option == ["--json"] {
                continue;
            }
            let output = tprofiler(&[command, option].concat());
            assert_eq!(output.status.code(), Some(2), "{command:?}");
            let message = String::from_utf8_lossy(&output.stderr);
            let line = format!("error: {} is for the commands that an agent answers\n", option[0]);
            assert!(message.starts_with(&line), "{message}");
        }
        let help = tprofiler(&[command[0], "--help"]).stdout;
        let is_offered = String::from_utf8_lossy(&help).contains("--json");
        assert_eq!(is_offered, is_list || command[0] == "detach", "{command:?}");
    }
    for address in ["127.0.0.1", "50000", ":50000", "web07:", "web07:0", "web07:70000", "::1"] {
        let output = tprofiler(&["status", "--addr", address]);
        assert_eq!(output.status.code(), Some(2), "{address}");
        let message = String::from_utf8_lossy(&output.stderr);
        let line = format!("error: invalid value '{address}' for '--addr <HOST:PORT>': ");
        let line = line + "not HOST:PORT, as in 127.0.0.1:50000\n";
        assert!(message.starts_with(&line), "{message}");
    }
    // An empty variable of a script is no command for everything.
    for command in [
        "untrace",
        "trace",
        "mute",
        "unmute",
        "methods",
        "threshold",
        "overhead",
        "alloc",
        "inflight",
    ] {
        for empty in ["", " "] {
            let output = tprofiler(&[command, empty]);
            assert_eq!(output.status.code(), Some(2), "{command}");
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(
                message.starts_with(&format!("error: invalid value '{empty}' for '")),
                "{message}"
            );
            assert!(message.contains("': empty\n"), "{message}");
        }
    }
    let output = tprofiler(&["task", "--endpoint", "orders", "--methods", ""]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // Nobody listens there, but the notation is valid.
    let output = tprofiler(&["status", "--addr", &format!("[::1]:{nobody}")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(tprofiler(&["status", "--addr", "no-such-host.invalid:1"]).status.code(), Some(1));
}

#[test]
fn a_taken_port_gives_way_to_the_next() {
    for jdk in jdks() {
        let port = free_port();
        let taken = TcpListener::bind(("127.0.0.1", port)).expect("a port");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = format!("include=programs,logs={},port={port}", folder.path().display());
        let finished =
            Java::new(jdk).agent(&options).main(classes(), "programs.Exits").arg("return").run();
        assert_eq!(finished.status, Some(0));
        let used = finished
            .stderr
            .strip_prefix(&format!("tprofiler: port {port} is taken; control is on port "))
            .unwrap_or_else(|| panic!("{}", finished.stderr));
        let used: u16 = used.trim_end().parse().expect("a port");
        assert!((port + 1..port + 16).contains(&used));
        let run =
            fs::read_to_string(Profile::runs(folder.path())[0].join("run.json")).expect("run.json");
        let run: serde_json::Value = serde_json::from_str(&run).expect("JSON");
        assert_eq!(run["port"], used);
        drop(taken);
    }
}

/// The agent has ended, but the JVM still has its port.
#[test]
fn a_command_to_a_jvm_that_is_ending_says_so() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (port, ends) = (free_port(), folder.path().join("ends"));
        let logs = folder.path().join("logs");
        let options = format!("include=programs,logs={},port={port}", logs.display());
        let slow = format!("-agentpath:{}=slow,{}", second_agent().display(), ends.display());
        let java = Java::new(jdk).agent(&options).arg(slow);
        let program = java.main(classes(), "programs.Exits").arg("return").start();
        let (pid, addr) = (program.pid().to_string(), format!("127.0.0.1:{port}"));
        wait_until("the JVM is ending", || {
            let list = String::from_utf8(tprofiler(&["list"]).stdout).expect("text");
            ends.exists() && list.contains(&format!("{pid}  ending"))
        });
        for command in ["stop", "status", "top", "detach"] {
            for target in [["--addr", &addr], ["--pid", &pid]] {
                let output = tprofiler(&[&[command], &target[..]].concat());
                let message = String::from_utf8_lossy(&output.stderr).into_owned();
                let expected = format!("{pid}: the JVM is ending, and its agent with it\n");
                assert!(message.ends_with(&expected), "{jdk}: {command} {target:?}: {message}");
                assert_eq!((output.status.code(), message.lines().count()), (Some(1), 1));
            }
        }
        fs::remove_file(ends).expect("a file");
        assert_eq!(program.wait().status, Some(0), "{jdk}");
    }
}

/// The kernel accepts connections for a process that ends, until it closes its files.
#[test]
fn a_connection_that_is_closed_at_once_needs_no_token() {
    let stranger = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = stranger.local_addr().expect("an address").to_string();
    let closes = std::thread::spawn(move || drop(stranger.accept().expect("a client")));
    let output = tprofiler(&["stop", "--addr", &address]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "the JVM is ending, or another program closes the connection\n";
    assert_eq!(message, format!("tprofiler: {address}: {expected}"));
    closes.join().expect("a stranger");
}

#[test]
fn options_show_the_port_in_use() {
    let jdk = &jdks()[0];
    let port = free_port();
    let taken = TcpListener::bind(("127.0.0.1", port)).expect("a port");
    let service = TestService::start_as(jdk, None, port, "");
    assert_ne!(service.port, port);
    let options = Control::connect(service.port).ask("options");
    assert_eq!(options["port"], service.port.to_string());
    // Without the option, it is what the agent chose.
    assert_ne!(options["max_memory"], "");
    drop(taken);
    service.stop();
}

#[test]
fn without_a_free_port_the_agent_goes_on() {
    for jdk in jdks() {
        // Sixteen consecutive ports, anywhere.
        let (first, taken) = (0..100)
            .find_map(|_| {
                let first = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
                let taken: Option<Vec<TcpListener>> = (first..first.checked_add(16)?)
                    .map(|port| TcpListener::bind(("127.0.0.1", port)).ok())
                    .collect();
                Some((first, taken?))
            })
            .expect("sixteen free ports in a row");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = format!("include=programs,logs={},port={first}", folder.path().display());
        let finished =
            Java::new(jdk).agent(&options).main(classes(), "programs.Exits").arg("return").run();
        assert_eq!(finished.status, Some(0));
        let start = format!("tprofiler: no free port from {first} to {}", first + 15);
        assert!(finished.stderr.starts_with(&start), "{}", finished.stderr);
        assert!(finished.stderr.ends_with("; there is no remote control\n"), "{}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 1);
        assert!(!Profile::only_run(folder.path()).counts.is_empty());
        drop(taken);
    }
}
