//! Retransforms loaded classes, each of them when nothing long-lived runs in it.
//!
//! ```text
//! add     look at all stacks; retransform the classes that nothing long-lived runs in; the rest waits
//! step    look again; retransform classes that have left the stacks; after a minute, give the others up
//! ```
//! Retransforming goes on for seconds after a look; then another look comes before the next classes.
//! A class that passes the hook gets the probes that it should have at that moment, so the order of several requests
//! does not matter. With the hook closed it gets its own bytes back.
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};

use super::activations::stack_looks::Stacks;
use super::activations::{Classes, Seen, Wanted, carriers};
use super::ages::{Ages, BETWEEN_LOOKS, LONG_LIVED};
use super::batches::{Batches, Pace, Sent};
use super::caught_loops::{self, CaughtLoops};
use super::change_counts::{ChangeCounts, LoadedClassFigures};
use super::first_pause;
use super::loaded_class::LoadedClass;
use super::postponed::{self, NAMED, Postponed, PostponedReason};
use log_format::ids::JavaThreadId;

use crate::instrument::methods::{ClassKey, Methods};
use crate::jvm::jvm_properties::MOST_REFERENCES;
use crate::jvm::{recent_mounts, virtual_threads};
use crate::options::retransform::Retransform;
use crate::probe::mounts::{self, Events};
use crate::stderr::message;
use crate::sys::clock;

/// How long a class with a long-lived activation waits before it is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long before the first look the agent notes which virtual threads are mounted, if there are any. The look reads
/// the stacks of these, parked or not.
const LISTENING: Duration = Duration::from_secs(2);
/// How long all looks together may take, from one `add` until everything is done or given up; quick looks get a part
/// of it. The pause after a look is [`PAUSE_BETWEEN`] times as long as the look, so that looks spread over that time.
const LOOKING: Duration = Duration::from_secs(10);
const LOOKING_QUICKLY: Duration = Duration::from_secs(3);
const PAUSE_BETWEEN: u32 = 8;
/// After a look, classes are retransformed for this many times as long as it took, within limits: what it has seen gets
/// old, and looks stop threads too.
const SENDING: u32 = 4;
const SENDING_LIMITS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5));
/// How long the look for caught loops may take.
const CONFIRMING: Duration = Duration::from_secs(2);

/// A class that waits.
struct Waiting {
    /// A weak global reference.
    class: jni::jweak,
    key: ClassKey,
    since: Instant,
    runs: Option<Seen>,
}

/// Classes that are being retransformed, by their references, and whether each had probes before.
type Taken = HashMap<jni::jweak, (Waiting, bool)>;

/// The classes that wait, and how to change them.
pub(crate) struct ClassChanges<'j> {
    jvmti: &'j Jvmti,
    jni: &'j JniEnv,
    methods: Arc<Methods>,
    retransform: Retransform,
    /// For messages: what is true of a class that is not retransformed.
    consequence: &'static str,
    stacks: Option<Stacks<'j>>,
    is_first_pause_long: bool,
    waiting: Vec<Waiting>,
    given_up: Vec<Postponed>,
    ages: Ages,
    /// When looks began, and what they took so far.
    looks_since: Instant,
    looked: Duration,
    /// Classes wait only because the time to send them was up.
    is_unsent: bool,
    pace: Pace,
    next_look: Option<Instant>,
    /// Until when mounted virtual threads are noted. No look comes before that.
    listens_until: Option<Instant>,
    next_quick_look: Instant,
    caught: CaughtLoops,
    /// Classes that were retransformed since the last `take_done`.
    done: Vec<ClassKey>,
    /// The postponed classes have changed since the last `take_news`.
    is_news: bool,
    counts: ChangeCounts,
}

impl<'j> ClassChanges<'j> {
    pub(crate) fn new(
        jvmti: &'j Jvmti,
        jni: &'j JniEnv,
        methods: Arc<Methods>,
        retransform: Retransform,
        consequence: &'static str,
    ) -> Self {
        Self {
            jvmti,
            jni,
            methods,
            retransform,
            consequence,
            stacks: None,
            is_first_pause_long: false,
            waiting: Vec::new(),
            given_up: Vec::new(),
            ages: Ages::default(),
            looks_since: Instant::now(),
            looked: Duration::ZERO,
            is_unsent: false,
            pace: Pace::default(),
            next_look: None,
            listens_until: None,
            next_quick_look: Instant::now(),
            caught: CaughtLoops::default(),
            done: Vec::new(),
            is_news: false,
            counts: ChangeCounts::default(),
        }
    }

    pub(crate) fn figures(&self) -> LoadedClassFigures {
        self.counts.figures(self.postponed())
    }

    /// Whether classes were retransformed while there were virtual threads whose stacks could not be read.
    pub(crate) fn has_unchecked_threads(&self) -> bool {
        self.counts.has_unchecked_threads
    }

    /// The classes that were retransformed since the last call.
    pub(crate) fn take_done(&mut self) -> Vec<ClassKey> {
        std::mem::take(&mut self.done)
    }

    /// Whether the postponed classes have changed since the last call, as far as that is certain.
    pub(crate) fn take_news(&mut self) -> bool {
        self.is_settled() && std::mem::take(&mut self.is_news)
    }

    /// How many classes wait, or were given up.
    pub(crate) fn postponed_count(&self) -> usize {
        self.waiting.len() + self.given_up.len()
    }

    /// The classes that wait, and those that were given up.
    pub(crate) fn postponed(&self) -> Vec<Postponed> {
        self.waiting
            .iter()
            .map(|waiting| self.as_postponed(waiting))
            .chain(self.given_up.iter().cloned())
            .collect()
    }

    /// Whether every class that waits certainly has a long-lived activation.
    pub(crate) fn is_settled(&self) -> bool {
        let is_certain = self.looks_since.elapsed() > LONG_LIVED + BETWEEN_LOOKS;
        self.waiting.is_empty() || !self.is_unsent && is_certain
    }

    /// Whether classes wait in which nothing runs: the next step retransforms them.
    pub(crate) fn is_unsent(&self) -> bool {
        self.is_unsent
    }

    /// Retransforms each loaded class for which `wanted` returns a key, now or when nothing long-lived runs in it.
    /// Calls `after_batch` after each batch.
    pub(crate) fn add(
        &mut self,
        mut wanted: impl FnMut(&LoadedClass<'_>) -> Option<ClassKey>,
        after_batch: impl FnMut(),
    ) {
        if self.retransform == Retransform::Off {
            return;
        }
        // Thousands of local references at once.
        let _frame = self.jni.push_local_frame(MOST_REFERENCES);
        let classes = match self.jvmti.get_loaded_classes() {
            Ok(classes) => classes,
            // The JVM has ended, and no class needs anything any more.
            Err(jvmti::jvmtiError::WRONG_PHASE) => return,
            Err(error) => {
                let consequence = self.consequence;
                message!("the JVM does not list its classes ({error:?}); each {consequence}");
                self.counts.refused += 1;
                return;
            }
        };
        let mut known: HashSet<ClassKey> = self.waiting.iter().map(|w| w.key.clone()).collect();
        let before = known.len();
        let since = Instant::now();
        for class in classes {
            // SAFETY: a live reference of this thread until it is deleted below.
            let loaded = unsafe { LoadedClass::new(self.jvmti, self.jni, class) };
            if let Some(key) = wanted(&loaded)
                && known.insert(key.clone())
            {
                // SAFETY: a live reference of this thread.
                let class = unsafe { self.jni.new_weak_global_ref(class) };
                self.waiting.push(Waiting { class, key, since, runs: None });
            }
            // SAFETY: a reference of this thread, not used after this.
            unsafe { self.jni.delete_local_ref(class) };
        }
        if known.len() > before {
            // A new request begins new looks, also for the classes that wait already.
            (self.looks_since, self.looked) = (since, Duration::ZERO);
            (self.stacks, self.pace) = (None, Pace::default());
            self.ages = Ages::default();
            let known: HashSet<String> =
                known.iter().map(|(_, name)| name.replace('/', ".")).collect();
            self.given_up.retain(|postponed| !known.contains(&postponed.class));
            if self.listens() {
                // They are retransformed when it is known which virtual threads run.
                let until = *self.listens_until.get_or_insert(since + LISTENING);
                (self.next_look, self.is_unsent, self.looks_since) = (Some(until), true, until);
            } else {
                self.look_and_send(after_batch);
            }
        }
    }

    /// Begins to note which virtual threads are mounted; `false` if there are none, or loops do not matter.
    fn listens(&self) -> bool {
        let listens = self.retransform == Retransform::On
            && virtual_threads::is_listening()
            && match mounts::events() {
                Events::NotNeeded | Events::Missing => false,
                Events::Arrive => true,
                Events::Unknown => carriers::exist(self.jvmti, self.jni),
            };
        if listens {
            recent_mounts::listen();
        }
        listens
    }

    /// Whether the check for caught loops is still to come.
    pub(crate) fn is_confirming(&self) -> bool {
        self.caught.is_waiting()
    }

    /// Looks again, if it is time, and retransforms the classes that it can. Gives up those that have waited too long.
    pub(crate) fn step(&mut self, after_batch: impl FnMut()) {
        let now = Instant::now();
        if self.is_idle() {
            return;
        }
        let _frame = self.jni.push_local_frame(MOST_REFERENCES);
        if self.caught.is_due(now) {
            self.count_caught();
        }
        let Some(next_look) = self.next_look else { return };
        if now >= next_look {
            self.look_and_send(after_batch);
            self.give_up(now);
        } else {
            self.look_quickly();
        }
    }

    /// Whether a step would do nothing, until classes are added.
    pub(crate) fn is_idle(&self) -> bool {
        !self.caught.is_waiting() && self.next_look.is_none()
    }

    /// Forgets all classes that wait.
    pub(crate) fn clear(&mut self) {
        for waiting in self.waiting.drain(..) {
            // SAFETY: made by `add`, and not used after this.
            unsafe { self.jni.delete_weak_global_ref(waiting.class) };
        }
        self.given_up.clear();
        (self.next_look, self.is_unsent, self.is_news) = (None, false, false);
        self.caught.cancel();
        self.listens_until = None;
        self.forget(recent_mounts::take());
    }

    fn forget(&self, recent_mounts: Vec<(JavaThreadId, jni::jweak)>) {
        for (_, thread) in recent_mounts {
            // SAFETY: nobody else has it.
            unsafe { self.jni.delete_weak_global_ref(thread) };
        }
    }

    fn look_and_send(&mut self, after_batch: impl FnMut()) {
        // The look keeps the classes alive, what follows does not.
        let frame = self.jni.push_local_frame(MOST_REFERENCES);
        let classes = self.take_alive();
        (self.next_look, self.is_unsent, self.listens_until) = (None, false, None);
        self.is_news = true;
        let recent_mounts = recent_mounts::take();
        if classes.is_empty() {
            return self.forget(recent_mounts);
        }
        let (begun, before) = (Instant::now(), self.looked);
        let look = self.with_stacks(&classes, |stacks, wanted| {
            stacks.expect(recent_mounts);
            stacks.look(wanted)
        });
        drop((classes, frame));
        let took = begun.elapsed();
        let is_even_running = self.retransform == Retransform::EvenRunning;
        // Not all frames are known after a look that was given up.
        let frames = if look.is_complete { look.frames } else { usize::MAX };
        self.is_first_pause_long = first_pause::is_too_long(self.jvmti, frames);
        let busy = match look.is_complete {
            // A class that could not be checked counts as running. Nothing is learned about ages.
            false => look.seen.clone(),
            true => self.ages.take(&look, Instant::now()),
        };
        self.caught.see_old(look.old);
        let by_class: HashMap<&str, &Seen> =
            busy.iter().rev().map(|seen| (&*seen.class, seen)).collect();
        for waiting in &mut self.waiting {
            waiting.runs = by_class.get(&*waiting.key.1).copied().cloned();
        }
        if (look.is_complete || is_even_running) && !self.is_first_pause_long {
            let (least, most) = SENDING_LIMITS;
            let until = Instant::now() + (took * SENDING).clamp(least, most);
            let changed = self.counts.changed;
            self.send(is_even_running, until, after_batch);
            self.caught.let_go(look.seen);
            self.counts.has_unchecked_threads |= look.has_carriers && self.counts.changed > changed;
        }
        let pause = match self.is_unsent {
            true => Duration::ZERO,
            false => BETWEEN_LOOKS.max((self.looked - before) * PAUSE_BETWEEN),
        };
        self.next_look = (!self.waiting.is_empty()).then(|| Instant::now() + pause);
        if self.next_look.is_some() {
            // For loops that begin before the next look.
            self.listens();
        }
    }

    /// Local references to the classes that wait. Unloaded classes no longer wait.
    fn take_alive(&mut self) -> Classes {
        let mut classes = Classes::new();
        let jni = self.jni;
        self.waiting.retain(|waiting| {
            // SAFETY: the weak reference is valid until it is deleted; a cleared one gives null.
            let class = unsafe { jni.new_local_ref(waiting.class) };
            if class.is_null() {
                // SAFETY: not used after this.
                unsafe { jni.delete_weak_global_ref(waiting.class) };
                return false;
            }
            classes.insert(waiting.key.1.clone(), class);
            true
        });
        classes
    }

    /// Looks again at the threads that keep classes waiting, until it is certain which activations are long-lived.
    fn look_quickly(&mut self) {
        let threads = self.ages.threads();
        let is_enough = self.is_settled() || self.looked >= LOOKING_QUICKLY;
        if threads.is_empty() || is_enough || Instant::now() < self.next_quick_look {
            return;
        }
        let before = self.looked;
        let classes = self.take_alive();
        let (seen, threads) =
            self.with_stacks(&classes, |stacks, wanted| stacks.look_quickly(wanted, &threads));
        self.ages.take_quick(&seen, &threads, Instant::now());
        self.next_quick_look = Instant::now() + (self.looked - before) * PAUSE_BETWEEN;
    }

    /// Runs `read`, which reads stacks, and counts the time that it takes.
    fn with_stacks<R>(
        &mut self,
        classes: &Classes,
        read: impl FnOnce(&mut Stacks<'j>, Wanted<'_>) -> R,
    ) -> R {
        let begun = Instant::now();
        let deadline = begun + LOOKING.saturating_sub(self.looked);
        let (jvmti, jni) = (self.jvmti, self.jni);
        let stacks = self.stacks.get_or_insert_with(|| Stacks::new(jvmti, jni));
        let result = read(stacks, Wanted { classes, methods: &self.methods, deadline });
        self.looked += begun.elapsed().saturating_sub(stacks.take_slept());
        result
    }

    /// Retransforms waiting classes until the time is up: those that nothing runs in, or all.
    fn send(&mut self, sends_all: bool, until: Instant, after_batch: impl FnMut()) {
        let (references, mut sent) = self.take_sendable(sends_all);
        if sent.is_empty() {
            return;
        }
        let (jvmti, jni) = (self.jvmti, self.jni);
        // SAFETY: made by `add`, and deleted only after this.
        let Sent { done, refused, skipped, rest, is_ending } = unsafe {
            Batches::new(jvmti, jni, &mut self.pace, until).send(references, after_batch)
        };
        let sent_until = clock::ticks();
        for class in &rest {
            let Some((waiting, had_probes)) = sent.remove(class) else { continue };
            self.methods.set_has_probes(&waiting.key, had_probes);
            self.waiting.push(waiting);
            self.is_unsent = true;
        }
        for (waiting, _) in sent.values() {
            // SAFETY: made by `add`, and not used after this.
            unsafe { self.jni.delete_weak_global_ref(waiting.class) };
        }
        let names = sent.values().map(|(waiting, _)| waiting.key.1.clone());
        self.caught.sent(names, sent_until);
        if is_ending {
            return self.clear();
        }
        if done > 0 {
            first_pause::set_over();
        }
        self.counts.changed += done as u64;
        self.counts.refused += refused.len() as u64;
        self.counts.skipped += skipped.len() as u64;
        let mut given_up = Vec::new();
        for class in &skipped {
            if let Some((waiting, has_probes)) = sent.remove(class) {
                self.methods.set_has_probes(&waiting.key, has_probes);
                let reason = PostponedReason::Pauses;
                given_up.push(Postponed {
                    reason,
                    is_given_up: true,
                    has_probes,
                    ..self.as_postponed(&waiting)
                });
            }
        }
        let mut to_report = Vec::new();
        for (class, error) in refused {
            if let Some((waiting, had_probes)) = sent.remove(&class) {
                self.methods.set_has_probes(&waiting.key, had_probes);
                to_report.push((waiting.key.1, error));
            }
        }
        self.tell_refused(&to_report);
        self.done.extend(sent.into_values().map(|(waiting, _)| waiting.key));
        postponed::tell(&given_up, self.consequence);
        self.given_up.extend(given_up);
    }

    /// Takes the waiting classes that can be retransformed, or all: references to them, and by these the classes, each
    /// with whether it has probes. From here on it counts as having none.
    fn take_sendable(&mut self, takes_all: bool) -> (Vec<jni::jweak>, Taken) {
        let is_taken = |waiting: &mut Waiting| takes_all || waiting.runs.is_none();
        let (mut references, mut taken) = (Vec::new(), Taken::new());
        for waiting in self.waiting.extract_if(.., is_taken) {
            // The hook sets it again if it instruments the class.
            let had_probes = self.methods.set_has_probes(&waiting.key, false);
            references.push(waiting.class);
            taken.insert(waiting.class, (waiting, had_probes));
        }
        (references, taken)
    }

    fn tell_refused(&self, refused: &[(String, jvmti::jvmtiError)]) {
        for (name, error) in refused.iter().take(NAMED) {
            let name = name.replace('/', ".");
            message!("{name} was loaded before and {} ({error:?})", self.consequence);
        }
        if let Some(more) = refused.len().checked_sub(NAMED).filter(|more| *more > 0) {
            message!("{more} more classes could not be retransformed");
        }
    }

    /// Counts the loops that were caught by the batches since the last check.
    fn count_caught(&mut self) {
        let sent = self.caught.begin_check();
        let looked = std::mem::replace(&mut self.looked, LOOKING - CONFIRMING);
        // Include the classes that wait: a look forgets threads in which it finds nothing.
        let mut looked_at = self.take_alive();
        for (name, none) in &sent {
            looked_at.entry(name.clone()).or_insert(*none);
        }
        let look = self.with_stacks(&looked_at, |stacks, wanted| stacks.look(wanted));
        let suspects = self.caught.suspects(look, &sent);
        let threads = suspects.threads();
        let (still, _) =
            self.with_stacks(&sent, |stacks, wanted| stacks.look_quickly(wanted, &threads));
        self.looked = looked;
        // Quick looks are at the threads of the last full look, so a full look comes next.
        if self.listens_until.is_none() {
            self.next_look = self.next_look.map(|_| Instant::now());
        }
        let caught = self.caught.confirm(suspects, still);
        self.counts.caught += caught.len() as u64;
        caught_loops::tell(&caught, self.retransform);
    }

    fn give_up(&mut self, now: Instant) {
        let is_late = |waiting: &mut Waiting| now >= waiting.since + PATIENCE;
        let late: Vec<Waiting> = self.waiting.extract_if(.., is_late).collect();
        for waiting in &late {
            // SAFETY: made by `add`, and not used after this.
            unsafe { self.jni.delete_weak_global_ref(waiting.class) };
        }
        let given_up = |waiting| Postponed { is_given_up: true, ..self.as_postponed(waiting) };
        let late: Vec<Postponed> = late.iter().map(given_up).collect();
        if self.waiting.is_empty() {
            self.next_look = None;
            self.forget(recent_mounts::take());
        }
        postponed::tell(&late, self.consequence);
        self.given_up.extend(late);
    }

    fn as_postponed(&self, waiting: &Waiting) -> Postponed {
        let reason = match &waiting.runs {
            _ if self.is_first_pause_long => PostponedReason::FirstPause,
            Some(seen) => PostponedReason::Runs {
                method: seen.method.to_string(),
                thread: seen.thread.to_string(),
            },
            None => PostponedReason::NotChecked,
        };
        Postponed {
            class: waiting.key.1.replace('/', "."),
            key: waiting.key.clone(),
            reason,
            is_given_up: false,
            has_probes: self.methods.has_probes(&waiting.key),
        }
    }
}
