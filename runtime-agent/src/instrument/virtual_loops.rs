//! Long-lived calls of virtual threads, by their shadow stacks.
//!
//! The JVM shows the stack of a virtual thread only while it is mounted. The agent knows its instrumented calls in both
//! cases. After a stop the agent no longer follows threads, and calls of methods that are muted or throttled leave the
//! shadow stacks. So the calls of that moment are remembered until their thread ends: it is unknown whether they still
//! run.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use super::long_calls::{has_run_for, is_long};
use log_format::ids::{JavaThreadId, MethodId};

use crate::probe::open_frames;
use crate::probe::{self, mounts, mute, thread};

/// A thread that is mounted and unmounted all the time may be missed in both places. So there are this many readings,
/// this far apart.
const READINGS: u32 = 3;
const BETWEEN: Duration = Duration::from_millis(3);

/// Calls younger than this are not remembered: nearly all of them are short calls of methods that are called often.
const YOUNG: Duration = Duration::from_millis(10);

/// A thread that ends waits only while its shard is in use.
const SHARDS: usize = 64;

/// Calls that a shard remembers one by one, at 16 bytes each and some 50 a thread. Methods with more count as running
/// as long as any call of the shard is remembered.
const MOST: usize = 16_384;

/// Calls that were in progress when recording ended, or when their method was muted or throttled, by thread number.
static REMEMBERED: [Mutex<Option<Remembered>>; SHARDS] = [const { Mutex::new(None) }; SHARDS];
/// Shards for which the ends of threads matter.
static WATCHING: AtomicUsize = AtomicUsize::new(0);

/// A call of a virtual thread: its method, and when it began, in ticks.
type Call = (MethodId, u64);

#[derive(Default)]
struct Remembered {
    /// By number of the thread. Of a recursion, the oldest call.
    calls: HashMap<JavaThreadId, Vec<Call>>,
    count: usize,
    /// Methods of calls for which there was no room.
    uncounted: HashSet<MethodId>,
    /// Threads that have ended while calls are being read.
    ended: HashSet<JavaThreadId>,
    is_reading: bool,
    /// Whether it is among those that [`WATCHING`] counts.
    is_watching: bool,
}

impl Remembered {
    fn add(&mut self, thread: JavaThreadId, (method, began): Call) {
        let known =
            self.calls.get_mut(&thread).and_then(|calls| calls.iter_mut().find(|c| c.0 == method));
        match known {
            Some((_, known)) => *known = began.min(*known),
            None if self.count < MOST => {
                self.calls.entry(thread).or_default().push((method, began));
                self.count += 1;
            }
            None => _ = self.uncounted.insert(method),
        }
    }

    fn remove(&mut self, thread: JavaThreadId) {
        if let Some(calls) = self.calls.remove(&thread) {
            self.count -= calls.len();
        }
        if self.calls.is_empty() {
            self.calls = HashMap::new();
            self.uncounted = HashSet::new();
        }
    }

    /// Adds what was read. Threads that have ended meanwhile are left out.
    fn take(&mut self, read: Self) {
        self.is_reading = false;
        let ended = std::mem::take(&mut self.ended);
        self.uncounted.extend(read.uncounted);
        for (thread, calls) in read.calls.into_iter().filter(|(thread, _)| !ended.contains(thread))
        {
            calls.into_iter().for_each(|call| self.add(thread, call));
        }
    }

    fn end(&mut self, thread: JavaThreadId) {
        // Without memory, the thread counts as running on.
        if self.is_reading && self.ended.try_reserve(1).is_ok() {
            self.ended.insert(thread);
        }
        self.remove(thread);
    }
}

/// Long-lived calls in progress: the method, and one of the threads, unless there are too many to know.
pub(super) fn long_calls() -> HashMap<MethodId, Option<JavaThreadId>> {
    let mut long: HashMap<MethodId, Option<JavaThreadId>> = HashMap::new();
    let mut add = |thread: JavaThreadId, (method, began): Call| {
        if is_long(began) {
            let least = long.entry(method).or_insert(Some(thread));
            *least = least.map(|least| least.min(thread));
        }
    };
    let mut uncounted = HashSet::new();
    for shard in &REMEMBERED {
        with(shard, |known| {
            let calls = known.calls.iter();
            calls.for_each(|(thread, calls)| calls.iter().for_each(|call| add(*thread, *call)));
            uncounted.extend(&known.uncounted);
        });
    }
    if probe::is_recording() {
        read(probe::recording(), &mut add);
    }
    long.extend(uncounted.into_iter().map(|method| (method, None)));
    long
}

/// Remembers the calls in progress of methods that the agent is about to stop following. Must be called before that:
/// calls of threads that are mounted or unmounted in between would be lost after it.
pub(crate) fn remember(is_one: impl Fn(MethodId) -> bool) {
    REMEMBERED.iter().for_each(|shard| with(shard, |known| known.is_reading = true));
    let mut now: [Remembered; SHARDS] = std::array::from_fn(|_| Remembered::default());
    read(probe::recording(), &mut |thread, (method, began)| {
        if has_run_for(began, YOUNG)
            && is_one(method)
            && let Some(now) = now.get_mut(shard_of(thread))
        {
            now.add(thread, (method, began));
        }
    });
    for (shard, now) in REMEMBERED.iter().zip(now) {
        with(shard, |known| known.take(now));
    }
}

/// Whether the ends of virtual threads matter.
pub(crate) fn are_any_remembered() -> bool {
    WATCHING.load(Ordering::Relaxed) > 0
}

/// Notes that a virtual thread has ended.
pub(crate) fn ended(thread: JavaThreadId) {
    if are_any_remembered()
        && let Some(shard) = REMEMBERED.get(shard_of(thread))
    {
        with(shard, |known| known.end(thread));
    }
}

fn shard_of(thread: JavaThreadId) -> usize {
    usize::try_from(thread.get() % SHARDS as u64).unwrap_or(0)
}

fn with<R>(shard: &Mutex<Option<Remembered>>, work: impl FnOnce(&mut Remembered) -> R) -> R {
    let mut known = shard.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let result = work(known);
    let matters = known.is_reading || !known.calls.is_empty();
    match (std::mem::replace(&mut known.is_watching, matters), matters) {
        (false, true) => _ = WATCHING.fetch_add(1, Ordering::Relaxed),
        (true, false) => _ = WATCHING.fetch_sub(1, Ordering::Relaxed),
        _ => {}
    }
    result
}

/// Passes each call of a virtual thread in this recording to `add`, some more than once. Skips calls whose end the
/// guard hides: those that were long-lived then are remembered.
fn read(recording: u32, add: &mut impl FnMut(JavaThreadId, Call)) {
    let mut add = |thread: JavaThreadId, (method, began): Call| {
        if !mute::concerns(method, began) {
            add(thread, (method, began));
        }
    };
    for reading in 0..READINGS {
        if mounts::events() == mounts::Events::NotNeeded {
            return;
        }
        if reading > 0 {
            sleep(BETWEEN);
        }
        mounts::for_each(|number, saved| {
            if saved.recording() == recording {
                saved.frames.iter().for_each(|call| add(number, (call.method(), call.start_ticks)));
            }
        });
        for thread in thread::all() {
            let number = thread.runs();
            if !number.is_none() {
                let calls = open_frames::read_frames(&thread, recording);
                calls.iter().for_each(|call| add(number, (call.method, call.start_ticks)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_forgotten_when_it_ends_however_many_there_are() {
        let mut known = Remembered::default();
        for number in 1..=8_000 {
            for (id, began) in [(7, number), (8, 5), (7, 3)] {
                known.add(JavaThreadId::new(number), (MethodId::new(id), began));
            }
        }
        assert_eq!((known.calls.len(), known.count), (8_000, 16_000));
        assert_eq!(
            known.calls[&JavaThreadId::new(9)],
            [(MethodId::new(7), 3), (MethodId::new(8), 5)]
        );
        known.add(JavaThreadId::new(1), (MethodId::new(9), 1));
        (1..=8_000).for_each(|number| known.remove(JavaThreadId::new(number)));
        assert_eq!((known.calls.len(), known.count), (0, 0));
    }

    #[test]
    fn calls_without_room_count_as_long_as_any_is_remembered() {
        let mut known = Remembered { count: MOST - 1, ..Remembered::default() };
        known.add(JavaThreadId::new(1), (MethodId::new(7), 3));
        known.add(JavaThreadId::new(1), (MethodId::new(8), 3));
        known.add(JavaThreadId::new(2), (MethodId::new(9), 3));
        assert_eq!(
            (known.calls.len(), &known.uncounted),
            (1, &HashSet::from([8, 9].map(MethodId::new)))
        );
        known.remove(JavaThreadId::new(1));
        assert!(known.uncounted.is_empty());
    }
}
