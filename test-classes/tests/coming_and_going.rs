//! The agent attaches and detaches many times, under load, at the same moment, and among virtual threads.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use log_format::rows::counter;
use test_classes::attaching::{
    command, expect_calls, expect_success, make_calls, phases, succeeds, tprofiler_with,
};
use test_classes::{
    Java, Profile, classes, free_port, has_thread, jdks, jdks_from, rounds, tprofiler_json,
    wait_until, without_notice,
};

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
        let _ = tprofiler_with(&["detach", &pid]);
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
                wait_until("calls of outer", || {
                    let top = tprofiler_json(port, &["top", "1000"]);
                    let mut methods = top["methods"].as_array().into_iter().flatten();
                    methods.any(|of| of["method"] == "outer" && of["calls"].as_u64() > Some(0))
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
