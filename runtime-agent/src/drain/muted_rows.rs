//! What counters.csv says of what is muted: by which patterns, and how many methods.

use log_format::rows::{CounterRow, counter};
use log_format::writer::one_line;

use crate::instrument::muting::Rule;
use crate::sys::clock;

/// What is muted, as the log has it.
#[derive(Default)]
pub(crate) struct MutedRows {
    rules: Vec<Rule>,
    methods: u64,
}

impl MutedRows {
    /// What is muted from now on.
    pub(crate) fn set(&mut self, rules: &[Rule], methods: u64) -> Vec<CounterRow> {
        let before = std::mem::replace(self, Self { rules: rules.to_vec(), methods });
        let start_ns = clock::unix_ns();
        let is_gone = |rule: &&Rule| !rules.iter().any(|now| now.pattern == rule.pattern);
        let gone = before.rules.iter().filter(is_gone);
        let gone = gone.map(|rule| row(start_ns, &Rule { mutes: false, ..rule.clone() }));
        gone.chain(self.rows(start_ns)).collect()
    }

    /// What an interval begins with.
    pub(crate) fn in_interval(&self, start_ns: u64) -> Vec<CounterRow> {
        if self.rules.is_empty() { Vec::new() } else { self.rows(start_ns) }
    }

    fn rows(&self, start_ns: u64) -> Vec<CounterRow> {
        let name = counter::MUTED_METHODS.to_owned();
        let methods = CounterRow { start_ns, name, value: self.methods };
        self.rules.iter().map(|rule| row(start_ns, rule)).chain([methods]).collect()
    }
}

fn row(start_ns: u64, rule: &Rule) -> CounterRow {
    let name = one_line(&format!("{}{}", counter::MUTED, rule.pattern));
    CounterRow { start_ns, name, value: u64::from(rule.mutes) }
}
