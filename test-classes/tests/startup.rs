//! Nothing that hangs or fails in the agent, at its start or at its end, hangs or ends the service or the command:
//! pipes instead of files, a disk that does not answer, panics at every stage.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use test_classes::{
    Dialogue, Finished, Java, artifacts, at_once, classes, free_port, hung_mount, jdks, skipped,
    tprofiler_json, wait_until, without_notice,
};

/// Longer than any wait here, and shorter than a hang.
const BOUND: Duration = Duration::from_secs(25);

/// Runs `tprofiler`, which must end by itself.
fn tprofiler(arguments: &[&str]) -> Output {
    let mut command = Command::new(&artifacts().tprofiler);
    let command = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("tprofiler runs");
    wait_until(&format!("{arguments:?}"), || child.try_wait().expect("a state").is_some());
    child.wait_with_output().expect("its output")
}

/// The single line on stderr of a command that must fail.
fn fails(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = tprofiler(arguments);
    let stderr = without_notice(&stderr);
    assert_eq!((status.code(), &*stdout), (Some(1), &b""[..]), "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    stderr
}

fn succeeds(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = tprofiler(arguments);
    let stderr = without_notice(&stderr);
    assert!(status.success() && stderr.is_empty(), "{arguments:?}: {status} {stderr}");
    String::from_utf8(stdout).expect("text")
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().is_ok_and(|status| status.success()));
}

/// The program carries out commands, as without the agent.
fn expect_work(program: &mut Dialogue, what: &str) {
    assert_eq!(program.ask("calls 10"), "outer 10 middle 30 thrown 6 leaf 30", "{what}");
}

/// Asserts that the program has ended well. Returns the lines on stderr that are not the JVM's.
fn expect_success(finished: &Finished, what: &str) -> Vec<String> {
    assert_eq!(finished.status, Some(0), "{what}: {}", finished.stderr);
    assert_eq!(finished.stdout, "", "{what}: nothing but answers");
    let lines = finished.stderr.lines().filter(|line| !line.starts_with("WARNING: "));
    lines.map(str::to_owned).collect()
}

/// The agent panics; `tprofiler detach` still works if there is anything to detach from.
#[test]
fn a_panic_at_any_stage_leaves_the_service_as_it_is() {
    at_once(jdks(), |jdk| {
        for stage in ["load", "begin", "run", "finish", "detach"] {
            let what = format!("{jdk}: {stage}");
            println!("{what}");
            let folder = tempfile::tempdir().expect("a temporary folder");
            let (logs, port) = (folder.path().join("logs"), free_port());
            let options = format!(
                "include=programs.Phases$*,debug=fault:{stage},port={port},logs={}",
                logs.display()
            );
            let mut program =
                Java::new(jdk).agent(&options).main(classes(), "programs.Phases").talk();
            expect_work(&mut program, &what);
            let pid = program.program.pid().to_string();
            if ["load", "begin"].contains(&stage) {
                let error = fails(&["detach", &pid]);
                assert!(error.contains("not attached"), "{what}: {error}");
            } else {
                let answer = succeeds(&["detach", &pid]);
                let restored =
                    answer.lines().find_map(|line| line.strip_prefix("classes restored: "));
                let restored: u64 = restored.expect("a line").parse().expect("a number");
                assert!(restored >= 1, "{what}: {answer}");
                assert!(answer.contains("classes not restored: 0\n"), "{what}: {answer}");
                let options = format!("port=off,logs={}", logs.display());
                let error = fails(&["attach", &pid, &options]);
                assert!(error.contains("the JVM refuses"), "{what}: {error}");
            }
            expect_work(&mut program, &what);
            let said = expect_success(&program.end(), &what);
            let off: Vec<_> =
                said.iter().filter(|line| line.contains("profiling is off")).collect();
            let refused = usize::from(["run", "finish", "detach"].contains(&stage));
            assert_eq!(off.len(), 1 + refused, "{what}: {said:?}");
        }
    });
}

/// With `strict`, the JVM does not start.
#[test]
fn a_panic_while_loading_ends_a_strict_jvm() {
    at_once(jdks(), |jdk| {
        let java = Java::new(jdk).agent("debug=fault:load,strict,port=off");
        let finished = java.main(classes(), "programs.Phases").run();
        assert!(finished.status.is_some_and(|status| status != 0), "{jdk}: {finished:?}");
        assert!(finished.stderr.contains("the JVM does not start"), "{jdk}: {finished:?}");
    });
}

#[test]
fn what_is_in_the_way_of_an_attach_is_named_and_left_alone() {
    at_once(jdks(), |jdk| {
        println!("{jdk}");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (cwd, logs) = (folder.path().join("cwd"), folder.path().join("logs"));
        fs::create_dir(&cwd).expect("a folder");
        let mut program = Java::new(jdk).folder(&cwd).main(classes(), "programs.Phases").talk();
        assert_eq!(program.ask("wait"), "ready");
        let pid = program.program.pid().to_string();
        let options = format!("include=programs.Phases$*,port=off,logs={}", logs.display());
        let attach = || fails(&["attach", &pid, &options]);

        let trigger = cwd.join(format!(".attach_pid{pid}"));
        make_pipe(&trigger);
        assert!(attach().ends_with(": not a file of the JVM's user; delete it\n"), "{jdk}");
        let found = fs::symlink_metadata(&trigger).expect("it is left alone");
        assert!(found.file_type().is_fifo(), "{jdk}");
        fs::remove_file(&trigger).expect("a pipe");

        let secret = folder.path().join("secret");
        fs::write(&secret, "kept").expect("a file");
        symlink(&secret, &trigger).expect("a link");
        assert!(attach().ends_with(": not a file of the JVM's user; delete it\n"), "{jdk}");
        assert_eq!(fs::read_to_string(&secret).expect("a file"), "kept");
        fs::remove_file(&trigger).expect("a link");

        let socket = Path::new("/tmp").join(format!(".java_pid{pid}"));
        make_pipe(&socket);
        let error = attach();
        fs::remove_file(&socket).expect("a pipe");
        assert!(error.ends_with(": not a socket; delete it\n"), "{jdk}: {error}");

        let config = folder.path().join("pipe.toml");
        make_pipe(&config);
        let error = fails(&["attach", &pid, &format!("config={}", config.display())]);
        assert!(error.ends_with("pipe.toml: not a file\n"), "{jdk}: {error}");

        // The JVM got no signal in all this, or it would have dumped its threads.
        expect_work(&mut program, "nothing in between");
        succeeds(&["attach", &pid, &options]);
        succeeds(&["detach", &pid]);
        expect_work(&mut program, "attached and detached");
        assert_eq!(expect_success(&program.end(), "attached"), [""; 0]);
    });
}

/// Runs the program, which must start in time and print one line.
fn expect_start(java: Java, options: &str, what: &str) -> String {
    let java = java.agent(options).main(classes(), "programs.Phases");
    let began = Instant::now();
    let mut program = java.talk();
    expect_work(&mut program, what);
    let took = began.elapsed();
    assert!(took < BOUND, "{what}: {took:?}");
    let said = expect_success(&program.end(), what);
    let [line] = &*said else { panic!("{what}: {said:?}") };
    assert!(line.ends_with("; profiling is off"), "{what}: {line}");
    line.clone()
}

#[test]
fn a_pipe_for_a_file_of_options_does_not_hold_up_the_jvm() {
    at_once(jdks(), |jdk| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["pipe.toml", "pipe.properties"] {
            let pipe = folder.path().join(name);
            make_pipe(&pipe);
            let options = format!("config={}", pipe.display());
            let line = expect_start(Java::new(jdk), &options, &format!("{jdk}: {name}"));
            assert!(line.contains(&format!("{name}: not a file")), "{jdk}: {line}");
            let strict = Java::new(jdk).agent(&format!("{options},strict"));
            let finished = strict.main(classes(), "programs.Phases").run();
            assert!(finished.status.is_some_and(|status| status != 0), "{jdk}: {finished:?}");
        }
    });
}

#[test]
fn a_log_folder_that_never_answers_does_not_hold_up_the_jvm() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(mount) = hung_mount(folder.path()) else {
        return skipped("no FUSE file system can be mounted here");
    };
    at_once(jdks(), |jdk| {
        let hung = folder.path().display();
        for options in
            [format!("logs={hung}/logs,port=off"), format!("config={hung}/shop.toml,port=off")]
        {
            let what = format!("{jdk}: {options}");
            let line = expect_start(Java::with_mounts(jdk, &mount), &options, &what);
            assert!(line.contains("did not answer within 2 s"), "{what}: {line}");
        }
    });
}

/// An attach refuses a folder that does not answer, and gives up one that stops answering later. The service goes on
/// meanwhile, and can be attached to when the disk answers again.
#[test]
fn an_attach_to_a_log_folder_that_hangs_times_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let hung = folder.path().join("hung");
    fs::create_dir(&hung).expect("a folder");
    let Some(mount) = hung_mount(&hung) else {
        return skipped("no FUSE file system can be mounted here");
    };
    let jdk = jdks().last().expect("a JDK");
    let java = Java::with_mounts(jdk, &mount).main(classes(), "programs.Phases");
    let mut program = java.talk();
    expect_work(&mut program, "before");
    let pid = program.program.pid().to_string();
    let options =
        |logs: &Path| format!("include=programs.Phases$*,port=off,logs={}/logs", logs.display());
    fails(&["attach", &pid, &options(&hung)]);
    let mut attach = Command::new(&artifacts().tprofiler)
        .args(["attach", &pid, &format!("{},debug=fault:hang", options(folder.path()))])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tprofiler runs");
    let began = Instant::now();
    while attach.try_wait().expect("a state").is_none() {
        assert!(began.elapsed() < Duration::from_secs(60), "the attach hangs");
        expect_work(&mut program, "meanwhile");
        std::thread::sleep(Duration::from_millis(100));
    }
    let output = attach.wait_with_output().expect("its output");
    let said = without_notice(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    let runs = || fs::read_dir(folder.path().join("logs")).map_or(0, Iterator::count);
    wait_until("the end of what came too late", || runs() == 0);
    succeeds(&["attach", &pid, &options(folder.path())]);
    succeeds(&["detach", &pid]);
    let said = expect_success(&program.end(), "attached");
    let [refused, late] = &*said else { panic!("{said:?}") };
    assert!(refused.contains("did not answer within 2 s"), "{refused}");
    assert!(late.contains("not ready within 30 s"), "{late}");
}

/// The JVM's start gives up; an agent thread that begins later does nothing and leaves nothing behind.
#[test]
fn an_agent_that_is_ready_too_late_does_not_begin() {
    at_once(jdks(), |jdk| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, port) = (folder.path().join("logs"), free_port());
        let runs = || fs::read_dir(&logs).map_or(0, Iterator::count);
        let options = format!(
            "include=programs.Phases$*,debug=fault:hang,port={port},logs={}",
            logs.display()
        );
        let mut program = Java::new(jdk).agent(&options).main(classes(), "programs.Phases").talk();
        let what = format!("{jdk}: hang");
        expect_work(&mut program, &what);
        let pid = program.program.pid();
        let is_late = || {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("a process").flatten();
            let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
            names.into_iter().any(|name| name.starts_with("tprofiler"))
        };
        assert!(is_late() && runs() == 1, "{jdk}: the JVM waited for the agent thread");
        wait_until("the end of the agent thread", || !is_late());
        assert_eq!(runs(), 0, "{jdk}: {logs:?}");
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{jdk}");
        expect_work(&mut program, &what);
        // It can be attached to from now on, and has no class with probes.
        let pid = pid.to_string();
        let attach = format!("include=programs.Phases$*,port={port},logs={}", logs.display());
        succeeds(&["attach", &pid, &attach]);
        let status = succeeds(&["status", "--pid", &pid]);
        assert!(status.contains("\ncalls seen: 0\n"), "{jdk}: {status}");
        succeeds(&["detach", &pid]);
        let said = expect_success(&program.end(), &what);
        let [line] = &*said else { panic!("{what}: {said:?}") };
        assert!(line.contains("not ready within 2 s"), "{what}: {line}");
        assert!(line.ends_with("; profiling is off"), "{what}: {line}");
    });
}

/// The JVM's start waits for classes to be instrumented, but not forever.
#[test]
fn slow_instrumenting_does_not_hold_up_the_jvm() {
    let jdk = jdks().last().expect("a JDK");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let logs = folder.path().join("logs");
    let options =
        format!("include=programs.Phases$*,debug=fault:slow,port=off,logs={}", logs.display());
    let mut program = Java::new(jdk).agent(&options).main(classes(), "programs.Phases").talk();
    expect_work(&mut program, "slow");
    let said = expect_success(&program.end(), "slow");
    assert!(said.iter().any(|line| line.contains("still being instrumented")), "{said:?}");
}

/// A pipe that nobody reads and that has no more room.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = pipe().expect("a pipe");
    // Its file, opened once more, has flags of its own.
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let mut filler = OpenOptions::new()
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .expect("the pipe once more");
    for length in [4_096, 1] {
        let full = (0..1 << 20).find_map(|_| filler.write_all(&vec![b'\n'; length]).err());
        assert_eq!(full.expect("it is full").kind(), ErrorKind::WouldBlock);
    }
    (reader, writer)
}

/// Nobody reads the JVM's stderr. The agent prints a message at the start in one run, at the end in the other.
#[test]
fn a_full_stderr_stops_nothing() {
    at_once(jdks(), |jdk| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (options, messages) in [
            ("include=programs.Phases,nonsense=1", &["unknown option"][..]),
            ("include=programs.Nothing", &["has met no class so far"]),
        ] {
            let options = format!("{options},port=off,logs={}", folder.path().display());
            let (mut reader, writer) = full_pipe();
            let java = Java::new(jdk).agent(&options).stderr(writer);
            let begun = Instant::now();
            let mut program = java.main(classes(), "programs.Phases").talk();
            expect_work(&mut program, &options);
            let finished = program.end();
            assert_eq!(finished.status, Some(0), "{jdk}: {options}");
            assert!(begun.elapsed() < BOUND, "{jdk}: {options}: {:?}", begun.elapsed());
            // What the agent could not write is lost.
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("text");
            assert!(!messages.iter().any(|message| text.contains(message)), "{jdk}: {text}");
        }
    });
}

/// What a sample costs is measured with samples that come faster than this machine can take them.
#[test]
fn slow_interruptions_do_not_hold_up_the_jvm() {
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).status();
    if !traced.is_ok_and(|status| status.success()) {
        return skipped(
            "strace is missing, or may trace nothing: install the Debian package strace",
        );
    }
    let jdk = &jdks()[0];
    for cpu in ["10ms", "1ms"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = format!(
            "include=programs.Phases,port={port},logs={},engine=perf,cpu={cpu}",
            folder.path().display()
        );
        let java = Java::traced(jdk).agent(&options).main(classes(), "programs.Phases");
        let mut program = java.talk();
        expect_work(&mut program, cpu);
        wait_until("samples", || {
            tprofiler_json(port, &["status"])["cpu_samples"].as_u64() > Some(0)
        });
        let finished = program.end();
        assert_eq!(expect_success(&finished, cpu), Vec::<String>::new(), "{cpu}");
    }
}
