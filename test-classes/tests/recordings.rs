//! `analyze --format jfr`, read by the JDKs' own `jfr` and by JDK Mission Control's parser.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use log_format::rows::Exit;
use serde_json::Value;
use tempfile::TempDir;
use test_classes::{
    Java, Jdk, Profile, artifacts, classes, compile, compiler, found, jdks_from, library, project,
};

const SAMPLE: &str = "jdk.ExecutionSample";
const CALL: &str = "jdk.MethodTrace";

type Call = (String, String, u64);

/// A recording, and what the logs have.
struct Recorded {
    folder: TempDir,
    /// Samples by the method on top, `class.name`.
    samples: BTreeMap<String, u64>,
    /// Recorded calls, by thread with its run, method and duration.
    calls: BTreeMap<Call, u64>,
}

impl Recorded {
    fn file(&self) -> PathBuf {
        self.folder.path().join("out.jfr")
    }

    /// Profiles two runs of a program whose calls take milliseconds.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        let jdk = found().last().expect("a runtime");
        let options =
            format!("include=programs,port=off,cpu=1ms,threshold=100us,logs={}", logs.display());
        for _ in 0..2 {
            let java = Java::new(jdk).agent(&options).main(classes(), "programs.Shares").arg("1");
            java.run().expect_quiet_success(jdk);
        }
        let mut recorded = Self { folder, samples: BTreeMap::new(), calls: BTreeMap::new() };
        let file = recorded.file();
        recorded.analyze(&["--format", "jfr", "-o", file.to_str().expect("a path")]);
        let csv = recorded.analyze(&["--format", "csv"]);
        // No cell has a comma.
        let rows: Vec<Vec<&str>> = csv.lines().map(|row| row.split(',').collect()).collect();
        let column = |name| rows[0].iter().position(|cell| *cell == name).expect("a column");
        let [class, method, samples] = ["class", "method", "samples"].map(column);
        for row in &rows[1..] {
            let count: u64 = row[samples].parse().expect("a number");
            if count > 0 {
                *recorded.samples.entry(format!("{}.{}", row[class], row[method])).or_default() +=
                    count;
            }
        }
        for run in Profile::runs(&logs) {
            let label = run.file_name().expect("a name").to_string_lossy().into_owned();
            for call in Profile::read(&run).records {
                if call.exit != Exit::Unfinished {
                    let mut words = call.method.split(' ');
                    let [class, method] = [(); 2].map(|()| words.next().expect("a name"));
                    let thread = format!("{} in {label}", call.thread);
                    let key = (thread, format!("{class}.{method}"), call.total_ns);
                    *recorded.calls.entry(key).or_default() += 1;
                }
            }
        }
        assert!(recorded.all_samples() > 500, "{:?}", recorded.samples);
        assert!(recorded.all_calls() > 500, "{}", recorded.all_calls());
        recorded
    }

    fn all_samples(&self) -> u64 {
        self.samples.values().sum()
    }

    fn all_calls(&self) -> u64 {
        self.calls.values().sum()
    }

    fn analyze(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&artifacts().analyze);
        run(command.arg(self.folder.path().join("logs")).args(arguments))
    }
}

/// Runs a command, which must succeed, and returns what it prints.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
    assert!(output.status.success(), "{command:?}: {stdout}{stderr}");
    stdout
}

fn jfr(jdk: &Jdk, arguments: &[&str], file: &Path) -> String {
    run(Command::new(jdk.command("jfr")).args(arguments).arg(file))
}

/// The runtimes from a version on that have `jfr`.
fn readers(from: u32) -> Vec<&'static Jdk> {
    let all = jdks_from(from).into_iter();
    let readers: Vec<&Jdk> = all.filter(|jdk| jdk.command("jfr").exists()).collect();
    assert!(!readers.is_empty(), "no JDK {from} or newer has the command jfr");
    readers
}

/// The events of a type, as `jfr print` has them.
fn print(jdk: &Jdk, of: &str, file: &Path) -> Vec<Value> {
    let printed = jfr(jdk, &["print", "--json", "--stack-depth", "64", "--events", of], file);
    let mut json: Value = serde_json::from_str(&printed).expect("JSON");
    let events = json["recording"]["events"].take();
    events.as_array().expect("events").iter().map(|event| event["values"].clone()).collect()
}

/// `class.name` of a method.
fn method(method: &Value) -> String {
    let [class, name] = [&method["type"]["name"], &method["name"]];
    let text = |of: &Value| of.as_str().expect("a name").replace('/', ".");
    format!("{}.{}", text(class), text(name))
}

/// `PT0.0012S` in nanoseconds.
fn nanoseconds(duration: &Value) -> u64 {
    let text = duration.as_str().expect("a duration");
    let seconds = text.strip_prefix("PT").and_then(|text| text.strip_suffix('S'));
    let seconds = seconds.unwrap_or_else(|| panic!("{text}"));
    let (whole, part) = seconds.split_once('.').unwrap_or((seconds, ""));
    format!("{whole}{part:0<9}").parse().unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn jfr_of_every_jdk_reads_every_event() {
    let recorded = Recorded::new();
    for jdk in readers(17) {
        let summary = jfr(jdk, &["summary"], &recorded.file());
        for (of, expected) in [(SAMPLE, recorded.all_samples()), (CALL, recorded.all_calls())] {
            let row = summary.lines().find(|row| row.trim_start().starts_with(of));
            let row: Vec<&str> = row.expect("a row").split_whitespace().collect();
            assert_eq!(row[1].parse(), Ok(expected), "{jdk}: {summary}");
        }
        let mut samples = BTreeMap::new();
        for sample in print(jdk, SAMPLE, &recorded.file()) {
            let top = method(&sample["stackTrace"]["frames"][0]["method"]);
            *samples.entry(top).or_default() += 1;
            assert_eq!(sample["state"], "STATE_RUNNABLE", "{jdk}");
            let thread = &sample["sampledThread"];
            assert!(thread["osThreadId"].as_u64() > Some(0), "{jdk}: {thread}");
        }
        assert_eq!(samples, recorded.samples, "{jdk}");
        let mut calls = BTreeMap::new();
        for call in print(jdk, CALL, &recorded.file()) {
            let thread = call["eventThread"]["javaName"].as_str().expect("a name").to_owned();
            let key = (thread, method(&call["method"]), nanoseconds(&call["duration"]));
            *calls.entry(key).or_default() += 1;
        }
        assert_eq!(calls, recorded.calls, "{jdk}");
        let about = print(jdk, "jdk.JVMInformation", &recorded.file());
        assert!(about[0]["pid"].as_u64() > Some(0), "{jdk}: {about:?}");
    }
}

/// `jfr view` came with JDK 21.
#[test]
fn hot_methods_are_those_of_the_report() {
    let recorded = Recorded::new();
    for jdk in readers(21) {
        let view = jfr(jdk, &["view", "--width", "160", "hot-methods"], &recorded.file());
        // Each has at least 6% of the time.
        for part in 0..6 {
            let name = format!("programs.Shares.m{part}");
            let row = view.lines().find(|row| row.starts_with(&format!("{name}(")));
            let shown = row.and_then(|row| row.split_whitespace().rev().nth(1));
            let shown = shown.and_then(|count| count.replace(',', "").parse().ok());
            assert_eq!(shown, recorded.samples.get(&name).copied(), "{jdk}: {name} in {view}");
        }
    }
}

#[test]
fn the_parser_of_mission_control_reads_every_event() {
    let recorded = Recorded::new();
    let jars = ["flightrecorder-", "common-", "encoder-", "lz4-java-"].map(library);
    let path = std::env::join_paths(jars).expect("a class path");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = project().join("test-classes/java/jmc/CountEvents.java");
    let options = ["-cp", path.to_str().expect("a path")];
    compile(compiler(), &options, &[source], folder.path());
    let path = std::env::join_paths(std::env::split_paths(&path).chain([folder.path().into()]));
    let mut java = Command::new(compiler().command("java"));
    java.arg("-cp").arg(path.expect("a class path")).arg("CountEvents").arg(recorded.file());
    let printed = run(&mut java);
    let mut samples = BTreeMap::new();
    let mut counts = BTreeMap::new();
    for line in printed.lines() {
        let (name, count) = line.rsplit_once(' ').expect("a name and a number");
        let count: u64 = count.parse().expect("a number");
        match name.strip_prefix("top ") {
            Some(top) => _ = samples.insert(top.to_owned(), count),
            None => _ = counts.insert(name, count),
        }
    }
    assert_eq!(samples, recorded.samples);
    let expected = [(SAMPLE, recorded.all_samples()), (CALL, recorded.all_calls())];
    for (of, expected) in expected {
        assert_eq!(counts[of], expected, "{of}");
    }
    // In nanoseconds, in all.
    let all: u64 = recorded.calls.iter().map(|((_, _, ns), count)| ns * count).sum();
    assert_eq!(counts["durations"], all);
}
