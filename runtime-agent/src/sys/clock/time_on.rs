//! How long something was on.

use std::sync::atomic::{AtomicU64, Ordering};

use super::reading::monotonic_ns;

/// See the module. One thread turns it on and off.
#[derive(Debug)]
pub(crate) struct TimeOn {
    /// Until it was last turned off, in nanoseconds.
    before_ns: AtomicU64,
    /// When it was turned on; 0 while it is off.
    since_ns: AtomicU64,
}

impl TimeOn {
    pub(crate) const fn new() -> Self {
        Self { before_ns: AtomicU64::new(0), since_ns: AtomicU64::new(0) }
    }

    pub(crate) fn begin(&self) {
        self.since_ns.store(monotonic_ns(), Ordering::Relaxed);
    }

    /// Turns it off, if it is on.
    pub(crate) fn end(&self) {
        self.before_ns.store(self.ns(), Ordering::Relaxed);
        self.since_ns.store(0, Ordering::Relaxed);
    }

    /// How long it was on until now, in nanoseconds.
    pub(crate) fn ns(&self) -> u64 {
        let since_ns = self.since_ns.load(Ordering::Relaxed);
        let now = if since_ns == 0 { 0 } else { monotonic_ns().saturating_sub(since_ns) };
        self.before_ns.load(Ordering::Relaxed) + now
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_add_up_and_pauses_do_not_count() {
        let time = TimeOn::new();
        time.end();
        assert_eq!(time.ns(), 0);
        time.begin();
        sleep(Duration::from_millis(5));
        let on = time.ns();
        time.end();
        let first = time.ns();
        assert!(on >= 5_000_000 && first >= on, "{on} {first}");
        sleep(Duration::from_millis(5));
        assert_eq!(time.ns(), first);
        time.begin();
        sleep(Duration::from_millis(5));
        assert!(time.ns() >= first + 5_000_000);
    }
}
