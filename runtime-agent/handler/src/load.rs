//! Loads from memory that may not be mapped, without a crash: the handler of SIGSEGV and SIGBUS lets a load that
//! faults go on with another value.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::sys::{self, Context, Restored};

/// What a load that faults returns. If memory has this value, the load is repeated with another one.
const FAULTED: usize = 0x7470_6661_756c_7465;

/// Loads that faulted so far.
static FAULTS: AtomicU64 = AtomicU64::new(0);

/// The handler of SIGSEGV and of SIGBUS before ours; 0 is the default. Set before ours is installed.
static BEFORE: [Before; 2] = [const { Before::new() }; 2];

struct Before {
    handler: AtomicUsize,
    flags: AtomicUsize,
}

impl Before {
    const fn new() -> Self {
        Self { handler: AtomicUsize::new(0), flags: AtomicUsize::new(0) }
    }

    fn of(signal: c_int) -> &'static Self {
        let [segv, bus] = &BEFORE;
        if signal == sys::SIGBUS { bus } else { segv }
    }
}

/// The word at an address, or `None` if it cannot be read.
#[inline]
#[must_use]
pub fn word(address: usize) -> Option<usize> {
    // SAFETY: a load that faults goes on, because `on_fault` is installed.
    let value = unsafe { sys::load(address, FAULTED) };
    // SAFETY: as above.
    if value == FAULTED && unsafe { sys::load(address, 0) } == 0 { None } else { Some(value) }
}

/// Whether faults come to [`on_fault`]: somebody may have replaced it.
#[must_use]
pub fn is_guarded() -> bool {
    let own = on_fault as *const () as usize;
    let is_own = |signal| sys::sigaction(signal, None).is_some_and(|now| now.handler == own);
    is_own(sys::SIGSEGV) && is_own(sys::SIGBUS)
}

/// How many loads faulted so far.
#[must_use]
pub fn faults() -> u64 {
    FAULTS.load(Ordering::Relaxed)
}

/// Sets what [`on_fault`] calls for faults of others: the handler that it replaces.
pub fn set_before(signal: c_int, handler: usize, flags: usize) {
    let before = Before::of(signal);
    before.handler.store(handler, Ordering::Relaxed);
    before.flags.store(flags, Ordering::Release);
}

/// The handler of SIGSEGV and SIGBUS. Faults that are not of a guarded load are passed on as they came.
///
/// # Safety
/// Only the kernel calls it, as a handler installed with SA_SIGINFO.
pub unsafe extern "C" fn on_fault(signal: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: the kernel's context of this signal.
    let mut registers = unsafe { Context::new(context) };
    if registers.skip_load() {
        FAULTS.fetch_add(1, Ordering::Relaxed);
        return;
    }
    // SAFETY: signal, info and context are as they came.
    unsafe { pass_on(signal, info, context) };
}

/// Calls the handler that was there before.
///
/// # Safety
/// The arguments are those of a signal's handler.
unsafe fn pass_on(signal: c_int, info: *mut c_void, context: *mut c_void) {
    const DEFAULT: usize = 0;
    const IGNORE: usize = 1;
    let before = Before::of(signal);
    let handler = before.handler.load(Ordering::Relaxed);
    // SAFETY: the kernel's information of this signal.
    let how = unsafe { Restored::of_info(info) };
    match handler {
        // What faulted faults again, and gets the default; what was sent is sent again.
        DEFAULT => sys::restore_default(signal, how),
        IGNORE if how == Restored::Sent => {}
        IGNORE => sys::restore_default(signal, Restored::Fault),
        _ if before.flags.load(Ordering::Acquire) & sys::SA_SIGINFO != 0 => {
            // SAFETY: the handler was installed with SA_SIGINFO, so it has these parameters.
            let handler: extern "C" fn(c_int, *mut c_void, *mut c_void) =
                unsafe { core::mem::transmute(handler) };
            handler(signal, info, context);
        }
        _ => {
            // SAFETY: the handler was installed without SA_SIGINFO, so it has this parameter.
            let handler: extern "C" fn(c_int) = unsafe { core::mem::transmute(handler) };
            handler(signal);
        }
    }
}
