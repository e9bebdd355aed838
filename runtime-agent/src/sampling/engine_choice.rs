//! What interrupts threads after so much CPU time: chosen once for a run.

use std::fmt;

use super::{native, perf_events, timers};
use crate::options::engine::Engine;
use crate::sys::thread_timer;

/// The engine of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub engine: Engine,
    /// Why it is not the one that was asked for, or that would be better.
    pub reason: Option<String>,
    pub kernel: KernelFrames,
}

/// Whether samples have frames of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelFrames {
    pub are_there: bool,
    /// Why there are none, or why they have no names.
    pub reason: Option<String>,
}

impl KernelFrames {
    fn of(engine: Engine) -> Self {
        let refusal = match engine {
            Engine::Perf => perf_events::kernel_refusal(),
            Engine::Ctimer | Engine::Itimer => {
                Some(format!("engine={} has none, engine=perf has", engine.name()))
            }
        };
        let are_there = refusal.is_none();
        Self { are_there, reason: refusal.or_else(native::kernel::refusal) }
    }
}

impl fmt::Display for KernelFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.are_there, &self.reason) {
            (true, None) => f.write_str("yes"),
            (true, Some(reason)) => write!(f, "yes, without names: {reason}"),
            (false, reason) => write!(f, "no: {}", reason.as_deref().unwrap_or_default()),
        }
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.engine.name())?;
        self.reason.iter().try_for_each(|reason| write!(f, ", because {reason}"))
    }
}

impl Chosen {
    /// Chooses the engine for an interval: the one asked for, if the kernel allows it. Without a wish, perf only for
    /// intervals below a tick: for longer ones a timer is as exact, and takes no file descriptor.
    pub(crate) fn of(asked: Option<Engine>, interval_ns: u64) -> Self {
        let (engine, reason) = Self::engine_of(asked, interval_ns);
        Self { engine, reason, kernel: KernelFrames::of(engine) }
    }

    fn engine_of(asked: Option<Engine>, interval_ns: u64) -> (Engine, Option<String>) {
        let wants_perf = match asked {
            Some(asked) => asked == Engine::Perf,
            None => interval_ns < thread_timer::tick_ns(),
        };
        let no_perf = wants_perf.then(perf_events::refusal);
        if let Some(None) = no_perf {
            return (Engine::Perf, None);
        }
        let no_perf = no_perf.flatten();
        if let Some(asked @ (Engine::Itimer | Engine::Ctimer)) = asked {
            return (asked, None);
        }
        match timers::refusal() {
            None => (Engine::Ctimer, no_perf),
            Some(no_timer) => {
                let reason =
                    no_perf.map_or_else(String::new, |no_perf| no_perf + ", and ") + &no_timer;
                (Engine::Itimer, Some(reason))
            }
        }
    }
}
