//! The instrumented methods in which events happen.

use std::collections::HashSet;
use std::sync::Arc;

use log_format::ids::{MethodId, StackId};

use crate::input::runs::RunInput;
use crate::run::names::Names;
use crate::run::selection::Selection;
use crate::stats::method::Method;

/// The selected methods of a run.
pub struct SiteMethods<'n> {
    names: &'n Names,
    label: Arc<str>,
    /// Their ids; `None` selects all, and events without a method.
    selected: Option<HashSet<MethodId>>,
}

impl<'n> SiteMethods<'n> {
    /// Those of this run.
    #[must_use]
    pub fn new(names: &'n Names, run: &RunInput, selection: &Selection) -> Self {
        let selected = selection.method.as_ref().map(|pattern| names.ids_named_by(pattern));
        Self { names, label: run.label.as_str().into(), selected }
    }

    /// Whether events in this method are selected.
    #[must_use]
    pub fn takes(&self, method: MethodId) -> bool {
        self.selected.as_ref().is_none_or(|ids| ids.contains(&method))
    }

    /// The method; `None` if no instrumented method was in progress.
    #[must_use]
    pub fn method(&self, id: MethodId) -> Option<Method> {
        (!id.is_none()).then(|| self.names.method_or_unknown(id, &self.label))
    }

    /// The innermost methods of a call path, the innermost first, at most `most`.
    #[must_use]
    pub fn path(&self, stack: StackId, most: usize) -> Vec<Method> {
        let ids = (!stack.is_none()).then(|| self.names.path(stack)).into_iter().flatten();
        ids.take(most).map_while(|id| self.method(id)).collect()
    }
}

/// The innermost instrumented method of a call path, or none.
pub fn innermost(stack: StackId, names: &Names) -> MethodId {
    if stack.is_none() { MethodId::NONE } else { names.path(stack).next().unwrap_or_default() }
}
