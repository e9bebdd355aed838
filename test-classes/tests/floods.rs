//! Floods over the control port: of clients without the token, of silent ones, and of patterns that take long to
//! match. None keeps the owner out, and none stalls the program.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use test_classes::{
    Control, Dialogue, Java, Service, TOKEN_NEEDED, classes, free_port, jdks, jdks_by_turns,
    library, tprofiler_json, wait_until,
};

/// Runs `then` while `clients` clients without the token ask for the status as fast as they can. Also returns the
/// number of their answers.
fn while_unauthenticated_clients_ask<R>(
    service: &Service,
    clients: usize,
    then: impl FnOnce() -> R,
) -> (R, u64) {
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
fn a_flood_of_clients_without_the_token_blocks_no_client_with_it() {
    for jdk in jdks_by_turns() {
        let service = Service::start(jdk, "");
        let began = Instant::now();
        let ((), answers) = while_unauthenticated_clients_ask(&service, 12, || {
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
        println!("{answers} answers to unauthenticated clients in {seconds} s");
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
    // If it could be as old as that of an unauthenticated client, it would change once a second.
    let (began, mut seen) = (Instant::now(), BTreeSet::new());
    wait_until("the owner's status is current", || {
        seen.insert(control.calls_seen());
        seen.len() as u64 > 2 + began.elapsed().as_secs()
    });
    service.stop();
}

#[test]
fn silent_clients_block_no_others() {
    for jdk in jdks_by_turns() {
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

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() / 2]
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

/// Without the token, all patterns are refused.
fn expect_refused_without_token(port: u16) {
    for pattern in patterns(180, 60) {
        let mut client = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        client.write_all(format!("mute {pattern}\n").as_bytes()).expect("a connection");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        let refused = [TOKEN_NEEDED, "error: too many commands; at most 10 a second\n", ""];
        assert!(refused.contains(&&*answer), "{answer}");
        if answer.starts_with("error: too many") {
            break;
        }
    }
}

/// A stall took over a hundred times as long as a load. Other work on the machine doubles most loads, and some take ten
/// times as long.
fn expect_no_stall(before: &[Duration], loads: &[Duration]) {
    let longest = *loads.iter().max().expect("loads");
    let usual = median(before).max(Duration::from_millis(100));
    println!(
        "a load took {usual:?} before, then {:?}, at most {longest:?} ({} loads)",
        median(loads),
        loads.len()
    );
    assert!(median(loads) < 8 * usual, "{before:?}, {loads:?}");
    assert!(longest < 40 * usual, "{before:?}, {loads:?}");
}

/// Slow patterns of `threshold`, besides all 255 of `mute`.
const THRESHOLDS: usize = 65;

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

    expect_refused_without_token(port);
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
            for pattern in patterns(256, 8).take(THRESHOLDS) {
                control.ask(&format!("threshold {pattern}:1h"));
            }
            is_done.store(true, Ordering::Relaxed);
            began.elapsed()
        });
        let mut loads = Vec::new();
        while !is_done.load(Ordering::Relaxed) && !commands.is_finished() {
            loads.push(load(&mut program, "load", jar));
            // Other tests need the processors too.
            thread::sleep(Duration::from_millis(100));
        }
        // And with all of them set.
        loads.extend((0..3).map(|_| load(&mut program, "load", jar)));
        (loads, commands.join().expect("all patterns were taken"))
    });
    println!("{methods} methods; the patterns came in {took:?}");
    expect_no_stall(&before, &loads);
    // A burst of 100, then 50 a second.
    assert!(took > Duration::from_secs(4), "{took:?}: patterns are not slowed down");
    let answer = Control::connect(port).answer("mute one.more");
    assert_eq!(answer, "error: mute: more than 255 patterns; unmute ** forgets them\n");
    assert_eq!(program.end().status, Some(0));
}
