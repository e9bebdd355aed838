//! The states of the methods that a pattern matches.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};

use log_format::ids::MethodId;
use log_format::method_state::MethodState;
use log_format::pattern::{ClassMatch, Pattern};

use crate::instrument::guards::Guards;
use crate::instrument::include_hints::how_near;
use crate::instrument::methods::{Method, Methods, OtherMethods};
use crate::instrument::postponed::Postponed;

/// Most methods and classes that are named.
const MOST: usize = 1_000;
/// Similar names that are shown.
const NEAREST: usize = 3;

/// The methods that a pattern names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MethodStates {
    /// Those that have probes, or had them until they were muted, by name.
    pub methods: Vec<(Method, MethodState)>,
    /// How many more there are.
    pub more_methods: usize,
    /// Methods that the pattern names and that have no probes, by class and name, with the reason if there is one.
    pub named: Vec<(String, MethodState, Option<&'static str>)>,
    /// Classes that the pattern names and that have methods without probes.
    pub others: Vec<(String, OtherMethods)>,
    /// How many more classes there are.
    pub more_others: usize,
    /// Classes that could not be retransformed yet.
    pub postponed: Vec<Postponed>,
    /// If nothing has the pattern's name: names of classes and methods that are like it, with as many parts.
    pub nearest: Vec<String>,
    /// If the pattern is a class of which something is known and no method of it: instrumented methods with similar
    /// names.
    pub similar: Option<Vec<String>>,
}

/// Where the states of methods come from.
pub(crate) struct Sources<'s> {
    pub methods: &'s Methods,
    pub guards: &'s Guards,
    /// Classes that are not retransformed for now.
    pub postponed: Vec<Postponed>,
    /// Whether a throttled method is compiled out.
    pub is_compiled_out: &'s dyn Fn(MethodId) -> bool,
}

impl MethodStates {
    /// Finds the methods that a pattern names, or else those that it names at the end of a longer name. Calls `between`
    /// every 20 ms.
    pub(crate) fn find(pattern: &Pattern, of: &Sources<'_>, mut between: impl FnMut()) -> Self {
        let states = Self::find_named(pattern, of, &mut between);
        if !states.is_empty() || pattern.has_wildcards() {
            return states;
        }
        let Ok(longer) = Pattern::parse(&format!("**.{pattern}")) else { return states };
        let of_longer = Self::find_named(&longer, of, &mut between);
        if !of_longer.is_empty() {
            return of_longer;
        }
        if states.similar.is_some() {
            return states;
        }
        let wanted = pattern.as_str();
        let dots = |name: &str| name.matches('.').count();
        let last_part = wanted.rsplit('.').next().unwrap_or_default();
        let mut names = BTreeSet::new();
        // As much of the end of a name as is wanted.
        let end_of = |name: &str| {
            let end = name.rmatch_indices('.').nth(dots(wanted)).map_or(0, |(dot, _)| dot + 1);
            name.get(end..).unwrap_or_default().to_owned()
        };
        of.methods.for_each(between, |_, Method { class, name, .. }| {
            let mut class_name = class.name.as_str();
            if dots(wanted) == 0 {
                class_name = class_name.rsplit('$').next().unwrap_or_default();
            }
            let (class, method) = (end_of(class_name), end_of(&format!("{}.{name}", class.name)));
            let is_near = |name: &String| {
                let is_like = dots(name) == dots(wanted) && how_near(wanted, name) > 0;
                is_like && name.rsplit('.').next().is_some_and(|last| how_near(last_part, last) > 0)
            };
            names.extend([class, method].into_iter().filter(is_near));
        });
        Self { nearest: similar(wanted, names), ..states }
    }

    fn find_named(pattern: &Pattern, of: &Sources<'_>, between: impl FnMut()) -> Self {
        let Sources { methods, guards, postponed, is_compiled_out } = of;
        let with_probes: HashSet<MethodId> =
            methods.with_probes().into_values().flatten().collect();
        let mut found = Vec::new();
        let (class, name) = pattern.as_str().rsplit_once('.').unwrap_or_default();
        let mut siblings = BTreeSet::new();
        methods.for_each(between, |id, method| {
            let is_in = with_probes.contains(&id) || methods.is_kept_without_probes(id);
            if is_in && method.class.name == class {
                siblings.insert(method.name.clone());
            }
            if is_in && pattern.method(&method.class.name, &method.name) {
                let state = match guards.state(id) {
                    MethodState::Throttled if is_compiled_out(id) => MethodState::CompiledOut,
                    state => state,
                };
                found.push((method.clone(), state));
            }
        });
        found.sort_by_cached_key(|(method, _)| method.line_name());
        let mut others = methods.with_others();
        let mut named = Vec::new();
        let is_known = !siblings.is_empty() || others.iter().any(|(known, _)| known == class);
        others.retain(|(class, others)| {
            let names = pattern.class(class);
            // Almost any class may have a method that a wildcard names.
            if names == ClassMatch::SomeMethods
                && !name.contains('*')
                && pattern.method(class, name)
            {
                let method = format!("{class}.{name}");
                let states = others.states_of(name);
                named.extend(states.map(|(state, why)| (method.clone(), state, why)));
            }
            names == ClassMatch::AllMethods
        });
        others.sort_by(|(one, _), (other, _)| one.cmp(other));
        // Any class may have a method of a name without a class, or after `**`.
        let of_class = Pattern::parse(class).ok().filter(|_| class != "**");
        let is_named = |postponed: &Postponed| {
            let names =
                |pattern: &Pattern| pattern.class(&postponed.class) == ClassMatch::AllMethods;
            names(pattern) || of_class.as_ref().is_some_and(names)
        };
        Self {
            more_methods: found.len().saturating_sub(MOST),
            methods: found.into_iter().take(MOST).collect(),
            more_others: others.len().saturating_sub(MOST),
            others: others.into_iter().take(MOST).collect(),
            named,
            similar: is_known.then(|| similar(name, siblings)),
            postponed: postponed.iter().filter(|postponed| is_named(postponed)).cloned().collect(),
            nearest: Vec::new(),
        }
    }

    /// Why the pattern names nothing that is known. `why_excluded` says it of a class that the options exclude.
    pub(crate) fn hint(
        &self,
        pattern: &Pattern,
        why_excluded: impl FnOnce() -> Option<String>,
    ) -> String {
        self.hint_of_class(pattern).unwrap_or_else(|| {
            let excluded = why_excluded();
            let excluded =
                excluded.map_or_else(String::new, |why| format!("; such a class is {why}"));
            let nearest = after_nearest(&self.nearest);
            format!("no instrumented class has methods that {pattern} names{nearest}{excluded}")
        })
    }

    /// The hint if the pattern's class is known.
    fn hint_of_class(&self, pattern: &Pattern) -> Option<String> {
        let (class, name) = pattern.as_str().rsplit_once('.')?;
        let nearest = after_nearest(self.similar.as_ref()?);
        Some(format!("{class} has no method {name}{nearest}"))
    }

    /// Says that the pattern names methods only at the end of a longer name, if so, and what this command needs.
    pub(crate) fn end_of_name(&self, pattern: &Pattern, command: &str) -> Option<String> {
        let (Method { class, name, .. }, _) = self.methods.first()?;
        if pattern.method(&class.name, name) {
            return None;
        }
        let whole = format!("{}.{name}", class.name);
        Some(format!("{pattern} is the end of a name; {command} needs all of it, like {whole}"))
    }

    /// Whether the pattern names nothing that is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.methods.is_empty()
            && self.named.is_empty()
            && self.others.is_empty()
            && self.postponed.is_empty()
    }
}

fn after_nearest(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("; nearest: {}", names.join(", ")) }
}

/// The names that are like one, the nearest first.
fn similar(name: &str, names: BTreeSet<String>) -> Vec<String> {
    let near = names.into_iter().map(|other| (how_near(name, &other), other));
    let mut near: Vec<(u32, String)> = near.filter(|(how_near, _)| *how_near > 0).collect();
    near.sort_by_key(|(how_near, _)| Reverse(*how_near));
    near.into_iter().take(NEAREST).map(|(_, name)| name).collect()
}
