//! Methods are muted and unmuted while they run: at once, even in compiled loops, and methods that are not muted stay
//! exact.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use log_format::rows::{counter, event};
use test_classes::{
    Control, Counts, Dialogue, Java, Jdk, Profile, artifacts, at_once, classes, ends_of_jdks,
    free_port, jdks, random, rounds, tprofiler, tprofiler_json as json, wait_until,
};

fn calls_seen(port: u16) -> u64 {
    json(port, &["status"])["calls_seen"].as_u64().expect("a number")
}

fn notes(logs: &Path) -> String {
    let report = Command::new(&artifacts().analyze).arg(logs).arg("--notes").output();
    String::from_utf8(report.expect("analyze runs").stdout).expect("text")
}

/// Whether `top` says of a method that it was muted.
fn top_has_muted(port: u16) -> bool {
    let top = json(port, &["top", "1000"]);
    top["methods"].as_array().expect("a list").iter().any(|method| method["was_muted"] == true)
}

#[test]
fn a_compiled_loop_sees_at_once_that_a_method_is_muted() {
    for jdk in ends_of_jdks() {
        for jvm_options in [&[][..], &["-XX:TieredStopAtLevel=1"]] {
            let what = format!("{jdk} {jvm_options:?}");
            let folder = tempfile::tempdir().expect("a temporary folder");
            let (logs, stop) = (folder.path().join("logs"), folder.path().join("stop"));
            let port = free_port();
            let options = format!("include=programs.Loop,logs={},port={port}", logs.display());
            let program = Java::new(jdk)
                .args(jvm_options)
                .agent(&options)
                .main(classes(), "programs.Loop")
                .arg(&stop)
                .start();
            wait_until("the control port", || tprofiler(port, &["status"]).status.success());
            // Compiled by then, with its method instrumented.
            wait_until("a million calls", || calls_seen(port) > 1_000_000);
            let mut muted_seen = 0;
            for round in 0..3 {
                let answer = json(port, &["mute", "programs.Loop.work"]);
                assert_eq!(answer["methods_muted"], 1, "{what}");
                let muted = calls_seen(port);
                thread::sleep(Duration::from_millis(100));
                muted_seen = calls_seen(port);
                // One may have been in its probe, preempted.
                assert!(muted_seen <= muted + 1, "{what}: round {round}: calls while muted");
                thread::sleep(Duration::from_millis(50));
                let later = calls_seen(port);
                assert_eq!(later, muted_seen, "{what}: round {round}: calls while muted");
                let answer = json(port, &["unmute", "programs.Loop.work"]);
                assert_eq!(answer["methods_muted"], 0, "{what}");
                wait_until("calls again", || calls_seen(port) > muted_seen + 1_000);
            }
            assert!(muted_seen > 0);
            for command in [&["mute", "com.nobody.X"], &["threshold", "com.nobody.X:1s"]] {
                let hint = "no instrumented class has methods that com.nobody.X names; such a class is \
                            excluded, no include matches it";
                assert_eq!(json(port, command)["hints"][0], hint, "{what}");
            }
            assert_eq!(json(port, &["unmute", "com.nobody.X"])["methods_muted"], 0, "{what}");
            assert_eq!(
                json(port, &["threshold", "programs.Loop.work:1s"])["hints"][0],
                serde_json::Value::Null
            );
            // A call in progress is dropped, with its frames' data.
            assert_eq!(json(port, &["mute", "**.main"])["methods_muted"], 1, "{what}");
            fs::write(&stop, "").expect("a file");
            program.wait().expect_quiet_success(&what);
            let profile = Profile::only_run(&logs);
            assert!(profile.counts.keys().all(|name| name.contains(" work ")), "{what}");
            assert!(profile.records.iter().all(|r| !r.method.contains(" main ")), "{what}");
            let report = notes(&logs);
            assert!(
                report.contains("programs.Loop.work was muted 3 times from "),
                "{what}: {report}"
            );
            // The call of `main`, and at most one of `work` each time.
            let dropped = profile.counter(counter::MUTED_CALLS);
            assert!((1..=7).contains(&dropped), "{what}: {dropped}");
            assert_eq!(profile.counter(counter::UNSEEN_ENDS), 0, "{what}");
            let mut muted = profile.events(event::MUTED);
            assert!(muted.any(|row| row.pattern == "**.main"), "{what}: {:?}", profile.events);
            assert!(profile.counter("muted_methods") > 0, "{what}: {:?}", profile.counters);
        }
    }
}

/// The program's output: calls and throws of each method.
fn counts_of(line: &str) -> BTreeMap<String, Counts> {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |text: &str| text.parse().expect("a number");
    words
        .chunks(3)
        .map(|word| {
            let counts = Counts { calls: number(word[1]), throws: number(word[2]) };
            (word[0].to_owned(), counts)
        })
        .collect()
}

/// The program's name of a method.
fn short(name: &str) -> String {
    let (class, rest) = name.split_once(' ').expect("a class");
    let method = rest.split(' ').next().expect("a method");
    if method == "<init>" { class.rsplit('$').next().expect("a class") } else { method }.to_owned()
}

fn start(jdk: &Jdk, jvm_options: &[&str], options: &str) -> Dialogue {
    let program = Java::new(jdk).args(jvm_options).agent(options);
    let mut program = program.main(classes(), "programs.Muted").talk();
    assert_eq!(program.ask("wait"), "ready");
    program
}

#[test]
fn what_is_not_muted_is_counted_exactly_with_exceptions_too() {
    for jdk in jdks() {
        for jvm_options in [&[][..], &["-Xint"]] {
            let what = format!("{jdk} {jvm_options:?}");
            let folder = tempfile::tempdir().expect("a temporary folder");
            let logs = folder.path().join("logs");
            let port = free_port();
            let options = format!("include=programs.Muted,logs={},port={port}", logs.display());
            let mut program = start(jdk, jvm_options, &options);
            // All classes are loaded.
            let mut truth = counts_of(&program.ask("calls 10"));
            let patterns = [
                ("programs.Muted$Work.catcher", &["catcher"][..]),
                ("**.passer", &["passer"]),
                ("**.thrower", &["thrower"]),
                ("**.builder", &["builder"]),
                ("programs.Muted$Base", &["Base"]),
                ("**$Derived.<init>", &["Derived"]),
                ("**.recursive", &["recursive"]),
                ("**.*er", &["catcher", "passer", "thrower", "builder"]),
                ("programs.Muted$Derived", &["Derived"]),
                ("no.such.Class", &[]),
            ];
            for (pattern, muted) in patterns {
                for is_muted in [true, false] {
                    let word = if is_muted { "mute" } else { "unmute" };
                    let answer = tprofiler(port, &[word, pattern]);
                    assert!(answer.status.success(), "{what}: {answer:?}");
                    for (name, counts) in counts_of(&program.ask("calls 3000")) {
                        if !is_muted || !muted.contains(&&*name) {
                            let sum = truth.entry(name).or_default();
                            sum.calls += counts.calls;
                            sum.throws += counts.throws;
                        }
                    }
                }
            }
            program.end().expect_quiet_success(&what);
            let profile = Profile::only_run(&logs);
            let mut counted: BTreeMap<String, Counts> = BTreeMap::new();
            for (name, counts) in &profile.counts {
                counted.insert(short(name), *counts);
            }
            for (name, counts) in &truth {
                assert_eq!(counted.get(name), Some(counts), "{what}: {name}");
            }
            for lost in [counter::UNSEEN_ENDS, counter::LOST_CALLS, counter::MUTED_CALLS] {
                assert_eq!(profile.counter(lost), 0, "{what}: {lost}");
            }
        }
    }
}

/// How many methods the last transformation of the class instrumented, by the only run's log.
fn instrumented(logs: &Path) -> String {
    let run = fs::read_dir(logs).expect("a run").next().expect("a run").expect("a run");
    let log = fs::read_to_string(run.path().join("classes.log")).expect("classes.log");
    let of_work = log.lines().rfind(|line| line.starts_with("programs.Muted$Work: "));
    of_work.expect("a decision").split([',', ';']).nth(1).expect("a count").to_owned()
}

/// A second after a mute, the method's probes are removed from its class. `unmute` restores them before it answers:
/// every later call is counted, with exceptions and in recursions too.
#[test]
fn a_muted_method_has_no_probes_and_has_them_back_when_it_is_unmuted() {
    at_once(jdks(), |jdk| {
        for jvm_options in [&[][..], &["-Xint"]] {
            let what = format!("{jdk} {jvm_options:?}");
            let folder = tempfile::tempdir().expect("a temporary folder");
            let logs = folder.path().join("logs");
            let port = free_port();
            let options =
                format!("include=programs.Muted,debug=classes,logs={},port={port}", logs.display());
            let mut program = start(jdk, jvm_options, &options);
            let measured = || instrumented(&logs);
            let mut truth = counts_of(&program.ask("calls 20000"));
            for (pattern, muted, classes) in [
                ("**.passer", &["passer"][..], 1),
                ("programs.Muted$Base", &["Base"], 1),
                ("**.recursive", &["recursive"], 1),
                // Except those of the class that was loaded and is called twice.
                (
                    "**",
                    &["catcher", "passer", "thrower", "builder", "Base", "Derived", "recursive"],
                    3,
                ),
            ] {
                let retransformed =
                    || json(port, &["status"])["classes_retransformed"].as_u64().expect("a number");
                let before = retransformed();
                tprofiler(port, &["mute", pattern]);
                let mut add = |counts: BTreeMap<String, Counts>, is_muted: bool| {
                    for (name, counts) in counts {
                        if !is_muted || !muted.contains(&&*name) {
                            let sum = truth.entry(name).or_default();
                            sum.calls += counts.calls;
                            sum.throws += counts.throws;
                        }
                    }
                };
                add(counts_of(&program.ask("calls 500")), true);
                wait_until("probes taken out", || retransformed() == before + classes);
                add(counts_of(&program.ask("calls 500")), true);
                assert_eq!(retransformed(), before + classes, "{what}: {pattern}");
                let left = match pattern {
                    // Its constructor has few calls.
                    "**" => " 1 methods instrumented",
                    "programs.Muted$Base" => " 6 methods instrumented",
                    _ => " 5 methods instrumented",
                };
                assert_eq!(measured(), left, "{what}: {pattern}");
                tprofiler(port, &["unmute", pattern]);
                assert!(top_has_muted(port), "{what}: {pattern}");
                add(counts_of(&program.ask("calls 500")), false);
                assert_eq!(retransformed(), before + 2 * classes, "{what}: {pattern}");
                assert!(measured().starts_with(" 6 methods"), "{what}: {pattern}");
            }
            program.end().expect_quiet_success(&what);
            let profile = Profile::only_run(&logs);
            let counted: BTreeMap<String, Counts> =
                profile.counts.iter().map(|(name, counts)| (short(name), *counts)).collect();
            for (name, counts) in &truth {
                assert_eq!(counted.get(name), Some(counts), "{what}: {name}");
            }
            assert_eq!(profile.counter(counter::UNSEEN_ENDS), 0, "{what}");
        }
    });
}

/// Records four threads, which rest for some milliseconds after each one, while `during`, which gets the control port,
/// mutes and unmutes their methods. The method that is never muted is exact.
fn muted_under_load(jdk: &Jdk, rest_ms: &str, during: impl FnOnce(u16)) -> Profile {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (logs, stop) = (folder.path().join("logs"), folder.path().join("stop"));
    let port = free_port();
    let options =
        format!("include=programs.Busy,threshold=50us,logs={},port={port}", logs.display());
    let program = Java::new(jdk).agent(&options).main(classes(), "programs.Busy");
    let program = program.arg("4").arg(&stop).arg(rest_ms).start();
    wait_until("the program's threads", || {
        tprofiler(port, &["status"]).status.success() && calls_seen(port) > 100_000
    });
    during(port);
    fs::write(&stop, "").expect("a file");
    let finished = program.wait();
    finished.expect_quiet_success(jdk);
    let truth = finished.numbers();
    let profile = Profile::only_run(&logs);
    let counts = |name: &str| profile.counts[&format!("programs.Busy$Worker {name} (I)V")];
    assert_eq!(counts("outer"), Counts { calls: truth["outer"], throws: 0 }, "{jdk}");
    let (middle, leaf) = (counts("middle"), counts("leaf"));
    assert!(middle.calls > 0 && middle.calls < truth["middle"], "{jdk}: {middle:?}");
    assert!(middle.throws > 0 && middle.throws < truth["thrown"], "{jdk}: {middle:?}");
    assert!(leaf.calls > 0 && leaf.calls < truth["leaf"], "{jdk}: {leaf:?}");
    assert_eq!(leaf.throws, 0, "{jdk}");
    assert_eq!(profile.counter(counter::UNSEEN_ENDS), 0, "{jdk}");
    profile
}

/// Methods are in progress while their class is retransformed.
#[test]
fn probes_are_taken_out_and_put_back_under_load() {
    for jdk in ends_of_jdks() {
        // The test waits most of the time. One of the threads is in progress at most moments.
        muted_under_load(jdk, "3", take_out_and_put_back);
    }
}

fn take_out_and_put_back(port: u16) {
    let retransformed =
        || json(port, &["status"])["classes_retransformed"].as_u64().expect("a number");
    for method in ["**.leaf", "**.middle", "**.leaf", "**.middle"] {
        let before = retransformed();
        json(port, &["mute", method]);
        wait_until("probes taken out", || retransformed() > before);
        thread::sleep(Duration::from_millis(50));
        json(port, &["unmute", method]);
        let calls = calls_seen(port);
        wait_until("calls", || calls_seen(port) > calls + 10_000);
    }
}

#[test]
fn muting_at_random_costs_the_others_nothing() {
    for jdk in ends_of_jdks() {
        let profile = muted_under_load(jdk, "0", |port| {
            let mut control = Control::connect(port);
            let mut state = 7;
            for _ in 0..rounds(300, 1_000) {
                let word = if random(&mut state).is_multiple_of(2) { "mute" } else { "unmute" };
                let methods = ["**.leaf", "**.middle", "**.run", "**.main"];
                let pattern = methods[usize::try_from(random(&mut state) % 4).expect("small")];
                control.ask(&format!("{word} {pattern}"));
                thread::sleep(Duration::from_micros(random(&mut state) % 1_000));
            }
            control.ask("unmute **");
        });
        assert!(profile.counter(counter::MUTED_CALLS) > 0, "{jdk}: nothing was in progress");
        for record in profile.records.iter().filter(|r| r.path.len() > 1) {
            let caller = record.path[record.path.len() - 2].split(' ').nth(1);
            let method = record.method.split(' ').nth(1).expect("a method");
            // A muted caller is skipped, and no method gets a wrong caller.
            let callers: &[&str] = match method {
                "outer" => &["run"],
                "middle" => &["outer"],
                "leaf" => &["middle", "outer"],
                _ => &["main", "run"],
            };
            assert!(callers.contains(&caller.expect("a method")), "{jdk}: {record:?}");
        }
    }
}

#[test]
fn methods_that_are_loaded_later_are_muted_too_and_a_new_profile_begins_without() {
    at_once(jdks(), |jdk| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        let port = free_port();
        let options = format!("include=programs.Phases,logs={},port={port}", first.display());
        let mut program = Java::new(jdk).agent(&options).main(classes(), "programs.Phases").talk();
        assert_eq!(program.ask("wait"), "ready");
        let answer = tprofiler(port, &["mute", "programs.Phases$*"]);
        let answer = String::from_utf8(answer.stdout).expect("text");
        let expected = "methods muted: 0\nmuted: programs.Phases$*\nhint: programs.Phases$* matches \
                        no instrumented method; it holds for classes loaded later\n";
        assert!(answer.ends_with(expected), "{answer}");
        program.ask("calls 1");
        wait_until("its methods", || json(port, &["mute"])["methods_muted"] == 4);
        program.ask("calls 100");
        let status = json(port, &["status"]);
        assert_eq!(status["methods_muted"], 4, "{jdk}: {status}");
        // In progress: it is not there any more, and is not written as unfinished.
        tprofiler(port, &["mute", "**.main"]);
        assert!(tprofiler(port, &["detach"]).status.success(), "{jdk}");
        let counts = Profile::only_run(&first);
        let outer = counts.counts.get("programs.Phases$Work outer (I)V");
        assert!(outer.is_none_or(|c| c.calls == 1), "{jdk}: {outer:?}");
        assert_eq!(counts.counts["programs.Phases calls (I)Ljava/lang/String;"].calls, 2, "{jdk}");
        assert!(counts.records.iter().all(|r| !r.method.contains(" main ")), "{jdk}: {counts:?}");

        let pid = program.program.pid().to_string();
        let options = format!(
            "include=programs.Phases,leaves=keep,overhead=off,logs={},port={port}",
            second.display()
        );
        let output = Command::new(&artifacts().tprofiler)
            .args(["attach", &pid, &options])
            .output()
            .expect("tprofiler runs");
        assert!(output.status.success(), "{jdk}: {output:?}");
        assert_eq!(json(port, &["mute"])["muted"], serde_json::json!([]), "{jdk}");
        program.ask("calls 10");
        assert!(tprofiler(port, &["detach"]).status.success(), "{jdk}");
        let counts = Profile::only_run(&second).counts;
        assert_eq!(counts["programs.Phases$Work outer (I)V"].calls, 10, "{jdk}");
        assert_eq!(program.end().status, Some(0), "{jdk}");
    });
}
