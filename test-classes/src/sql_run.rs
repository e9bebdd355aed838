//! Runs the programs of `java/sql` under the agent, and compares what was recorded with what they expect.

use std::collections::BTreeSet;

use log_format::rows::counter;

use crate::classes::sql_classes;
use crate::jdk::Jdk;
use crate::libraries::library;
use crate::profile::Profile;
use crate::run::{Finished, Java, may_load};
use crate::statements::{
    Executed, SlowStatement, Sums, executions, secrets, slow_statements, sums,
};

/// What a program of `java/sql` printed and what was recorded.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct SqlRun {
    pub finished: Finished,
    pub profile: Profile,
    pub executions: Vec<Executed>,
    pub slow: Vec<SlowStatement>,
    /// The kinds of secrets in its log.
    pub secrets: BTreeSet<String>,
}

/// A java command with the class path of the programs of `java/sql`, with the agent if there are options.
#[must_use]
pub fn sql_java(jdk: &Jdk, options: Option<&str>) -> Java {
    sql_java_with(jdk, &[], options)
}

/// The same with more libraries, by the start of their names.
#[must_use]
pub fn sql_java_with(jdk: &Jdk, more: &[&str], options: Option<&str>) -> Java {
    let jars = ["h2-", "sqlite-jdbc-", "HikariCP-", "slf4j-api-", "slf4j-nop-"];
    let jars = jars.iter().chain(more).map(|start| library(start).display().to_string());
    let jars = jars.collect::<Vec<_>>().join(":");
    // SQLite's driver loads a library.
    let java = Java::new(jdk).args(may_load(jdk));
    let java = options.into_iter().fold(java, Java::agent);
    java.arg("-cp").arg(format!("{}:{jars}", sql_classes().display()))
}

/// Runs a program of `java/sql` under the agent; its methods are measured unless the options say otherwise.
///
/// # Panics
/// If it fails, or if its log is not flawless.
pub fn run_sql(jdk: &Jdk, options: &str, program: &[&str]) -> SqlRun {
    // Shown if the test fails.
    println!("{jdk} {options} {program:?}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let logs = folder.path().join("logs");
    let include = if options.contains("include=") { "" } else { "include=sql," };
    let options = format!("{include}port=off,logs={},{options}", logs.display());
    let finished = sql_java(jdk, Some(&options)).args(program).run();
    finished.expect_quiet_success(jdk);
    let profile = Profile::only_run(&logs);
    let (executions, slow) = (executions(&profile.folder), slow_statements(&profile.folder));
    for lost in [counter::SQL_LOST, counter::NOT_INSTRUMENTED, counter::UNREADABLE] {
        assert_eq!(profile.counter(lost), 0, "{jdk}: {lost}");
    }
    let ran = SqlRun { finished, profile, executions, slow, secrets: secrets(&logs) };
    assert_eq!(ran.profile.counter(counter::SQL_EXECUTIONS), ran.total(), "{jdk}");
    ran
}

impl SqlRun {
    /// All executions.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.executions.iter().map(|executed| executed.executions).sum()
    }

    /// The cells of the lines that begin with a word.
    #[must_use]
    pub fn lines(&self, word: &str) -> Vec<Vec<&str>> {
        cells_of(&self.finished, word)
    }

    /// Asserts that all executions are what the program expects, and that there is no secret in the log.
    ///
    /// # Panics
    /// If that does not hold.
    pub fn expect_truth(&self, jdk: &Jdk) {
        let (expected, found) = (sql_expected(&self.finished), sums(&self.executions));
        let texts: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
        let differences: Vec<String> = texts
            .into_iter()
            .filter(|text| expected.get(*text) != found.get(*text))
            .map(|text| format!("{text}: {:?}, not {:?}", found.get(text), expected.get(text)))
            .collect();
        assert!(differences.is_empty(), "{jdk}:\n{}", differences.join("\n"));
        assert_eq!(self.secrets, BTreeSet::new(), "{jdk}");
    }
}

/// What a program of `java/sql` expects.
///
/// # Panics
/// If it printed no numbers.
#[must_use]
pub fn sql_expected(finished: &Finished) -> Sums {
    let expected = cells_of(finished, "expect").into_iter().map(|cells| {
        let [executions, throws] = [1, 2].map(|at| cells[at].parse().expect("a number"));
        (cells[3].to_owned(), (executions, throws))
    });
    expected.collect()
}

fn cells_of<'f>(finished: &'f Finished, word: &str) -> Vec<Vec<&'f str>> {
    let lines = finished.stdout.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    lines.filter(|cells| cells[0] == word).collect()
}
