//! Waits over the threshold, with their stacks, until the agent thread takes them.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jvmti_bindings::prelude::{jni, jvmti};
use log_format::ids::JavaThreadId;
use log_format::rows::LockKind;
use sampling_handler::load;
use sampling_handler::memory::Process;
use sampling_handler::queue::MAX_SHADOW;
use sampling_handler::signal;
use sampling_handler::walk::{End, Frame, Frames, MAX_FRAMES, Walk};

use super::classes;
use super::in_progress::{InProgress, Key, Owner};
use crate::jvm::java_threads;
use crate::probe::thread::os_id;
use crate::sys::memory::Account;

/// Most waits that wait for the agent thread, which takes them about every 60 ms.
const MOST: usize = 1_000;

/// The memory of stacks that wait.
static MEMORY: Account = Account::new();

/// A wait over the threshold.
#[derive(Debug)]
pub(crate) struct LongWait {
    /// When it began, and how long it took, in ticks.
    pub began: u64,
    pub ticks: u64,
    /// The kernel's number of the thread.
    pub os_id: u32,
    pub virtual_thread: Option<JavaThreadId>,
    pub class: u32,
    pub owner: Owner,
    /// How the walk of the stack ended, and its frames from the innermost.
    pub end: End,
    pub frames: Vec<Frame>,
    /// Probe ids of the measured calls in progress, the outermost first.
    pub shadow: Vec<u32>,
}

impl LongWait {
    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.frames) + size_of_val(&*self.shadow)
    }
}

static QUEUE: Mutex<Vec<LongWait>> = Mutex::new(Vec::new());

fn queue() -> MutexGuard<'static, Vec<LongWait>> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a wait of the calling thread, which has just ended; `false` if too many wait, or there is no memory.
pub(super) fn add(key: Key, wait: InProgress, ticks: u64) -> bool {
    let InProgress { began, java_thread, class, owner, .. } = wait;
    // The thread has the monitor, and others wait for it.
    if queue().len() >= MOST {
        return false;
    }
    let mut shadow = [0; MAX_SHADOW];
    let depth = signal::own_shadow(&mut shadow);
    let virtual_thread = key.virtual_thread();
    if let Some(number) = virtual_thread {
        java_threads::note_virtual_name(number);
    }
    let stack = if virtual_thread.is_some() { said_stack() } else { walked_stack(java_thread) };
    let (Some((end, mut frames)), Some(shadow)) =
        (stack, copied(shadow.get(..depth).unwrap_or_default()))
    else {
        return false;
    };
    // After a park, the thread is in the probe.
    if classes::kind(class) != LockKind::Monitor && !frames.is_empty() {
        frames.remove(0);
    }
    let os_id = os_id();
    let wait = LongWait { began, ticks, os_id, virtual_thread, class, owner, end, frames, shadow };
    let mut queue = queue();
    let has_room = queue.len() < MOST && queue.try_reserve(1).is_ok() && MEMORY.take(wait.bytes());
    if has_room {
        queue.push(wait);
    }
    has_room
}

/// The stack of the calling thread, whose `JavaThread` is this; `None` if there is no memory.
fn walked_stack(java_thread: usize) -> Option<(End, Vec<Frame>)> {
    let mut slots = [const { MaybeUninit::uninit() }; MAX_FRAMES];
    let mut frames = Frames::new(&mut slots);
    let walk = signal::layout()
        .filter(|_| java_thread != 0 && load::is_guarded())
        .and_then(|layout| Walk::of_waiting(Process, layout, java_thread));
    let end = walk.map_or(End::Off, |walk| walk.run(&mut frames));
    let words = copied(frames.words())?;
    Some((end, words.into_iter().map(Frame::from_word).collect()))
}

/// The stack of the calling virtual thread, as the JVM says it: most of its frames may still be where they were while
/// it was not mounted, and the walker does not see them.
fn said_stack() -> Option<(End, Vec<Frame>)> {
    let jvmti = java_threads::get_jvmti()?;
    let thread = jvmti.get_current_thread().ok()?;
    let most = jni::jint::try_from(MAX_FRAMES).unwrap_or(jni::jint::MAX);
    // SAFETY: a live reference of this thread. It is in native code, so the reference goes when it returns to Java.
    let said = unsafe { jvmti.get_stack_trace(thread, 0, most) }.ok()?;
    let frame = |frame: &jvmti::jvmtiFrameInfo| {
        Frame::new(frame.method.addr(), i32::try_from(frame.location).unwrap_or(-1))
    };
    Some((End::Whole, said.iter().map(frame).collect()))
}

/// `None` if there is no memory.
fn copied<T: Copy>(values: &[T]) -> Option<Vec<T>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(values.len()).ok()?;
    copy.extend_from_slice(values);
    Some(copy)
}

/// Takes the waits since the last call.
pub(crate) fn take() -> Vec<LongWait> {
    let mut queue = queue();
    MEMORY.give_all();
    std::mem::take(&mut *queue)
}
