//! A class's methods that are not instrumented.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use log_format::method_state::MethodState;
use rewriter::Skip;

/// The methods of a class that are not instrumented, each with its state, and why the rewriter left it. Of the names,
/// hashes are kept: 8 bytes a method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OtherMethods(Vec<(u32, MethodState, Option<Skip>)>);

fn hash(name: &str) -> u32 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    #[allow(clippy::cast_possible_truncation)]
    let hash = hasher.finish() as u32;
    hash
}

impl OtherMethods {
    pub(crate) fn add(&mut self, name: &str, state: MethodState) {
        self.0.push((hash(name), state, None));
    }

    /// Adds one that was selected, and could not be instrumented or never can be.
    pub(crate) fn add_skipped(&mut self, name: &str, why: Skip) {
        let state = match why.is_by_design() {
            true => MethodState::NeverInstrumented,
            false => MethodState::NotInstrumented,
        };
        self.0.push((hash(name), state, Some(why)));
    }

    /// The states with methods, and how many.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (MethodState, u64)> {
        let all = MethodState::ALL.into_iter().map(|state| (state, self.count(state)));
        all.filter(|(_, count)| *count > 0)
    }

    pub(crate) fn count(&self, state: MethodState) -> u64 {
        self.0.iter().filter(|(_, of, _)| *of == state).count() as u64
    }

    /// The states of the methods with this name, and the reason if the rewriter left it.
    pub(crate) fn states_of(
        &self,
        name: &str,
    ) -> impl Iterator<Item = (MethodState, Option<&'static str>)> {
        let name = hash(name);
        let of = self.0.iter().filter(move |(other, ..)| *other == name);
        of.map(|(_, state, why)| (*state, why.map(Skip::text)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }
}

impl fmt::Display for OtherMethods {
    /// As a list that goes on, `; 2 trivial leaves, 1 excluded`. Empty if there are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (state, count)) in self.counts().enumerate() {
            let before = if place == 0 { "; " } else { ", " };
            write!(f, "{before}{}", state.count_text(count))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_instrumented_has_its_reason() {
        let mut others = OtherMethods::default();
        others.add("get", MethodState::Accessor);
        others.add_skipped("huge", Skip::CodeTooLarge);
        others.add_skipped("call", Skip::NoCode);
        let of = |name| others.states_of(name).collect::<Vec<_>>();
        assert_eq!(of("get"), [(MethodState::Accessor, None)]);
        let why = Some("code would pass 65,535 bytes");
        assert_eq!(of("huge"), [(MethodState::NotInstrumented, why)]);
        assert_eq!(of("call"), [(MethodState::NeverInstrumented, Some("abstract or native"))]);
    }
}
