//! Anchors: all clocks read at one moment, about once a second. They give the length of a tick, and turn ticks into
//! times.
//!
//! The length of a tick is an average since the first anchor. So it must not include a time in which one clock stood
//! still or jumped: a suspended machine, a restored snapshot, a guest moved to another host. [`Anchors::renew`]
//! compares each second with the average:
//!
//! ```text
//! |ticks as nanoseconds - nanoseconds| over 1% of the longer:
//!     a jump. New anchors begin; the length of a tick stays what it was
//! the same deviation in the next second too, within 1%:
//!     ticks have another length from now on, as on another host
//! ```
//! At least half a second is compared, so 1% is at least 5 ms. An anchor is off by less than the time it took to read
//! the clocks, usually 50 ns; that time is added to the limit.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::reading::{MONOTONIC, NS_PER_2_32_TICKS, SOURCE, monotonic_ns, scale, ticks, unix_ns};

/// Anchors closer than this give a worse tick length than the calibration at the start, which takes some milliseconds:
/// each may be wrong by a tenth of a microsecond.
const MIN_SPAN_NS: u64 = 50_000_000;
/// A shorter time is not compared, or a reading that is off by milliseconds would look like a jump.
const MIN_COMPARED_NS: u64 = 500_000_000;
/// A deviation of up to one in this many is noise, or a difference between clocks that the kernel adjusts.
const NOISE: u64 = 100;
/// The length of a calibration's step, and the most steps.
const CALIBRATION_STEP: Duration = Duration::from_millis(2);
const CALIBRATION_STEPS: u32 = 50;
/// A calibration may be wrong by one in this many.
const CALIBRATION_ERROR: u64 = 1_000;
/// Jumps whose anchors are kept, for calls that began before them.
const REMEMBERED: usize = 8;
/// How long after the last anchor a call may have begun, in nanoseconds.
const AHEAD_NS: u64 = 3_000_000_000;

/// All clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Anchor {
    ticks: u64,
    monotonic_ns: u64,
    unix_ns: u64,
    /// The time it took to read the first two.
    spread_ns: u64,
}

impl Anchor {
    fn take() -> Self {
        // The counter is read between two readings of CLOCK_MONOTONIC; the closest of a few tries counts.
        let mut best = Self { ticks: 0, monotonic_ns: 0, unix_ns: 0, spread_ns: u64::MAX };
        for _ in 0..4 {
            let before = monotonic_ns();
            let ticks = ticks();
            let spread_ns = monotonic_ns().saturating_sub(before);
            if spread_ns < best.spread_ns {
                best = Self { ticks, monotonic_ns: before + spread_ns / 2, unix_ns: 0, spread_ns };
            }
        }
        let behind = monotonic_ns();
        let unix_ns = unix_ns();
        best.unix_ns = unix_ns.saturating_sub(behind.saturating_sub(best.monotonic_ns));
        best
    }
}

/// Two anchors without a jump between them, and the length of a tick in that time.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: Anchor,
    last: Anchor,
    ns_per_2_32: u64,
}

impl Span {
    const fn from(anchor: Anchor, ns_per_2_32: u64) -> Self {
        Self { first: anchor, last: anchor, ns_per_2_32 }
    }

    /// How far these ticks are outside the span, in ticks.
    fn distance(&self, ticks: u64, ahead: u64) -> u64 {
        let end = self.last.ticks.saturating_add(ahead);
        self.first.ticks.saturating_sub(ticks).max(ticks.saturating_sub(end))
    }

    fn unix_ns(&self, ticks: u64) -> u64 {
        let Anchor { ticks: anchor, unix_ns, .. } = self.last;
        if ticks >= anchor {
            unix_ns.saturating_add(scale(ticks - anchor, self.ns_per_2_32))
        } else {
            unix_ns.saturating_sub(scale(anchor - ticks, self.ns_per_2_32))
        }
    }
}

/// How far two clocks advanced in the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Jump {
    /// By the ticks, converted with the previous tick length; negative if they went back.
    pub ticks_ns: i64,
    /// By CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
}

impl Jump {
    fn between(from: &Anchor, to: &Anchor, ns_per_2_32: u64) -> Self {
        let ns = |ticks: u64| i64::try_from(scale(ticks, ns_per_2_32)).unwrap_or(i64::MAX);
        let ticks_ns = match to.ticks.checked_sub(from.ticks) {
            Some(ticks) => ns(ticks),
            None => -ns(from.ticks - to.ticks),
        };
        Self { ticks_ns, monotonic_ns: to.monotonic_ns.saturating_sub(from.monotonic_ns) }
    }

    fn longer(&self) -> u64 {
        self.ticks_ns.unsigned_abs().max(self.monotonic_ns)
    }

    /// Whether the two differ by more than noise.
    fn is_one(&self, noise_ns: u64) -> bool {
        let off = i128::from(self.ticks_ns).abs_diff(i128::from(self.monotonic_ns));
        off > u128::from(self.longer() / NOISE + noise_ns)
    }
}

/// Turns ticks into times.
#[derive(Debug)]
pub(crate) struct Anchors {
    current: Span,
    /// The spans before the last jumps, the newest last.
    earlier: VecDeque<Span>,
    /// The anchor with which the next one is compared.
    compared: Anchor,
    /// The length of a tick in the last comparison, if that found a jump and the ticks advanced.
    other_ns_per_2_32: Option<u64>,
    /// Whether the last comparison found a jump.
    is_jumping: bool,
    /// Whether ticks are CLOCK_MONOTONIC's, so that there is nothing to compare.
    is_monotonic: bool,
    jumps: u64,
}

impl Anchors {
    /// Takes the first anchor.
    pub(crate) fn new() -> Self {
        let is_monotonic = SOURCE.load(Ordering::Relaxed) == MONOTONIC;
        let anchors = Self::from(Anchor::take(), NS_PER_2_32_TICKS.load(Ordering::Relaxed));
        Self { is_monotonic, ..anchors }
    }

    fn from(first: Anchor, ns_per_2_32: u64) -> Self {
        Self {
            current: Span::from(first, ns_per_2_32),
            earlier: VecDeque::new(),
            compared: first,
            other_ns_per_2_32: None,
            is_jumping: false,
            is_monotonic: false,
            jumps: 0,
        }
    }

    /// Takes a new anchor and corrects the length of a tick. Returns the jump if a clock has jumped since the last
    /// anchor; of jumps in successive seconds, only the first.
    pub(crate) fn renew(&mut self) -> Option<Jump> {
        let jump = self.add(Anchor::take());
        NS_PER_2_32_TICKS.store(self.current.ns_per_2_32, Ordering::Relaxed);
        jump
    }

    /// Jumps so far.
    pub(crate) fn jumps(&self) -> u64 {
        self.jumps
    }

    fn add(&mut self, now: Anchor) -> Option<Jump> {
        if self.is_monotonic {
            self.current.last = now;
            return None;
        }
        let found = Jump::between(&self.compared, &now, self.current.ns_per_2_32);
        let is_jump = found.is_one(self.compared.spread_ns.saturating_add(now.spread_ns));
        if found.longer() < MIN_COMPARED_NS {
            self.current.last = now;
            if !is_jump {
                self.measure();
            }
            return None;
        }
        let compared = std::mem::replace(&mut self.compared, now);
        if !is_jump {
            self.current.last = now;
            self.measure();
            self.is_jumping = false;
            self.other_ns_per_2_32 = None;
            return None;
        }
        let other = length(&compared, &now);
        let is_same = |(before, now): (u64, u64)| before.abs_diff(now) <= before / NOISE;
        match other.filter(|now| self.other_ns_per_2_32.is_some_and(|b| is_same((b, *now)))) {
            Some(ns_per_2_32) => {
                self.current = Span { first: compared, last: now, ns_per_2_32 };
                self.is_jumping = false;
                self.other_ns_per_2_32 = None;
                None
            }
            None => {
                self.other_ns_per_2_32 = other;
                self.begin_again(compared, now);
                let is_first = !std::mem::replace(&mut self.is_jumping, true);
                self.jumps += u64::from(is_first);
                is_first.then_some(found)
            }
        }
    }

    /// Begins a new span with `now`; `before` was the last anchor before the jump.
    fn begin_again(&mut self, before: Anchor, now: Anchor) {
        let next = Span::from(now, self.current.ns_per_2_32);
        let mut span = std::mem::replace(&mut self.current, next);
        span.last = before;
        // Spans between successive jumps, each a second long, are not worth keeping.
        if !self.is_jumping {
            if self.earlier.len() == REMEMBERED {
                self.earlier.pop_front();
            }
            self.earlier.push_back(span);
        }
    }

    /// Measures the length of a tick, once the anchors are far enough apart. Setting the time of day does not change
    /// it.
    fn measure(&mut self) {
        let Span { first, last, .. } = &self.current;
        let is_long = last.monotonic_ns.saturating_sub(first.monotonic_ns) >= MIN_SPAN_NS;
        if let Some(ns_per_2_32) = length(first, last).filter(|_| is_long) {
            self.current.ns_per_2_32 = ns_per_2_32;
        }
    }

    /// Converts a reading of the clock to unix nanoseconds. It uses the nearest span, so ticks from before a jump are
    /// converted by anchors from before it.
    pub(crate) fn unix_ns(&self, ticks: u64) -> u64 {
        if self.earlier.is_empty() {
            return self.current.unix_ns(ticks);
        }
        let ahead = u64::try_from(
            (u128::from(AHEAD_NS) << 32) / u128::from(self.current.ns_per_2_32.max(1)),
        );
        let mut nearest = (self.current.distance(ticks, ahead.unwrap_or(u64::MAX)), &self.current);
        for span in self.earlier.iter().rev() {
            let distance = span.distance(ticks, 0);
            if distance < nearest.0 {
                nearest = (distance, span);
            }
        }
        nearest.1.unix_ns(ticks)
    }
}

/// Measures the nanoseconds of 2^32 ticks in some milliseconds; `None` if one of the clocks does not advance. If the
/// thread is off the processor between two readings, its anchor is imprecise, and it measures for longer.
pub(super) fn calibrate() -> Option<u64> {
    let first = Anchor::take();
    let mut last = first;
    for _ in 0..CALIBRATION_STEPS {
        thread::sleep(CALIBRATION_STEP);
        last = Anchor::take();
        let (ns, spread_ns) =
            (last.monotonic_ns - first.monotonic_ns, first.spread_ns + last.spread_ns);
        if spread_ns <= ns / CALIBRATION_ERROR {
            break;
        }
    }
    length(&first, &last)
}

/// Nanoseconds of 2^32 ticks between two anchors; `None` if one of the clocks did not advance.
fn length(from: &Anchor, to: &Anchor) -> Option<u64> {
    let ns = to.monotonic_ns.saturating_sub(from.monotonic_ns);
    let ticks = to.ticks.saturating_sub(from.ticks);
    let per = (u128::from(ns) << 32).checked_div(u128::from(ticks))?;
    u64::try_from(per).ok().filter(|per| *per > 0)
}

#[cfg(test)]
#[path = "anchors_tests.rs"]
mod tests;
