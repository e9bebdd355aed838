//! A native agent that installs its handler of SIGSEGV again every tenth of a second if there is another, and passes
//! every fault on to the one it found last.
#![allow(unsafe_code, missing_docs)]

use std::ffi::{c_char, c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

static BEFORE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_fault(signal: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: the JVM and the agent install handlers with SA_SIGINFO.
    let before: extern "C" fn(c_int, *mut c_void, *mut c_void) =
        unsafe { mem::transmute(BEFORE.load(Ordering::Acquire)) };
    before(signal, info, context);
}

fn install() {
    let own = on_fault as *const () as usize;
    // SAFETY: both structures are valid, and zeros are a valid action.
    unsafe {
        let mut before: libc::sigaction = mem::zeroed();
        libc::sigaction(libc::SIGSEGV, ptr::null(), &raw mut before);
        if before.sa_sigaction == own {
            return;
        }
        BEFORE.store(before.sa_sigaction, Ordering::Release);
        before.sa_sigaction = own;
        libc::sigaction(libc::SIGSEGV, &raw const before, ptr::null_mut());
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn Agent_OnLoad(
    _vm: *mut c_void,
    _options: *const c_char,
    _reserved: *mut c_void,
) -> c_int {
    // The JVM has installed its own by now, the other agent not.
    install();
    thread::spawn(|| {
        loop {
            thread::sleep(Duration::from_millis(100));
            install();
        }
    });
    0
}
