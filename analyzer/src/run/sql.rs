//! Reads the SQL statements of a run: statistics of all executions, and the slow ones.

use std::collections::HashMap;
use std::sync::Arc;

use log_format::file_names::Table;
use log_format::ids::{MethodId, StatementId, ThreadId};
use log_format::reader::BadRow;
use log_format::rows::{Exit, SlowSqlRow, SqlRow, StatementRow};

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::input::table_rows::read_rows;
use crate::options::By;
use crate::run::cpu_samples::SampleNames;
use crate::run::names::{Names, insert, name_files};
use crate::run::selected_rows::{each_row, each_selected, has_table};
use crate::run::selection::Selection;
use crate::run::sites::{SiteMethods, innermost};
use crate::stats::aggregate::{Figures, Group};
use crate::stats::group_sums::GroupSums;
use crate::stats::longest::Length;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::is_part_of_caller;
use crate::stats::sql_sums::{SlowSql, SqlSite, SqlSums, Statement, add};

/// Most methods of a slow execution's call path.
const PATH: usize = 32;

/// The statements of one run by id.
pub struct StatementNames {
    names: HashMap<StatementId, Arc<Statement>>,
    run: String,
}

impl StatementNames {
    /// Reads them, of all hours.
    #[must_use]
    pub fn read(run: &RunInput, problems: &mut Problems) -> Self {
        let mut names = HashMap::new();
        for (_, path) in name_files(run, &[Table::Statements], problems) {
            read_rows(&path, u64::MAX, problems, |StatementRow { id, url, text }| {
                let other = BadRow::Id("statement", id.get());
                insert(&mut names, id, Arc::new(Statement { text, url }), other)
            });
        }
        Self { names, run: run.label.clone() }
    }

    /// A statement. One without a name is `[statement #7 of RUN]`.
    #[must_use]
    pub fn statement(&self, id: StatementId) -> Arc<Statement> {
        self.names.get(&id).cloned().unwrap_or_else(|| {
            let text = format!("[statement #{id} of {}]", self.run);
            Arc::new(Statement { text, url: String::new() })
        })
    }
}

/// Adds the selected statements of the run at index `place` in the list of runs, each to its group. Those that had not
/// ended are in no figures. Returns the names of their threads if these are groups.
pub fn read_sql(
    run: &RunInput,
    place: usize,
    selection: &Selection,
    group: impl Fn(u64, ThreadId) -> Group,
    problems: &mut Problems,
    sums: &mut SqlSums,
) -> HashMap<ThreadId, String> {
    let mut threads = HashMap::new();
    if !has_table(run, Table::Sql) && !has_slow_sql(run) {
        return threads;
    }
    // Problems with these names are reported where all names are read.
    let names = Names::read(run, &mut Problems::default());
    let statements = StatementNames::read(run, problems);
    let methods = SiteMethods::new(&names, run, selection);
    let sites = Sites { statements: &statements, methods: &methods };
    if !selection.counts_single_events() {
        let intervals = selection.statistics_of(place);
        let (mut all, mut groups) = (ById::default(), GroupSums::default());
        each_row(run, selection, problems, |row: SqlRow| {
            if intervals.contains(row.start_ns) && methods.takes(row.method) {
                let key = (row.statement, row.method);
                all.entry(key).or_default().add_sql(&row);
                let group = selection.group_without_thread(&group, row.start_ns);
                groups.add(group, &key, row.executions, row.total_ns);
            }
        });
        sites.add_all(&all, &mut sums.all);
        sums.groups.add_named(groups, |key| sites.of(key));
    }
    let mut stacks = Stacks { run, names: None };
    let (mut slow, mut slow_groups) = (ById::default(), GroupSums::default());
    each_slow_sql(run, selection, &names, problems, |row| {
        let key = (row.statement, innermost(row.stack, &names));
        if !methods.takes(key.1) {
            return;
        }
        if row.exit != Exit::Unfinished {
            slow.entry(key).or_default().add_slow_sql(&row);
            slow_groups.add(group(row.start_ns, row.thread), &key, 1, row.total_ns);
            if selection.by == By::Thread {
                threads.entry(row.thread).or_insert_with(|| names.thread(row.thread));
            }
        }
        if sums.slowest.is_long(row.total_ns) {
            let length = Length { ns: row.total_ns, start_ns: row.start_ns, run: place };
            let (thread, stack) = (names.thread(row.thread), stacks.of(&row));
            sums.slowest.add(length, sites.slow(row, place, thread, stack));
        }
    });
    sites.add_all(&slow, &mut sums.slow);
    sums.slow_groups.add_named(slow_groups, |key| sites.of(key));
    threads
}

/// Passes each slow execution of a run to `each` whose start and thread are selected, in the order of the files.
pub fn each_slow_sql(
    run: &RunInput,
    selection: &Selection,
    names: &Names,
    problems: &mut Problems,
    each: impl FnMut(SlowSqlRow),
) {
    each_selected(run, selection, names, problems, |row| (row.start_ns, row.thread), each);
}

/// Whether a run has slow executions.
pub fn has_slow_sql(run: &RunInput) -> bool {
    has_table(run, Table::SlowSql)
}

/// Sums of a run.
type ById = HashMap<(StatementId, MethodId), Figures>;

/// The statements of a run in its methods.
struct Sites<'n> {
    statements: &'n StatementNames,
    methods: &'n SiteMethods<'n>,
}

impl Sites<'_> {
    fn of(&self, (statement, method): (StatementId, MethodId)) -> SqlSite {
        let method = self.methods.method(method);
        SqlSite { statement: self.statements.statement(statement), method }
    }

    fn add_all(&self, sums: &ById, to: &mut HashMap<SqlSite, Figures>) {
        sums.iter().for_each(|(key, figures)| add(to, self.of(*key), figures));
    }

    fn slow(&self, row: SlowSqlRow, run: usize, thread: String, stack: Vec<Method>) -> SlowSql {
        SlowSql {
            run,
            thread,
            statement: self.statements.statement(row.statement),
            literal_text: row.text,
            start_ns: row.start_ns,
            total_ns: row.total_ns,
            exit: row.exit,
            path: self.methods.path(row.stack, PATH),
            stack,
        }
    }
}

/// The sampled stacks of a run.
struct Stacks<'r> {
    run: &'r RunInput,
    /// Read for the first execution that has one.
    names: Option<SampleNames>,
}

impl Stacks<'_> {
    /// The stack of an execution, the innermost method first, without probes.
    fn of(&mut self, row: &SlowSqlRow) -> Vec<Method> {
        if row.sampled_stack.is_none() {
            return Vec::new();
        }
        // Problems with these names are reported where samples are read.
        let read = || SampleNames::read(self.run, &mut Problems::default());
        let frames = self.names.get_or_insert_with(read).frames(row.sampled_stack).into_iter();
        frames.filter(|frame| !is_part_of_caller(frame)).cloned().collect()
    }
}
