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
static REMEMBERED: Mutex<Option<LongCalls>> = Mutex::new(None);
static ARE_ANY_REMEMBERED: AtomicBool = AtomicBool::new(false);

/// Long-lived calls in progress: the method, and one of the threads.
pub(super) fn long_calls() -> Vec<(u32, u64)> {
    let mut calls = remembered(|calls| calls.clone());
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
    let mut now = LongCalls::new();
    add_now(&mut now, recording, &is_one);
    if !now.is_empty() {
        // Once more, so that the end of no thread goes by meanwhile: it would be remembered for good.
        ARE_ANY_REMEMBERED.store(true, Ordering::Relaxed);
        remembered(|calls| add_now(calls, recording, &is_one));
    }
}

/// A virtual thread has ended.
pub(crate) fn ended(number: u64) {
    if ARE_ANY_REMEMBERED.load(Ordering::Relaxed) {
        remembered(|calls| {
            calls.retain(|_, threads| {
                threads.retain(|thread| *thread != number);
                !threads.is_empty()
            });
        });
    }
}

fn remembered<R>(work: impl FnOnce(&mut LongCalls) -> R) -> R {
    let mut calls = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
    work(calls.get_or_insert_default())
}

fn add_now(calls: &mut LongCalls, recording: u32, is_one: impl Fn(u32) -> bool) {
    let mut add = |method: u32, began: u64, number: u64| {
        if is_long(began) && is_one(method) {
            let threads = calls.entry(method).or_default();
            threads.insert(if threads.len() < MOST { number } else { MANY });
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
