//! What is known of an instrumented method and its class.

use std::sync::Arc;

use log_format::writer::one_line;

/// A class with instrumented methods.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Class {
    /// The loader's name, as it is logged.
    pub loader: String,
    /// Name with dots.
    pub name: String,
    /// Source file, or empty.
    pub source: String,
}

impl Class {
    /// The loader's class, without the loader's number, and the class's own name.
    pub(super) fn key(&self) -> (String, String) {
        let loader = self.loader.split('#').next().unwrap_or_default();
        (loader.to_owned(), self.name.clone())
    }
}

/// An instrumented method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    pub class: Arc<Class>,
    pub name: String,
    pub descriptor: String,
    /// First line, or 0.
    pub line: u32,
}

impl Method {
    /// Its whole name, on one line.
    pub(crate) fn line_name(&self) -> String {
        one_line(&format!("{}.{}{}", self.class.name, self.name, self.descriptor))
    }
}
