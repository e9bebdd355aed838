//! How many bytes of an hour's log were written of what is sampled.

use log_format::file_names::Hour;

/// See the module.
#[derive(Debug)]
pub(super) struct SampledBytes {
    pub hour: Hour,
    pub samples: u64,
    pub lock_waits: u64,
    pub slow_sql: u64,
    pub allocations: u64,
    pub traces: u64,
    pub examples: u64,
}

impl SampledBytes {
    pub(super) const fn of(hour: Hour) -> Self {
        Self {
            hour,
            samples: 0,
            lock_waits: 0,
            slow_sql: 0,
            allocations: 0,
            traces: 0,
            examples: 0,
        }
    }
}
