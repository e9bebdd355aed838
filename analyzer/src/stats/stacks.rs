//! Call trees for display: with labels, and with times that add up. The total of a node is its self time plus the
//! totals of the nodes below it.

use std::collections::HashMap;

use log_format::pattern::Pattern;

use crate::stats::call_tree::{CallTree, Frame};
use crate::stats::method::Method;
use crate::stats::sql_sums::shortened;

/// The label of callers that are not in the log.
const NOT_KEPT: &str = "(callers not kept)";

/// Characters of a statement in a tree: it takes two lines.
const STATEMENT_WIDTH: usize = 90;

/// What a frame is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackFrame {
    /// How it is written.
    pub label: String,
    /// Its method; `None` for time that was not recorded and callers that were not kept.
    pub method: Option<Method>,
}

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackNode {
    /// Its frame's index in [`Stacks::frames`].
    pub frame: usize,
    /// The index of the node above; the root's is its own.
    pub parent: usize,
    /// Recorded calls.
    pub calls: u64,
    /// Its self time and that of all nodes below it.
    pub total_ns: u64,
    /// Its self time.
    pub self_ns: u64,
}

/// See the module. Nodes come after the node above them.
#[derive(Debug)]
pub struct Stacks {
    frames: Vec<StackFrame>,
    nodes: Vec<StackNode>,
    places: HashMap<(usize, usize), usize>,
}

impl Stacks {
    /// Makes the stacks of a tree. `without_record` is the label of the time that was not recorded.
    #[must_use]
    pub fn new(tree: &CallTree, label: impl Fn(&Method) -> String, without_record: &str) -> Self {
        Self::with_statements(tree, label, without_record, STATEMENT_WIDTH)
    }

    /// The same with SQL statements of so many characters.
    #[must_use]
    pub fn with_statements(
        tree: &CallTree,
        label: impl Fn(&Method) -> String,
        without_record: &str,
        statement_width: usize,
    ) -> Self {
        let mut stacks = Self::empty();
        let mut by_method: HashMap<&Frame, usize> = HashMap::new();
        let mut ours = Vec::with_capacity(tree.nodes().len());
        for node in tree.nodes() {
            let above = ours.get(node.parent).copied().unwrap_or(0);
            let place = match &node.frame {
                Frame::Root => 0,
                frame => {
                    let frame = *by_method.entry(frame).or_insert_with(|| match frame {
                        Frame::Method(method) => stacks.frame(label(method), Some(method.clone())),
                        Frame::Unrecorded => stacks.frame(without_record.to_owned(), None),
                        Frame::Wait(label) => stacks.frame(label.to_string(), None),
                        Frame::Statement { text, is_unfinished } => {
                            let label = statement(text, *is_unfinished, statement_width);
                            stacks.frame(label, None)
                        }
                        Frame::NotKept | Frame::Root => stacks.frame(NOT_KEPT.to_owned(), None),
                    });
                    stacks.add(above, frame, node.figures.calls, node.figures.self_ns)
                }
            };
            ours.push(place);
        }
        stacks.sum_up();
        stacks
    }

    fn empty() -> Self {
        let frame = StackFrame { label: "all".to_owned(), method: None };
        let root = StackNode { frame: 0, parent: 0, calls: 0, total_ns: 0, self_ns: 0 };
        Self { frames: vec![frame], nodes: vec![root], places: HashMap::new() }
    }

    /// The same times inverted: the first level is where the time was spent, with the callers below it. The total of
    /// a node is the self time of the first level that its callers caused.
    #[must_use]
    pub fn bottom_up(&self) -> Self {
        let mut turned = Self::empty();
        turned.frames.clone_from(&self.frames);
        for (place, node) in self.nodes.iter().enumerate().skip(1) {
            if node.self_ns == 0 && node.calls == 0 {
                continue;
            }
            let mut at = 0;
            for outer in self.path(place) {
                at = turned.add(at, outer.frame, node.calls, 0);
                if let Some(here) = turned.nodes.get_mut(at) {
                    here.total_ns = here.total_ns.saturating_add(node.self_ns);
                    if here.parent == 0 {
                        here.self_ns = here.total_ns;
                    }
                }
            }
        }
        let all = self.total_ns();
        if let Some(root) = turned.nodes.first_mut() {
            root.total_ns = all;
        }
        turned
    }

    /// The nodes; the first is the root, which is not a frame of any stack.
    #[must_use]
    pub fn nodes(&self) -> &[StackNode] {
        &self.nodes
    }

    /// The frames.
    #[must_use]
    pub fn frames(&self) -> &[StackFrame] {
        &self.frames
    }

    /// The label of a node.
    #[must_use]
    pub fn label(&self, node: &StackNode) -> &str {
        self.frames.get(node.frame).map(|frame| frame.label.as_str()).unwrap_or_default()
    }

    /// The time of all stacks.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.nodes.first().map_or(0, |root| root.total_ns)
    }

    /// A node and those above it, without the root.
    pub fn path(&self, place: usize) -> impl Iterator<Item = &StackNode> {
        let mut next = Some(place).filter(|place| *place != 0);
        std::iter::from_fn(move || {
            let node = self.nodes.get(next?)?;
            next = Some(node.parent).filter(|parent| *parent != 0);
            Some(node)
        })
    }

    /// The indexes of the nodes below each node, those with most time first.
    #[must_use]
    pub fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.nodes.len()];
        for (place, node) in self.nodes.iter().enumerate().skip(1) {
            if let Some(below) = children.get_mut(node.parent) {
                below.push(place);
            }
        }
        for below in &mut children {
            below.sort_by_cached_key(|place| {
                let node = self.nodes.get(*place);
                let time = node.map_or(0, |node| node.total_ns);
                (std::cmp::Reverse(time), node.map(|node| self.label(node).to_owned()))
            });
        }
        children
    }

    fn frame(&mut self, label: String, method: Option<Method>) -> usize {
        self.frames.push(StackFrame { label, method });
        self.frames.len() - 1
    }

    fn add(&mut self, parent: usize, frame: usize, calls: u64, self_ns: u64) -> usize {
        let next = self.nodes.len();
        let place = *self.places.entry((parent, frame)).or_insert(next);
        if place == next {
            self.nodes.push(StackNode { frame, parent, calls: 0, total_ns: 0, self_ns: 0 });
        }
        if let Some(node) = self.nodes.get_mut(place) {
            node.calls = node.calls.saturating_add(calls);
            node.self_ns = node.self_ns.saturating_add(self_ns);
        }
        place
    }

    /// Adds to every node the time of those below it.
    fn sum_up(&mut self) {
        for place in (0..self.nodes.len()).rev() {
            let Some(node) = self.nodes.get_mut(place) else { continue };
            node.total_ns = node.total_ns.saturating_add(node.self_ns);
            let (parent, total_ns) = (node.parent, node.total_ns);
            if place == 0 {
                continue;
            }
            if let Some(parent) = self.nodes.get_mut(parent) {
                parent.total_ns = parent.total_ns.saturating_add(total_ns);
            }
        }
    }
}

/// The label of an SQL statement.
fn statement(text: &str, is_unfinished: bool, width: usize) -> String {
    let exit = if is_unfinished { ", unfinished" } else { "" };
    format!("SQL {}{exit}", shortened(text, width.saturating_sub(exit.len())))
}

/// The part of a tree below the methods that `pattern` matches, which become the outermost.
#[must_use]
pub fn rooted_at(tree: &CallTree, pattern: &Pattern) -> CallTree {
    let mut rooted = CallTree::default();
    let inside = inside(tree, pattern);
    for (place, node) in tree.nodes().iter().enumerate() {
        if inside.get(place) == Some(&true) {
            let mut frames = Vec::new();
            let mut at = place;
            while inside.get(at) == Some(&true) {
                let Some(node) = tree.nodes().get(at) else { break };
                frames.push(node.frame.clone());
                at = node.parent;
            }
            rooted.add(frames.into_iter().rev(), &node.figures);
        }
    }
    rooted
}

/// The part of a tree whose paths lead through a method that `pattern` matches. Its callers stay, without calls and
/// times of their own.
#[must_use]
pub fn through(tree: &CallTree, pattern: &Pattern) -> CallTree {
    let mut kept = CallTree::default();
    let inside = inside(tree, pattern);
    for (place, node) in tree.nodes().iter().enumerate() {
        if inside.get(place) == Some(&true) {
            let mut frames = Vec::new();
            let mut at = place;
            while at != 0 {
                let Some(node) = tree.nodes().get(at) else { break };
                frames.push(node.frame.clone());
                at = node.parent;
            }
            kept.add(frames.into_iter().rev(), &node.figures);
        }
    }
    kept
}

/// Which nodes are a call of a matching method, or below one.
fn inside(tree: &CallTree, pattern: &Pattern) -> Vec<bool> {
    let mut inside: Vec<bool> = Vec::with_capacity(tree.nodes().len());
    for node in tree.nodes() {
        let is_named = match &node.frame {
            Frame::Method(Method::Named(name)) => pattern.method(&name.class, &name.method),
            _ => false,
        };
        let is_inside = is_named || inside.get(node.parent).copied().unwrap_or(false);
        inside.push(is_inside);
    }
    inside
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::stats::call_tree::PathFigures;
    use crate::stats::method::MethodName;

    fn frame(name: &str) -> Frame {
        let (class, method) = ("C".to_owned(), name.to_owned());
        Frame::Method(Method::Named(Arc::new(MethodName { class, method, descriptor: "".into() })))
    }

    /// Paths as `a>b`, with total and self time.
    fn tree(paths: &[(&str, u64, u64)]) -> CallTree {
        let mut tree = CallTree::default();
        for (path, total_ns, self_ns) in paths {
            let figures =
                PathFigures { calls: 1, throws: 0, total_ns: *total_ns, self_ns: *self_ns };
            tree.add(path.split('>').map(frame), &figures);
        }
        tree.add_unrecorded();
        tree
    }

    fn stacks(tree: &CallTree) -> Stacks {
        Stacks::new(tree, |method| method.parts().1.into_owned(), "(short)")
    }

    fn lines(stacks: &Stacks) -> Vec<String> {
        let line = |place: usize| {
            let mut names: Vec<&str> = stacks.path(place).map(|node| stacks.label(node)).collect();
            names.reverse();
            let node = stacks.nodes()[place];
            format!("{} {} {} {}", names.join(">"), node.calls, node.total_ns, node.self_ns)
        };
        let mut lines: Vec<String> = (1..stacks.nodes().len()).map(line).collect();
        lines.sort();
        lines
    }

    #[test]
    fn widths_add_up() {
        let stacks = stacks(&tree(&[("a>b", 30, 30), ("a>b>c", 0, 0), ("a", 100, 50)]));
        assert_eq!(
            lines(&stacks),
            ["a 1 100 50", "a>(short) 0 20 20", "a>b 1 30 30", "a>b>c 1 0 0"]
        );
        assert_eq!(stacks.total_ns(), 100);
    }

    #[test]
    fn a_caller_that_was_not_recorded_is_as_wide_as_its_callees() {
        let stacks = stacks(&tree(&[("run>a>b", 30, 10), ("run", 0, 0), ("run>a", 20, 15)]));
        // The time of `a` is less than that of its callees: some calls of `a` were not recorded.
        assert_eq!(
            lines(&stacks),
            ["run 1 45 0", "run>a 1 45 15", "run>a>b 1 30 10", "run>a>b>(short) 0 20 20"]
        );
    }

    #[test]
    fn turned_over_the_times_are_the_same() {
        let stacks = stacks(&tree(&[("a", 100, 50), ("a>b", 30, 20), ("b", 7, 7)]));
        let turned = stacks.bottom_up();
        assert_eq!(
            lines(&turned),
            [
                "(short) 0 30 30",
                "(short)>a 0 20 0",
                "(short)>b 0 10 0",
                "(short)>b>a 0 10 0",
                "a 1 50 50",
                "b 2 27 27",
                "b>a 1 20 0",
            ]
        );
        assert_eq!(turned.total_ns(), stacks.total_ns());
    }

    #[test]
    fn parts_of_a_tree() {
        let tree = tree(&[("a", 9, 1), ("a>b", 5, 1), ("c>b>d>b", 4, 4), ("e", 1, 1)]);
        let pattern = Pattern::parse("C.b").unwrap();
        assert_eq!(
            lines(&stacks(&rooted_at(&tree, &pattern))),
            ["b 1 9 1", "b>(short) 0 4 4", "b>d 0 4 0", "b>d>b 1 4 4"]
        );
        assert_eq!(
            lines(&stacks(&through(&tree, &pattern))),
            [
                "a 0 5 0",
                "a>b 1 5 1",
                "a>b>(short) 0 4 4",
                "c 0 4 0",
                "c>b 0 4 0",
                "c>b>d 0 4 0",
                "c>b>d>b 1 4 4"
            ]
        );
    }
}
