//! Filters beyond patterns: annotations, class loaders, code; and what is said when nothing matches.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use log_format::rows::counter;
use test_classes::{Finished, Java, Jdk, Profile, classes, jdks};

/// What a run under the agent said, and the run.
struct Filtered {
    finished: Finished,
    /// Methods that were called, as `class method`.
    called: BTreeSet<String>,
    folder: PathBuf,
    _logs: tempfile::TempDir,
}

fn run(jdk: &Jdk, options: &str) -> Filtered {
    // Shown if the test fails.
    println!("{jdk}: {options}");
    let logs = tempfile::tempdir().expect("a temporary folder");
    let options = format!("{options},logs={},port=off", logs.path().display());
    let finished = Java::new(jdk).agent(&options).main(classes(), "programs.Filtered").run();
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    assert_eq!(finished.stdout, "5342817\n3\n3\n4\n".replace("5342817", &sum()), "{options}");
    let profile = Profile::only_run(logs.path());
    let names = profile.counts.keys().filter_map(|name| name.rsplit_once(' '));
    let called = names.map(|(name, _)| name.replace("programs.Filtered", "F")).collect();
    Filtered { finished, called, folder: profile.folder, _logs: logs }
}

/// `getNumber() + timed() + other() + plain()` with 5 for the number.
fn sum() -> String {
    (5 + 17 * 2 + 17 * 3 + 17).to_string()
}

/// The methods that were measured; nobody complained.
fn called(jdk: &Jdk, options: &str) -> BTreeSet<String> {
    let run = run(jdk, options);
    run.finished.expect_quiet_success(options);
    run.called
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

const WHOLE: [&str; 3] = ["F$Whole <init>", "F$Whole first", "F$Whole second"];

#[test]
fn annotations_of_classes_and_methods_are_found() {
    for jdk in jdks() {
        let timed = called(jdk, "include=@programs.Filtered$Timed");
        assert_eq!(timed, set(&[&WHOLE[..], &["F timed"]].concat()), "{jdk}");
        // Not kept at run time; second in its list.
        let other = called(jdk, "include=@programs.Filtered$Other");
        assert_eq!(other, set(&["F other", "F$Whole second"]), "{jdk}");
    }
    let jdk = jdks().first().expect("a JDK");
    let both = called(jdk, "include=@**.Filtered$Timed,exclude=@programs.Filtered$Other");
    assert_eq!(both, set(&["F timed", "F$Whole <init>", "F$Whole first"]));
    let or_named = called(jdk, "include=@programs.Filtered$Other,include=programs.Filtered.plain");
    assert_eq!(or_named, set(&["F other", "F plain", "F$Whole second"]));
    let without = called(jdk, "include=programs.Filtered,exclude=@programs.Filtered$Timed");
    assert!(!without.iter().any(|m| m.contains("Whole") || m == "F timed"), "{without:?}");
    assert!(without.contains("F other") && without.contains("F main"), "{without:?}");
}

#[test]
fn accessors_and_short_methods_can_be_excluded() {
    for jdk in jdks() {
        let all = called(jdk, "include=programs.Filtered");
        assert!(all.contains("F getNumber") && all.contains("F setNumber"), "{all:?}");
        let without = called(jdk, "include=programs.Filtered,accessors=off");
        let excluded: Vec<&String> = all.difference(&without).collect();
        assert_eq!(excluded, ["F getNumber", "F setNumber"], "{jdk}");
    }
    let jdk = jdks().first().expect("a JDK");
    // `main` is longer, nothing else is.
    let long = called(jdk, "include=programs.Filtered,min_code=60");
    assert_eq!(long, set(&["F main"]));
}

#[test]
fn trivial_leaves_are_not_instrumented_and_are_counted() {
    for jdk in jdks() {
        let run = |leaves: &str| {
            let logs = tempfile::tempdir().expect("a temporary folder");
            let options = format!(
                "include=programs.Leaves,leaves={leaves},logs={},port=off",
                logs.path().display()
            );
            let finished = Java::new(jdk).agent(&options).main(classes(), "programs.Leaves").run();
            finished.expect_quiet_success(&options);
            let profile = Profile::only_run(logs.path());
            let names = profile.counts.keys().filter_map(|name| name.split(' ').nth(1));
            let names: BTreeSet<String> = names.map(str::to_owned).collect();
            (names, profile.counter(counter::LEAVES), finished.stdout)
        };
        let ((all, none, out), (without, excluded, same)) = (run("keep"), run("skip"));
        assert_eq!((none, &out), (0, &same), "{jdk}");
        let missing: BTreeSet<String> = all.difference(&without).cloned().collect();
        let (leaves, others): (Vec<_>, Vec<_>) =
            missing.iter().cloned().partition(|name| name.starts_with("leaf"));
        // The lambda's body: javac's, and a leaf.
        assert_eq!(others, ["lambda$otherLambda$0"], "{jdk}");
        assert_eq!(leaves.len(), 10, "{jdk}: {leaves:?}");
        assert!(!without.iter().any(|name| name.starts_with("leaf")), "{jdk}: {without:?}");
        assert_eq!(without.iter().filter(|name| name.starts_with("other")).count(), 8, "{jdk}");
        assert_eq!(excluded, 11, "{jdk}");
    }
    // Who names a method gets it.
    let jdk = jdks().first().expect("a JDK");
    let named = "include=programs.Filtered$Whole.first,include=programs.Filtered.get*,leaves=skip";
    assert_eq!(called(jdk, named), set(&["F$Whole first"]));
}

#[test]
fn classes_of_a_loader_can_be_excluded() {
    for jdk in jdks() {
        let all = called(jdk, "include=programs.Filtered");
        for loader in ["programs.Filtered$Loader", "**.*$Loader"] {
            let without =
                called(jdk, &format!("include=programs.Filtered,exclude_loader={loader}"));
            let excluded: Vec<&String> = all.difference(&without).collect();
            assert_eq!(excluded, ["F$Loaded run"], "{jdk}");
        }
        for app in ["app", "jdk.internal.loader.ClassLoaders$AppClassLoader"] {
            let run = run(jdk, &format!("include=programs.Filtered,exclude_loader={app}"));
            assert_eq!(run.called, set(&["F$Loaded run"]), "{jdk}");
        }
    }
}

#[test]
fn proxies_are_excluded_unless_they_are_named() {
    let jdk = jdks().first().expect("a JDK");
    let proxy = "F$Order$$EnhancerByTest$$1 call";
    assert!(!called(jdk, "include=programs").contains(proxy));
    assert!(!called(jdk, "").contains(proxy));
    for include in ["programs.Filtered$Order$$EnhancerByTest$$1", "**$$EnhancerBy*"] {
        let called = called(jdk, &format!("include={include}"));
        assert!(called.contains(proxy), "{include}: {called:?}");
    }
    // A given exclude always wins.
    let excluded = "include=**$$EnhancerBy*,include=programs.Filtered.main,exclude=**ByTest**";
    assert_eq!(called(jdk, excluded), set(&["F main"]));
}

#[test]
fn each_decision_is_logged() {
    for jdk in jdks() {
        let run = run(
            jdk,
            "include=programs,exclude=programs.Filtered$Whole,exclude_loader=**$Loader,\
             accessors=off,debug=classes",
        );
        run.finished.expect_quiet_success(jdk);
        let log = fs::read_to_string(run.folder.join("classes.log")).expect("classes.log");
        for line in [
            "java.lang.String: excluded, no include matches it",
            "programs.Filtered$Whole: excluded, exclude=programs.Filtered$Whole",
            "programs.Filtered: app, 5 methods instrumented; 0 not included, 0 excluded, \
             2 accessors, 0 short, 0 trivial leaves",
            "programs.Filtered$Order$$EnhancerByTest$$1: excluded by default, **$$EnhancerBy**",
        ] {
            assert!(log.lines().any(|l| l == line), "{jdk}: {line}\n{log}");
        }
        let loaded = log.lines().find(|l| l.starts_with("programs.Filtered$Loaded: "));
        let loaded = loaded.expect("a decision on a class of another loader");
        assert!(
            loaded.starts_with("programs.Filtered$Loaded: programs.Filtered$Loader#")
                && loaded.ends_with(", excluded, exclude_loader=**$Loader"),
            "{loaded}"
        );
        // Without includes, classes of the JDK are another matter.
        let run = self::run(jdk, "debug=classes");
        let log = fs::read_to_string(run.folder.join("classes.log")).expect("classes.log");
        assert!(
            log.lines().any(|l| l == "java.lang.String: excluded, not a class of the application"),
            "{jdk}: {log}"
        );
    }
}

#[test]
fn what_met_nothing_is_told_at_the_end() {
    for jdk in jdks() {
        let run = run(
            jdk,
            "include=program.Filtered,include=org.nowhere.X,include=@programs.Filtered$Timd",
        );
        let expected = [
            "tprofiler: include=program.Filtered has met no class so far; nearest: programs.Filtered",
            "tprofiler: include=org.nowhere.X has met no class so far, nor one with a similar name",
            "tprofiler: include=@programs.Filtered$Timd has met no annotation so far; nearest: \
             programs.Filtered$Timed",
        ];
        let lines: Vec<&str> = run.finished.stderr.lines().collect();
        assert_eq!(lines.len(), 3, "{jdk}: {lines:?}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.starts_with(expected), "{jdk}: {line}");
        }
        assert_eq!(run.called, BTreeSet::new(), "{jdk}");
    }
    let jdk = jdks().first().expect("a JDK");
    let run = run(jdk, "include=programs.Filtered,exclude=programs");
    assert_eq!(
        run.finished.stderr,
        "tprofiler: every class that an include matches is excluded or has no method to instrument; \
         debug=classes tells which and why\n"
    );
}

#[test]
fn what_met_nothing_is_told_after_half_a_minute() {
    let jdk = jdks().last().expect("a JDK");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (logs, stop) = (folder.path().join("logs"), folder.path().join("stop"));
    let options = format!("include=programs.Wait,logs={},port=off", logs.display());
    let began = Instant::now();
    let program =
        Java::new(jdk).agent(&options).main(classes(), "programs.Waits").arg(&stop).start();
    // The message cannot be waited for: stderr is read at the end.
    std::thread::sleep(Duration::from_secs(33).saturating_sub(began.elapsed()));
    fs::write(&stop, "").expect("a file");
    let finished = program.wait();
    assert_eq!(finished.status, Some(0));
    let message =
        "tprofiler: include=programs.Wait has met no class so far; nearest: programs.Waits\n";
    assert_eq!(finished.stderr, message.repeat(2));
}
