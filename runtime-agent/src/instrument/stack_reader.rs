//! Reads whole stacks of threads of the service.
//!
//! Since JDK 12 reading a stack stops its thread alone, so stacks are read one by one (JDK 21 may stop all threads for
//! the stack of a virtual one). Before, each read stops all threads, however few stacks it reads. Then many are read
//! at once, as many as fit into a short pause, and between two reads the service runs for as long as it was stopped.
#![allow(unsafe_code)]

use std::thread::sleep;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};

use super::batch_size::BatchSize;
use super::vm_thread::Stopwatch;
use crate::jvm::jvm_properties::java_major;
use crate::jvm::pauses::{self, Cause};
use crate::phase;

/// The first JDK that stops one thread alone.
const HANDSHAKES: jni::jint = 12;
/// Frames that the buffer of one stack has room for at first. It grows to the deepest stack.
const FRAMES: usize = 1_024;
/// Most frames of each stack of a list, because HotSpot allocates for them. Deeper stacks are read one by one.
const LIST_FRAMES: jni::jint = 400;
/// Most stacks of a list, for the same reason.
const MOST_STACKS: usize = 1_000;
/// How many reads in a row may take too long before the rest is not read.
const TOO_LONG: u32 = 2;

/// A stack, from the innermost frame on. `None` if it cannot be read; empty if its thread has ended.
pub(super) type Stack<'s> = Option<&'s [jvmti::jvmtiFrameInfo]>;

/// Reads stacks.
pub(super) struct StackReader<'j> {
    jvmti: &'j Jvmti,
    jni: &'j JniEnv,
    buffer: Vec<jvmti::jvmtiFrameInfo>,
    /// How many stacks are read at once; `None` if one by one.
    list: Option<BatchSize>,
    too_long: u32,
    /// How long the service ran between reads since the last `take_slept`. It does not count as time for looks.
    slept: Duration,
}

impl<'j> StackReader<'j> {
    pub(super) fn new(jvmti: &'j Jvmti, jni: &'j JniEnv) -> Self {
        let empty = jvmti::jvmtiFrameInfo { method: std::ptr::null_mut(), location: 0 };
        let list = (java_major(jvmti) < HANDSHAKES).then(BatchSize::default);
        Self { jvmti, jni, buffer: vec![empty; FRAMES], list, too_long: 0, slept: Duration::ZERO }
    }

    /// Whether each read stops all threads.
    pub(super) fn stops_all(&self) -> bool {
        self.list.is_some()
    }

    pub(super) fn take_slept(&mut self) -> Duration {
        std::mem::take(&mut self.slept)
    }

    /// Reads the stacks of threads until the deadline, and gives each to `take` with its thread. Returns whether all
    /// were read.
    ///
    /// # Safety
    /// `threads` are live references of this thread.
    pub(super) unsafe fn read(
        &mut self,
        threads: &[jni::jthread],
        deadline: Instant,
        mut take: impl FnMut(jni::jthread, Stack<'_>),
    ) -> bool {
        self.too_long = 0;
        let mut rest = threads;
        while let [thread, others @ ..] = rest {
            if self.is_over(deadline) {
                return false;
            }
            if let Some(size) = &self.list {
                let count = size.next().clamp(1, MOST_STACKS).min(rest.len());
                let (list, others) = rest.split_at(count);
                // SAFETY: the caller's promise.
                if !unsafe { self.read_list(list, deadline, &mut take) } {
                    return false;
                }
                rest = others;
            } else {
                // SAFETY: the caller's promise.
                take(*thread, unsafe { self.read_one(*thread) });
                rest = others;
            }
        }
        true
    }

    fn is_over(&self, deadline: Instant) -> bool {
        let is_late = Instant::now() >= deadline + self.slept;
        is_late || self.too_long >= TOO_LONG || phase::is_ending()
    }

    /// Lets the service run, from `read` on, for as long as it was stopped.
    fn rest(&mut self, read: Instant, stood_still: Duration) {
        let until = read + stood_still.min(pauses::LONGEST);
        let rest = until.saturating_duration_since(Instant::now());
        sleep(rest);
        self.slept += rest;
    }

    /// Returns whether all were read.
    ///
    /// # Safety
    /// As of [`read`](Self::read).
    unsafe fn read_list(
        &mut self,
        threads: &[jni::jthread],
        deadline: Instant,
        take: &mut impl FnMut(jni::jthread, Stack<'_>),
    ) -> bool {
        let (begun, stopwatch) = (Instant::now(), Stopwatch::start());
        // SAFETY: the caller's promise.
        let result = unsafe { self.jvmti.get_thread_list_stack_traces(threads, LIST_FRAMES) };
        let took = begun.elapsed();
        self.count(took);
        if let Some(size) = &mut self.list {
            size.add(threads.len(), stopwatch.work(took));
        }
        // The service runs on while the stacks are examined.
        let read = Instant::now();
        let mut stacks = result.unwrap_or_default().into_iter();
        let mut deep = Vec::new();
        for thread in threads {
            let stack = stacks.next();
            if let Some(stack) = &stack
                && stack.thread != *thread
            {
                // SAFETY: HotSpot returns the reference that it was given. Another one is ours to delete.
                unsafe { self.jni.delete_local_ref(stack.thread) };
            }
            match stack {
                Some(stack) if stack.frames.len() < LIST_FRAMES as usize => {
                    take(*thread, Some(&stack.frames));
                }
                _ => deep.push(*thread),
            }
        }
        self.rest(read, took);
        for thread in deep {
            if self.is_over(deadline) {
                return false;
            }
            let begun = Instant::now();
            // SAFETY: the caller's promise.
            take(thread, unsafe { self.read_one(thread) });
            let read = Instant::now();
            self.rest(read, read - begun);
        }
        true
    }

    /// # Safety
    /// `thread` is a live reference of this thread.
    unsafe fn read_one(&mut self, thread: jni::jthread) -> Stack<'_> {
        loop {
            let most = jni::jint::try_from(self.buffer.len()).unwrap_or(jni::jint::MAX);
            let mut count: jni::jint = 0;
            let begun = Instant::now();
            // SAFETY: the table belongs to the environment; the buffer has room for this many frames.
            let error = unsafe {
                let table = &*(*self.jvmti.raw()).functions;
                let read = table.GetStackTrace?;
                let frames = self.buffer.as_mut_ptr();
                read(self.jvmti.raw(), thread, 0, most, frames, &raw mut count)
            };
            self.count(begun.elapsed());
            match error {
                jvmti::jvmtiError::NONE => {}
                jvmti::jvmtiError::THREAD_NOT_ALIVE => return Some(&[]),
                _ => return None,
            }
            let count = usize::try_from(count).unwrap_or_default();
            if count < self.buffer.len() {
                return self.buffer.get(..count);
            }
            let empty = jvmti::jvmtiFrameInfo { method: std::ptr::null_mut(), location: 0 };
            self.buffer.resize(2 * self.buffer.len(), empty);
        }
    }

    fn count(&mut self, pause: Duration) {
        let is_of_all = self.list.is_some();
        pauses::add(if is_of_all { Cause::LookAtAll } else { Cause::LookAtOne }, pause);
        self.too_long = if pause > pauses::LONGEST { self.too_long + 1 } else { 0 };
    }
}
