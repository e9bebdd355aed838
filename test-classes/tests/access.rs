//! Access over the control port: clients without the token can only read, and the JVM's user and root can do
//! everything without giving a token.
//!
//! The tests act as other users, so they need root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use test_classes::{
    Control, NONCE, Profile, Service, TOKEN_NEEDED, artifacts, at_once, error_line, free_port,
    jdks, jdks_by_turns, project,
};

const ROOT: u32 = 0;
/// The user that runs the JVM, if it is another one.
const NOBODY: u32 = 65_534;
const SOMEBODY_ELSE: u32 = 65_533;
/// A user whose JVMs no other test starts.
const ALONE: u32 = 65_532;

/// Runs `tprofiler` as a user.
fn tprofiler_as(user: u32, arguments: &[&str]) -> Output {
    let mut command = Command::new(&artifacts().tprofiler);
    command.uid(user).gid(user).args(arguments);
    command.output().expect("tprofiler runs as another user; this needs root")
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
        let service = Service::start(jdk, ",threshold=programs.Busy.x*:1h,include=com.shop");
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
            assert_eq!(error_line(&output), expected, "{jdk}");
        }
        let output = tprofiler_as(SOMEBODY_ELSE, &["status", "--addr", &addr]);
        assert!(output.status.success(), "{jdk}: {output:?}");
        expect_no_names(&text(&output.stdout));
        assert_eq!(text(&output.stderr).lines().count(), 1, "{jdk}: {output:?}");
        assert_eq!(service.settings(), before, "{jdk}");
        service.stop();
    }
}

/// What the owner does, in this order.
const OWNERS_COMMANDS: [&[&str]; 13] = [
    &["status"],
    &["stop"],
    &["start"],
    &["flush"],
    &["threshold"],
    &["threshold", "programs.Busy.x*:1h"],
    &["top"],
    &["inflight", "1"],
    &["mute", "com.shop"],
    &["unmute", "com.shop"],
    &["overhead"],
    &["overhead", "off"],
    &["options"],
];

#[test]
fn the_owner_and_root_give_no_token_and_others_get_one_line() {
    at_once(jdks_by_turns(), |jdk| {
        let service = Service::start_as(jdk, Some(NOBODY), free_port(), "");
        let (pid, addr) =
            (service.program.pid().to_string(), format!("localhost:{}", service.port));
        let run = service.run().expect("a run").display().to_string();
        let targets = [["--addr", &addr], ["--pid", &pid], ["--run", &run]];
        for target in &targets {
            let pairs = [NOBODY, ROOT].map(|user| OWNERS_COMMANDS.map(|command| (user, command)));
            for (user, command) in pairs.into_iter().flatten() {
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
                let line = error_line(&output);
                assert!(line.starts_with(&format!("tprofiler: {}: ", target[1])), "{jdk}: {line}");
            }
        }
        // The JVM's attach mechanism refuses other users as well.
        let line = error_line(&tprofiler_as(SOMEBODY_ELSE, &["detach", &pid]));
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
    });
}

#[test]
fn the_default_port_needs_no_address() {
    let jdk = jdks().first().expect("a JDK");
    // Another agent on this machine may use it for a while.
    let service = (0..60).find_map(|_| {
        let service = Service::start_as(jdk, Some(ALONE), 50_000, "");
        if service.port == 50_000 {
            return Some(service);
        }
        service.stop();
        thread::sleep(Duration::from_secs(1));
        None
    });
    let service = service.expect("port 50000 is free");
    let pid = service.program.pid();
    for (user, more) in [(ALONE, &[][..]), (ROOT, &["--addr", "127.0.0.1:50000"])] {
        let output = tprofiler_as(user, &[&["stop"], more].concat());
        let expected = format!("service: programs.Busy\npid: {pid}\nprofiling: off\n");
        assert_eq!(text(&output.stdout), expected, "{user}: {output:?}");
        let output = tprofiler_as(user, &[&["start"], more].concat());
        assert!(output.status.success(), "{user}: {output:?}");
    }
    // Nobody knows which of two is meant.
    for more in [",debug=fault:slow", ""] {
        let other = Service::start_as(jdk, Some(ALONE), 50_000, more);
        let error = error_line(&tprofiler_as(ALONE, &["detach"]));
        let which = "2 JVMs have an agent; say which with --pid: ";
        let first = format!("{pid} (programs.Busy, port 50000)");
        assert!(error.starts_with(&format!("tprofiler: {which}")), "{error}");
        assert!(error.contains(&first), "{error}");
        let other_pid = other.program.pid();
        // The port can be reached a moment before the agent says that it is attached.
        let state = if more.is_empty() { "" } else { "starting)" };
        let second = format!("{other_pid} (programs.Busy, {state}");
        assert!(error.contains(&second), "{error}");
        other.stop();
    }
    assert!(error_line(&tprofiler_as(SOMEBODY_ELSE, &["stop"])).contains(": token needed: "));
    // The JVM keeps the file open when the run's folder is deleted.
    fs::remove_dir_all(service.run().expect("a run")).expect("the run");
    let output = tprofiler_as(ALONE, &["stop"]);
    assert!(output.status.success(), "{output:?}");
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

/// docs/control.py.
#[test]
fn the_client_in_the_documentation_works() {
    let jdk = jdks().last().expect("a JDK");
    let service = Service::start(jdk, "");
    let python = |folder: &Path, commands: &[&str]| {
        let mut python = Command::new("python3");
        python.arg(project().join("docs/control.py")).arg(folder).args(commands);
        python.output().expect("python3 runs")
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
            assert!(error_line(&output).contains("token needed"), "{jdk}: {line:?}");
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
