//! The call paths of the page's flame graph: those with most time. The part of a caller's time that is in other paths
//! has its own frame, so widths add up.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;

use crate::stats::method::Method;
use crate::stats::stacks::Stacks;

const SMALLER: &str = "(smaller paths)";

/// What a frame is: a method's index, or a label.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Frame {
    /// The index of the method in the table.
    Method(usize),
    /// The frame's text.
    Label(String),
}

/// A row for each path, callers before callees; the first is the whole.
#[derive(Default, Serialize)]
pub struct Paths {
    frame: Vec<usize>,
    parent: Vec<usize>,
    calls: Vec<u64>,
    total: Vec<u64>,
    own: Vec<u64>,
}

impl Paths {
    /// The `most` paths of these stacks with most time, and their frames. `place` gives a method's index in the
    /// table.
    pub fn new(
        stacks: &Stacks,
        place: impl Fn(&Method) -> Option<usize>,
        most: usize,
    ) -> (Vec<Frame>, Self) {
        let nodes = stacks.nodes();
        let mut kept: Vec<usize> = (0..nodes.len()).collect();
        // A caller has no less time than its callees, and comes before them.
        let time = |place: &usize| nodes.get(*place).map_or(0, |node| node.total_ns);
        kept.sort_by_key(|place| (Reverse(time(place)), *place));
        kept.truncate(most);
        kept.sort_unstable();
        let mut paths = Self::default();
        let mut frames = Frames { frames: Vec::new(), places: HashMap::new() };
        let mut ours: HashMap<usize, usize> = HashMap::new();
        // The time of a path that is neither its self time nor that of an embedded path.
        let mut rest: Vec<u64> = Vec::new();
        for old in kept {
            let Some(node) = nodes.get(old) else { continue };
            let frame = frames.of(node.frame, || {
                let frame = stacks.frames().get(node.frame);
                let method = frame.and_then(|frame| frame.method.as_ref());
                match method.and_then(&place) {
                    Some(place) => Frame::Method(place),
                    None => Frame::Label(stacks.label(node).to_owned()),
                }
            });
            let parent = ours.get(&node.parent).copied().unwrap_or(0);
            ours.insert(old, paths.frame.len());
            if let Some(rest) = rest.get_mut(parent).filter(|_| old != 0) {
                *rest = rest.saturating_sub(node.total_ns);
            }
            paths.add(frame, parent, [node.calls, node.total_ns, node.self_ns]);
            rest.push(node.total_ns.saturating_sub(node.self_ns));
        }
        if rest.iter().any(|rest| *rest > 0) {
            let smaller = frames.frames.len();
            frames.frames.push(Frame::Label(SMALLER.to_owned()));
            for (parent, ns) in rest.into_iter().enumerate().filter(|(_, ns)| *ns > 0) {
                paths.add(smaller, parent, [0, ns, ns]);
            }
        }
        (frames.frames, paths)
    }

    fn add(&mut self, frame: usize, parent: usize, [calls, total, own]: [u64; 3]) {
        self.frame.push(frame);
        self.parent.push(parent);
        self.calls.push(calls);
        self.total.push(total);
        self.own.push(own);
    }
}

struct Frames {
    frames: Vec<Frame>,
    /// By index among the frames of the stacks.
    places: HashMap<usize, usize>,
}

impl Frames {
    fn of(&mut self, frame: usize, make: impl FnOnce() -> Frame) -> usize {
        *self.places.entry(frame).or_insert_with(|| {
            self.frames.push(make());
            self.frames.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use log_format::ids::MethodId;

    use super::*;
    use crate::stats::call_tree::{CallTree, Frame as Called, PathFigures};

    #[test]
    fn omitted_callees_are_a_frame_of_their_own() {
        let mut tree = CallTree::default();
        let method = |id| {
            let id = MethodId::new(id);
            Called::Method(Method::Unknown { run: "r".into(), id })
        };
        for (path, ns) in [(&[1][..], 100), (&[1, 2], 50), (&[1, 3], 7), (&[1, 4], 5), (&[5], 1)] {
            let figures = PathFigures { calls: 1, total_ns: ns, self_ns: ns, ..Default::default() };
            tree.add(path.iter().copied().map(method), &figures);
        }
        let stacks = Stacks::new(&tree, |method| method.parts().1.into_owned(), "(short)");
        let place = |method: &Method| match method {
            Method::Unknown { id, .. } if *id == MethodId::new(2) => Some(77),
            _ => None,
        };
        let (frames, paths) = Paths::new(&stacks, place, 3);
        let label = |frame: &usize| match &frames[*frame] {
            Frame::Method(place) => place.to_string(),
            Frame::Label(label) => label.split(" (").next().unwrap().to_owned(),
        };
        let labels: Vec<String> = paths.frame.iter().map(label).collect();
        assert_eq!(labels, ["all", "method #1", "77", SMALLER, SMALLER]);
        assert_eq!(paths.parent, [0, 0, 1, 0, 1]);
        assert_eq!(paths.total, [163, 162, 50, 1, 12]);
        assert_eq!(paths.own, [0, 100, 50, 1, 12]);
        let whole = Paths::new(&stacks, place, 100).1;
        assert_eq!(whole.total, [163, 162, 50, 7, 5, 1]);
    }
}
