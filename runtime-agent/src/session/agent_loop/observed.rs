//! What commands see: the hottest methods, states of methods, what threads do, and what is throttled.

use std::time::Duration;

use log_format::ids::MethodId;
use log_format::pattern::Pattern;
use log_format::units;

use super::AgentLoop;
use crate::error::Error;
use crate::instrument::method_states::{MethodStates, Sources};
use crate::request::{Found, Top, TopMethod};
use crate::sampling::sampler::Sampler;

const NO_SQL: &str = "SQL statements are counted with the options cpu=10ms,sql=100ms";

impl AgentLoop<'_> {
    /// The hottest methods, or SQL statements.
    ///
    /// # Errors
    /// Statements are not counted.
    pub(super) fn top(&mut self, of: Top) -> Result<Found, Error> {
        let is_counted =
            self.sampler.as_ref().is_some_and(|sampler| sampler.events.sql().is_some());
        if of.only_sql && !is_counted {
            return Err(Error::State(NO_SQL));
        }
        let mut top = self.recorder.top(of.period, of.count);
        if of.only_sql {
            top = top.only_sql();
        }
        // Every method that was called has a name.
        top.methods.retain(|(id, _)| self.methods.get(*id).is_some());
        let named = |id: &MethodId| {
            Some(TopMethod {
                method: self.methods.get(*id)?,
                was_throttled: self.cost.overhead.has_throttled(*id),
                was_muted: self.guards.was_muted(*id),
            })
        };
        let names = top.methods.iter().filter_map(|(id, _)| named(id)).collect();
        Ok(Found::Top(top, names))
    }

    /// The methods that a pattern names. If there are none, also the reason.
    pub(super) fn method_states(&mut self, pattern: &Pattern) -> (MethodStates, Option<String>) {
        let Self { methods, guards, classes, cost, recorder, .. } = self;
        let of = Sources {
            methods,
            guards,
            postponed: classes.postponed(),
            is_compiled_out: &|id| cost.overhead.is_compiled_out(id),
        };
        let states = MethodStates::find(pattern, &of, || recorder.round());
        let excluded = || self.active.load_hook.classes.why_excluded(pattern);
        let hint = states.is_empty().then(|| states.hint(pattern, excluded));
        (states, hint)
    }

    /// Calls that have been in progress for so long, and what their threads wait for.
    pub(super) fn in_flight(&mut self, least: Duration) -> Found {
        let sampler = self.sampler.as_ref();
        let mut threads = sampler.and_then(Sampler::threads_now).unwrap_or_default();
        let calls = self.recorder.in_flight(units::as_ns(least));
        let is_virtual = calls.threads.iter().filter(|busy| busy.is_virtual);
        let numbers = is_virtual.map(|busy| busy.java_id);
        threads.extend(
            sampler.iter().flat_map(|sampler| sampler.virtual_threads_now(numbers.clone())),
        );
        Found::InFlight(calls, threads)
    }

    /// What threads do now; `None` if they are not looked at.
    pub(super) fn threads_now(&mut self) -> Option<Found> {
        let sampler = self.sampler.as_ref().filter(|_| self.recording.is_on());
        let threads = sampler?.threads_now()?;
        Some(Found::Threads(threads, self.recorder.in_flight(0)))
    }

    pub(super) fn throttled(&self) -> Found {
        Found::Throttled(self.cost.throttled_methods(&self.methods))
    }
}
