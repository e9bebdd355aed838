//! Examples of exceptions, with stack and message, until the agent thread takes them.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use jvmti_bindings::env::JniEnv;
use jvmti_bindings::prelude::jni;
use log_format::ids::{JavaThreadId, OsThreadId};
use log_format::writer::one_line;

use crate::hotspot::own_stack::OwnStack;
use crate::jvm::probe_class::ProbeClass;
use crate::probe::ProbeId;
use crate::probe::thread::os_id;
use crate::probe::{ClassHash, Left};
use crate::sys::clock;
use crate::sys::memory::bounded_queue::BoundedQueue;
use crate::sys::memory::sharded::Sharded;

/// Most examples that wait for the agent thread, which takes them about every 60 ms.
const MOST: usize = 500;
/// Most examples of an interval. Others are not missed: reports have counts of all.
const MOST_IN_INTERVAL: usize = 2_000;
/// The most of a message, in UTF-16 units.
const MOST_OF_MESSAGE: jni::jsize = 500;

/// An exception where it began to leave instrumented code.
#[derive(Debug)]
pub(crate) struct Example {
    /// When, in ticks.
    pub at_ticks: u64,
    /// The kernel's number of the thread.
    pub os_id: OsThreadId,
    pub virtual_thread: Option<JavaThreadId>,
    /// The identity hash of its class.
    pub class: ClassHash,
    /// Empty if there is none, or messages are off.
    pub message: String,
    /// From the method that it left.
    pub stack: OwnStack,
}

static QUEUE: BoundedQueue<Example> =
    BoundedQueue::new(MOST, |example| example.message.capacity() + example.stack.bytes());
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Examples that were not kept since the JVM began: too many at once, or no memory.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Takes the examples since the last call.
pub(crate) fn take() -> Vec<Example> {
    QUEUE.take()
}

/// Methods and classes that have an example in this interval.
static HAVE: Sharded<()> = Sharded::new();

/// From now on, each method and class gets an example again.
pub(crate) fn begin_interval() {
    HAVE.clear();
}

/// Keeps an exception that has just begun to leave instrumented calls, if it is the first of its kind in the interval.
///
/// # Safety
/// `thrown` is a live reference of this thread.
pub(super) unsafe fn add(jni: &JniEnv, left: Left, thrown: jni::jobject, with_message: bool) {
    let Left { probe_id, class, .. } = left;
    let key = u64::from(class.bits()) << 32 | u64::from(probe_id.method().get());
    if HAVE.contains(key) || HAVE.len() >= MOST_IN_INTERVAL {
        return;
    }
    let example = || {
        // SAFETY: the caller guarantees the reference.
        let message = if with_message { unsafe { message(jni, thrown) } } else { None };
        example(jni, probe_id, class, message.unwrap_or_default())
    };
    // If there is no room, another one may fare better.
    let is_kept = !QUEUE.is_full()
        && HAVE.insert(key, ()).is_ok()
        && example().is_some_and(|example| QUEUE.push(example));
    if !is_kept {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

fn example(jni: &JniEnv, probe_id: ProbeId, class: ClassHash, message: String) -> Option<Example> {
    let (virtual_thread, mut stack) = OwnStack::read_in_probe(jni, ProbeClass::frames())?;
    stack.shadow.try_reserve_exact(1).ok()?;
    stack.shadow.push(probe_id.get());
    Some(Example {
        at_ticks: clock::ticks(),
        os_id: os_id(),
        virtual_thread,
        class,
        message,
        stack,
    })
}

/// The field `Throwable.detailMessage`; `None` if this JDK has none.
struct Field(Option<jni::jfieldID>);

// SAFETY: a field id is valid on every thread.
unsafe impl Send for Field {}
// SAFETY: as above.
unsafe impl Sync for Field {}

static MESSAGE: OnceLock<Field> = OnceLock::new();

/// The message of an exception, which its constructor got: no Java code runs.
///
/// # Safety
/// `thrown` is a live reference of this thread to a Throwable.
unsafe fn message(jni: &JniEnv, thrown: jni::jobject) -> Option<String> {
    let Field(field) = MESSAGE.get_or_init(|| {
        // Not the class of the exception: that may have a field of this name, too, which others have not.
        let class = jni.find_class_cstr(c"java/lang/Throwable");
        // SAFETY: a live reference of this thread until it is deleted.
        let field = class.and_then(|class| unsafe {
            let field = jni.get_field_id(class, "detailMessage", "Ljava/lang/String;");
            jni.delete_local_ref(class);
            field
        });
        if field.is_none() {
            jni.exception_clear();
        }
        Field(field)
    });
    // SAFETY: the caller guarantees the reference; the text is a live one until it is deleted.
    unsafe {
        let text = jni.get_object_field(thrown, (*field)?);
        if text.is_null() {
            return None;
        }
        let mut units = [0; MOST_OF_MESSAGE.cast_unsigned() as usize];
        let table = &**jni.raw();
        let length = (table.GetStringLength)(jni.raw(), text).min(MOST_OF_MESSAGE);
        (table.GetStringRegion)(jni.raw(), text, 0, length, units.as_mut_ptr());
        jni.delete_local_ref(text);
        let units = units.get(..usize::try_from(length).ok()?)?;
        Some(one_line(&String::from_utf16_lossy(units)))
    }
}
