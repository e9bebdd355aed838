//! The Java threads that live now, with their structures in HotSpot and the kernel's numbers.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jni;
use log_format::ids::OsThreadId;
use sampling_handler::memory::{Memory, Process};

use super::NotSaid;
use super::tables::Tables;
use crate::jvm::java_threads::{self, NotedThread};

/// How far a thread's JNI environment is into its `JavaThread`; 0 while unknown.
static ENVIRONMENT: AtomicUsize = AtomicUsize::new(0);

/// Reads the list. It stays on its thread.
pub(crate) struct ThreadList<'j> {
    jvmti: &'j Jvmti,
    jni: &'j JniEnv,
    /// `java.lang.Thread.eetop`.
    field: jni::jfieldID,
    /// In a `JavaThread`: its `OSThread`. In that: the kernel's number.
    os_thread: usize,
    number: usize,
    /// The calling thread's `JavaThread`.
    own: usize,
}

/// A thread of the list.
pub(crate) struct ListedThread<'l, 'j> {
    list: &'l ThreadList<'j>,
    /// A local reference, only while the list is read.
    pub object: jni::jthread,
    /// Its `JavaThread`.
    pub java_thread: usize,
    /// The kernel's number.
    pub os_id: OsThreadId,
}

impl ListedThread<'_, '_> {
    /// Its name; `None` if there is no memory.
    pub(crate) fn noted(&self) -> Option<NotedThread> {
        // SAFETY: a live reference of this thread.
        unsafe { NotedThread::new(self.list.jvmti, self.list.jni, self.object) }
    }

    /// Whether it has not ended since.
    pub(crate) fn is_alive(&self) -> bool {
        // SAFETY: a live reference of this thread.
        unsafe { self.list.structure(self.object) == self.java_thread }
    }
}

impl<'j> ThreadList<'j> {
    /// # Errors
    /// What the JVM does not say.
    pub(crate) fn new(tables: &Tables, jvmti: &'j Jvmti, jni: &'j JniEnv) -> Result<Self, NotSaid> {
        let (os_thread, number) = tables.os_thread()?;
        let not_said = |what: &str| NotSaid(what.to_owned());
        let _frame = jni.push_local_frame(16);
        let current = jvmti.get_current_thread().map_err(|_| not_said("its thread"))?;
        // SAFETY: a live reference of this thread.
        let class = unsafe { java_threads::thread_class(jni, current) };
        // SAFETY: a live reference of this thread to java.lang.Thread.
        let Some(field) = (unsafe { jni.get_field_id(class, "eetop", "J") }) else {
            jni.exception_clear();
            return Err(not_said("where a thread's structure is"));
        };
        let list = Self { jvmti, jni, field, os_thread, number, own: 0 };
        // SAFETY: a live reference of this thread.
        match unsafe { list.structure(current) } {
            0 => Err(not_said("where its own structure is")),
            own => Ok(Self { own, ..list }),
        }
    }

    /// How far a thread's JNI environment is into its `JavaThread`.
    pub(crate) fn environment(&self) -> usize {
        self.jni.raw().addr().wrapping_sub(self.own)
    }

    /// From now on, [`java_thread_of`] knows it.
    pub(crate) fn note_environment(&self) {
        ENVIRONMENT.store(self.environment(), Ordering::Relaxed);
    }

    /// The `JavaThread` of a thread, or 0 if it has ended or not begun.
    ///
    /// # Safety
    /// `thread` is a reference to a thread that this thread may use.
    pub(crate) unsafe fn structure(&self, thread: jni::jthread) -> usize {
        // SAFETY: the caller guarantees the reference; the field is a long of java.lang.Thread.
        let structure = unsafe { self.jni.get_long_field(thread, self.field) };
        usize::try_from(structure).unwrap_or(0)
    }

    /// The kernel's number of a thread. It may end meanwhile, and its structure be freed, so loads are guarded.
    fn os_id(&self, java_thread: usize) -> Option<OsThreadId> {
        let os_thread = Process.pointer(java_thread + self.os_thread)?;
        let number = Process.int(os_thread + self.number)?;
        u32::try_from(number).ok().filter(|number| *number != 0).map(OsThreadId::new)
    }

    /// The kernel's number of a thread, if it lives.
    ///
    /// # Safety
    /// As [`structure`](Self::structure).
    pub(crate) unsafe fn os_id_of(&self, thread: jni::jthread) -> Option<OsThreadId> {
        // SAFETY: the caller guarantees it.
        let java_thread = unsafe { self.structure(thread) };
        (java_thread != 0).then(|| self.os_id(java_thread))?
    }

    /// Calls `each` with each thread but the calling one, which runs no Java code.
    ///
    /// # Errors
    /// The JVM does not list its threads.
    pub(crate) fn for_each(
        &self,
        mut each: impl FnMut(&ListedThread<'_, 'j>),
    ) -> Result<(), NotSaid> {
        let not_said = |_| NotSaid("its threads".to_owned());
        for object in self.jvmti.get_all_threads().map_err(not_said)? {
            // SAFETY: a live reference of this thread.
            let java_thread = unsafe { self.structure(object) };
            if java_thread != 0
                && java_thread != self.own
                && let Some(os_id) = self.os_id(java_thread)
            {
                each(&ListedThread { list: self, object, java_thread, os_id });
            }
            // SAFETY: this thread's own reference.
            unsafe { self.jni.delete_local_ref(object) };
        }
        Ok(())
    }
}

/// The `JavaThread` of a thread with this JNI environment, or 0.
pub(crate) fn java_thread_of(jni: &JniEnv) -> usize {
    match ENVIRONMENT.load(Ordering::Relaxed) {
        0 => 0,
        distance => jni.raw().addr().wrapping_sub(distance),
    }
}
