//! Call paths: chains of instrumented frames, each chain with an id.

use std::collections::HashMap;

/// Most paths kept in a run; some 10 MB.
const MAX_PATHS: usize = 200_000;

/// Stands for all paths that were not kept because there were too many or because they were too deep.
pub(crate) const UNKNOWN: u32 = 1;

/// All paths of a run, by id from 1.
#[derive(Debug)]
pub(crate) struct CallPaths {
    ids: HashMap<(u32, u32), u32>,
    /// Parent and method of each path.
    paths: Vec<(u32, u32)>,
}

impl CallPaths {
    pub(crate) fn new() -> Self {
        // UNKNOWN has neither parent nor method.
        Self { ids: HashMap::new(), paths: vec![(0, 0)] }
    }

    /// The path from `parent` (0 for a root) to a call of `method`.
    pub(crate) fn id(&mut self, parent: u32, method: u32) -> u32 {
        if parent == UNKNOWN {
            return UNKNOWN;
        }
        if let Some(id) = self.ids.get(&(parent, method)) {
            return *id;
        }
        match u32::try_from(self.paths.len() + 1) {
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
        self.paths.capacity() * size_of::<(u32, u32)>()
            + self.ids.capacity() * size_of::<((u32, u32), u32)>()
    }

    /// Parent and method of a path.
    pub(crate) fn get(&self, id: u32) -> Option<(u32, u32)> {
        self.paths.get((id as usize).checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_id_and_too_many_share_one() {
        let mut paths = CallPaths::new();
        let a = paths.id(0, 7);
        let b = paths.id(a, 8);
        assert_eq!((a, b, paths.id(0, 7), paths.id(a, 8)), (2, 3, 2, 3));
        assert_eq!(paths.get(b), Some((a, 8)));
        assert_eq!(paths.get(UNKNOWN), Some((0, 0)));
        assert_eq!(paths.get(0), None);
        for method in 0..250_000 {
            paths.id(b, method);
        }
        assert_eq!(paths.id(b, 249_999), UNKNOWN);
        assert_eq!(paths.id(UNKNOWN, 1), UNKNOWN);
        assert_eq!(paths.id(a, 8), b);
        assert_eq!(paths.paths.len(), MAX_PATHS);
    }
}
