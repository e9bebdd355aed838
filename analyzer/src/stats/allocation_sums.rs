//! Sampled allocations, summed up by class and by the method that allocates, and by minute.

use std::collections::{BTreeMap, HashMap};

use log_format::rows::AllocationRow;

use crate::stats::aggregate::Group;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::SampledStacks;

const MINUTE_NS: u64 = 60_000_000_000;

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
    sums: HashMap<Group, HashMap<String, HashMap<Method, Allocated>>>,
    /// Bytes by the start of their minute, in unix nanoseconds.
    pub minutes: BTreeMap<u64, u64>,
    /// How many of a minute's seconds have allocations, of each run, by the same.
    pub seconds: BTreeMap<u64, u64>,
    /// Bytes by stack; the frame on top is the class. Empty if the report does not show them.
    pub stacks: SampledStacks,
}

impl AllocationSums {
    /// Adds a row to its group, with the method that allocates.
    pub fn add(&mut self, group: Group, row: &AllocationRow, site: &Method) {
        let minute = self.minutes.entry(row.start_ns - row.start_ns % MINUTE_NS).or_default();
        *minute = minute.saturating_add(row.bytes);
        let classes = self.sums.entry(group).or_default();
        if !classes.contains_key(&row.class) {
            classes.insert(row.class.clone(), HashMap::new());
        }
        let Some(sites) = classes.get_mut(&row.class) else { return };
        sites.entry(site.clone()).or_default().add(&Allocated::of(row));
    }

    /// Adds a second of a run that has allocations.
    pub fn add_second(&mut self, start_ns: u64) {
        *self.seconds.entry(start_ns - start_ns % MINUTE_NS).or_default() += 1;
    }

    /// Each class and method of a group with its sum.
    pub fn all(&self) -> impl Iterator<Item = (Group, &str, &Method, &Allocated)> {
        self.sums.iter().flat_map(|(group, classes)| {
            classes.iter().flat_map(move |(class, sites)| {
                sites.iter().map(move |(site, allocated)| (*group, class.as_str(), site, allocated))
            })
        })
    }
}
