//! What commands see: the hottest methods, states of methods, what threads do, and what is throttled.

use log_format::ids::MethodId;
use log_format::pattern::Pattern;

use super::AgentLoop;
use crate::error::Error;
use crate::instrument::method_states::{MethodStates, Sources};
use crate::request::{Found, Top, TopMethod};

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
