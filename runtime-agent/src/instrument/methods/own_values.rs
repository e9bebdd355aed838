//! What the methods that patterns name have of their own: a threshold, how many calls are between two traced ones, or
//! that they are the endpoint of a profile task.
//! The last pattern that names a method counts.

use std::sync::Arc;

use log_format::error::BadValue;
use log_format::ids::MethodId;
use log_format::pattern::Pattern;

use super::method::Method;
use crate::probe::{self, task_requests, traced};

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A threshold, in nanoseconds.
    Threshold,
    /// How many calls are between two whose stacks are taken; 0 for none.
    Trace,
    /// 1: they are the endpoint of a profile task.
    Endpoint,
}

impl Kind {
    /// The option that sets it.
    const fn option(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Trace => "trace",
            Self::Endpoint => "task",
        }
    }

    /// Tells the probe the value of a pattern.
    fn set(self, number: u8, value: u64) {
        match self {
            Self::Threshold => probe::set_numbered_ns(number, value),
            Self::Trace => traced::set_numbered(number, value),
            Self::Endpoint => {}
        }
    }

    /// Tells the probe that the pattern names the method with this id.
    fn assign(self, id: MethodId, number: u8) {
        match self {
            Self::Threshold => probe::assign_threshold(id, number),
            Self::Trace => traced::assign(id, number),
            Self::Endpoint => task_requests::assign(id, number),
        }
    }
}

/// The patterns with their values.
#[derive(Clone, Debug)]
pub(super) struct OwnValues {
    pub kind: Kind,
    /// In the order in which they were given.
    pub all: Arc<Vec<OwnValue>>,
    /// Ids up to this have been matched against `all`. `None` until a client sends a pattern: patterns of
    /// the options are matched when a method is added.
    pub seen: Option<usize>,
}

/// The value of the methods that a pattern names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnValue {
    pub pattern: Pattern,
    pub value: u64,
    /// Its number for the probe, from 1.
    number: u8,
    /// The pattern is one of the options.
    is_option: bool,
}

impl OwnValue {
    pub(super) fn names(&self, method: &Method) -> bool {
        self.pattern.method(&method.class.name, &method.name)
    }
}

impl OwnValues {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, all: Arc::default(), seen: None }
    }

    /// Assigns a method the last pattern that names it. `false` if none does.
    pub(super) fn assign_to(&self, id: MethodId, method: &Method) -> bool {
        self.assign(id, self.all.iter().rfind(|own| own.names(method)))
    }

    /// Assigns a method the last pattern of the options that names it.
    pub(super) fn assign_of_options(&self, id: MethodId, method: &Method) {
        self.assign(id, self.all.iter().rfind(|own| own.is_option && own.names(method)));
    }

    fn assign(&self, id: MethodId, own: Option<&OwnValue>) -> bool {
        own.iter().for_each(|own| self.kind.assign(id, own.number));
        own.is_some()
    }

    /// Adds or changes the value of a pattern. Returns all values, and that one.
    ///
    /// # Errors
    /// There are too many patterns.
    pub(super) fn with(
        &self,
        pattern: Pattern,
        value: u64,
        is_option: bool,
    ) -> Result<(Self, OwnValue), BadValue> {
        let mut all = self.all.to_vec();
        let before =
            all.iter().position(|own| own.pattern == pattern).map(|index| all.remove(index));
        let own = match before {
            Some(own) => OwnValue { value, ..own },
            None => {
                let number = u8::try_from(all.len() + 1).map_err(|_| {
                    let advice = match self.kind {
                        Kind::Threshold | Kind::Endpoint => "",
                        Kind::Trace => "; untrace forgets all",
                    };
                    BadValue::because(format!("more than {} patterns{advice}", u8::MAX))
                        .of(self.kind.option())
                })?;
                OwnValue { pattern, value, number, is_option }
            }
        };
        self.kind.set(own.number, value);
        all.push(own.clone());
        Ok((Self { all: Arc::new(all), ..*self }, own))
    }
}
