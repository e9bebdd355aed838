//! Finds long-lived activations of methods with loops, by looking at stacks.
//!
//! Retransforming a class makes the running activations of its methods old. HotSpot compiles a running loop by
//! on-stack replacement, but never that of an old method: such a loop is interpreted, at a twentieth of its speed,
//! until the method returns. So a class is not retransformed while a method of its own that has a backward branch has
//! been running for long.
//!
//! Callers of the class's methods do not count: their code stays new. `ages` finds out from look to look how long an
//! activation has been running.
#![allow(unsafe_code)]

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};

use super::long_calls::is_long;
use super::stack_reader::{Stack, StackReader};
use super::virtual_loops;
use crate::instrument::methods::Methods;
use crate::jvm::facts::internal_name;
use crate::jvm::java_threads;
use crate::jvm::loaders::Loaders;
use crate::probe;
use crate::probe::mute;
use crate::probe::open_frames;
use crate::probe::thread::{self, ThreadName, ThreadRef};

/// A quick look sees an activation only if it is there in this many reads in a row. Between reads threads make
/// progress, which takes a while on a busy machine. All reads take about 50 ms.
const READS: usize = 10;
const FIRST_BETWEEN_READS: Duration = Duration::from_millis(1);
const LONGER_BETWEEN_READS: f64 = 1.4;

/// A virtual thread that works and parks in turn is mounted in at least one of this many moments.
const MOMENTS: usize = 8;
const BETWEEN_MOMENTS: Duration = Duration::from_millis(5);

/// A running call of a method with a loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Activation {
    /// `Thread.getId()`.
    pub thread: u64,
    /// How many frames are below it on the thread's stack.
    pub depth: usize,
    /// The JVM's id of the method.
    pub method: usize,
}

/// An activation, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub activation: Activation,
    /// Internal name.
    pub class: Rc<str>,
    pub method: Rc<str>,
    pub thread: Rc<str>,
    /// The earliest time at which it may have begun, in ticks, if the shadow stack knows calls of the method.
    pub began: Option<u64>,
    /// The same if the shadow stack knows every call of the method that was there, which one read does not prove.
    pub(super) likely_began: Option<u64>,
    /// The shadow stack says that it has been running for long.
    pub is_long: bool,
    /// The method is measured now: the shadow stack knows all its calls but the latest.
    pub is_measured: bool,
}

/// What a look found.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// Activations of current versions of methods.
    pub seen: Vec<Seen>,
    /// Activations of old versions: their loops are caught.
    pub old: Vec<Seen>,
    /// Frames on all stacks.
    pub frames: usize,
    /// There are threads that carry virtual ones.
    pub has_carriers: bool,
    /// All stacks that were to be read were read. Otherwise there may be more activations.
    pub is_complete: bool,
}

/// The methods that a look is for: those with loops of these classes, by internal name.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'l> {
    /// Null where only running methods matter.
    pub classes: &'l HashMap<String, jni::jclass>,
    pub methods: &'l Methods,
    /// When to give up.
    pub deadline: Instant,
}

/// A method on a stack.
#[derive(Debug)]
struct StackMethod {
    class: Rc<str>,
    name: Rc<str>,
    /// Its id, if it has one.
    id: Option<u32>,
    /// It has a loop, and its class was asked for.
    is_wanted: bool,
    is_old: bool,
}

/// When one thread's calls in progress began, in ticks, by method; from its shadow stack.
type ShadowCalls = HashMap<u32, Vec<u64>>;

/// What is known of a method's calls on a stack, from the shadow stack read before it and again after it.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Calls that are in both: they were on the stack. Any other may have ended or begun in between.
    surely: usize,
    /// When the oldest of these began.
    oldest: u64,
    /// Calls that there were before as well as after.
    likely: usize,
    /// When the oldest in either began.
    likely_oldest: u64,
    /// A call in either has been running for long.
    may_be_long: bool,
}

/// Looks at stacks.
pub(crate) struct Stacks<'j> {
    jvmti: &'j Jvmti,
    jni: &'j JniEnv,
    carriers: Carriers,
    reader: StackReader<'j>,
    /// Threads in which the last full look found activations, by `Thread.getId()`.
    threads: HashMap<u64, FoundThread>,
    /// Time slept between the reads of quick looks.
    slept: Duration,
}

/// A thread in which a look found activations.
#[derive(Clone, Copy)]
struct FoundThread {
    /// A weak global reference.
    thread: jni::jweak,
    is_virtual: bool,
}

impl<'j> Stacks<'j> {
    pub(crate) fn new(jvmti: &'j Jvmti, jni: &'j JniEnv) -> Self {
        let (carriers, reader) = (Carriers::new(jvmti), StackReader::new(jvmti, jni));
        Self { jvmti, jni, carriers, reader, threads: HashMap::new(), slept: Duration::ZERO }
    }

    /// How long looks let the service run, instead of stopping threads, since the last call.
    pub(crate) fn take_slept(&mut self) -> Duration {
        self.reader.take_slept() + std::mem::take(&mut self.slept)
    }

    /// Makes the next look read the stacks of virtual threads that were mounted lately, parked or not. Takes ownership
    /// of their weak global references.
    pub(crate) fn expect(&mut self, threads: Vec<(u64, jni::jweak)>) {
        for (number, thread) in threads {
            let found = FoundThread { thread, is_virtual: true };
            if let Some(known) = self.threads.insert(number, found) {
                // SAFETY: made by `look` or given here before, and not used after this.
                unsafe { self.jni.delete_weak_global_ref(known.thread) };
            }
        }
    }

    /// Whether virtual threads run in this JVM, as far as its threads tell.
    pub(crate) fn has_carriers(jvmti: &Jvmti, jni: &JniEnv) -> bool {
        let threads = jvmti.get_all_threads().unwrap_or_default();
        // SAFETY: live references of this thread, deleted here.
        unsafe {
            let has_carriers = threads.iter().any(|thread| is_carrier(jvmti, jni, *thread));
            threads.into_iter().for_each(|thread| jni.delete_local_ref(thread));
            has_carriers
        }
    }

    /// Looks at the stacks of all threads.
    pub(crate) fn look(&mut self, wanted: Wanted<'_>) -> Look {
        if wanted.classes.is_empty() {
            return Look { is_complete: true, ..Look::default() };
        }
        let mut threads = self.jvmti.get_all_threads().unwrap_or_default();
        let mut search = Search::new(self.jvmti, self.jni, wanted);
        let virtual_threads;
        // SAFETY: live references of this thread.
        unsafe {
            let carriers =
                threads.iter().filter(|thread| is_carrier(self.jvmti, self.jni, **thread));
            let carriers: Vec<_> = carriers.copied().collect();
            search.look.has_carriers = !carriers.is_empty();
            virtual_threads = self.virtual_threads(&carriers);
            threads.extend(&virtual_threads);
        }
        self.forget_threads();
        let mut is_complete = !threads.is_empty();
        let mut found = Vec::new();
        let reads_again = search.needs_tight_reads() && !self.reader.stops_all();
        // SAFETY: live references of this thread, deleted after this.
        unsafe {
            is_complete &= self.reader.read(&threads, wanted.deadline, |thread, stack| {
                is_complete &= stack.is_some();
                let stack = stack.unwrap_or_default();
                search.look.frames += stack.len();
                if reads_again {
                    found.extend(search.has_wanted(stack).then_some((thread, 0)));
                } else {
                    found.extend(search.find(thread, stack).map(|number| (thread, number)));
                }
            });
            if reads_again {
                for (thread, number) in &mut found {
                    *number = search.prepare(*thread);
                    let take = |thread, stack: Stack<'_>| {
                        is_complete &= stack.is_some();
                        search.find(thread, stack.unwrap_or_default());
                    };
                    is_complete &= self.reader.read(&[*thread], wanted.deadline, take);
                }
            }
            for (thread, number) in found {
                let found = || FoundThread {
                    thread: self.jni.new_weak_global_ref(thread),
                    is_virtual: virtual_threads.contains(&thread),
                };
                self.threads.entry(number).or_insert_with(found);
            }
            for thread in threads {
                self.jni.delete_local_ref(thread);
            }
        }
        self.add_virtual_loops(wanted, &mut search.look);
        Look { is_complete, ..search.look }
    }

    /// Looks a few times in a row at some of the threads in which the last full look found something. Returns the
    /// activations that were there each time, and the threads that were read.
    pub(crate) fn look_quickly(
        &mut self,
        wanted: Wanted<'_>,
        threads: &HashSet<u64>,
    ) -> (Vec<Seen>, HashSet<u64>) {
        let found = self.threads.iter().filter(|(number, _)| threads.contains(number));
        // SAFETY: the weak references are valid until they are deleted; a cleared one gives null.
        let found =
            found.map(|(number, found)| unsafe { (self.jni.new_local_ref(found.thread), *number) });
        let numbers: HashMap<jni::jthread, u64> =
            found.filter(|(thread, _)| !thread.is_null()).collect();
        let mut search = Search::new(self.jvmti, self.jni, wanted);
        // What was there in all reads of a thread so far.
        let mut there: HashMap<jni::jthread, Vec<Seen>> = HashMap::new();
        let mut left: Vec<jni::jthread> = numbers.keys().copied().collect();
        let is_tight = search.needs_tight_reads();
        // If each read stops all threads, one read covers them all.
        let is_one_by_one = is_tight && !self.reader.stops_all();
        let mut is_complete = true;
        let mut pause = FIRST_BETWEEN_READS;
        for _ in 0..READS {
            let mut is_all = true;
            for threads in left.chunks(if is_one_by_one { 1 } else { left.len().max(1) }) {
                // SAFETY: live references of this thread.
                is_all &= unsafe {
                    for thread in threads.iter().filter(|_| is_tight) {
                        search.prepare(*thread);
                    }
                    self.reader.read(threads, wanted.deadline, |thread, stack| {
                        let Some(frames) = stack else { return };
                        search.look = Look::default();
                        search.find(thread, frames);
                        let seen = std::mem::take(&mut search.look.seen);
                        let is_there = |before: &mut Seen| {
                            let is_same = |other: &&Seen| other.activation == before.activation;
                            let now = seen.iter().find(is_same);
                            before.likely_began = before.likely_began.and(now?.likely_began);
                            Some(())
                        };
                        match there.get_mut(&thread) {
                            Some(before) => before.retain_mut(|seen| is_there(seen).is_some()),
                            None => _ = there.insert(thread, seen),
                        }
                    })
                };
            }
            left.retain(|thread| there.get(thread).is_some_and(|seen| !seen.is_empty()));
            is_complete &= is_all;
            if left.is_empty() || !is_all {
                break;
            }
            sleep(pause);
            self.slept += pause;
            pause = pause.mul_f64(LONGER_BETWEEN_READS);
        }
        for thread in numbers.keys() {
            // SAFETY: a reference of this thread, not used after this.
            unsafe { self.jni.delete_local_ref(*thread) };
        }
        let looked_at = there.keys().filter_map(|thread| numbers.get(thread).copied()).collect();
        // An older call, if there was one, would have been on one of the stacks beside a younger one.
        let sure = |seen: Seen| {
            let likely = seen.likely_began.filter(|_| is_complete);
            Seen { began: seen.began.or(likely), ..seen }
        };
        (there.into_values().flatten().map(sure).collect(), looked_at)
    }

    fn forget_threads(&mut self) {
        for (_, found) in self.threads.drain() {
            // SAFETY: made by `look`, and not used after this.
            unsafe { self.jni.delete_weak_global_ref(found.thread) };
        }
    }

    /// Local references to virtual threads, each once: those that are mounted in one of several moments, and those in
    /// which the previous look found something.
    ///
    /// # Safety
    /// `carriers` are live references of this thread.
    unsafe fn virtual_threads(&self, carriers: &[jni::jthread]) -> Vec<jni::jthread> {
        let mut found: HashMap<u64, jni::jthread> = HashMap::new();
        // SAFETY: the caller's promise; weak references are valid until they are deleted, a cleared one gives null.
        unsafe {
            let mut add = |thread: jni::jthread| {
                let number = java_threads::number(self.jni, thread).unwrap_or_default();
                match found.entry(number) {
                    Entry::Occupied(_) => self.jni.delete_local_ref(thread),
                    Entry::Vacant(entry) => _ = entry.insert(thread),
                }
            };
            let before = self.threads.values().filter(|found| found.is_virtual);
            let before = before.map(|found| self.jni.new_local_ref(found.thread));
            before.filter(|thread| !thread.is_null()).for_each(&mut add);
            for moment in 0..if carriers.is_empty() { 0 } else { MOMENTS } {
                if moment > 0 {
                    sleep(BETWEEN_MOMENTS);
                }
                let mounted = carriers.iter();
                mounted.filter_map(|c| self.carriers.mounted_on(self.jvmti, *c)).for_each(&mut add);
            }
        }
        found.into_values().collect()
    }

    /// Adds the loops of virtual threads, mounted or not, that their shadow stacks show.
    fn add_virtual_loops(&self, wanted: Wanted<'_>, look: &mut Look) {
        for (id, number) in virtual_loops::long_calls() {
            let Some(method) = wanted.methods.get(id) else { continue };
            let class = method.class.name.replace('.', "/");
            let found = wanted.classes.get(&class).filter(|reference| !reference.is_null());
            let Some(reference) = found else { continue };
            // SAFETY: a live reference of this thread.
            if unsafe { has_loop(self.jvmti, *reference, &method.name, &method.descriptor) } {
                look.seen.push(Seen {
                    activation: Activation { thread: number.unwrap_or(0), depth: 0, method: 0 },
                    class: class.as_str().into(),
                    method: method.name.as_str().into(),
                    thread: number.map_or_else(String::new, |number| format!("#{number}")).into(),
                    began: None,
                    likely_began: None,
                    is_long: true,
                    is_measured: true,
                });
            }
        }
    }
}

impl Drop for Stacks<'_> {
    fn drop(&mut self) {
        self.forget_threads();
    }
}

/// Finds activations on stacks, during one look.
struct Search<'l> {
    jvmti: &'l Jvmti,
    jni: &'l JniEnv,
    wanted: Wanted<'l>,
    /// The threads that the probe knows, by `Thread.getId()`, and their calls before stacks are read.
    probe_threads: HashMap<u64, ThreadRef>,
    shadow_calls: HashMap<u64, ShadowCalls>,
    /// What is known of the JVM's methods.
    methods: HashMap<usize, Option<Rc<StackMethod>>>,
    look: Look,
}

impl<'l> Search<'l> {
    fn new(jvmti: &'l Jvmti, jni: &'l JniEnv, wanted: Wanted<'l>) -> Self {
        let (methods, look) = (HashMap::new(), Look::default());
        let known = if probe::is_recording() { thread::all() } else { Vec::new() };
        let probe_threads: HashMap<u64, ThreadRef> =
            known.into_iter().map(|thread| (number_of(&thread), thread)).collect();
        let shadow_calls =
            probe_threads.iter().map(|(number, thread)| (*number, shadow_calls(thread)));
        let shadow_calls = shadow_calls.collect();
        Self { jvmti, jni, wanted, probe_threads, shadow_calls, methods, look }
    }

    /// Whether it matters that a thread's shadow stack is read right before its stack.
    fn needs_tight_reads(&self) -> bool {
        !self.probe_threads.is_empty()
    }

    /// Reads a thread's shadow stack, right before its stack is read. Returns the thread's number.
    ///
    /// # Safety
    /// `thread` is a live reference of this thread.
    unsafe fn prepare(&mut self, thread: jni::jthread) -> u64 {
        // SAFETY: the caller's promise.
        let java_id = unsafe { java_threads::number(self.jni, thread) }.unwrap_or_default();
        let calls = self.calls_now(java_id);
        self.shadow_calls.insert(java_id, calls);
        java_id
    }

    fn calls_now(&self, number: u64) -> ShadowCalls {
        let thread = self.probe_threads.get(&number).filter(|thread| number_of(thread) == number);
        thread.map_or_else(HashMap::new, |thread| shadow_calls(thread))
    }

    /// Whether a stack has a method that the look is for.
    fn has_wanted(&mut self, frames: &[jvmti::jvmtiFrameInfo]) -> bool {
        frames.iter().any(|frame| self.method(frame).is_some_and(|method| method.is_wanted))
    }

    fn method(&mut self, frame: &jvmti::jvmtiFrameInfo) -> Option<Rc<StackMethod>> {
        let method = self.methods.entry(frame.method.addr()).or_insert_with(|| {
            // SAFETY: the method is on a stack; if its class is gone meanwhile, the JVM returns an error.
            let found = unsafe { stack_method(self.jvmti, self.jni, frame.method, self.wanted) };
            found.map(Rc::new)
        });
        method.clone()
    }

    /// Adds a stack's activations to the look. Returns the thread's number if there are any.
    ///
    /// # Safety
    /// `thread` is a live reference of this thread.
    unsafe fn find(
        &mut self,
        thread: jni::jthread,
        frames: &[jvmti::jvmtiFrameInfo],
    ) -> Option<u64> {
        let mut found: Vec<(usize, Rc<StackMethod>)> = Vec::new();
        for (index, frame) in frames.iter().enumerate() {
            found.extend(self.method(frame).map(|method| (index, method)));
        }
        if !found.iter().any(|(_, method)| method.is_wanted) {
            return None;
        }
        // SAFETY: the caller's promise.
        let ThreadName { name, java_id } =
            unsafe { java_threads::name(self.jvmti, self.jni, thread) };
        let name = if name.is_empty() { format!("#{java_id}") } else { name };
        let name = Rc::<str>::from(name);
        let (before, after) = (self.shadow_calls.get(&java_id), self.calls_now(java_id));
        // By method: how often it is on the stack, and what is known of its calls.
        let mut of_methods: HashMap<u32, (usize, Known)> = HashMap::new();
        for id in found.iter().filter_map(|(_, method)| method.id) {
            let known = || known(before.and_then(|calls| calls.get(&id)), after.get(&id));
            of_methods.entry(id).or_insert_with(|| (0, known())).0 += 1;
        }
        // From the outermost frame on: calls made by a young call are young.
        let (mut caller, mut likely_caller) = (None, None);
        for (index, method) in found.iter().rev() {
            let frame = frames.get(*index)?;
            // It is unknown which call of a recursion a frame is: any may be the oldest. A call that began while
            // recording was off is not on the shadow stack, so calls that may have ended or begun meanwhile prove
            // nothing.
            let of_method = method.id.and_then(|id| of_methods.get(&id)).copied();
            let (on_stack, known) = of_method.unwrap_or_default();
            let began = (known.surely > 0 && known.surely >= on_stack).then_some(known.oldest);
            let likely = known.likely > 0 && known.likely >= on_stack;
            let likely_began = began.or(likely.then_some(known.likely_oldest));
            caller = began.or(caller);
            likely_caller = likely_began.or(likely_caller);
            if !method.is_wanted {
                continue;
            }
            let seen = Seen {
                activation: Activation {
                    thread: java_id,
                    depth: frames.len() - index,
                    method: frame.method.addr(),
                },
                class: method.class.clone(),
                method: method.name.clone(),
                thread: name.clone(),
                began: began.or(caller.filter(|began| !is_long(*began))),
                likely_began: likely_began.or(likely_caller.filter(|began| !is_long(*began))),
                is_long: known.may_be_long,
                is_measured: method.id.is_some_and(is_measured),
            };
            if method.is_old { self.look.old.push(seen) } else { self.look.seen.push(seen) }
        }
        Some(java_id)
    }
}

/// HotSpot's extension that gives the virtual thread of a carrier.
struct Carriers(Option<jvmti::jvmtiExtensionFunction>);

impl Carriers {
    fn new(jvmti: &Jvmti) -> Self {
        const ID: &str = "com.sun.hotspot.functions.GetVirtualThread";
        let functions = jvmti.get_extension_functions().unwrap_or_default();
        let found = functions.into_iter().find(|function| function.id.as_deref() == Some(ID));
        Self(found.and_then(|function| function.func))
    }

    /// The virtual thread that a carrier carries. The call keeps virtual threads from being mounted anywhere, so it is
    /// made only for carriers.
    ///
    /// # Safety
    /// `carrier` is a live reference of this thread.
    unsafe fn mounted_on(&self, jvmti: &Jvmti, carrier: jni::jthread) -> Option<jni::jthread> {
        let function = self.0?;
        let mut found: jni::jthread = std::ptr::null_mut();
        // SAFETY: the function takes a carrier and a place for the result, by its description.
        let error = unsafe { function(jvmti.raw(), carrier, &raw mut found) };
        (error == jvmti::jvmtiError::NONE && !found.is_null()).then_some(found)
    }
}

/// Whether a thread carries virtual threads.
///
/// # Safety
/// `thread` is a live reference of this thread.
unsafe fn is_carrier(jvmti: &Jvmti, jni: &JniEnv, thread: jni::jthread) -> bool {
    // SAFETY: the caller's promise; the class is given back.
    let name = unsafe {
        let class = jni.get_object_class(thread);
        let name = internal_name(jvmti, class);
        jni.delete_local_ref(class);
        name
    };
    name.as_deref() == Some("jdk/internal/misc/CarrierThread")
}

fn is_measured(method: u32) -> bool {
    probe::is_recording() && !mute::is_muted(method)
}

/// `Thread.getId()` of the virtual thread that a thread carries, or else of the thread itself.
fn number_of(thread: &thread::ProbeThread) -> u64 {
    match thread.runs() {
        0 => thread.java_id(),
        number => number,
    }
}

fn shadow_calls(thread: &thread::ProbeThread) -> ShadowCalls {
    let mut calls = ShadowCalls::new();
    let frames = open_frames::read_frames(thread, probe::recording());
    for call in open_frames::without_dropped(frames) {
        calls.entry(call.method).or_default().push(call.start_ticks);
    }
    calls
}

fn known(before: Option<&Vec<u64>>, after: Option<&Vec<u64>>) -> Known {
    let (before, after) =
        (before.map_or(&[][..], |calls| calls), after.map_or(&[][..], |calls| calls));
    let all_before: HashSet<u64> = before.iter().copied().collect();
    let both = after.iter().filter(|call| all_before.contains(call));
    Known {
        surely: both.clone().count(),
        oldest: both.min().copied().unwrap_or_default(),
        likely: before.len().min(after.len()),
        likely_oldest: before.iter().chain(after).min().copied().unwrap_or_default(),
        may_be_long: before.iter().chain(after).any(|call| is_long(*call)),
    }
}

/// Describes a method on a stack; `None` unless it has an id, or is of a wanted class and has a loop.
///
/// # Safety
/// `method` is one of the JVM's.
unsafe fn stack_method(
    jvmti: &Jvmti,
    jni: &JniEnv,
    method: jni::jmethodID,
    wanted: Wanted<'_>,
) -> Option<StackMethod> {
    // SAFETY: the caller's promise; the references that come back are this thread's, and given back.
    unsafe {
        let declaring = jvmti.get_method_declaring_class(method).ok()?;
        let class = internal_name(jvmti, declaring);
        let is_asked_for = class.as_ref().is_some_and(|name| wanted.classes.contains_key(name));
        let loader = match is_asked_for || probe::is_recording() {
            true => Loaders::all().of_class(jvmti, jni, declaring),
            false => None,
        };
        jni.delete_local_ref(declaring);
        let class = class?;
        // A method that cannot be read counts as having a loop; a native one has no code.
        let has_loop = || match jvmti.get_bytecodes(method) {
            Ok(code) => rewriter::has_backward_branch(&code),
            Err(error) => error != jvmti::jvmtiError::NATIVE_METHOD,
        };
        let is_wanted = is_asked_for && has_loop();
        let (name, descriptor, _) = jvmti.get_method_name(method).ok()?;
        let id = loader.and_then(|l| wanted.methods.find(l.number, &class, &name, &descriptor));
        if !is_wanted && id.is_none() {
            return None;
        }
        let is_old = is_wanted && jvmti.is_method_obsolete(method).unwrap_or(false);
        Some(StackMethod { class: class.into(), name: name.into(), id, is_wanted, is_old })
    }
}

/// Whether the method of a class has a loop.
///
/// # Safety
/// `class` is a live reference of this thread.
unsafe fn has_loop(jvmti: &Jvmti, class: jni::jclass, name: &str, descriptor: &str) -> bool {
    // SAFETY: the caller's promise; the methods are those of the class.
    unsafe {
        let methods = jvmti.get_class_methods(class).unwrap_or_default();
        let found = methods.into_iter().find(|method| {
            let found = jvmti.get_method_name(*method);
            found.is_ok_and(|(n, d, _)| n == name && d == descriptor)
        });
        let code = found.and_then(|method| jvmti.get_bytecodes(method).ok());
        code.is_none_or(|code| rewriter::has_backward_branch(&code))
    }
}
