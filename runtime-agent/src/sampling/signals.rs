//! Installs the handlers, once for the life of the process: those of faults, then that of the sampling signal.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Once, OnceLock};

use sampling_handler::load;
use sampling_handler::signal::{self, KernelAction};

use super::{NoSamples, process_timer};
use crate::options::engine::Engine;
use crate::stderr::message;

const DEFAULT: usize = 0;
const IGNORE: usize = 1;

/// The signals that may be used for sampling, in this order: the first that nobody has a handler for.
///
/// No kernel sends SIGSTKFLT, and no profiler takes it. SIGPROF comes late: JFR and other profilers refuse to begin, or
/// replace the handler, where it is taken, and a program that gives it back its default would be ended by a timer.
const CANDIDATES: [libc::c_int; 4] =
    [libc::SIGSTKFLT, libc::SIGVTALRM, libc::SIGPROF, libc::SIGPWR];

/// Whether the handlers of faults could be installed.
static FAULTS: OnceLock<Result<(), NoSamples>> = OnceLock::new();
/// The sampling signal, or why there is none. The process's timer has a signal of its own.
static INSTALLED: OnceLock<Result<libc::c_int, NoSamples>> = OnceLock::new();
static PROCESS_TIMER: OnceLock<Result<libc::c_int, NoSamples>> = OnceLock::new();

/// Installs the handlers if that was not done before. Returns the sampling signal.
///
/// # Errors
/// Why there is none.
pub(super) fn install(engine: Engine) -> Result<libc::c_int, NoSamples> {
    FAULTS.get_or_init(install_faults).clone()?;
    let number = match engine {
        Engine::Perf | Engine::Ctimer => INSTALLED.get_or_init(|| install_one_of(&CANDIDATES)),
        Engine::Itimer => PROCESS_TIMER.get_or_init(|| match INSTALLED.get() {
            Some(Ok(number)) if *number == process_timer::SIGNAL => Ok(*number),
            _ => install_one_of(&[process_timer::SIGNAL]).map_err(|error| match error {
                NoSamples::NoSignal => NoSamples::SignalTaken(name(process_timer::SIGNAL)),
                other => other,
            }),
        }),
    };
    let number = number.clone()?;
    check(number).map(|()| number)
}

/// Looks whether the sampling signal still has its handler. Without it, a timer's signal may end the process.
///
/// # Errors
/// Somebody has removed or replaced it.
pub(super) fn check(number: libc::c_int) -> Result<(), NoSamples> {
    let own = signal::on_signal as *const () as usize;
    match signal::action(number).map(|action| action.handler) {
        Some(handler) if handler == own => Ok(()),
        _ => Err(NoSamples::HandlerGone(name(number))),
    }
}

/// A signal's name.
pub(super) fn name(number: libc::c_int) -> &'static str {
    match number {
        libc::SIGSTKFLT => "SIGSTKFLT",
        libc::SIGVTALRM => "SIGVTALRM",
        libc::SIGPROF => "SIGPROF",
        _ => "SIGPWR",
    }
}

const LIBJVM: &str = "libjvm.so";
const FAULT_SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

fn install_faults() -> Result<(), NoSamples> {
    // The JVM has one handler for all faults, and others seldom take these two.
    let handlers = [libc::SIGFPE, libc::SIGILL].into_iter().chain(FAULT_SIGNALS);
    let mut handlers = handlers.filter_map(|fault| Some(signal::action(fault)?.handler));
    let is_of_jvm = |handler: &usize| library_of(*handler).is_some_and(|name| name == LIBJVM);
    load::set_jvm(handlers.find(is_of_jvm).unwrap_or(DEFAULT));
    FAULT_SIGNALS.into_iter().try_for_each(|fault| install_fault(0, fault))
}

fn install_fault(number: usize, fault: libc::c_int) -> Result<(), NoSamples> {
    let set_before = |fault, before, flags| load::set_before(number, fault, before, flags);
    replace(fault, load::handler(number), set_before)
}

/// If async-profiler has replaced a handler of faults, installs another of ours in front of its handler, once. The
/// handlers of other libraries stay in front: what they do about ours is not known.
pub(super) fn guard_again() {
    static AGAIN: [Once; 2] = [const { Once::new() }; 2];
    for (fault, again) in FAULT_SIGNALS.into_iter().zip(&AGAIN) {
        let is_known = || {
            let library = signal::action(fault).and_then(|now| library_of(now.handler));
            library.is_some_and(|name| name.contains("asyncProfiler"))
        };
        if !load::is_own(fault) && is_known() {
            again.call_once(|| {
                if let Err(error) = install_fault(1, fault) {
                    message!("cpu: {error}");
                }
            });
        }
    }
}

/// The file of the library that has this address.
fn library_of(address: usize) -> Option<String> {
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: `dladdr` takes any address. If it finds something, it sets all fields, and the name lives as long as the
    // library, whose handler is installed.
    let path = unsafe {
        if libc::dladdr(ptr::with_exposed_provenance(address), found.as_mut_ptr()) == 0 {
            return None;
        }
        let path = found.assume_init().dli_fname;
        if path.is_null() {
            return None;
        }
        CStr::from_ptr(path)
    };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    Some(path.file_name()?.to_string_lossy().into_owned())
}

fn install_one_of(candidates: &[libc::c_int]) -> Result<libc::c_int, NoSamples> {
    let own = signal::on_signal as *const () as usize;
    let is_free = |number: &libc::c_int| {
        signal::action(*number).is_some_and(|action| action.handler <= IGNORE)
    };
    let number = candidates.iter().copied().find(is_free).ok_or(NoSamples::NoSignal)?;
    replace(number, own, signal::set_before)?;
    Ok(number)
}

/// Replaces a signal's handler by one that knows the one before. It runs with the same mask and on the same stack.
fn replace(
    number: libc::c_int,
    handler: usize,
    set_before: impl Fn(libc::c_int, usize, usize),
) -> Result<(), NoSamples> {
    let refused = || NoSamples::NoHandler(number);
    let before = signal::action(number).ok_or_else(refused)?;
    set_before(number, before.handler, before.flags);
    // Threads with stacks of their own, as Go has, need the alternate one.
    let own = (libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK).cast_unsigned() as usize;
    let is_handler = before.handler > IGNORE;
    let kept = (libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART).cast_unsigned() as usize;
    let flags = if is_handler {
        libc::SA_SIGINFO.cast_unsigned() as usize | before.flags & kept
    } else {
        own
    };
    let mask = if is_handler { before.mask } else { signal::ALL_BUT_FAULTS };
    let replaced = signal::replace_action(number, &KernelAction::new(handler, flags, mask));
    let replaced = replaced.ok_or_else(refused)?;
    // Somebody else was quicker.
    if replaced.handler != before.handler && replaced.handler != DEFAULT {
        set_before(number, replaced.handler, replaced.flags);
    }
    Ok(())
}
