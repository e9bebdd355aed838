//! The call paths that `--method` and `--root` select.

use log_format::pattern::Pattern;

use crate::options::DataFilter;
use crate::run::nearest_names::Nearest;
use crate::stats::call_tree::{CallTree, Frame};
use crate::stats::method::Method;
use crate::stats::stacks::{rooted_at, through};

/// The part of a tree that a filter selects, and why nothing is left of it, if so.
pub(super) fn selected_part(mut tree: CallTree, filter: &DataFilter) -> (CallTree, Option<String>) {
    let mut reason = None;
    for (pattern, part) in [(&filter.method, through as fn(&_, &_) -> _), (&filter.root, rooted_at)]
    {
        let Some(pattern) = pattern else { continue };
        let part: CallTree = part(&tree, pattern);
        if part.is_empty() && !tree.is_empty() {
            reason = Some(no_such_path(&tree, pattern));
        }
        tree = part;
    }
    (tree, reason)
}

/// Why no paths are left of a tree.
fn no_such_path(tree: &CallTree, pattern: &Pattern) -> String {
    let methods = tree.nodes().iter().filter_map(|node| match &node.frame {
        Frame::Method(Method::Named(name)) => Some(name.as_ref()),
        _ => None,
    });
    let hint = Nearest::to(pattern.as_str(), methods).hint();
    format!("no recorded call was made by methods named by {pattern}: {hint}")
}
