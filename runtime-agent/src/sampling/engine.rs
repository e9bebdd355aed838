//! What interrupts threads after so much CPU time: chosen once for a run.

use std::fmt;

use super::{perf_events, timers};
use crate::options::engine::Engine;

/// The engine of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub engine: Engine,
    /// Why it is not the one that was asked for, or that would be better.
    pub reason: Option<String>,
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
        let wants_perf = match asked {
            Some(asked) => asked == Engine::Perf,
            None => interval_ns < timers::tick_ns(),
        };
        let no_perf = wants_perf.then(perf_events::refusal);
        if let Some(None) = no_perf {
            return Self { engine: Engine::Perf, reason: None };
        }
        let no_perf = no_perf.flatten();
        if let Some(asked @ (Engine::Itimer | Engine::Ctimer)) = asked {
            return Self { engine: asked, reason: None };
        }
        match timers::refusal() {
            None => Self { engine: Engine::Ctimer, reason: no_perf },
            Some(no_timer) => {
                let reason =
                    no_perf.map_or_else(String::new, |no_perf| no_perf + ", and ") + &no_timer;
                Self { engine: Engine::Itimer, reason: Some(reason) }
            }
        }
    }
}
