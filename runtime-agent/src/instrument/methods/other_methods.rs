//! A class's methods that are not instrumented.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use log_format::method_state::MethodState;

/// The methods of a class that are not instrumented, each with its state. Of the names, hashes are kept: 8 bytes a
/// method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OtherMethods(Vec<(u32, MethodState)>);

fn hash(name: &str) -> u32 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    #[allow(clippy::cast_possible_truncation)]
    let hash = hasher.finish() as u32;
    hash
}

impl OtherMethods {
    pub(crate) fn add(&mut self, name: &str, state: MethodState) {
        self.0.push((hash(name), state));
    }

    /// The states with methods, and how many.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (MethodState, u64)> {
        let all = MethodState::ALL.into_iter().map(|state| (state, self.count(state)));
        all.filter(|(_, count)| *count > 0)
    }

    pub(crate) fn count(&self, state: MethodState) -> u64 {
        self.0.iter().filter(|(_, of)| *of == state).count() as u64
    }

    /// The states of the methods with this name.
    pub(crate) fn states_of(&self, name: &str) -> impl Iterator<Item = MethodState> {
        let name = hash(name);
        self.0.iter().filter(move |(other, _)| *other == name).map(|(_, state)| *state)
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
