//! How often retransformation stops a JVM with many classes and threads.

use std::fs;
use std::process::Command;
use std::time::Instant;

use test_classes::{
    Dialogue, Java, Jdk, artifacts, at_once, classes, ends_of_jdks, free_port, is_full, jdks,
    tprofiler_json,
};

fn command(arguments: &[&str]) -> String {
    let output = Command::new(&artifacts().tprofiler).args(arguments).output();
    let output = output.expect("tprofiler runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Lines about pauses in an answer.
const PAUSES: [&str; 3] = ["longest pause: ", "pauses over 50 ms: ", "stack looks: "];

fn field(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    let number = line.and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{key} in {text}"))
}

/// Number of long pauses.
fn long_pauses(answer: &str) -> u64 {
    let line = answer.lines().find_map(|line| line.strip_prefix("pauses over 50 ms: "));
    let (long, _) = line.and_then(|line| line.split_once(" of ")).expect("a line");
    long.parse().expect("a number")
}

/// Number of classes that a JVM's stderr says could not be retransformed: some are named, others only counted.
fn refused(stderr: &str) -> u64 {
    let more = stderr.lines().filter_map(|line| {
        let number = line.split_once(" more classes could not be")?.0.rsplit(' ').next()?;
        number.parse::<u64>().ok()
    });
    more.sum::<u64>() + stderr.matches("was loaded before and").count() as u64
}

/// `programs.Many`, with classes that are missing at run time.
struct Many {
    program: Dialogue,
    pid: String,
    port: u16,
    folder: tempfile::TempDir,
}

impl Many {
    fn start<'o>(jdk: &Jdk, arguments: &str, more: impl IntoIterator<Item = &'o str>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = format!("-Xlog:safepoint=info:file={}", folder.path().join("stops").display());
        let java = Java::new(jdk).args([log.as_str(), "-Xmx1g"]).args(more);
        let java = java.main(classes(), "programs.Many").args(arguments.split(' '));
        let mut program = java.talk();
        assert_eq!(program.hear(), "ready");
        let pid = program.program.pid().to_string();
        Self { program, pid, port: free_port(), folder }
    }

    fn attach(&self) -> String {
        self.attach_with("")
    }

    fn attach_with(&self, more: &str) -> String {
        let (port, logs) = (self.port, self.folder.path().join("logs"));
        let options = format!(
            "include=programs.Many$U*,include=programs.Many$T*,leaves=keep,overhead=off,\
             port={port},logs={}{more}",
            logs.display()
        );
        command(&["attach", &self.pid, &options])
    }

    /// How often all threads have been stopped so far.
    fn stops(&self) -> usize {
        let log = fs::read_to_string(self.folder.path().join("stops")).expect("a log");
        // Before JDK 13, and since.
        let is_stop = |line: &&str| line.contains("were stopped: ") || line.contains("Total: ");
        log.lines().filter(is_stop).count()
    }

    /// Calls a method of each class that is used, and returns how many calls the agent has counted for that.
    fn counted_calls(&mut self) -> u64 {
        let calls = || tprofiler_json(self.port, &["status"])["calls_seen"].as_u64();
        let before = calls();
        let used: u64 = self.program.ask("call").parse().expect("a number");
        let after = tprofiler_json(self.port, &["status"])["calls_seen"].as_u64();
        let counted = after.zip(before).map(|(after, before)| after - before).expect("numbers");
        assert!(counted == 0 || counted == used, "{counted} of {used}");
        counted
    }

    fn end(self) -> String {
        let finished = self.program.end();
        assert_eq!(finished.status, Some(0), "{}", finished.stderr);
        finished.stderr
    }
}

/// Classes that cannot be linked are found without stopping all threads, and do not keep others from being
/// instrumented.
#[test]
fn classes_that_cannot_be_linked_cost_no_stops() {
    at_once(jdks(), |jdk| {
        let stops = [0, 20].map(|torn| {
            let mut many = Many::start(jdk, &format!("2000 {torn} 50 20"), None);
            let before = many.stops();
            let attached = many.attach();
            let stops = many.stops() - before;
            assert_eq!(field(&attached, "classes retransformed"), 2_000, "{jdk}: {attached}");
            assert_eq!(many.counted_calls(), 1_500, "{jdk}");
            let detached = command(&["detach", &many.pid]);
            assert_eq!(field(&detached, "classes not restored"), 0, "{jdk}: {detached}");
            let stderr = many.end();
            assert_eq!(refused(&stderr), torn, "{stderr}");
            stops
        });
        println!("{jdk}: {} stops, with 20 classes that cannot be linked {}", stops[0], stops[1]);
        assert!(stops[1] <= 2 * stops[0] + 10, "{jdk}: {stops:?}");
    });
}

/// The next attachment tries a class that the JVM refused to restore only once, and reports it once.
#[test]
fn a_class_that_is_refused_is_not_tried_again_and_again() {
    at_once(jdks(), |jdk| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (port, logs) = (free_port(), folder.path().display());
        let options = |of: &str| format!("include=programs.Many${of}*,port={port},logs={logs}");
        let java = Java::new(jdk).agent(&options("T")).main(classes(), "programs.Many");
        let mut program = java.args(["100", "4", "1", "1"]).talk();
        assert_eq!(program.hear(), "ready");
        let pid = program.program.pid().to_string();
        let detached = command(&["detach", &pid]);
        assert_eq!(field(&detached, "classes not restored"), 4, "{jdk}: {detached}");
        command(&["attach", &pid, &options("U")]);
        // That would be three more times.
        std::thread::sleep(std::time::Duration::from_secs(4));
        let finished = program.end();
        let refused = finished.stderr.matches("was loaded before and").count();
        assert_eq!(refused, 8, "{jdk}: {}", finished.stderr);
    });
}

/// If the JVM cannot stop quickly, the agent stops it only a few times, and lists the classes that it leaves alone.
#[test]
fn what_would_stop_the_jvm_for_too_long_is_not_done() {
    let ends = ends_of_jdks();
    for (index, jdk) in ends.iter().enumerate() {
        let more = ["-XX:+UseSerialGC", "-XX:-UseCountedLoopSafepoints"];
        let mut many = Many::start(jdk, "2000 0 50 20", more);
        let turn = many.program.ask("hold");
        let attaches = [
            ("", ["could be read in time", "stop all threads for too long"]),
            (",retransform=even-running", ["stop all threads for too long"; 2]),
        ];
        // In the fast lane, each on one of the runtimes.
        let of_jdk = |(attach, _): &(usize, _)| is_full() || attach % ends.len() == index;
        for (_, (retransform, why)) in attaches.into_iter().enumerate().filter(of_jdk) {
            let attached = many.attach_with(retransform);
            let retransformed = field(&attached, "classes retransformed");
            let stops = long_pauses(&attached);
            println!(
                "{jdk} {retransform}: loops of {turn}, {stops} stops, {retransformed} classes"
            );
            // If a stop takes no longer than usual, the JVM was between two loops.
            assert!(retransformed < 100, "{jdk}: {attached}");
            assert_eq!(field(&attached, "classes postponed"), 2_000 - retransformed, "{jdk}");
            assert!(stops < 20, "{jdk}: {attached}");
            let reason = attached.lines().find(|line| line.starts_with("postponed: "));
            let is_reported = |reason: &str| why.iter().any(|why| reason.contains(why));
            assert!(reason.is_some_and(is_reported), "{jdk}: {attached}");
            command(&["detach", &many.pid]);
        }
        many.program.ask("release");
        let attached = many.attach();
        assert_eq!(field(&attached, "classes retransformed"), 2_000, "{jdk}: {attached}");
        assert_eq!(many.counted_calls(), 1_500, "{jdk}");
        many.end();
    }
}

/// The number in an environment variable, or else the usual one.
fn number(variable: &str, usually: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(usually, |text| text.parse().expect("a number"))
}

/// `PAUSE_CLASSES=20000 PAUSE_THREADS=5000 PAUSE_FRAMES=20 PAUSE_JDK=17` measures a large service, with JDKs from 17
/// on. Batches stay large with a thousand threads of 120 frames. JDK 11 cannot do the first retransformation in a
/// short time then, so the agent does not do it, unless it is loaded at the start or biased locks are off.
#[test]
fn many_threads_do_not_make_batches_small() {
    let oldest = number("PAUSE_JDK", 0);
    for jdk in ends_of_jdks().into_iter().filter(|jdk| u64::from(jdk.major) >= oldest) {
        let has_biased_locks = jdk.major < 15;
        let more = has_biased_locks.then_some("-XX:-UseBiasedLocking");
        // Before JDK 12 each class takes as long as a look at all stacks.
        let count = number("PAUSE_CLASSES", if jdk.major < 12 { 800 } else { 8_000 });
        let threads = format!("{} {}", number("PAUSE_THREADS", 1_000), number("PAUSE_FRAMES", 120));
        let mut many = Many::start(jdk, &format!("{count} 0 {threads}"), more);
        let (before, begun) = (many.stops(), Instant::now());
        let attached = many.attach();
        let (stops, took) = (many.stops() - before, begun.elapsed().as_secs_f64());
        println!("{jdk}: {stops} stops for {count} classes in {took:.1} s");
        for line in attached.lines().filter(|line| PAUSES.iter().any(|key| line.starts_with(key))) {
            println!("    {line}");
        }
        assert_eq!(field(&attached, "classes retransformed"), count, "{jdk}: {attached}");
        assert!(stops < 400, "{jdk}: {stops} stops\n{attached}");
        // However long they take on this machine, no pause takes a large part of the work.
        let status = tprofiler_json(many.port, &["status"]);
        let of = |key: &str| status[key].as_u64().expect("a number");
        let (longest, all) = (of("longest_pause_ns"), of("paused_ns"));
        println!("    longest {longest} of {all}");
        assert!(longest * 2 < all, "{jdk}: {longest} of {all} ns");
        assert_eq!(many.counted_calls(), count * 3 / 4, "{jdk}");
        many.end();
        if has_biased_locks {
            let many = Many::start(jdk, "100 0 1000 120", None);
            let attached = many.attach();
            assert_eq!(field(&attached, "classes postponed"), 100, "{jdk}: {attached}");
            assert!(attached.contains("-XX:-UseBiasedLocking"), "{jdk}: {attached}");
            let detached = command(&["detach", &many.pid]);
            assert_eq!(field(&detached, "classes restored"), 0, "{jdk}: {detached}");
            many.end();
        }
    }
}
