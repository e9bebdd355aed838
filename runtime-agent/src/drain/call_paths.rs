//! Call paths: chains of instrumented frames, each chain with an id.

use std::collections::HashMap;

use log_format::ids::{MethodId, StackId};

/// Most paths kept in a run; some 10 MB.
const MAX_PATHS: usize = 200_000;

/// Stands for all paths that were not kept because there were too many or because they were too deep.
pub(crate) const UNKNOWN: StackId = StackId::new(1);

/// All paths of a run, by id from 1.
#[derive(Debug)]
pub(crate) struct CallPaths {
    ids: HashMap<(StackId, MethodId), StackId>,
    /// Parent and method of each path.
    paths: Vec<(StackId, MethodId)>,
}

impl CallPaths {
    pub(crate) fn new() -> Self {
        // UNKNOWN has neither parent nor method.
        Self { ids: HashMap::new(), paths: vec![(StackId::NONE, MethodId::NONE)] }
    }

    /// The path from `parent` to a call of `method`.
    pub(crate) fn id(&mut self, parent: StackId, method: MethodId) -> StackId {
        if parent == UNKNOWN {
            return UNKNOWN;
        }
        if let Some(id) = self.ids.get(&(parent, method)) {
            return *id;
        }
        match u32::try_from(self.paths.len() + 1).map(StackId::new) {
            Ok(id) if self.paths.len() < MAX_PATHS => {
                self.paths.push((parent, method));
                self.ids.insert((parent, method), id);
                id
            }
            _ => UNKNOWN,
        }
    }

    /// Approximate memory that they use.
    pub(crate) fn bytes(&self) -> usize {
        self.paths.capacity() * size_of::<(StackId, MethodId)>()
            + self.ids.capacity() * size_of::<((StackId, MethodId), StackId)>()
    }

    /// Parent and method of a path.
    pub(crate) fn get(&self, id: StackId) -> Option<(StackId, MethodId)> {
        self.paths.get(id.index().checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_id_and_too_many_share_one() {
        let mut paths = CallPaths::new();
        let method = MethodId::new;
        let a = paths.id(StackId::NONE, method(7));
        let b = paths.id(a, method(8));
        assert_eq!((a, b), (StackId::new(2), StackId::new(3)));
        assert_eq!((a, b), (paths.id(StackId::NONE, method(7)), paths.id(a, method(8))));
        assert_eq!(paths.get(b), Some((a, method(8))));
        assert_eq!(paths.get(UNKNOWN), Some((StackId::NONE, MethodId::NONE)));
        assert_eq!(paths.get(StackId::NONE), None);
        for number in 0..250_000 {
            paths.id(b, method(number));
        }
        assert_eq!(paths.id(b, method(249_999)), UNKNOWN);
        assert_eq!(paths.id(UNKNOWN, method(1)), UNKNOWN);
        assert_eq!(paths.id(a, method(8)), b);
        assert_eq!(paths.paths.len(), MAX_PATHS);
    }
}
