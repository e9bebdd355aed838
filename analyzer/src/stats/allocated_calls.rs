//! What recorded calls allocated, by method: only outermost calls of platform threads say it.

use std::collections::HashMap;

use log_format::ids::MethodId;
use log_format::rows::CallRow;

use crate::stats::method::Method;

/// What recorded calls of a method allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatedByCalls {
    /// Recorded calls that say what they allocated.
    pub calls: u64,
    /// All that they allocated.
    pub bytes: u64,
    /// The most that one of them allocated.
    pub max_bytes: u64,
}

impl AllocatedByCalls {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.max_bytes = self.max_bytes.max(other.max_bytes);
    }
}

/// Sums by method.
#[derive(Debug, Default)]
pub struct AllocatedSums(HashMap<MethodId, AllocatedByCalls>);

impl AllocatedSums {
    /// Adds a recorded call.
    #[inline]
    pub fn add(&mut self, row: &CallRow) {
        if let Some(bytes) = row.allocated_bytes {
            let of_call = AllocatedByCalls { calls: 1, bytes, max_bytes: bytes };
            self.0.entry(row.method).or_default().add(&of_call);
        }
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: Self) {
        for (method, allocated) in other.0 {
            self.0.entry(method).or_default().add(&allocated);
        }
    }

    /// The same by name; ids may share one.
    pub fn named(self, named: impl Fn(MethodId) -> Method) -> HashMap<Method, AllocatedByCalls> {
        let mut sums: HashMap<Method, AllocatedByCalls> = HashMap::new();
        for (id, allocated) in self.0 {
            sums.entry(named(id)).or_default().add(&allocated);
        }
        sums
    }
}
