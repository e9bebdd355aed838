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
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};

use super::activations::{Activation, Look, Seen, Stacks, Wanted};
use super::ages::{Ages, BETWEEN_LOOKS, LONG_LIVED};
use super::batches::{Batches, Pace, Sent};
use super::first_pause;
use super::loaded_class::LoadedClass;
use crate::instrument::methods::{ClassKey, Methods};
use crate::jvm::facts::internal_name;
use crate::jvm::{mounted_lately, virtual_threads};
use crate::message::message;
use crate::options::retransform::Retransform;
use crate::probe::mounts::{self, Events};
use crate::sys::clock;

/// The most local references that HotSpot lets a caller ask for.
const MANY_REFERENCES: jni::jint = 65_536;
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
/// How long after a batch an activation must still be there in an old version to count as caught.
const CONFIRM: Duration = Duration::from_secs(1);
/// How long that look may take.
const CONFIRMING: Duration = Duration::from_secs(2);
/// How many classes messages name; the rest are only counted.
const NAMED: usize = 5;

/// A class that has not been retransformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Postponed {
    /// Name with dots.
    pub class: String,
    pub why: Why,
    /// It is not tried any more.
    pub is_given_up: bool,
    pub key: ClassKey,
    /// It has probes: they are to be removed, or are those of an earlier attachment.
    pub has_probes: bool,
}

/// Why a class has not been retransformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// A method of its own with a loop has been running for long.
    Runs {
        /// The method's name.
        method: String,
        /// The thread's name.
        thread: String,
    },
    /// Not all stacks could be read in time.
    NotChecked,
    /// Retransforming a class stops all threads for too long.
    Pauses,
    /// The first retransformation in this JVM would.
    FirstPause,
}

impl fmt::Display for Postponed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.why)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs { method, thread } if thread.is_empty() => {
                write!(f, "{method} runs in many virtual threads")
            }
            Self::Runs { method, thread } => write!(f, "{method} runs in thread {thread}"),
            Self::NotChecked => f.write_str("not all stacks could be read in time"),
            Self::Pauses => f.write_str("retransforming would stop all threads for too long"),
            Self::FirstPause => write!(
                f,
                "with over {} frames on all stacks the first retransformation would stop all threads for too long; \
                 start the JVM with -XX:-UseBiasedLocking, or with the agent",
                first_pause::MOST_FRAMES
            ),
        }
    }
}

/// What became of classes since the attachment began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeCounts {
    /// Classes that passed the hook.
    pub changed: u64,
    /// Classes that the JVM refuses to retransform.
    pub refused: u64,
    /// Classes left alone because pauses got too long.
    pub skipped: u64,
    /// Loops that run in an old version of their method, because they began just before it was replaced.
    pub caught: u64,
    /// Classes were retransformed while there were virtual threads whose stacks could not be read.
    pub has_unchecked_threads: bool,
}

/// A class that waits.
struct Waiting {
    /// A weak global reference.
    class: jni::jweak,
    key: ClassKey,
    since: Instant,
    runs: Option<Seen>,
}

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
    /// When to check for caught loops, in which classes, and which activations were old before.
    confirm: Option<Instant>,
    confirmed: Classes,
    old: HashSet<Activation>,
    /// Activations in classes that were retransformed since, because they did not seem to be long-lived; and when the
    /// latest retransformation ended, in ticks.
    let_go: HashSet<Activation>,
    sent_until: u64,
    /// Classes that were retransformed since the last `take_done`.
    done: Vec<ClassKey>,
    /// The postponed classes have changed since the last `take_news`.
    is_news: bool,
    counts: ChangeCounts,
}

/// Live local references by internal name; of several classes with one name, any.
type Classes = HashMap<String, jni::jclass>;

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
            confirm: None,
            confirmed: Classes::new(),
            old: HashSet::new(),
            let_go: HashSet::new(),
            sent_until: 0,
            done: Vec::new(),
            is_news: false,
            counts: ChangeCounts::default(),
        }
    }

    pub(crate) fn counts(&self) -> &ChangeCounts {
        &self.counts
    }

    /// The classes that were retransformed since the last call.
    pub(crate) fn take_done(&mut self) -> Vec<ClassKey> {
        std::mem::take(&mut self.done)
    }

    /// Whether the postponed classes have changed since the last call, as far as that is certain.
    pub(crate) fn take_news(&mut self) -> bool {
        self.is_settled() && std::mem::take(&mut self.is_news)
    }

    /// The classes that wait, and those that were given up.
    pub(crate) fn postponed(&self) -> Vec<Postponed> {
        self.waiting
            .iter()
            .map(|waiting| self.why(waiting))
            .chain(self.given_up.iter().cloned())
            .collect()
    }

    /// Whether the user wants no loaded class to be retransformed.
    pub(crate) fn are_loaded_classes_left_alone(&self) -> bool {
        self.retransform == Retransform::Off
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
        let _frame = self.jni.push_local_frame(MANY_REFERENCES);
        let classes = match self.jvmti.get_loaded_classes() {
            Ok(classes) => classes,
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
                Events::Unknown => Stacks::has_carriers(self.jvmti, self.jni),
            };
        if listens {
            mounted_lately::listen();
        }
        listens
    }

    /// Whether the check for caught loops is still to come.
    pub(crate) fn is_confirming(&self) -> bool {
        self.confirm.is_some()
    }

    /// Looks again, if it is time, and retransforms the classes that it can. Gives up those that have waited too long.
    pub(crate) fn step(&mut self, after_batch: impl FnMut()) {
        let now = Instant::now();
        if self.confirm.is_none() && self.next_look.is_none() {
            return;
        }
        let _frame = self.jni.push_local_frame(MANY_REFERENCES);
        if self.confirm.is_some_and(|at| now >= at) {
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

    /// Forgets all classes that wait.
    pub(crate) fn clear(&mut self) {
        for waiting in self.waiting.drain(..) {
            // SAFETY: made by `add`, and not used after this.
            unsafe { self.jni.delete_weak_global_ref(waiting.class) };
        }
        self.given_up.clear();
        (self.next_look, self.confirm, self.is_unsent, self.is_news) = (None, None, false, false);
        self.listens_until = None;
        self.forget(mounted_lately::take());
    }

    fn forget(&self, mounted_lately: Vec<(u64, jni::jweak)>) {
        for (_, thread) in mounted_lately {
            // SAFETY: nobody else has it.
            unsafe { self.jni.delete_weak_global_ref(thread) };
        }
    }

    fn look_and_send(&mut self, after_batch: impl FnMut()) {
        let classes = self.take_alive();
        (self.next_look, self.is_unsent, self.listens_until) = (None, false, None);
        self.is_news = true;
        let mounted_lately = mounted_lately::take();
        if classes.is_empty() {
            return self.forget(mounted_lately);
        }
        let (begun, before) = (Instant::now(), self.looked);
        let look = self.with_stacks(&classes, |stacks, wanted| {
            stacks.expect(mounted_lately);
            stacks.look(wanted)
        });
        let took = begun.elapsed();
        let is_even_running = self.retransform == Retransform::EvenRunning;
        self.is_first_pause_long = first_pause::is_too_long(self.jvmti, look.frames);
        let busy = match look.is_complete {
            // A class that could not be checked counts as running. Nothing is learned about ages.
            false => look.seen.clone(),
            true => self.ages.take(&look, Instant::now()),
        };
        if self.confirm.is_none() {
            self.old.extend(look.old.into_iter().map(|seen| seen.activation));
        }
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
            let let_go =
                look.seen.into_iter().filter(|seen| self.confirmed.contains_key(&*seen.class));
            self.let_go.extend(let_go.map(|seen| seen.activation));
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

    fn look(&mut self, classes: &Classes) -> Look {
        self.with_stacks(classes, |stacks, wanted| stacks.look(wanted))
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
        let is_sent = |waiting: &mut Waiting| sends_all || waiting.runs.is_none();
        let mut sent: HashMap<jni::jclass, (Waiting, bool)> = HashMap::new();
        let mut references = Vec::new();
        for waiting in self.waiting.extract_if(.., is_sent) {
            // SAFETY: valid until it is deleted.
            let class = unsafe { self.jni.new_local_ref(waiting.class) };
            if class.is_null() {
                // SAFETY: not used after this.
                unsafe { self.jni.delete_weak_global_ref(waiting.class) };
                continue;
            }
            // The hook sets it again if it instruments the class.
            let had_probes = self.methods.set_has_probes(&waiting.key, false);
            sent.insert(class, (waiting, had_probes));
            references.push(class);
        }
        if sent.is_empty() {
            return;
        }
        let (jvmti, jni) = (self.jvmti, self.jni);
        // SAFETY: live references of this thread.
        let Sent { done, refused, skipped, rest, is_ending } = unsafe {
            Batches::new(jvmti, jni, &mut self.pace, until).send(references, after_batch)
        };
        self.sent_until = clock::ticks();
        for class in &rest {
            let Some((waiting, had_probes)) = sent.remove(class) else { continue };
            self.methods.set_has_probes(&waiting.key, had_probes);
            self.waiting.push(waiting);
            self.is_unsent = true;
        }
        for (waiting, _) in sent.values() {
            // SAFETY: made by `add`, and not used after this.
            unsafe { self.jni.delete_weak_global_ref(waiting.class) };
            self.confirmed.insert(waiting.key.1.clone(), std::ptr::null_mut());
        }
        if is_ending {
            return self.clear();
        }
        self.confirm = Some(Instant::now() + CONFIRM);
        if done > 0 {
            first_pause::set_over();
        }
        self.counts.changed += done as u64;
        self.counts.refused += refused.len() as u64;
        self.counts.skipped += skipped.len() as u64;
        self.tell_refused(&refused);
        let mut postponed = Vec::new();
        for class in &skipped {
            if let Some((waiting, had_probes)) = sent.remove(class) {
                self.methods.set_has_probes(&waiting.key, had_probes);
                let class = waiting.key.1.replace('/', ".");
                postponed.push(Postponed {
                    class,
                    key: waiting.key,
                    why: Why::Pauses,
                    is_given_up: true,
                    has_probes: had_probes,
                });
            }
        }
        for (class, _) in &refused {
            if let Some((waiting, had_probes)) = sent.remove(class) {
                self.methods.set_has_probes(&waiting.key, had_probes);
            }
        }
        self.done.extend(sent.into_values().map(|(waiting, _)| waiting.key));
        self.tell_postponed(&postponed);
        self.given_up.extend(postponed);
    }

    fn tell_refused(&self, refused: &[(jni::jclass, jvmti::jvmtiError)]) {
        for (class, error) in refused.iter().take(NAMED) {
            let name = internal_name(self.jvmti, *class).unwrap_or_default().replace('/', ".");
            message!("{name} was loaded before and {} ({error:?})", self.consequence);
        }
        if let Some(more) = refused.len().checked_sub(NAMED).filter(|more| *more > 0) {
            message!("{more} more classes could not be retransformed");
        }
    }

    /// Counts the loops that were caught: activations that are old a while after a batch, and were not before it.
    fn count_caught(&mut self) {
        self.confirm = None;
        let classes = std::mem::take(&mut self.confirmed);
        let let_go = std::mem::take(&mut self.let_go);
        let looked = std::mem::replace(&mut self.looked, LOOKING - CONFIRMING);
        // Include the classes that wait: a look forgets threads in which it finds nothing.
        let mut looked_at = self.take_alive();
        for (name, none) in &classes {
            looked_at.entry(name.clone()).or_insert(*none);
        }
        let Look { mut old, mut seen, .. } = self.look(&looked_at);
        old.retain(|seen| classes.contains_key(&*seen.class));
        seen.retain(|seen| classes.contains_key(&*seen.class));
        // A method whose own code is unchanged gets old like the others of its class, but the JVM does not say so.
        seen.retain(|seen| match seen.began {
            Some(began) => began < self.sent_until,
            None => !seen.is_measured && let_go.contains(&seen.activation),
        });
        let threads: HashSet<u64> = seen.iter().map(|seen| seen.activation.thread).collect();
        let (still, _) =
            self.with_stacks(&classes, |stacks, wanted| stacks.look_quickly(wanted, &threads));
        let is_young = |seen: &Seen| seen.began.is_some_and(|began| began >= self.sent_until);
        let still = still.into_iter().filter(|seen| !is_young(seen));
        let still: HashSet<Activation> = still.map(|seen| seen.activation).collect();
        seen.retain(|seen| still.contains(&seen.activation));
        self.looked = looked;
        // Quick looks are at the threads of the last full look, so a full look comes next.
        if self.listens_until.is_none() {
            self.next_look = self.next_look.map(|_| Instant::now());
        }
        let mut methods = HashSet::new();
        let is_new = |seen: &Seen| self.old.insert(seen.activation.clone());
        let mut caught: Vec<Seen> = old.into_iter().chain(seen).filter(is_new).collect();
        caught.retain(|seen| methods.insert((seen.activation.thread, seen.method.clone())));
        self.counts.caught += caught.len() as u64;
        for Seen { class, method, thread, .. } in caught.iter().take(NAMED) {
            let class = class.replace('/', ".");
            let when = match self.retransform {
                Retransform::EvenRunning => "was running when",
                _ => "began just before",
            };
            message!(
                "{class}.{method} in thread {thread} {when} its class was retransformed; its loop may be slow \
                 until it returns"
            );
        }
        if let Some(more) = caught.len().checked_sub(NAMED).filter(|more| *more > 0) {
            message!("{more} more loops may be slow until they return");
        }
    }

    fn give_up(&mut self, now: Instant) {
        let is_late = |waiting: &mut Waiting| now >= waiting.since + PATIENCE;
        let late: Vec<Waiting> = self.waiting.extract_if(.., is_late).collect();
        for waiting in &late {
            // SAFETY: made by `add`, and not used after this.
            unsafe { self.jni.delete_weak_global_ref(waiting.class) };
        }
        let given_up = |waiting| Postponed { is_given_up: true, ..self.why(waiting) };
        let late: Vec<Postponed> = late.iter().map(given_up).collect();
        if self.waiting.is_empty() {
            self.next_look = None;
            self.forget(mounted_lately::take());
        }
        self.tell_postponed(&late);
        self.given_up.extend(late);
    }

    fn why(&self, waiting: &Waiting) -> Postponed {
        let why = match &waiting.runs {
            _ if self.is_first_pause_long => Why::FirstPause,
            Some(seen) => {
                Why::Runs { method: seen.method.to_string(), thread: seen.thread.to_string() }
            }
            None => Why::NotChecked,
        };
        Postponed {
            class: waiting.key.1.replace('/', "."),
            key: waiting.key.clone(),
            why,
            is_given_up: false,
            has_probes: self.methods.has_probes(&waiting.key),
        }
    }

    fn tell_postponed(&self, postponed: &[Postponed]) {
        for postponed in postponed.iter().take(NAMED) {
            message!("{postponed}; the class {}", self.consequence);
        }
        if let Some(more) = postponed.len().checked_sub(NAMED).filter(|more| *more > 0) {
            message!("{more} more classes: each {}", self.consequence);
        }
    }
}
