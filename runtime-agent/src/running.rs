//! What the agent is at in this JVM: nothing, or one profile, from the JVM's start or an attach until
//! the JVM's end or a detach.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use crate::class_hook::ClassHook;
use crate::engine::Handle;
use crate::loaders::Loaders;

/// What callbacks need while a profile is under way.
pub(crate) struct Running {
    pub hook: ClassHook,
    pub loaders: &'static Loaders,
    pub engine: Handle,
    pub retransformed: Arc<Retransformed>,
    /// Whether classes get probes. Whoever gives them some holds it meanwhile.
    gate: RwLock<bool>,
}

impl Running {
    pub(crate) fn new(hook: ClassHook, loaders: &'static Loaders, engine: Handle) -> Self {
        let retransformed = Arc::new(Retransformed::default());
        Self { hook, loaders, engine, retransformed, gate: RwLock::new(true) }
    }

    /// The right to give a class probes, for as long as it is held; `None` once the gate is closed.
    pub(crate) fn enter_gate(&self) -> Option<RwLockReadGuard<'_, bool>> {
        Some(self.gate.read().unwrap_or_else(PoisonError::into_inner)).filter(|is_open| **is_open)
    }

    /// No class is given probes any more: who was at it has ended when this returns.
    pub(crate) fn close_gate(&self) {
        *self.gate.write().unwrap_or_else(PoisonError::into_inner) = false;
    }
}

/// What came of sending loaded classes through the hook.
#[derive(Debug, Default)]
pub(crate) struct Retransformed {
    classes: AtomicU64,
    failed: AtomicU64,
    longest_ns: AtomicU64,
}

impl Retransformed {
    /// Counts a batch that took so long.
    pub(crate) fn add(&self, classes: usize, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.classes.fetch_add(classes as u64, Ordering::Relaxed);
        self.longest_ns.fetch_max(ns, Ordering::Relaxed);
    }

    pub(crate) fn add_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Classes that were sent.
    pub(crate) fn classes(&self) -> u64 {
        self.classes.load(Ordering::Relaxed)
    }

    /// Classes that the JVM refused to change.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// How long the longest batch took, in nanoseconds.
    pub(crate) fn longest_ns(&self) -> u64 {
        self.longest_ns.load(Ordering::Relaxed)
    }
}

static RUNNING: RwLock<Option<Arc<Running>>> = RwLock::new(None);

/// What is under way, if it has come as far as to have classes.
pub(crate) fn get() -> Option<Arc<Running>> {
    RUNNING.read().unwrap_or_else(PoisonError::into_inner).clone()
}

pub(crate) fn set(running: Arc<Running>) {
    *RUNNING.write().unwrap_or_else(PoisonError::into_inner) = Some(running);
}

/// Whether a profile is under way, from before it begins until it has ended to the last.
static IS_TAKEN: Mutex<bool> = Mutex::new(false);

fn taken() -> MutexGuard<'static, bool> {
    IS_TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a profile is under way, begins, or ends.
pub(crate) fn is_taken() -> bool {
    *taken()
}

/// Takes the right to begin a profile; `false` if one is under way.
pub(crate) fn take() -> bool {
    !std::mem::replace(&mut *taken(), true)
}

/// The profile that was under way is no more.
pub(crate) fn end() {
    *RUNNING.write().unwrap_or_else(PoisonError::into_inner) = None;
    *taken() = false;
}
