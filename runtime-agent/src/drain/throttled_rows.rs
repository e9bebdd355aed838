//! What counters.csv says of the methods that are throttled: since when, and why. Each hour's
//! files say it anew, for they have to do without those of others.

use std::collections::{BTreeMap, HashSet};

use log_format::rows::{CounterRow, counter};

use crate::instrument::methods::Methods;
use crate::overhead::Throttled;
use crate::sys::clock;

/// The methods that are throttled.
#[derive(Default)]
pub(crate) struct ThrottledRows {
    methods: BTreeMap<u32, Throttled>,
    /// How many files had been begun when this was told last.
    told: u64,
}

impl ThrottledRows {
    /// Methods are throttled from now on.
    pub(crate) fn add(
        &mut self,
        throttled: &[(u32, Throttled)],
        names: &Methods,
    ) -> Vec<CounterRow> {
        self.methods.extend(throttled.iter().copied());
        rows(throttled.iter().copied(), None, names)
    }

    /// Methods are measured again from now on.
    pub(crate) fn remove(&mut self, ids: &[u32], names: &Methods) -> Vec<CounterRow> {
        self.methods.retain(|id, _| !ids.contains(id));
        let name_of = |id: &u32| name_of(*id, names);
        let again: HashSet<String> = ids.iter().filter_map(name_of).collect();
        // The same method of another class loader may be throttled still.
        let still: HashSet<String> = self.methods.keys().filter_map(name_of).collect();
        let start_ns = clock::unix_ns();
        let row =
            |name| CounterRow { start_ns, name: format!("{}{name}", counter::THROTTLED), value: 0 };
        again.difference(&still).map(row).collect()
    }

    /// What is throttled as of now, if files were `begun` since it was told last.
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

/// Rows that say why methods are throttled: since they are, or as of a moment.
fn rows(
    methods: impl Iterator<Item = (u32, Throttled)>,
    as_of_ns: Option<u64>,
    names: &Methods,
) -> Vec<CounterRow> {
    let mut rows = Vec::new();
    for (id, left) in methods {
        let Some(name) = name_of(id, names) else { continue };
        let start_ns = as_of_ns.unwrap_or(left.since_unix_ns);
        for (key, value) in
            [(counter::THROTTLED_MEAN_NS, left.mean_ns), (counter::THROTTLED, left.calls_per_s)]
        {
            rows.push(CounterRow { start_ns, name: format!("{key}{name}"), value });
        }
    }
    rows
}
