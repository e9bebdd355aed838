//! Method ids, for the life of the JVM.
//!
//! A method keeps its id when its class is redefined, retransformed or loaded again by the same loader, and has
//! another one in every other loader. When a loader is freed, the ids of its classes wait for another loader of the
//! same class that loads them again. So an application that is deployed a thousand times has as many ids as one that
//! is deployed once.
//!
//! With its id a method gets its threshold: that of the last pattern which names it.
//!
//! Threads that load classes wait for the locks in here, so no pattern that a client sends is matched while one is
//! held: the agent thread matches those on copies of the list ([`Methods::for_each`],
//! [`Methods::follow_thresholds`]). The thread that loads a class matches the patterns of the options, with a lock.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use log_format::pattern::Pattern;
use log_format::writer::one_line;
use rewriter::MethodId;
use rewriter::probe::OFFLINE;

use crate::probe::{self, CALIBRATION};

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
    fn key(&self) -> (String, String) {
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

/// Methods beyond this number get no ids, and so no probes: script engines keep making classes with new names,
/// which must not take all memory.
const MAX_METHODS: u32 = 1_000_000;
const _: () = assert!(MAX_METHODS < OFFLINE && MAX_METHODS < CALIBRATION.cast_unsigned());

/// A loaded class, by the number of its loader and its internal name.
pub(crate) type ClassKey = (u64, String);

/// The methods of one class in one loader, by name and descriptor.
type ClassMethods = Vec<(String, String, MethodId)>;

/// What is known of one class in one loader.
#[derive(Debug, Default)]
struct KnownMethods {
    methods: ClassMethods,
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
    /// By number of the loader and internal name of the class.
    classes: DashMap<(u64, String), KnownMethods>,
    /// Methods of classes whose loader was freed, by the loader's class and name of the class.
    left: DashMap<(String, String), ClassMethods>,
    /// By id, from 1.
    methods: RwLock<Vec<Arc<Method>>>,
    thresholds: RwLock<Thresholds>,
    /// Methods that get no probes for now.
    withheld: RwLock<HashSet<u32>>,
}

/// Methods copied at a time: a thread that loads a class waits some microseconds for it.
const COPIED: usize = 2_048;
/// How long the agent thread matches patterns at a time: recorded calls wait meanwhile.
pub(crate) const AT_A_TIME: Duration = Duration::from_millis(20);

/// Thresholds of the methods that patterns name.
#[derive(Clone, Debug, Default)]
struct Thresholds {
    /// In the order in which they were given.
    all: Arc<Vec<OwnThreshold>>,
    /// Ids up to this have been matched against `all`. `None` until a client sends a pattern: patterns of
    /// the options are matched when a method is added.
    seen: Option<usize>,
}

/// A threshold of the methods that a pattern names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnThreshold {
    pub pattern: Pattern,
    pub ns: u64,
    /// Its number for the probe, from 1.
    number: u8,
    /// The pattern is one of the options.
    is_option: bool,
}

impl OwnThreshold {
    fn names(&self, method: &Method) -> bool {
        self.pattern.method(&method.class.name, &method.name)
    }
}

impl Default for Methods {
    fn default() -> Self {
        Self {
            most: MAX_METHODS,
            classes: DashMap::new(),
            left: DashMap::new(),
            methods: RwLock::default(),
            thresholds: RwLock::default(),
            withheld: RwLock::default(),
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
        loader: u64,
        name: &str,
        with: impl FnOnce(&mut KnownClass<'_>) -> R,
    ) -> R {
        let mut entry = self.classes.entry((loader, name.to_owned())).or_default();
        let is_new = std::mem::replace(&mut entry.seen_in, attachment()) != attachment();
        with(&mut KnownClass { registry: self, is_new, known: &mut entry })
    }

    /// Begins a new attachment with these thresholds of the options. Forgets thresholds and mutes of an earlier one.
    ///
    /// # Errors
    /// One line: there are too many patterns.
    pub(crate) fn begin_attachment(&self, options: &[(Pattern, u64)]) -> Result<(), String> {
        self.withheld.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.set_own_thresholds(Thresholds::default());
        probe::forget_thresholds();
        for (pattern, ns) in options {
            self.set_threshold(pattern.clone(), *ns)?;
        }
        // Methods of an earlier attachment have none yet.
        let all = self.own_thresholds().all;
        self.for_each(
            || {},
            |id, method| {
                if let Some(own) = all.iter().rfind(|own| own.names(method)) {
                    probe::assign_threshold(id, own.number);
                }
            },
        );
        Ok(())
    }

    /// Whether a class has probes, as far as is known.
    pub(crate) fn has_probes(&self, class: &ClassKey) -> bool {
        self.classes.get(class).is_some_and(|known| known.has_probes)
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

    /// The classes that have probes, as far as is known, with the ids of their methods.
    pub(crate) fn with_probes(&self) -> HashMap<ClassKey, Vec<u32>> {
        let with_probes = self.classes.iter().filter(|class| class.has_probes);
        with_probes
            .map(|class| {
                let ids = class.methods.iter().map(|(.., id)| id.get()).collect();
                (class.key().clone(), ids)
            })
            .collect()
    }

    /// Forgets the classes of freed loaders, by the loaders' numbers.
    pub(crate) fn forget_loaders(&self, gone: &HashSet<u64>) {
        self.classes.retain(|(loader, _), known| {
            if !gone.contains(loader) {
                return true;
            }
            let methods = &mut known.methods;
            let first = methods.first().and_then(|(.., id)| self.get(id.get()));
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
                && self.get(id.get()).is_some_and(|other| {
                    other.line == method.line && other.class.source == method.class.source
                })
        })?;
        Some(left.swap_remove(place).2)
    }

    /// The id of a method.
    pub(crate) fn find(
        &self,
        loader: u64,
        class: &str,
        name: &str,
        descriptor: &str,
    ) -> Option<u32> {
        let known = self.classes.get(&(loader, class.to_owned()))?;
        let found = known.methods.iter().find(|(n, d, _)| n == name && d == descriptor);
        found.map(|(.., id)| id.get())
    }

    /// Whether a method of the class has one of these ids.
    pub(crate) fn has_any(&self, loader: u64, name: &str, ids: &HashSet<u32>) -> bool {
        let is_one =
            |known: &KnownMethods| known.methods.iter().any(|(.., id)| ids.contains(&id.get()));
        self.classes.get(&(loader, name.to_owned())).is_some_and(|known| is_one(&known))
    }

    /// Gives these methods no probes from now on when their class is transformed.
    pub(crate) fn withhold(&self, ids: &HashSet<u32>) {
        self.withheld.write().unwrap_or_else(PoisonError::into_inner).extend(ids);
    }

    /// Lets the withheld methods that `wanted` names get probes again, and returns them.
    pub(crate) fn take_withheld(&self, wanted: impl Fn(u32) -> bool) -> HashSet<u32> {
        let mut withheld = self.withheld.write().unwrap_or_else(PoisonError::into_inner);
        withheld.extract_if(|id| wanted(*id)).collect()
    }

    /// Whether a method gets no probes for now.
    pub(crate) fn is_withheld(&self, id: u32) -> bool {
        self.withheld.read().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    /// The method with an id.
    pub(crate) fn get(&self, id: u32) -> Option<Method> {
        let methods = self.methods.read().unwrap_or_else(PoisonError::into_inner);
        Some(Method::clone(methods.get((id as usize).checked_sub(1)?)?))
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
        mut with: impl FnMut(u32, &Method),
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
        mut with: impl FnMut(u32, &Method),
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
                with(id, method);
                last += 1;
                if Instant::now() >= deadline {
                    return last;
                }
            }
        }
    }

    fn own_thresholds(&self) -> Thresholds {
        self.thresholds.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_own_thresholds(&self, own: Thresholds) {
        *self.thresholds.write().unwrap_or_else(PoisonError::into_inner) = own;
    }

    /// The thresholds of patterns, in the order in which they were given.
    pub(crate) fn thresholds(&self) -> Vec<OwnThreshold> {
        self.own_thresholds().all.to_vec()
    }

    /// Gives the methods that a pattern of the options names their own threshold. Must be called before methods are
    /// added.
    ///
    /// # Errors
    /// One line: there are too many patterns.
    fn set_threshold(&self, pattern: Pattern, ns: u64) -> Result<(), String> {
        let Thresholds { all, seen } = self.own_thresholds();
        let (all, _) = with_threshold(&all, pattern, ns, true)?;
        self.set_own_thresholds(Thresholds { all: Arc::new(all), seen });
        Ok(())
    }

    /// Gives the methods that a pattern names, now and later, their own threshold. Calls `between` every
    /// 20 ms. Returns how many methods it names now. For the agent thread.
    ///
    /// # Errors
    /// One line: there are too many patterns.
    pub(crate) fn change_threshold(
        &self,
        pattern: Pattern,
        ns: u64,
        between: impl FnMut(),
    ) -> Result<usize, String> {
        let Thresholds { all, seen } = self.own_thresholds();
        let (all, own) = with_threshold(&all, pattern, ns, false)?;
        let all = Arc::new(all);
        // First the list, for classes that are loaded meanwhile.
        self.set_own_thresholds(Thresholds { all: all.clone(), seen });
        let mut named = 0;
        let last = self.for_each(between, |id, method| {
            if own.names(method) {
                probe::assign_threshold(id, own.number);
                named += 1;
            }
        });
        // Before the first change, each method had its threshold from the options.
        let seen = Some(seen.unwrap_or(last));
        self.set_own_thresholds(Thresholds { all, seen });
        Ok(named)
    }

    /// Assigns thresholds to methods that were added since a client changed a threshold, for up to 20 ms; to the rest
    /// at the next call. For the agent thread.
    pub(crate) fn follow_thresholds(&self) {
        let Thresholds { all, seen: Some(seen) } = self.own_thresholds() else { return };
        let last = self.for_each_from(seen + 1, Instant::now() + AT_A_TIME, |id, method| {
            if let Some(own) = all.iter().rfind(|own| own.names(method)) {
                probe::assign_threshold(id, own.number);
            }
        });
        if last != seen {
            self.set_own_thresholds(Thresholds { all, seen: Some(last) });
        }
    }

    fn add(&self, method: Method) -> Option<MethodId> {
        let Thresholds { all, .. } = self.own_thresholds();
        let own = all.iter().rfind(|own| own.is_option && own.names(&method));
        let mut methods = self.methods.write().unwrap_or_else(PoisonError::into_inner);
        let id = u32::try_from(methods.len() + 1).ok().filter(|id| *id <= self.most)?;
        let id = MethodId::new(id)?;
        // Before the agent thread can see the method and assign a client's threshold.
        if let Some(own) = own {
            probe::assign_threshold(id.get(), own.number);
        }
        methods.push(Arc::new(method));
        Some(id)
    }
}

/// Adds or changes the threshold of a pattern. Returns all thresholds, and that one.
fn with_threshold(
    all: &[OwnThreshold],
    pattern: Pattern,
    ns: u64,
    is_option: bool,
) -> Result<(Vec<OwnThreshold>, OwnThreshold), String> {
    let mut all = all.to_vec();
    let before = all.iter().position(|own| own.pattern == pattern).map(|index| all.remove(index));
    let own = match before {
        Some(own) => OwnThreshold { ns, ..own },
        None => {
            let number = u8::try_from(all.len() + 1)
                .map_err(|_| format!("threshold: more than {} patterns", u8::MAX))?;
            OwnThreshold { pattern, ns, number, is_option }
        }
    };
    probe::set_numbered_ns(own.number, ns);
    all.push(own.clone());
    Ok((all, own))
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

    /// Whether a method gets no probes for now.
    pub(crate) fn is_withheld(&self, id: MethodId) -> bool {
        self.registry.is_withheld(id.get())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn method(class: &Arc<Class>, name: &str) -> Method {
        Method { class: class.clone(), name: name.into(), descriptor: "()V".into(), line: 1 }
    }

    #[test]
    fn a_method_keeps_its_id_within_its_loader() {
        let registry = Methods::default();
        let class =
            Arc::new(Class { loader: "app".into(), name: "A".into(), source: String::new() });
        let load = |loader, names: &[&str]| {
            registry.with_class(loader, "A", |known| {
                names
                    .iter()
                    .map(|n| known.id(method(&class, n)).unwrap().0.get())
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(load(2, &["<init>", "a"]), [1, 2]);
        assert_eq!(load(2, &["a", "b", "<init>"]), [2, 3, 1]);
        assert_eq!(load(3, &["a"]), [4]);
        assert!(load(4, &[]).is_empty());
        assert_eq!(registry.find(3, "A", "a", "()V"), Some(4));
        assert_eq!(
            [registry.find(4, "A", "a", "()V"), registry.find(3, "B", "a", "()V")],
            [None; 2]
        );
        assert_eq!(registry.get(3), Some(method(&class, "b")));
        assert_eq!(registry.get(0), None);
        assert_eq!(registry.get(5), None);
    }

    #[test]
    fn ids_of_a_loader_that_is_no_more_are_used_again() {
        let registry = Methods::default();
        let load = |loader: u64, label: &str, lines: &[(&str, u32)]| {
            let class = Class { loader: label.into(), name: "a.B".into(), source: "B.java".into() };
            let class = Arc::new(class);
            registry.with_class(loader, "a/B", |known| {
                let id = |(name, line): &(&str, u32)| {
                    let method = Method { line: *line, ..method(&class, name) };
                    known.id(method).unwrap().0.get()
                };
                lines.iter().map(id).collect::<Vec<_>>()
            })
        };
        let both = [("a", 1), ("b", 2)];
        assert_eq!(load(3, "x.Loader#3", &both), [1, 2]);
        assert_eq!(load(4, "x.Loader#4", &both), [3, 4]);
        registry.forget_loaders(&HashSet::from([3, 9]));
        let found = [3, 4].map(|loader| registry.find(loader, "a/B", "a", "()V"));
        assert_eq!(found, [None, Some(3)]);
        // Another version of the class, and a loader of another class, have ids of their own.
        assert_eq!(load(5, "x.Loader#5", &[("b", 2), ("a", 7)]), [2, 5]);
        assert_eq!(load(6, "y.Loader#6", &both), [6, 7]);
        assert_eq!(load(7, "x.Loader#7", &both), [1, 8]);
        // One more loader each time, and no more ids.
        for loader in 10..1_000 {
            registry.forget_loaders(&HashSet::from([loader - 1]));
            let ids = load(loader, "x.Loader#1", &both);
            assert!(ids.iter().all(|id| *id <= 10), "{ids:?}");
        }
    }

    #[test]
    fn beyond_the_most_there_are_no_ids_but_for_methods_that_are_known() {
        let registry = Methods { most: 2, ..Methods::default() };
        let class =
            Arc::new(Class { loader: "app".into(), name: "A".into(), source: String::new() });
        let id = |name| {
            let id = registry.with_class(2, "A", |known| known.id(method(&class, name)));
            id.map(|(id, is_new)| (id.get(), is_new))
        };
        let ids = ["a", "b", "c", "a", "c"].map(id);
        assert_eq!(ids, [Some((1, true)), Some((2, true)), None, Some((1, false)), None]);
    }

    #[test]
    fn the_last_threshold_that_names_a_method_is_its_own() {
        let registry = Methods::default();
        let class =
            Arc::new(Class { loader: "app".into(), name: "a.B".into(), source: String::new() });
        let add = |name| {
            let id = registry.with_class(2, name, |known| known.id(method(&class, name)));
            id.expect("an id").0.get()
        };
        let pattern = |text: &str| Pattern::parse(text).unwrap();
        let change = |text: &str, ns| registry.change_threshold(pattern(text), ns, || {});
        let follow = || (0..9).for_each(|_| registry.follow_thresholds());
        let ns_of = probe::threshold_ns_of;
        // Other tests have set that of all methods, or not; numbers from 1 on are used here only.
        assert_eq!(registry.set_threshold(pattern("a.B.e*"), 4), Ok(()));
        let early = add("early");
        assert_eq!(ns_of(early), 4, "an option holds from the first call on");
        assert_eq!(change("a.B.e*", 5), Ok(1));
        assert_eq!(change("a.B", 7), Ok(1));
        let (later, third) = (add("even"), add("odd"));
        follow();
        assert_eq!([early, later, third].map(ns_of), [7, 7, 7]);
        assert_eq!(change("a.B.e*", 6), Ok(2));
        assert_eq!([early, later, third].map(ns_of), [6, 6, 7]);
        let last = add("eleven");
        follow();
        assert_eq!(ns_of(last), 6);
        let thresholds = registry.thresholds();
        assert_eq!(thresholds.iter().map(|own| own.ns).collect::<Vec<_>>(), [7, 6]);
        for n in 2..255 {
            assert_eq!(change(&format!("x.Y{n}"), u64::MAX), Ok(0));
        }
        assert_eq!(change("one.more", 1).unwrap_err(), "threshold: more than 255 patterns");
        assert_eq!(change("x.Y7", u64::MAX), Ok(0));
    }

    #[test]
    fn each_method_is_visited_once_and_a_deadline_ends_it() {
        let registry = Methods::default();
        let class =
            Arc::new(Class { loader: "app".into(), name: "A".into(), source: String::new() });
        let count = 2 * COPIED + 7;
        registry.with_class(2, "A", |known| {
            for n in 0..count {
                known.add_new(method(&class, &n.to_string()));
            }
        });
        let (mut seen, mut rounds) = (Vec::new(), 0);
        let last = registry.for_each(
            || rounds += 1,
            |id, method| {
                assert_eq!(method.name, (id - 1).to_string());
                seen.push(id);
            },
        );
        assert_eq!(last, count);
        assert!(rounds > 0 && seen.iter().copied().eq(1..=u32::try_from(count).unwrap()));
        // At least one each time, so that repeated calls come to the end.
        let now = Instant::now();
        assert_eq!(registry.for_each_from(5, now, |id, _| assert_eq!(id, 5)), 5);
        assert_eq!(registry.for_each_from(count + 1, now, |_, _| panic!("none is left")), count);
    }
}
