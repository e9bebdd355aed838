//! Exceptions that leave methods are counted by class, with examples.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use log_format::rows::{ExceptionExampleRow, ExceptionRow, counter};
use test_classes::{
    ExceptionExample, Java, Jdk, Profile, classes, ends_of_jdks, exception_examples, free_port,
    has_thread, jdks, jdks_from, rows, tprofiler_json, tprofiler_text, wait_until,
};

/// Exceptions that left a method: all, and those that began there; by method and class.
type Counts = BTreeMap<(String, String), (u64, u64)>;

/// Runs the program; what it knows, and what was recorded.
fn run(jdk: &Jdk, logs: &Path, options: &str, arguments: &[&str]) -> (Counts, Profile) {
    let options =
        format!("include=programs,port=off,overhead=off,logs={}{options}", logs.display());
    let java = Java::new(jdk).agent(&options).main(classes(), "programs.Throwing");
    let finished = java.args(arguments).run();
    finished.expect_quiet_success(jdk);
    let line = |line: &str| {
        let words: Vec<&str> = line.strip_prefix("left ")?.split(' ').collect();
        let [thrown, began] = [2, 3].map(|index| words[index].parse().expect("a number"));
        Some(((words[0].to_owned(), words[1].to_owned()), (thrown, began)))
    };
    (finished.stdout.lines().filter_map(line).collect(), Profile::only_run(logs))
}

/// What was recorded of the program's methods.
fn recorded(profile: &Profile) -> Counts {
    let mut counts = Counts::new();
    for row in rows::<ExceptionRow>(&profile.folder) {
        let name = &profile.methods[&row.method];
        let mut words = name.split(' ');
        let [class, method] = [words.next(), words.next()].map(|word| word.expect("a name"));
        let simple = class.rsplit('$').next().filter(|_| class.contains('$'));
        let method = simple.map_or(method.to_owned(), |class| format!("{class}.{method}"));
        let counted = counts.entry((method, row.class)).or_default();
        *counted = (counted.0 + row.thrown, counted.1 + row.began);
    }
    counts
}

fn compare(jdk: &Jdk, truth: &Counts, profile: &Profile) {
    let found = recorded(profile);
    for (of, wanted) in truth {
        assert_eq!(found.get(of).copied().unwrap_or_default(), *wanted, "{jdk}: {of:?}");
    }
    // What the helpers of the program let through did not begin there.
    let others = found.iter().filter(|(of, _)| !truth.contains_key(*of));
    for (of, (_, began)) in others {
        assert_eq!(*began, 0, "{jdk}: {of:?}");
    }
    assert_eq!(profile.counter(counter::EXCEPTIONS_LOST), 0, "{jdk}");
    assert_eq!(profile.counter(counter::EXCEPTION_EXAMPLES_DROPPED), 0, "{jdk}");
    // All exceptional exits have a class, but those that no bytecode can catch.
    for (method, counts) in &profile.counts {
        let of = rows::<ExceptionRow>(&profile.folder);
        let of = of.iter().filter(|row| profile.methods[&row.method] == *method);
        let thrown: u64 = of.map(|row| row.thrown).sum();
        let is_unseen = method.contains("$Worse <init>");
        assert_eq!(thrown == counts.throws, !is_unseen, "{jdk}: {method}: {thrown}, {counts:?}");
    }
}

#[test]
fn exceptions_are_counted_by_class_and_method() {
    for jdk in jdks() {
        // Interpreted, and compiled by both compilers.
        for rounds in ["20", "20000"] {
            let logs = tempfile::tempdir().expect("a temporary folder");
            let (truth, profile) = run(jdk, logs.path(), "", &[rounds]);
            compare(jdk, &truth, &profile);
        }
    }
}

/// A virtual thread may go on on another carrier while an exception passes.
#[test]
fn exceptions_in_virtual_threads_are_counted() {
    for jdk in jdks_from(21) {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let (truth, profile) = run(jdk, logs.path(), "", &["500", "virtual"]);
        compare(jdk, &truth, &profile);
    }
}

/// An example has the method that the exception left, and its callers; its message only if that was asked for.
#[test]
fn there_is_an_example_of_each() {
    for jdk in jdks() {
        for (option, has_messages) in [("", false), (",exception_messages=on", true)] {
            let logs = tempfile::tempdir().expect("a temporary folder");
            let (_, profile) = run(jdk, logs.path(), option, &["200"]);
            let examples = exception_examples(&profile.folder);
            let of = |class: &str, method: &str| {
                let method = format!("programs.{method}");
                let is_it = |example: &&ExceptionExample| {
                    example.class == class && example.frames.last() == Some(&method)
                };
                let found: Vec<_> = examples.iter().filter(is_it).collect();
                assert!(!found.is_empty(), "{jdk}: no {class} in {method}: {examples:?}");
                found
            };
            for example in of("java.lang.IllegalStateException", "Throwing.fifth") {
                let callers = ["fifth", "fourth", "third", "second", "first"];
                let callers = callers.iter().rev().map(|name| format!("programs.Throwing.{name}"));
                let callers: Vec<String> = callers.collect();
                assert!(example.frames.ends_with(&callers), "{jdk}: {example:?}");
                let last = example.path.last().expect("a path");
                assert!(last.starts_with("programs.Throwing fifth "), "{jdk}: {example:?}");
                let message = if has_messages { "out of stock" } else { "" };
                assert_eq!(example.message, message, "{jdk}");
                assert!(example.thread.starts_with("thrower-"), "{jdk}: {example:?}");
            }
            of("java.lang.UnsupportedOperationException", "Throwing$Bad.<init>");
            of("java.lang.NumberFormatException", "Throwing.parse");
            let messages: BTreeSet<&str> = examples.iter().map(|e| e.message.as_str()).collect();
            assert_eq!(messages.len() > 1, has_messages, "{jdk}: {messages:?}");
            for message in ["not a price", "of Throwable"] {
                assert!(!has_messages || messages.contains(message), "{jdk}: {messages:?}");
            }
        }
    }
}

#[test]
fn without_the_option_nothing_is_counted() {
    for jdk in jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let (_, profile) = run(jdk, logs.path(), ",exceptions=off", &["10"]);
        assert!(recorded(&profile).is_empty(), "{jdk}");
        assert!(exception_examples(&profile.folder).is_empty(), "{jdk}");
        let thrown = profile.counts.iter().any(|(_, counts)| counts.throws > 0);
        assert!(thrown, "{jdk}: exceptional exits are counted all the same");
    }
}

/// Each interval of the statistics has examples of what is thrown in it, also of what was thrown before.
#[test]
fn each_interval_has_examples() {
    for jdk in ends_of_jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, stop, port) =
            (folder.path().join("logs"), folder.path().join("stop"), free_port());
        let options = format!("include=programs,overhead=off,logs={},port={port}", logs.display());
        let java = Java::new(jdk).agent(&options).main(classes(), "programs.Busy");
        let mut running = java.arg("2").arg(&stop).arg("5").start();
        wait_until("it throws", || running.is_running() && has_thread(running.pid(), "worker-1"));
        for _ in 0..4 {
            sleep(Duration::from_secs(1));
            tprofiler_json(port, &["flush"]);
        }
        fs::write(&stop, "").expect("a file");
        assert_eq!(running.wait().status, Some(0), "{jdk}");
        let run = Profile::only_run(&logs).folder;
        let mut intervals: BTreeMap<u64, BTreeMap<String, u64>> = BTreeMap::new();
        for row in rows::<ExceptionRow>(&run) {
            *intervals.entry(row.start_ns).or_default().entry(row.class).or_default() += row.began;
        }
        let examples = rows::<ExceptionExampleRow>(&run);
        let starts: Vec<u64> = intervals.keys().copied().collect();
        // The last one may be short.
        let whole: Vec<[u64; 2]> = starts.windows(2).map(|pair| [pair[0], pair[1]]).collect();
        assert!(whole.len() >= 3, "{jdk}: {starts:?}");
        for [start, end] in whole {
            for (class, began) in intervals[&start].iter().filter(|(_, began)| **began > 100) {
                let is_one = |example: &ExceptionExampleRow| {
                    example.class == *class && (start..end).contains(&example.start_ns)
                };
                assert!(examples.iter().any(is_one), "{jdk}: {began} of {class} from {start} on");
            }
        }
    }
}

/// A program that throws while the agent attaches, also in old versions of its classes, has examples with whole stacks.
#[test]
fn examples_of_an_attach_have_stacks() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let stop = folder.path().join("stop");
        let java = Java::new(jdk).main(classes(), "programs.Busy");
        let mut running = java.arg("2").arg(&stop).arg("5").start();
        wait_until("it throws", || running.is_running() && has_thread(running.pid(), "worker-1"));
        let pid = running.pid().to_string();
        for (attach, more) in ["", "", ",debug=fails:walker"].into_iter().enumerate() {
            let logs = folder.path().join(attach.to_string());
            let options = format!(
                "include=programs,retransform=even-running,port=off,logs={}{more}",
                logs.display()
            );
            tprofiler_text(&["attach", &pid, &options]);
            sleep(Duration::from_secs(1));
            tprofiler_text(&["detach", &pid]);
            let examples = exception_examples(&Profile::only_run(&logs).folder);
            assert!(!examples.is_empty(), "{jdk}, {attach}");
            for ExceptionExample { frames, .. } in &examples {
                // JDK 21 has one more in between.
                let has_run = frames.iter().any(|frame| frame == "programs.Busy$Runner.run");
                let is_whole = frames[0] == "java.lang.Thread.run" && has_run;
                assert!(
                    is_whole && !frames.iter().any(|f| f.starts_with('[')),
                    "{jdk}, {attach}: {frames:?}"
                );
            }
        }
        fs::write(&stop, "").expect("a file");
        assert_eq!(running.wait().status, Some(0), "{jdk}");
    }
}
