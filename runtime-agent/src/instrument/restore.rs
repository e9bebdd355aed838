//! Restores classes after a run, as far as no loop runs in them.
//!
//! The load hook is closed by then, so a class that is retransformed loses its probes. A class that passed the hook
//! shortly before may be defined later, with probes: the restorer looks for it as long as it waits for others.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};

use super::change_counts::LoadedClassFigures;
use super::class_changes::ClassChanges;
use super::load_hook;
use super::loaded_class::LoadedClass;
use crate::instrument::methods::{ClassKey, Methods};
use crate::instrument::{park_probes, statement_probes};
use crate::options::retransform::Retransform;
use crate::phase;

/// How long a class may take from the hook until it can be found.
const IN_FLIGHT: Duration = Duration::from_millis(50);
/// How long to wait until it is certain which loops are long-lived.
const SETTLING: Duration = Duration::from_secs(9);
/// How long to go on after that, and how often to look for classes that are defined only now.
const PATIENCE: Duration = Duration::from_secs(60);
const ROUND: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(50);

/// Restores the classes that have probes.
pub(crate) struct Restorer<'j> {
    jvmti: &'j Jvmti,
    jni: &'j JniEnv,
    methods: Arc<Methods>,
    changes: ClassChanges<'j>,
    retransform: Retransform,
    /// Classes that were found loaded.
    found: HashSet<ClassKey>,
}

impl<'j> Restorer<'j> {
    pub(crate) fn new(jvmti: &'j Jvmti, jni: &'j JniEnv, retransform: Retransform) -> Self {
        const CONSEQUENCE: &str = "keeps its probes, which do nothing";
        let methods = Methods::all();
        let changes = ClassChanges::new(jvmti, jni, methods.clone(), retransform, CONSEQUENCE);
        Self { jvmti, jni, methods, changes, retransform, found: HashSet::new() }
    }

    /// Restores what can be restored at once or within seconds.
    pub(crate) fn begin(&mut self) {
        if self.retransform == Retransform::Off {
            return;
        }
        let begun = Instant::now();
        park_probes::end(self.jvmti, self.jni);
        statement_probes::end();
        load_hook::take_passed();
        self.add();
        thread::sleep(IN_FLIGHT);
        self.add();
        while !phase::is_ending()
            && (self.changes.is_unsent()
                || !self.changes.is_settled() && begun.elapsed() < SETTLING)
        {
            thread::sleep(TICK);
            self.changes.step(|| {});
        }
    }

    /// Goes on with the rest for a minute, as long as `goes_on` says so.
    pub(crate) fn finish(&mut self, goes_on: impl Fn() -> bool) {
        if self.retransform == Retransform::Off {
            return;
        }
        let begun = Instant::now();
        let mut looked = begun;
        let is_something_left =
            |this: &Self| this.changes.is_confirming() || this.methods.have_probes();
        while goes_on()
            && !phase::is_ending()
            && begun.elapsed() < PATIENCE
            && is_something_left(self)
        {
            thread::sleep(TICK);
            self.changes.step(|| {});
            if looked.elapsed() >= ROUND {
                looked = Instant::now();
                self.add();
            }
        }
        self.changes.clear();
    }

    /// What became of the classes, for the answer to a detach.
    pub(crate) fn figures(&self) -> LoadedClassFigures {
        let figures = self.changes.figures();
        let with_probes = self.methods.with_probes();
        let not_seen = with_probes.keys().filter(|class| !self.found.contains(*class)).count();
        let (not_restored, not_seen) = match self.retransform {
            Retransform::Off => (with_probes.len(), 0),
            _ => (0, not_seen),
        };
        LoadedClassFigures {
            not_retransformed: figures.not_retransformed + not_restored as u64,
            not_seen_loaded: not_seen as u64,
            ..figures
        }
    }

    fn add(&mut self) {
        let Self { methods, changes, found, .. } = self;
        let wanted = |class: &LoadedClass<'_>| {
            let key = class.key()?;
            // One that the JVM refused once is not tried again.
            (methods.has_probes(&key) && found.insert(key.clone())).then_some(key)
        };
        changes.add(wanted, || {});
    }
}
