//! What sampling costs, and the cap on it.
//!
//! Handlers measure how long they work. The kernel's part, to interrupt the thread and to let it go on, is calibrated
//! once, while sampling is off: the agent thread sends itself signals, or has a perf event interrupt it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use sampling_handler::signal::{self as handler, Counts, timer_value};

use super::{perf_events, rings};
use crate::options::CpuShare;
use crate::options::engine::Engine;
use crate::probe::thread::os_id;
use crate::sys::clock::{self, as_f64, as_u64};
use crate::sys::thread_timer;

/// The kernel's part of a sample, in nanoseconds; 0 before it is known.
static SIGNAL_NS: AtomicU64 = AtomicU64::new(0);
/// The calibration with signals: how many, and how often it is repeated.
const SIGNALS: u32 = 40;
const SIGNALS_ROUNDS: u32 = 5;
/// The calibration with perf events: interval, how many there are at most, how often it is repeated, and steps of work
/// between looks at the clock. Where an interruption takes longer than the interval, as under a busy hypervisor, the
/// work waits until there are no more events.
const EVENTS_NS: u64 = 50_000;
const EVENTS: u32 = 50;
const EVENTS_ROUNDS: usize = 5;
const STEPS: u64 = 1_000_000;

/// The CPU time that sampling has taken of the service's threads so far, in nanoseconds.
pub(crate) fn total_ns() -> u64 {
    let Counts { signals, worked, .. } = Counts::now();
    clock::ticks_to_ns(worked) + signals * SIGNAL_NS.load(Ordering::Relaxed)
}

/// The least interval of CPU time with which a thread gets on between two samples, whatever the options say.
pub(super) fn least_interval_ns() -> u64 {
    2 * SIGNAL_NS.load(Ordering::Relaxed)
}

/// The CPU time that sampling has taken, and that of the process, in nanoseconds.
pub(super) fn own_and_process_ns() -> (u64, u64) {
    (total_ns(), clock::process_cpu_ns())
}

/// Measures the kernel's part, once. Sampling is off, and the handler installed.
pub(super) fn calibrate(engine: Engine, signal: libc::c_int) {
    // An attachment may have another engine than the one before.
    static OF_ENGINE: AtomicU8 = AtomicU8::new(u8::MAX);
    if OF_ENGINE.swap(engine as u8, Ordering::Relaxed) == engine as u8 {
        return;
    }
    let sent = (0..SIGNALS_ROUNDS).map(|_| {
        let began = cpu_ns();
        (0..SIGNALS).for_each(|_| thread_timer::send(os_id(), signal, timer_value(0, 0)));
        cpu_ns().saturating_sub(began) / u64::from(SIGNALS)
    });
    let sent = sent.min().unwrap_or(0);
    // A processor's timer that is set again each time costs more than the signal.
    let each = if engine == Engine::Perf {
        perf_events::read_limit();
        rings::read_limit();
        handler::expect_events();
        sent.max(event_ns(signal))
    } else {
        sent
    };
    SIGNAL_NS.store(each.max(1), Ordering::Relaxed);
}

fn cpu_ns() -> u64 {
    clock::thread_cpu_ns()
}

/// What an interruption by a perf event takes: the same work is done with and without one.
fn event_ns(signal: libc::c_int) -> u64 {
    let work = || {
        let began = cpu_ns();
        let sum = (0..STEPS).fold(0_u64, |sum, step| std::hint::black_box(sum ^ step));
        std::hint::black_box(sum);
        cpu_ns().saturating_sub(began)
    };
    let mut rounds = [Round::default(); EVENTS_ROUNDS];
    for round in &mut rounds {
        round.without_ns = work();
        let event = perf_events::create_counted(signal, EVENTS_NS, EVENTS);
        let Ok(event) = event else { return 0 };
        round.with_ns = work();
        perf_events::delete(event);
        round.events = u64::from(handler::counted_events());
    }
    of_rounds(&rounds)
}

/// CPU time of the same work without and with perf events.
#[derive(Clone, Copy, Default)]
struct Round {
    without_ns: u64,
    with_ns: u64,
    events: u64,
}

/// What an event took at least, in nanoseconds. Each round is compared with the fastest work of all: that of the first
/// one may take longer than it does later with events.
fn of_rounds(rounds: &[Round]) -> u64 {
    let without_ns = rounds.iter().map(|round| round.without_ns).min().unwrap_or(0);
    let interrupted = rounds.iter().filter(|round| round.events > 0);
    let each = interrupted.map(|round| round.with_ns.saturating_sub(without_ns) / round.events);
    each.min().unwrap_or(0)
}

/// The most of the process's CPU time that samples may take.
#[derive(Debug)]
pub(super) struct Cap {
    most: Option<CpuShare>,
    /// When the window began.
    began: Option<Spent>,
}

/// What was taken until a moment.
#[derive(Clone, Copy, Debug)]
struct Spent {
    /// By samples and by the process, in nanoseconds of CPU time.
    own_ns: u64,
    process_ns: u64,
    samples: u64,
}

impl Spent {
    fn now() -> Self {
        let (own_ns, process_ns) = own_and_process_ns();
        Self { own_ns, process_ns, samples: Counts::now().signals }
    }
}

/// CPU time, and samples, after which the cost is judged: less says little.
const WINDOW_NS: u64 = 1_000_000_000;
const WINDOW_SAMPLES: u64 = 50;
/// Without a cap, samples may take half of the CPU time: the program must get on.
const MOST: f64 = 0.5;

impl Cap {
    pub(super) fn new(most: Option<CpuShare>) -> Self {
        Self { most, began: None }
    }

    /// Begins again, as after a stop.
    pub(super) fn begin(&mut self) {
        self.began = None;
    }

    /// The least interval of CPU time with which samples stay below the cap, if they do not. Call it each second.
    pub(super) fn needed_interval_ns(&mut self) -> Option<u64> {
        self.judge(Spent::now())
    }

    fn judge(&mut self, now: Spent) -> Option<u64> {
        let began = *self.began.get_or_insert(now);
        let own_ns = now.own_ns.saturating_sub(began.own_ns);
        let process_ns = now.process_ns.saturating_sub(began.process_ns);
        let samples = now.samples.saturating_sub(began.samples);
        if process_ns < WINDOW_NS || samples < WINDOW_SAMPLES {
            return None;
        }
        self.began = Some(now);
        // The interval with which all CPU time has as many samples as the cap pays for.
        let each_ns = own_ns / samples;
        let most = self.most.map_or(MOST, CpuShare::of_one);
        let needed_ns = as_u64(as_f64(each_ns) / most);
        (process_ns / samples < needed_ns).then_some(needed_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// What a process with these samples of 10 us takes in a second of CPU time needs this interval.
    fn needed(most: Option<CpuShare>, samples: u64) -> Option<u64> {
        let mut cap = Cap::new(most);
        let begun = Spent { own_ns: 7, process_ns: SECOND, samples: 3 };
        assert_eq!(cap.judge(begun), None);
        let own_ns = 7 + samples * 10_000;
        cap.judge(Spent { own_ns, process_ns: 2 * SECOND, samples: 3 + samples })
    }

    #[test]
    fn slow_work_without_events_does_not_make_events_cheap() {
        let round = |(without_ns, with_ns, events)| Round { without_ns, with_ns, events };
        let rounds = [(900, 700, 10), (310, 550, 10), (300, 800, 10), (300, 300, 0)].map(round);
        assert_eq!(of_rounds(&rounds), 25);
        assert_eq!(of_rounds(&rounds[3..]), 0);
    }

    #[test]
    fn over_the_cap_the_needed_interval_is_reported() {
        // 10 us each millisecond are 1%.
        assert_eq!(needed(Some(CpuShare::from_millionths(10_000)), 999), None);
        assert_eq!(needed(Some(CpuShare::from_millionths(10_000)), 1_001), Some(1_000_000));
        // 1% of a tenth of the samples needs no more than before.
        assert_eq!(needed(Some(CpuShare::from_millionths(1_000)), 1_000), Some(10_000_000));
        // Without a cap, half of the time.
        assert_eq!(needed(None, 40_000), None);
        assert_eq!(needed(None, 60_000), Some(20_000));
        // Few samples say little.
        assert_eq!(needed(Some(CpuShare::from_millionths(1_000)), 49), None);
    }
}
