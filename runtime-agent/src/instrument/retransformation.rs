//! Which loaded classes are retransformed during a run, and when each is requested.
//!
//! ```text
//! at the start            classes that the filters select, and those with the probes of an earlier attachment
//! each round              classes of an earlier attachment that were loaded meanwhile
//! a second after a mute   classes of methods that were muted, without the probes of these
//! after an unmute         classes of methods that get their probes back
//! ```
//! `class_changes` decides when a requested class may be retransformed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use log_format::ids::MethodId;

use super::change_counts::LoadedClassFigures;
use super::class_changes::ClassChanges;
use super::guards::Guards;
use super::load_hook::{self, LoadHook};
use super::loaded_class::LoadedClass;
use super::methods::Methods;
use super::park_probes;
use super::postponed::Postponed;
use super::stale_classes::StaleClasses;
use super::statement_probes;
use crate::options::retransform::Retransform;
use crate::stderr::message;

/// How long methods stay muted before they are retransformed out: for a short mute it is not worth it.
const UNTIL_WITHDRAWN: Duration = Duration::from_secs(1);

/// The loaded classes that are to be retransformed.
pub(crate) struct Retransformation<'j> {
    jvmti: &'j Jvmti,
    methods: Arc<Methods>,
    changes: ClassChanges<'j>,
    stale: StaleClasses,
    /// When to retransform muted methods out, if there may be any.
    withdraw_at: Option<Instant>,
}

/// What a step has changed.
pub(crate) struct Step {
    /// The classes that are not instrumented for now, if they are others than before.
    pub postponed: Option<Vec<Postponed>>,
    /// Methods whose class no longer has the probes of an earlier attachment.
    pub no_longer_stale: Vec<MethodId>,
}

impl<'j> Retransformation<'j> {
    pub(crate) fn new(
        jvmti: &'j Jvmti,
        jni: &'j JniEnv,
        methods: Arc<Methods>,
        retransform: Retransform,
    ) -> Self {
        const CONSEQUENCE: &str = "was not retransformed";
        Self {
            jvmti,
            changes: ClassChanges::new(jvmti, jni, methods.clone(), retransform, CONSEQUENCE),
            stale: StaleClasses::new(methods.with_probes()),
            methods,
            withdraw_at: None,
        }
    }

    /// The methods of classes with the probes of an earlier attachment.
    pub(crate) fn stale_methods(&self) -> Vec<MethodId> {
        self.stale.ids()
    }

    /// Opens the load hook, and retransforms loaded classes that the filters select or that have the probes of an
    /// earlier attachment.
    pub(crate) fn begin(&mut self, load_hook: &LoadHook) {
        let Self { jvmti, changes, stale, .. } = self;
        load_hook::open_hook(jvmti);
        let wanted = |class: &LoadedClass<'_>| {
            class.key().filter(|key| {
                stale.finds(key)
                    || class.is_selected(load_hook, key)
                    || class.is_of_driver(load_hook, key)
            })
        };
        changes.add(wanted, || {});
    }

    /// JDBC drivers get probes from now on, whatever the filters select. The load hook opens next.
    pub(crate) fn begin_statements(&self, jni: &JniEnv) {
        if let Err(error) = statement_probes::begin(self.jvmti, jni) {
            message!("sql: {error}; statements are not counted");
        }
    }

    /// Inserts the probes of parks, whatever the filters select.
    pub(crate) fn begin_parks(&self, jni: &JniEnv, retransform: Retransform) {
        park_probes::begin(self.jvmti, jni, retransform);
        // No batch of classes.
        load_hook::take_passed();
    }

    /// Retransforms classes that waited for their loops to end, and classes of an earlier attachment that were loaded
    /// meanwhile. Calls `between` after each batch.
    pub(crate) fn step(&mut self, mut between: impl FnMut()) -> Step {
        let Self { changes, stale, methods, .. } = self;
        let mut done = Vec::new();
        if stale.is_time() {
            // The ids of a class whose loader is gone may belong to another class now.
            done.extend(stale.classes.extract_if(|class, _| !methods.knows(class)));
            let wanted = |class: &LoadedClass<'_>| class.key().filter(|key| stale.finds(key));
            changes.add(wanted, &mut between);
        }
        changes.step(&mut between);
        let postponed = changes.take_news().then(|| {
            // The others still have probes, and only wait to lose those of muted methods.
            let is_measured =
                |class: &Postponed| class.has_probes && !stale.classes.contains_key(&class.key);
            let mut postponed = changes.postponed();
            postponed.retain(|class| !is_measured(class));
            postponed
        });
        done.extend(changes.take_done().iter().filter_map(|key| stale.classes.remove_entry(key)));
        let no_longer_stale = done.into_iter().flat_map(|(_, ids)| ids).collect();
        Step { postponed, no_longer_stale }
    }

    /// Puts the probes back into methods that are no longer muted. Those that are muted lose theirs soon; see
    /// [`take_long_muted`](Self::take_long_muted). Calls `between` after each batch.
    pub(crate) fn mutes_changed(&mut self, guards: &Guards, between: impl FnMut()) {
        let given = self.methods.allow_probes_again(|id| !guards.is_muted(id));
        self.change_classes_of(&given, between);
        self.withdraw_at = Some(Instant::now() + UNTIL_WITHDRAWN);
    }

    /// The muted methods that still have probes, once after each change of mutes, when that was long ago enough.
    pub(crate) fn take_long_muted(&mut self, guards: &Guards) -> Option<Vec<MethodId>> {
        self.withdraw_at.take_if(|at| Instant::now() >= *at)?;
        Some(guards.muted().filter(|id| !self.methods.is_kept_without_probes(*id)).collect())
    }

    /// Retransforms methods out, so that they cost nothing at all: code that was compiled while they were called would
    /// call the guard for good. Calls `between` after each batch.
    pub(crate) fn withdraw(&mut self, ids: &HashSet<MethodId>, between: impl FnMut()) {
        if !ids.is_empty() {
            self.methods.keep_without_probes(ids);
        }
        self.change_classes_of(ids, between);
    }

    /// Retransforms the classes of these methods as soon as no loop runs in them.
    fn change_classes_of(&mut self, ids: &HashSet<MethodId>, between: impl FnMut()) {
        if ids.is_empty() {
            return;
        }
        let Self { changes, methods, .. } = self;
        let wanted = |class: &LoadedClass<'_>| {
            let key = class.key()?;
            methods.has_any(key.0, &key.1, ids).then_some(key)
        };
        changes.add(wanted, between);
    }

    /// Whether it is not certain yet which loaded classes can be retransformed.
    pub(crate) fn is_settling(&self) -> bool {
        self.changes.is_unsent() || !self.changes.is_settled()
    }

    /// Whether nothing is to be done in the next rounds.
    pub(crate) fn is_idle(&self) -> bool {
        self.changes.is_idle() && self.stale.classes.is_empty() && self.withdraw_at.is_none()
    }

    /// Whether classes wait in which no loop runs.
    pub(crate) fn has_unsent(&self) -> bool {
        self.changes.is_unsent()
    }

    /// How many classes are not retransformed for now.
    pub(crate) fn postponed_count(&self) -> usize {
        self.changes.postponed_count()
    }

    /// The classes that are not retransformed for now.
    pub(crate) fn postponed(&self) -> Vec<Postponed> {
        self.changes.postponed()
    }

    pub(crate) fn figures(&self) -> LoadedClassFigures {
        self.changes.figures()
    }

    /// Whether classes were retransformed while there were virtual threads whose stacks could not be read.
    pub(crate) fn has_unchecked_threads(&self) -> bool {
        self.changes.has_unchecked_threads()
    }

    /// No class waits to be retransformed any more.
    pub(crate) fn clear(&mut self) {
        self.changes.clear();
    }
}
