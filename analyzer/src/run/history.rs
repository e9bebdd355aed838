//! What the agent changed while it recorded a run: thresholds, and the methods and classes that it measured.

use log_format::rows::{CounterRow, EventRow};

use crate::run::losses::Thresholds;
use crate::run::muted::Muted;
use crate::run::postponed::Postponed;
use crate::run::throttled::Throttled;

/// What the agent changed during a run.
#[derive(Debug, Default)]
pub struct AgentHistory {
    /// The run's thresholds.
    pub thresholds: Thresholds,
    /// The methods that the run throttled.
    pub throttled: Throttled,
    /// Patterns whose methods were muted at some time.
    pub muted: Muted,
    /// Loaded classes that were not instrumented for some time.
    pub postponed: Postponed,
}

impl AgentHistory {
    /// Adds a row of counters.
    pub fn add_counter(&mut self, row: &CounterRow) {
        self.thresholds.add(row);
        self.throttled.saw(row.start_ns);
        self.muted.saw(row.start_ns);
    }

    /// Adds an event.
    pub fn add_event(&mut self, row: &EventRow) {
        self.thresholds.add_event(row);
        self.throttled.add_event(row);
        self.muted.add_event(row);
        self.postponed.add_event(row);
    }
}
