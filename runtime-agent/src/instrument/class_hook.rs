//! Decides which classes are instrumented, and has them rewritten.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rewriter::{ClassInfo, MethodId, MethodInfo, Mutf8, Outcome, Rewriter, Selector, Skip};

use crate::instrument::class_log::ClassLog;
use crate::instrument::filters::{ByName, ClassDecision, DefaultExcludes, Filters, Selected};
use crate::instrument::include_hints::WhyEmpty;
use crate::instrument::methods::{Class, KnownClass, Method, Methods};
use crate::jvm::loaders::Loader;

/// Counts of classes and methods since the run began.
#[derive(Debug, Default)]
pub(crate) struct ClassCounts {
    classes: AtomicU64,
    methods: AtomicU64,
    skipped: AtomicU64,
    unreadable: AtomicU64,
    leaves: AtomicU64,
    /// Skipped methods that are not in the log yet, each with its reason.
    named: Mutex<Named>,
}

#[derive(Debug, Default)]
struct Named {
    waiting: Vec<NotInstrumented>,
    /// How many methods were skipped so far.
    count: usize,
}

/// A selected method that could not be instrumented.
#[derive(Clone, Debug)]
pub(crate) struct NotInstrumented {
    /// `CLASS.METHODDESCRIPTOR`.
    pub method: String,
    pub reason: &'static str,
}

/// Skipped methods that are named in the log. More are only counted.
const MAX_NAMED: usize = 1_000;

impl ClassCounts {
    pub(crate) fn classes(&self) -> u64 {
        self.classes.load(Ordering::Relaxed)
    }

    pub(crate) fn methods(&self) -> u64 {
        self.methods.load(Ordering::Relaxed)
    }

    /// Selected methods that could not be instrumented, without those excluded on purpose.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// The methods skipped since the last call.
    pub(crate) fn take_skipped(&self) -> Vec<NotInstrumented> {
        std::mem::take(&mut self.named().waiting)
    }

    fn skip(&self, skipped: Vec<NotInstrumented>) {
        if skipped.is_empty() {
            return;
        }
        self.skipped.fetch_add(skipped.len() as u64, Ordering::Relaxed);
        let mut named = self.named();
        let room = MAX_NAMED.saturating_sub(named.count);
        named.count += skipped.len();
        named.waiting.extend(skipped.into_iter().take(room));
    }

    fn named(&self) -> std::sync::MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Trivial leaves that were not instrumented.
    pub(crate) fn leaves(&self) -> u64 {
        self.leaves.load(Ordering::Relaxed)
    }

    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }
}

/// Rewrites classes as they are loaded; used by all threads at once.
#[derive(Debug)]
pub(crate) struct ClassHook {
    filters: Filters,
    defaults: DefaultExcludes,
    methods: Arc<Methods>,
    counts: Arc<ClassCounts>,
    why_empty: Arc<WhyEmpty>,
    /// With `debug=classes`.
    log: Option<ClassLog>,
    /// Rewriters that are not in use.
    rewriters: Mutex<Vec<Rewriter>>,
}

impl ClassHook {
    pub(crate) fn new(
        filters: Filters,
        methods: Arc<Methods>,
        counts: Arc<ClassCounts>,
        why_empty: Arc<WhyEmpty>,
        log: Option<ClassLog>,
    ) -> Self {
        let (defaults, rewriters) = (DefaultExcludes::new(), Mutex::new(Vec::new()));
        Self { filters, defaults, methods, counts, why_empty, log, rewriters }
    }

    /// Writes the waiting decisions on classes. For the agent thread, because a disk may hang.
    pub(crate) fn write_log(&self) {
        if let Some(log) = &self.log {
            log.write();
        }
    }

    /// What a class's name says about its methods; `None` if none of them can be instrumented. `name` is the internal
    /// name.
    pub(crate) fn selects(&self, name: &str) -> Option<Selected> {
        if name == rewriter::probe::CLASS {
            return None;
        }
        if name == rewriter::probe::CALL_SITE {
            self.log(name, format_args!("excluded, the probes call it"));
            return None;
        }
        self.why_empty.class(name);
        match self.filters.by_name(name, &self.defaults) {
            ByName::Selected(selected) => return Some(selected),
            ByName::NotIncluded => self.log(name, format_args!("excluded, no include matches it")),
            ByName::Excluded(pattern) => {
                self.log(name, format_args!("excluded, exclude={pattern}"))
            }
            ByName::ByDefault(pattern) => {
                self.log(name, format_args!("excluded by default, {pattern}"));
            }
        }
        None
    }

    /// Excludes a selected class, because it is the JDK's.
    pub(crate) fn leave_out_jdk(&self, name: &str) {
        self.log(name, format_args!("excluded, not a class of the application"));
    }

    /// The class with probes, or `None` if it stays as it is.
    pub(crate) fn rewrite(
        &self,
        loader: Loader,
        name: &str,
        selected: Selected,
        bytes: &[u8],
    ) -> Option<Vec<u8>> {
        if let Some(pattern) = self.filters.excluded_loader(&loader) {
            self.log(name, format_args!("{}, excluded, exclude_loader={pattern}", loader.name));
            return None;
        }
        let mut rewriter = self.pool().pop().unwrap_or_default();
        let loader_number = loader.number;
        let loader_name = if self.log.is_some() { loader.name.clone() } else { String::new() };
        let (outcome, not_instrumented) = self.methods.with_class(loader_number, name, |known| {
            let is_new = known.is_new();
            let mut selection = Selection {
                decision: ClassDecision::new(&self.filters, selected),
                why_empty: &self.why_empty,
                names_matter: !selected.all_methods,
                known,
                loader: loader.name,
                class: None,
                skipped: Vec::new(),
                new_methods: 0,
                not_instrumented: [0; 5],
            };
            let outcome = rewriter.rewrite(bytes, &mut selection);
            let Selection { skipped, new_methods, not_instrumented, .. } = selection;
            // A class that passes the hook again is not counted again.
            if is_new {
                self.counts.skip(skipped);
                let [.., leaves] = not_instrumented;
                self.counts.leaves.fetch_add(u64::from(leaves), Ordering::Relaxed);
            }
            if let Ok(Outcome::Rewritten(rewritten)) = &outcome {
                let is_first = known.set_has_probes();
                let methods = if is_first { u64::from(rewritten.methods) } else { new_methods };
                self.counts.methods.fetch_add(methods, Ordering::Relaxed);
                self.counts.classes.fetch_add(u64::from(is_first), Ordering::Relaxed);
            }
            (outcome, not_instrumented)
        });
        self.pool().push(rewriter);
        let [not_included, excluded, accessors, short, leaves] = not_instrumented;
        let others = format_args!(
            "{not_included} not included, {excluded} excluded, {accessors} accessors, {short} short, \
             {leaves} trivial leaves"
        );
        match outcome {
            Ok(Outcome::Rewritten(rewritten)) => {
                let methods = rewritten.methods;
                self.log(
                    name,
                    format_args!("{loader_name}, {methods} methods instrumented; {others}"),
                );
                Some(rewritten.bytes)
            }
            Ok(Outcome::Unchanged) => {
                self.log(name, format_args!("{loader_name}, no method measured; {others}"));
                None
            }
            Err(error) => {
                self.log(name, format_args!("{loader_name}, cannot be read: {error}"));
                self.counts.unreadable.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    fn log(&self, class: &str, decision: std::fmt::Arguments<'_>) {
        if let Some(log) = &self.log {
            log.add(class, decision);
        }
    }

    fn pool(&self) -> std::sync::MutexGuard<'_, Vec<Rewriter>> {
        self.rewriters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Selection<'s, 'r> {
    decision: ClassDecision<'s>,
    why_empty: &'s WhyEmpty,
    /// The class's name alone does not decide.
    names_matter: bool,
    known: &'s mut KnownClass<'r>,
    loader: String,
    /// Made when the first method needs it.
    class: Option<Arc<Class>>,
    skipped: Vec<NotInstrumented>,
    new_methods: u64,
    /// Methods that are not instrumented, by [`NotInstrumented`].
    not_instrumented: [u32; 5],
}

impl Selector for Selection<'_, '_> {
    fn selects(&mut self, class: &ClassInfo<'_>, method: &MethodInfo<'_>) -> bool {
        if self.names_matter {
            self.why_empty.method(&class.name.to_str(), &method.name.to_str());
            self.why_empty.annotations(|| class.annotations().chain(method.annotations()));
        }
        let not_instrumented = self.decision.leaves_out(class, method);
        if let Some(count) =
            not_instrumented.and_then(|why| self.not_instrumented.get_mut(why as usize))
        {
            *count += 1;
        }
        not_instrumented.is_none()
    }

    fn id(&mut self, class: &ClassInfo<'_>, method: &MethodInfo<'_>) -> Option<MethodId> {
        let class = self.class.get_or_insert_with(|| {
            Arc::new(Class {
                loader: std::mem::take(&mut self.loader),
                name: class.name.to_str().replace('/', "."),
                source: class.source_file.map_or_else(String::new, |s| s.to_str().into_owned()),
            })
        });
        let (name, descriptor) = (method.name.to_str(), method.descriptor.to_str());
        let id = self.known.id(Method {
            class: class.clone(),
            name: name.clone().into_owned(),
            descriptor: descriptor.clone().into_owned(),
            line: u32::from(method.line()),
        });
        let Some((id, is_new)) = id else {
            let method = format!("{}.{name}{descriptor}", class.name);
            self.skipped.push(NotInstrumented { method, reason: "too many methods" });
            return None;
        };
        self.new_methods += u64::from(is_new);
        (!self.known.is_withheld(id)).then_some(id)
    }

    fn skipped(
        &mut self,
        class: &ClassInfo<'_>,
        name: Mutf8<'_>,
        descriptor: Mutf8<'_>,
        why: Skip,
    ) {
        if !why.is_by_design() {
            let (class, name) = (class.name.to_str().replace('/', "."), name.to_str());
            let method = format!("{class}.{name}{descriptor}");
            self.skipped.push(NotInstrumented { method, reason: why.text() });
        }
    }
}
