//! The probe on threads without a JVM. Recording is one switch for the whole process, so these tests take turns.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use log_format::ids::MethodId;

use super::leave::{Exit, finish};
use super::method_totals::{Added, Reading};
use super::ring::{Kind, Record};
use super::stack::MAX_DEPTH;
use super::thread::{ThreadReader, ThreadRef};
use super::*;

/// Counts allocations of a thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[allow(unsafe_code)]
// SAFETY: forwards everything to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    init(ClockChoice::Auto, true, false);
    turn
}

pub(super) fn no_java(_: OwnThread<'_>) {}

fn start_at(address: usize, method: u32, first_call: impl FnOnce(OwnThread<'_>)) -> Entry {
    super::start_at(address, ProbeId::new(method), 0, first_call)
}

/// Like the native method.
pub(super) fn start(method: u32, first_call: impl FnOnce(OwnThread<'_>)) -> Entry {
    let id = ProbeId::new(method);
    if start_plain(id, 0) { Entry::Go } else { super::start(id, 0, first_call) }
}

/// Like the native methods.
pub(super) fn end(method: u32) {
    super::end(ProbeId::new(method));
}

pub(super) fn caught(method: u32) {
    super::caught(ProbeId::new(method));
}

pub(super) fn initialized(method: u32) {
    super::initialized(ProbeId::new(method));
}

/// Runs `body` on a new thread while recording, and returns its result.
pub(super) fn record_on_thread<R: Send>(threshold_ns: u64, body: impl FnOnce() -> R + Send) -> R {
    set_threshold_ns(threshold_ns);
    assert!(begin_recording());
    let result = std::thread::scope(|scope| scope.spawn(body).join());
    assert!(end_recording());
    result.expect("the body does not panic")
}

/// Runs `work` with the calling thread's data.
pub(super) fn with_own<R>(work: impl FnOnce(OwnThread<'_>) -> R) -> R {
    thread::with_current(work).expect("the thread has called")
}

/// Runs `work` with the reader of the calling thread's data.
pub(super) fn with_reader<R>(work: impl FnOnce(&mut ThreadReader) -> R) -> R {
    let own = |thread: &&ThreadRef| thread.address() == thread_word::get();
    let found = thread::lock_all().iter().find(own).cloned();
    work(&mut found.and_then(ThreadReader::of).expect("the thread has called"))
}

pub(super) fn totals(method: u32) -> Added {
    with_reader(|reader| {
        let entry = reader.entries().find(|entry| entry.method().get() == method);
        entry.and_then(|entry| entry.take_since(&mut Reading::default())).unwrap_or_default()
    })
}

pub(super) fn counts(method: u32) -> (u64, u64) {
    let reading = totals(method);
    (reading.calls, reading.throws)
}

pub(super) fn records() -> Vec<Record> {
    let mut records = Vec::new();
    with_reader(|reader| reader.drain(|r| records.push(r)));
    records
}

/// Ends a call by an exception, as the native method does.
pub(super) fn leave_by(method: u32, thrown: Thrown) -> Option<Left> {
    let probe_id = ProbeId::new(method);
    if threw_plain(probe_id, thrown) { None } else { super::threw(probe_id, thrown) }
}

/// Ends a call by some exception.
pub(super) fn threw(method: u32) {
    leave_by(method, Thrown { class: ClassHash::new(7), exception: 11 });
}

#[test]
fn probes_take_nothing_from_the_allocator() {
    let _turn = turn();
    // As the agent thread does each round.
    thread::make_room_in_list();
    let allocated = record_on_thread(0, || {
        let before = ALLOCATIONS.get();
        drop(Box::new(1));
        assert_eq!(ALLOCATIONS.get(), before + 1, "allocations are counted");
        let before = ALLOCATIONS.get();
        // A thread's first call is no exception.
        start(1, no_java);
        end(1);
        // Methods called for the first time, recursion, exceptions, recorded calls, a full ring, frames left behind.
        for round in 0..100 {
            for method in 1..2_000 {
                start(method, no_java);
                start(method + 1, no_java);
                if round % 2 == 0 {
                    end(method + 1)
                } else {
                    threw(method + 1)
                }
                start(5_000, no_java);
                caught(method);
                end(method);
            }
        }
        for depth in 0..100_000 {
            start(depth % 7 + 1, no_java);
        }
        for depth in (0..100_000).rev() {
            end(depth % 7 + 1);
        }
        ALLOCATIONS.get() - before
    });
    assert_eq!(allocated, 0);
}

#[test]
fn a_method_may_have_a_threshold_of_its_own() {
    let _turn = turn();
    let long = u64::MAX / 4;
    set_numbered_ns(7, 0);
    set_numbered_ns(8, long);
    assign_threshold(MethodId::new(70_001), 7);
    assign_threshold(MethodId::new(70_002), 8);
    let recorded = |threshold_ns: u64| {
        record_on_thread(threshold_ns, || {
            for method in [70_000, 70_001, 70_002] {
                start(method, no_java);
                end(method);
            }
            let of_calls = |r: &Record| r.kind == Kind::Return;
            records().into_iter().filter(of_calls).map(|r| r.method.get()).collect::<Vec<_>>()
        })
    };
    assert_eq!(recorded(0), [70_000, 70_001]);
    assert_eq!(recorded(long), [70_001]);
    let methods = [70_000, 70_001, 70_002, u32::MAX].map(MethodId::new);
    assert_eq!(methods.map(threshold_ns_of), [long, 0, long, long]);
    // Changed while it runs.
    set_numbered_ns(7, long);
    assign_threshold(MethodId::new(70_002), 0);
    assert_eq!(recorded(long), [0; 0]);
    assert_eq!(recorded(0), [70_000, 70_002]);
    set_numbered_ns(7, u64::MAX);
    set_numbered_ns(8, u64::MAX);
}

#[test]
fn a_probe_never_waits() {
    let _turn = turn();
    set_threshold_ns(0);
    assert!(begin_recording());
    let (known, is_known) = mpsc::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    let (done, is_done) = mpsc::channel();
    let prober = std::thread::spawn(move || {
        start(1, no_java);
        end(1);
        known.send(()).expect("a receiver");
        wait.recv().expect("a sender");
        for method in 1..1_000 {
            start(method, no_java);
            start(method + 1, no_java);
            threw(method + 1);
            caught(method);
            end(method);
        }
        done.send(()).expect("a receiver");
    });
    is_known.recv().expect("a sender");
    // The only lock that a thread takes, at its first call.
    let list = thread::lock_all();
    go_on.send(()).expect("a receiver");
    let went_on = is_done.recv_timeout(Duration::from_secs(10));
    drop(list);
    prober.join().expect("the prober does not panic");
    assert!(end_recording());
    went_on.expect("the probes waited for a lock that another thread held");
}

/// As at a detach: the recording ends while a thread is about to enter the list.
#[test]
#[cfg_attr(miri, ignore = "asks the kernel what a thread does")]
fn a_first_call_that_meets_the_end_of_the_recording_leaves_nothing() {
    let _turn = turn();
    let lost = || (lost_calls::calls(), lost_calls::threads());
    let lost_before = lost();
    assert!(begin_recording());
    let list = thread::lock_all();
    let (known, is_known) = mpsc::channel();
    let prober = std::thread::spawn(move || {
        known.send(thread::os_id()).expect("a receiver");
        start(1, no_java);
        end(1);
    });
    let id = is_known.recv().expect("a sender");
    let waits_for_the_list = || {
        let call = std::fs::read_to_string(format!("/proc/self/task/{id}/syscall"));
        call.expect("a running thread").split(' ').next() == Some(&libc::SYS_futex.to_string())
    };
    while !waits_for_the_list() {
        std::thread::yield_now();
    }
    assert!(end_recording());
    drop(list);
    prober.join().expect("the prober does not panic");
    assert!(thread::all().iter().all(|thread| thread.os_id != id));
    assert_eq!(lost(), lost_before);
}

#[test]
fn calls_nest_and_times_add_up() {
    let _turn = turn();
    let (outer, inner, records) = record_on_thread(0, || {
        start(1, no_java);
        start(2, no_java);
        std::thread::sleep(Duration::from_millis(2));
        end(2);
        start(2, no_java);
        threw(2);
        end(1);
        (totals(1), totals(2), records())
    });
    assert_eq!((outer.calls, outer.throws, inner.calls, inner.throws), (1, 0, 2, 1));
    assert_eq!(outer.total_ticks, outer.self_ticks + inner.total_ticks);
    let found: Vec<_> = records.iter().map(|r| (r.kind, r.depth, r.method.get())).collect();
    let expected = [
        (Kind::Frame, 0, 1),
        (Kind::Frame, 1, 2),
        (Kind::Return, 1, 2),
        (Kind::Frame, 1, 2),
        (Kind::Throw, 1, 2),
        (Kind::Return, 0, 1),
    ];
    assert_eq!(found, expected);
}

#[test]
fn only_the_outermost_recursion_counts_in_total() {
    let _turn = turn();
    let reading = record_on_thread(u64::MAX, || {
        for _ in 0..10 {
            start(1, no_java);
        }
        std::thread::sleep(Duration::from_millis(1));
        for _ in 0..10 {
            end(1);
        }
        totals(1)
    });
    assert_eq!(reading.calls, 10);
    assert_eq!(reading.total_ticks, reading.self_ticks);
    assert_eq!(reading.max_ticks, reading.total_ticks);
}

/// The id of constructor 9 before its `super(...)` has returned.
const UNINITIALIZED: u32 = 9 | rewriter::probe::BEFORE_INIT;

pub(super) fn unseen() -> u64 {
    with_own(|own| own.unseen_ends())
}

pub(super) fn depth() -> u32 {
    with_own(|own| own.stack().depth())
}

/// Calls beyond the last frame.
pub(super) fn beyond() -> u64 {
    with_own(|own| own.stack().beyond())
}

/// Whether the next call is on the common path.
pub(super) fn is_plain() -> bool {
    with_own(|own| own.stack().plain_place().is_some())
}

#[test]
fn frames_that_were_left_behind_are_cleared_away() {
    let _turn = turn();
    record_on_thread(u64::MAX, || {
        // An exception passes 2 and 3 without a probe, and leaves 1.
        for method in [1, 2, 3] {
            start(method, no_java);
        }
        threw(1);
        assert_eq!((counts(1), counts(2), counts(3), depth()), ((1, 1), (1, 1), (1, 1), 0));
        // 1 returns over a constructor that threw, and over 2, whose end no probe saw.
        for method in [1, UNINITIALIZED, 2] {
            start(method, no_java);
        }
        end(1);
        assert_eq!((counts(1), counts(9), counts(2)), ((2, 1), (1, 1), (2, 2)));
        assert_eq!((unseen(), depth()), (3, 0));
        // 1 catches an exception that left a constructor, and continues.
        start(1, no_java);
        start(UNINITIALIZED, no_java);
        start(UNINITIALIZED, no_java);
        caught(1);
        assert_eq!((counts(9), depth()), ((3, 3), 1));
        caught(1);
        end(1);
        assert_eq!((counts(1), depth(), unseen()), ((3, 1), 0, 3));
        // None of these is on the stack.
        end(2);
        threw(3);
        caught(4);
        assert_eq!((counts(2), counts(3), counts(4), depth()), ((2, 2), (1, 1), (0, 0), 0));
    });
}

#[test]
fn a_constructor_that_failed_is_not_taken_for_another() {
    let _turn = turn();
    record_on_thread(u64::MAX, || {
        // One is initialized. It creates others that fail, catches their exceptions, and returns.
        start(UNINITIALIZED, no_java);
        initialized(UNINITIALIZED);
        for _ in 0..3 {
            start(UNINITIALIZED, no_java);
            caught(9);
            assert_eq!(depth(), 1);
        }
        start(UNINITIALIZED, no_java);
        end(9);
        assert_eq!((counts(9), depth(), unseen()), ((5, 4), 0, 0));
        // One fails while the arguments of another are evaluated, and the other continues.
        start(UNINITIALIZED, no_java);
        start(2, no_java);
        start(UNINITIALIZED, no_java);
        end(2);
        initialized(UNINITIALIZED);
        threw(9);
        assert_eq!((counts(9), counts(2), depth(), unseen()), ((7, 6), (1, 0), 0, 0));
    });
}

#[test]
fn failed_constructors_without_a_caller_do_not_pile_up() {
    let _turn = turn();
    let (count, self_ticks, total_ticks) = record_on_thread(u64::MAX, || {
        let top = usize::MAX / 2;
        start_at(top, 1, no_java);
        for _ in 0..100_000 {
            start_at(top - 4096, UNINITIALIZED, no_java);
            assert!(depth() < 100);
        }
        std::thread::sleep(Duration::from_millis(2));
        // Another one in their place. These may still be running, because they are above it.
        for inner in 0..100 {
            start_at(top - 8192 - inner * 64, UNINITIALIZED, no_java);
        }
        assert!(depth() > 100);
        end(1);
        (counts(9), totals(9).total_ticks, totals(1).total_ticks)
    });
    assert_eq!(count, (100_100, 100_100));
    assert!(self_ticks < total_ticks / 2, "what fails takes no time from its caller");
}

#[test]
fn calls_that_end_unseen_have_their_time() {
    let _turn = turn();
    let (one, two, three) = record_on_thread(u64::MAX, || {
        for method in [1, 2, 3] {
            start(method, no_java);
        }
        std::thread::sleep(Duration::from_millis(2));
        end(3);
        end(1);
        (totals(1), totals(2), totals(3))
    });
    assert_eq!(one.total_ticks, one.self_ticks + two.total_ticks);
    assert_eq!(two.total_ticks, two.self_ticks + three.total_ticks);
}

#[test]
fn a_call_without_stack_for_its_end_is_refused() {
    let _turn = turn();
    record_on_thread(u64::MAX, || {
        assert_eq!(start(1, no_java), Entry::Go);
        let least = with_own(|own| own.least_address);
        assert_eq!(start_at(least, 2, no_java), Entry::Go);
        assert_eq!(start_at(least - 16, 3, no_java), Entry::NoStack);
        threw(2);
        end(1);
        assert_eq!((counts(1), counts(2), counts(3)), ((1, 0), (1, 1), (0, 0)));
    });
}

/// This alone makes a deep recursion's memory be given back each time.
#[test]
fn a_deep_recursion_is_noticed_each_time() {
    let _turn = turn();
    record_on_thread(u64::MAX, || {
        for round in 1..=2 {
            for _ in 0..stack::FIRST_DEPTH {
                start(1, no_java);
            }
            assert!(!is_plain(), "round {round}");
            for _ in stack::FIRST_DEPTH..1_200 {
                start(1, no_java);
                let is_full = [128, 256, 512, 1_024].contains(&depth());
                assert_eq!(is_plain(), !is_full);
            }
            for _ in 0..1_200 {
                end(1);
            }
            assert_eq!((depth(), counts(1)), (0, (round * 1_200, 0)));
        }
    });
}

#[test]
fn beyond_the_last_frame_calls_are_counted() {
    let _turn = turn();
    let (one, two, depth) = record_on_thread(u64::MAX, || {
        for _ in 0..MAX_DEPTH {
            start(1, no_java);
        }
        for _ in 0..1_000 {
            start(2, no_java);
        }
        for round in 0..1_000 {
            if round % 4 == 0 { threw(2) } else { end(2) }
        }
        for _ in 0..MAX_DEPTH {
            end(1);
        }
        (counts(1), counts(2), depth())
    });
    assert_eq!((one, two, depth), ((u64::from(MAX_DEPTH), 0), (1_000, 250), 0));
}

#[test]
fn what_was_left_behind_beyond_the_last_frame_is_forgotten() {
    let _turn = turn();
    record_on_thread(u64::MAX, || {
        let top = native_stack::address_here();
        start_at(top, 1, no_java);
        for depth in 1..MAX_DEPTH {
            start_at(top - depth as usize * 16, 2, no_java);
        }
        let last = top - MAX_DEPTH as usize * 16;
        start_at(last, 3, no_java);
        start_at(last, UNINITIALIZED, no_java);
        // The test itself is far above on the stack, so the end is seen from there.
        end(1);
        assert_eq!((depth(), counts(1), counts(2).0), (0, (1, 0), u64::from(MAX_DEPTH) - 1));
        start(4, no_java);
        end(4);
        assert_eq!((depth(), counts(4)), (0, (1, 0)));
    });
}

#[test]
fn a_new_recording_begins_with_an_empty_stack() {
    let _turn = turn();
    set_threshold_ns(u64::MAX);
    assert!(begin_recording() && !begin_recording());
    std::thread::scope(|scope| {
        let (go_on, wait) = mpsc::channel::<()>();
        let (reached, at) = mpsc::channel();
        scope.spawn(move || {
            start(1, no_java);
            start(1, no_java);
            reached.send(()).expect("a receiver");
            wait.recv().expect("a sender");
            // Off: no probe sees anything.
            end(1);
            start(2, no_java);
            reached.send(()).expect("a receiver");
            wait.recv().expect("a sender");
            // On again: the calls in progress are forgotten.
            end(2);
            end(1);
            start(1, no_java);
            end(1);
            assert_eq!((counts(1), counts(2)), ((1, 0), (0, 0)));
            let total = totals(1);
            assert_eq!(total.total_ticks, total.self_ticks, "no activation of before is left");
        });
        at.recv().expect("a sender");
        assert!(end_recording() && !end_recording());
        go_on.send(()).expect("a receiver");
        at.recv().expect("a sender");
        assert!(begin_recording());
        go_on.send(()).expect("a receiver");
    });
    assert!(end_recording());
}

/// The agent may be detached while a thread is in a probe. The probe then finds zeros, and nobody reads what it writes.
/// After the next attach the thread begins with new data.
#[test]
fn a_thread_outlives_the_detach_and_starts_over() {
    let _turn = turn();
    record_on_thread(0, || {
        for method in 1..1_000 {
            start(method, no_java);
            end(method);
        }
        start(1, no_java);
        start(2, no_java);
        assert!(end_recording());
        for thread in thread::retire_all() {
            ThreadReader::of(thread).expect("no other reader").give_back();
        }
        assert!(!thread::is_known());
        assert!(thread::all().is_empty());

        // Like a probe that began before the end of the recording.
        with_own(|own| {
            finish(own, 1, Exit::Return, clock::ticks());
            for method in 900..1_100 {
                let totals = own.totals().of(method, &own.account).expect("there is memory");
                own.stack().push(ProbeId::new(method), 0, totals, clock::ticks);
                finish(own, own.stack().depth() - 1, Exit::Throw, clock::ticks());
            }
        });
        // Like later probes.
        end(1);
        threw(1);
        caught(1);
        initialized(1);
        start(1, no_java);

        assert!(begin_recording());
        end(1);
        let mut is_first = false;
        start(7, |_| is_first = true);
        end(7);
        assert!(is_first);
        assert_eq!((counts(7), counts(1)), ((1, 0), (0, 0)));
        assert_eq!(thread::all().len(), 1);
    });
}
