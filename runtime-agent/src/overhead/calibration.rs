//! What a call's probes cost in a loop of their own.

use std::time::{Duration, Instant};

use jvmti_bindings::env::JniEnv;

use crate::jvm::probe_class::ProbeClass;
use crate::probe::CALIBRATION;

/// Calls of a batch: a millisecond or two.
const CALLS: i32 = 20_000;
/// Batch n comes so many times n * n after the first. A busy JVM compiles the loop late, and the first batches say
/// little: the last one comes after 15 s.
const GAP: Duration = Duration::from_millis(10);
const BATCHES: u32 = 40;
/// After so many batches, the best one counts.
const ENOUGH: u32 = 20;
/// Until then, a call costs no more than this many nanoseconds.
pub(super) const FIRST_GUESS_NS: f64 = 40.0;

/// Measures it in batches.
#[derive(Debug, Default)]
pub(super) struct Calibration {
    began: Option<Instant>,
    batches: u32,
    best: Option<Duration>,
}

impl Calibration {
    /// Makes a batch of calls, if one is due. Returns what a call costs in nanoseconds, if that may be new.
    pub(super) fn go_on(&mut self, probe_class: &ProbeClass, jni: &JniEnv) -> Option<f64> {
        let since = self.began.get_or_insert_with(Instant::now).elapsed();
        if self.batches >= BATCHES || since < GAP * self.batches * self.batches {
            return None;
        }
        self.batches += 1;
        let began = Instant::now();
        probe_class.calibrate(jni, CALLS, CALIBRATION);
        let took = began.elapsed();
        let best = *self.best.insert(self.best.map_or(took, |best| best.min(took)));
        let ns = best.as_secs_f64() * 1e9 / f64::from(CALLS);
        Some(if self.is_known() { ns } else { ns.min(FIRST_GUESS_NS) })
    }

    /// Whether the cost is known by now.
    pub(super) fn is_known(&self) -> bool {
        self.batches >= ENOUGH
    }
}
