//! Finds where HotSpot counts what a thread has allocated, so that probes can read it; see [`allocated`].
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

use jvmti_bindings::env::{JniEnv, Jvmti};

use super::tables::Tables;
use super::thread_list::ThreadList;
use crate::options::{Pretend, Trick};
use crate::probe::allocated::{self, Places};
use crate::self_test::cpu_time;
use crate::self_test::verdict::Verdict;

/// Bytes of the array that tries it out: with its header they fit into any buffer.
const TRIED: i32 = 1_000;
/// A collection may run meanwhile.
const ATTEMPTS: u32 = 3;
/// Most that the JVM adds to an array: its header and the alignment of objects.
const MOST_ADDED: u64 = 16 + 256;

static FOUND: AtomicU8 = AtomicU8::new(Verdict::Plain as u8);

/// Whether probes can read the counter.
pub(crate) fn found() -> Verdict {
    Verdict::of(FOUND.load(Ordering::Relaxed))
}

/// Lets probes read the counter, if it is wanted, this JVM says where it is, and it counts an array right. Otherwise
/// recorded calls do not say what they allocated.
pub(crate) fn find(jvmti: &Jvmti, jni: &JniEnv, is_wanted: bool, pretend: &Pretend) {
    let verdict = match is_wanted {
        false => Verdict::Plain,
        true if cpu_time::timed(|| works(jvmti, jni, pretend)) => Verdict::Works,
        true => Verdict::Fails,
    };
    if verdict != Verdict::Works {
        allocated::forget();
    }
    FOUND.store(verdict as u8, Ordering::Relaxed);
}

/// Whether the counter is found, and right.
fn works(jvmti: &Jvmti, jni: &JniEnv, pretend: &Pretend) -> bool {
    let Some((vm, places)) = places(jvmti, jni) else { return false };
    // SAFETY: HotSpot's own tables say so, and where a thread's environment is in its structure was measured.
    unsafe { allocated::set(vm, places) };
    !pretend.fails(Trick::AllocatedBytes) && (0..ATTEMPTS).any(|_| counts_right(jni))
}

fn places(
    jvmti: &Jvmti,
    jni: &JniEnv,
) -> Option<(*mut jvmti_bindings::prelude::jni::JavaVM, Places)> {
    let tables = Tables::read()?;
    let environment = ThreadList::new(&tables, jvmti, jni).ok()?.environment();
    let [counted, mut start, top] =
        tables.allocated_bytes()?.map(|at| at.wrapping_sub(environment));
    if tables.is_on("UseTLAB") == Some(false) {
        // There is no buffer, and what is in its place means nothing on JDK 11.
        start = top;
    }
    let mut vm = ptr::null_mut();
    // SAFETY: the JVM's own table, in a thread of the JVM. It writes its address to the variable.
    let found = unsafe { ((**jni.raw()).GetJavaVM)(jni.raw(), &raw mut vm) };
    let places = Places { counted, buffer_start: start, buffer_top: top };
    (found == 0 && !vm.is_null() && counted != 0).then_some((vm, places))
}

/// Whether the counter grows by an array that this thread makes.
fn counts_right(jni: &JniEnv) -> bool {
    let grown = allocated::in_work(|| {
        // SAFETY: the JVM's own table, in a thread of the JVM; the reference is this thread's.
        unsafe {
            let array = ((**jni.raw()).NewByteArray)(jni.raw(), TRIED);
            if array.is_null() {
                jni.exception_clear();
            } else {
                jni.delete_local_ref(array);
            }
        }
    });
    let least = u64::from(TRIED.unsigned_abs());
    grown.is_some_and(|bytes| (least..=least + MOST_ADDED).contains(&bytes))
}
