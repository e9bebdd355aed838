//! Classes on their way into the JVM get probes; those that are loaded get them by retransformation,
//! and lose them by it.
//!
//! All threads stand still while classes are retransformed, so loaded classes are sent in batches,
//! whose size follows from how long those before took.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::{ClassFileLoadHookEvent, jni, jvmti};

use crate::message::message;
use crate::running::{Retransformed, Running};

/// As many as HotSpot allows to be asked for.
const MANY_REFERENCES: jni::jint = 65_536;

/// How long a batch of classes may take, if it can be helped.
const BATCH: Duration = Duration::from_millis(50);

/// How long a class may take from the hook to where it can be found.
const IN_FLIGHT: Duration = Duration::from_millis(50);

/// Classes that could not be retransformed and are named; of the others only the number is told.
const NAMED_FAILURES: u64 = 5;

const HOOK: [jvmti::jvmtiEvent; 1] = [jvmti::JVMTI_EVENT_CLASS_FILE_LOAD_HOOK];

/// Opens the load hook and sends the classes that were loaded before through it.
pub(crate) fn instrument(running: &Running, jvmti: &Jvmti, jni: &JniEnv) {
    if let Err(error) = jvmti.enable_events_global(&HOOK) {
        message!("no load hook ({error:?}); no class gets probes");
        return;
    }
    let wanted = |class| {
        // SAFETY: a live reference of this thread.
        unsafe {
            is_selected(running, jvmti, jni, class)
                && jvmti.is_modifiable_class(class).unwrap_or(false)
        }
    };
    retransform(&running.retransformed, jvmti, jni, "stays without probes", wanted, || {});
}

/// Sends the loaded classes with one of these methods through the hook again. `meanwhile` is called after
/// each batch of them; `consequence` says what is of a class that the JVM refuses.
pub(crate) fn renew(
    running: &Running,
    jvmti: &Jvmti,
    jni: &JniEnv,
    ids: &HashSet<u32>,
    consequence: &str,
    meanwhile: impl FnMut(),
) {
    let wanted = |class| {
        let Some(name) = internal_name(jvmti, class) else { return false };
        // SAFETY: a live reference of this thread.
        running.hook.may_select(&name)
            && unsafe { running.loaders.of_class(jvmti, jni, class) }
                .is_some_and(|loader| running.hook.has_any(loader.number, &name, ids))
    };
    retransform(&running.retransformed, jvmti, jni, consequence, wanted, meanwhile);
}

/// Closes the load hook and gives every class its own bytes back. What came of it is in `restored`.
pub(crate) fn restore(running: &Running, jvmti: &Jvmti, jni: &JniEnv, restored: &Retransformed) {
    running.close_gate();
    if let Err(error) = jvmti.disable_events_global(&HOOK) {
        message!("the load hook stays open ({error:?}); it changes nothing any more");
    }
    let mut seen = HashSet::new();
    // A class that was given probes before the hook was closed may have been on its way still, and not
    // be defined yet: it is looked for until there is nothing new, and once more a little later.
    let mut is_last = false;
    loop {
        let before = seen.len();
        let wanted = |class| {
            let Some(name) = internal_name(jvmti, class) else { return false };
            if !running.hook.may_select(&name) {
                return false;
            }
            // SAFETY: a live reference of this thread.
            let Some(loader) = (unsafe { running.loaders.of_class(jvmti, jni, class) }) else {
                return false;
            };
            running.hook.has_given(loader.number, &name) && seen.insert((loader.number, name))
        };
        retransform(restored, jvmti, jni, "keeps its probes, which do nothing", wanted, || {});
        if seen.len() == before {
            if std::mem::replace(&mut is_last, true) {
                return;
            }
            std::thread::sleep(IN_FLIGHT);
        }
    }
}

/// Has the JVM make those of the loaded classes anew that are `wanted`, which is asked once of each, and
/// calls `meanwhile` between batches.
fn retransform(
    counts: &Retransformed,
    jvmti: &Jvmti,
    jni: &JniEnv,
    consequence: &str,
    mut wanted: impl FnMut(jni::jclass) -> bool,
    mut meanwhile: impl FnMut(),
) {
    // Thousands of local references at once.
    let _frame = jni.push_local_frame(MANY_REFERENCES);
    let classes = match jvmti.get_loaded_classes() {
        Ok(classes) => classes,
        Err(error) => {
            message!(
                "the JVM does not say which classes are loaded ({error:?}); each {consequence}"
            );
            counts.add_failed();
            return;
        }
    };
    let failed_before = counts.failed();
    let mut size = BatchSize::default();
    let mut batch = Vec::new();
    // Of classes that this thread loaded itself.
    LAST_HOOK.set(None);
    let mut send = |batch: &mut Vec<jni::jclass>| {
        let begun = Instant::now();
        // SAFETY: live references of this thread.
        let sent = unsafe { jvmti.retransform_classes(batch) };
        let took = LAST_HOOK.take().unwrap_or(begun).elapsed();
        if sent.is_ok() {
            counts.add(batch.len(), took);
        } else if batch.len() == 1 {
            failure(counts, jvmti, batch, failed_before, consequence, sent.err());
        } else {
            // One that is refused, and all of its batch is.
            for class in &*batch {
                let begun = Instant::now();
                // SAFETY: as above.
                let sent = unsafe { jvmti.retransform_classes(&[*class]) };
                let took = LAST_HOOK.take().unwrap_or(begun).elapsed();
                match sent {
                    Ok(()) => counts.add(1, took),
                    Err(error) => {
                        failure(counts, jvmti, &[*class], failed_before, consequence, Some(error));
                    }
                }
            }
        }
        let next = size.after(batch.len(), took);
        for class in batch.drain(..) {
            // SAFETY: a reference of this thread, not used after this.
            unsafe { jni.delete_local_ref(class) };
        }
        next
    };
    let mut full = 1;
    for class in classes {
        if wanted(class) {
            batch.push(class);
            if batch.len() >= full {
                full = send(&mut batch);
                meanwhile();
            }
        } else {
            // SAFETY: a reference of this thread, not used after this.
            unsafe { jni.delete_local_ref(class) };
        }
    }
    if !batch.is_empty() {
        send(&mut batch);
    }
    let failed = counts.failed() - failed_before;
    if failed > NAMED_FAILURES {
        message!("{} classes more cannot be changed", failed - NAMED_FAILURES);
    }
}

fn failure(
    counts: &Retransformed,
    jvmti: &Jvmti,
    class: &[jni::jclass],
    failed_before: u64,
    consequence: &str,
    error: Option<jvmti::jvmtiError>,
) {
    counts.add_failed();
    let (Some(class), Some(error)) = (class.first(), error) else { return };
    if counts.failed() - failed_before <= NAMED_FAILURES {
        // SAFETY: a live reference of the calling thread.
        let name = unsafe { jvmti.get_class_signature(*class) };
        let name = name.map_or_else(|_| "a class".to_owned(), |(signature, _)| signature);
        message!("{name} was loaded before and {consequence} ({error:?})");
    }
}

/// How many classes go into a batch: a line through the latest batches says what each costs however
/// small it is, and what a class adds to that. Both depend on the code that the JVM has compiled.
#[derive(Default)]
struct BatchSize {
    /// Classes and nanoseconds of the latest batches.
    latest: VecDeque<(i128, i128)>,
    /// What a class adds, in nanoseconds; 0 while it is not known.
    each_ns: i128,
}

/// How many batches are remembered.
const LATEST: usize = 4;

impl BatchSize {
    /// The size of the next batch, after one of `classes` that `took` so long.
    fn after(&mut self, classes: usize, took: Duration) -> usize {
        let ns = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX >> 64);
        self.latest.truncate(LATEST - 1);
        self.latest.push_front((classes as i128, ns(took)));
        let sum = |of: fn(i128, i128) -> i128| self.latest.iter().map(|(n, t)| of(*n, *t)).sum();
        let (count, n, t): (_, i128, i128) =
            (self.latest.len() as i128, sum(|n, _| n), sum(|_, t| t));
        let (nn, nt): (i128, i128) = (sum(|n, _| n * n), sum(|n, t| n * t));
        // Batches of one size say nothing of a class.
        if count * nn != n * n {
            self.each_ns = (count * nt - n * t) / (count * nn - n * n);
        }
        let most = 4 * classes.max(1);
        if self.each_ns <= 0 {
            return if took < BATCH { most } else { 2 * classes.max(1) };
        }
        let fixed = ((t - self.each_ns * n) / count).max(0);
        // Where a batch takes too long however small it is, smaller ones take longer in all.
        let budget = (ns(BATCH) - fixed).max(fixed / 2);
        usize::try_from(budget / self.each_ns).unwrap_or(most).clamp(1, most)
    }
}

/// The internal name of a loaded class; `None` for arrays and primitive types.
pub(crate) fn internal_name(jvmti: &Jvmti, class: jni::jclass) -> Option<String> {
    // SAFETY: a live reference of the calling thread.
    let (signature, _) = unsafe { jvmti.get_class_signature(class) }.ok()?;
    Some(signature.strip_prefix('L')?.strip_suffix(';')?.to_owned())
}

/// Whether a loaded class is to be sent through the hook.
///
/// # Safety
/// `class` is a live reference of this thread.
unsafe fn is_selected(running: &Running, jvmti: &Jvmti, jni: &JniEnv, class: jni::jclass) -> bool {
    let Some(name) = internal_name(jvmti, class) else { return false };
    let Some(selection) = running.hook.selects(&name) else { return false };
    // SAFETY: the caller's promise; the loader is given back.
    unsafe {
        let Ok(loader) = jvmti.get_class_loader(class) else { return false };
        let known = running.loaders.get(jvmti, jni, loader);
        let selected = selection.is_included
            || running.loaders.is_application_class(jvmti, jni, loader, known.number, &name);
        if !loader.is_null() {
            jni.delete_local_ref(loader);
        }
        if !selected {
            running.hook.leave_out_jdk(&name);
        }
        selected
    }
}

thread_local! {
    /// This thread is in the hook: what it loads meanwhile is ours.
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
    /// When this thread left it last. The JVM stops its threads after that, not before.
    static LAST_HOOK: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The bytes of a class with probes, or `None` if it stays as it is.
pub(crate) fn rewrite(
    running: &Running,
    jvmti: &Jvmti,
    jni: &JniEnv,
    event: &ClassFileLoadHookEvent<'_>,
) -> Option<Vec<u8>> {
    if IN_HOOK.replace(true) {
        return None;
    }
    let _left_at_the_end = LeaveHook;
    let _gate = running.enter_gate()?;
    rewrite_class(running, jvmti, jni, event)
}

/// Leaves the hook when dropped, after a panic too.
struct LeaveHook;

impl Drop for LeaveHook {
    fn drop(&mut self) {
        IN_HOOK.set(false);
        LAST_HOOK.set(Some(Instant::now()));
    }
}

fn rewrite_class(
    running: &Running,
    jvmti: &Jvmti,
    jni: &JniEnv,
    event: &ClassFileLoadHookEvent<'_>,
) -> Option<Vec<u8>> {
    let bytes = event.class_data();
    let name = match event.name_str() {
        Ok(Some(name)) => name,
        // A loader may define a class without saying its name.
        _ => rewriter::class_name(bytes).ok()?.to_str(),
    };
    let selected = running.hook.selects(&name)?;
    let loader = event.loader();
    // SAFETY: the event's reference is good until the hook returns.
    let known = unsafe { running.loaders.get(jvmti, jni, loader) };
    // SAFETY: as above.
    let is_application =
        || unsafe { running.loaders.is_application_class(jvmti, jni, loader, known.number, &name) };
    if !selected.is_included && !is_application() {
        running.hook.leave_out_jdk(&name);
        return None;
    }
    running.hook.rewrite(known, &name, selected, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Sizes of batches, where each costs `fixed` and `each` more a class.
    fn sizes(size: &mut BatchSize, fixed: Duration, each: Duration) -> Vec<usize> {
        let mut batch = 1;
        let mut next = || {
            let now = batch;
            batch = size.after(now, fixed + each * u32::try_from(now).unwrap());
            now
        };
        (0..20).map(|_| next()).collect()
    }

    #[test]
    fn batches_grow_until_they_take_what_they_may() {
        let sizes = sizes(&mut BatchSize::default(), 2 * MS, MS / 2);
        assert_eq!(sizes[..4], [1, 4, 16, 64]);
        assert!(sizes[4..].iter().all(|size| *size == 96), "{sizes:?}");
        let slow = sizes_of_slow_classes();
        assert!(slow[4..].iter().all(|size| *size <= 4), "{slow:?}");
    }

    fn sizes_of_slow_classes() -> Vec<usize> {
        sizes(&mut BatchSize::default(), MS, 100 * MS)
    }

    /// Where a batch takes too long however small it is, smaller ones would take longer in all.
    #[test]
    fn what_every_batch_costs_does_not_make_them_smaller() {
        let mut size = BatchSize::default();
        let before = sizes(&mut size, 2 * MS, MS / 10);
        let after = sizes(&mut size, 200 * MS, MS / 10);
        assert!(before[8..].iter().all(|size| *size > 100), "{before:?}");
        assert!(after[12..].iter().all(|size| *size > 100), "{after:?}");
    }
}
