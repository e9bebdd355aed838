//! The agent attaches to running JVMs and detaches: counts are exact in between, classes have their original bytes
//! afterwards, and a JVM that cannot be attached to is left alone, with a reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use log_format::rows::counter;
use test_classes::{
    Counts, Dialogue, Finished, Java, Jdk, Profile, artifacts, bytecode_agent, classes, field,
    free_port, has_thread, jdks, jdks_from, rounds, tprofiler_json, wait_until, without_notice,
};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(&artifacts().tprofiler);
    command.args(arguments);
    command
}

fn tprofiler(arguments: &[&str]) -> Output {
    command(arguments).output().expect("tprofiler runs")
}

/// The output of a command that must succeed.
fn succeeds(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = tprofiler(arguments);
    let stderr = without_notice(&stderr);
    assert!(status.success() && stderr.is_empty(), "{arguments:?}: {status} {stderr}");
    String::from_utf8(stdout).expect("text")
}

/// The single line on stderr of a command that must fail.
fn fails(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = tprofiler(arguments);
    let stderr = without_notice(&stderr);
    assert_eq!((status.code(), &*stdout), (Some(1), &b""[..]), "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    stderr
}

/// `programs.Phases`, which takes commands.
fn phases(jdk: &Jdk, options: &[&str]) -> Dialogue {
    // Shown if the test fails.
    println!("{jdk} {options:?}");
    let mut program = Java::new(jdk).args(options).main(classes(), "programs.Phases").talk();
    assert_eq!(program.ask("wait"), "ready");
    program
}

/// Ends it: it must end well, and stderr may only have the JVM's own warning about a dynamically loaded agent.
fn end(program: Dialogue, what: &impl std::fmt::Display) {
    expect_success(&program.end(), what);
}

fn expect_success(finished: &Finished, what: &impl std::fmt::Display) {
    let is_of_jvm = |line: &&str| line.starts_with("WARNING: ");
    let (jvms, others): (Vec<&str>, Vec<&str>) = finished.stderr.lines().partition(is_of_jvm);
    assert_eq!((finished.status, others), (Some(0), vec![]), "{what}");
    assert!(jvms.is_empty() || jvms[0].contains("loaded dynamically"), "{what}: {jvms:?}");
}

const WORK: &str = "programs.Phases$Work";

fn counts_of(rounds: u64) -> BTreeMap<String, Counts> {
    // Of three consecutive numbers from 0, 1, 2 and so on, those divisible by 5.
    let thrown = (0..rounds).map(|i| (i..i + 3).filter(|n| n % 5 == 0).count() as u64).sum();
    [("outer (I)V", rounds, 0), ("middle (I)V", 3 * rounds, thrown), ("leaf (I)V", 3 * rounds, 0)]
        .into_iter()
        .map(|(name, calls, throws)| (format!("{WORK} {name}"), Counts { calls, throws }))
        .collect()
}

/// Makes the program call methods, and compares its own counts.
fn make_calls(program: &mut Dialogue, rounds: u64) {
    let counts = counts_of(rounds);
    let [leaf, middle, outer] =
        ["leaf", "middle", "outer"].map(|name| counts[&format!("{WORK} {name} (I)V")]);
    assert_eq!(
        program.ask(&format!("calls {rounds}")),
        format!(
            "outer {} middle {} thrown {} leaf {}",
            outer.calls, middle.calls, middle.throws, leaf.calls
        )
    );
}

/// Asserts that a run has exactly the calls of these rounds.
fn expect_calls(profile: &Profile, rounds: u64, what: &impl std::fmt::Display) {
    let mut counts = profile.counts.clone();
    counts.retain(|name, _| name.starts_with(&format!("{WORK} ")) && !name.contains("<init>"));
    assert_eq!(counts, counts_of(rounds), "{what}");
    for lost in [counter::LOST_CALLS, counter::UNSEEN_ENDS, counter::NOT_INSTRUMENTED] {
        assert_eq!(profile.counter(lost), 0, "{what}: {lost}");
    }
}

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
fn what_cannot_be_done_is_said_in_one_line_and_harms_nobody() {
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
        let output = tprofiler(&["attach", pid, options]);
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
        let message = fails(&["attach", &pid, "logs=/tmp"]);
        assert!(message.contains("the JVM is stopped"), "{jdk}: {message}");
        signal("-CONT");
        make_calls(&mut program, 3);
        assert!(!succeeds(&["list"]).contains(&format!("{pid}  attached")), "{jdk}");
        let finished = program.end();
        assert_eq!((finished.status, &*finished.stdout), (Some(0), ""), "{jdk}");
    }
}

/// A JVM with attach disabled does not answer. Where `tprofiler` cannot read its options, it stops waiting after a time.
#[test]
fn a_jvm_that_does_not_answer_is_given_up() {
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

/// Runs `tprofiler profile`, with a thread that makes the program call methods meanwhile.
fn profile(pid: &str, folder: &Path, duration: &str) -> Child {
    let port = free_port();
    let options = format!("include=programs.Phases$*,leaves=keep,overhead=off,port={port}");
    command(&["profile", pid, "-d", duration, &options])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tprofiler runs")
}

fn expect_report(output: &Output, folder: &Path, jdk: &Jdk) {
    let report = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{jdk}: {stderr}");
    assert!(report.contains("programs.Phases$Work.outer(int)"), "{jdk}: {report}");
    assert!(stderr.contains("more reports: analyze "), "{jdk}: {stderr}");
    expect_calls(&Profile::only_run(&folder.join("logs")), 200, jdk);
}

fn wait_until_attached(pid: &str) {
    let row = format!("{pid}  attached");
    wait_until("the agent", || succeeds(&["list"]).contains(&row));
}

#[test]
fn profile_records_for_a_while_and_leaves_the_jvm_as_it_was() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut program = phases(jdk, &[]);
        let pid = program.program.pid().to_string();
        let profiling = profile(&pid, folder.path(), "3s");
        wait_until_attached(&pid);
        let refused = fails(&["profile", &pid, "-d", "1s"]);
        assert!(refused.contains("the agent is in it already"), "{jdk}: {refused}");
        make_calls(&mut program, 200);
        let output = profiling.wait_with_output().expect("tprofiler runs");
        make_calls(&mut program, 10);
        expect_report(&output, folder.path(), jdk);
        assert!(succeeds(&["list"]).contains(&format!("{pid}  detached")), "{jdk}");
        end(program, jdk);
    }
}

#[test]
fn profile_ends_on_a_signal_and_leaves_the_jvm_as_it_was() {
    for jdk in jdks() {
        for signal in ["-INT", "-TERM"] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut program = phases(jdk, &[]);
            let pid = program.program.pid().to_string();
            let profiling = profile(&pid, folder.path(), "10m");
            wait_until_attached(&pid);
            make_calls(&mut program, 200);
            let sent = Command::new("kill").args([signal, &profiling.id().to_string()]).status();
            assert!(sent.is_ok_and(|status| status.success()));
            let output = profiling.wait_with_output().expect("tprofiler runs");
            make_calls(&mut program, 10);
            expect_report(&output, folder.path(), jdk);
            assert!(succeeds(&["list"]).contains(&format!("{pid}  detached")), "{jdk}");
            end(program, jdk);
        }
    }
}

#[test]
fn profile_of_a_jvm_that_ends_prints_what_there_is() {
    let jdk = &jdks()[0];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut program = phases(jdk, &[]);
    let pid = program.program.pid().to_string();
    let profiling = profile(&pid, folder.path(), "10m");
    wait_until_attached(&pid);
    make_calls(&mut program, 200);
    end(program, jdk);
    let output = profiling.wait_with_output().expect("tprofiler runs");
    expect_report(&output, folder.path(), jdk);
    assert!(String::from_utf8_lossy(&output.stderr).contains("the JVM has ended"));
}

#[test]
fn profile_of_nothing_says_why() {
    let jdk = &jdks()[0];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = phases(jdk, &[]);
    let pid = program.program.pid().to_string();
    let options = format!("include=programs.Phasen,port={}", free_port());
    let mut profile = command(&["profile", &pid, "-d", "1s", &options]);
    let output = profile.current_dir(folder.path()).output().expect("tprofiler runs");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let hint =
        "tprofiler: include=programs.Phasen has met no class so far; nearest: programs.Phases";
    assert!(said.contains(hint), "{said}");
    // The service's own stderr has it too.
    let finished = program.end();
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    assert!(finished.stderr.contains(hint), "{}", finished.stderr);
}

#[test]
fn profile_of_a_jvm_that_somebody_else_detaches_prints_what_there_is() {
    let jdk = &jdks()[0];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut program = phases(jdk, &[]);
    let pid = program.program.pid().to_string();
    let profiling = profile(&pid, folder.path(), "4s");
    wait_until_attached(&pid);
    make_calls(&mut program, 200);
    succeeds(&["detach", &pid]);
    let output = profiling.wait_with_output().expect("tprofiler runs");
    expect_report(&output, folder.path(), jdk);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the agent was detached by somebody else"), "{said}");
    end(program, jdk);
    let nothing = fails(&["profile", &pid, "start=off"]);
    assert!(nothing.contains("with start=off there is nothing to report"), "{nothing}");
}

/// Threads are in probes all the time while the agent attaches and detaches.
#[test]
fn coming_and_going_under_load_harms_nothing() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, stop) = (folder.path().join("logs"), folder.path().join("stop"));
        let program = Java::new(jdk).main(classes(), "programs.Busy").arg("4").arg(&stop).start();
        let pid = program.pid().to_string();
        wait_until("the program's threads", || has_thread(program.pid(), "worker-3"));
        let options = format!(
            "include=programs.Busy,retransform=even-running,leaves=keep,overhead=off,\
             threshold=50us,port=off,logs={}",
            logs.display()
        );
        succeeds(&["attach", &pid, &options]);
        let rounds = rounds(7, 15);
        for _ in 0..rounds {
            std::thread::sleep(Duration::from_millis(30));
            succeeds(&["detach", &pid]);
            succeeds(&["attach", &pid, &options]);
        }
        fs::write(&stop, "").expect("a file");
        let finished = program.wait();
        expect_success(&finished, jdk);
        let truth = finished.numbers();
        assert_eq!(truth["threads"], 4, "{jdk}: a thread was lost");
        let profiles: Vec<Profile> =
            Profile::runs(&logs).iter().map(|r| Profile::read(r)).collect();
        assert_eq!(profiles.len() as u32, rounds + 1, "{jdk}");
        for name in ["outer", "middle", "leaf"] {
            let calls = |profile: &Profile| {
                let name = format!("programs.Busy$Worker {name} (I)V");
                profile.counts.get(&name).map_or(0, |counts| counts.calls)
            };
            let all: u64 = profiles.iter().map(calls).sum();
            assert!(all > 0 && all <= truth[name], "{jdk}: {name}: {all} of {}", truth[name]);
        }
        for profile in &profiles {
            assert_eq!(profile.counter(counter::LOST_CALLS), 0, "{jdk}");
        }
    }
}

/// Attaches and detaches at the same moment: each succeeds or gives a reason, and none blocks later ones.
#[test]
fn coming_and_going_at_the_same_moment_harms_nothing() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        let mut program = phases(jdk, &[]);
        let pid = program.program.pid().to_string();
        let options = format!(
            "include=programs.Phases$*,leaves=keep,overhead=off,port=off,logs={}",
            logs.display()
        );
        let (mut attached, mut detached) = (0, 0);
        for round in 0..12 {
            let start = |arguments: &[&str]| {
                let mut command = command(arguments);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
            };
            let running = [
                start(&["attach", &pid, &options]),
                start(&["detach", &pid]),
                start(&["attach", &pid, &options]),
                start(&["detach", &pid]),
            ];
            for (number, child) in running.into_iter().enumerate() {
                let output = child.wait_with_output().expect("its output");
                let said = without_notice(&output.stderr);
                match output.status.success() {
                    true if number % 2 == 0 => attached += 1,
                    true => detached += 1,
                    false => assert_eq!(said.lines().count(), 1, "{jdk}, {round}: {said}"),
                }
            }
        }
        assert!(attached > 0 && detached > 0, "{jdk}: {attached} {detached}");
        // Whatever the last round left behind.
        let _ = tprofiler(&["detach", &pid]);
        succeeds(&["attach", &pid, &options]);
        make_calls(&mut program, 3);
        succeeds(&["detach", &pid]);
        let runs = Profile::runs(&logs);
        let last = Profile::read(runs.iter().max().expect("a run"));
        expect_calls(&last, 3, jdk);
        let finished = program.end();
        assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
    }
}

/// Virtual threads are mounted and unmounted while the agent attaches and detaches.
#[test]
fn coming_and_going_among_virtual_threads_harms_nothing() {
    for jdk in jdks_from(21) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str| folder.path().join(name);
        let java = Java::new(jdk).main(classes(), "virtual.Again").arg(file("counts"));
        let program = java.arg("5000").arg(file("stop")).start();
        let pid = program.pid().to_string();
        wait_until("virtual threads", || has_thread(program.pid(), "ForkJoinPool-1-"));
        let port = free_port();
        let options = format!(
            "include=virtual,retransform=even-running,leaves=keep,overhead=off,port={port},logs={}",
            file("logs").display()
        );
        for number in 1..=8 {
            succeeds(&["attach", &pid, &options]);
            std::thread::sleep(Duration::from_millis(100));
            if number == 8 {
                // Each time may be shorter than the threads take from one call to the next.
                wait_until("calls", || {
                    tprofiler_json(port, &["status"])["calls_seen"].as_u64() > Some(0)
                });
            }
            succeeds(&["detach", &pid]);
        }
        fs::write(file("stop"), "").expect("a file");
        let mut finished = program.wait();
        // If there is a second between an attach and its detach, stderr has these requested messages.
        let is_asked_for = |line: &&str| {
            !line.contains(" was running when its class was retransformed")
                && !line.ends_with(" more loops may be slow until they return")
        };
        let others: Vec<&str> = finished.stderr.lines().filter(is_asked_for).collect();
        finished.stderr = others.join("\n");
        expect_success(&finished, jdk);
        let rounds: u64 = finished.stdout.trim().parse().expect("a number");
        let counts = fs::read_to_string(file("counts")).expect("counts");
        assert_eq!(counts, format!("5000 {} {}", 25_000 * rounds, 5_000 * rounds), "{jdk}");
        let profiles: Vec<Profile> =
            Profile::runs(&file("logs")).iter().map(|run| Profile::read(run)).collect();
        assert_eq!(profiles.len(), 8, "{jdk}");
        let outer = "virtual.Main$Work outer (I)V";
        let calls = |profile: &Profile| profile.counts.get(outer).map_or(0, |c| c.calls);
        let all: u64 = profiles.iter().map(calls).sum();
        assert!(all > 0 && all <= 25_000 * rounds, "{jdk}: {all} in {rounds} rounds");
    }
}
