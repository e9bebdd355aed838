//! CPU time of methods and the waiting of threads, by samples, since the run began and of the last minute, for `top`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use log_format::rows::FrameRow;

use crate::drain::time_slices::{Period, TimeSlices};
use crate::log::run_log::Now;

/// Most methods that are kept of a run.
const MOST_METHODS: usize = 100_000;

/// A method, or what else used CPU time: that has no class, and its name in brackets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SampledName {
    pub class: String,
    pub method: String,
    pub descriptor: String,
}

impl SampledName {
    pub(crate) fn of(frame: FrameRow) -> Self {
        let FrameRow { class, method, descriptor, .. } = frame;
        Self { class, method, descriptor }
    }
}

/// Sums by method and by what waiting threads did, in nanoseconds.
#[derive(Debug, Default)]
struct Sums {
    cpu: HashMap<Arc<SampledName>, u64>,
    waiting: BTreeMap<&'static str, u64>,
}

/// What samples say of a period, most first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HotSampled {
    pub cpu_ns: u64,
    pub methods: Vec<(Arc<SampledName>, u64)>,
    pub waiting: Vec<(&'static str, u64)>,
}

#[derive(Debug)]
pub(crate) struct HotSamples {
    run: Sums,
    slices: TimeSlices<Sums>,
}

impl HotSamples {
    pub(crate) fn new(now: Now) -> Self {
        Self { run: Sums::default(), slices: TimeSlices::new(now) }
    }

    /// Adds CPU time of a method's own.
    pub(crate) fn add_cpu(&mut self, method: &Arc<SampledName>, ns: u64) {
        for sums in [Some(&mut self.run), self.slices.current()].into_iter().flatten() {
            if sums.cpu.len() < MOST_METHODS || sums.cpu.contains_key(method) {
                *sums.cpu.entry(method.clone()).or_default() += ns;
            }
        }
    }

    /// Adds time in which a thread did not run.
    pub(crate) fn add_waiting(&mut self, state: &'static str, ns: u64) {
        for sums in [Some(&mut self.run), self.slices.current()].into_iter().flatten() {
            *sums.waiting.entry(state).or_default() += ns;
        }
    }

    /// Begins a slice, if the current one is over.
    pub(crate) fn go_on(&mut self, now: Now) {
        if self.slices.is_over(now) {
            self.slices.next(now);
        }
    }

    /// The methods with the most CPU time of their own, at most `count`.
    pub(crate) fn hottest(&mut self, period: Period, count: usize, now: Now) -> HotSampled {
        self.slices.forget_old(now);
        let (mut cpu, mut waiting): (HashMap<_, u64>, BTreeMap<_, u64>) = Default::default();
        let of_run = (period == Period::Run).then_some(&self.run);
        let of_minute = self.slices.iter().filter(|_| period == Period::Minute);
        for sums in of_run.into_iter().chain(of_minute) {
            for (method, ns) in &sums.cpu {
                *cpu.entry(method.clone()).or_default() += ns;
            }
            for (state, ns) in &sums.waiting {
                *waiting.entry(*state).or_default() += ns;
            }
        }
        let cpu_ns = cpu.values().sum();
        let mut methods: Vec<_> = cpu.into_iter().collect();
        methods.sort_unstable_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
        methods.truncate(count);
        let mut waiting: Vec<_> = waiting.into_iter().collect();
        waiting.sort_by_key(|(_, ns)| Reverse(*ns));
        HotSampled { cpu_ns, methods, waiting }
    }

    /// Approximate memory that it uses.
    pub(crate) fn bytes(&self) -> usize {
        const ENTRY: usize = size_of::<(Arc<SampledName>, u64)>() + 200;
        self.run.cpu.len() * ENTRY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_minute_is_distinguished_from_the_run() {
        let at = |second: u64| Now { unix_ns: second, monotonic_ns: second * 1_000_000_000 };
        let name = |method: &str| {
            Arc::new(SampledName {
                class: "C".into(),
                method: method.into(),
                descriptor: "()V".into(),
            })
        };
        let mut hot = HotSamples::new(at(0));
        for second in 0..200 {
            hot.go_on(at(second));
            hot.add_cpu(&name(if second < 100 { "early" } else { "late" }), 10);
            hot.add_waiting(if second < 100 { "parked" } else { "sleeping" }, 7);
        }
        let run = hot.hottest(Period::Run, 1, at(200));
        assert_eq!((run.cpu_ns, run.methods), (2_000, vec![(name("early"), 1_000)]));
        assert_eq!(run.waiting, [("parked", 700), ("sleeping", 700)]);
        let minute = hot.hottest(Period::Minute, 9, at(200));
        assert!((600..=750).contains(&minute.cpu_ns), "{minute:?}");
        assert_eq!(minute.methods, [(name("late"), minute.cpu_ns)]);
        assert_eq!(minute.waiting, [("sleeping", minute.cpu_ns / 10 * 7)]);
    }
}
