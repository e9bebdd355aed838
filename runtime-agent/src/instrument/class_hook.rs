//! Decides which classes are instrumented, and has them rewritten.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use log_format::method_state::MethodState;
use log_format::pattern::Pattern;
use rewriter::{ClassInfo, MethodInfo, Mutf8, Outcome, ProbeId, Rewriter, Selector, Skip};

use crate::instrument::class_log::ClassLog;
use crate::instrument::include_hints::WhyEmpty;
use crate::instrument::methods::{Class, KnownClass, Method, Methods, OtherMethods};
use crate::jvm::loaders::Loader;
use crate::options::filters::{ByName, ClassDecision, DefaultExcludes, Filters, Selected};

/// Counts of classes and methods since the run began.
#[derive(Debug, Default)]
pub(crate) struct ClassCounts {
    classes: AtomicU64,
    methods: AtomicU64,
    not_instrumented: AtomicU64,
    unreadable: AtomicU64,
    leaves: AtomicU64,
    /// Skipped methods that are not in the log yet, each with its reason.
    named: Mutex<Named>,
}

/// Classes and methods that were instrumented since the run began, and methods that were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InstrumentedFigures {
    pub classes: u64,
    pub methods: u64,
    /// Selected methods that could not be instrumented, without those excluded on purpose.
    pub methods_not_instrumented: u64,
    /// Trivial leaves that were not instrumented.
    pub leaves: u64,
}

#[derive(Debug, Default)]
struct Named {
    waiting: Vec<MethodNotInstrumented>,
    /// How many methods were not instrumented so far.
    count: usize,
}

/// A selected method that could not be instrumented.
#[derive(Clone, Debug)]
pub(crate) struct MethodNotInstrumented {
    /// `CLASS.METHODDESCRIPTOR`.
    pub method: String,
    pub reason: &'static str,
}

/// Methods without probes that are named in the log. More are only counted.
const MAX_NAMED: usize = 1_000;

impl ClassCounts {
    pub(crate) fn figures(&self) -> InstrumentedFigures {
        InstrumentedFigures {
            classes: self.classes(),
            methods: self.methods(),
            methods_not_instrumented: self.not_instrumented(),
            leaves: self.leaves(),
        }
    }

    pub(crate) fn classes(&self) -> u64 {
        self.classes.load(Ordering::Relaxed)
    }

    pub(crate) fn methods(&self) -> u64 {
        self.methods.load(Ordering::Relaxed)
    }

    /// Selected methods that could not be instrumented, without those excluded on purpose.
    pub(crate) fn not_instrumented(&self) -> u64 {
        self.not_instrumented.load(Ordering::Relaxed)
    }

    /// The methods not instrumented since the last call.
    pub(crate) fn take_not_instrumented(&self) -> Vec<MethodNotInstrumented> {
        std::mem::take(&mut self.named().waiting)
    }

    fn count_not_instrumented(&self, methods: Vec<MethodNotInstrumented>) {
        if methods.is_empty() {
            return;
        }
        self.not_instrumented.fetch_add(methods.len() as u64, Ordering::Relaxed);
        let mut named = self.named();
        let room = MAX_NAMED.saturating_sub(named.count);
        named.count += methods.len();
        named.waiting.extend(methods.into_iter().take(room));
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
        self.why_empty.class(name);
        match self.filters.by_name(name, &self.defaults) {
            ByName::Selected(selected) => Some(selected),
            excluded => {
                self.log(name, format_args!("{excluded}"));
                None
            }
        }
    }

    /// Why the options exclude the class that a pattern is the name of, or whose method it is.
    pub(crate) fn why_excluded(&self, pattern: &Pattern) -> Option<String> {
        if pattern.has_wildcards() {
            return None;
        }
        let name = pattern.as_str();
        let (class, _) = name.rsplit_once('.')?;
        // It may be the end of a longer name.
        if !class.contains('.') {
            return None;
        }
        let verdict = |class| match self.filters.by_name(class, &self.defaults) {
            ByName::Selected(_) => None,
            excluded => Some(excluded.to_string()),
        };
        // Both must be excluded: nobody knows which of the two it is.
        verdict(class).and(verdict(name))
    }

    /// Counts a method that could not get a probe.
    pub(crate) fn count_skipped(&self, method: String, reason: &'static str) {
        self.counts.count_not_instrumented(vec![MethodNotInstrumented { method, reason }]);
    }

    /// Whether the options exclude the classes of a loader.
    pub(crate) fn excludes_loader(&self, loader: &Loader) -> bool {
        self.filters.excluded_loader(&loader.name, loader.class()).is_some()
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
        if let Some(pattern) = self.filters.excluded_loader(&loader.name, loader.class()) {
            self.log(name, format_args!("{}, excluded, exclude_loader={pattern}", loader.name));
            return None;
        }
        let mut rewriter = self.pool().pop().unwrap_or_default();
        let loader_id = loader.id;
        let loader_name = if self.log.is_some() { loader.name.clone() } else { String::new() };
        let (outcome, others) = self.methods.with_class(loader_id, name, |known| {
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
                others: OtherMethods::default(),
            };
            let outcome = rewriter.rewrite(bytes, &mut selection);
            let Selection { skipped, new_methods, others, .. } = selection;
            // A class that passes the hook again is not counted again.
            if is_new {
                self.counts.count_not_instrumented(skipped);
                let leaves = others.count(MethodState::TrivialLeaf);
                self.counts.leaves.fetch_add(leaves, Ordering::Relaxed);
            }
            let logged = self.log.is_some().then(|| others.clone());
            known.set_others(others);
            if let Ok(Outcome::Rewritten(rewritten)) = &outcome {
                let is_first = known.set_has_probes();
                let methods = if is_first { u64::from(rewritten.methods) } else { new_methods };
                self.counts.methods.fetch_add(methods, Ordering::Relaxed);
                self.counts.classes.fetch_add(u64::from(is_first), Ordering::Relaxed);
            }
            (outcome, logged.unwrap_or_default())
        });
        self.pool().push(rewriter);
        match outcome {
            Ok(Outcome::Rewritten(rewritten)) => {
                let methods = rewritten.methods;
                self.log(
                    name,
                    format_args!("{loader_name}, {methods} methods instrumented{others}"),
                );
                Some(rewritten.bytes)
            }
            Ok(Outcome::Unchanged) => {
                self.log(name, format_args!("{loader_name}, no method instrumented{others}"));
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
    skipped: Vec<MethodNotInstrumented>,
    new_methods: u64,
    others: OtherMethods,
}

impl Selector for Selection<'_, '_> {
    fn selects(&mut self, class: &ClassInfo<'_>, method: &MethodInfo<'_>) -> bool {
        if self.names_matter {
            self.why_empty.method(&class.name.to_str(), &method.name.to_str());
            self.why_empty.annotations(|| class.annotations().chain(method.annotations()));
        }
        let state = self.decision.leaves_out(class, method);
        if let Some(state) = state {
            self.others.add(&method.name.to_str(), state);
        }
        state.is_none()
    }

    fn id(&mut self, class: &ClassInfo<'_>, method: &MethodInfo<'_>) -> Option<ProbeId> {
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
            self.others.add(&name, MethodState::NotInstrumented);
            self.skipped.push(MethodNotInstrumented { method, reason: "too many methods" });
            return None;
        };
        self.new_methods += u64::from(is_new);
        if self.known.is_kept_without_probes(id) { None } else { ProbeId::new(id.get()) }
    }

    fn skipped(
        &mut self,
        class: &ClassInfo<'_>,
        name: Mutf8<'_>,
        descriptor: Mutf8<'_>,
        why: Skip,
    ) {
        let name = name.to_str();
        self.others.add_skipped(&name, why);
        if !why.is_by_design() {
            let class = class.name.to_str().replace('/', ".");
            let method = format!("{class}.{name}{descriptor}");
            self.skipped.push(MethodNotInstrumented { method, reason: why.text() });
        }
    }
}
