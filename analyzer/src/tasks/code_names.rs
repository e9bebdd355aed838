//! The names that stacks of tasks show.

use std::collections::HashMap;
use std::sync::Arc;

use log_format::ids::{MethodId, StackId, ThreadId};

use crate::input::problems::Problems;
use crate::input::runs::RunInput;
use crate::run::names::Names;
use crate::stats::method::{Method, MethodName};

/// Code signatures, call paths and threads of a run.
pub struct CodeNames {
    names: Names,
    /// Lines of methods that have one, for frames of samples, which have none.
    lines: HashMap<Arc<MethodName>, u32>,
    run: Arc<str>,
}

impl CodeNames {
    /// Reads them, of all hours.
    #[must_use]
    pub fn read(run: &RunInput, problems: &mut Problems) -> Self {
        let names = Names::read(run, problems);
        let mut lines: HashMap<Arc<MethodName>, u32> = HashMap::new();
        for (name, source) in names.sources().filter(|(_, source)| source.line > 0) {
            // Classes of several loaders may have the same method.
            let line = lines.entry(Arc::clone(name)).or_insert(source.line);
            *line = source.line.min(*line);
        }
        Self { names, lines, run: Arc::from(run.label.as_str()) }
    }

    /// The signature of a method: `com.shop.Order.pay:41` with its first line, without one `com.shop.Order.pay`.
    #[must_use]
    pub fn signature(&self, id: MethodId) -> String {
        let method = self.method(id).dotted();
        match self.names.source(id) {
            Some(source) if source.line > 0 => format!("{method}:{}", source.line),
            _ => method,
        }
    }

    /// The signature of a sampled frame. It has a line if the method is instrumented.
    pub(super) fn signature_of(&self, method: &Method) -> String {
        let line = match method {
            Method::Named(name) => self.lines.get(name),
            Method::Unknown { .. } => None,
        };
        match line {
            Some(line) => format!("{}:{line}", method.dotted()),
            None => method.dotted(),
        }
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    pub(super) fn method(&self, id: MethodId) -> Method {
        self.names.method_or_unknown(id, &self.run)
    }

    /// The methods of a call path, outermost first; `None` if it was not kept.
    pub(super) fn path(&self, stack: StackId) -> Option<Vec<MethodId>> {
        let mut methods: Vec<MethodId> = self.names.path(stack).collect();
        methods.reverse();
        (!methods.contains(&MethodId::NONE)).then_some(methods)
    }

    /// A thread's name and id, `main #1`.
    #[must_use]
    pub fn thread(&self, id: ThreadId) -> String {
        self.names.thread(id)
    }

    /// A thread's name alone.
    #[must_use]
    pub fn thread_name(&self, id: ThreadId) -> String {
        self.names.thread_name(id)
    }
}
