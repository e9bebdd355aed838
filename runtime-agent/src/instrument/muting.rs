//! Mutes and unmutes methods: those that patterns name, now or when they are instrumented later, and those that are
//! throttled.
//!
//! Nothing is retransformed here: the guard in Java gets a list of methods to turn away, and the probe learns which
//! calls in progress that concerns (see `probe::mute`).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use jvmti_bindings::env::JniEnv;
use log_format::pattern::Pattern;

use crate::instrument::methods::{AT_A_TIME, Methods};
use crate::instrument::virtual_loops;
use crate::jvm::probe_class::ProbeClass;
use crate::probe;
use crate::probe::mute::{self, Cause};
use crate::sys::clock;

/// Most patterns that are remembered.
const MAX_RULES: usize = 255;

/// The rules, and the methods that are muted.
pub(crate) struct Muting {
    methods: Arc<Methods>,
    /// The last that names a method holds for it.
    rules: Vec<Rule>,
    /// The methods that they mute.
    named: HashSet<u32>,
    /// Methods that are throttled.
    throttled: HashSet<u32>,
    /// Methods of classes that have the probes of an earlier attachment.
    stale: HashSet<u32>,
    /// By id, as the guard in Java has it; index 0 is no method's. Empty if nothing is muted.
    by_id: Vec<i8>,
    /// Methods whose ids are at most this have been matched against the rules.
    seen: usize,
}

/// A pattern, and whether the methods that it names are muted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub pattern: Pattern,
    pub mutes: bool,
}

impl Muting {
    pub(crate) fn new(methods: Arc<Methods>) -> Self {
        Self {
            methods,
            rules: Vec::new(),
            named: HashSet::new(),
            throttled: HashSet::new(),
            stale: HashSet::new(),
            by_id: Vec::new(),
            seen: 0,
        }
    }

    /// How many methods are muted by patterns.
    pub(crate) fn count(&self) -> u64 {
        self.named.len() as u64
    }

    /// Whether a method is muted by a pattern.
    pub(crate) fn is_named(&self, id: u32) -> bool {
        self.named.contains(&id)
    }

    /// Whether a method is muted, for any reason.
    pub(crate) fn is_muted(&self, id: u32) -> bool {
        self.by_id.get(id as usize).is_some_and(|muted| *muted != 0)
    }

    /// The methods that are muted, for any reason.
    pub(crate) fn muted(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.by_id).filter(|(_, muted)| **muted != 0).map(|(id, _)| id)
    }

    /// The rules that still have an effect, in the order in which they were given.
    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Mutes or unmutes all methods that `pattern` names, now and later. Calls `between` every 20 ms
    /// while it matches. Returns how many methods the pattern names now.
    ///
    /// # Errors
    /// One line: there are too many patterns, or what the JVM refused.
    pub(crate) fn set(
        &mut self,
        pattern: Pattern,
        mutes: bool,
        probe_class: &ProbeClass,
        jni: &JniEnv,
        between: impl FnMut(),
    ) -> Result<usize, String> {
        let before = self.rules.clone();
        // This pattern names all methods: earlier rules do not matter any more.
        let is_all = pattern.as_str() == "**";
        self.rules.retain(|rule| rule.pattern != pattern && !is_all);
        if self.rules.len() == MAX_RULES {
            self.rules = before;
            return Err(format!("mute: more than {MAX_RULES} patterns; unmute ** forgets them"));
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
        self.mute_named(&wanted, probe_class, jni).inspect_err(|_| self.rules = before)?;
        Ok(wanted.len())
    }

    /// Throttles methods, or measures them again.
    ///
    /// # Errors
    /// One line: what the JVM refused.
    pub(crate) fn throttle(
        &mut self,
        ids: &[u32],
        leave: bool,
        probe_class: &ProbeClass,
        jni: &JniEnv,
    ) -> Result<(), String> {
        let before = self.throttled.clone();
        for id in ids {
            if leave {
                self.throttled.insert(*id);
            } else {
                self.throttled.remove(id);
            }
        }
        let is_closed = |id: &u32| leave || self.named.contains(id) || self.stale.contains(id);
        let wanted: Vec<(u32, bool)> = ids.iter().map(|id| (*id, is_closed(id))).collect();
        self.change(&wanted, Cause::Agent, probe_class, jni)
            .inspect_err(|_| self.throttled = before)
    }

    /// Closes the guard for methods of classes that have the probes of an earlier attachment, or opens it.
    ///
    /// # Errors
    /// One line: what the JVM refused.
    pub(crate) fn set_stale(
        &mut self,
        ids: &[u32],
        is_stale: bool,
        probe_class: &ProbeClass,
        jni: &JniEnv,
    ) -> Result<(), String> {
        for id in ids {
            if is_stale {
                self.stale.insert(*id);
            } else {
                self.stale.remove(id);
            }
        }
        let is_closed = |id: &u32| self.named.contains(id) || self.throttled.contains(id);
        let wanted = ids.iter().map(|id| (*id, is_stale || is_closed(id)));
        let wanted: Vec<(u32, bool)> = wanted.collect();
        self.change(&wanted, Cause::Agent, probe_class, jni)
    }

    /// Applies the rules to methods that were instrumented since they were set, for up to 20 ms; to the rest at the
    /// next call. `true` if more or fewer methods are muted now.
    ///
    /// # Errors
    /// One line: what the JVM refused. It is not tried again for these methods.
    pub(crate) fn follow(
        &mut self,
        probe_class: &ProbeClass,
        jni: &JniEnv,
    ) -> Result<bool, String> {
        if self.rules.is_empty() || self.seen == self.methods.count() {
            return Ok(false);
        }
        let (rules, before) = (&self.rules, self.count());
        let mut wanted = Vec::new();
        let deadline = Instant::now() + AT_A_TIME;
        self.seen = self.methods.for_each_from(self.seen + 1, deadline, |id, method| {
            let names = |rule: &&Rule| rule.pattern.method(&method.class.name, &method.name);
            wanted.push((id, rules.iter().rfind(names).is_some_and(|rule| rule.mutes)));
        });
        self.mute_named(&wanted, probe_class, jni)?;
        Ok(self.count() != before)
    }

    /// Mutes or unmutes methods that patterns name. Throttled methods stay muted.
    fn mute_named(
        &mut self,
        wanted: &[(u32, bool)],
        probe_class: &ProbeClass,
        jni: &JniEnv,
    ) -> Result<(), String> {
        let mut named = self.named.clone();
        let mut changes = Vec::with_capacity(wanted.len());
        for (id, mutes) in wanted {
            if *mutes {
                named.insert(*id);
            } else {
                named.remove(id);
            }
            changes.push((*id, *mutes || self.throttled.contains(id) || self.stale.contains(id)));
        }
        self.change(&changes, Cause::User, probe_class, jni)?;
        self.named = named;
        Ok(())
    }

    /// Mutes or unmutes each method, as `wanted` says.
    fn change(
        &mut self,
        wanted: &[(u32, bool)],
        cause: Cause,
        probe_class: &ProbeClass,
        jni: &JniEnv,
    ) -> Result<(), String> {
        let changed = |to: bool| {
            let changed =
                wanted.iter().filter(|(id, wanted)| *wanted == to && self.is_muted(*id) != to);
            changed.map(|(id, _)| *id).collect::<Vec<u32>>()
        };
        let (mut to_mute, to_unmute) = (changed(true), changed(false));
        if !to_mute.is_empty() && probe::is_recording() {
            let to_mute: HashSet<u32> = to_mute.iter().copied().collect();
            virtual_loops::remember(|id| to_mute.contains(&id));
        }
        // Methods that cannot be marked stay as they are.
        to_mute.retain(|id| mute::set(*id, true, cause, clock::ticks()));
        if to_mute.is_empty() && to_unmute.is_empty() {
            return Ok(());
        }
        let mut by_id = self.by_id.clone();
        let last = wanted.iter().map(|(id, _)| *id as usize).max().unwrap_or(0);
        by_id.resize(by_id.len().max(last + 1), 0);
        for (ids, value) in [(&to_mute, 1), (&to_unmute, 0)] {
            for id in ids {
                if let Some(entry) = by_id.get_mut(*id as usize) {
                    *entry = value;
                }
            }
        }
        if !by_id.contains(&1) {
            by_id.clear();
        }
        mute::tell();
        let told = probe_class.set_muted(jni, &by_id);
        // Unmute now that the guard is open. If the guard could not be changed, undo the new marks instead.
        let unmuted = if told.is_ok() { to_unmute } else { to_mute };
        for id in unmuted {
            mute::set(id, false, cause, clock::ticks());
        }
        mute::tell();
        if told.is_ok() {
            self.by_id = by_id;
        }
        told
    }
}
