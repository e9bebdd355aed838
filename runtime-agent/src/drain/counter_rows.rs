//! Rows of counters.csv. Most have the increase of a counter since its last row.

use std::collections::HashMap;

use log_format::rows::CounterRow;

/// The counters' values when their last rows were made.
#[derive(Default)]
pub(super) struct Written(HashMap<&'static str, u64>);

impl Written {
    /// A row for each counter that has increased.
    pub(super) fn increases<const N: usize>(
        &mut self,
        start_ns: u64,
        values: [(&'static str, u64); N],
    ) -> Vec<CounterRow> {
        let mut rows = Vec::new();
        for (name, value) in values {
            let before = self.0.insert(name, value).unwrap_or(0);
            if value > before {
                rows.push(row(start_ns, name, value - before));
            }
        }
        rows
    }
}

pub(super) fn row(start_ns: u64, name: &str, value: u64) -> CounterRow {
    CounterRow { start_ns, name: name.to_owned(), value }
}
