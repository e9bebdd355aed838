//! The process's timer interrupts threads that nobody has seen yet, with numbers of a page that is not there.
#![allow(unsafe_code, missing_docs)]
#![allow(clippy::expect_used)]

use std::ffi::c_int;
use std::hint::black_box;

use sampling_handler::queue::QUEUE;
use sampling_handler::signal::{self, Config, Counts, KernelAction};
use sampling_handler::threads;

const SIGPROF: c_int = libc::SIGPROF;
const SA_SIGINFO: usize = 4;
/// More than the samples of the test need.
const WORDS: usize = 1 << 16;

#[test]
fn threads_without_samples_so_far_are_sampled() {
    let memory: &'static mut [u64] = vec![0; WORDS].leak();
    // SAFETY: zeroed memory that stays, and that nobody else uses.
    unsafe { QUEUE.set_memory(memory.as_mut_ptr(), WORDS) };
    signal::configure(Box::leak(Box::new(Config { layout: None, shadow: None })));
    let own = KernelAction::new(signal::on_signal as *const () as usize, SA_SIGINFO, 0);
    assert!(signal::replace_action(SIGPROF, &own).is_some());
    signal::expect_process_timer();
    signal::begin(false);
    set_timer(1_000);
    let mut taken = 0;
    while taken < 50 {
        let thread = std::thread::spawn(|| (0..5_000_000_u64).fold(0, |sum, n| black_box(sum ^ n)));
        thread.join().expect("a thread");
        while QUEUE.take(|sample, shadow, frames| {
            assert!(shadow.is_empty() && frames.is_empty());
            assert!(threads::slot(sample.thread).is_none());
        }) {
            taken += 1;
        }
        assert_eq!(Counts::now().dropped, 0);
    }
    set_timer(0);
    signal::end();
}

fn set_timer(interval_us: libc::suseconds_t) {
    let interval = libc::timeval { tv_sec: 0, tv_usec: interval_us };
    let timer = libc::itimerval { it_interval: interval, it_value: interval };
    // SAFETY: a valid timer; the kernel writes nothing.
    let set = unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) };
    assert_eq!(set, 0);
}
