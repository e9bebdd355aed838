//! SQL statements, and the slowest executions.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::groups::compare;
use crate::options::SortKey;
use crate::stats::aggregate::{Figures, Group};
use crate::stats::group_sums::GroupRow;
use crate::stats::method::Method;
use crate::stats::sql_sums::{SlowSql, SqlSite, SqlSums, Statement};

/// SQL statements.
#[derive(Debug, Default)]
pub struct SqlReport {
    /// The time of all executions, in nanoseconds.
    pub total_ns: u64,
    /// How many there are.
    pub executions: u64,
    /// How many of them threw.
    pub throws: u64,
    /// Whether figures are of the slow executions alone.
    pub of_slow: bool,
    /// The column; of statements, self time is total time.
    pub sort: SortKey,
    /// The statements, sorted by `sort`, the largest first.
    pub statements: Vec<StatementTimes>,
    /// Executions of each group by statement and method: how many, and their time. Of slow ones alone, if
    /// `groups_of_slow`.
    pub groups_of_slow: bool,
    /// See above.
    pub groups: Vec<GroupRow<SqlSite>>,
    /// The slowest executions, the slowest first. Those that had not ended are only here.
    pub slowest: Vec<SlowSql>,
}

/// The executions of a statement.
#[derive(Debug)]
pub struct StatementTimes {
    /// The statement.
    pub statement: Arc<Statement>,
    /// The executions; each counts as a call.
    pub figures: Figures,
    /// Those that executed it, those with most time first.
    pub callers: Vec<SqlCaller>,
}

/// The executions of a statement by a method.
#[derive(Debug)]
pub struct SqlCaller {
    /// The innermost instrumented method; `None` if none was in progress.
    pub method: Option<Method>,
    /// The executions; each counts as a call.
    pub figures: Figures,
    /// How often the method was called, if statistics have it.
    pub calls: Option<u64>,
}

impl SqlCaller {
    /// Executions of the statement in a call of the method.
    #[must_use]
    pub fn per_call(&self) -> Option<f64> {
        self.calls.map(|calls| self.figures.calls as f64 / calls as f64)
    }
}

impl SqlReport {
    /// The report of these statements. Without statistics, or if only slow executions have what is selected, figures
    /// are of the slow ones. `calls_of` returns how often a method was called, if that is known.
    pub(crate) fn new(
        mut sums: SqlSums,
        calls_of: impl Fn(&Method) -> Option<u64>,
        label: impl Fn(Group) -> Option<String>,
    ) -> Self {
        let slowest = sums.slowest.into_vec();
        let of_slow = sums.all.is_empty() && !slowest.is_empty();
        let figures = std::mem::take(if of_slow { &mut sums.slow } else { &mut sums.all });
        // Statistics have no threads.
        let groups_of_slow = of_slow || sums.groups.is_empty();
        let groups = if groups_of_slow { sums.slow_groups } else { sums.groups };
        let mut by_statement: BTreeMap<Arc<Statement>, StatementTimes> = BTreeMap::new();
        for (SqlSite { statement, method }, figures) in figures {
            let times = by_statement.entry(statement);
            let times = times.or_insert_with_key(|statement| StatementTimes {
                statement: Arc::clone(statement),
                figures: Figures::default(),
                callers: Vec::new(),
            });
            times.figures.merge(&figures);
            let calls = method.as_ref().filter(|_| !of_slow).and_then(&calls_of);
            times.callers.push(SqlCaller { method, figures, calls });
        }
        let mut statements: Vec<StatementTimes> = by_statement.into_values().collect();
        statements.sort_by_key(|times| Reverse(times.figures.total_ns));
        for times in &mut statements {
            times.callers.sort_by(|one, other| {
                let time = |caller: &SqlCaller| Reverse(caller.figures.total_ns);
                (time(one), &one.method).cmp(&(time(other), &other.method))
            });
        }
        let sum = |of: fn(&Figures) -> u64| {
            statements.iter().fold(0, |sum: u64, times| sum.saturating_add(of(&times.figures)))
        };
        Self {
            total_ns: sum(|figures| figures.total_ns),
            executions: sum(|figures| figures.calls),
            throws: sum(|figures| figures.throws),
            of_slow,
            sort: SortKey::Total,
            statements,
            groups_of_slow,
            groups: groups.rows(label),
            slowest,
        }
    }

    /// Sorts the statements by a column, those with the same value by time.
    pub(crate) fn sort_by(&mut self, sort: SortKey) {
        self.sort = sort;
        self.statements.sort_by(|a, b| compare(sort, &b.figures, &a.figures));
    }

    /// What statements are sorted by.
    #[must_use]
    pub fn sorted_by(&self) -> &'static str {
        match self.sort {
            SortKey::SelfTime | SortKey::Total => "total time",
            SortKey::Calls => "executions",
            SortKey::Avg => "average time",
            SortKey::Max => "longest execution",
            SortKey::Throws => "throws",
        }
    }

    /// Whether there are none, ended or not.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.statements.is_empty() && self.slowest.is_empty()
    }

    /// What the figures lack, for a heading; empty if they have all executions.
    #[must_use]
    pub fn lacks(&self) -> &'static str {
        if self.of_slow { ", slow ones alone" } else { "" }
    }

    /// Whether statements are of several databases.
    #[must_use]
    pub fn has_databases(&self) -> bool {
        let mut urls = self.statements.iter().map(|times| &times.statement.url);
        urls.next().is_some_and(|first| urls.any(|url| url != first))
    }

    /// The statement with the slowest execution.
    #[must_use]
    pub fn with_slowest(&self) -> Option<&StatementTimes> {
        // Of several, the first.
        self.statements.iter().rev().max_by_key(|times| times.figures.max_ns)
    }

    /// All methods that a report names.
    pub fn methods(&self) -> impl Iterator<Item = &Method> {
        let callers = self.statements.iter().flat_map(|times| &times.callers);
        let slowest = self.slowest.iter().flat_map(|slow| slow.path.iter().chain(&slow.stack));
        callers.filter_map(|caller| caller.method.as_ref()).chain(slowest)
    }
}
