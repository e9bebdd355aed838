//! Names of the methods in samples.
//!
//! A sample has `jmethodID`s, which are keys only: the JVM may be given one only while its class is known to live. So
//! the ids of all classes are noted as classes are prepared, each class with a weak reference.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jni;
use log_format::descriptor::class_name;

use crate::jvm::java_threads;
use crate::stderr::message;

/// Most ids that are noted.
const MOST: usize = 1_000_000;
/// Ids are addresses of words.
const STRIDE: usize = 8;

/// How many ids are noted, or wait for it. The JVM keeps an id for ever, so no more than [`MOST`] are asked for.
static NOTED: AtomicUsize = AtomicUsize::new(0);
static IS_FULL_REPORTED: AtomicBool = AtomicBool::new(false);
/// Whether methods have names.
static NAMED: AtomicU8 = AtomicU8::new(NOT);
const NOT: u8 = 0;
/// They will have them when they are written.
const WANTED: u8 = 1;
const ALL: u8 = 2;
static IS_ON: AtomicBool = AtomicBool::new(false);
/// Classes that were prepared and are not noted yet.
static PREPARED: Mutex<Vec<Class>> = Mutex::new(Vec::new());

/// A class and the ids of its methods.
struct Class {
    /// A weak global reference, as an address.
    weak: usize,
    ids: Vec<usize>,
}

impl Class {
    /// # Safety
    /// `class` is a live reference of this thread.
    unsafe fn new(jvmti: &Jvmti, jni: &JniEnv, class: jni::jclass) -> Option<Self> {
        if NOTED.load(Ordering::Relaxed) >= MOST {
            if !IS_FULL_REPORTED.swap(true, Ordering::Relaxed) {
                message!("cpu: over {MOST} methods: those of classes loaded later are [unloaded]");
            }
            return None;
        }
        // SAFETY: the caller guarantees the reference.
        let ids = unsafe { jvmti.get_class_methods(class) }.ok()?;
        if ids.is_empty() {
            return None;
        }
        // SAFETY: as above.
        let weak = unsafe { jni.new_weak_global_ref(class) };
        if weak.is_null() {
            jni.exception_clear();
            return None;
        }
        let ids: Vec<usize> = ids.into_iter().map(|id| id.expose_provenance()).collect();
        NOTED.fetch_add(ids.len(), Ordering::Relaxed);
        Some(Self { weak: weak.expose_provenance(), ids })
    }
}

/// There will be samples, so methods will have names.
pub(crate) fn want() {
    NAMED.fetch_max(WANTED, Ordering::Relaxed);
}

/// Whether methods have names, or will have them when they are written.
pub(crate) fn are_named() -> bool {
    NAMED.load(Ordering::Relaxed) != NOT
}

/// Whether the ids of all loaded classes are noted.
pub(crate) fn are_noted() -> bool {
    NAMED.load(Ordering::Relaxed) == ALL
}

/// Stops noting classes, without touching what is noted.
pub(crate) fn stop() {
    IS_ON.store(false, Ordering::Release);
}

/// A class was prepared.
///
/// # Safety
/// `class` is a live reference of this thread.
pub(crate) unsafe fn prepared(jvmti: &Jvmti, jni: &JniEnv, class: jni::jclass) {
    if !IS_ON.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: the caller guarantees the reference.
    if let Some(class) = unsafe { Class::new(jvmti, jni, class) } {
        PREPARED.lock().unwrap_or_else(PoisonError::into_inner).push(class);
    }
}

/// A method in a sample.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Named {
    /// `java`, or what else a frame may be.
    pub kind: &'static str,
    pub class: String,
    pub method: String,
    pub descriptor: String,
    pub source: String,
}

/// Consecutive ids of a class.
#[derive(Clone, Copy, Debug)]
struct Range {
    count: usize,
    /// A weak reference to it.
    class: usize,
}

/// The methods of all classes, on the agent thread.
#[derive(Default)]
pub(crate) struct Methods {
    /// The first ids of their ranges, by the weak reference to the class.
    classes: HashMap<usize, Vec<usize>>,
    /// By the first id.
    ranges: BTreeMap<usize, Range>,
    names: HashMap<usize, Option<Named>>,
    generation: u64,
}

impl Methods {
    /// Classes are noted from now on, and those that are loaded already.
    pub(crate) fn begin(&mut self, jvmti: &Jvmti, jni: &JniEnv) {
        if IS_ON.swap(true, Ordering::AcqRel) {
            return;
        }
        let _frame = jni.push_local_frame(16);
        for class in jvmti.get_loaded_classes().unwrap_or_default() {
            // SAFETY: a live reference of this thread.
            if let Some(class) = unsafe { Class::new(jvmti, jni, class) } {
                self.add(&class);
            }
            // SAFETY: this thread's own reference.
            unsafe { jni.delete_local_ref(class) };
        }
        NAMED.store(ALL, Ordering::Relaxed);
    }

    /// Forgets everything.
    pub(crate) fn end(&mut self, jni: &JniEnv) {
        IS_ON.store(false, Ordering::Release);
        NAMED.store(NOT, Ordering::Relaxed);
        self.take_prepared();
        for weak in self.classes.keys() {
            delete(jni, *weak);
        }
        *self = Self { generation: self.generation + 1, ..Self::default() };
        NOTED.store(0, Ordering::Relaxed);
    }

    /// Notes the classes that were prepared meanwhile.
    pub(crate) fn take_prepared(&mut self) {
        let prepared =
            std::mem::take(&mut *PREPARED.lock().unwrap_or_else(PoisonError::into_inner));
        for class in prepared {
            self.add(&class);
        }
    }

    /// Changes whenever an id may have got another meaning.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Forgets classes that were unloaded.
    pub(crate) fn purge(&mut self, jni: &JniEnv) {
        let Self { classes, ranges, names, generation } = self;
        let before = classes.len();
        classes.retain(|weak, firsts| {
            let reference = std::ptr::with_exposed_provenance_mut(*weak);
            // SAFETY: a weak reference that is not deleted yet; null is compared with.
            let is_unloaded = unsafe { jni.is_same_object(reference, std::ptr::null_mut()) };
            if is_unloaded {
                for first in firsts {
                    ranges.remove(first);
                }
                delete(jni, *weak);
            }
            !is_unloaded
        });
        if classes.len() < before {
            names.clear();
            *generation += 1;
        }
    }

    fn add(&mut self, class: &Class) {
        let mut ids = class.ids.clone();
        ids.sort_unstable();
        let mut firsts = Vec::new();
        for run in ids.chunk_by(|one, next| one + STRIDE == *next) {
            if let Some(first) = run.first() {
                self.ranges.insert(*first, Range { count: run.len(), class: class.weak });
                firsts.push(*first);
                // An id of an unloaded class may be used again; one that was not known is now.
                let before = self.names.len();
                if before < run.len() {
                    self.names.retain(|id, _| run.binary_search(id).is_err());
                } else {
                    run.iter().for_each(|id| drop(self.names.remove(id)));
                }
                self.generation += u64::from(self.names.len() < before);
            }
        }
        self.classes.insert(class.weak, firsts);
    }

    /// The method with an id; `None` if its class is unloaded, or not known.
    pub(crate) fn name(&mut self, id: usize, jvmti: &Jvmti, jni: &JniEnv) -> Option<Named> {
        if let Some(named) = self.names.get(&id) {
            return named.clone();
        }
        let named = self.ask(id, jvmti, jni).or_else(|| {
            // What threads read of themselves is taken after the round's samples.
            self.take_prepared();
            self.ask(id, jvmti, jni)
        });
        self.names.insert(id, named.clone());
        named
    }

    fn ask(&self, id: usize, jvmti: &Jvmti, jni: &JniEnv) -> Option<Named> {
        let (first, range) = self.ranges.range(..=id).next_back()?;
        // What comes from a handler may be anything.
        if id >= first + range.count * STRIDE || !(id - first).is_multiple_of(STRIDE) {
            return None;
        }
        let weak = std::ptr::with_exposed_provenance_mut(range.class);
        // SAFETY: a weak reference that is not deleted yet; the local one keeps the class alive meanwhile.
        let class = unsafe { jni.new_local_ref(weak) };
        if class.is_null() {
            return None;
        }
        // SAFETY: the class lives, and the id is that of one of its methods.
        unsafe {
            let method = jvmti.get_method_name(std::ptr::with_exposed_provenance_mut(id));
            let signature = jvmti.get_class_signature(class);
            let source = jvmti.get_source_file_name(class).unwrap_or_default();
            jni.delete_local_ref(class);
            method.ok().zip(signature.ok()).map(|((method, descriptor, _), (signature, _))| Named {
                kind: "java",
                class: class_name(&signature),
                method,
                descriptor,
                source,
            })
        }
    }
}

/// The ids of the methods of java.lang.Thread.
pub(crate) fn of_thread(jvmti: &Jvmti, jni: &JniEnv) -> Option<Vec<usize>> {
    let _frame = jni.push_local_frame(16);
    let thread = jvmti.get_current_thread().ok()?;
    // SAFETY: live references of this thread.
    let ids = unsafe { jvmti.get_class_methods(java_threads::thread_class(jni, thread)) }.ok()?;
    Some(ids.into_iter().map(|id| id.expose_provenance()).collect())
}

/// Deletes a weak reference that was made here.
fn delete(jni: &JniEnv, weak: usize) {
    // SAFETY: each is deleted once, when it leaves the table.
    unsafe { jni.delete_weak_global_ref(std::ptr::with_exposed_provenance_mut(weak)) };
}
