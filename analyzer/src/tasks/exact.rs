//! The recorded calls of requests by call path, with their exact times: what snapshots, which see a call only if it is
//! in progress at their moment, cannot tell.

use std::collections::HashMap;

use crate::tasks::code_names::CodeNames;
use crate::tasks::task::Request;

/// The recorded calls with one path below the endpoint, of all requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactCalls {
    /// 0 for the endpoint.
    pub depth: usize,
    /// `com.shop.Order.pay:41`.
    pub code_signature: String,
    /// How many there are.
    pub calls: u64,
    /// Their time, in nanoseconds.
    pub total_ns: u64,
    /// The same without all measured callees, recorded or not.
    pub self_ns: u64,
}

#[derive(Default)]
struct Node {
    calls: u64,
    total_ns: u64,
    self_ns: u64,
    /// By code signature.
    callees: HashMap<String, usize>,
}

/// Sums up the calls of requests. Callers come before their callees, of these those with most time first. Calls whose
/// path was not kept are missing.
#[must_use]
pub fn exact(requests: &[&Request], names: &CodeNames) -> Vec<ExactCalls> {
    let mut nodes = vec![Node::default()];
    for request in requests {
        let before = names.path(request.stack).map_or(0, |path| path.len().saturating_sub(1));
        for call in &request.calls {
            let Some(path) = names.path(call.stack).filter(|path| path.len() > before) else {
                continue;
            };
            let signatures = path.into_iter().skip(before).map(|id| names.signature(id));
            let place =
                signatures.fold(0, |caller, signature| callee(&mut nodes, caller, signature));
            if let Some(node) = nodes.get_mut(place) {
                node.calls = node.calls.saturating_add(1);
                node.total_ns = node.total_ns.saturating_add(call.total_ns);
                node.self_ns = node.self_ns.saturating_add(call.self_ns);
            }
        }
    }
    depth_first(&nodes)
}

/// The callee of a node with this signature.
fn callee(nodes: &mut Vec<Node>, caller: usize, signature: String) -> usize {
    let next = nodes.len();
    let Some(node) = nodes.get_mut(caller) else { return caller };
    let place = *node.callees.entry(signature).or_insert(next);
    if place == next {
        nodes.push(Node::default());
    }
    place
}

fn depth_first(nodes: &[Node]) -> Vec<ExactCalls> {
    let mut found = Vec::new();
    let mut open: Vec<(usize, usize, &str)> = vec![(0, 0, "")];
    while let Some((place, depth, signature)) = open.pop() {
        let Some(node) = nodes.get(place) else { continue };
        // The first has no call.
        if let Some(depth) = depth.checked_sub(1) {
            let Node { calls, total_ns, self_ns, .. } = *node;
            let code_signature = signature.to_owned();
            found.push(ExactCalls { depth, code_signature, calls, total_ns, self_ns });
        }
        let mut callees: Vec<(&str, usize)> =
            node.callees.iter().map(|(signature, place)| (&**signature, *place)).collect();
        let total_ns = |place: usize| nodes.get(place).map_or(0, |node| node.total_ns);
        // The last is taken first.
        callees.sort_by(|a, b| (total_ns(a.1), b.0).cmp(&(total_ns(b.1), a.0)));
        open.extend(callees.into_iter().map(|(signature, place)| (place, depth + 1, signature)));
    }
    found
}
