//! What was allocated, by samples.

use std::collections::HashMap;
use std::hash::Hash;

use crate::stats::allocation_sums::{Allocated, AllocationSums};
use crate::stats::method::Method;
use crate::stats::sampled_stacks::SampledStacks;

/// See the module.
#[derive(Debug, Default)]
pub struct AllocationReport {
    /// All of it.
    pub all: Allocated,
    /// By class, most bytes first.
    pub classes: Vec<Row<String, Method>>,
    /// By the method that allocates.
    pub sites: Vec<Row<Method, String>>,
    /// Bytes by stack; the frame on top is the class.
    pub stacks: SampledStacks,
}

/// A class or a method.
#[derive(Debug)]
pub struct Row<T, O> {
    /// It.
    pub of: T,
    /// What was allocated of it, or in it.
    pub allocated: Allocated,
    /// The method that allocates most of the class, or the class of which the method allocates most.
    pub most: O,
}

impl AllocationReport {
    pub(crate) fn new(mut sums: AllocationSums) -> Self {
        let mut all = Allocated::default();
        sums.all().for_each(|(_, _, allocated)| all.add(allocated));
        let classes =
            rows(sums.all().map(|(class, site, sum)| (class.to_owned(), site.clone(), sum)));
        let sites =
            rows(sums.all().map(|(class, site, sum)| (site.clone(), class.to_owned(), sum)));
        Self { all, classes, sites, stacks: std::mem::take(&mut sums.stacks) }
    }

    /// Why there are no stacks to show, if there are none; `in_logs` if the runs have some, not selected.
    #[must_use]
    pub fn no_allocations(&self, in_logs: bool) -> Option<String> {
        let none = "no sampled allocations in these logs; start the agent with alloc=512k and cpu";
        let not_selected = "no sampled allocations are selected";
        self.stacks.is_empty().then(|| if in_logs { not_selected } else { none }.to_owned())
    }
}

/// Sums by the first of each pair, with the second that has most of it.
fn rows<'s, T: Eq + Hash + Ord + Clone, O: Ord>(
    pairs: impl Iterator<Item = (T, O, &'s Allocated)>,
) -> Vec<Row<T, O>> {
    let mut rows: HashMap<T, (Row<T, O>, u64)> = HashMap::new();
    for (of, other, sum) in pairs {
        match rows.get_mut(&of) {
            Some((row, most)) => {
                row.allocated.add(sum);
                // Of two with the same bytes, the first by name.
                if sum.bytes > *most || sum.bytes == *most && other < row.most {
                    (row.most, *most) = (other, sum.bytes);
                }
            }
            None => {
                let row = Row { of: of.clone(), allocated: *sum, most: other };
                rows.insert(of, (row, sum.bytes));
            }
        }
    }
    let mut rows: Vec<Row<T, O>> = rows.into_values().map(|(row, _)| row).collect();
    rows.sort_by(|one, other| {
        let by_bytes = other.allocated.bytes.cmp(&one.allocated.bytes);
        by_bytes.then_with(|| one.of.cmp(&other.of))
    });
    rows
}
