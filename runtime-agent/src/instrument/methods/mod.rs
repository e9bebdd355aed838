//! Method ids, for the life of the JVM.
//!
//! A method keeps its id when its class is redefined, retransformed or loaded again by the same loader, and has
//! another one in every other loader. When a loader is freed, the ids of its classes wait for another loader of the
//! same class that loads them again. So an application that is deployed a thousand times has as many ids as one that
//! is deployed once.
//!
//! With its id a method gets its threshold, and whether it is traced: as the last pattern says that names it.
//!
//! Threads that load classes wait for the locks in here, so no pattern that a client sends is matched while one is
//! held: the agent thread matches those on copies of the list ([`Methods::for_each`],
//! [`Methods::follow_patterns`]). The thread that loads a class matches the patterns of the options, with a lock.

mod method;
mod other_methods;
mod own_values;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use log_format::error::BadValue;
use log_format::ids::MethodId;
use log_format::pattern::Pattern;
use rewriter::probe::OFFLINE;

pub(crate) use self::method::{Class, Method};
pub(crate) use self::other_methods::OtherMethods;
pub(crate) use self::own_values::OwnValue;
use self::own_values::{Kind, OwnValues};
use crate::jvm::loaders::LoaderId;
use crate::probe::{self, CALIBRATION, mute, task_requests, traced};

/// Methods beyond this number get no ids, and so no probes: script engines keep making classes with new names,
/// which must not take all memory.
pub(crate) const MAX_METHODS: u32 = 1_000_000;
const _: () = assert!(MAX_METHODS < OFFLINE && MAX_METHODS < CALIBRATION.cast_unsigned());

/// A loaded class, by its loader and its internal name.
pub(crate) type ClassKey = (LoaderId, String);

/// The methods of one class in one loader, by name and descriptor.
type ClassMethods = Vec<(String, String, MethodId)>;

/// What is known of one class in one loader.
#[derive(Debug, Default)]
struct KnownMethods {
    methods: ClassMethods,
    others: OtherMethods,
    /// The class was instrumented and has not lost its probes since, as far as is known.
    has_probes: bool,
    /// The attachments in which it last passed the hook, and in which it was last instrumented.
    seen_in: u32,
    instrumented_in: u32,
}

/// All methods that were ever instrumented in this JVM. A method keeps its id from one attachment to the next: the
/// probes of a class that could not be restored must never count for another method.
#[derive(Debug)]
pub(crate) struct Methods {
    /// How many may have ids.
    most: u32,
    /// By class.
    classes: DashMap<ClassKey, KnownMethods>,
    /// Methods of classes whose loader was freed, by the loader's class and name of the class.
    left: DashMap<(String, String), ClassMethods>,
    /// By id, from 1.
    methods: RwLock<Vec<Arc<Method>>>,
    thresholds: RwLock<OwnValues>,
    traces: RwLock<OwnValues>,
    endpoints: RwLock<OwnValues>,
    /// Methods that get no probes for now.
    without_probes: RwLock<HashSet<MethodId>>,
}

/// Methods copied at a time: a thread that loads a class waits some microseconds for it.
const COPIED: usize = 2_048;
/// How long the agent thread matches patterns at a time: recorded calls wait meanwhile.
pub(crate) const AT_A_TIME: Duration = Duration::from_millis(20);

impl Default for Methods {
    fn default() -> Self {
        Self {
            most: MAX_METHODS,
            classes: DashMap::new(),
            left: DashMap::new(),
            methods: RwLock::default(),
            thresholds: RwLock::new(OwnValues::new(Kind::Threshold)),
            traces: RwLock::new(OwnValues::new(Kind::Trace)),
            endpoints: RwLock::new(OwnValues::new(Kind::Endpoint)),
            without_probes: RwLock::default(),
        }
    }
}

/// The methods of this JVM.
static METHODS: LazyLock<Arc<Methods>> = LazyLock::new(Arc::default);

/// The number of the attachment, from 1.
fn attachment() -> u32 {
    probe::attachment().wrapping_add(1)
}

impl Methods {
    /// The methods of this JVM.
    pub(crate) fn all() -> Arc<Self> {
        METHODS.clone()
    }

    /// Runs `with` on the methods known of a class, which it may add to through
    /// [`id`](KnownClass::id). Two threads that load the same class go one after the other.
    pub(crate) fn with_class<R>(
        &self,
        loader: LoaderId,
        name: &str,
        with: impl FnOnce(&mut KnownClass<'_>) -> R,
    ) -> R {
        let mut entry = self.classes.entry((loader, name.to_owned())).or_default();
        let is_new = std::mem::replace(&mut entry.seen_in, attachment()) != attachment();
        with(&mut KnownClass { registry: self, is_new, known: &mut entry })
    }

    /// Begins a new attachment with these thresholds and traces of the options. Forgets those and mutes of an earlier
    /// one.
    ///
    /// # Errors
    /// There are too many patterns.
    pub(crate) fn begin_attachment(
        &self,
        thresholds: &[(Pattern, u64)],
        traces: &[(Pattern, u64)],
    ) -> Result<(), BadValue> {
        self.without_probes.write().unwrap_or_else(PoisonError::into_inner).clear();
        probe::forget_thresholds();
        traced::begin_attachment();
        self.forget_endpoint();
        for (kind, options) in [(Kind::Threshold, thresholds), (Kind::Trace, traces)] {
            let mut own = OwnValues::new(kind);
            for (pattern, value) in options {
                (own, _) = own.with(pattern.clone(), *value, true)?;
            }
            self.set_own(own.clone());
            // Methods of an earlier attachment have none yet.
            if !options.is_empty() {
                self.for_each(|| {}, |id, method| _ = own.assign_to(id, method));
            }
        }
        Ok(())
    }

    /// Whether a class has probes, as far as is known.
    pub(crate) fn has_probes(&self, class: &ClassKey) -> bool {
        self.classes.get(class).is_some_and(|known| known.has_probes)
    }

    /// Whether any class has probes, as far as is known.
    pub(crate) fn have_probes(&self) -> bool {
        self.classes.iter().any(|class| class.has_probes)
    }

    /// Whether the loader of a class is still there, as far as is known.
    pub(crate) fn knows(&self, class: &ClassKey) -> bool {
        self.classes.contains_key(class)
    }

    /// Notes whether a class has probes; returns what was noted before.
    pub(crate) fn set_has_probes(&self, class: &ClassKey, has_probes: bool) -> bool {
        self.classes
            .get_mut(class)
            .is_some_and(|mut known| std::mem::replace(&mut known.has_probes, has_probes))
    }

    /// Takes all classes that were ever instrumented as having probes: after a panic, nobody knows which of them were
    /// retransformed.
    pub(crate) fn assume_probes(&self) {
        self.classes.iter_mut().for_each(|mut class| class.has_probes |= !class.methods.is_empty());
    }

    /// The classes that have probes, as far as is known, with the ids of their methods.
    pub(crate) fn with_probes(&self) -> HashMap<ClassKey, Vec<MethodId>> {
        let with_probes = self.classes.iter().filter(|class| class.has_probes);
        with_probes
            .map(|class| {
                let ids = class.methods.iter().map(|(.., id)| *id).collect();
                (class.key().clone(), ids)
            })
            .collect()
    }

    /// The classes that have passed the hook in this attachment and have methods that are not instrumented.
    pub(crate) fn with_others(&self) -> Vec<(String, OtherMethods)> {
        let seen = self.classes.iter().filter(|class| class.seen_in == attachment());
        let seen = seen.filter(|class| !class.others.is_empty());
        seen.map(|class| (class.key().1.replace('/', "."), class.others.clone())).collect()
    }

    /// Forgets the classes of freed loaders.
    pub(crate) fn forget_loaders(&self, gone: &HashSet<LoaderId>) {
        self.classes.retain(|(loader, _), known| {
            if !gone.contains(loader) {
                return true;
            }
            let methods = &mut known.methods;
            let first = methods.first().and_then(|(.., id)| self.get(*id));
            if let Some(Method { class, .. }) = first {
                self.left.entry(class.key()).or_default().append(methods);
            }
            false
        });
    }

    /// Takes the id that the same method had in a freed loader, if there is one.
    fn take_left(&self, method: &Method) -> Option<MethodId> {
        let mut left = self.left.get_mut(&method.class.key())?;
        // From the end: methods of one class stand together.
        let place = left.iter().rposition(|(name, descriptor, id)| {
            *name == method.name
                && *descriptor == method.descriptor
                && self.get(*id).is_some_and(|other| {
                    other.line == method.line && other.class.source == method.class.source
                })
        })?;
        Some(left.swap_remove(place).2)
    }

    /// The id of a method.
    pub(crate) fn find(
        &self,
        loader: LoaderId,
        class: &str,
        name: &str,
        descriptor: &str,
    ) -> Option<MethodId> {
        let known = self.classes.get(&(loader, class.to_owned()))?;
        let found = known.methods.iter().find(|(n, d, _)| n == name && d == descriptor);
        found.map(|(.., id)| *id)
    }

    /// Whether a method of the class has one of these ids.
    pub(crate) fn has_any(&self, loader: LoaderId, name: &str, ids: &HashSet<MethodId>) -> bool {
        let is_one = |known: &KnownMethods| known.methods.iter().any(|(.., id)| ids.contains(id));
        self.classes.get(&(loader, name.to_owned())).is_some_and(|known| is_one(&known))
    }

    /// Gives these methods no probes from now on when their class is transformed.
    pub(crate) fn keep_without_probes(&self, ids: &HashSet<MethodId>) {
        self.without_probes.write().unwrap_or_else(PoisonError::into_inner).extend(ids);
    }

    /// Lets the methods without probes that `wanted` names get probes again, and returns them.
    pub(crate) fn allow_probes_again(
        &self,
        wanted: impl Fn(MethodId) -> bool,
    ) -> HashSet<MethodId> {
        let mut without_probes =
            self.without_probes.write().unwrap_or_else(PoisonError::into_inner);
        without_probes.extract_if(|id| wanted(*id)).collect()
    }

    /// Whether a method gets no probes for now.
    pub(crate) fn is_kept_without_probes(&self, id: MethodId) -> bool {
        self.without_probes.read().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    /// The method with an id.
    pub(crate) fn get(&self, id: MethodId) -> Option<Method> {
        let methods = self.methods.read().unwrap_or_else(PoisonError::into_inner);
        Some(Method::clone(methods.get(id.index().checked_sub(1)?)?))
    }

    /// How many there are; their ids are 1 to this.
    pub(crate) fn count(&self) -> usize {
        self.methods.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Calls `with` for each method, and `between` every 20 ms. Holds no lock while it does. Returns the
    /// last id.
    pub(crate) fn for_each(
        &self,
        mut between: impl FnMut(),
        mut with: impl FnMut(MethodId, &Method),
    ) -> usize {
        let mut last = 0;
        loop {
            let next = self.for_each_from(last + 1, Instant::now() + AT_A_TIME, &mut with);
            if next == last {
                return last;
            }
            last = next;
            between();
        }
    }

    /// Calls `with` for the methods from id `first` on until `deadline`, at least once if there is one.
    /// Holds no lock while it does. Returns the last id, or the one before `first`.
    pub(crate) fn for_each_from(
        &self,
        first: usize,
        deadline: Instant,
        mut with: impl FnMut(MethodId, &Method),
    ) -> usize {
        let mut last = first.saturating_sub(1);
        loop {
            let copied: Vec<Arc<Method>> = {
                let methods = self.methods.read().unwrap_or_else(PoisonError::into_inner);
                methods.iter().skip(last).take(COPIED).cloned().collect()
            };
            if copied.is_empty() {
                return last;
            }
            for method in &copied {
                let Ok(id) = u32::try_from(last + 1) else { return last };
                with(MethodId::new(id), method);
                last += 1;
                if Instant::now() >= deadline {
                    return last;
                }
            }
        }
    }

    fn own_of(&self, kind: Kind) -> &RwLock<OwnValues> {
        match kind {
            Kind::Threshold => &self.thresholds,
            Kind::Trace => &self.traces,
            Kind::Endpoint => &self.endpoints,
        }
    }

    fn own(&self, kind: Kind) -> OwnValues {
        self.own_of(kind).read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_own(&self, own: OwnValues) {
        let of = self.own_of(own.kind);
        *of.write().unwrap_or_else(PoisonError::into_inner) = own;
    }

    /// The thresholds of patterns, in the order in which they were given.
    pub(crate) fn thresholds(&self) -> Vec<OwnValue> {
        self.own(Kind::Threshold).all.to_vec()
    }

    /// How many calls are between two traced ones, by pattern, in the order in which they were given: with 0, none are
    /// traced. Empty if nothing is.
    pub(crate) fn traces(&self) -> Vec<OwnValue> {
        let all = self.own(Kind::Trace).all;
        if all.iter().any(|own| own.value > 0) { all.to_vec() } else { Vec::new() }
    }

    /// Gives the methods that a pattern names, now and later, their own threshold. Calls `between` every
    /// 20 ms. Returns how many methods it names now. For the agent thread.
    ///
    /// # Errors
    /// There are too many patterns.
    pub(crate) fn change_threshold(
        &self,
        pattern: Pattern,
        ns: u64,
        between: impl FnMut(),
    ) -> Result<usize, BadValue> {
        self.change_own(Kind::Threshold, pattern, ns, between)
    }

    /// Traces one in so many calls of the methods that a pattern names, now and later; with 0, none. As
    /// [`change_threshold`](Self::change_threshold).
    ///
    /// # Errors
    /// There are too many patterns.
    pub(crate) fn change_trace(
        &self,
        pattern: Pattern,
        every: u64,
        between: impl FnMut(),
    ) -> Result<usize, BadValue> {
        let named = self.change_own(Kind::Trace, pattern, every, between);
        mute::tell();
        named
    }

    /// Traces nothing any more, and forgets all patterns.
    pub(crate) fn forget_traces(&self) {
        self.set_own(OwnValues::new(Kind::Trace));
        traced::forget();
        mute::tell();
    }

    /// Makes the methods that these patterns name, now and later, the endpoint of a profile task, and no others. As
    /// [`change_threshold`](Self::change_threshold).
    ///
    /// # Errors
    /// There are too many patterns.
    pub(crate) fn set_endpoint(
        &self,
        patterns: &[Pattern],
        mut between: impl FnMut(),
    ) -> Result<usize, BadValue> {
        self.forget_endpoint();
        let mut named = 0;
        for pattern in patterns {
            named += self.change_own(Kind::Endpoint, pattern.clone(), 1, &mut between)?;
        }
        Ok(named)
    }

    /// No method is an endpoint any more.
    pub(crate) fn forget_endpoint(&self) {
        self.set_own(OwnValues::new(Kind::Endpoint));
        task_requests::forget();
    }

    fn change_own(
        &self,
        kind: Kind,
        pattern: Pattern,
        value: u64,
        between: impl FnMut(),
    ) -> Result<usize, BadValue> {
        let (all, own) = self.own(kind).with(pattern, value, false)?;
        // First the list, for classes that are loaded meanwhile.
        self.set_own(all.clone());
        let mut named = 0;
        let last = self.for_each(between, |id, method| {
            if own.names(method) {
                all.assign_to(id, method);
                named += 1;
            }
        });
        // Before the first change, each method had its value from the options.
        let seen = Some(all.seen.unwrap_or(last));
        self.set_own(OwnValues { seen, ..all });
        Ok(named)
    }

    /// Assigns values to methods that were added since a client changed one, for up to 20 ms; to the rest at the next
    /// call. For the agent thread.
    pub(crate) fn follow_patterns(&self) {
        self.follow(Kind::Threshold);
        if self.follow(Kind::Trace) {
            mute::tell();
        }
        self.follow(Kind::Endpoint);
    }

    /// Whether any method got a value.
    fn follow(&self, kind: Kind) -> bool {
        let own = self.own(kind);
        let Some(seen) = own.seen else { return false };
        let mut is_any = false;
        let last = self.for_each_from(seen + 1, Instant::now() + AT_A_TIME, |id, method| {
            is_any |= own.assign_to(id, method);
        });
        if last != seen {
            self.set_own(OwnValues { seen: Some(last), ..own });
        }
        is_any
    }

    fn add(&self, method: Method) -> Option<MethodId> {
        let own = [Kind::Threshold, Kind::Trace].map(|kind| self.own(kind));
        let mut methods = self.methods.write().unwrap_or_else(PoisonError::into_inner);
        let id = u32::try_from(methods.len() + 1).ok().filter(|id| *id <= self.most)?;
        let id = MethodId::new(id);
        // Before the agent thread can see the method and assign a client's value.
        own.iter().for_each(|own| own.assign_of_options(id, &method));
        // Its first call may be a request.
        self.own(Kind::Endpoint).assign_to(id, &method);
        methods.push(Arc::new(method));
        Some(id)
    }
}

/// A class whose methods are getting ids.
pub(crate) struct KnownClass<'r> {
    registry: &'r Methods,
    is_new: bool,
    known: &'r mut KnownMethods,
}

impl KnownClass<'_> {
    /// Whether the class passes the hook for the first time in this attachment.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Notes that the class is instrumented; `true` for the first time in this attachment.
    pub(crate) fn set_has_probes(&mut self) -> bool {
        self.known.has_probes = true;
        std::mem::replace(&mut self.known.instrumented_in, attachment()) != attachment()
    }

    /// Notes that it has probes that are not of instrumented methods.
    pub(crate) fn set_has_other_probes(&mut self) {
        self.known.has_probes = true;
    }

    /// Notes the methods that are not instrumented.
    pub(crate) fn set_others(&mut self, mut others: OtherMethods) {
        others.shrink();
        self.known.others = others;
    }

    /// Whether a method gets no probes for now.
    pub(crate) fn is_kept_without_probes(&self, id: MethodId) -> bool {
        self.registry.is_kept_without_probes(id)
    }

    /// The id of a method, and whether it is new.
    pub(crate) fn id(&mut self, method: Method) -> Option<(MethodId, bool)> {
        let known =
            self.known.methods.iter().find(|(name, descriptor, _)| {
                *name == method.name && *descriptor == method.descriptor
            });
        if let Some((_, _, id)) = known {
            return Some((*id, false));
        }
        Some((self.add_new(method)?, true))
    }

    fn add_new(&mut self, method: Method) -> Option<MethodId> {
        let (name, descriptor) = (method.name.clone(), method.descriptor.clone());
        let id = match self.registry.take_left(&method) {
            Some(id) => id,
            None => self.registry.add(method)?,
        };
        self.known.methods.push((name, descriptor, id));
        Some(id)
    }
}
