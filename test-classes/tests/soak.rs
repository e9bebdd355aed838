//! A service under load, to which the agent attaches and from which it detaches, with recording switched on and off:
//! its answers match its own counts, counts are exact, and memory does not grow.
//!
//! `scripts/soak.sh MINUTES` runs it for longer than the default minute.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use log_format::rows::{Exit, counter};
use test_classes::{Dialogue, Java, Jdk, Profile, Record, artifacts, classes, free_port, jdks};

/// Methods that the service counts, with the words that it prints for them.
const METHODS: [(&str, &str); 4] = [
    ("requests", "service.Main handle (Lcom/sun/net/httpserver/HttpExchange;)V"),
    ("inserts", "service.Orders insert (Ljava/lang/String;J)J"),
    ("finds", "service.Orders find (J)Lservice/Orders$Order;"),
    ("sums", "service.Orders sum (Ljava/lang/String;)Ljava/lang/String;"),
];

/// The number after a word.
fn number(line: &str, word: &str) -> u64 {
    let mut words = line.split(' ').skip_while(|w| *w != word);
    let number = words.nth(1).and_then(|n| n.parse().ok());
    number.unwrap_or_else(|| panic!("{word} in {line}"))
}

fn counts(line: &str) -> Vec<u64> {
    METHODS.iter().map(|(word, _)| number(line, word)).chain([number(line, "missing")]).collect()
}

/// Memory of the service's process.
#[derive(Clone, Copy)]
struct Memory {
    resident_kb: u64,
    /// What the JVM counts as its own. It grows with each retransformation, under any agent: HotSpot keeps some old
    /// versions of classes and their code.
    jvm_kb: u64,
}

impl Memory {
    /// What the JVM does not count: the agent's memory, and the allocator's fragments. Not all memory that the JVM
    /// counts is resident, so only differences are meaningful.
    fn rest_kb(self) -> i64 {
        self.resident_kb.cast_signed() - self.jvm_kb.cast_signed()
    }
}

/// The service and its client.
struct Service {
    service: Dialogue,
    load: Dialogue,
}

impl Service {
    fn start(jdk: &Jdk) -> Self {
        // The heap is fully allocated from the start, so that any growth is something else.
        let heap = ["-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC"];
        let service = Java::new(jdk)
            .args(heap)
            .args(["-XX:+EnableDynamicAgentLoading", "-XX:NativeMemoryTracking=summary"])
            .main(classes(), "service.Main");
        let mut service = service.talk();
        let port = number(&service.hear(), "port").to_string();
        let load = Java::new(jdk).args(["-Xmx128m", "-XX:+UseSerialGC"]);
        let load = load.main(classes(), "service.Load").args([&*port, "2"]).talk();
        Self { service, load }
    }

    /// Sends requests for a while; returns the results.
    fn load(&mut self, seconds: f64) -> String {
        self.load.ask(&seconds.to_string())
    }

    fn counts(&mut self) -> Vec<u64> {
        counts(&self.service.ask("counts"))
    }

    fn pid(&self) -> String {
        self.service.program.pid().to_string()
    }

    /// The service's memory after a collection, in which the JVM frees versions of classes that it no longer needs, and
    /// without what the C library keeps of freed memory. What the JIT compiler uses comes and goes: megabytes while it
    /// compiles.
    fn memory(&mut self) -> Memory {
        let mut jvm_kb = u64::MAX;
        for _ in 0..20 {
            let before = jvm_kb;
            jvm_kb = number(&self.service.ask("collect"), "jvm");
            if jvm_kb.abs_diff(before) < 200 {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("a process");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
        let resident = line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok());
        Memory { resident_kb: resident.expect("a number"), jvm_kb }
    }

    fn end(self) {
        for program in [self.load, self.service] {
            let finished = program.end();
            assert_eq!(finished.status, Some(0), "{}", finished.stderr);
        }
    }
}

/// Runs a command; returns how many milliseconds it took.
fn tprofiler(arguments: &[&str]) -> u64 {
    let began = Instant::now();
    let output = Command::new(&artifacts().tprofiler).args(arguments).output();
    let output = output.expect("tprofiler runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    u64::try_from(began.elapsed().as_millis()).expect("not so long")
}

/// Cycles in which the allocator fills its pools.
const FILLS: usize = 5;

/// Sends commands to the agent while the service is under load.
fn while_loaded(
    service: &mut Service,
    seconds: f64,
    mut command: impl FnMut(u32) + Send,
) -> String {
    let end = Instant::now() + Duration::from_secs_f64(seconds * 0.8);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for round in 0.. {
                if Instant::now() > end {
                    return;
                }
                command(round);
            }
        });
        service.load(seconds)
    })
}

/// Asserts that the newest run has exactly what the service counted since `before`. The service counts a request when
/// it begins, and its answer may be read before `handle` returns: then the call is unfinished.
fn expect_exact(service: &mut Service, before: &[u64], logs: &Path) {
    let after = service.counts();
    let run = newest_run(logs);
    for (index, (_, method)) in METHODS.iter().enumerate() {
        let counts = run.counts.get(*method).copied().unwrap_or_default();
        let is_open =
            |record: &&Record| record.method == *method && record.exit == Exit::Unfinished;
        let open = run.records.iter().filter(is_open).count() as u64;
        assert_eq!(counts.calls + open, after[index] - before[index], "{method}, {open} open");
        if method.contains(" find ") {
            assert_eq!(counts.throws, after[4] - before[4], "{method}");
        }
    }
    for lost in
        [counter::LOST_CALLS, counter::UNSEEN_ENDS, counter::NOT_INSTRUMENTED, counter::IO_ERRORS]
    {
        assert_eq!(run.counter(lost), 0, "{lost}");
    }
}

fn newest_run(logs: &Path) -> Profile {
    let runs = Profile::runs(logs);
    let made = |run: &&std::path::PathBuf| {
        fs::metadata(run.join("run.json")).and_then(|m| m.modified()).ok()
    };
    Profile::read(runs.iter().max_by_key(made).expect("a run"))
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |path: &Path| match path.is_dir() {
        true => bytes_in(path),
        false => fs::metadata(path).map_or(0, |file| file.len()),
    };
    entries.map(|entry| size(&entry.path())).sum()
}

fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

#[test]
#[allow(clippy::too_many_lines, reason = "one scenario told in order")]
fn a_service_runs_on_while_the_agent_comes_and_goes() {
    let seconds: f64 =
        std::env::var("SOAK_SECONDS").map_or(30.0, |text| text.parse().expect("a number"));
    // Of each part of a cycle.
    let part = if seconds > 60.0 { 2.0 } else { 1.0 };
    let jdk = jdks().last().expect("a JDK");
    let logs = tempfile::tempdir().expect("a temporary folder");
    println!("{jdk}, {seconds} s");

    let mut plain = Service::start(jdk);
    plain.load(5.0);
    let plain_rates: Vec<String> = (0..3).map(|_| plain.load(2.0)).collect();
    let plain_memory = plain.memory();
    plain.end();

    let mut service = Service::start(jdk);
    service.load(5.0);
    let (pid, began) = (service.pid(), Instant::now());
    let (mut rates, mut memory, mut cycles) = (Vec::new(), Vec::new(), 0);
    let (mut attach_ms, mut detach_ms) = (Vec::new(), Vec::new());
    while began.elapsed().as_secs_f64() < seconds || cycles < 2 * FILLS {
        let port = free_port();
        let address = format!("127.0.0.1:{port}");
        // One class waits for commands in a loop.
        let options = format!(
            "include=service,retransform=even-running,logs={},port={port}",
            logs.path().display()
        );
        let attach = || tprofiler(&["attach", &pid, &options]);

        // From an attach to a detach without load, counts are exact; a budget could throttle methods.
        let before = service.counts();
        tprofiler(&["attach", &pid, &format!("{options},overhead=off")]);
        rates.push(service.load(part));
        tprofiler(&["detach", &pid]);
        expect_exact(&mut service, &before, logs.path());

        // Switched under load, and exact in the end: the last requests are counted.
        attach();
        while_loaded(&mut service, part, |round| {
            tprofiler(&[if round % 2 == 0 { "stop" } else { "start" }, "--addr", &address]);
        });
        tprofiler(&["detach", &pid]);

        // Attached and detached under load.
        while_loaded(&mut service, part, |round| {
            if round % 2 == 0 {
                attach_ms.push(attach());
            } else {
                detach_ms.push(tprofiler(&["detach", &pid]));
            }
        });
        if attach_ms.len() > detach_ms.len() {
            detach_ms.push(tprofiler(&["detach", &pid]));
        }
        cycles += 1;
        memory.push(service.memory());
    }
    let bytes = bytes_in(logs.path());
    let truth = service.counts();
    service.end();

    let of = |lines: &[String], word: &str| {
        median(&mut lines.iter().map(|line| number(line, word)).collect::<Vec<_>>())
    };
    println!("cycles of attach, switch and detach: {cycles}; requests: {}", truth[0]);
    println!(
        "requests/s: plain {}, recording {}; p99 us: plain {}, recording {}",
        of(&plain_rates, "rate"),
        of(&rates, "rate"),
        of(&plain_rates, "p99"),
        of(&rates, "p99"),
    );
    let resident: Vec<u64> = memory.iter().map(|memory| memory.resident_kb).collect();
    let rest: Vec<i64> = memory.iter().map(|memory| memory.rest_kb()).collect();
    println!(
        "resident kB: plain {}, with the agent after each cycle {resident:?}",
        plain_memory.resident_kb
    );
    println!(
        "less what the JVM counts as its own: plain {}, with the agent {rest:?}",
        plain_memory.rest_kb()
    );
    println!(
        "under load {} times: attach {} ms, {} at most; detach {} ms, {} at most",
        attach_ms.len(),
        median(&mut attach_ms),
        attach_ms.iter().max().unwrap_or(&0),
        median(&mut detach_ms),
        detach_ms.iter().max().unwrap_or(&0)
    );
    println!("log bytes: {bytes}");

    // The service trims the allocator's heaps, but fragments come and go; a leak never goes. So the least of each half
    // is compared, without the first cycles, in which the allocator fills its pools.
    let settled = rest.get(FILLS.max(rest.len() / 5)..).unwrap_or_default();
    let (first, second) = settled.split_at(settled.len() / 2);
    if let (Some(first), Some(second)) = (first.iter().min(), second.iter().min()) {
        assert!(*second < first + 5_000, "kilobytes that are not the JVM's: {rest:?}");
    }
}
