//! TProfiler's `mysqlProfiler.log`, for scripts that read it, of slow SQL statements of any database:
//!
//! ```text
//! host <tab> port <tab> database <tab> statement <tab> true <tab> nanoseconds
//! ```
//!
//! `true` says that times are in nanoseconds; TProfiler has no time behind it. A line `=` ends each run, as it ends
//! each of TProfiler's periods. Statements that had not ended are not in it: it could not mark them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;

use log_format::rows::{Exit, SlowSqlRow};
use log_format::writer::one_line;

use crate::analysis::{Selected, select};
use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::options::Options;
use crate::render::shared::output::to_file;
use crate::render::shared::streamed::StreamError;
use crate::run::names::Names;
use crate::run::selection::Selection;
use crate::run::sites::{SiteMethods, innermost};
use crate::run::sql::{StatementNames, each_slow_sql, has_slow_sql};

const FILE: &str = "mysqlProfiler.log";

/// Columns of ours: one more than TProfiler's.
const COLUMNS: usize = 6;

/// Writes the file into a folder, if the logs have slow statements. Returns what could not be read.
///
/// # Errors
/// There is nothing to read, or the file cannot be written.
pub fn write(options: &Options, folder: &Path) -> Result<Problems, StreamError> {
    // The report has the problems of finding the logs.
    let (found, _) = select(options, &Arc::default(), &mut Problems::default())?;
    let Selected { runs, selection, .. } = &found;
    let runs: Vec<&RunInput> = runs.iter().filter(|run| has_slow_sql(run)).collect();
    let mut problems = Problems::default();
    if runs.is_empty() {
        return Ok(problems);
    }
    let file = folder.join(FILE);
    if is_tprofilers(&file) {
        let why = format!("{} is TProfiler's: choose another folder", file.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why).into());
    }
    to_file(&file, |out| {
        runs.iter().try_for_each(|run| write_run(run, selection, &mut problems, out))
    })?;
    Ok(problems)
}

fn write_run(
    run: &RunInput,
    selection: &Selection,
    problems: &mut Problems,
    out: &mut dyn Write,
) -> io::Result<()> {
    // Problems with these names are reported where all names are read.
    let names = Names::read(run, &mut Problems::default());
    let statements = StatementNames::read(run, problems);
    let methods = SiteMethods::new(&names, run, selection);
    let mut written = Ok(());
    each_slow_sql(run, selection, &names, problems, |row: SlowSqlRow| {
        let is_selected = methods.takes(innermost(row.stack, &names));
        if written.is_err() || !is_selected || row.exit == Exit::Unfinished {
            return;
        }
        let statement = statements.statement(row.statement);
        let Database { host, port, name } = Database::of(&statement.url);
        let text = if row.text.is_empty() { &statement.text } else { &row.text };
        let [host, port, name, text] = [host, port, name, text].map(one_line);
        written = writeln!(out, "{host}\t{port}\t{name}\t{text}\ttrue\t{}", row.total_ns);
    });
    written?;
    writeln!(out, "=")
}

/// Whether a file is TProfiler's own.
fn is_tprofilers(file: &Path) -> bool {
    let Ok(file) = File::open(file) else { return false };
    let mut lines = BufReader::new(file).lines().map_while(Result::ok);
    let first = lines.find(|line| line != "=");
    first.is_some_and(|line| line.split('\t').count() == COLUMNS - 1)
}

/// The parts of a URL of JDBC, empty where they are unknown.
#[derive(Debug, PartialEq, Eq)]
struct Database<'u> {
    host: &'u str,
    port: &'u str,
    /// A URL without a host is one name.
    name: &'u str,
}

impl<'u> Database<'u> {
    fn of(url: &'u str) -> Self {
        let Some((_, rest)) = url.split_once("//") else {
            return Self { host: "", port: "", name: url };
        };
        let end = rest.find(['/', '?', ';']).unwrap_or(rest.len());
        let (place, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let path = path.strip_prefix('/').unwrap_or_default();
        let name = path.split(['?', ';']).next().unwrap_or_default();
        let port = place
            .rsplit_once(':')
            .filter(|(_, port)| !port.is_empty() && port.chars().all(|c| c.is_ascii_digit()));
        let (host, port) = port.unwrap_or((place, ""));
        Self { host, port, name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_host_port_and_database() {
        for (url, host, port, name) in [
            ("jdbc:mysql://db1:3306/shop?ssl=true", "db1", "3306", "shop"),
            ("jdbc:postgresql://db2/audit", "db2", "", "audit"),
            ("jdbc:sqlserver://db3:1433;databaseName=shop", "db3", "1433", ""),
            ("jdbc:mysql://[::1]:3306/", "[::1]", "3306", ""),
            ("jdbc:mysql://a:1,b:2/shop", "a:1,b", "2", "shop"),
            ("jdbc:oracle:thin:@//db4:1521/shop", "db4", "1521", "shop"),
            ("jdbc:h2:mem:test", "", "", "jdbc:h2:mem:test"),
            ("", "", "", ""),
            ("//", "", "", ""),
        ] {
            assert_eq!(Database::of(url), Database { host, port, name }, "{url}");
        }
    }
}
