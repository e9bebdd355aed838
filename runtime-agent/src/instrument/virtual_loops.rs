//! Long-lived calls of virtual threads, by their shadow stacks.
//!
//! The JVM shows the stack of a virtual thread only while it is mounted. The agent knows its measured calls in both
//! cases. After a stop the agent no longer follows threads, and calls of methods that are muted or throttled leave the
//! shadow stacks. So the calls of that moment are remembered until their thread ends: it is unknown whether they still
//! run.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use super::long_calls::{has_run_for, is_long};
use crate::probe::open_frames;
use crate::probe::{self, mounts, mute, thread};

/// A thread that is mounted and unmounted all the time may be missed in both places. So there are this many readings,
/// this far apart.
const READINGS: u32 = 3;
const BETWEEN: Duration = Duration::from_millis(3);

/// Calls younger than this are not remembered: nearly all of them are short calls of methods that are called often.
const YOUNG: Duration = Duration::from_millis(10);

/// Calls that are remembered one by one, at 16 bytes each and some 50 a thread. Methods with more count as running as
/// long as any call is remembered.
const MOST: usize = 1_000_000;

/// Calls that were in progress when recording ended, or when their method was muted or throttled.
static REMEMBERED: Mutex<Option<Remembered>> = Mutex::new(None);
/// Whether the ends of threads matter.
static ARE_ANY_REMEMBERED: AtomicBool = AtomicBool::new(false);

/// A call of a virtual thread: its method, and when it began, in ticks.
type Call = (u32, u64);

#[derive(Default)]
struct Remembered {
    /// By number of the thread. Of a recursion, the oldest call.
    calls: HashMap<u64, Vec<Call>>,
    count: usize,
    /// Methods of calls for which there was no room.
    uncounted: HashSet<u32>,
    /// Threads that have ended while calls are being read.
    ended: HashSet<u64>,
    is_reading: bool,
}

impl Remembered {
    fn add(&mut self, thread: u64, (method, began): Call) {
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

    fn remove(&mut self, thread: u64) {
        if let Some(calls) = self.calls.remove(&thread) {
            self.count -= calls.len();
        }
        if self.calls.is_empty() {
            *self = Self {
                ended: std::mem::take(&mut self.ended),
                is_reading: self.is_reading,
                ..Self::default()
            };
        }
    }
}

/// Long-lived calls in progress: the method, and one of the threads, unless there are too many to know.
pub(super) fn long_calls() -> HashMap<u32, Option<u64>> {
    let mut long: HashMap<u32, Option<u64>> = HashMap::new();
    let mut add = |thread: u64, (method, began): Call| {
        if is_long(began) {
            let least = long.entry(method).or_insert(Some(thread));
            *least = least.map(|least| least.min(thread));
        }
    };
    let uncounted = remembered(|known| {
        let calls = known.calls.iter();
        calls.for_each(|(thread, calls)| calls.iter().for_each(|call| add(*thread, *call)));
        known.uncounted.clone()
    });
    if probe::is_recording() {
        read(probe::recording(), &mut add);
    }
    long.extend(uncounted.into_iter().map(|method| (method, None)));
    long
}

/// Remembers the calls in progress of methods that the agent is about to stop following. Must be called before that:
/// calls of threads that are mounted or unmounted in between would be lost after it.
pub(crate) fn remember(is_one: impl Fn(u32) -> bool) {
    ARE_ANY_REMEMBERED.store(true, Ordering::Relaxed);
    remembered(|known| known.is_reading = true);
    let mut now = Remembered::default();
    read(probe::recording(), &mut |thread, (method, began)| {
        if has_run_for(began, YOUNG) && is_one(method) {
            now.add(thread, (method, began));
        }
    });
    remembered(|known| {
        known.is_reading = false;
        let ended = std::mem::take(&mut known.ended);
        known.uncounted.extend(now.uncounted);
        for (thread, calls) in now.calls.into_iter().filter(|(thread, _)| !ended.contains(thread)) {
            calls.into_iter().for_each(|call| known.add(thread, call));
        }
        ARE_ANY_REMEMBERED.store(!known.calls.is_empty(), Ordering::Relaxed);
    });
}

/// Whether the ends of virtual threads matter.
pub(crate) fn are_any_remembered() -> bool {
    ARE_ANY_REMEMBERED.load(Ordering::Relaxed)
}

/// Notes that a virtual thread has ended.
pub(crate) fn ended(thread: u64) {
    if !are_any_remembered() {
        return;
    }
    remembered(|known| {
        if known.is_reading {
            known.ended.insert(thread);
        }
        known.remove(thread);
        let matter = known.is_reading || !known.calls.is_empty();
        ARE_ANY_REMEMBERED.store(matter, Ordering::Relaxed);
    });
}

fn remembered<R>(work: impl FnOnce(&mut Remembered) -> R) -> R {
    let mut known = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
    work(known.get_or_insert_default())
}

/// Passes each call of a virtual thread in this recording to `add`, some more than once. Skips calls whose end the
/// guard hides: those that were long-lived then are remembered.
fn read(recording: u32, add: &mut impl FnMut(u64, Call)) {
    let mut add = |thread: u64, (method, began): Call| {
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
            if number != 0 {
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
        for thread in 1..=20_000 {
            [(7, thread), (8, 5), (7, 3)].into_iter().for_each(|call| known.add(thread, call));
        }
        assert_eq!((known.calls.len(), known.count), (20_000, 40_000));
        assert_eq!(known.calls[&9], [(7, 3), (8, 5)]);
        known.add(1, (9, 1));
        (1..=20_000).for_each(|thread| known.remove(thread));
        assert_eq!((known.calls.len(), known.count), (0, 0));
    }

    #[test]
    fn calls_without_room_count_as_long_as_any_is_remembered() {
        let mut known = Remembered { count: MOST - 1, ..Remembered::default() };
        known.add(1, (7, 3));
        known.add(1, (8, 3));
        known.add(2, (9, 3));
        assert_eq!((known.calls.len(), &known.uncounted), (1, &HashSet::from([8, 9])));
        known.remove(1);
        assert!(known.uncounted.is_empty());
    }
}
