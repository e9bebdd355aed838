//! Thresholds of the methods that patterns name. The last pattern that names a method counts.

use std::sync::Arc;

use log_format::error::BadValue;
use log_format::ids::MethodId;
use log_format::pattern::Pattern;

use super::method::Method;
use crate::probe;

/// The patterns with their thresholds.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnThresholds {
    /// In the order in which they were given.
    pub all: Arc<Vec<OwnThreshold>>,
    /// Ids up to this have been matched against `all`. `None` until a client sends a pattern: patterns of
    /// the options are matched when a method is added.
    pub seen: Option<usize>,
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
    pub(super) fn names(&self, method: &Method) -> bool {
        self.pattern.method(&method.class.name, &method.name)
    }

    /// Tells the probe that it is the threshold of the method with this id.
    pub(super) fn assign_to(&self, id: MethodId) {
        probe::assign_threshold(id, self.number);
    }
}

impl OwnThresholds {
    /// The one of a method.
    pub(super) fn of(&self, method: &Method) -> Option<&OwnThreshold> {
        self.all.iter().rfind(|own| own.names(method))
    }

    /// The one that the options give a method.
    pub(super) fn of_options(&self, method: &Method) -> Option<&OwnThreshold> {
        self.all.iter().rfind(|own| own.is_option && own.names(method))
    }

    /// Adds or changes the threshold of a pattern. Returns all thresholds, and that one.
    ///
    /// # Errors
    /// There are too many patterns.
    pub(super) fn with(
        &self,
        pattern: Pattern,
        ns: u64,
        is_option: bool,
    ) -> Result<(Self, OwnThreshold), BadValue> {
        let mut all = self.all.to_vec();
        let before =
            all.iter().position(|own| own.pattern == pattern).map(|index| all.remove(index));
        let own = match before {
            Some(own) => OwnThreshold { ns, ..own },
            None => {
                let number = u8::try_from(all.len() + 1).map_err(|_| {
                    BadValue::because(format!("more than {} patterns", u8::MAX)).of("threshold")
                })?;
                OwnThreshold { pattern, ns, number, is_option }
            }
        };
        probe::set_numbered_ns(own.number, ns);
        all.push(own.clone());
        Ok((Self { all: Arc::new(all), seen: self.seen }, own))
    }
}
