//! The probes in JDBC drivers and in what wraps them: in classes of the application that mention `java/sql/`, whatever
//! the filters select.
//!
//! Each class has a number, and each of its methods with a probe an id. Whether the class is a statement, a connection
//! or a driver is not known before its supertypes are: when it is prepared, they say so of it and of its superclasses,
//! which may have methods that only a subclass makes those of a statement. The JIT drops the probes of final classes
//! that are none; of others, a guard stays, which loads a byte: a subclass that is a statement may come at any time.
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{jni, jvmti};
use memchr::memmem::Finder;
use rewriter::probe::StatementMethod;
use rewriter::{ClassInfo, MethodInfo, Mutf8, Outcome, ProbeId, Rewriter, Selector, Skip};

use crate::error::JvmError;
use crate::instrument::methods::{ClassKey, Methods};
use crate::jvm::jvm_properties::{MOST_REFERENCES, internal_name};
use crate::jvm::loaders::{LoaderId, Loaders};
use crate::jvm::statement_class::{MOST_IDS, Match, StatementClass};
use crate::stderr::message;

/// The ids of a class: one for each kind of method.
const IDS: u32 = 8;
const _: () = assert!(IDS as usize == StatementMethod::ALL.len());
const MOST_CLASSES: u32 = MOST_IDS / IDS;
const ACC_FINAL: u16 = 0x10;
/// A final class that is no statement for so long is none.
const DECIDED: Duration = Duration::from_secs(10);

const INTERFACES: [&str; 3] =
    ["Ljava/sql/Statement;", "Ljava/sql/Connection;", "Ljava/sql/Driver;"];

static ARE_WANTED: AtomicBool = AtomicBool::new(false);
/// Global references to the interfaces, as addresses; 0 until they are prepared. They are never deleted.
static FOUND: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

static CLASSES: LazyLock<Mutex<Classes>> = LazyLock::new(Mutex::default);

/// What is known of classes.
#[derive(Default)]
struct Classes {
    /// Their numbers, from 1.
    numbers: HashMap<ClassKey, u32>,
    last: u32,
    /// Numbers of classes whose loader is gone, by name: for the same class in another one.
    left: HashMap<String, Vec<u32>>,
    /// Those that are statements, connections or drivers, and their superclasses: whether only some of their objects
    /// are, those of subclasses.
    matching: HashMap<ClassKey, bool>,
    /// Final ones with a number that are not in `matching`, and since when.
    undecided: Vec<(u32, ClassKey, Instant)>,
}

static ARE_TOO_MANY_REPORTED: AtomicBool = AtomicBool::new(false);

fn classes() -> MutexGuard<'static, Classes> {
    CLASSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bit for each class of which only some objects are statements, connections or drivers: those of subclasses.
static ARE_SOME: [AtomicU64; MOST_CLASSES as usize / 64] =
    [const { AtomicU64::new(0) }; MOST_CLASSES as usize / 64];

fn bit_of(number: u32) -> Option<(&'static AtomicU64, u64)> {
    Some((ARE_SOME.get((number / 64) as usize)?, 1 << (number % 64)))
}

/// The number in the probe of a driver's method: of its class, and of what the method does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatementProbe(u32);

impl StatementProbe {
    /// That of a probe which passes this number.
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    /// What the method does.
    pub(crate) fn kind(self) -> Option<StatementMethod> {
        StatementMethod::ALL.get((self.0 % IDS) as usize).copied()
    }

    /// Whether the method's object is a statement, connection or driver.
    ///
    /// # Safety
    /// `object` is a live reference of this thread, or null.
    pub(crate) unsafe fn is_of_one(self, jni: &JniEnv, object: jni::jobject) -> bool {
        let of_class = bit_of(self.0 / IDS);
        let are_some = of_class.is_some_and(|(bits, bit)| bits.load(Ordering::Relaxed) & bit != 0);
        !are_some || {
            // SAFETY: the caller guarantees the reference; the class is a live one until it is deleted.
            unsafe {
                let class = jni.get_object_class(object);
                let is_one = is_class(jni, class);
                jni.delete_local_ref(class);
                is_one
            }
        }
    }
}

const CLASS_PREPARE: [jvmti::jvmtiEvent; 1] = [jvmti::JVMTI_EVENT_CLASS_PREPARE];

/// Classes get the probes from now on. The load hook is closed; it opens next.
///
/// # Errors
/// The JVM refuses it.
pub(crate) fn begin(jvmti: &Jvmti, jni: &JniEnv) -> Result<(), JvmError> {
    StatementClass::define(jni)?;
    jvmti.enable_events_global(&CLASS_PREPARE)?;
    ARE_WANTED.store(true, Ordering::Release);
    for_each_loaded(jvmti, jni, find_interface);
    if FOUND.iter().any(|found| found.load(Ordering::Acquire) != 0) {
        for_each_loaded(jvmti, jni, note);
    }
    Ok(())
}

fn for_each_loaded(jvmti: &Jvmti, jni: &JniEnv, with: unsafe fn(&Jvmti, &JniEnv, jni::jclass)) {
    let _frame = jni.push_local_frame(MOST_REFERENCES);
    for class in jvmti.get_loaded_classes().unwrap_or_default() {
        // SAFETY: a live reference of this thread, which is not used after this.
        unsafe {
            with(jvmti, jni, class);
            jni.delete_local_ref(class);
        }
    }
}

/// Classes get them no more. The load hook is closed.
pub(crate) fn end() {
    ARE_WANTED.store(false, Ordering::Release);
}

/// Whether classes get them.
pub(crate) fn are_wanted() -> bool {
    ARE_WANTED.load(Ordering::Acquire)
}

/// Whether a loaded class may have methods of statements, connections or drivers.
pub(super) fn wants(class: &ClassKey) -> bool {
    are_wanted() && classes().matching.contains_key(class)
}

/// A class was prepared.
///
/// # Safety
/// `class` is a live reference of this thread.
pub(crate) unsafe fn prepared(jvmti: &Jvmti, jni: &JniEnv, class: jni::jclass) {
    if are_wanted() {
        // SAFETY: the caller guarantees the reference.
        unsafe {
            find_interface(jvmti, jni, class);
            note(jvmti, jni, class);
        }
    }
}

/// # Safety
/// `class` is a live reference of this thread.
unsafe fn find_interface(jvmti: &Jvmti, jni: &JniEnv, class: jni::jclass) {
    if FOUND.iter().all(|found| found.load(Ordering::Relaxed) != 0) {
        return;
    }
    // SAFETY: the caller guarantees the reference.
    let Ok((signature, _)) = (unsafe { jvmti.get_class_signature(class) }) else { return };
    // Only the JDK's loaders define classes in java.*.
    let found = INTERFACES.iter().zip(&FOUND).find(|(interface, _)| **interface == signature);
    if let Some((_, found)) = found {
        // SAFETY: as above.
        let global = unsafe { jni.new_global_ref(class) };
        let set = found.compare_exchange(
            0,
            global.expose_provenance(),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if set.is_err() {
            // SAFETY: this function's own, which nobody has.
            unsafe { jni.delete_global_ref(global) };
        }
    }
}

/// Whether a class is a statement, connection or driver.
///
/// # Safety
/// `class` is a live reference of this thread.
unsafe fn is_class(jni: &JniEnv, class: jni::jclass) -> bool {
    FOUND.iter().any(|found| {
        let interface = found.load(Ordering::Acquire);
        let reference = std::ptr::with_exposed_provenance_mut(interface);
        // SAFETY: a global reference that is never deleted, and the caller's class.
        interface != 0 && unsafe { jni.is_assignable_from(class, reference) }
    })
}

/// Notes a class and its superclasses, if it is a statement, connection or driver.
///
/// # Safety
/// `class` is a live reference of this thread.
unsafe fn note(jvmti: &Jvmti, jni: &JniEnv, class: jni::jclass) {
    // SAFETY: the caller guarantees the reference.
    if unsafe { !is_class(jni, class) } {
        return;
    }
    let _frame = jni.push_local_frame(64);
    let mut next = Some(class);
    while let Some(class) = next {
        let Some(name) = internal_name(jvmti, class) else { return };
        if name.starts_with("java/") {
            return;
        }
        // SAFETY: live references of this thread.
        unsafe {
            let Some(loader) = Loaders::all().of_class(jvmti, jni, class) else { return };
            // Not under the lock: somebody may suspend this thread.
            let are_some = !is_class(jni, class);
            let number = classes().set_matching((loader.id, name), are_some);
            number.iter().for_each(|number| set_matching(jni, *number, are_some));
            next = jni.get_superclass(class);
        }
    }
}

impl Classes {
    /// Adds a class to `matching`; returns its number.
    fn set_matching(&mut self, class: ClassKey, are_some: bool) -> Option<u32> {
        let number = self.numbers.get(&class).copied();
        self.undecided.retain(|(undecided, ..)| Some(*undecided) != number);
        self.matching.insert(class, are_some);
        number
    }

    /// The number of a class, and what is known of it in `matching`; `None` if there are too many.
    fn number(&mut self, class: &ClassKey, is_final: bool) -> Option<(u32, Option<bool>)> {
        let matching = self.matching.get(class).copied();
        if let Some(number) = self.numbers.get(class) {
            return Some((*number, matching));
        }
        let left = self.left.get_mut(&class.1).and_then(Vec::pop);
        let number = match left {
            Some(number) => number,
            None if self.last + 1 < MOST_CLASSES => {
                self.last += 1;
                self.last
            }
            None => return None,
        };
        self.numbers.insert(class.clone(), number);
        if is_final && matching.is_none() && left.is_none() {
            self.undecided.push((number, class.clone(), Instant::now()));
        }
        Some((number, matching))
    }
}

/// The methods of a class are those of statements, connections or drivers, or of some objects only.
fn set_matching(jni: &JniEnv, number: u32, are_some: bool) {
    if let Some((bits, bit)) = bit_of(number) {
        match are_some {
            true => bits.fetch_or(bit, Ordering::Relaxed),
            false => bits.fetch_and(!bit, Ordering::Relaxed),
        };
    }
    set_match(jni, number, Match::Yes);
}

fn set_match(jni: &JniEnv, number: u32, is: Match) {
    if let Some(class) = StatementClass::get() {
        class.set_match(jni, number * IDS, StatementMethod::ALL.len(), is);
    }
}

/// Lets the JIT drop the probes of classes that have turned out to be none. The agent thread calls this.
pub(crate) fn decide(jni: &JniEnv) {
    let decided: Vec<_> = {
        let is_decided = |(_, _, since): &mut (u32, ClassKey, Instant)| since.elapsed() >= DECIDED;
        classes().undecided.extract_if(.., is_decided).collect()
    };
    for (number, class, _) in decided {
        set_match(jni, number, Match::No);
        // It may have been prepared meanwhile.
        let matching = classes().matching.get(&class).copied();
        matching.iter().for_each(|are_some| set_matching(jni, number, *are_some));
    }
}

/// Forgets the classes of freed loaders.
pub(crate) fn forget_loaders(gone: &HashSet<LoaderId>) {
    let mut classes = classes();
    let Classes { numbers, left, matching, .. } = &mut *classes;
    matching.retain(|(loader, _), _| !gone.contains(loader));
    for ((_, name), number) in numbers.extract_if(|(loader, _), _| gone.contains(loader)) {
        left.entry(name).or_default().push(number);
    }
}

/// Whether a class can have methods that need probes.
pub(super) fn may_have_methods(bytes: &[u8]) -> bool {
    static MENTIONS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("java/sql/"));
    are_wanted() && MENTIONS.find(bytes).is_some()
}

/// The class with probes; `None` if it stays as it is. Tells `skipped` which methods have none although they should,
/// and why.
pub(super) fn rewrite(
    jni: &JniEnv,
    class: ClassKey,
    bytes: &[u8],
    skipped: &mut dyn FnMut(String, &'static str),
) -> Option<Vec<u8>> {
    let mut selection = Selection { class: &class, number: None, jni, skipped };
    let outcome = Rewriter::new().rewrite_statements(bytes, &mut selection);
    let Ok(Outcome::Rewritten(rewritten)) = outcome else { return None };
    Methods::all().with_class(class.0, &class.1, |known| known.set_has_other_probes());
    Some(rewritten.bytes)
}

struct Selection<'s> {
    class: &'s ClassKey,
    number: Option<u32>,
    jni: &'s JniEnv,
    skipped: &'s mut dyn FnMut(String, &'static str),
}

impl Selector for Selection<'_> {
    fn selects(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> bool {
        true
    }

    fn id(&mut self, class: &ClassInfo<'_>, method: &MethodInfo<'_>) -> Option<ProbeId> {
        let of = StatementMethod::of(&method.name.to_str(), &method.descriptor.to_str())?;
        let place = StatementMethod::ALL.iter().position(|kind| *kind == of)?;
        if self.number.is_none() {
            let is_final = class.access_flags & ACC_FINAL != 0;
            let number = classes().number(self.class, is_final);
            if number.is_none() && !ARE_TOO_MANY_REPORTED.swap(true, Ordering::Relaxed) {
                message!("sql: over {MOST_CLASSES} classes; statements of others are not seen");
            }
            let (number, matching) = number?;
            self.number = Some(number);
            if let Some(are_some) = matching {
                set_matching(self.jni, number, are_some);
            }
        }
        ProbeId::new(self.number? * IDS + u32::try_from(place).ok()?)
    }

    fn skipped(
        &mut self,
        class: &ClassInfo<'_>,
        name: Mutf8<'_>,
        descriptor: Mutf8<'_>,
        why: Skip,
    ) {
        if StatementMethod::of(&name.to_str(), &descriptor.to_str()).is_some()
            && !why.is_by_design()
        {
            let class = class.name.to_str().replace('/', ".");
            (self.skipped)(format!("{class}.{}{}", name.to_str(), descriptor.to_str()), why.text());
        }
    }
}
