//! Methods as reports name them, and types about a method.

use std::borrow::Cow;
use std::sync::Arc;

use log_format::ids::MethodId;

/// What identifies a method across runs. The class loader is not part of it: reports show the same class of two
/// loaders as one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodName {
    /// Class name with dots.
    pub class: String,
    /// Method name.
    pub method: String,
    /// Descriptor as in the class file.
    pub descriptor: String,
}

/// A method of a report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// A method with a name.
    Named(Arc<MethodName>),
    /// An id without a name in its run.
    Unknown {
        /// Label of the run.
        run: Arc<str>,
        /// Method id.
        id: MethodId,
    },
}

impl Method {
    /// The method of this class, name and descriptor.
    #[must_use]
    pub fn named(class: &str, method: &str, descriptor: &str) -> Self {
        let (class, method, descriptor) = (class.into(), method.into(), descriptor.into());
        Self::Named(Arc::new(MethodName { class, method, descriptor }))
    }

    /// Class and method, `com.shop.Util.hash`; without a class the method alone. A native function has its library
    /// behind it: `Compile::Optimize [libjvm.so]`.
    #[must_use]
    pub fn dotted(&self) -> String {
        let (class, name, _) = self.parts();
        if class.starts_with('[') {
            return format!("{name} {class}");
        }
        let dot = if class.is_empty() { "" } else { "." };
        format!("{class}{dot}{name}")
    }

    /// Class, method and descriptor. A method without a name is named by its number.
    #[must_use]
    pub fn parts(&self) -> (&str, Cow<'_, str>, &str) {
        match self {
            Self::Named(name) => (&name.class, Cow::from(&name.method), &name.descriptor),
            Self::Unknown { run, id } => {
                ("", Cow::from(format!("method #{id} (unknown, run {run})")), "")
            }
        }
    }

    /// Its name as in the log's counters: `com.shop.Util.hash(I)I`.
    #[must_use]
    pub fn log_name(&self) -> String {
        let (class, name, descriptor) = self.parts();
        format!("{class}.{name}{descriptor}")
    }
}

impl MethodName {
    /// Its name as in the log's counters: `com.shop.Util.hash(I)I`.
    #[must_use]
    pub fn log_name(&self) -> String {
        format!("{}.{}{}", self.class, self.method, self.descriptor)
    }
}

/// What a call's path says about recursion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// The method is not among its own callers.
    Outermost,
    /// The method is among its own callers.
    Recursive,
    /// The call path was not kept.
    Unknown,
}

/// Where a method's source is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The file as the class file names it, or empty.
    pub file: String,
    /// The first line of the method's code, or 0.
    pub line: u32,
}

/// The callers of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Callers {
    /// From the nearest on, as far as they were kept.
    pub methods: Vec<Method>,
    /// Whether there are callers beyond those.
    pub has_more: bool,
}
