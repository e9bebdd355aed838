//! Retransforms many classes in batches, because all threads are stopped meanwhile.
//!
//! Each batch is as large as fits into a short pause, by how long the batches before it took. Between two batches the
//! service runs for twice as long as it was stopped.
//!
//! HotSpot refuses a whole batch if it refuses one class of it, before it stops any thread. That is the class that
//! passed the load hook last; if none did, the batch is split in halves until the class is alone. Classes that are not
//! linked yet go in batches of their own: retransforming links them, and one whose dependencies are missing cannot be
//! linked. When the smallest batch takes too long, or all together do, the rest is skipped.
//!
//! Only the classes of the batch at hand are kept alive: a service that makes and drops class loaders may need the
//! memory of the others.
#![allow(unsafe_code)]

use std::thread::sleep;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};

use super::batch_size::BatchSize;
use super::load_hook::{Passed, take_passed};
use super::vm_thread::Stopwatch;
use crate::jvm::jvm_properties::MOST_REFERENCES;
use crate::jvm::pauses::{self, Cause};
use crate::phase;

/// How many batches of one class in a row may take too long. The first after an attach discards all compiled code.
const TOO_LONG: u32 = 2;
/// How long all batches together may stop the service: 20,000 classes with 5,000 threads take 7 s since JDK 17. Before
/// JDK 17, each class takes as long as a look at all stacks.
const IN_ALL: Duration = Duration::from_secs(10);
/// How long all batches take with the rests between them, and with what else a busy machine does: an attach waits
/// longer.
const WITH_RESTS: Duration = Duration::from_secs(80);
/// After a batch, the service runs for this many times as long as the batch took.
const REST: u32 = 2;

/// What became of the classes of a call to [`Batches::send`].
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// How many classes passed the hook.
    pub done: usize,
    /// Classes that the JVM refuses, each with its reason.
    pub refused: Vec<(jni::jweak, jvmti::jvmtiError)>,
    /// Classes that were not tried, because the pauses got too long.
    pub skipped: Vec<jni::jweak>,
    /// Classes that were not tried, because the time was up.
    pub rest: Vec<jni::jweak>,
    /// The JVM ends: nothing else matters.
    pub is_ending: bool,
}

/// What the batches of one request have shown so far.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    size: BatchSize,
    /// How many batches of one class in a row took too long.
    too_long: u32,
    /// How long they have worked, and since when.
    worked: Duration,
    begun: Option<Instant>,
}

impl Pace {
    fn is_over(&self) -> bool {
        let is_long = self.begun.is_some_and(|begun| begun.elapsed() >= WITH_RESTS);
        self.too_long >= TOO_LONG || self.worked >= IN_ALL || is_long
    }
}

/// A class of the batch at hand: a local reference, and the weak one by which it was given.
struct Class {
    class: jni::jclass,
    weak: jni::jweak,
}

/// Sends classes through the load hook.
pub(crate) struct Batches<'j> {
    jvmti: &'j Jvmti,
    jni: &'j JniEnv,
    pace: &'j mut Pace,
    /// When the time is up.
    until: Instant,
    sent: Sent,
}

impl<'j> Batches<'j> {
    pub(crate) fn new(
        jvmti: &'j Jvmti,
        jni: &'j JniEnv,
        pace: &'j mut Pace,
        until: Instant,
    ) -> Self {
        Self { jvmti, jni, pace, until, sent: Sent::default() }
    }

    /// Retransforms classes until the time is up, at least one batch, and calls `after_batch` after each batch. Classes
    /// that have been unloaded are left out.
    ///
    /// # Safety
    /// `classes` are weak global references that nobody deletes meanwhile.
    pub(crate) unsafe fn send(
        mut self,
        classes: Vec<jni::jweak>,
        mut after_batch: impl FnMut(),
    ) -> Sent {
        let is_linked = |class: &jni::jweak| {
            // SAFETY: the caller's promise; the local reference is not used after its deletion.
            unsafe {
                let class = self.jni.new_local_ref(*class);
                if class.is_null() {
                    return true;
                }
                let status = self.jvmti.get_class_status(class);
                self.jni.delete_local_ref(class);
                status.is_ok_and(|status| status & jvmti::JVMTI_CLASS_STATUS_PREPARED != 0)
            }
        };
        let (linked, unlinked): (Vec<_>, Vec<_>) = classes.into_iter().partition(is_linked);
        let mut is_first = true;
        for (mut rest, are_linked) in [(linked, true), (unlinked, false)] {
            while !rest.is_empty() && !self.sent.is_ending {
                if phase::is_ending() {
                    self.sent.is_ending = true;
                    break;
                }
                if self.pace.is_over() {
                    self.sent.skipped.append(&mut rest);
                    break;
                }
                if !std::mem::take(&mut is_first) && Instant::now() >= self.until {
                    self.sent.rest.append(&mut rest);
                    break;
                }
                let batch: Vec<_> = rest.drain(..self.pace.size.next().min(rest.len())).collect();
                let frame = self.jni.push_local_frame(MOST_REFERENCES);
                let batch = batch.into_iter().filter_map(|weak| {
                    // SAFETY: the caller's promise; a cleared reference gives null.
                    let class = unsafe { self.jni.new_local_ref(weak) };
                    (!class.is_null()).then_some(Class { class, weak })
                });
                let batch: Vec<Class> = batch.collect();
                // One batch at a time: linking runs class loaders, so it may take long.
                // SAFETY: the references live until the frame ends.
                let batch = if are_linked { batch } else { unsafe { self.link(batch) } };
                if !batch.is_empty() {
                    // SAFETY: as above.
                    unsafe { self.send_batch(batch) };
                }
                drop(frame);
                after_batch();
            }
        }
        self.sent
    }

    /// Links classes, and returns those that can be linked. HotSpot goes through the classes of a batch in their order,
    /// and links each. The array's class after it can never be changed, so HotSpot goes no further. Where HotSpot links
    /// later, a class that cannot be linked is found in its batch.
    ///
    /// # Safety
    /// The references are live ones of this thread.
    unsafe fn link(&mut self, classes: Vec<Class>) -> Vec<Class> {
        let Some(array) = array_class(self.jni) else { return classes };
        let mut linked = Vec::with_capacity(classes.len());
        for class in classes {
            // SAFETY: the caller's promise; the other is a live reference too.
            match unsafe { self.jvmti.retransform_classes(&[class.class, array]) } {
                Err(error @ jvmti::jvmtiError::INVALID_CLASS) => {
                    self.sent.refused.push((class.weak, error));
                }
                _ => linked.push(class),
            }
        }
        // SAFETY: a reference of this thread, not used after this.
        unsafe { self.jni.delete_local_ref(array) };
        linked
    }

    /// # Safety
    /// As of [`link`](Self::link).
    unsafe fn send_batch(&mut self, batch: Vec<Class>) {
        let mut todo = vec![batch];
        while let Some(mut batch) = todo.pop() {
            // SAFETY: the caller's promise.
            match (unsafe { self.try_batch(&batch) }, batch.len()) {
                (Ok(()), count) => self.sent.done += count,
                (Err((jvmti::jvmtiError::WRONG_PHASE, _)), _) => {
                    self.sent.is_ending = true;
                    return;
                }
                (Err((error, _)), 0 | 1) => {
                    self.sent.refused.extend(batch.pop().map(|class| (class.weak, error)));
                }
                (Err((_, passed @ 1..)), count) if passed <= count => {
                    // It is tried alone, after the others.
                    let refused = batch.remove(passed - 1);
                    todo.extend([vec![refused], batch]);
                }
                (Err(_), count) => {
                    let second = batch.split_off(count / 2);
                    todo.extend([second, batch]);
                }
            }
        }
    }

    /// Retransforms classes, or returns why that is refused and how many passed the hook before.
    ///
    /// # Safety
    /// As of [`link`](Self::link).
    unsafe fn try_batch(&mut self, batch: &[Class]) -> Result<(), (jvmti::jvmtiError, usize)> {
        let classes: Vec<jni::jclass> = batch.iter().map(|class| class.class).collect();
        let (begun, stopwatch) = (Instant::now(), Stopwatch::start());
        take_passed();
        // SAFETY: the caller's promise.
        let result = unsafe { self.jvmti.retransform_classes(&classes) };
        let Passed { classes: passed, last } = take_passed();
        let took = last.unwrap_or(begun).elapsed();
        result.map_err(|error| (error, passed))?;
        pauses::add(Cause::Retransform, took);
        self.pace.begun.get_or_insert(begun);
        let Pace { size, too_long, worked: all_worked, .. } = &mut *self.pace;
        // While the machine does other things, threads of the service would wait as well.
        let worked = stopwatch.work(took);
        size.add(batch.len(), worked);
        let is_too_long = batch.len() == 1 && took > pauses::LONGEST;
        *too_long = if is_too_long { *too_long + 1 } else { 0 };
        *all_worked += worked;
        sleep(REST * took.min(pauses::LONGEST));
        Ok(())
    }
}

/// A reference to the class `byte[]`. Looking a class up by its name would ask the application's class loader.
fn array_class(jni: &JniEnv) -> Option<jni::jclass> {
    let array = jni.new_byte_array(0);
    if jni.exception_check() {
        jni.exception_clear();
    }
    let array = array.filter(|array| !array.is_null())?;
    // SAFETY: a live reference of this thread, not used after this.
    let class = unsafe {
        let class = jni.get_object_class(array);
        jni.delete_local_ref(array);
        class
    };
    (!class.is_null()).then_some(class)
}
