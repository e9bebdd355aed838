//! The agent attaches to running JVMs and detaches: counts are exact in between, classes have their original bytes
//! afterwards, and a JVM that cannot be attached to is left alone, with a reason.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use test_classes::attaching::{
    WORK, command, end, expect_calls, fails, make_calls, phases, succeeds, tprofiler_with,
};
use test_classes::{
    Dialogue, Java, Profile, bytecode_agent, classes, field, free_port, jdks, wait_until,
};

#[test]
fn counts_are_exact_from_attach_to_detach_and_again() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut program = phases(jdk, &[]);
        let pid = program.program.pid().to_string();
        make_calls(&mut program, 500);
        for (run, rounds) in [(1, 1_000), (2, 70), (3, 5)] {
            let port = free_port();
            let options = format!("include=programs.Phases$*,leaves=keep,overhead=off,port={port}");
            // The log folder is relative to this command's folder.
            let attached = command(&["attach", &pid, &options]).current_dir(folder.path()).output();
            let attached = attached.expect("tprofiler runs");
            assert!(attached.status.success(), "{jdk}: {attached:?}");
            let attached = String::from_utf8(attached.stdout).expect("text");
            assert_eq!(field(&attached, "pid"), pid, "{jdk}");
            assert_eq!(field(&attached, "profiling"), "on", "{jdk}");
            assert_eq!(field(&attached, "port"), port.to_string(), "{jdk}");
            let loaded: u64 = field(&attached, "classes retransformed").parse().expect("a number");
            assert!(loaded >= 1, "{jdk}: {attached}");
            assert!(
                [" us", " ms"].iter().any(|unit| field(&attached, "longest pause").ends_with(unit))
            );
            make_calls(&mut program, rounds);
            // Loaded now for the first time, and only once.
            assert_eq!(program.ask("load"), format!("late {run}"));

            let detached = succeeds(&["detach", &pid]);
            let restored: u64 = field(&detached, "classes restored").parse().expect("a number");
            assert!(restored >= 2, "{jdk}: {detached}");
            assert_eq!(field(&detached, "classes not restored"), "0", "{jdk}");
            assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "{jdk}: the port");
            make_calls(&mut program, 50);
            let runs = Profile::runs(&folder.path().join("logs"));
            assert_eq!(runs.len(), run, "{jdk}: each attachment is a run of its own");
        }
        let runs = Profile::runs(&folder.path().join("logs"));
        let mut rounds: Vec<u64> = Vec::new();
        for run in &runs {
            let profile = Profile::read(run);
            let outer = profile.counts[&format!("{WORK} outer (I)V")].calls;
            expect_calls(&profile, outer, jdk);
            assert_eq!(profile.counts["programs.Phases$Late called ()I"].calls, 1, "{jdk}");
            rounds.push(outer);
        }
        rounds.sort_unstable();
        assert_eq!(rounds, [5, 70, 1_000], "{jdk}");
        end(program, jdk);
    }
}

#[test]
fn a_detach_gives_classes_their_own_bytes() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str| folder.path().join(name);
        let codes = |name: &str, between: &dyn Fn(&str, &mut Dialogue)| {
            let path = file(name);
            let agent = bytecode_agent().display();
            let agent = format!("-agentpath:{agent}=programs/Phases,{}", path.display());
            let mut program = phases(jdk, &[&agent]);
            make_calls(&mut program, 10);
            let pid = program.program.pid().to_string();
            between(&pid, &mut program);
            make_calls(&mut program, 10);
            program.ask("load");
            end(program, jdk);
            fs::read_to_string(path).expect("the agent's file")
        };
        let options = format!(
            "include=programs,retransform=even-running,leaves=keep,overhead=off,port=off,logs={}",
            file("logs").display()
        );
        let attach = |pid: &str, program: &mut Dialogue| {
            succeeds(&["attach", pid, &options]);
            program.ask("load");
        };
        let plain = codes("plain", &|_, program| drop(program.ask("load")));
        assert!(plain.lines().count() >= 8, "{plain}");
        assert_ne!(codes("attached", &attach), plain, "{jdk}");
        let detached = codes("detached", &|pid, program| {
            attach(pid, program);
            succeeds(&["detach", pid]);
            succeeds(&["attach", pid, &options]);
            succeeds(&["detach", pid]);
        });
        assert_eq!(detached, plain, "{jdk}");
    }
}

#[test]
fn an_agent_that_came_with_the_jvm_goes_and_comes_too() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = |name: &str| {
            let logs = folder.path().join(name);
            format!(
                "include=programs.Phases$*,leaves=keep,overhead=off,port=off,logs={}",
                logs.display()
            )
        };
        let java = Java::new(jdk).agent(&options("first"));
        let mut program = java.main(classes(), "programs.Phases").talk();
        make_calls(&mut program, 30);
        let pid = program.program.pid().to_string();
        let refused = fails(&["attach", &pid, &options("second")]);
        assert!(refused.contains("the agent is in it already"), "{jdk}: {refused}");
        succeeds(&["detach", &pid]);
        make_calls(&mut program, 1);
        succeeds(&["attach", &pid, &options("second")]);
        make_calls(&mut program, 40);
        end(program, jdk);
        expect_calls(&Profile::only_run(&folder.path().join("first")), 30, jdk);
        expect_calls(&Profile::only_run(&folder.path().join("second")), 40, jdk);
    }
}

#[test]
fn what_cannot_be_done_is_reported_in_one_line_and_does_no_harm() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut program = phases(jdk, &[]);
        let pid = program.program.pid().to_string();
        let refused = |arguments: &[&str], reason: &str| {
            let message = fails(arguments);
            let is_named = message.starts_with(&format!("tprofiler: {}: ", arguments[1]));
            assert!(is_named && message.contains(reason), "{jdk}: {message}");
        };
        refused(&["detach", &pid], "the agent is not attached to it");
        refused(&["attach", &pid, "colour=red"], "unknown option 'colour'");
        refused(&["attach", &pid, "threshold=fast"], "'fast' is not a duration");
        refused(&["attach", &pid, "", "--agent", "/no/such/lib.so"], "cannot see /no/such/lib.so");
        let no_agent = folder.path().join("none.so");
        fs::write(&no_agent, "no library").expect("a file");
        let no_agent = no_agent.to_str().expect("text");
        refused(&["attach", &pid, "logs=/tmp", "--agent", no_agent], "refuses the library: ");
        assert_eq!(program.ask("wait"), "ready", "{jdk}");
        let options = format!("port=off,logs={}", folder.path().join("logs").display());
        succeeds(&["attach", &pid, &options]);
        refused(&["attach", &pid, &options], "the agent is in it already");
        succeeds(&["detach", &pid]);
        refused(&["detach", &pid], "the agent is not attached to it");
        make_calls(&mut program, 3);
        // The JVM may warn about the file that is not a library.
        assert_eq!(program.end().status, Some(0), "{jdk}");
    }
}

/// Attaches to a JVM of which nothing is known yet but its process.
fn attach_early(pid: &str, options: &str) -> Output {
    let mut attached = None;
    wait_until("the launcher has loaded the JVM", || {
        let output = tprofiler_with(&["attach", pid, options]);
        let is_jvm = !String::from_utf8_lossy(&output.stderr).contains("it is no JVM");
        attached = Some(output).filter(|_| is_jvm);
        is_jvm
    });
    attached.expect("it was tried")
}

/// A JVM that has only just begun first ignores requests to listen, or forgets them, and then refuses agents.
#[test]
fn a_jvm_in_its_start_is_attached_to() {
    for jdk in jdks() {
        for has_stale_socket in [false, true, false, true] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let java = match has_stale_socket {
                true => Java::with_stale_socket(jdk),
                false => Java::new(jdk),
            };
            let mut program = java.main(classes(), "programs.Phases").talk();
            let options = format!(
                "include=programs.Phases$*,leaves=keep,overhead=off,port=off,logs={}",
                folder.path().display()
            );
            let output = attach_early(&program.program.pid().to_string(), &options);
            assert!(output.status.success(), "{jdk}, stale socket: {has_stale_socket}: {output:?}");
            assert_eq!(program.ask("wait"), "ready");
            make_calls(&mut program, 3);
            end(program, jdk);
            expect_calls(&Profile::only_run(folder.path()), 3, jdk);
        }
    }
}

/// The agent of the command line has the JVM for itself, also before it has begun.
#[test]
fn a_jvm_that_starts_with_the_agent_refuses_another() {
    for jdk in jdks() {
        for _ in 0..4 {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let options = format!(
                "include=programs.Phases$*,leaves=keep,overhead=off,port=off,logs={}",
                folder.path().display()
            );
            let java = Java::new(jdk).agent(&options).main(classes(), "programs.Phases");
            let mut program = java.talk();
            let output = attach_early(&program.program.pid().to_string(), "logs=/tmp,port=off");
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{jdk}: {message}");
            assert!(message.contains(" already"), "{jdk}: {message}");
            assert_eq!(program.ask("wait"), "ready");
            make_calls(&mut program, 3);
            let finished = program.end();
            assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
            expect_calls(&Profile::only_run(folder.path()), 3, jdk);
        }
    }
}

/// SIGQUIT would end such a JVM. It listens for attaches from the start.
#[test]
fn a_jvm_that_leaves_signals_alone_is_attached_to_without_one() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut program = phases(jdk, &["-Xrs"]);
        let pid = program.program.pid().to_string();
        let options = format!(
            "include=programs.Phases$*,leaves=keep,overhead=off,port=off,logs={}",
            folder.path().display()
        );
        succeeds(&["attach", &pid, &options]);
        make_calls(&mut program, 3);
        end(program, jdk);
        expect_calls(&Profile::only_run(folder.path()), 3, jdk);
    }
}

/// The agent prints the error on the JVM's stderr; the command learns only that there is one.
#[test]
fn a_log_folder_that_cannot_be_used_attaches_nothing() {
    for jdk in jdks() {
        let program = phases(jdk, &[]);
        let pid = program.program.pid().to_string();
        let message = fails(&["attach", &pid, "logs=/proc/nowhere"]);
        assert!(message.contains("the JVM's user cannot write to "), "{jdk}: {message}");
        assert!(succeeds(&["list"]).contains(&format!("{pid}  detached")), "{jdk}");
        let finished = program.end();
        assert_eq!(finished.status, Some(0), "{jdk}");
        assert!(finished.stderr.contains("tprofiler: logs: /proc/nowhere: "), "{jdk}");
    }
}

#[test]
fn jvms_that_refuse_are_left_as_they_are() {
    for jdk in jdks() {
        for (option, reason) in [
            ("-XX:+DisableAttachMechanism", "runs with -XX:+DisableAttachMechanism"),
            ("-XX:-EnableDynamicAgentLoading", "the JVM refuses the library: "),
        ] {
            let mut program = phases(jdk, &[option]);
            let pid = program.program.pid().to_string();
            let message = fails(&["attach", &pid, "logs=/tmp"]);
            assert!(message.contains(reason), "{jdk} {option}: {message}");
            make_calls(&mut program, 3);
            let finished = program.end();
            assert_eq!((finished.status, &*finished.stdout), (Some(0), ""), "{jdk} {option}");
        }
    }
}

/// It would print a thread dump once it goes on; one that listens already would attach then.
#[test]
fn a_stopped_jvm_is_left_alone() {
    for (jdk, listens) in jdks().iter().flat_map(|jdk| [(jdk, false), (jdk, true)]) {
        let options: &[&str] = if listens { &["-XX:+StartAttachListener"] } else { &[] };
        let mut program = phases(jdk, options);
        let pid = program.program.pid().to_string();
        let signal = |name: &str| {
            let sent = Command::new("kill").args([name, &pid]).status().expect("kill runs");
            assert!(sent.success(), "{jdk}");
        };
        signal("-STOP");
        // On a busy machine it takes a while until each thread has stopped.
        until_stopped(&pid);
        let message = fails(&["attach", &pid, "logs=/tmp"]);
        assert!(message.contains("the JVM is stopped"), "{jdk}: {message}");
        signal("-CONT");
        make_calls(&mut program, 3);
        assert!(!succeeds(&["list"]).contains(&format!("{pid}  attached")), "{jdk}");
        let finished = program.end();
        assert_eq!((finished.status, &*finished.stdout), (Some(0), ""), "{jdk}");
    }
}

fn until_stopped(pid: &str) {
    let is_stopped = |task: &Path| {
        fs::read_to_string(task.join("status")).is_ok_and(|status| status.contains("State:\tT"))
    };
    wait_until("each thread has stopped", || {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the JVM lives");
        tasks.flatten().all(|task| is_stopped(&task.path()))
    });
}

/// A JVM with attach disabled does not answer. Where `tprofiler` cannot read its options, it stops waiting after a
/// time.
#[test]
fn a_jvm_that_does_not_answer_times_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("options");
    fs::write(&file, "-XX:+DisableAttachMechanism\n").expect("a file");
    let program = phases(&jdks()[0], &[&format!("@{}", file.display())]);
    let message = fails(&["attach", &program.program.pid().to_string(), "logs=/tmp"]);
    assert!(message.contains("the JVM does not listen within 10 s"), "{message}");
    assert_eq!(program.end().status, Some(0));
}

#[test]
fn what_is_no_jvm_is_not_touched() {
    let message = fails(&["attach", "4194305"]);
    assert!(message.contains("no such process"), "{message}");
    // SIGQUIT would end it.
    let mut other = Command::new("sleep").arg("60").spawn().expect("sleep runs");
    for command in ["attach", "detach"] {
        let message = fails(&[command, &other.id().to_string()]);
        assert!(message.contains("it is no JVM"), "{message}");
    }
    assert!(other.try_wait().expect("a child").is_none(), "it has ended");
    other.kill().expect("a child");
    other.wait().expect("a child");
}

#[test]
fn a_list_shows_jvms_with_the_agent_and_without() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = format!("port={port},logs={}", folder.path().display());
        let plain = phases(jdk, &["-ea", "--add-modules", "java.logging"]);
        let with = Java::new(jdk).agent(&options).main(classes(), "programs.Phases").talk();
        let (plain_pid, with_pid) = (plain.program.pid(), with.program.pid());
        wait_until("the agent", || succeeds(&["list"]).contains(&port.to_string()));
        let json: Value = serde_json::from_str(&succeeds(&["list", "--json"])).expect("JSON");
        let is_listed =
            |jvm: Value| json["jvms"].as_array().is_some_and(|jvms| jvms.contains(&jvm));
        for (pid, agent, port) in
            [(plain_pid, None, None), (with_pid, Some("attached"), Some(port))]
        {
            let jvm =
                json!({"pid": pid, "agent": agent, "port": port, "program": "programs.Phases"});
            assert!(is_listed(jvm), "{jdk}: {json}");
        }
        let list = succeeds(&["list"]);
        for row in [
            "    PID  AGENT       PORT  PROGRAM\n".to_owned(),
            format!("{plain_pid:>7}  -              -  programs.Phases\n"),
            format!("{with_pid:>7}  attached   {port}  programs.Phases\n"),
        ] {
            assert!(list.contains(&row), "{jdk}: {row:?} in\n{list}");
        }
        end(plain, jdk);
        end(with, jdk);
    }
}
