//! Decides which classes get probes, and gives them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use log_format::pattern::{ClassMatch, Filter};
use rewriter::{ClassInfo, MethodId, MethodInfo, Mutf8, Outcome, Rewriter, Selector, Skip};

use crate::loaders::Loader;
use crate::methods::{Class, KnownClass, Method, Methods};

/// How many classes and methods were met, since the run began.
#[derive(Debug, Default)]
pub(crate) struct ClassCounts {
    classes: AtomicU64,
    methods: AtomicU64,
    skipped: AtomicU64,
    unreadable: AtomicU64,
}

impl ClassCounts {
    pub(crate) fn classes(&self) -> u64 {
        self.classes.load(Ordering::Relaxed)
    }

    pub(crate) fn methods(&self) -> u64 {
        self.methods.load(Ordering::Relaxed)
    }

    /// Methods that were selected and could not get probes, those left out by design not counted.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }
}

/// Rewrites classes as they are loaded; used by all threads at once.
#[derive(Debug)]
pub(crate) struct ClassHook {
    filter: Filter,
    methods: Arc<Methods>,
    counts: Arc<ClassCounts>,
    /// Rewriters that nobody uses now.
    rewriters: Mutex<Vec<Rewriter>>,
}

impl ClassHook {
    pub(crate) fn new(filter: Filter, methods: Arc<Methods>, counts: Arc<ClassCounts>) -> Self {
        Self { filter, methods, counts, rewriters: Mutex::new(Vec::new()) }
    }

    /// Whether the patterns alone decide, and not whose the class is.
    pub(crate) fn has_include(&self) -> bool {
        !self.filter.include.is_empty()
    }

    /// Whether a class may have methods to give probes to. `name` is its internal name.
    pub(crate) fn selects(&self, name: &str) -> bool {
        name != rewriter::probe::CLASS && self.filter.class(name) != ClassMatch::None
    }

    /// Whether a class of this loader and internal name has been given probes.
    pub(crate) fn has_given(&self, loader: u64, name: &str) -> bool {
        self.methods.has_class(loader, name)
    }

    /// The class with probes, or `None` if it stays as it is.
    pub(crate) fn rewrite(&self, loader: Loader, name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut rewriter = self.pool().pop().unwrap_or_default();
        let all_methods = self.filter.class(name) == ClassMatch::AllMethods;
        let loader_number = loader.number;
        let outcome = self.methods.with_class(loader_number, name, |known| {
            let was_known = known.has_methods();
            let mut selection = Selection {
                filter: (!all_methods).then_some(&self.filter),
                known,
                loader: loader.name,
                class: None,
                skipped: 0,
                new_methods: 0,
            };
            let outcome = rewriter.rewrite(bytes, &mut selection);
            let Selection { skipped, new_methods, .. } = selection;
            // A class that was instrumented before is not counted again.
            if !was_known {
                self.counts.skipped.fetch_add(skipped, Ordering::Relaxed);
            }
            if let Ok(Outcome::Rewritten(_)) = outcome {
                self.counts.methods.fetch_add(new_methods, Ordering::Relaxed);
                self.counts.classes.fetch_add(u64::from(!was_known), Ordering::Relaxed);
            }
            outcome
        });
        self.pool().push(rewriter);
        match outcome {
            Ok(Outcome::Rewritten(rewritten)) => Some(rewritten.bytes),
            Ok(Outcome::Unchanged) => None,
            Err(_) => {
                self.counts.unreadable.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    fn pool(&self) -> std::sync::MutexGuard<'_, Vec<Rewriter>> {
        self.rewriters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Selection<'s, 'r> {
    /// `None` if all methods of the class are selected.
    filter: Option<&'s Filter>,
    known: &'s mut KnownClass<'r>,
    loader: String,
    /// Made when the first method needs it.
    class: Option<Arc<Class>>,
    skipped: u64,
    new_methods: u64,
}

impl Selector for Selection<'_, '_> {
    fn selects(&mut self, class: &ClassInfo<'_>, method: &MethodInfo<'_>) -> bool {
        self.filter.is_none_or(|filter| filter.method(&class.name.to_str(), &method.name.to_str()))
    }

    fn id(&mut self, class: &ClassInfo<'_>, method: &MethodInfo<'_>) -> Option<MethodId> {
        let class = self.class.get_or_insert_with(|| {
            Arc::new(Class {
                loader: std::mem::take(&mut self.loader),
                name: class.name.to_str().replace('/', "."),
                source: class.source_file.map_or_else(String::new, |s| s.to_str().into_owned()),
            })
        });
        let (id, is_new) = self.known.id(Method {
            class: class.clone(),
            name: method.name.to_str().into_owned(),
            descriptor: method.descriptor.to_str().into_owned(),
            line: u32::from(method.line),
        })?;
        self.new_methods += u64::from(is_new);
        Some(id)
    }

    fn skipped(&mut self, _: &ClassInfo<'_>, _: Mutf8<'_>, _: Mutf8<'_>, why: Skip) {
        self.skipped += u64::from(!why.is_by_design());
    }
}
