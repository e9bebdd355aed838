//! The tree of a slow call: what it called, and what its thread did meanwhile that is no call. Waits and SQL statements
//! are below the innermost recorded call around them:
//!
//! ```text
//! pay    |=============================|      pay
//! count     |=====|                             count
//! wait        |==|                                blocked on com.shop.Stock
//! SQL                |========|                 SQL select 1
//! drive               |==|                        drive: a measured method of the driver
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use log_format::ids::{MethodId, StackId, StatementId, ThreadId};
use log_format::rows::{CallRow, Exit, LockWaitRow, SlowSqlRow};
use log_format::writer::one_line;

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::run::lock_waits::{Owners, is_for_a_lock, owner_name};
use crate::run::names::Names;
use crate::run::selected_rows::each_within;
use crate::run::sql::{StatementNames, has_slow_sql};
use crate::stats::call_tree::{CallTree, Frame, PathFigures, frames};
use crate::stats::method::Method;

/// Adds the waits and statements between two moments to the trees of their threads.
pub(super) fn add_events(
    run: &RunInput,
    (begin_ns, end_ns): (u64, u64),
    names: &Names,
    problems: &mut Problems,
    trees: &mut HashMap<ThreadId, Vec<OpenTree<'_>>>,
) {
    let mut owners = Owners::new(run);
    each_within(run, begin_ns, end_ns, problems, |row: LockWaitRow| {
        let trees = trees.get_mut(&row.thread).into_iter().flatten();
        for tree in trees.filter(|tree| tree.is_around(row.start_ns, row.wait_ns)) {
            let frame = Frame::Wait(blocked(&row, names, owners.at(&row)).into());
            tree.waits.push(Span::new(row.start_ns, row.wait_ns, row.stack, frame));
        }
    });
    if has_slow_sql(run) {
        let statements = StatementNames::read(run, problems);
        // There may be many executions of each.
        let mut texts: HashMap<StatementId, Arc<str>> = HashMap::new();
        each_within(run, begin_ns, end_ns, problems, |row: SlowSqlRow| {
            let trees = trees.get_mut(&row.thread).into_iter().flatten();
            for tree in trees.filter(|tree| tree.is_around(row.start_ns, row.total_ns)) {
                let text = texts.entry(row.statement);
                let text =
                    text.or_insert_with(|| (*statements.statement(row.statement).text).into());
                let frame = Frame::Statement(Arc::clone(text));
                let span = Span::new(row.start_ns, row.total_ns, row.stack, frame);
                let throws = u64::from(row.exit == Exit::Throw);
                tree.statements.push(Span { throws, ..span });
            }
        });
    }
    trees.values_mut().flatten().for_each(OpenTree::sort);
}

/// A wait or a statement.
struct Span {
    start_ns: u64,
    ns: u64,
    throws: u64,
    /// Its call path.
    stack: StackId,
    frame: Frame,
    /// The innermost recorded call around it.
    around: Option<CallRow>,
}

impl Span {
    fn new(start_ns: u64, ns: u64, stack: StackId, frame: Frame) -> Self {
        Self { start_ns, ns, throws: 0, stack, frame, around: None }
    }

    fn end(&self) -> u64 {
        self.start_ns.saturating_add(self.ns)
    }

    fn contains(&self, start_ns: u64, end_ns: u64) -> bool {
        self.start_ns <= start_ns && end_ns <= self.end()
    }

    /// Whether the call around it ran it, not a callee that was not recorded: then their paths are the same.
    fn is_own(&self) -> bool {
        let path = self.around.as_ref().map(|around| around.stack);
        self.stack.is_none() || path == Some(self.stack)
    }

    /// Its figures, of which so much time is in calls within it.
    fn figures(&self, inner_ns: u64) -> PathFigures {
        let self_ns = self.ns.saturating_sub(inner_ns);
        PathFigures { calls: 1, throws: self.throws, total_ns: self.ns, self_ns }
    }
}

/// The tree of a slow call, until all of its callees are read.
pub(super) struct OpenTree<'r> {
    call: &'r CallRow,
    tree: CallTree,
    /// Waits within the call, in the order of their start.
    waits: Vec<Span>,
    /// SQL statements, likewise; none is within another one.
    statements: Vec<Span>,
    /// Calls within a statement: one of each path, and the sums of all.
    within: HashMap<(usize, StackId, MethodId), (CallRow, PathFigures)>,
}

impl<'r> OpenTree<'r> {
    pub(super) fn new(call: &'r CallRow) -> Self {
        let (waits, statements) = (Vec::new(), Vec::new());
        Self { call, tree: CallTree::default(), waits, statements, within: HashMap::new() }
    }

    /// The call.
    pub(super) fn call(&self) -> &'r CallRow {
        self.call
    }

    fn is_around(&self, start_ns: u64, ns: u64) -> bool {
        self.call.start_ns <= start_ns && start_ns.saturating_add(ns) <= end(self.call)
    }

    fn sort(&mut self) {
        self.waits.sort_by_key(|wait| wait.start_ns);
        self.statements.sort_by_key(|statement| statement.start_ns);
    }

    /// The statement within which something happened.
    fn statement_around(&self, start_ns: u64, end_ns: u64) -> Option<usize> {
        let place = self.statements.partition_point(|of| of.start_ns <= start_ns).checked_sub(1)?;
        self.statements.get(place).filter(|of| of.contains(start_ns, end_ns)).map(|_| place)
    }

    /// Adds a recorded call of the call's thread, if it is the call or within it.
    pub(super) fn add(&mut self, row: &CallRow, names: &Names, named: impl Fn(MethodId) -> Method) {
        let Some(frames) = frames_below(self.call, row, names, named) else { return };
        let figures = PathFigures::of(row);
        let statement = self.statement_around(row.start_ns, end(row));
        let is_shorter =
            |place: &usize| self.statements.get(*place).is_some_and(|s| s.ns > row.total_ns);
        if let Some(place) = statement.filter(is_shorter) {
            let key = (place, row.stack, row.method);
            let within = self.within.entry(key);
            within.or_insert_with(|| (row.clone(), PathFigures::default())).1.add(&figures);
        } else {
            self.tree.add(frames.into_iter(), &figures);
            put_around(row, &mut self.statements);
        }
        put_around(row, &mut self.waits);
    }

    /// The tree of all that was added.
    pub(super) fn finish(mut self, names: &Names, named: impl Fn(MethodId) -> Method) -> CallTree {
        let mut within: HashMap<usize, Vec<(CallRow, PathFigures)>> = HashMap::new();
        for ((place, ..), calls) in std::mem::take(&mut self.within) {
            within.entry(place).or_default().push(calls);
        }
        let waits = std::mem::take(&mut self.waits);
        let statements = std::mem::take(&mut self.statements);
        for (place, statement) in statements.iter().enumerate() {
            let mut calls = within.remove(&place).unwrap_or_default();
            calls.sort_by_key(|(row, _)| (row.stack, row.method));
            self.add_statement(statement, &calls, names, &named);
        }
        self.statements = statements;
        for wait in &waits {
            let Some(mut frames) = self.frames_around(wait, names, &named) else { continue };
            let statement = self.statement_around(wait.start_ns, wait.end());
            let statement = statement.and_then(|place| self.statements.get(place));
            // A call between the two is below the statement already.
            let between = statement.and_then(|of| self.frames_around(of, names, &named));
            let mut is_own = wait.is_own();
            if let (Some(statement), Some(outer)) = (statement, between)
                && frames.starts_with(&outer)
            {
                is_own |= frames.len() == outer.len();
                frames.insert(outer.len(), statement.frame.clone());
            }
            let figures = wait.figures(0);
            self.tree.add_event(frames.into_iter(), wait.frame.clone(), &figures, is_own);
        }
        self.tree.add_unrecorded();
        self.tree
    }

    /// Adds a statement and the calls within it.
    fn add_statement(
        &mut self,
        statement: &Span,
        calls: &[(CallRow, PathFigures)],
        names: &Names,
        named: impl Fn(MethodId) -> Method,
    ) {
        let outer = self.frames_around(statement, names, &named);
        let below = |row| frames_below(self.call, row, names, &named);
        let calls = calls.iter().filter_map(|(row, figures)| Some((below(row)?, figures)));
        let calls: Vec<(Vec<Frame>, &PathFigures)> = calls.collect();
        if let Some(outer) = &outer {
            let paths: HashSet<&[Frame]> = calls.iter().map(|(path, _)| path.as_slice()).collect();
            let is_inner = |path: &[Frame]| {
                let mut callers = (outer.len() + 1..path.len()).filter_map(|n| path.get(..n));
                callers.any(|caller| paths.contains(caller))
            };
            let outermost = calls.iter().filter(|(path, _)| !is_inner(path));
            let inner_ns = outermost.fold(0, |sum: u64, (_, of)| sum.saturating_add(of.total_ns));
            let figures = statement.figures(inner_ns);
            let (frames, frame) = (outer.iter().cloned(), statement.frame.clone());
            self.tree.add_event(frames, frame, &figures, statement.is_own());
        }
        for (mut path, figures) in calls {
            if let Some(outer) = outer.as_ref().filter(|outer| path.starts_with(outer)) {
                path.insert(outer.len(), statement.frame.clone());
            }
            self.tree.add(path.into_iter(), figures);
        }
    }

    /// The frames of the innermost recorded call around an event.
    fn frames_around(
        &self,
        event: &Span,
        names: &Names,
        named: impl Fn(MethodId) -> Method,
    ) -> Option<Vec<Frame>> {
        frames_below(self.call, event.around.as_ref()?, names, named)
    }
}

/// Tells events, in the order of their start, of a recorded call that may be around them.
fn put_around(row: &CallRow, events: &mut [Span]) {
    let first = events.partition_point(|event| event.start_ns < row.start_ns);
    let from_first = events.iter_mut().skip(first);
    for event in from_first.take_while(|event| event.start_ns <= end(row)) {
        let is_inner = event.around.as_ref().is_none_or(|known| row.total_ns < known.total_ns);
        if is_inner && event.end() <= end(row) {
            event.around = Some(row.clone());
        }
    }
}

/// What a wait is called: `blocked on com.shop.Stock by exec-7, seen in com.shop.Stock.audit`, `parked for
/// java.util.concurrent.SynchronousQueue`.
fn blocked(wait: &LockWaitRow, names: &Names, held_in: &[Method]) -> String {
    let by = owner_name(wait, names).map(|owner| format!(" by {owner}")).unwrap_or_default();
    // The line is long already.
    let methods: Vec<String> = held_in.iter().take(2).map(Method::dotted).collect();
    let by = by + if methods.is_empty() { "" } else { ", seen in " } + &methods.join(" < ");
    let what = if is_for_a_lock(wait.kind) { "blocked on" } else { "parked for" };
    one_line(&format!("{what} {}{by}", wait.class))
}

/// The frames of a recorded call from `call` down, the outermost first, if it is `call` or within it.
fn frames_below(
    call: &CallRow,
    row: &CallRow,
    names: &Names,
    named: impl Fn(MethodId) -> Method,
) -> Option<Vec<Frame>> {
    let path = path_below(names, call, row)?;
    let mut frames = frames(path.into_iter(), row.method, named)?;
    frames.reverse();
    Some(frames)
}

/// The path of a recorded call from `call` down, the innermost first, if it is `call` or within it.
fn path_below(names: &Names, call: &CallRow, row: &CallRow) -> Option<Vec<MethodId>> {
    if row.thread != call.thread || row.start_ns < call.start_ns || end(row) > end(call) {
        return None;
    }
    if row == call {
        return Some(vec![row.method]);
    }
    let mut inner: Vec<MethodId> = names.path(row.stack).collect();
    let outer = names.path(call.stack).count();
    let is_below = inner.len() > outer;
    inner.truncate((inner.len() + 1).checked_sub(outer)?);
    (is_below && inner.last() == Some(&call.method)).then_some(inner)
}

/// When a call ended.
pub(super) fn end(row: &CallRow) -> u64 {
    row.start_ns.saturating_add(row.total_ns)
}
