//! Method ids: who is who, for the whole run.
//!
//! A method keeps its id when its class is redefined, retransformed or loaded again by the same
//! loader, and has another one in every other loader. When a loader is no more, the ids of its classes
//! wait for another loader of the same class that loads them again, so that an application that is
//! deployed a thousand times has as many ids as one that is deployed once.
//!
//! With its id a method gets its threshold: that of the last pattern which names it.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use dashmap::{DashMap, Entry};
use log_format::pattern::Pattern;
use log_format::writer::one_line;
use rewriter::MethodId;
use rewriter::probe::OFFLINE;

use crate::probe;

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
    /// The loader's class, whichever of its objects it is, and the class's own name.
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

/// More methods than this get no ids, and so no probes: classes of ever new names, as script engines make,
/// must not take all memory.
const MAX_METHODS: u32 = 1_000_000;
const _: () = assert!(MAX_METHODS < OFFLINE);
/// The id that no method has, of the calls that the agent makes itself to see what a call costs.
pub(crate) const CALIBRATION: i32 = MAX_METHODS.cast_signed() + 1;

/// The methods of one class in one loader, by name and descriptor.
type ClassMethods = Vec<(String, String, MethodId)>;

/// All instrumented methods.
#[derive(Debug)]
pub(crate) struct Methods {
    /// How many may have ids.
    most: u32,
    /// By number of the loader and internal name of the class.
    classes: DashMap<(u64, String), ClassMethods>,
    /// Methods of classes whose loader is no more, by the loader's class and name of the class.
    left: DashMap<(String, String), ClassMethods>,
    known: RwLock<Known>,
    /// Those that are to have no probes for now.
    withheld: RwLock<HashSet<u32>>,
}

#[derive(Debug, Default)]
struct Known {
    /// By id, from 1.
    methods: Vec<Method>,
    /// Thresholds of their own, the one that was given last behind.
    thresholds: Vec<OwnThreshold>,
}

/// A threshold of the methods that a pattern names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnThreshold {
    pub pattern: Pattern,
    pub ns: u64,
    /// Its number for the probe, from 1.
    number: u8,
}

impl Default for Methods {
    fn default() -> Self {
        Self {
            most: MAX_METHODS,
            classes: DashMap::new(),
            left: DashMap::new(),
            known: RwLock::default(),
            withheld: RwLock::default(),
        }
    }
}

impl Methods {
    /// Runs `with` on the methods known of a class, which it may add to through
    /// [`id`](KnownClass::id). Two threads that load the same class go one after the other.
    pub(crate) fn with_class<R>(
        &self,
        loader: u64,
        name: &str,
        with: impl FnOnce(&mut KnownClass<'_>) -> R,
    ) -> R {
        let entry = self.classes.entry((loader, name.to_owned()));
        let is_new = matches!(entry, Entry::Vacant(_));
        with(&mut KnownClass { registry: self, is_new, methods: &mut entry.or_default() })
    }

    /// Loaders, by number, are no more, and neither are their classes.
    pub(crate) fn forget_loaders(&self, gone: &HashSet<u64>) {
        self.classes.retain(|(loader, _), methods| {
            if !gone.contains(loader) {
                return true;
            }
            let first = methods.first().and_then(|(.., id)| self.get(id.get()));
            if let Some(Method { class, .. }) = first {
                self.left.entry(class.key()).or_default().append(methods);
            }
            false
        });
    }

    /// An id that a method just like this one had in a loader that is no more.
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

    /// Whether a method of the class has an id.
    pub(crate) fn has_class(&self, loader: u64, name: &str) -> bool {
        self.classes.get(&(loader, name.to_owned())).is_some_and(|methods| !methods.is_empty())
    }

    /// The id of a method.
    pub(crate) fn find(
        &self,
        loader: u64,
        class: &str,
        name: &str,
        descriptor: &str,
    ) -> Option<u32> {
        let methods = self.classes.get(&(loader, class.to_owned()))?;
        let found = methods.iter().find(|(n, d, _)| n == name && d == descriptor);
        found.map(|(.., id)| id.get())
    }

    /// Whether a method of the class has one of these ids.
    pub(crate) fn has_any(&self, loader: u64, name: &str, ids: &HashSet<u32>) -> bool {
        let is_one =
            |methods: &ClassMethods| methods.iter().any(|(.., id)| ids.contains(&id.get()));
        self.classes.get(&(loader, name.to_owned())).is_some_and(|methods| is_one(&methods))
    }

    /// From now on these methods get no probes when their class is transformed.
    pub(crate) fn withhold(&self, ids: &HashSet<u32>) {
        self.withheld.write().unwrap_or_else(PoisonError::into_inner).extend(ids);
    }

    /// Takes those methods back that `wanted` names, of those that get no probes.
    pub(crate) fn take_withheld(&self, wanted: impl Fn(u32) -> bool) -> HashSet<u32> {
        let mut withheld = self.withheld.write().unwrap_or_else(PoisonError::into_inner);
        withheld.extract_if(|id| wanted(*id)).collect()
    }

    /// Whether a method is to have no probes for now.
    pub(crate) fn is_withheld(&self, id: u32) -> bool {
        self.withheld.read().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    /// The method with an id.
    pub(crate) fn get(&self, id: u32) -> Option<Method> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.methods.get((id as usize).checked_sub(1)?).cloned()
    }

    /// How many there are; their ids are 1 to this.
    pub(crate) fn count(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).methods.len()
    }

    /// The ids from `first` on of methods, each with what `decide` says of its class and its name.
    pub(crate) fn map_from<R>(
        &self,
        first: usize,
        decide: impl Fn(&str, &str) -> R,
    ) -> Vec<(u32, R)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let all = (1..).zip(&known.methods).skip(first.saturating_sub(1));
        all.map(|(id, method)| (id, decide(&method.class.name, &method.name))).collect()
    }

    /// The thresholds of patterns, in the order in which they were given.
    pub(crate) fn thresholds(&self) -> Vec<OwnThreshold> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).thresholds.clone()
    }

    /// Gives the methods that a pattern names, now and later, a threshold of their own.
    ///
    /// # Errors
    /// One line: there are too many patterns.
    pub(crate) fn set_threshold(&self, pattern: Pattern, ns: u64) -> Result<(), String> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Known { methods, thresholds } = &mut *known;
        let before = thresholds.iter().position(|own| own.pattern == pattern);
        let number = match before {
            Some(index) => thresholds.remove(index).number,
            None => u8::try_from(thresholds.len() + 1)
                .map_err(|_| format!("threshold: more than {} patterns", u8::MAX))?,
        };
        probe::set_numbered_ns(number, ns);
        for (id, method) in (1..).zip(methods) {
            if pattern.method(&method.class.name, &method.name) {
                probe::assign_threshold(id, number);
            }
        }
        thresholds.push(OwnThreshold { pattern, ns, number });
        Ok(())
    }

    fn add(&self, method: Method) -> Option<MethodId> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Known { methods, thresholds } = &mut *known;
        let id = u32::try_from(methods.len() + 1).ok().filter(|id| *id <= self.most)?;
        let id = MethodId::new(id)?;
        let names = |own: &&OwnThreshold| own.pattern.method(&method.class.name, &method.name);
        if let Some(own) = thresholds.iter().rfind(names) {
            probe::assign_threshold(id.get(), own.number);
        }
        methods.push(method);
        Some(id)
    }
}

/// A class whose methods are getting ids.
pub(crate) struct KnownClass<'r> {
    registry: &'r Methods,
    is_new: bool,
    methods: &'r mut ClassMethods,
}

impl KnownClass<'_> {
    /// Whether the class is met for the first time.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether a method of the class has had probes before.
    pub(crate) fn has_methods(&self) -> bool {
        !self.methods.is_empty()
    }

    /// Whether a method is to have no probes for now.
    pub(crate) fn is_withheld(&self, id: MethodId) -> bool {
        self.registry.is_withheld(id.get())
    }

    /// The id of a method, and whether it is new.
    pub(crate) fn id(&mut self, method: Method) -> Option<(MethodId, bool)> {
        let known = self
            .methods
            .iter()
            .find(|(name, descriptor, _)| *name == method.name && *descriptor == method.descriptor);
        if let Some((_, _, id)) = known {
            return Some((*id, false));
        }
        let (name, descriptor) = (method.name.clone(), method.descriptor.clone());
        let id = match self.registry.take_left(&method) {
            Some(id) => id,
            None => self.registry.add(method)?,
        };
        self.methods.push((name, descriptor, id));
        Some((id, true))
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
        assert!(registry.has_class(3, "A"));
        assert!(!registry.has_class(4, "A") && !registry.has_class(3, "B"));
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
        assert!(!registry.has_class(3, "a/B") && registry.has_class(4, "a/B"));
        // Another version of the class, and a loader of another class, have ids of their own.
        assert_eq!(load(5, "x.Loader#5", &[("b", 2), ("a", 7)]), [2, 5]);
        assert_eq!(load(6, "y.Loader#6", &both), [6, 7]);
        assert_eq!(load(7, "x.Loader#7", &both), [1, 8]);
        // One loader more each time, and no id more.
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
        let set = |text: &str, ns| registry.set_threshold(Pattern::parse(text).unwrap(), ns);
        let ns_of = probe::threshold_ns_of;
        // Other tests have set that of all methods, or not; numbers from 1 on are used here only.
        let early = add("early");
        assert_eq!(set("a.B.e*", 5), Ok(()));
        assert_eq!(set("a.B", 7), Ok(()));
        let (later, third) = (add("even"), add("odd"));
        assert_eq!([early, later, third].map(ns_of), [7, 7, 7]);
        assert_eq!(set("a.B.e*", 6), Ok(()));
        assert_eq!([early, later, third].map(ns_of), [6, 6, 7]);
        let thresholds = registry.thresholds();
        assert_eq!(thresholds.iter().map(|own| own.ns).collect::<Vec<_>>(), [7, 6]);
        for n in 2..255 {
            assert_eq!(set(&format!("x.Y{n}"), u64::MAX), Ok(()));
        }
        assert_eq!(set("one.more", 1).unwrap_err(), "threshold: more than 255 patterns");
        assert_eq!(set("x.Y7", u64::MAX), Ok(()));
    }
}
