//! Reads the clocks.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use log_format::ids::OsThreadId;

/// The counter with its calibration.
pub(super) static COUNTER: OnceLock<quanta::Clock> = OnceLock::new();

/// What the probe reads: 0 before a clock is chosen, then one of the values below.
pub(super) static SOURCE: AtomicU8 = AtomicU8::new(0);
pub(super) const MONOTONIC: u8 = 1;
pub(super) const COUNTS: u8 = 2;

/// What the processor's manual calls the counter.
const COUNTER_NAME: &str = if cfg!(target_arch = "aarch64") { "cntvct" } else { "tsc" };

/// Nanoseconds of 2^32 ticks if a tick is a nanosecond.
pub(super) const NANOSECONDS: u64 = 1 << 32;

/// Nanoseconds of 2^32 ticks.
pub(super) static NS_PER_2_32_TICKS: AtomicU64 = AtomicU64::new(NANOSECONDS);

/// Whether [`counter`] is the clock.
#[inline]
pub(crate) fn is_counter() -> bool {
    cfg!(target_arch = "x86_64") && SOURCE.load(Ordering::Relaxed) == COUNTS
}

/// Reads the processor's counter. Use it only if it is the clock.
#[inline]
pub(crate) fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    other_ticks()
}

/// The current ticks; CLOCK_MONOTONIC's before a clock is chosen.
#[inline]
pub(crate) fn ticks() -> u64 {
    if is_counter() { counter() } else { other_ticks() }
}

fn other_ticks() -> u64 {
    match COUNTER.get() {
        Some(clock) if SOURCE.load(Ordering::Relaxed) == COUNTS => clock.raw(),
        _ => monotonic_ticks(),
    }
}

/// CLOCK_MONOTONIC, in nanoseconds.
fn monotonic_ticks() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to the variable, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let [seconds, nanos] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Converts ticks to nanoseconds, with the best known length of a tick.
#[inline]
pub(crate) fn ticks_to_ns(ticks: u64) -> u64 {
    scale(ticks, NS_PER_2_32_TICKS.load(Ordering::Relaxed))
}

/// Converts nanoseconds to ticks, rounded up, so that `ticks_to_ns` gives at least as many.
pub(crate) fn ns_to_ticks(ns: u64) -> u64 {
    let per = u128::from(NS_PER_2_32_TICKS.load(Ordering::Relaxed).max(1));
    u64::try_from((u128::from(ns) << 32).div_ceil(per)).unwrap_or(u64::MAX)
}

/// Converts ticks to nanoseconds. A counter that jumped can give more than fit into a `u64`.
#[inline]
pub(super) fn scale(ticks: u64, ns_per_2_32: u64) -> u64 {
    u64::try_from((u128::from(ticks) * u128::from(ns_per_2_32)) >> 32).unwrap_or(u64::MAX)
}

/// The probe's clock: `tsc` (x86-64), `cntvct` (aarch64) or `monotonic`; `none` before one is chosen.
pub(crate) fn source() -> &'static str {
    match SOURCE.load(Ordering::Relaxed) {
        MONOTONIC => "monotonic",
        COUNTS => COUNTER_NAME,
        _ => "none",
    }
}

/// The current time in unix nanoseconds.
pub(crate) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// CLOCK_MONOTONIC, which `Instant` reads, from an arbitrary start.
pub(crate) fn monotonic_ns() -> u64 {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    // One second ahead, so that no reading is 0.
    let since = START.get_or_init(std::time::Instant::now).elapsed();
    1_000_000_000 + u64::try_from(since.as_nanos()).unwrap_or(u64::MAX - 1_000_000_000)
}

/// The CPU time of the process, in nanoseconds.
pub(crate) fn process_cpu_ns() -> u64 {
    cpu_ns_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The CPU time of the calling thread, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    cpu_ns_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The CPU time of a thread, in nanoseconds; 0 if it has ended.
pub(crate) fn cpu_ns_of_thread(thread: OsThreadId) -> u64 {
    cpu_ns_of(clock_of(thread))
}

/// The clock of a thread's CPU time, as the kernel numbers it.
pub(crate) fn clock_of(thread: OsThreadId) -> libc::clockid_t {
    const PER_THREAD: u32 = 4;
    const SCHEDULED: u32 = 2;
    (!thread.get() << 3 | PER_THREAD | SCHEDULED).cast_signed()
}

/// The value of a CPU-time clock, in nanoseconds; 0 if it cannot be read.
#[allow(unsafe_code)]
pub(crate) fn cpu_ns_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the variable.
    let done = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if done != 0 {
        return 0;
    }
    let (s, ns) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    s * 1_000_000_000 + ns
}
