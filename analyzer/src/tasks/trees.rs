//! SkyWalking's analysis of snapshots: trees of code signatures with durations.
//!
//! Snapshots whose stacks begin alike are in one tree, an element for each different beginning. An element was seen
//! in some snapshots. Those with consecutive numbers make a window, and its duration is the time from the first to
//! the last: 50 snapshots of 10 ms are 490 ms, and a single one has no duration.
//!
//! ```text
//! sequence   0   1   2   3   4   5   6         10 ms apart
//! pay        |===========================|     60 ms, count 7
//! query          |===|           |=======|     20 + 10 ms, count 5
//! ```
//!
//! The numbers for one request are those of OAP 10.1.0 (`ProfileAnalyzer`, `ProfileStackNode`). Of several segments,
//! OAP drops snapshots whose number it has seen in another one; here, each request has its own windows, and an
//! element's duration is their sum.

use std::collections::{BTreeSet, HashMap};

use crate::tasks::snapshots::Snapshot;

const MS: u64 = 1_000_000;

/// A time, both ends included, in unix milliseconds, as SkyWalking's queries have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsRange {
    /// Its first millisecond.
    pub from_ms: u64,
    /// Its last millisecond.
    pub to_ms: u64,
}

/// What to analyze of one request.
#[derive(Clone, Copy, Debug)]
pub struct Part<'s> {
    /// Its snapshots, by number.
    pub snapshots: &'s [Snapshot],
    /// The times to analyze. A snapshot in several of them counts once.
    pub ranges: &'s [MsRange],
}

impl MsRange {
    /// All time.
    pub const ALL: Self = Self { from_ms: 0, to_ms: u64::MAX };
}

/// A tree: all stacks with the same first signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Level by level, by id; the first is the root.
    pub elements: Vec<Element>,
}

/// An element of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Its id in the tree, from 1.
    pub id: u32,
    /// The id of its caller, 0 for the root.
    pub parent_id: u32,
    /// Code signature.
    pub code_signature: String,
    /// Its duration, in milliseconds.
    pub duration_ms: u64,
    /// The same without its children's.
    pub self_ms: u64,
    /// Snapshots that it is in.
    pub count: u64,
}

/// Makes the trees of requests, in the order in which their roots were first seen.
#[must_use]
pub fn analyze(parts: &[Part<'_>]) -> Vec<Tree> {
    let mut nodes = Nodes::default();
    for part in parts {
        let mut snapshots = selected(part);
        // The ids of OAP are in the order of the ranges.
        for snapshot in &snapshots {
            nodes.each(snapshot, |_| {});
        }
        snapshots.sort_by_key(|snapshot| snapshot.sequence);
        for snapshot in snapshots {
            nodes.each(snapshot, |node| node.see(snapshot));
        }
        nodes.all.iter_mut().for_each(Node::close_window);
    }
    nodes.roots.iter().map(|root| nodes.tree(*root)).collect()
}

/// The snapshots in the ranges, in the order of these, each once.
fn selected<'s>(part: &Part<'s>) -> Vec<&'s Snapshot> {
    let (mut seen, mut selected) = (BTreeSet::new(), Vec::new());
    for range in part.ranges {
        let is_before = |s: &Snapshot| s.time_ns / MS < range.from_ms;
        let first = part.snapshots.partition_point(is_before);
        let end = part.snapshots.partition_point(|s| s.time_ns / MS <= range.to_ms);
        selected.extend((first..end).filter(|place| seen.insert(*place)));
    }
    selected.into_iter().filter_map(|place| part.snapshots.get(place)).collect()
}

#[derive(Debug, Default)]
struct Node<'s> {
    signature: &'s str,
    children: Vec<usize>,
    count: u64,
    duration_ms: u64,
    window: Option<Window>,
}

/// Consecutive snapshots with the node.
#[derive(Clone, Copy, Debug)]
struct Window {
    first_ms: u64,
    last_ms: u64,
    last_sequence: u32,
}

impl Node<'_> {
    fn see(&mut self, snapshot: &Snapshot) {
        self.count += 1;
        let ms = snapshot.time_ns / MS;
        if let Some(window) = &mut self.window
            && window.last_sequence.checked_add(1) == Some(snapshot.sequence)
        {
            (window.last_ms, window.last_sequence) = (ms, snapshot.sequence);
            return;
        }
        self.close_window();
        let last_sequence = snapshot.sequence;
        self.window = Some(Window { first_ms: ms, last_ms: ms, last_sequence });
    }

    fn close_window(&mut self) {
        if let Some(window) = self.window.take() {
            self.duration_ms += window.last_ms.saturating_sub(window.first_ms);
        }
    }
}

#[derive(Debug, Default)]
struct Nodes<'s> {
    all: Vec<Node<'s>>,
    roots: Vec<usize>,
    /// By parent and signature.
    known: HashMap<(Option<usize>, &'s str), usize>,
}

impl<'s> Nodes<'s> {
    /// Passes the node of each frame to `look_at`.
    fn each(&mut self, snapshot: &'s Snapshot, look_at: impl Fn(&mut Node<'s>)) {
        let mut parent = None;
        for signature in &*snapshot.stack {
            let place = self.child(parent, signature);
            self.all.get_mut(place).into_iter().for_each(&look_at);
            parent = Some(place);
        }
    }

    fn child(&mut self, parent: Option<usize>, signature: &'s str) -> usize {
        let Self { all, roots, known } = self;
        *known.entry((parent, signature)).or_insert_with(|| {
            let place = all.len();
            all.push(Node { signature, ..Node::default() });
            match parent.and_then(|parent| all.get_mut(parent)) {
                Some(parent) => parent.children.push(place),
                None => roots.push(place),
            }
            place
        })
    }

    /// The tree below a root, level by level.
    fn tree(&self, root: usize) -> Tree {
        let mut elements: Vec<Element> = Vec::new();
        let mut queue = vec![(root, 0)];
        let mut next = 0;
        while let Some((place, parent_id)) = queue.get(next).copied() {
            next += 1;
            let Some(node) = self.all.get(place) else { continue };
            let id = u32::try_from(next).unwrap_or(u32::MAX);
            let children = node.children.iter().filter_map(|child| self.all.get(*child));
            let in_children: u64 = children.map(|child| child.duration_ms).sum();
            elements.push(Element {
                id,
                parent_id,
                code_signature: node.signature.to_owned(),
                duration_ms: node.duration_ms,
                self_ms: node.duration_ms.saturating_sub(in_children),
                count: node.count,
            });
            queue.extend(node.children.iter().map(|child| (*child, id)));
        }
        Tree { elements }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Snapshots with these numbers and stacks, 10 ms apart and some time within a millisecond.
    fn snapshots(of: &[(u32, &str)]) -> Vec<Snapshot> {
        let snapshot = |(sequence, stack): &(u32, &str)| Snapshot {
            time_ns: 1_795_183_265_000_999_999 + u64::from(*sequence) * 10 * MS,
            sequence: *sequence,
            stack: stack.split(' ').map(str::to_owned).collect(),
        };
        of.iter().map(snapshot).collect()
    }

    /// A line for each element: id, parent, signature, duration, self time, count.
    fn lines(parts: &[Part<'_>]) -> Vec<String> {
        let trees = analyze(parts).into_iter();
        let line = |of: Element| {
            let Element { id, parent_id, code_signature, duration_ms, self_ms, count } = of;
            format!("{id} {parent_id} {code_signature} {duration_ms} {self_ms} {count}")
        };
        trees.flat_map(|tree| tree.elements).map(line).collect()
    }

    fn ms(from: u64, to: u64) -> MsRange {
        MsRange { from_ms: 1_795_183_265_000 + from, to_ms: 1_795_183_265_000 + to }
    }

    /// OAP 10.1.0 gives these for the same snapshots.
    #[test]
    fn windows_are_of_consecutive_numbers() {
        let of = snapshots(&[
            (0, "a b c"),
            (1, "a b c"),
            (2, "a d"),
            (3, "a b"),
            (5, "a b c"),
            (6, "a b e c"),
            (7, "a"),
        ]);
        let all = Part { snapshots: &of, ranges: &[MsRange::ALL] };
        let expected = [
            "1 0 a 50 30 7",
            "2 1 b 20 10 5",
            "3 1 d 0 0 1",
            "4 2 c 10 10 3",
            "5 2 e 0 0 1",
            "6 5 c 0 0 1",
        ];
        assert_eq!(lines(&[all]), expected);
        // Ids are in the order of the ranges, and times are not.
        let ranges = [ms(60, 70), ms(0, 20)];
        let expected = [
            "1 0 a 30 20 5",
            "2 1 b 10 0 3",
            "3 1 d 0 0 1",
            "4 2 e 0 0 1",
            "5 2 c 10 10 2",
            "6 4 c 0 0 1",
        ];
        assert_eq!(lines(&[Part { snapshots: &of, ranges: &ranges }]), expected);
        assert!(lines(&[Part { snapshots: &of, ranges: &[] }]).is_empty());
        assert!(lines(&[Part { snapshots: &of, ranges: &[ms(71, 900)] }]).is_empty());
    }

    #[test]
    fn several_roots_are_several_trees() {
        let of = snapshots(&[(0, "a b"), (1, "x b"), (2, "a b"), (3, "a"), (4, "x")]);
        let all = Part { snapshots: &of, ranges: &[MsRange::ALL] };
        let expected = ["1 0 a 10 10 3", "2 1 b 0 0 2", "1 0 x 0 0 2", "2 1 b 0 0 1"];
        assert_eq!(lines(&[all]), expected);
    }

    /// Requests at the same time have the same numbers, and none of them is dropped.
    #[test]
    fn requests_are_added_up() {
        let (one, two) =
            (snapshots(&[(0, "a"), (1, "a b"), (2, "a b")]), snapshots(&[(0, "a"), (1, "a")]));
        let part = |snapshots| Part { snapshots, ranges: &[MsRange::ALL] };
        let expected = ["1 0 a 30 20 5", "2 1 b 10 10 2"];
        assert_eq!(lines(&[part(&one), part(&two)]), expected);
        // The last number of the first goes on in the second, and is no window with it.
        let later = snapshots(&[(3, "a b"), (4, "a b")]);
        assert_eq!(lines(&[part(&one), part(&later)])[1], "2 1 b 20 20 4");
    }
}
