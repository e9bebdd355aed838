//! Who has the locks for which threads wait. The agent thread asks the JVM for monitors, seldom, because each answer is
//! a safepoint; locks of `java.util.concurrent` say it themselves.
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jni;
use log_format::rows::LockKind;

use crate::hotspot::own_stack::OwnStack;
use crate::hotspot::thread_list::ThreadList;
use crate::jvm::class_names::ClassNumber;
use crate::jvm::java_threads;
use crate::locks::{self, InProgress, Key, Owner};
use crate::sys::clock;

/// Shorter waits end before the answer.
const LEAST_NS: u64 = 1_000_000;
/// The JVM is asked at most so often in a second.
const MOST: usize = 20;
/// Waits that are this long so far may be long; of others some are asked for, to know who has the lock at all.
const LONG_NS: u64 = 20_000_000;
const MOST_SHORT: usize = 10;
/// Most stacks of owners that are kept until the waits have ended.
const MOST_STACKS: usize = 500;
const SECOND: Duration = Duration::from_secs(1);

/// An owner, and where it was.
type Found = (Owner, Option<OwnStack>);

/// Asks, on the agent thread.
pub(super) struct Owners<'j> {
    list: ThreadList<'j>,
    jvmti: &'j Jvmti,
    jni: &'j JniEnv,
    /// Shorter waits are not asked for.
    least_ns: u64,
    since: Instant,
    /// How many, since then.
    asked: usize,
    asked_short: usize,
    /// The same by the class of the lock.
    asked_of: HashMap<ClassNumber, usize>,
    /// Where owners were, by the thread that waits and when it began to.
    stacks: HashMap<(Key, u64), OwnStack>,
}

impl<'j> Owners<'j> {
    /// For waits that are recorded from `threshold` on.
    pub(super) fn new(
        list: ThreadList<'j>,
        jvmti: &'j Jvmti,
        jni: &'j JniEnv,
        threshold: Duration,
    ) -> Self {
        let threshold_ns = u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX);
        let least_ns = threshold_ns.clamp(LEAST_NS, LONG_NS);
        let (asked_of, stacks) = (HashMap::new(), HashMap::new());
        Self {
            list,
            jvmti,
            jni,
            least_ns,
            since: Instant::now(),
            asked: 0,
            asked_short: 0,
            asked_of,
            stacks,
        }
    }

    /// Asks for the waits that have lasted longest, and were not asked for.
    pub(super) fn round(&mut self) {
        if self.since.elapsed() >= SECOND {
            (self.since, self.asked, self.asked_short) = (Instant::now(), 0, 0);
            self.asked_of.clear();
        }
        let now = clock::ticks();
        let lasted_ns = |wait: &InProgress| clock::ticks_to_ns(now.saturating_sub(wait.began));
        let is_due = |(_, wait): &(Key, InProgress)| {
            wait.owner == Owner::NotAsked
                && locks::may_have_owner(wait.class)
                && lasted_ns(wait) >= self.least_ns
        };
        let mut due: Vec<(Key, InProgress)> = locks::all().into_iter().filter(is_due).collect();
        due.sort_by_key(|(_, wait)| wait.began);
        let (long, short) = due.into_iter().partition(|(_, wait)| lasted_ns(wait) >= LONG_NS);
        let mut due = self.in_turns(long);
        let long = due.len();
        due.extend(
            self.in_turns(short).into_iter().take(MOST_SHORT.saturating_sub(self.asked_short)),
        );
        due.truncate(MOST.saturating_sub(self.asked));
        if due.is_empty() {
            return;
        }
        self.asked += due.len();
        for (_, wait) in &due {
            *self.asked_of.entry(wait.class).or_default() += 1;
        }
        self.asked_short += due.len().saturating_sub(long);
        let mut owners = self.owners_of_platform(&due);
        for (key, wait) in due {
            let found = match key.virtual_thread() {
                None => owners.remove(&key).flatten(),
                Some(_) => {
                    let _frame = self.jni.push_local_frame(16);
                    // SAFETY: a live local reference, or null.
                    unsafe { self.owner_of(&wait, locks::take_monitor(key, wait.began, self.jni)) }
                }
            };
            let (owner, stack) = found.unwrap_or((Owner::Unknown, None));
            // If the wait has ended meanwhile, the owner may have gone on.
            if locks::set_owner(key, wait.began, owner)
                && let Some(stack) = stack
            {
                self.keep((key, wait.began), stack);
            }
        }
    }

    /// The same waits, so that each class of locks has its turn: those that were asked for least in this second first.
    fn in_turns(&self, waits: Vec<(Key, InProgress)>) -> Vec<(Key, InProgress)> {
        let mut turns = self.asked_of.clone();
        let turn = |wait: (Key, InProgress)| {
            let turn = turns.entry(wait.1.class).or_default();
            *turn += 1;
            (*turn, wait)
        };
        let mut waits: Vec<(usize, _)> = waits.into_iter().map(turn).collect();
        waits.sort_by_key(|(turn, _)| *turn);
        waits.into_iter().map(|(_, wait)| wait).collect()
    }

    /// Where the owner was for which a thread waited since `began`.
    pub(super) fn take_stack(&mut self, key: Key, began: u64) -> Option<OwnStack> {
        self.stacks.remove(&(key, began))
    }

    fn keep(&mut self, wait: (Key, u64), stack: OwnStack) {
        if self.stacks.len() >= MOST_STACKS {
            // Waits that were not recorded leave them behind.
            let in_progress: HashSet<(Key, u64)> =
                locks::all().into_iter().map(|(key, wait)| (key, wait.began)).collect();
            self.stacks.retain(|wait, _| in_progress.contains(wait));
        }
        if self.stacks.len() < MOST_STACKS {
            self.stacks.insert(wait, stack);
        }
    }

    /// Who has the monitors for which platform threads wait.
    fn owners_of_platform(&self, waits: &[(Key, InProgress)]) -> HashMap<Key, Option<Found>> {
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
                            monitor
                                .unwrap_or_else(|_| locks::take_monitor(*key, wait.began, self.jni))
                        }
                        _ => locks::blocker_of(self.jni, thread.object),
                    };
                    self.owner_of(wait, lock)
                };
                // It may have got the monitor just now.
                let is_other = |(owner, _): &Found| *owner != Owner::Platform(thread.os_id);
                owners.insert(*key, owner.filter(is_other));
            }
        });
        owners
    }

    /// Who has the lock for which a thread waits, and where it is.
    ///
    /// # Safety
    /// `lock` is a live reference, or null. The local references are freed by the caller.
    unsafe fn owner_of(&self, wait: &InProgress, lock: jni::jobject) -> Option<Found> {
        let Self { list, jvmti, jni, .. } = self;
        if lock.is_null() {
            return None;
        }
        // SAFETY: the caller guarantees the object; the others are live local references.
        unsafe {
            let ask = || match locks::kind(wait.class) {
                LockKind::Monitor => Some(jvmti.get_object_monitor_usage(lock).ok()?.owner),
                _ => Some(locks::owner_of(jni, lock)),
            };
            let owner = ask().filter(|owner| !owner.is_null())?;
            // It may have gone on before its stack was taken.
            let stack = || {
                let stack = OwnStack::said(jvmti, owner)?;
                let still = ask().filter(|still| !still.is_null())?;
                jni.is_same_object(owner, still).then_some(stack)
            };
            if jni.is_virtual_thread(owner).unwrap_or(false) {
                let number = java_threads::number(jni, owner)?;
                return Some((Owner::Virtual(number), stack()));
            }
            // For JDKs that name the carrier of the virtual thread that has it.
            if java_threads::is_carrier(jni, owner) {
                return None;
            }
            let os_id = list.os_id_of(owner)?;
            Some((Owner::Platform(os_id), stack()))
        }
    }
}
