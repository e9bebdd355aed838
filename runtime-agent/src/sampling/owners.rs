//! Who has the locks for which threads wait. The agent thread asks the JVM for monitors, seldom, because each answer is a
//! safepoint; locks of `java.util.concurrent` say it themselves.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ptr;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jni;
use log_format::rows::LockKind;

use super::thread_list::ThreadList;
use crate::jvm::java_threads;
use crate::locks::{self, InProgress, Key, Owner};
use crate::sys::clock;

/// Shorter waits mostly end before the answer.
const LEAST_NS: u64 = 20_000_000;
/// The JVM is asked at most so often in a second.
const MOST: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);

/// Asks, on the agent thread.
pub(super) struct Owners<'j> {
    list: ThreadList<'j>,
    jvmti: &'j Jvmti,
    jni: &'j JniEnv,
    since: Instant,
    asked: u32,
}

impl<'j> Owners<'j> {
    pub(super) fn new(list: ThreadList<'j>, jvmti: &'j Jvmti, jni: &'j JniEnv) -> Self {
        Self { list, jvmti, jni, since: Instant::now(), asked: 0 }
    }

    /// Asks for the waits that have lasted longest, and were not asked for.
    pub(super) fn round(&mut self) {
        if self.since.elapsed() >= SECOND {
            (self.since, self.asked) = (Instant::now(), 0);
        }
        let now = clock::ticks();
        let is_due = |(_, wait): &(Key, InProgress)| {
            wait.owner == Owner::NotAsked
                && locks::may_have_owner(wait.class)
                && clock::ticks_to_ns(now.saturating_sub(wait.began)) >= LEAST_NS
        };
        let mut due: Vec<(Key, InProgress)> = locks::all().into_iter().filter(is_due).collect();
        due.sort_by_key(|(_, wait)| wait.began);
        let left = usize::try_from(MOST.saturating_sub(self.asked)).unwrap_or(0);
        due.truncate(left);
        if due.is_empty() {
            return;
        }
        self.asked += u32::try_from(due.len()).unwrap_or(MOST);
        let mut owners = self.owners_of_platform(&due);
        for (key, wait) in due {
            let owner = match key.virtual_thread() {
                None => owners.remove(&key).flatten(),
                Some(_) => {
                    let _frame = self.jni.push_local_frame(16);
                    // SAFETY: a live local reference, or null.
                    unsafe { self.owner_of(&wait, locks::take_monitor(key, wait.began, self.jni)) }
                }
            };
            locks::set_owner(key, wait.began, owner.unwrap_or(Owner::Unknown));
        }
    }

    /// Who has the monitors for which platform threads wait.
    fn owners_of_platform(&self, waits: &[(Key, InProgress)]) -> HashMap<Key, Option<Owner>> {
        let mut owners = HashMap::new();
        let is_platform = |(key, _): &(Key, InProgress)| key.virtual_thread().is_none();
        if !waits.iter().any(is_platform) {
            return owners;
        }
        // Without a list, nobody knows.
        let _ = self.list.for_each(|thread| {
            let is_it = |wait: &&(Key, InProgress)| {
                is_platform(wait) && wait.1.java_thread == thread.java_thread
            };
            if let Some((key, wait)) = waits.iter().find(is_it) {
                let _frame = self.jni.push_local_frame(16);
                // SAFETY: a live reference of this thread; the lock is one too, or null.
                let owner = unsafe {
                    let lock = match locks::kind(wait.class) {
                        LockKind::Monitor => {
                            let monitor = self.jvmti.get_current_contended_monitor(thread.object);
                            monitor.unwrap_or(ptr::null_mut())
                        }
                        _ => locks::blocker_of(self.jni, thread.object),
                    };
                    self.owner_of(wait, lock)
                };
                // It may have got the monitor just now.
                let is_other = |owner: &Owner| *owner != Owner::Platform(thread.os_id);
                owners.insert(*key, owner.filter(is_other));
            }
        });
        owners
    }

    /// Who has the lock for which a thread waits.
    ///
    /// # Safety
    /// `lock` is a live reference, or null. The local references are freed by the caller.
    unsafe fn owner_of(&self, wait: &InProgress, lock: jni::jobject) -> Option<Owner> {
        let Self { list, jvmti, jni, .. } = self;
        if lock.is_null() {
            return None;
        }
        // SAFETY: the caller guarantees the object; the others are live local references.
        unsafe {
            let owner = match locks::kind(wait.class) {
                LockKind::Monitor => jvmti.get_object_monitor_usage(lock).ok()?.owner,
                _ => locks::owner_of(jni, lock),
            };
            if owner.is_null() {
                return None;
            }
            if jni.is_virtual_thread(owner).unwrap_or(false) {
                return java_threads::number(jni, owner).map(Owner::Virtual);
            }
            // For JDKs that name the carrier of the virtual thread that has it.
            if java_threads::is_carrier(jni, owner) {
                return None;
            }
            list.os_id_of(owner).map(Owner::Platform)
        }
    }
}
