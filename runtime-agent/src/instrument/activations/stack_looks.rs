//! Looks at the stacks of threads: full ones at all, and quick ones at those in which the last full look found
//! something.
#![allow(unsafe_code)]

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jni;

use super::carriers::{Carriers, is_carrier};
use super::stack_search::Search;
use super::{Activation, Look, Seen, Wanted};
use log_format::ids::JavaThreadId;

use crate::instrument::stack_reader::{Stack, StackReader};
use crate::instrument::virtual_loops;
use crate::jvm::java_threads;

/// A quick look sees an activation only if it is there in this many reads in a row. Between reads threads make
/// progress, which takes a while on a busy machine. All reads take about 50 ms.
const READS: usize = 10;
const FIRST_BETWEEN_READS: Duration = Duration::from_millis(1);
const LONGER_BETWEEN_READS: f64 = 1.4;

/// A virtual thread that works and parks in turn is mounted in at least one of this many moments.
const MOMENTS: usize = 8;
const BETWEEN_MOMENTS: Duration = Duration::from_millis(5);

/// Looks at stacks.
pub(crate) struct Stacks<'j> {
    jvmti: &'j Jvmti,
    jni: &'j JniEnv,
    carriers: Carriers,
    reader: StackReader<'j>,
    /// Threads in which the last full look found activations, by `Thread.getId()`.
    threads: HashMap<JavaThreadId, FoundThread>,
    /// Time slept between the reads of quick looks.
    slept: Duration,
}

/// A thread in which a look found activations.
#[derive(Clone, Copy)]
struct FoundThread {
    /// A weak global reference.
    thread: jni::jweak,
    is_virtual: bool,
}

impl<'j> Stacks<'j> {
    pub(crate) fn new(jvmti: &'j Jvmti, jni: &'j JniEnv) -> Self {
        let (carriers, reader) = (Carriers::new(jvmti), StackReader::new(jvmti, jni));
        Self { jvmti, jni, carriers, reader, threads: HashMap::new(), slept: Duration::ZERO }
    }

    /// How long looks let the service run, instead of stopping threads, since the last call.
    pub(crate) fn take_slept(&mut self) -> Duration {
        self.reader.take_slept() + std::mem::take(&mut self.slept)
    }

    /// Makes the next look read the stacks of virtual threads that were mounted lately, parked or not. Takes ownership
    /// of their weak global references.
    pub(crate) fn expect(&mut self, threads: Vec<(JavaThreadId, jni::jweak)>) {
        for (number, thread) in threads {
            let found = FoundThread { thread, is_virtual: true };
            if let Some(known) = self.threads.insert(number, found) {
                // SAFETY: made by `look` or given here before, and not used after this.
                unsafe { self.jni.delete_weak_global_ref(known.thread) };
            }
        }
    }

    /// Looks at the stacks of all threads.
    pub(crate) fn look(&mut self, wanted: Wanted<'_>) -> Look {
        if wanted.classes.is_empty() {
            return Look { is_complete: true, ..Look::default() };
        }
        let mut threads = self.jvmti.get_all_threads().unwrap_or_default();
        let mut search = Search::new(self.jvmti, self.jni, wanted);
        let virtual_threads;
        // SAFETY: live references of this thread.
        unsafe {
            let carriers =
                threads.iter().filter(|thread| is_carrier(self.jvmti, self.jni, **thread));
            let carriers: Vec<_> = carriers.copied().collect();
            search.look.has_carriers = !carriers.is_empty();
            virtual_threads = self.virtual_threads(&carriers, wanted.deadline);
            threads.extend(&virtual_threads);
        }
        self.forget_threads();
        let mut is_complete = !threads.is_empty();
        let mut found = Vec::new();
        let reads_again = search.needs_tight_reads() && !self.reader.stops_all();
        // SAFETY: live references of this thread, deleted after this.
        unsafe {
            is_complete &= self.reader.read(&threads, wanted.deadline, |thread, stack| {
                is_complete &= stack.is_some();
                let stack = stack.unwrap_or_default();
                search.look.frames += stack.len();
                if reads_again {
                    found.extend(search.has_wanted(stack).then_some((thread, JavaThreadId::NONE)));
                } else {
                    found.extend(search.find(thread, stack).map(|number| (thread, number)));
                }
            });
            if reads_again {
                for (thread, number) in &mut found {
                    *number = search.prepare(*thread);
                    let take = |thread, stack: Stack<'_>| {
                        is_complete &= stack.is_some();
                        search.find(thread, stack.unwrap_or_default());
                    };
                    is_complete &= self.reader.read(&[*thread], wanted.deadline, take);
                }
            }
            for (thread, number) in found {
                let found = || FoundThread {
                    thread: self.jni.new_weak_global_ref(thread),
                    is_virtual: virtual_threads.contains(&thread),
                };
                self.threads.entry(number).or_insert_with(found);
            }
            for thread in threads {
                self.jni.delete_local_ref(thread);
            }
        }
        self.add_virtual_loops(wanted, &mut search.look);
        Look { is_complete, ..search.look }
    }

    /// Looks a few times in a row at some of the threads in which the last full look found something. Returns the
    /// activations that were there each time, and the threads that were read.
    pub(crate) fn look_quickly(
        &mut self,
        wanted: Wanted<'_>,
        threads: &HashSet<JavaThreadId>,
    ) -> (Vec<Seen>, HashSet<JavaThreadId>) {
        let found = self.threads.iter().filter(|(number, _)| threads.contains(number));
        // SAFETY: the weak references are valid until they are deleted; a cleared one gives null.
        let found =
            found.map(|(number, found)| unsafe { (self.jni.new_local_ref(found.thread), *number) });
        let numbers: HashMap<jni::jthread, JavaThreadId> =
            found.filter(|(thread, _)| !thread.is_null()).collect();
        let mut search = Search::new(self.jvmti, self.jni, wanted);
        // What was there in all reads of a thread so far.
        let mut there: HashMap<jni::jthread, Vec<Seen>> = HashMap::new();
        let mut left: Vec<jni::jthread> = numbers.keys().copied().collect();
        let is_tight = search.needs_tight_reads();
        // If each read stops all threads, one read covers them all.
        let is_one_by_one = is_tight && !self.reader.stops_all();
        let mut is_complete = true;
        let mut pause = FIRST_BETWEEN_READS;
        for _ in 0..READS {
            let mut is_all = true;
            for threads in left.chunks(if is_one_by_one { 1 } else { left.len().max(1) }) {
                // SAFETY: live references of this thread.
                is_all &= unsafe {
                    for thread in threads.iter().filter(|_| is_tight) {
                        search.prepare(*thread);
                    }
                    self.reader.read(threads, wanted.deadline, |thread, stack| {
                        let Some(frames) = stack else { return };
                        search.look = Look::default();
                        search.find(thread, frames);
                        let seen = std::mem::take(&mut search.look.seen);
                        let is_there = |before: &mut Seen| {
                            let is_same = |other: &&Seen| other.activation == before.activation;
                            let now = seen.iter().find(is_same);
                            before.likely_began = before.likely_began.and(now?.likely_began);
                            Some(())
                        };
                        match there.get_mut(&thread) {
                            Some(before) => before.retain_mut(|seen| is_there(seen).is_some()),
                            None => _ = there.insert(thread, seen),
                        }
                    })
                };
            }
            left.retain(|thread| there.get(thread).is_some_and(|seen| !seen.is_empty()));
            is_complete &= is_all;
            if left.is_empty() || !is_all {
                break;
            }
            sleep(pause);
            self.slept += pause;
            pause = pause.mul_f64(LONGER_BETWEEN_READS);
        }
        for thread in numbers.keys() {
            // SAFETY: a reference of this thread, not used after this.
            unsafe { self.jni.delete_local_ref(*thread) };
        }
        let looked_at = there.keys().filter_map(|thread| numbers.get(thread).copied()).collect();
        // An older call, if there was one, would have been on one of the stacks beside a younger one.
        let sure = |seen: Seen| {
            let likely = seen.likely_began.filter(|_| is_complete);
            Seen { began: seen.began.or(likely), ..seen }
        };
        (there.into_values().flatten().map(sure).collect(), looked_at)
    }

    fn forget_threads(&mut self) {
        for (_, found) in self.threads.drain() {
            // SAFETY: made by `look`, and not used after this.
            unsafe { self.jni.delete_weak_global_ref(found.thread) };
        }
    }

    /// Local references to virtual threads, each once: those that are mounted in one of several moments, and those in
    /// which the previous look found something.
    ///
    /// # Safety
    /// `carriers` are live references of this thread.
    unsafe fn virtual_threads(
        &self,
        carriers: &[jni::jthread],
        deadline: Instant,
    ) -> Vec<jni::jthread> {
        let mut found: HashMap<JavaThreadId, jni::jthread> = HashMap::new();
        // SAFETY: the caller's promise; weak references are valid until they are deleted, a cleared one gives null.
        unsafe {
            let mut add = |thread: jni::jthread| {
                let number = java_threads::number(self.jni, thread).unwrap_or_default();
                match found.entry(number) {
                    Entry::Occupied(_) => self.jni.delete_local_ref(thread),
                    Entry::Vacant(entry) => _ = entry.insert(thread),
                }
            };
            let before = self.threads.values().filter(|found| found.is_virtual);
            let before = before.map(|found| self.jni.new_local_ref(found.thread));
            before.filter(|thread| !thread.is_null()).for_each(&mut add);
            for moment in 0..if carriers.is_empty() { 0 } else { MOMENTS } {
                if moment > 0 {
                    sleep(BETWEEN_MOMENTS);
                }
                if Instant::now() >= deadline {
                    break;
                }
                let mounted = carriers.iter();
                mounted.filter_map(|c| self.carriers.mounted_on(self.jvmti, *c)).for_each(&mut add);
            }
        }
        found.into_values().collect()
    }

    /// Adds the loops of virtual threads, mounted or not, that their shadow stacks show.
    fn add_virtual_loops(&self, wanted: Wanted<'_>, look: &mut Look) {
        for (id, number) in virtual_loops::long_calls() {
            let Some(method) = wanted.methods.get(id) else { continue };
            let class = method.class.name.replace('.', "/");
            let found = wanted.classes.get(&class).filter(|reference| !reference.is_null());
            let Some(reference) = found else { continue };
            // SAFETY: a live reference of this thread.
            if unsafe { has_loop(self.jvmti, *reference, &method.name, &method.descriptor) } {
                look.seen.push(Seen {
                    activation: Activation {
                        thread: number.unwrap_or_default(),
                        depth: 0,
                        method: 0,
                    },
                    class: class.as_str().into(),
                    method: method.name.as_str().into(),
                    thread: number.map_or_else(String::new, |number| format!("#{number}")).into(),
                    began: None,
                    likely_began: None,
                    is_long: true,
                    is_measured: true,
                });
            }
        }
    }
}

impl Drop for Stacks<'_> {
    fn drop(&mut self) {
        self.forget_threads();
    }
}

/// Whether the method of a class has a loop.
///
/// # Safety
/// `class` is a live reference of this thread.
unsafe fn has_loop(jvmti: &Jvmti, class: jni::jclass, name: &str, descriptor: &str) -> bool {
    // SAFETY: the caller's promise; the methods are those of the class.
    unsafe {
        let methods = jvmti.get_class_methods(class).unwrap_or_default();
        let found = methods.into_iter().find(|method| {
            let found = jvmti.get_method_name(*method);
            found.is_ok_and(|(n, d, _)| n == name && d == descriptor)
        });
        let code = found.and_then(|method| jvmti.get_bytecodes(method).ok());
        code.is_none_or(|code| rewriter::has_backward_branch(&code))
    }
}
