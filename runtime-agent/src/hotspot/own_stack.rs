//! The stack of the calling thread, which is in native code: in an event of the JVM, or in a probe.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};
use log_format::ids::JavaThreadId;
use sampling_handler::load;
use sampling_handler::memory::Process;
use sampling_handler::queue::MAX_SHADOW;
use sampling_handler::signal;
use sampling_handler::walk::{End, Frame, Frames, MAX_FRAMES, Walk};

use super::thread_list::java_thread_of;
use super::{method_ids, method_names};
use crate::jvm::java_threads;

/// See the module.
#[derive(Debug)]
pub(crate) struct OwnStack {
    /// How the walk ended, and the frames from the innermost.
    pub end: End,
    pub frames: Vec<Frame>,
    /// Probe ids of the instrumented calls in progress, the outermost first.
    pub shadow: Vec<u32>,
}

impl OwnStack {
    /// Reads it; `java_thread` is the thread's `JavaThread`, or 0 if that is not known. `None` if there is no memory.
    /// Notes the name of a virtual thread, too.
    pub(crate) fn read(java_thread: usize, virtual_thread: Option<JavaThreadId>) -> Option<Self> {
        let mut shadow = [0; MAX_SHADOW];
        let depth = signal::own_shadow(&mut shadow);
        let shadow = copied(shadow.get(..depth).unwrap_or_default())?;
        let (end, frames) = match virtual_thread {
            Some(number) => {
                java_threads::note_virtual_name(number);
                said_stack()?
            }
            // The walker passes only methods that have ids.
            None => match walk_of(java_thread).filter(|_| method_names::are_noted()) {
                Some(walk) => walked_stack(walk)?,
                None if method_names::are_named() => said_stack()?,
                None => (End::Off, Vec::new()),
            },
        };
        Some(Self { end, frames, shadow })
    }

    /// Reads that of the calling thread in a probe, without the probe's frames; with the number of the virtual thread
    /// that it runs.
    pub(crate) fn read_in_probe(
        jni: &JniEnv,
        probe_frames: usize,
    ) -> Option<(Option<JavaThreadId>, Self)> {
        let virtual_thread = java_threads::current_virtual(jni);
        let mut stack = Self::read(java_thread_of(jni), virtual_thread)?;
        stack.frames.drain(..probe_frames.min(stack.frames.len()));
        Some((virtual_thread, stack))
    }

    /// That of another thread, as the JVM says it.
    ///
    /// # Safety
    /// `thread` is a live reference of the calling thread.
    pub(crate) unsafe fn said(jvmti: &Jvmti, thread: jni::jthread) -> Option<Self> {
        // Its methods may return meanwhile, and old versions of them be freed.
        let is_guarded = load::is_guarded();
        let id_of = |method: jni::jmethodID| match is_guarded {
            true => method_ids::newest(method),
            false => method.expose_provenance(),
        };
        // SAFETY: the caller guarantees it.
        let (end, frames) = unsafe { said_stack_of(jvmti, thread, id_of) }?;
        Some(Self { end, frames, shadow: Vec::new() })
    }

    /// The memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.frames) + size_of_val(&*self.shadow)
    }
}

/// A walk of the calling thread's stack, whose `JavaThread` is this; `None` if the walker cannot walk, or not yet.
fn walk_of(java_thread: usize) -> Option<Walk<'static, Process>> {
    signal::layout()
        .filter(|_| java_thread != 0 && load::is_guarded())
        .and_then(|layout| Walk::of_waiting(Process, layout, java_thread))
}

/// What a walk finds; `None` if there is no memory.
fn walked_stack(walk: Walk<'_, Process>) -> Option<(End, Vec<Frame>)> {
    let mut slots = [const { MaybeUninit::uninit() }; MAX_FRAMES];
    let mut frames = Frames::new(&mut slots);
    let end = walk.run(&mut frames);
    let words = copied(frames.words())?;
    Some((end, words.into_iter().map(Frame::from_word).collect()))
}

/// The stack of the calling thread, as the JVM says it; `None` if there is no memory. Most frames of a virtual thread
/// may still be where they were while it was not mounted, and the walker does not see them.
fn said_stack() -> Option<(End, Vec<Frame>)> {
    let thread =
        java_threads::get_jvmti().and_then(|jvmti| Some((jvmti.get_current_thread().ok()?, jvmti)));
    let Some((thread, jvmti)) = thread else { return Some((End::Off, Vec::new())) };
    // SAFETY: a live reference of this thread. It is in native code, so the reference goes when it returns to Java.
    unsafe { said_stack_of(&jvmti, thread, method_ids::newest) }
}

/// `None` if there is no memory. Not inlined: the walker's path needs no stack for its buffer.
///
/// # Safety
/// `thread` is a live reference of the calling thread.
#[inline(never)]
unsafe fn said_stack_of(
    jvmti: &Jvmti,
    thread: jni::jthread,
    id_of: impl Fn(jni::jmethodID) -> usize,
) -> Option<(End, Vec<Frame>)> {
    let most = jni::jint::try_from(MAX_FRAMES).unwrap_or(jni::jint::MAX);
    let empty = jvmti::jvmtiFrameInfo { method: std::ptr::null_mut(), location: 0 };
    // What the library makes of this allocates without asking whether there is memory.
    let mut said = [empty; MAX_FRAMES];
    let mut count: jni::jint = 0;
    // SAFETY: the table belongs to the environment; the buffer has room for this many frames; the caller guarantees the
    // reference.
    let error = unsafe {
        let read = (*(*jvmti.raw()).functions).GetStackTrace?;
        read(jvmti.raw(), thread, 0, most, said.as_mut_ptr(), &raw mut count)
    };
    if error != jvmti::jvmtiError::NONE {
        return Some((End::Off, Vec::new()));
    }
    let said = said.get(..usize::try_from(count).unwrap_or(0)).unwrap_or_default();
    let mut frames = Vec::new();
    frames.try_reserve_exact(said.len()).ok()?;
    frames.extend(
        said.iter().map(|frame| {
            Frame::new(id_of(frame.method), i32::try_from(frame.location).unwrap_or(-1))
        }),
    );
    let end = if said.len() < MAX_FRAMES { End::Whole } else { End::Deep };
    Some((end, frames))
}

/// `None` if there is no memory.
fn copied<T: Copy>(values: &[T]) -> Option<Vec<T>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(values.len()).ok()?;
    copy.extend_from_slice(values);
    Some(copy)
}
