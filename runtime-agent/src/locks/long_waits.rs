//! Waits over the threshold, with their stacks, until the agent thread takes them.

use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use log_format::ids::JavaThreadId;
use sampling_handler::load;
use sampling_handler::memory::Process;
use sampling_handler::queue::MAX_SHADOW;
use sampling_handler::signal;
use sampling_handler::walk::{End, Frame, Frames, MAX_FRAMES, Walk};

use super::in_progress::{InProgress, Key, Owner};
use crate::jvm::java_threads;
use crate::probe::thread::os_id;

/// Most bytes of stacks that wait for the agent thread.
const MOST_BYTES: usize = 4 << 20;

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

#[derive(Debug)]
struct Queue {
    waits: Vec<LongWait>,
    bytes: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { waits: Vec::new(), bytes: 0 });

/// Adds a wait of the calling thread, which has just ended; `false` if too many wait, or there is no memory.
pub(super) fn add(key: Key, wait: InProgress, ticks: u64) -> bool {
    let InProgress { began, java_thread, class, owner, .. } = wait;
    let mut slots = [const { MaybeUninit::uninit() }; MAX_FRAMES];
    let mut frames = Frames::new(&mut slots);
    let walk = signal::layout()
        .filter(|_| java_thread != 0 && load::is_guarded())
        .and_then(|layout| Walk::of_waiting(Process, layout, java_thread));
    let end = walk.map_or(End::Off, |walk| walk.run(&mut frames));
    let mut shadow = [0; MAX_SHADOW];
    let depth = signal::own_shadow(&mut shadow);
    let virtual_thread = key.virtual_thread();
    if let Some(number) = virtual_thread {
        java_threads::note_virtual_name(number);
    }
    let words = frames.words().iter().copied().map(Frame::from_word);
    let (Some(frames), Some(shadow)) = (copied(words), copied(shadow.iter().copied().take(depth)))
    else {
        return false;
    };
    let bytes = size_of::<LongWait>() + size_of_val(&*frames) + size_of_val(&*shadow);
    let os_id = os_id();
    let wait = LongWait { began, ticks, os_id, virtual_thread, class, owner, end, frames, shadow };
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    if queue.bytes + bytes > MOST_BYTES || queue.waits.try_reserve(1).is_err() {
        return false;
    }
    queue.bytes += bytes;
    queue.waits.push(wait);
    true
}

/// `None` if there is no memory.
fn copied<T>(values: impl ExactSizeIterator<Item = T>) -> Option<Vec<T>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(values.len()).ok()?;
    copy.extend(values);
    Some(copy)
}

/// Takes the waits since the last call.
pub(crate) fn take() -> Vec<LongWait> {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    queue.bytes = 0;
    std::mem::take(&mut queue.waits)
}
