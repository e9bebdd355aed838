//! The call tree of recorded calls: a node for each call path, with the sums of its calls.
//!
//! Trees of runs are merged by the names of their methods. A tree takes memory for each call path, not for each
//! recorded call.
//!
//! ```text
//! total of a call = self + recorded callees + unrecorded callees
//! ```
//!
//! The log's self time excludes all instrumented callees, recorded or not. So the rest of the total is the time of
//! callees that were not recorded, and gets a node of its own. A caller that was not recorded itself (it is
//! unfinished, for example) has no figures, only callees. Callers come before their callees in [`CallTree::nodes`],
//! so one walk from the end sums up the tree, however deep a path is.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use log_format::ids::{MethodId, StackId};
use log_format::rows::{CallRow, Exit};

use crate::stats::id_map::IdMap;
use crate::stats::method::Method;

/// Callers kept of a path: more than the agent writes, and a limit for garbage.
const MAX_DEPTH: usize = 4_096;

/// One step of a call path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Frame {
    /// The start of every path.
    Root,
    /// A call of a method.
    Method(Method),
    /// Callers that the log does not have.
    NotKept,
    /// The time of callees that were not recorded: those below the threshold.
    Unrecorded,
    /// Waits for a lock or for something else: `blocked on com.shop.Stock by exec-7`.
    Wait(Arc<str>),
    /// An SQL statement.
    Statement {
        /// Its text.
        text: Arc<str>,
        /// Whether it had not ended when recording stopped.
        is_unfinished: bool,
    },
}

/// Sums of the recorded calls of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathFigures {
    /// Recorded calls.
    pub calls: u64,
    /// Calls that ended with an exception.
    pub throws: u64,
    /// Time from their start to their end.
    pub total_ns: u64,
    /// Their time less that of all instrumented callees, recorded or not.
    pub self_ns: u64,
}

impl PathFigures {
    /// The figures of one call.
    #[must_use]
    pub fn of(row: &CallRow) -> Self {
        Self {
            calls: 1,
            throws: u64::from(row.exit == Exit::Throw),
            total_ns: row.total_ns,
            self_ns: row.self_ns,
        }
    }

    /// Adds the calls of `other`.
    pub fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.throws = self.throws.saturating_add(other.throws);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.self_ns = self.self_ns.saturating_add(other.self_ns);
    }
}

/// How a method calls itself, directly or through others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recursion {
    /// Recorded calls made while the method was already in progress in the thread.
    pub calls: u64,
    /// The most calls of the method in progress at once in a thread.
    pub depth: u64,
}

impl Recursion {
    /// Adds other calls.
    pub fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.depth = self.depth.max(other.depth);
    }
}

/// A node: what was called, by which node, and the sums of the path's calls.
#[derive(Clone, Debug)]
pub struct Node {
    /// What was called.
    pub frame: Frame,
    /// The caller's index among the nodes, which is lower than its own; the root's is its own.
    pub parent: usize,
    /// Sums of the calls recorded with exactly this path.
    pub figures: PathFigures,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct CallTree {
    nodes: Vec<Node>,
    places: HashMap<(usize, Frame), usize>,
}

impl Default for CallTree {
    fn default() -> Self {
        let root = Node { frame: Frame::Root, parent: 0, figures: PathFigures::default() };
        Self { nodes: vec![root], places: HashMap::new() }
    }
}

impl CallTree {
    /// The nodes, callers before callees; the first is the root.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether there is no path at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// Adds calls with the path `frames`, the outermost first.
    pub fn add(&mut self, frames: impl Iterator<Item = Frame>, figures: &PathFigures) {
        let mut node = 0;
        for frame in frames {
            node = self.child(node, frame);
        }
        if let Some(node) = self.nodes.get_mut(node) {
            node.figures.add(figures);
        }
    }

    /// Adds an event below the path `frames`, the outermost first. If it is one of the path's last call itself, not of
    /// a callee that was not recorded, its self time is taken from the call's: self time and callees still add up.
    pub fn add_event(
        &mut self,
        frames: impl Iterator<Item = Frame>,
        event: Frame,
        figures: &PathFigures,
        is_own: bool,
    ) {
        let call = frames.fold(0, |node, frame| self.child(node, frame));
        if let Some(node) = self.nodes.get_mut(call).filter(|_| is_own) {
            node.figures.self_ns = node.figures.self_ns.saturating_sub(figures.self_ns);
        }
        let place = self.child(call, event);
        if let Some(node) = self.nodes.get_mut(place) {
            node.figures.add(figures);
        }
    }

    /// Adds all paths of `other`.
    pub fn merge(&mut self, other: &Self) {
        let mut ours = Vec::with_capacity(other.nodes.len());
        for node in &other.nodes {
            let place = match node.frame {
                Frame::Root => 0,
                _ => {
                    let parent = ours.get(node.parent).copied().unwrap_or(0);
                    self.child(parent, node.frame.clone())
                }
            };
            if let Some(our) = self.nodes.get_mut(place) {
                our.figures.add(&node.figures);
            }
            ours.push(place);
        }
    }

    /// Gives the time of callees that were not recorded nodes of their own. This is done once, on the tree of one
    /// run: once recorded and unrecorded calls are summed up together, that time cannot be told any more.
    pub fn add_unrecorded(&mut self) {
        // Clock ticks became whole nanoseconds, rounded down, of each call.
        let mut rounded_ns: Vec<u64> = self.nodes.iter().map(|node| node.figures.calls).collect();
        let mut known_ns: Vec<u64> = self.nodes.iter().map(|node| node.figures.self_ns).collect();
        for place in (1..self.nodes.len()).rev() {
            let Some(node) = self.nodes.get(place) else { continue };
            let (parent, total_ns) = (node.parent, node.figures.total_ns);
            let known = known_ns.get(place).copied().unwrap_or(0);
            let rest = total_ns.saturating_sub(known);
            if let Some(above) = known_ns.get_mut(parent) {
                *above = above.saturating_add(known).saturating_add(rest);
            }
            let calls = node.figures.calls;
            if let Some(above) = rounded_ns.get_mut(parent) {
                *above = above.saturating_add(calls);
            }
            if rest > rounded_ns.get(place).copied().unwrap_or(0) {
                let child = self.child(place, Frame::Unrecorded);
                let figures = PathFigures { total_ns: rest, self_ns: rest, ..Default::default() };
                if let Some(node) = self.nodes.get_mut(child) {
                    node.figures.add(&figures);
                }
            }
        }
    }

    fn child(&mut self, parent: usize, frame: Frame) -> usize {
        let next = self.nodes.len();
        let nodes = &mut self.nodes;
        *self.places.entry((parent, frame)).or_insert_with_key(|(_, frame)| {
            let figures = PathFigures::default();
            nodes.push(Node { frame: frame.clone(), parent, figures });
            next
        })
    }
}

/// Sums by call path and method id of a run, made as its recorded calls are read.
#[derive(Debug, Default)]
pub struct PathSums {
    sums: IdMap<(StackId, MethodId), PathFigures>,
}

impl PathSums {
    /// Adds a recorded call.
    pub fn add(&mut self, row: &CallRow) {
        self.sums.entry((row.stack, row.method)).or_default().add(&PathFigures::of(row));
    }

    /// The methods with recorded calls that were made while the method was already in progress in the thread.
    pub fn recursion<P: Iterator<Item = MethodId>>(
        &self,
        path: impl Fn(StackId) -> P,
    ) -> HashMap<MethodId, Recursion> {
        let mut found: HashMap<MethodId, Recursion> = HashMap::new();
        for ((stack, method), figures) in &self.sums {
            let mut frames = path(*stack).take(MAX_DEPTH);
            if frames.next() != Some(*method) {
                continue;
            }
            let depth = frames.fold(1, |depth, caller| depth + u64::from(caller == *method));
            if depth > 1 {
                found.entry(*method).or_default().add(&Recursion { calls: figures.calls, depth });
            }
        }
        found
    }

    /// The entry methods: of each path, the outermost method that `is_one`. Not those with more calls within others:
    /// after an attach, callers of calls in progress are unknown.
    pub fn entries<P: Iterator<Item = MethodId>>(
        &self,
        path: impl Fn(StackId) -> P,
        is_one: impl Fn(MethodId) -> bool,
    ) -> HashSet<MethodId> {
        let (mut entered, mut within) = (HashMap::new(), HashMap::new());
        for ((stack, method), figures) in &self.sums {
            let frames: Vec<MethodId> = path(*stack).take(MAX_DEPTH).collect();
            // Callers may be unknown, and a path that was not kept does not end in the method.
            let is_known = frames.first() == Some(method) && !frames.contains(&MethodId::NONE);
            let mut frames = frames.into_iter().rev().filter(|_| is_known);
            let Some(entry) = frames.find(|id| is_one(*id)) else { continue };
            *entered.entry(entry).or_insert(0) += figures.calls;
            if entry != *method {
                *within.entry(*method).or_insert(0) += figures.calls;
            }
        }
        entered.retain(|method, calls| *calls >= within.get(method).copied().unwrap_or(0));
        entered.into_keys().collect()
    }

    /// How many recorded calls each method made itself.
    pub fn direct_callees<P: Iterator<Item = MethodId>>(
        &self,
        path: impl Fn(StackId) -> P,
    ) -> HashMap<MethodId, u64> {
        let mut callees = HashMap::new();
        for ((stack, method), figures) in &self.sums {
            let mut frames = path(*stack);
            if frames.next() == Some(*method)
                && let Some(caller) = frames.next()
            {
                *callees.entry(caller).or_insert(0) += figures.calls;
            }
        }
        callees
    }

    /// How many paths there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sums.len()
    }

    /// Whether there are no paths.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// Adds all calls of `other`.
    pub fn merge(&mut self, other: Self) {
        for (key, figures) in other.sums {
            self.sums.entry(key).or_default().add(&figures);
        }
    }

    /// The tree of these sums. `path` gives the methods of a call path from the innermost outwards, with
    /// [`MethodId::NONE`] from where they are unknown.
    ///
    /// Calls whose path was not kept at all are not in it: their time is in callers that are in the tree (as callees
    /// that were not recorded), and would count twice.
    pub fn into_tree<P: Iterator<Item = MethodId>>(
        self,
        path: impl Fn(StackId) -> P,
        method: impl Fn(MethodId) -> Method,
    ) -> CallTree {
        let mut tree = CallTree::default();
        let mut sums: Vec<_> = self.sums.into_iter().collect();
        // Makes the tree the same for the same logs.
        sums.sort_unstable_by_key(|(key, _)| *key);
        for ((stack, called), figures) in sums {
            if let Some(frames) = frames(path(stack), called, &method) {
                tree.add(frames.into_iter().rev(), &figures);
            }
        }
        tree.add_unrecorded();
        tree
    }
}

/// The frames of a call of `called` with this path, the call itself first. `None` if the path does not
/// end in the method: then it was not kept.
pub fn frames(
    path: impl Iterator<Item = MethodId>,
    called: MethodId,
    method: impl Fn(MethodId) -> Method,
) -> Option<Vec<Frame>> {
    let mut ids: Vec<MethodId> = path.take(MAX_DEPTH).collect();
    if ids.first() != Some(&called) {
        return None;
    }
    if ids.len() == MAX_DEPTH {
        ids.push(MethodId::NONE);
    }
    let frame =
        |id: MethodId| if id.is_none() { Frame::NotKept } else { Frame::Method(method(id)) };
    Some(ids.into_iter().map(frame).collect())
}

#[cfg(test)]
mod tests {
    use log_format::ids::ThreadId;

    use super::*;

    fn method(id: MethodId) -> Method {
        Method::Unknown { run: "r".into(), id }
    }

    fn call(stack: u32, method: u32, total_ns: u64) -> CallRow {
        let (stack, method, exit) = (StackId::new(stack), MethodId::new(method), Exit::Throw);
        CallRow {
            start_ns: 0,
            thread: ThreadId::new(1),
            stack,
            method,
            total_ns,
            self_ns: 1,
            exit,
            allocated_bytes: None,
        }
    }

    fn lines(tree: &CallTree) -> Vec<String> {
        let name = |frame: &Frame| match frame {
            Frame::Method(Method::Unknown { id, .. }) => id.to_string(),
            other => format!("{other:?}"),
        };
        let path = |place: usize| {
            let (mut place, mut names) = (place, Vec::new());
            while place != 0 {
                names.push(name(&tree.nodes[place].frame));
                place = tree.nodes[place].parent;
            }
            names.reverse();
            names.join(">")
        };
        let line = |(place, node): (usize, &Node)| {
            let f = node.figures;
            format!("{} {} {} {} {}", path(place), f.calls, f.throws, f.total_ns, f.self_ns)
        };
        tree.nodes.iter().enumerate().skip(1).map(line).collect()
    }

    #[test]
    fn sums_become_a_tree_and_trees_one() {
        // 1: 10   2: 10 > 11   3: callers unknown > 11   4: 11 > 10 > 11   5: 11
        let methods =
            |ids: &[u32]| ids.iter().copied().map(MethodId::new).collect::<Vec<_>>().into_iter();
        let path = |stack: StackId| match stack.get() {
            1 => methods(&[10]),
            2 => methods(&[11, 10]),
            3 => methods(&[11, 0]),
            4 => methods(&[11, 10, 11]),
            5 => methods(&[11]),
            _ => methods(&[0]),
        };
        let tree = || {
            let mut sums = PathSums::default();
            for row in [call(2, 11, 5), call(2, 11, 6), call(3, 11, 7), call(9, 12, 8)] {
                sums.add(&row);
            }
            sums.into_tree(path, method)
        };
        let mut sums = PathSums::default();
        for stack in [2, 4, 4] {
            sums.add(&call(stack, 11, 5));
        }
        let expected = Recursion { calls: 2, depth: 2 };
        assert_eq!(sums.recursion(path), HashMap::from([(MethodId::new(11), expected)]));
        let entries = |not: u32| sums.entries(path, |id| id != MethodId::new(not));
        assert_eq!(entries(0), HashSet::from([10, 11].map(MethodId::new)));
        assert_eq!(entries(10), HashSet::from([MethodId::new(11)]));
        // Of four calls, one has no caller that is known.
        let mut attached = PathSums::default();
        for stack in [5, 2, 2, 2] {
            attached.add(&call(stack, 11, 5));
        }
        assert_eq!(attached.entries(path, |_| true), HashSet::from([MethodId::new(10)]));
        sums.add(&call(3, 11, 5));
        assert_eq!(sums.entries(path, |_| false), HashSet::new());
        let mut both = tree();
        both.merge(&tree());
        assert_eq!(
            lines(&both),
            [
                "10 0 0 0 0",
                "10>11 4 4 22 4",
                "NotKept 0 0 0 0",
                "NotKept>11 2 2 14 2",
                "NotKept>11>Unrecorded 0 0 12 12",
                "10>11>Unrecorded 0 0 18 18",
            ]
        );
        assert!(CallTree::default().is_empty() && !both.is_empty());
    }

    #[test]
    fn waits_are_taken_from_the_time_that_they_are_in() {
        let frame = |id| Frame::Method(method(MethodId::new(id)));
        let blocked = || Frame::Wait("blocked".into());
        // 10 takes 100: 60 its own, 30 in the recorded call 11, 10 in callees that were not recorded.
        let tree = |own_ns: &[u64], inner_ns: &[u64]| {
            let mut tree = CallTree::default();
            let of = |total_ns, self_ns| PathFigures { calls: 1, throws: 0, total_ns, self_ns };
            tree.add([10].map(frame).into_iter(), &of(100, 60));
            tree.add([10, 11].map(frame).into_iter(), &of(30, 30));
            for (waits, is_own) in [(own_ns, true), (inner_ns, false)] {
                for ns in waits {
                    tree.add_event([10].map(frame).into_iter(), blocked(), &of(*ns, *ns), is_own);
                }
            }
            tree.add_unrecorded();
            lines(&tree)
        };
        assert_eq!(
            tree(&[20, 25], &[]),
            [
                "10 1 0 100 15",
                "10>11 1 0 30 30",
                "10>Wait(\"blocked\") 2 0 45 45",
                "10>Unrecorded 0 0 10 10"
            ]
        );
        assert_eq!(
            tree(&[], &[6]),
            [
                "10 1 0 100 60",
                "10>11 1 0 30 30",
                "10>Wait(\"blocked\") 1 0 6 6",
                "10>Unrecorded 0 0 4 4"
            ]
        );
        // A nanosecond of each of the two calls, and of the wait, may be rounded off.
        assert_eq!(
            tree(&[], &[7]),
            ["10 1 0 100 60", "10>11 1 0 30 30", "10>Wait(\"blocked\") 1 0 7 7"]
        );
    }

    #[test]
    fn a_path_without_end_is_cut() {
        let called = MethodId::new(7);
        let frames = frames(std::iter::repeat(called), called, method).unwrap();
        assert_eq!(frames.len(), MAX_DEPTH + 1);
        assert_eq!(frames.last(), Some(&Frame::NotKept));
    }
}
