//! Sampled allocations, summed up by class and by the method that allocates.

use std::collections::HashMap;

use log_format::rows::AllocationRow;

use crate::stats::method::Method;
use crate::stats::sampled_stacks::SampledStacks;

/// What samples stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// The bytes.
    pub bytes: u64,
    /// The objects.
    pub objects: u64,
    /// How many samples there are.
    pub samples: u64,
}

impl Allocated {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.objects = self.objects.saturating_add(other.objects);
        self.samples = self.samples.saturating_add(other.samples);
    }

    fn of(row: &AllocationRow) -> Self {
        Self { bytes: row.bytes, objects: row.objects, samples: row.samples }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct AllocationSums {
    sums: HashMap<String, HashMap<Method, Allocated>>,
    /// Bytes by stack; the frame on top is the class. Empty if the report does not show them.
    pub stacks: SampledStacks,
}

impl AllocationSums {
    /// Adds a row, with the method that allocates.
    pub fn add(&mut self, row: &AllocationRow, site: &Method) {
        if !self.sums.contains_key(&row.class) {
            self.sums.insert(row.class.clone(), HashMap::new());
        }
        let Some(sites) = self.sums.get_mut(&row.class) else { return };
        sites.entry(site.clone()).or_default().add(&Allocated::of(row));
    }

    /// Each class and method with its sum.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Method, &Allocated)> {
        self.sums.iter().flat_map(|(class, sites)| {
            sites.iter().map(move |(site, allocated)| (class.as_str(), site, allocated))
        })
    }
}
