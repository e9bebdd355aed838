//! Other agents in the same JVM change the same classes, before ours and after it, at load time and later: counts
//! stay exact, and methods keep their ids, which reading a profile asserts.
//!
//! The JVM calls the agents that cannot retransform first, then those that can, each in the order in which they were
//! loaded. Ours can.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use log_format::rows::counter;
use tempfile::TempDir;
use test_classes::{
    Counts, Finished, Java, Jdk, Profile, changed_classes, classes, ends_of_jdks, jacoco,
    java_agent, jdks, second_agent, truth,
};

const ROUNDS: &str = "100";

/// Whether our agent is before the other one on the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ours {
    First,
    Last,
}

const ORDERS: [Ours; 2] = [Ours::First, Ours::Last];

/// The methods of the profile, except those that JaCoCo added.
fn without_jacoco(mut profile: Profile, what: impl Display) -> Profile {
    let all = profile.counts.len();
    profile.counts.retain(|name, _| !name.contains(" $jacocoInit "));
    let added = all - profile.counts.len();
    assert!(added > 15, "{what}: JaCoCo has changed {added} classes before us");
    profile
}

/// One run of a program next to other agents.
struct Run {
    folder: TempDir,
    what: String,
}

impl Run {
    fn new(what: String) -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), what }
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Runs a program with another agent and ours.
    fn run(&self, jdk: &Jdk, order: Ours, others: &[String], program: &[&str]) -> Finished {
        let include = format!(
            "include=truth,include=changing,exclude=truth.Count,logs={},port=off",
            self.file("logs")
        );
        let java = Java::new(jdk);
        let java = match order {
            Ours::First => java.agent(&include).args(others),
            Ours::Last => java.args(others).agent(&include),
        };
        let (main, arguments) = program.split_first().expect("a program");
        let finished = java.main(classes(), main).arg(self.file("counts")).args(arguments).run();
        finished.expect_quiet_success(&self.what);
        finished
    }

    fn profile(&self) -> Profile {
        Profile::only_run(Path::new(&self.file("logs")))
    }

    fn truth(&self) -> BTreeMap<String, Counts> {
        truth(Path::new(&self.file("counts")))
    }

    fn jacoco(&self) -> String {
        format!("-javaagent:{}=destfile={}", jacoco().display(), self.file("coverage"))
    }

    /// JaCoCo's file names the covered classes.
    fn expect_coverage(&self) {
        let coverage = fs::read(self.file("coverage")).expect("coverage");
        let coverage = String::from_utf8_lossy(&coverage);
        for class in ["truth/Main", "truth/Calls$Interface", "truth/Threads$Work"] {
            assert!(coverage.contains(class), "{}: no coverage of {class}", self.what);
        }
    }

    fn second_agent(&self, kind: &str) -> String {
        format!("-agentpath:{}={kind},{}", second_agent().display(), self.file("met"))
    }

    /// Checks that the second agent has seen and changed the classes of truth; returns how often with probes and how
    /// often without. The class that our agent excludes does not count.
    fn met(&self) -> (usize, usize) {
        let met = fs::read_to_string(self.file("met")).expect("what the second agent met");
        let lines = || met.lines().filter(|line| !line.starts_with("truth/Count "));
        let count = |what| lines().filter(|line| line.ends_with(what)).count();
        let (probes, plain) = (count(" probes"), count(" plain"));
        assert_eq!(probes + plain, lines().count(), "{}: {met}", self.what);
        (probes, plain)
    }

    fn java_agent(&self, options: &str) -> String {
        format!("-javaagent:{}{options}", java_agent(self.folder.path()).display())
    }
}

/// Classes and methods of truth that are instrumented without other agents.
fn instrumented_alone() -> (u64, u64) {
    static ALONE: OnceLock<(u64, u64)> = OnceLock::new();
    *ALONE.get_or_init(|| {
        let run = Run::new("alone".to_owned());
        run.run(jdks().first().expect("a JDK"), Ours::First, &[], &["truth.Main", ROUNDS]);
        instrumented(&run.profile())
    })
}

fn instrumented(profile: &Profile) -> (u64, u64) {
    (profile.counter(counter::CLASSES), profile.counter(counter::METHODS))
}

#[test]
fn with_jacoco_in_either_order() {
    for jdk in jdks() {
        for order in ORDERS {
            let run = Run::new(format!("{jdk}, JaCoCo, ours {order:?}"));
            let finished = run.run(jdk, order, &[run.jacoco()], &["truth.Main", ROUNDS]);
            assert_eq!(finished.stdout, "done\n", "{}", run.what);
            let profile = without_jacoco(run.profile(), &run.what);
            profile.expect_truth(&run.truth(), &run.what);
            run.expect_coverage();
        }
    }
}

/// Runs the programs of truth next to the second agent, which changes them, and a Java agent.
fn with_second(jdk: &Jdk, kind: &str, order: Ours, loaded: &str) {
    let (classes, methods) = instrumented_alone();
    let run = Run::new(format!("{jdk}, {kind} second agent, ours {order:?}, {loaded}"));
    let agents = [run.second_agent(kind), run.java_agent(loaded)];
    let finished = run.run(jdk, order, &agents, &["truth.Main", ROUNDS]);
    assert_eq!(finished.stdout, "done twice\n", "{}", run.what);
    let profile = run.profile();
    profile.expect_truth(&run.truth(), &run.what);
    assert_eq!(instrumented(&profile), (classes, methods), "{}", run.what);
    // It was called after our agent, or before it, for every class.
    let classes = usize::try_from(classes).expect("a count");
    let is_after = kind == "capable" && order == Ours::First;
    let met = if is_after { (classes, 0) } else { (0, classes) };
    assert_eq!(run.met(), met, "{}: with probes, without", run.what);
}

#[test]
fn with_a_second_load_hook_in_either_order() {
    for jdk in ends_of_jdks() {
        with_second(jdk, "capable", Ours::First, "");
        with_second(jdk, "capable", Ours::Last, "");
        with_second(jdk, "incapable", Ours::First, "");
    }
}

/// A Java agent loaded before ours has loaded classes, which the second agent changed.
#[test]
fn with_classes_that_another_agent_has_loaded_before() {
    let loaded = "=truth.Main,truth.Calls,truth.Calls$IntBox,truth.Exceptions,truth.Threads";
    for jdk in jdks() {
        with_second(jdk, "incapable", Ours::Last, loaded);
    }
}

/// The numbers that `agents.Again` prints after the programs' output.
fn numbers(finished: &Finished) -> BTreeMap<&str, u64> {
    let words = finished.stdout.lines().filter_map(|line| line.split_once(' '));
    words.filter_map(|(name, number)| Some((name, number.parse().ok()?))).collect()
}

/// Runs the programs of truth while all their classes are changed at least 20 times.
fn changed_again_and_again(run: &Run, jdk: &Jdk, order: Ours, others: &[String], how: &str) {
    let finished = run.run(jdk, order, others, &["agents.Again", ROUNDS, "20", how]);
    let what = &run.what;
    let numbers = numbers(&finished);
    println!("{what}: {numbers:?}");
    assert!(numbers["changes"] >= 20, "{what}: {numbers:?}");
    // The Java agent sees each class after ours, or before it.
    let (seen, other) = match order {
        Ours::First => ("with", "without"),
        Ours::Last => ("without", "with"),
    };
    assert_eq!(numbers[other], 0, "{what}: {numbers:?}");
    // Not all classes are loaded yet when the first are changed.
    assert!(numbers[seen] > numbers["changes"] * 5, "{what}: {numbers:?}");
    let done = finished.stdout.lines().filter(|line| line.starts_with("done")).count();
    assert_eq!(u64::try_from(done).expect("a count"), numbers["runs"], "{what}");
}

#[test]
fn while_classes_are_retransformed() {
    let alone = instrumented_alone();
    for (jdk, order) in jdks().iter().zip(ORDERS.into_iter().cycle()) {
        let run = Run::new(format!("{jdk}, retransformed, ours {order:?}"));
        let agents = [run.java_agent("")];
        changed_again_and_again(&run, jdk, order, &agents, "retransform");
        let profile = run.profile();
        profile.expect_truth(&run.truth(), &run.what);
        assert_eq!(instrumented(&profile), alone, "{}", run.what);
    }
}

#[test]
fn while_classes_are_redefined_as_they_were() {
    let alone = instrumented_alone();
    for (jdk, order) in jdks().iter().zip(ORDERS.into_iter().cycle().skip(1)) {
        let run = Run::new(format!("{jdk}, redefined, ours {order:?}"));
        let agents = [run.java_agent("")];
        changed_again_and_again(&run, jdk, order, &agents, "redefine");
        let profile = run.profile();
        profile.expect_truth(&run.truth(), &run.what);
        assert_eq!(instrumented(&profile), alone, "{}", run.what);
    }
}

#[test]
fn while_classes_of_three_agents_are_retransformed() {
    let (alone, _) = instrumented_alone();
    for (jdk, order) in jdks().iter().zip(ORDERS.into_iter().cycle()) {
        let run =
            Run::new(format!("{jdk}, JaCoCo and a second agent, retransformed, ours {order:?}"));
        let agents = [run.jacoco(), run.second_agent("capable"), run.java_agent("")];
        changed_again_and_again(&run, jdk, order, &agents, "retransform");
        let profile = without_jacoco(run.profile(), &run.what);
        profile.expect_truth(&run.truth(), &run.what);
        assert_eq!(profile.counter(counter::CLASSES), alone, "{}", run.what);
        run.expect_coverage();
        let (probes, plain) = run.met();
        assert_eq!(if order == Ours::First { plain } else { probes }, 0, "{}", run.what);
    }
}

/// A walk in progress continues in the old version, with the steps of the new one.
#[test]
fn while_a_class_is_redefined_with_other_bodies() {
    let changed = changed_classes().join("changing/Steps.class");
    let changed = changed.to_str().expect("a path");
    for (jdk, order) in jdks().iter().zip(ORDERS.into_iter().cycle()) {
        let run = Run::new(format!("{jdk}, other bodies, ours {order:?}"));
        let agents = [run.java_agent("")];
        let finished = run.run(jdk, order, &agents, &["agents.Changes", changed, "20"]);
        // The second walk changes from the old version to the new one, and the fourth back.
        let walks = "walked 10\nthrew\nwalked 2120\nwalked 1070\n";
        assert_eq!(finished.stdout, walks.repeat(3), "{}", run.what);
        let (profile, truth) = (run.profile(), run.truth());
        profile.expect_truth(&truth, &run.what);
        let calls: u64 = truth.values().map(|counts| counts.calls).sum();
        let throws: u64 = truth.values().map(|counts| counts.throws).sum();
        assert!(calls > 20 * 200 * 10 && throws > 10 * 200, "{}: {truth:?}", run.what);
        // Its methods are walk, step and leap, and a constructor without calls.
        assert_eq!((instrumented(&profile), truth.len()), ((1, 4), 3), "{}", run.what);
    }
}
