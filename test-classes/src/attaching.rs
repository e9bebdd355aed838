//! Attaching to `programs.Phases`, which makes calls and counts them itself.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use log_format::rows::counter;

use crate::artifacts::artifacts;
use crate::classes::classes;
use crate::control::without_notice;
use crate::jdk::Jdk;
use crate::profile::{Counts, Profile};
use crate::run::{Dialogue, Finished, Java};

/// `tprofiler` with arguments.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(&artifacts().tprofiler);
    command.args(arguments);
    command
}

/// Its output.
pub fn tprofiler_with(arguments: &[&str]) -> Output {
    command(arguments).output().expect("tprofiler runs")
}

/// The output of a command that must succeed.
pub fn succeeds(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = tprofiler_with(arguments);
    let stderr = without_notice(&stderr);
    assert!(status.success() && stderr.is_empty(), "{arguments:?}: {status} {stderr}");
    String::from_utf8(stdout).expect("text")
}

/// The single line on stderr of a command that must fail.
pub fn fails(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = tprofiler_with(arguments);
    let stderr = without_notice(&stderr);
    assert_eq!((status.code(), &*stdout), (Some(1), &b""[..]), "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    stderr
}

/// `programs.Phases`, which takes commands.
pub fn phases(jdk: &Jdk, options: &[&str]) -> Dialogue {
    // Shown if the test fails.
    println!("{jdk} {options:?}");
    let mut program = Java::new(jdk).args(options).main(classes(), "programs.Phases").talk();
    assert_eq!(program.ask("wait"), "ready");
    program
}

/// Ends it: it must end well, and stderr may only have the JVM's own warning about a dynamically loaded agent.
pub fn end(program: Dialogue, what: &impl std::fmt::Display) {
    expect_success(&program.end(), what);
}

/// As [`end`], of one that has ended.
pub fn expect_success(finished: &Finished, what: &impl std::fmt::Display) {
    let is_of_jvm = |line: &&str| line.starts_with("WARNING: ");
    let (jvms, others): (Vec<&str>, Vec<&str>) = finished.stderr.lines().partition(is_of_jvm);
    assert_eq!((finished.status, others), (Some(0), vec![]), "{what}");
    assert!(jvms.is_empty() || jvms[0].contains("loaded dynamically"), "{what}: {jvms:?}");
}

/// The class of the calls.
pub const WORK: &str = "programs.Phases$Work";

fn counts_of(rounds: u64) -> BTreeMap<String, Counts> {
    // Of three consecutive numbers from 0, 1, 2 and so on, those divisible by 5.
    let thrown = (0..rounds).map(|i| (i..i + 3).filter(|n| n % 5 == 0).count() as u64).sum();
    [("outer (I)V", rounds, 0), ("middle (I)V", 3 * rounds, thrown), ("leaf (I)V", 3 * rounds, 0)]
        .into_iter()
        .map(|(name, calls, throws)| (format!("{WORK} {name}"), Counts { calls, throws }))
        .collect()
}

/// Makes the program call methods, and compares its own counts.
pub fn make_calls(program: &mut Dialogue, rounds: u64) {
    let counts = counts_of(rounds);
    let [leaf, middle, outer] =
        ["leaf", "middle", "outer"].map(|name| counts[&format!("{WORK} {name} (I)V")]);
    assert_eq!(
        program.ask(&format!("calls {rounds}")),
        format!(
            "outer {} middle {} thrown {} leaf {}",
            outer.calls, middle.calls, middle.throws, leaf.calls
        )
    );
}

/// Asserts that a run has exactly the calls of these rounds.
pub fn expect_calls(profile: &Profile, rounds: u64, what: &impl std::fmt::Display) {
    let mut counts = profile.counts.clone();
    counts.retain(|name, _| name.starts_with(&format!("{WORK} ")) && !name.contains("<init>"));
    assert_eq!(counts, counts_of(rounds), "{what}");
    for lost in [counter::LOST_CALLS, counter::UNSEEN_ENDS, counter::NOT_INSTRUMENTED] {
        assert_eq!(profile.counter(lost), 0, "{what}: {lost}");
    }
}
