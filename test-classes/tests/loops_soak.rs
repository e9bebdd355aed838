//! Loops of several kinds run for long while methods are muted and the agent stops, starts, detaches and attaches:
//! they stay as fast as without the agent.
//!
//! `SOAK_MINUTES=60` sets the number of rounds, a minute each; without it there are a few short ones.
//! `SOAK_ACTIONS=nothing` uses default options only, `SOAK_JDK=17` the newest runtime of that version.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use test_classes::{Java, Loops, Plain, SHARE, artifacts, found, free_port, tprofiler_json};

/// The actions at the start of the rounds, in turn.
const ACTIONS: [&str; 8] =
    ["nothing", "mute", "unmute", "stop", "start", "detach", "attach", "overhead"];

fn command(arguments: &[&str]) {
    let output = Command::new(&artifacts().tprofiler).args(arguments).output();
    let output = output.expect("tprofiler runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

fn resident_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

fn act(action: &str, port: u16, pid: &str, options: &str) {
    let ask = |arguments: &[&str]| tprofiler_json(port, arguments);
    match action {
        "nothing" => {}
        "mute" => _ = ask(&["mute", "**.help*"]),
        "unmute" => _ = ask(&["unmute", "**"]),
        "stop" | "start" => _ = ask(&[action]),
        "detach" => command(&["detach", pid]),
        "attach" => command(&["attach", pid, options]),
        "overhead" => {
            ask(&["overhead", "off"]);
            ask(&["overhead", "2%"]);
        }
        _ => panic!("SOAK_ACTIONS: {action}"),
    }
}

#[test]
fn loops_stay_fast_for_long() {
    let minutes = std::env::var("SOAK_MINUTES").map(|text| text.parse().expect("a number"));
    let rounds: usize = minutes.clone().unwrap_or(ACTIONS.len());
    let round = Duration::from_secs_f64(if minutes.is_ok() { 60.0 } else { 7.5 });
    let actions = std::env::var("SOAK_ACTIONS");
    let actions: Vec<&str> =
        actions.as_ref().map_or(ACTIONS.to_vec(), |actions| actions.split(',').collect());
    let major = std::env::var("SOAK_JDK").ok().map(|major| major.parse().expect("a number"));
    let jdk = found().iter().rfind(|jdk| major.is_none_or(|major: u32| jdk.major == major));
    let jdk = jdk.expect("a JDK");
    let logs = tempfile::tempdir().expect("a temporary folder");
    let port = free_port();
    let logs_in = logs.path().display();
    // The product's defaults, which differ from the tests' own.
    let options = format!("include=programs,port={port},overhead=2%,leaves=skip,logs={logs_in}");
    // The heap is in memory from the start: otherwise it grows for an hour, even without the agent.
    let heap = ["-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC"];
    let mut plain = Plain::start(Java::new(jdk).args(heap));
    let mut loops = Loops::start(Java::new(jdk).args(heap).agent(&options));
    // Also loops that end after three seconds, and one of a virtual thread that is parked most of the time.
    loops.program.ask("brief 2");
    loops.program.ask("park");
    let pid = loops.pid.to_string();
    let (mut slow, mut residents) = (Vec::new(), Vec::new());
    for number in 0..rounds {
        let begun = Instant::now();
        let action = actions[number % actions.len()];
        act(action, port, &pid, &options);
        thread::sleep((round * 3 / 4).saturating_sub(begun.elapsed()));
        let (share, name) = plain.recovered(&mut loops);
        let status = (action != "detach").then(|| tprofiler_json(port, &["status"]));
        if let Some(status) = &status {
            assert_eq!(status["loops_possibly_caught"], 0, "{jdk}, {number}: {status}");
        }
        let status = status.map_or_else(String::new, |status| {
            let of = |key: &str| status[key].as_u64().unwrap_or_default();
            format!(
                "longest pause {} us, {} loops caught, {} classes postponed",
                of("longest_pause_ns") / 1_000,
                of("loops_possibly_caught"),
                of("classes_postponed")
            )
        });
        let resident = resident_kb(loops.pid);
        residents.push(resident);
        let plain_resident = resident_kb(plain.pid());
        println!(
            "{number}: {action}: {share:.2} of plain ({name}), {resident} kB (plain {plain_resident}); {status}"
        );
        if share < SHARE {
            slow.push((number, action, share, name));
        }
    }
    assert!(slow.is_empty(), "{jdk}: {slow:?}");
    // In the short run each action happens once.
    let settled = residents[actions.len().min(residents.len() / 2)];
    let last = residents[residents.len() - 1];
    assert!(last < settled + settled / 5, "{jdk}: memory grows: {residents:?} kB");
    let finished = loops.program.end();
    assert_eq!(finished.status, Some(0), "{jdk}: {}", finished.stderr);
}
