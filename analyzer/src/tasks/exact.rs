//! The recorded calls of requests by call path, with their exact times, and what their threads waited for and executed
//! meanwhile: what snapshots, which see a call only if it is in progress at their moment, cannot tell.

use std::cmp::Reverse;
use std::collections::HashMap;

use log_format::ids::ThreadId;
use log_format::rows::CallRow;

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::report::slow_tree::{OpenTree, add_events};
use crate::stats::call_tree::{CallTree, Frame, Node};
use crate::tasks::code_names::CodeNames;
use crate::tasks::task::{Call, Request};

/// What the rows of exact times are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExactKind {
    /// Recorded calls.
    Call,
    /// Waits for a lock or for something else.
    Wait,
    /// Executions of an SQL statement.
    Sql,
}

/// The recorded calls with one path below the endpoint, of all requests, or waits or statements in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactCalls {
    /// 0 for the endpoint.
    pub depth: usize,
    /// What it is.
    pub kind: ExactKind,
    /// `com.shop.Order.pay:41`, `blocked on com.shop.Stock by exec-7`, or the text of the statement.
    pub name: String,
    /// How many there are.
    pub calls: u64,
    /// Their time, in nanoseconds.
    pub total_ns: u64,
    /// The same without all instrumented callees, recorded or not, waits and statements.
    pub self_ns: u64,
}

/// Sums up the calls of requests. Callers come before their callees, of these those with most time first. Calls whose
/// path was not kept are missing.
#[must_use]
pub fn exact(
    run: &RunInput,
    requests: &[&Request],
    names: &CodeNames,
    problems: &mut Problems,
) -> Vec<ExactCalls> {
    let rows: Vec<(CallRow, &Request)> =
        requests.iter().filter_map(|request| Some((whole(request, names)?, *request))).collect();
    let mut trees: HashMap<ThreadId, Vec<OpenTree<'_>>> = HashMap::new();
    for (row, _) in &rows {
        trees.entry(row.thread).or_default().push(OpenTree::new(row));
    }
    let begin_ns = requests.iter().map(|request| request.start_ns).min().unwrap_or(0);
    let end_ns = requests.iter().map(|request| request.end_ns()).max().unwrap_or(0);
    add_events(run, (begin_ns, end_ns), names.names(), problems, &mut trees);
    let named = |id| names.method(id);
    for (_, request) in &rows {
        let trees = trees.get_mut(&request.thread).into_iter().flatten();
        for tree in trees.filter(|tree| tree.call().start_ns == request.start_ns) {
            let calls = request.calls.iter().map(|call| row(call, request));
            calls.for_each(|call| tree.add(&call, names.names(), named));
        }
    }
    let mut all = CallTree::default();
    for tree in trees.into_values().flatten() {
        all.merge(&tree.finish(names.names(), named));
    }
    depth_first(all.nodes(), names)
}

/// The row of a request: its last call, or if that was not read, one without self time.
fn whole(request: &Request, names: &CodeNames) -> Option<CallRow> {
    let Request { start_ns, total_ns, exit, stack, .. } = *request;
    let is_it = |call: &&Call| call.stack == stack && call.start_ns == start_ns;
    let read = request.calls.last().copied().filter(|call| is_it(&call));
    let unread = || {
        let method = *names.path(stack)?.last()?;
        Some(Call { start_ns, total_ns, self_ns: 0, exit, stack, method })
    };
    read.or_else(unread).map(|call| row(&call, request))
}

fn row(call: &Call, request: &Request) -> CallRow {
    let Call { start_ns, total_ns, self_ns, exit, stack, method } = *call;
    let (thread, allocated_bytes) = (request.thread, None);
    CallRow { start_ns, thread, method, total_ns, self_ns, exit, stack, allocated_bytes }
}

fn depth_first(nodes: &[Node], names: &CodeNames) -> Vec<ExactCalls> {
    let mut callees = vec![Vec::new(); nodes.len()];
    for (place, node) in nodes.iter().enumerate().skip(1) {
        // Time of callees that were not recorded is what is missing.
        if !matches!(node.frame, Frame::Unrecorded)
            && let Some(of) = callees.get_mut(node.parent)
        {
            of.push((Reverse(node.figures.total_ns), &node.frame, place));
        }
    }
    let mut found = Vec::new();
    let mut open: Vec<(usize, usize)> = vec![(0, 0)];
    while let Some((place, depth)) = open.pop() {
        let Some(node) = nodes.get(place) else { continue };
        // The first has no call.
        if let Some(depth) = depth.checked_sub(1)
            && let Some((kind, name)) = shown(&node.frame, names)
        {
            let figures = node.figures;
            let (calls, total_ns, self_ns) = (figures.calls, figures.total_ns, figures.self_ns);
            found.push(ExactCalls { depth, kind, name, calls, total_ns, self_ns });
        }
        let mut below = callees.get_mut(place).map(std::mem::take).unwrap_or_default();
        // The last is taken first.
        below.sort_by(|a, b| b.cmp(a));
        open.extend(below.into_iter().map(|(_, _, place)| (place, depth + 1)));
    }
    found
}

fn shown(frame: &Frame, names: &CodeNames) -> Option<(ExactKind, String)> {
    match frame {
        Frame::Method(method) => Some((ExactKind::Call, names.signature_of(method))),
        Frame::Wait(text) => Some((ExactKind::Wait, text.to_string())),
        Frame::Statement { text, .. } => Some((ExactKind::Sql, text.to_string())),
        Frame::Root | Frame::NotKept | Frame::Unrecorded => None,
    }
}
