//! The clock of a run: corrects it, and reports jumps and lost trust on stderr.

use crate::probe;
use crate::stderr::message;
use crate::sys::clock::{self, Anchors, Jump, Watch};

/// Jumps that are reported one by one.
const REPORTED_JUMPS: u64 = 3;

/// The clock that the probe reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockFigures {
    /// `tsc`, `cntvct` (arm64) or `monotonic`.
    pub source: &'static str,
    /// How often it jumped, as when the machine was suspended.
    pub jumps: u64,
}

pub(super) struct RunClock {
    pub anchors: Anchors,
    watch: Watch,
}

impl RunClock {
    pub(super) fn new() -> Self {
        Self { anchors: Anchors::new(), watch: Watch::default() }
    }

    /// Corrects the clock. Returns whether it has jumped.
    pub(super) fn renew(&mut self) -> bool {
        let jump = self.anchors.renew();
        // The length of a tick may have changed.
        probe::renew_ticks();
        if self.watch.loses_trust(jump.is_some()) {
            message!(
                "the kernel no longer trusts the processor's counter, which is the clock of this run: times may be \
                 wrong from now on; the next run takes CLOCK_MONOTONIC"
            );
        }
        if let Some(jump) = jump {
            self.tell(jump);
        }
        jump.is_some()
    }

    /// How often it has jumped.
    pub(super) fn jumps(&self) -> u64 {
        self.anchors.jumps()
    }

    pub(super) fn figures(&self) -> ClockFigures {
        ClockFigures { source: clock::source(), jumps: self.jumps() }
    }

    fn tell(&self, Jump { ticks_ns, monotonic_ns }: Jump) {
        let end = match self.jumps() {
            0..REPORTED_JUMPS => "",
            REPORTED_JUMPS => "; later jumps are only counted",
            _ => return,
        };
        // More digits are of no use.
        let [ticks_ms, monotonic_ms] =
            [ticks_ns / 1_000_000, i64::try_from(monotonic_ns / 1_000_000).unwrap_or(i64::MAX)];
        message!(
            "clock jumped: the processor's counter went {ticks_ms} ms, CLOCK_MONOTONIC \
             {monotonic_ms} ms; calls in progress have the counter's time (clock=monotonic avoids \
             that){end}"
        );
    }
}
