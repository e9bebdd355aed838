//! What counters.csv says of the methods that are left out for their cost: since when, and why. Each hour's
//! files say it anew, for they have to do without those of others.

use std::collections::{BTreeMap, HashSet};

use log_format::rows::{CounterRow, counter};

use crate::instrument::methods::Methods;
use crate::overhead::LeftOut;
use crate::sys::clock;

/// The methods that are left out.
#[derive(Default)]
pub(crate) struct LeftOutRows {
    methods: BTreeMap<u32, LeftOut>,
    /// How many files had been begun when this was told last.
    told: u64,
}

impl LeftOutRows {
    /// Methods are left out from now on.
    pub(crate) fn add(&mut self, left_out: &[(u32, LeftOut)], names: &Methods) -> Vec<CounterRow> {
        self.methods.extend(left_out.iter().copied());
        rows(left_out.iter().copied(), None, names)
    }

    /// Methods are measured again from now on.
    pub(crate) fn remove(&mut self, ids: &[u32], names: &Methods) -> Vec<CounterRow> {
        self.methods.retain(|id, _| !ids.contains(id));
        let name_of = |id: &u32| name_of(*id, names);
        let again: HashSet<String> = ids.iter().filter_map(name_of).collect();
        // The same method of another class loader may be left out still.
        let still: HashSet<String> = self.methods.keys().filter_map(name_of).collect();
        let start_ns = clock::unix_ns();
        let row =
            |name| CounterRow { start_ns, name: format!("{}{name}", counter::COSTLY), value: 0 };
        again.difference(&still).map(row).collect()
    }

    /// What is left out as of now, if files were `begun` since it was told last.
    pub(crate) fn in_files(&mut self, begun: u64, names: &Methods) -> Vec<CounterRow> {
        if std::mem::replace(&mut self.told, begun) == begun {
            return Vec::new();
        }
        let methods = self.methods.iter().map(|(id, left)| (*id, *left));
        rows(methods, Some(clock::unix_ns()), names)
    }
}

/// A method in counters.csv.
fn name_of(id: u32, names: &Methods) -> Option<String> {
    names.get(id).map(|method| method.line_name())
}

/// Rows that say why methods are left out: since they are, or as of a moment.
fn rows(
    methods: impl Iterator<Item = (u32, LeftOut)>,
    as_of_ns: Option<u64>,
    names: &Methods,
) -> Vec<CounterRow> {
    let mut rows = Vec::new();
    for (id, left) in methods {
        let Some(name) = name_of(id, names) else { continue };
        let start_ns = as_of_ns.unwrap_or(left.since_unix_ns);
        for (key, value) in
            [(counter::COSTLY_MEAN_NS, left.mean_ns), (counter::COSTLY, left.calls_per_s)]
        {
            rows.push(CounterRow { start_ns, name: format!("{key}{name}"), value });
        }
    }
    rows
}
