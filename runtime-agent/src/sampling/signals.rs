//! Installs the handlers, once for the life of the process: those of faults, then that of the sampling signal.
#![allow(unsafe_code)]

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

const FAULT_SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

fn install_faults() -> Result<(), NoSamples> {
    FAULT_SIGNALS.into_iter().try_for_each(|fault| install_fault(0, fault))
}

fn install_fault(number: usize, fault: libc::c_int) -> Result<(), NoSamples> {
    let set_before = |fault, before, flags| load::set_before(number, fault, before, flags);
    replace(fault, load::handler(number), set_before)
}

/// Where somebody has replaced a handler of faults by one of his own, as async-profiler does, puts another of ours in
/// front of that one, once.
pub(super) fn guard_again() {
    static AGAIN: [Once; 2] = [const { Once::new() }; 2];
    for (fault, again) in FAULT_SIGNALS.into_iter().zip(&AGAIN) {
        let is_others = || signal::action(fault).is_some_and(|now| now.handler > IGNORE);
        if !load::is_own(fault) && is_others() {
            again.call_once(|| {
                if let Err(error) = install_fault(1, fault) {
                    message!("cpu: {error}");
                }
            });
        }
    }
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
