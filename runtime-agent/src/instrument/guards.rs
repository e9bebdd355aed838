//! Closes and opens the guards of methods: of those that the user mutes by patterns, now or when they are instrumented
//! later; of those that the overhead budget throttles; and of those with probes of an earlier attachment.
//!
//! Nothing is retransformed here: the guard in Java gets a list of methods to turn away, and the probe learns which
//! calls in progress that concerns (see `probe::mute`).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use jvmti_bindings::env::JniEnv;
use log_format::error::BadValue;
use log_format::ids::MethodId;
use log_format::method_state::MethodState;
use log_format::pattern::Pattern;

use crate::error::{Error, JvmError};
use crate::instrument::methods::{AT_A_TIME, Methods};
use crate::instrument::virtual_loops;
use crate::jvm::probe_class::ProbeClass;
use crate::probe;
use crate::probe::mute::{self, Cause};
use crate::sys::clock;

/// Most patterns that are remembered.
const MAX_RULES: usize = 255;

/// Why a method's guard is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClosedReason {
    /// The user muted it.
    Muted,
    /// The overhead budget throttled it.
    Throttled,
    /// Its class has the probes of an earlier attachment.
    Stale,
}

impl ClosedReason {
    const ALL: [Self; 3] = [Self::Muted, Self::Throttled, Self::Stale];

    /// The state of a method that is closed for this reason.
    fn state(self) -> MethodState {
        match self {
            Self::Stale => MethodState::Postponed,
            Self::Muted => MethodState::Muted,
            Self::Throttled => MethodState::Throttled,
        }
    }

    /// To whom the probe counts calls that were in progress.
    fn cause(self) -> Cause {
        match self {
            Self::Muted => Cause::User,
            Self::Throttled | Self::Stale => Cause::Agent,
        }
    }
}

/// The user's rules, and the methods whose guards are closed.
pub(crate) struct Guards {
    methods: Arc<Methods>,
    /// The last that names a method holds for it.
    rules: Vec<Rule>,
    /// The methods, by [`ClosedReason`]. A guard is closed while there is one reason.
    closed: [HashSet<MethodId>; ClosedReason::ALL.len()],
    /// By id, as the guard in Java has it; index 0 is no method's. Empty if no guard is closed.
    by_id: Vec<i8>,
    /// Methods whose ids are at most this have been matched against the rules.
    seen: usize,
    /// Methods that the user has muted at some time in this run.
    were_muted: HashSet<MethodId>,
}

/// A pattern, and whether the methods that it names are muted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub pattern: Pattern,
    pub mutes: bool,
}

/// What the user has muted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Muting {
    /// The rules that still have an effect.
    pub rules: Vec<Rule>,
    pub methods: u64,
    /// Calls that were in progress, and dropped, when a rule muted or unmuted their method.
    pub dropped_calls: u64,
}

impl Guards {
    pub(crate) fn new(methods: Arc<Methods>) -> Self {
        Self {
            methods,
            rules: Vec::new(),
            closed: Default::default(),
            by_id: Vec::new(),
            seen: 0,
            were_muted: HashSet::new(),
        }
    }

    fn closed(&self, reason: ClosedReason) -> &HashSet<MethodId> {
        let [muted, throttled, stale] = &self.closed;
        match reason {
            ClosedReason::Muted => muted,
            ClosedReason::Throttled => throttled,
            ClosedReason::Stale => stale,
        }
    }

    fn closed_mut(&mut self, reason: ClosedReason) -> &mut HashSet<MethodId> {
        let [muted, throttled, stale] = &mut self.closed;
        match reason {
            ClosedReason::Muted => muted,
            ClosedReason::Throttled => throttled,
            ClosedReason::Stale => stale,
        }
    }

    pub(crate) fn muting(&self) -> Muting {
        Muting {
            rules: self.rules.clone(),
            methods: self.muted_count(),
            dropped_calls: mute::dropped_calls(Cause::User),
        }
    }

    /// How many methods the user has muted.
    pub(crate) fn muted_count(&self) -> u64 {
        self.closed(ClosedReason::Muted).len() as u64
    }

    /// The methods that the user has muted.
    pub(crate) fn muted(&self) -> impl Iterator<Item = MethodId> + '_ {
        self.closed(ClosedReason::Muted).iter().copied()
    }

    /// The methods with probes of an earlier attachment.
    pub(crate) fn stale(&self) -> impl Iterator<Item = MethodId> + '_ {
        self.closed(ClosedReason::Stale).iter().copied()
    }

    /// Whether the user has muted a method.
    pub(crate) fn is_muted(&self, id: MethodId) -> bool {
        self.closed(ClosedReason::Muted).contains(&id)
    }

    /// Whether the user has muted a method at some time in this run.
    pub(crate) fn was_muted(&self, id: MethodId) -> bool {
        self.were_muted.contains(&id)
    }

    /// Whether a method's guard is closed.
    pub(crate) fn is_closed(&self, id: MethodId) -> bool {
        self.by_id.get(id.index()).is_some_and(|closed| *closed != 0)
    }

    /// The state of a method that has probes.
    pub(crate) fn state(&self, id: MethodId) -> MethodState {
        let reasons = ClosedReason::ALL.into_iter().filter(|why| self.closed(*why).contains(&id));
        // The first in the order of states counts.
        reasons.map(ClosedReason::state).min().unwrap_or(MethodState::Instrumented)
    }

    /// The rules that still have an effect, in the order in which they were given.
    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Mutes or unmutes all methods that `pattern` names, now and later. Calls `between` every 20 ms
    /// while it matches. Returns how many methods the pattern names now.
    ///
    /// # Errors
    /// There are too many patterns, or the JVM refuses it.
    pub(crate) fn mute(
        &mut self,
        pattern: Pattern,
        mutes: bool,
        probe_class: &ProbeClass,
        jni: &JniEnv,
        between: impl FnMut(),
    ) -> Result<usize, Error> {
        let before = self.rules.clone();
        // This pattern names all methods: earlier rules do not matter any more.
        let is_all = pattern.as_str() == "**";
        self.rules.retain(|rule| rule.pattern != pattern && !is_all);
        if self.rules.len() == MAX_RULES {
            self.rules = before;
            let reason = format!("more than {MAX_RULES} patterns; unmute ** forgets them");
            return Err(BadValue::because(reason).of("mute").into());
        }
        // The last rule that names a method holds, so the other rules need no matching.
        let mut wanted = Vec::new();
        let last = self.methods.for_each(between, |id, method| {
            if pattern.method(&method.class.name, &method.name) {
                wanted.push((id, mutes));
            }
        });
        if self.rules.is_empty() {
            self.seen = last;
        }
        self.rules.push(Rule { pattern, mutes });
        if self.rules.iter().all(|rule| !rule.mutes) {
            self.rules.clear();
        }
        self.change(ClosedReason::Muted, &wanted, probe_class, jni)
            .inspect_err(|_| self.rules = before)?;
        Ok(wanted.len())
    }

    /// Applies the rules to methods that were instrumented since they were set, for up to 20 ms; to the rest at the
    /// next call. `true` if more or fewer methods are muted now.
    ///
    /// # Errors
    /// The JVM refuses it. It is not tried again for these methods.
    pub(crate) fn follow(
        &mut self,
        probe_class: &ProbeClass,
        jni: &JniEnv,
    ) -> Result<bool, JvmError> {
        if self.rules.is_empty() || self.seen == self.methods.count() {
            return Ok(false);
        }
        let (rules, before) = (&self.rules, self.muted_count());
        let mut wanted = Vec::new();
        let deadline = Instant::now() + AT_A_TIME;
        self.seen = self.methods.for_each_from(self.seen + 1, deadline, |id, method| {
            let names = |rule: &&Rule| rule.pattern.method(&method.class.name, &method.name);
            wanted.push((id, rules.iter().rfind(names).is_some_and(|rule| rule.mutes)));
        });
        self.change(ClosedReason::Muted, &wanted, probe_class, jni)?;
        Ok(self.muted_count() != before)
    }

    /// Sets whether this reason holds for these methods. A guard is open when none holds.
    ///
    /// # Errors
    /// The JVM refuses it. Nothing has changed.
    pub(crate) fn set(
        &mut self,
        reason: ClosedReason,
        ids: &[MethodId],
        holds: bool,
        probe_class: &ProbeClass,
        jni: &JniEnv,
    ) -> Result<(), JvmError> {
        let wanted: Vec<(MethodId, bool)> = ids.iter().map(|id| (*id, holds)).collect();
        self.change(reason, &wanted, probe_class, jni)
    }

    /// Frees what muting used. Recording has ended.
    pub(crate) fn forget_muted(&self, probe_class: &ProbeClass, jni: &JniEnv) {
        // If the JVM has no memory for an empty array, it keeps the old one, which nobody reads any more.
        let _ = probe_class.set_muted(jni, &[]);
        mute::forget();
    }

    /// Sets for each method whether this reason holds, and closes or opens guards accordingly.
    fn change(
        &mut self,
        reason: ClosedReason,
        wanted: &[(MethodId, bool)],
        probe_class: &ProbeClass,
        jni: &JniEnv,
    ) -> Result<(), JvmError> {
        let others = ClosedReason::ALL.into_iter().filter(|other| *other != reason);
        let others: Vec<&HashSet<MethodId>> = others.map(|other| self.closed(other)).collect();
        let stays_closed = |id: &MethodId| others.iter().any(|closed| closed.contains(id));
        let changed: Vec<(MethodId, bool)> = wanted
            .iter()
            .map(|(id, holds)| (*id, *holds || stays_closed(id)))
            .filter(|(id, closes)| *closes != self.is_closed(*id))
            .collect();
        self.move_guards(&changed, reason.cause(), probe_class, jni)?;
        for (id, holds) in wanted {
            // A method that could not be marked is measured as before.
            if *holds && self.is_closed(*id) {
                self.closed_mut(reason).insert(*id);
                if reason == ClosedReason::Muted {
                    self.were_muted.insert(*id);
                }
            } else {
                self.closed_mut(reason).remove(id);
            }
        }
        Ok(())
    }

    /// Closes or opens each guard.
    fn move_guards(
        &mut self,
        changed: &[(MethodId, bool)],
        cause: Cause,
        probe_class: &ProbeClass,
        jni: &JniEnv,
    ) -> Result<(), JvmError> {
        let of = |to: bool| {
            let ids = changed.iter().filter(move |(_, closes)| *closes == to);
            ids.map(|(id, _)| *id).collect::<Vec<MethodId>>()
        };
        let (mut to_close, to_open) = (of(true), of(false));
        if !to_close.is_empty() && probe::is_recording() {
            let to_close: HashSet<MethodId> = to_close.iter().copied().collect();
            virtual_loops::remember(|id| to_close.contains(&id));
        }
        // Methods that cannot be marked stay as they are.
        to_close.retain(|id| mute::set(*id, true, cause, clock::ticks()));
        if to_close.is_empty() && to_open.is_empty() {
            return Ok(());
        }
        let by_id = self.with(&to_close, &to_open);
        mute::tell();
        let outcome = probe_class.set_muted(jni, &by_id);
        // Unmark now that the guards are open. If they could not be changed, undo the new marks instead.
        let unmarked = if outcome.is_ok() { to_open } else { to_close };
        for id in unmarked {
            mute::set(id, false, cause, clock::ticks());
        }
        mute::tell();
        if outcome.is_ok() {
            self.by_id = by_id;
        }
        outcome
    }

    /// The guards by id, with these changes.
    fn with(&self, to_close: &[MethodId], to_open: &[MethodId]) -> Vec<i8> {
        let mut by_id = self.by_id.clone();
        let last = to_close.iter().chain(to_open).map(|id| id.index()).max().unwrap_or(0);
        by_id.resize(by_id.len().max(last + 1), 0);
        for (ids, value) in [(to_close, 1), (to_open, 0)] {
            for id in ids {
                if let Some(entry) = by_id.get_mut(id.index()) {
                    *entry = value;
                }
            }
        }
        if !by_id.contains(&1) {
            by_id.clear();
        }
        by_id
    }
}
