//! What threads did, from samples: the time of each state, and the methods in it. Running is CPU time, all else
//! waiting.

use std::collections::BTreeMap;

use crate::report::cpu::CpuReport;
use crate::report::off_cpu::OffCpuReport;
use crate::stats::method::Method;

/// The state of threads that use CPU time.
pub const RUNNING: &str = "running";

/// The time of all threads, by what they did.
#[derive(Debug, Default)]
pub struct StateReport {
    /// Of all states, in nanoseconds.
    pub total_ns: u64,
    /// The states, those with most time first.
    pub states: Vec<StateTime>,
}

/// The time in which threads did one thing.
#[derive(Debug)]
pub struct StateTime {
    /// What they did: `running`, `blocked`, `timed_waiting` and so on.
    pub state: String,
    /// The time of all threads and selected methods, in nanoseconds.
    pub ns: u64,
    /// The methods with their time, those with most first, as many as were asked for. The JDK's code counts for the
    /// method outside it that called it.
    pub methods: Vec<(Method, u64)>,
    /// The number of methods beyond those.
    pub not_shown: usize,
}

impl StateReport {
    /// The report of these samples, with at most `top` methods of each state.
    pub(crate) fn new(cpu: &CpuReport, off_cpu: &OffCpuReport, top: Option<usize>) -> Self {
        let mut states: BTreeMap<&str, Vec<(Method, u64)>> = BTreeMap::new();
        let running = cpu.methods.iter().filter(|sampled| sampled.cpu.with_jdk_ns > 0);
        let running = running.map(|of| (RUNNING, &of.method, of.cpu.with_jdk_ns));
        let waiting = off_cpu.waits.iter().map(|of| (&*of.state, &of.method, of.time.ns));
        for (state, method, ns) in running.chain(waiting) {
            states.entry(state).or_default().push((method.clone(), ns));
        }
        let mut states: Vec<StateTime> = states
            .into_iter()
            .map(|(state, methods)| StateTime::new(state, methods, top))
            .collect();
        states.sort_by(|a, b| (b.ns, &a.state).cmp(&(a.ns, &b.state)));
        let total_ns = states.iter().map(|state| state.ns).fold(0, u64::saturating_add);
        Self { total_ns, states }
    }
}

impl StateTime {
    fn new(state: &str, mut methods: Vec<(Method, u64)>, top: Option<usize>) -> Self {
        methods.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        let ns = methods.iter().map(|(_, ns)| *ns).fold(0, u64::saturating_add);
        let count = methods.len();
        methods.truncate(top.unwrap_or(usize::MAX));
        Self { state: state.to_owned(), ns, not_shown: count - methods.len(), methods }
    }
}
