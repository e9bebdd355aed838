//! Loads from memory that may not be mapped, without a crash: the handler of SIGSEGV and SIGBUS lets a load that
//! faults go on with another value.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::sys::{self, Context, Info, Restored};

/// What a load that faults returns. If memory has this value, the load is repeated with another one.
const FAULTED: usize = 0x7470_6661_756c_7465;

/// Loads that faulted so far.
static FAULTS: AtomicU64 = AtomicU64::new(0);

/// How many handlers there are. If another library replaces the first, the second can be installed in front of that
/// library's. Both pass on what is not theirs, so the library reaches the first as before.
const HANDLERS: usize = 2;

/// By handler: those of SIGSEGV and of SIGBUS that it replaced; 0 is the default. Set before it is installed.
static BEFORE: [[Before; 2]; HANDLERS] = [const { [const { Before::new() }; 2] }; HANDLERS];

/// The JVM's handler. A library that installs its handler before ours, and later once more, passes faults on to ours,
/// and ours to its handler, without end. So the JVM gets a fault that comes back.
static JVM: AtomicUsize = AtomicUsize::new(0);

struct Before {
    handler: AtomicUsize,
    flags: AtomicUsize,
}

impl Before {
    const fn new() -> Self {
        Self { handler: AtomicUsize::new(0), flags: AtomicUsize::new(0) }
    }

    fn of(number: usize, signal: c_int) -> Option<&'static Self> {
        let [segv, bus] = BEFORE.get(number)?;
        Some(if signal == sys::SIGBUS { bus } else { segv })
    }
}

/// The word at an address, or `None` if it cannot be read.
#[inline]
#[must_use]
pub fn word(address: usize) -> Option<usize> {
    // SAFETY: a load that faults goes on, because a handler is installed.
    let value = unsafe { sys::load(address, FAULTED) };
    // SAFETY: as above.
    if value == FAULTED && unsafe { sys::load(address, 0) } == 0 { None } else { Some(value) }
}

/// Whether faults come to one of our handlers: somebody may have replaced it.
#[must_use]
pub fn is_guarded() -> bool {
    is_own(sys::SIGSEGV) && is_own(sys::SIGBUS)
}

/// Whether this signal comes to one of our handlers.
#[must_use]
pub fn is_own(signal: c_int) -> bool {
    let now = sys::sigaction(signal, None).map_or(0, |now| now.handler);
    now == handler(0) || now == handler(1)
}

/// The address of a handler.
#[must_use]
pub fn handler(number: usize) -> usize {
    if number == 0 {
        on_fault as *const () as usize
    } else {
        on_fault_in_front as *const () as usize
    }
}

/// How many loads faulted so far.
#[must_use]
pub fn faults() -> u64 {
    FAULTS.load(Ordering::Relaxed)
}

/// Sets what a handler calls for faults of others: the handler that it replaces.
pub fn set_before(number: usize, signal: c_int, handler: usize, flags: usize) {
    let Some(before) = Before::of(number, signal) else { return };
    before.handler.store(handler, Ordering::Relaxed);
    before.flags.store(flags, Ordering::Release);
}

/// Sets the JVM's own handler.
pub fn set_jvm(handler: usize) {
    JVM.store(handler, Ordering::Release);
}

/// The first handler of SIGSEGV and SIGBUS.
///
/// # Safety
/// Only the kernel calls it, as a handler installed with SA_SIGINFO.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: as they came.
    unsafe { skip_or_pass_on(0, signal, info, context) };
}

/// The one in front of another that replaced the first.
///
/// # Safety
/// Only the kernel calls it, as a handler installed with SA_SIGINFO.
unsafe extern "C" fn on_fault_in_front(signal: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: as they came.
    unsafe { skip_or_pass_on(1, signal, info, context) };
}

/// Faults that are not of a guarded load are passed on as they came.
///
/// # Safety
/// The arguments are those of a signal's handler.
unsafe fn skip_or_pass_on(number: usize, signal: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: the kernel's context of this signal.
    let mut registers = unsafe { Context::new(context) };
    if registers.skip_load() {
        FAULTS.fetch_add(1, Ordering::Relaxed);
        return;
    }
    // SAFETY: signal, info and context are as they came.
    unsafe { pass_on(number, signal, info, context) };
}

/// Calls the handler that was there before, or the JVM's if that one has given the signal back.
///
/// # Safety
/// The arguments are those of a signal's handler.
unsafe fn pass_on(number: usize, signal: c_int, info: *mut c_void, context: *mut c_void) {
    let Some(before) = Before::of(number, signal) else { return };
    let call = |has_come_back: bool| {
        let (handler, flags) = if has_come_back {
            (JVM.load(Ordering::Acquire), sys::SA_SIGINFO)
        } else {
            (before.handler.load(Ordering::Relaxed), before.flags.load(Ordering::Acquire))
        };
        // SAFETY: signal, info and context are as they came.
        unsafe { call(handler, flags, signal, info, context) };
    };
    // SAFETY: the kernel's information of this signal.
    unsafe { Info::marked(info, number, call) };
}

/// Calls a handler.
///
/// # Safety
/// It was installed with these flags; the others are the arguments of a signal's handler.
unsafe fn call(
    handler: usize,
    flags: usize,
    signal: c_int,
    info: *mut c_void,
    context: *mut c_void,
) {
    const DEFAULT: usize = 0;
    const IGNORE: usize = 1;
    // SAFETY: the kernel's information of this signal.
    let how = unsafe { Restored::of_info(info) };
    match handler {
        // What faulted faults again, and gets the default; what was sent is sent again.
        DEFAULT => sys::restore_default(signal, how),
        IGNORE if how == Restored::Sent => {}
        IGNORE => sys::restore_default(signal, Restored::Fault),
        _ if flags & sys::SA_SIGINFO != 0 => {
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
