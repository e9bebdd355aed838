//! The tree of a slow call, or of a request of a profile task: what it called, and what its thread did meanwhile that
//! is no call. Calls, waits and SQL statements are below the innermost recorded call or statement around them:
//!
//! ```text
//! pay    |=============================|      pay
//! count     |=====|                             count
//! wait        |==|                                blocked on com.shop.Stock
//! SQL                |========|                 SQL select 1
//! drive               |==|                        drive: an instrumented method of the driver
//! SQL                      |=|                    SQL insert 2: a trigger's
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use log_format::ids::{MethodId, StackId, StatementId, ThreadId};
use log_format::rows::{CallRow, Exit, LockWaitRow, SlowSqlRow};
use log_format::writer::one_line;

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::report::spans::{Span, around, end, nest, outwards, put_around};
use crate::run::lock_waits::{Owners, is_for_a_lock, owner_name};
use crate::run::names::Names;
use crate::run::selected_rows::each_within;
use crate::run::sql::{StatementNames, has_slow_sql};
use crate::stats::call_tree::{CallTree, Frame, PathFigures, frames};
use crate::stats::method::Method;

/// Adds the waits and statements between two moments to the trees of their threads.
pub(crate) fn add_events(
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
            for tree in trees {
                let ns = tree.ns_of(&row);
                if !tree.is_around(row.start_ns, ns) {
                    continue;
                }
                let text = texts.entry(row.statement);
                let text =
                    text.or_insert_with(|| (*statements.statement(row.statement).text).into());
                let is_unfinished = row.exit == Exit::Unfinished;
                let frame = Frame::Statement { text: Arc::clone(text), is_unfinished };
                let throws = u64::from(row.exit == Exit::Throw);
                let span = Span::new(row.start_ns, ns, row.stack, frame);
                tree.statements.push(Span { throws, ..span });
            }
        });
    }
    for tree in trees.values_mut().flatten() {
        nest(&mut tree.statements, &mut tree.waits);
    }
}

/// The tree of a slow call, until all of its callees are read.
pub(crate) struct OpenTree<'r> {
    call: &'r CallRow,
    tree: CallTree,
    /// Waits within the call.
    waits: Vec<Span>,
    /// SQL statements, likewise.
    statements: Vec<Span>,
    /// Calls within a statement: one of each path, and the sums of all.
    within: HashMap<(usize, StackId, MethodId), (CallRow, PathFigures)>,
}

impl<'r> OpenTree<'r> {
    pub(crate) fn new(call: &'r CallRow) -> Self {
        let (waits, statements) = (Vec::new(), Vec::new());
        Self { call, tree: CallTree::default(), waits, statements, within: HashMap::new() }
    }

    /// The call.
    pub(crate) fn call(&self) -> &'r CallRow {
        self.call
    }

    fn is_around(&self, start_ns: u64, ns: u64) -> bool {
        self.call.start_ns <= start_ns && start_ns.saturating_add(ns) <= end(self.call)
    }

    /// How long a statement took. If the call is unfinished too, their times so far were not taken at the same time.
    fn ns_of(&self, row: &SlowSqlRow) -> u64 {
        match (row.exit, self.call.exit) {
            (Exit::Unfinished, Exit::Unfinished) => {
                row.total_ns.min(end(self.call).saturating_sub(row.start_ns))
            }
            _ => row.total_ns,
        }
    }

    /// Adds a recorded call of the call's thread, if it is the call or within it.
    pub(crate) fn add(&mut self, row: &CallRow, names: &Names, named: impl Fn(MethodId) -> Method) {
        let Some(frames) = frames_below(self.call, row, names, named) else { return };
        let figures = PathFigures::of(row);
        // A call that took as long as a statement executed it.
        let is_longer = |place: &usize| {
            self.statements.get(*place).is_some_and(|statement| statement.ns > row.total_ns)
        };
        let statement = around(&self.statements, row.start_ns, end(row)).find(is_longer);
        if let Some(place) = statement {
            let key = (place, row.stack, row.method);
            let within = self.within.entry(key);
            within.or_insert_with(|| (row.clone(), PathFigures::default())).1.add(&figures);
        } else {
            self.tree.add(frames.into_iter(), &figures);
        }
        put_around(row, &mut self.statements);
        put_around(row, &mut self.waits);
    }

    /// The tree of all that was added.
    pub(crate) fn finish(self, names: &Names, named: impl Fn(MethodId) -> Method) -> CallTree {
        let Self { call, mut tree, waits, statements, within } = self;
        let below = |row: &CallRow| frames_below(call, row, names, &named);
        let paths = Paths::new(&statements, below);
        let mut within: Vec<_> = within.into_iter().collect();
        within.sort_by_key(|(key, _)| *key);
        // The calls within each statement.
        let mut calls: Vec<Vec<(Vec<Frame>, PathFigures)>> = vec![Vec::new(); statements.len()];
        for ((place, ..), (row, figures)) in within {
            let Some(path) = below(&row) else { continue };
            let path = paths.within(path, Some(place));
            tree.add(path.iter().cloned(), &figures);
            for (place, _) in outwards(&statements, Some(place)) {
                if let Some(calls) = calls.get_mut(place) {
                    calls.push((path.clone(), figures));
                }
            }
        }
        // Time is taken from what is around an event: that comes first.
        for (statement, calls) in statements.iter().zip(&calls) {
            let Some(path) = statement.call.as_ref().and_then(below) else { continue };
            let path = paths.within(path, statement.statement);
            let figures = statement.figures(outermost_ns(calls, path.len() + 1));
            add_span(&mut tree, statement, path, &figures);
        }
        for wait in &waits {
            let Some(path) = wait.call.as_ref().and_then(below) else { continue };
            add_span(&mut tree, wait, paths.within(path, wait.statement), &wait.figures(0));
        }
        tree.add_unrecorded();
        tree
    }
}

/// Adds a wait or a statement below a path, and takes its time from the call or statement that it is of.
fn add_span(tree: &mut CallTree, span: &Span, path: Vec<Frame>, figures: &PathFigures) {
    let is_of_statement = matches!(path.last(), Some(Frame::Statement { .. }));
    let is_own = is_of_statement || span.is_of_call();
    tree.add_event(path.into_iter(), span.frame.clone(), figures, is_own);
}

/// The time of the calls of a statement that are in no other one of them. Their paths are longer than `depth`.
fn outermost_ns(calls: &[(Vec<Frame>, PathFigures)], depth: usize) -> u64 {
    let paths: HashSet<&[Frame]> = calls.iter().map(|(path, _)| path.as_slice()).collect();
    let is_inner = |path: &[Frame]| {
        let mut callers = (depth..path.len()).filter_map(|n| path.get(..n));
        callers.any(|caller| paths.contains(caller))
    };
    let outermost = calls.iter().filter(|(path, _)| !is_inner(path));
    outermost.fold(0, |sum: u64, (_, of)| sum.saturating_add(of.total_ns))
}

/// Where statements belong in the paths of what is within them.
struct Paths<'s> {
    statements: &'s [Span],
    /// The frames of the innermost recorded call around each.
    calls: Vec<Option<Vec<Frame>>>,
}

impl<'s> Paths<'s> {
    fn new(statements: &'s [Span], below: impl Fn(&CallRow) -> Option<Vec<Frame>>) -> Self {
        let calls = statements.iter().map(|of| of.call.as_ref().and_then(&below)).collect();
        Self { statements, calls }
    }

    /// The path of something within a statement, with the frames of that and of those around it.
    fn within(&self, mut path: Vec<Frame>, statement: Option<usize>) -> Vec<Frame> {
        let at = |(place, of): (usize, &Span)| {
            let call = self.calls.get(place)?.as_ref()?;
            path.starts_with(call).then(|| (call.len(), of.frame.clone()))
        };
        let frames: Vec<_> = outwards(self.statements, statement).filter_map(at).collect();
        // The innermost first: it does not move the place of one around it.
        for (place, frame) in frames {
            path.insert(place, frame);
        }
        path
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
