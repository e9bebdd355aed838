//! Reads the SQL statements of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;

use log_format::compression;
use log_format::ids::StatementId;
use log_format::rows::{Exit, SlowSqlRow, SqlRow, StatementRow};

use crate::profile::{MethodName, methods, rows};
use crate::samples::Names;

/// Executions of a statement in an interval, within the same instrumented method.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Executed {
    pub url: String,
    pub text: String,
    /// The innermost instrumented method in progress.
    pub method: Option<MethodName>,
    pub executions: u64,
    pub throws: u64,
    pub total_ns: u64,
    pub max_ns: u64,
}

/// An execution over the threshold.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct SlowStatement {
    pub thread: String,
    pub url: String,
    /// Without literals.
    pub text: String,
    pub start_ns: u64,
    pub total_ns: u64,
    pub exit: Exit,
    /// With its literals; empty unless the option `sql_literals` is on.
    pub with_literals: String,
    /// Frames from the outermost, as [`crate::Sampled::frames`].
    pub frames: Vec<String>,
    /// Instrumented methods from the outermost.
    pub path: Vec<MethodName>,
}

/// Executions, and those that threw, by text without literals.
pub type Sums = BTreeMap<String, (u64, u64)>;

/// The URL and the text of each statement.
fn statements(run: &Path) -> BTreeMap<StatementId, (String, String)> {
    let mut statements = BTreeMap::new();
    for row in rows::<StatementRow>(run) {
        let named = (row.url, row.text);
        // Each hour's files name it again.
        let other = statements.insert(row.id, named.clone()).filter(|other| *other != named);
        assert_eq!(other, None, "{}: statement {} is {named:?} too", run.display(), row.id.get());
    }
    statements
}

/// The executions of a run, a value for each row of `sql.csv`.
///
/// # Panics
/// If its logs are not flawless, or a row contradicts itself.
#[must_use]
pub fn executions(run: &Path) -> Vec<Executed> {
    let (statements, methods) = (statements(run), methods(run));
    let executed = |row: SqlRow| {
        assert!(row.executions > 0 && row.throws <= row.executions, "{row:?}");
        assert_eq!(row.hist.count(), row.executions, "{row:?}");
        assert!(row.max_ns >= row.total_ns / row.executions, "{row:?}");
        assert!(row.max_ns <= row.total_ns, "{row:?}");
        let (url, text) = statements.get(&row.statement).expect("a statement has a text").clone();
        let named = || methods.get(&row.method).expect("a method has a name").clone();
        Executed {
            url,
            text,
            method: (!row.method.is_none()).then(named),
            executions: row.executions,
            throws: row.throws,
            total_ns: row.total_ns,
            max_ns: row.max_ns,
        }
    };
    rows::<SqlRow>(run).into_iter().map(executed).collect()
}

/// The executions of a run that took long enough to be recorded.
///
/// # Panics
/// If its logs are not flawless.
#[must_use]
pub fn slow_statements(run: &Path) -> Vec<SlowStatement> {
    let (statements, names) = (statements(run), Names::of(run));
    let slow = |row: SlowSqlRow| {
        let (url, text) = statements.get(&row.statement).expect("a statement has a text").clone();
        SlowStatement {
            thread: names.thread(row.thread).0,
            url,
            text,
            start_ns: row.start_ns,
            total_ns: row.total_ns,
            exit: row.exit,
            with_literals: row.text,
            frames: names.frames(row.sampled_stack),
            path: names.path(row.stack),
        }
    };
    rows::<SlowSqlRow>(run).into_iter().map(slow).collect()
}

/// Adds up executions by text.
#[must_use]
pub fn sums(executions: &[Executed]) -> Sums {
    let mut sums = Sums::new();
    for executed in executions {
        let sum = sums.entry(executed.text.clone()).or_default();
        sum.0 += executed.executions;
        sum.1 += executed.throws;
    }
    sums
}

/// The kinds of secrets of the programs in `java/sql` that are somewhere in a folder's files, also in compressed ones:
/// `LITERAL` of `SECRET_LITERAL_1`.
///
/// # Panics
/// If a file cannot be read.
#[must_use]
pub fn secrets(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.append(&mut secrets(&path));
            continue;
        }
        let mut bytes = Vec::new();
        let mut file = compression::open(&path).expect("a file");
        file.read_to_end(&mut bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let text = String::from_utf8_lossy(&bytes);
        let behind = text.split("SECRET").skip(1);
        found.extend(behind.map(|rest| {
            let rest = rest.strip_prefix('_').unwrap_or(rest);
            rest.chars().take_while(char::is_ascii_uppercase).collect()
        }));
    }
    found
}
