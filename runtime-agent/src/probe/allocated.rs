//! What a thread has allocated, from the counter in HotSpot's structure of the thread: what
//! `ThreadMXBean.getThreadAllocatedBytes` reads, without a call. `hotspot::allocated_bytes` says where it is.
//!
//! It is read when the outermost call of a thread begins, and again when that call is recorded. Other calls would each
//! need a place in their frame and a nanosecond.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicUsize, Ordering};

use jvmti_bindings::prelude::jni;

/// Where the counter is, as distances from the thread's JNI environment; the first is 0 while nobody knows.
static COUNTED: AtomicUsize = AtomicUsize::new(0);
static BUFFER_START: AtomicUsize = AtomicUsize::new(0);
static BUFFER_TOP: AtomicUsize = AtomicUsize::new(0);

/// HotSpot makes no larger buffer: it has to be able to fill one with an `int[]`.
const MOST_BUFFERED: u64 = 1 << 33;

/// Not known.
const UNKNOWN: u64 = u64::MAX;

/// Where the counter is: bytes of full buffers and of objects outside of them, and the buffer in use. Distances from
/// the thread's JNI environment, which wrap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub counted: usize,
    pub buffer_start: usize,
    pub buffer_top: usize,
}

/// The JVM, which knows each thread's environment.
static VM: AtomicPtr<jni::JavaVM> = AtomicPtr::new(ptr::null_mut());

/// From now on the counter is read there.
///
/// # Safety
/// Each Java thread of this JVM has these words there.
pub(crate) unsafe fn set(vm: *mut jni::JavaVM, places: Places) {
    VM.store(vm, Ordering::Relaxed);
    BUFFER_START.store(places.buffer_start, Ordering::Relaxed);
    BUFFER_TOP.store(places.buffer_top, Ordering::Relaxed);
    COUNTED.store(places.counted, Ordering::Release);
}

/// Nobody reads the counter any more.
pub(crate) fn forget() {
    COUNTED.store(0, Ordering::Relaxed);
}

/// Whether the counter can be read.
pub(crate) fn is_known() -> bool {
    COUNTED.load(Ordering::Relaxed) != 0
}

/// A reading of the counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reading {
    /// Bytes of full buffers, and of objects outside of them.
    counted: u64,
    /// The buffer in use: where it begins, and how far it is full.
    start: u64,
    top: u64,
}

impl Reading {
    /// That of the thread with this JNI environment; `None` while nobody knows where it is.
    #[inline(always)]
    fn of(environment: usize) -> Option<Self> {
        let counted = COUNTED.load(Ordering::Acquire);
        if counted == 0 {
            return None;
        }
        // SAFETY: the caller of `set` promised it, and a thread's structure lives as long as its environment. They are
        // aligned words.
        let word = |distance: usize| unsafe {
            let at = ptr::with_exposed_provenance::<AtomicI64>(environment.wrapping_add(distance));
            (*at).load(Ordering::Relaxed).cast_unsigned()
        };
        let [start, top] =
            [&BUFFER_START, &BUFFER_TOP].map(|place| word(place.load(Ordering::Relaxed)));
        Some(Self { counted: word(counted), start, top })
    }

    #[inline(always)]
    fn bytes(self) -> u64 {
        self.counted.wrapping_add(self.top.wrapping_sub(self.start))
    }

    /// Whether its words belong together: while a collection takes the buffer away, they may not.
    #[inline(always)]
    fn is_whole(self) -> bool {
        self.top.wrapping_sub(self.start) <= MOST_BUFFERED
    }
}

/// How often to read until two readings agree.
const READINGS: u32 = 8;
/// A collection takes less from counting a buffer until it is gone, unless it loses its processor in between: then the
/// buffer counts twice.
const PAUSES: u32 = 10;

/// A reading that has stayed the same for a while. A collection does not wait for a thread in native code: it counts
/// the thread's buffer, and a moment later takes it away.
#[cold]
fn settled(read: impl Fn() -> Option<Reading>) -> Option<Reading> {
    let mut before = read()?;
    for _ in 0..READINGS {
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
        let now = read()?;
        if now == before && now.is_whole() {
            return Some(now);
        }
        before = now;
    }
    None
}

/// The bytes that the calling thread has allocated; `None` if nobody knows.
fn now() -> Option<u64> {
    let vm = VM.load(Ordering::Relaxed);
    if !is_known() || vm.is_null() {
        return None;
    }
    let mut environment = ptr::null_mut();
    // SAFETY: the JVM's own table. It writes the environment of this thread, if it is one of the JVM's.
    let found = unsafe { ((**vm).GetEnv)(vm, &raw mut environment, jni::JNI_VERSION_1_6) };
    let is_found = found == jni::JNI_OK && !environment.is_null();
    let environment = is_found.then(|| environment.expose_provenance())?;
    settled(|| Reading::of(environment)).map(Reading::bytes)
}

/// The bytes that the calling thread allocates in `work`; `None` if nobody knows.
pub(crate) fn in_work(work: impl FnOnce()) -> Option<u64> {
    let before = now()?;
    work();
    now()?.checked_sub(before)
}

/// What a thread had allocated when its outermost call began. Only the thread uses it.
#[derive(Debug)]
pub(super) struct Noted {
    bytes: Cell<u64>,
    /// The last reading that was looked at twice.
    counted: Cell<u64>,
    start: Cell<u64>,
}

impl Noted {
    pub(super) const fn new() -> Self {
        Self { bytes: Cell::new(UNKNOWN), counted: Cell::new(0), start: Cell::new(0) }
    }

    /// The outermost call begins. `environment` is the address of the thread's JNI environment.
    #[inline(always)]
    pub(super) fn begin(&self, environment: usize) {
        self.begin_by(|| Reading::of(environment));
    }

    #[inline(always)]
    fn begin_by(&self, read: impl Fn() -> Option<Reading>) {
        let bytes = match read() {
            None => UNKNOWN,
            // In the buffer that was seen before, and none was counted since: no collection is at it.
            Some(now)
                if now.counted == self.counted.get()
                    && now.start == self.start.get()
                    && now.is_whole() =>
            {
                now.bytes()
            }
            Some(_) => self.begin_in_another(read),
        };
        self.bytes.set(bytes);
    }

    /// In another buffer, or after one was counted.
    #[cold]
    fn begin_in_another(&self, read: impl Fn() -> Option<Reading>) -> u64 {
        let Some(now) = settled(read) else { return UNKNOWN };
        self.counted.set(now.counted);
        self.start.set(now.start);
        now.bytes()
    }

    /// It is not known what the outermost call allocates.
    pub(super) fn forget(&self) {
        self.bytes.set(UNKNOWN);
    }

    /// What the outermost call has allocated until now, if that is known.
    pub(super) fn since(&self) -> Option<u64> {
        let before = self.bytes.get();
        if before == UNKNOWN { None } else { now()?.checked_sub(before) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings one after the other, the last one again and again.
    fn reads(readings: &[Option<Reading>]) -> impl Fn() -> Option<Reading> + '_ {
        let next = Cell::new(0);
        move || {
            let place = next.get();
            next.set(place + 1);
            readings[place.min(readings.len() - 1)]
        }
    }

    fn reading(counted: u64, start: u64, top: u64) -> Option<Reading> {
        Some(Reading { counted, start, top })
    }

    #[test]
    fn a_buffer_that_a_collection_takes_counts_once() {
        let noted = Noted::new();
        let bytes = |readings: &[Option<Reading>]| {
            noted.begin_by(reads(readings));
            noted.bytes.get()
        };
        assert_eq!(bytes(&[reading(100, 1_000, 1_050)]), 150);
        assert_eq!(bytes(&[reading(100, 1_000, 1_070), None]), 170);
        // The collection has counted it, but not yet taken it away.
        let counted = reading(170, 1_000, 1_070);
        assert_eq!(bytes(&[counted, counted, reading(170, 0, 1_070), reading(170, 0, 0)]), 170);
        // It takes it away between two words.
        assert_eq!(bytes(&[reading(170, 2_000, 2_010)]), 180);
        assert_eq!(bytes(&[reading(170, 2_000, 0), reading(180, 0, 0)]), 180);
        // An object outside of a buffer.
        assert_eq!(bytes(&[reading(5_180, 0, 0)]), 5_180);
        // Without end.
        let next = Cell::new(0);
        let other = || reading(next.replace(next.get() + 1), 0, 0);
        noted.begin_by(other);
        assert_eq!((noted.bytes.get(), noted.since()), (UNKNOWN, None));
        assert_eq!(bytes(&[None]), UNKNOWN);
    }
}
