//! Long-lived calls of virtual threads, by their shadow stacks.
//!
//! The JVM shows the stack of a virtual thread only while it is mounted. What the agent has measured of it, it knows
//! in both cases. After a stop it no longer follows threads, and calls of methods that are muted or throttled leave the
//! shadow stacks, so the calls of that moment are remembered until their thread ends: nobody can say whether they still
//! run.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use super::activations::is_long;
use crate::open_calls;
use crate::probe::{self, mounts, thread};

/// Threads that are mounted and unmounted all the time may be met in neither place: so many readings, so far apart.
const READINGS: u32 = 3;
const BETWEEN: Duration = Duration::from_millis(3);

/// Numbers of threads by method.
type LongCalls = HashMap<u32, HashSet<u64>>;

/// Threads of a method that are told apart. With more, the method counts as running for good.
const MOST: usize = 10_000;
const MANY: u64 = u64::MAX;

/// Calls that were in progress when recording ended, or when their method was muted or throttled.
static REMEMBERED: Mutex<Option<Remembered>> = Mutex::new(None);
/// Whether the ends of threads matter.
static ARE_ANY_REMEMBERED: AtomicBool = AtomicBool::new(false);

#[derive(Default)]
struct Remembered {
    calls: LongCalls,
    /// Threads that have ended while calls are being read.
    ended: HashSet<u64>,
    is_reading: bool,
}

/// Long-lived calls in progress: the method, and one of the threads.
pub(super) fn long_calls() -> Vec<(u32, u64)> {
    let mut calls = remembered(|known| known.calls.clone());
    if probe::is_recording() {
        add_now(&mut calls, probe::recording(), |_| true);
    }
    calls
        .into_iter()
        .filter_map(|(method, threads)| Some((method, *threads.iter().min()?)))
        .collect()
}

/// Remembers what is in progress, in the recording of this number, of methods that will be followed no more.
pub(crate) fn remember(recording: u32, is_one: impl Fn(u32) -> bool) {
    ARE_ANY_REMEMBERED.store(true, Ordering::Relaxed);
    remembered(|known| known.is_reading = true);
    let mut now = LongCalls::new();
    add_now(&mut now, recording, is_one);
    remembered(|known| {
        known.is_reading = false;
        let ended = std::mem::take(&mut known.ended);
        for (method, threads) in now {
            for thread in threads.difference(&ended) {
                add(&mut known.calls, method, *thread);
            }
        }
        ARE_ANY_REMEMBERED.store(!known.calls.is_empty(), Ordering::Relaxed);
    });
}

/// A virtual thread has ended.
pub(crate) fn ended(number: u64) {
    if ARE_ANY_REMEMBERED.load(Ordering::Relaxed) {
        remembered(|known| {
            if known.is_reading {
                known.ended.insert(number);
            }
            known.calls.retain(|_, threads| {
                threads.remove(&number);
                !threads.is_empty()
            });
        });
    }
}

fn remembered<R>(work: impl FnOnce(&mut Remembered) -> R) -> R {
    let mut known = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
    work(known.get_or_insert_default())
}

fn add(calls: &mut LongCalls, method: u32, number: u64) {
    let threads = calls.entry(method).or_default();
    threads.insert(if threads.len() < MOST { number } else { MANY });
}

fn add_now(calls: &mut LongCalls, recording: u32, is_one: impl Fn(u32) -> bool) {
    let mut add = |method: u32, began: u64, number: u64| {
        if is_long(began) && is_one(method) {
            add(calls, method, number);
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
                saved.frames.iter().for_each(|call| add(call.method(), call.start_ticks, number));
            }
        });
        for thread in thread::all().iter().filter(|thread| thread.runs() != 0) {
            let number = thread.runs();
            let calls = open_calls::read_frames(thread, recording);
            calls.iter().for_each(|call| add(call.method, call.start_ticks, number));
        }
    }
}
