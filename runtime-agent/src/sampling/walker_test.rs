//! Tests the stack walker at the start: walks of threads that stand still find what the JVM says of the same stacks.
#![allow(unsafe_code)]

use std::thread;
use std::time::Duration;

use jvmti_bindings::env::Jvmti;
use jvmti_bindings::prelude::{jni, jvmti};
use sampling_handler::vm_layout::Layout;
use sampling_handler::walk::{End, Frame, MAX_FRAMES};

use super::NoSamples;
use super::off_cpu::walk;
use crate::hotspot::method_ids;
use crate::hotspot::thread_list::{ListedThread, ThreadList};
use crate::sys::clock;

/// How a walk compares with what the JVM says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    Same,
    /// While a carrier mounts or unmounts a virtual thread, the JVM hides the innermost frames.
    Hidden,
    Differs,
}

/// How often a stack that differs is compared again.
const AGAIN: usize = 5;

/// Compares the walk of a thread; `None` if it ran meanwhile, or has no whole stack.
fn compare_one(thread: &ListedThread<'_, '_>, layout: &Layout, jvmti: &Jvmti) -> Option<Compared> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // 256.
    const DEPTH: jni::jint = MAX_FRAMES as jni::jint;
    let before_ns = clock::cpu_ns_of_thread(thread.os_id);
    if before_ns == 0 {
        return None;
    }
    let Some((End::Whole, frames)) = walk(layout, thread.java_thread) else { return None };
    // SAFETY: a live reference of this thread.
    let said = unsafe { jvmti.get_stack_trace(thread.object, 0, DEPTH) }.ok()?;
    if clock::cpu_ns_of_thread(thread.os_id) != before_ns || !thread.is_alive() {
        return None;
    }
    // A method that a redefinition deleted has no newest version.
    let is_same = |(frame, said): (&Frame, &jvmti::jvmtiFrameInfo)| {
        [said.method.addr(), method_ids::newest(said.method)].contains(&frame.id())
    };
    let hidden = frames.len().checked_sub(said.len());
    let inner = hidden.and_then(|hidden| frames.get(hidden..)).unwrap_or_default();
    let is_same = hidden.is_some() && inner.iter().zip(&said).all(is_same);
    Some(match hidden {
        Some(0) if is_same => Compared::Same,
        Some(_) if is_same => Compared::Hidden,
        _ => Compared::Differs,
    })
}

/// Compares walks of threads that stand still with what the JVM says of the same stacks, at most so many. Returns how
/// many were compared.
///
/// # Errors
/// The walker finds other frames.
pub(super) fn compare(
    list: &ThreadList<'_>,
    layout: &Layout,
    jvmti: &Jvmti,
    most: usize,
) -> Result<usize, NoSamples> {
    let (mut compared, mut hidden, mut differs) = (0, 0, false);
    list.for_each(|thread| {
        if compared >= most {
            return;
        }
        let mut found = compare_one(thread, layout, jvmti);
        // A virtual thread may be mounted or unmounted between both; then the next time they are the same.
        for _ in 0..AGAIN {
            if found != Some(Compared::Differs) {
                break;
            }
            thread::sleep(Duration::from_millis(1));
            found = compare_one(thread, layout, jvmti);
        }
        match found {
            Some(Compared::Same) => compared += 1,
            Some(Compared::Hidden) => hidden += 1,
            Some(Compared::Differs) => differs = true,
            None => {}
        }
    })?;
    let is_always_hidden = compared == 0 && hidden >= most;
    if differs || is_always_hidden { Err(NoSamples::WalkerDiffers) } else { Ok(compared) }
}
