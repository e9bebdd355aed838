//! Finds activations on stacks, and when each began as far as the thread's shadow stack tells.
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};

use super::{Activation, Look, Seen, Wanted};
use log_format::ids::{JavaThreadId, MethodId};

use crate::instrument::long_calls::is_long;
use crate::jvm::java_threads;
use crate::jvm::jvm_properties::internal_name;
use crate::jvm::loaders::Loaders;
use crate::probe;
use crate::probe::mute;
use crate::probe::open_frames;
use crate::probe::thread::{self, ThreadName, ThreadRef};

/// A method on a stack.
#[derive(Debug)]
struct StackMethod {
    class: Rc<str>,
    name: Rc<str>,
    /// Its id, if it has one.
    id: Option<MethodId>,
    /// It has a loop, and its class was asked for.
    is_wanted: bool,
    is_old: bool,
}

/// When one thread's calls in progress began, in ticks, by method; from its shadow stack.
type ShadowCalls = HashMap<MethodId, Vec<u64>>;

/// What is known of a method's calls on a stack, from the shadow stack read before it and again after it.
#[derive(Clone, Copy, Debug, Default)]
struct CallsOnStack {
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

/// Finds activations on stacks, during one look.
pub(super) struct Search<'l> {
    jvmti: &'l Jvmti,
    jni: &'l JniEnv,
    wanted: Wanted<'l>,
    /// The threads that the probe knows, by `Thread.getId()`, and their calls before stacks are read.
    probe_threads: HashMap<JavaThreadId, ThreadRef>,
    shadow_calls: HashMap<JavaThreadId, ShadowCalls>,
    /// What is known of the JVM's methods.
    methods: HashMap<usize, Option<Rc<StackMethod>>>,
    pub(super) look: Look,
}

impl<'l> Search<'l> {
    pub(super) fn new(jvmti: &'l Jvmti, jni: &'l JniEnv, wanted: Wanted<'l>) -> Self {
        let (methods, look) = (HashMap::new(), Look::default());
        let known = if probe::is_recording() { thread::all() } else { Vec::new() };
        let probe_threads: HashMap<JavaThreadId, ThreadRef> =
            known.into_iter().map(|thread| (number_of(&thread), thread)).collect();
        let shadow_calls =
            probe_threads.iter().map(|(number, thread)| (*number, shadow_calls(thread)));
        let shadow_calls = shadow_calls.collect();
        Self { jvmti, jni, wanted, probe_threads, shadow_calls, methods, look }
    }

    /// Whether it matters that a thread's shadow stack is read right before its stack.
    pub(super) fn needs_tight_reads(&self) -> bool {
        !self.probe_threads.is_empty()
    }

    /// Reads a thread's shadow stack, right before its stack is read. Returns the thread's number.
    ///
    /// # Safety
    /// `thread` is a live reference of this thread.
    pub(super) unsafe fn prepare(&mut self, thread: jni::jthread) -> JavaThreadId {
        // SAFETY: the caller's promise.
        let java_id = unsafe { java_threads::number(self.jni, thread) }.unwrap_or_default();
        let calls = self.calls_now(java_id);
        self.shadow_calls.insert(java_id, calls);
        java_id
    }

    fn calls_now(&self, number: JavaThreadId) -> ShadowCalls {
        let thread = self.probe_threads.get(&number).filter(|thread| number_of(thread) == number);
        thread.map_or_else(HashMap::new, |thread| shadow_calls(thread))
    }

    /// Whether a stack has a method that the look is for.
    pub(super) fn has_wanted(&mut self, frames: &[jvmti::jvmtiFrameInfo]) -> bool {
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
    pub(super) unsafe fn find(
        &mut self,
        thread: jni::jthread,
        frames: &[jvmti::jvmtiFrameInfo],
    ) -> Option<JavaThreadId> {
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
        let mut of_methods: HashMap<MethodId, (usize, CallsOnStack)> = HashMap::new();
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

fn is_measured(method: MethodId) -> bool {
    probe::is_recording() && !mute::is_muted(method)
}

/// `Thread.getId()` of the virtual thread that a thread carries, or else of the thread itself.
fn number_of(thread: &thread::ProbeThread) -> JavaThreadId {
    let runs = thread.runs();
    if runs.is_none() { thread.java_id() } else { runs }
}

fn shadow_calls(thread: &thread::ProbeThread) -> ShadowCalls {
    let mut calls = ShadowCalls::new();
    let frames = open_frames::read_frames(thread, probe::recording());
    for call in open_frames::without_dropped(frames) {
        calls.entry(call.method).or_default().push(call.start_ticks);
    }
    calls
}

fn known(before: Option<&Vec<u64>>, after: Option<&Vec<u64>>) -> CallsOnStack {
    let (before, after) =
        (before.map_or(&[][..], |calls| calls), after.map_or(&[][..], |calls| calls));
    let all_before: HashSet<u64> = before.iter().copied().collect();
    let both = after.iter().filter(|call| all_before.contains(call));
    CallsOnStack {
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
        let id = loader.and_then(|l| wanted.methods.find(l.id, &class, &name, &descriptor));
        if !is_wanted && id.is_none() {
            return None;
        }
        let is_old = is_wanted && jvmti.is_method_obsolete(method).unwrap_or(false);
        Some(StackMethod { class: class.into(), name: name.into(), id, is_wanted, is_old })
    }
}
