//! The status for clients without the token. The agent thread computes it at most once a second, because
//! that adds up the calls of all threads.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::request::{Answer, Reply};

/// How old the status may be.
const RECENT: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct RecentStatus {
    state: Mutex<State>,
    /// Held by the one client that asks the agent thread.
    asks: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<(Instant, Reply)>,
    /// Number of commands that may have changed the status.
    changes: u64,
}

impl RecentStatus {
    /// The last status if it is recent, or the answer of `ask`. While another client asks, an older one.
    pub(super) fn get(&self, ask: impl FnOnce() -> Answer) -> Answer {
        let last = |most: Duration| {
            let state = self.state();
            let (at, reply) = state.last.as_ref()?;
            (at.elapsed() < most).then(|| reply.clone())
        };
        if let Some(recent) = last(RECENT) {
            return Ok(recent);
        }
        let Ok(_asks) = self.asks.try_lock() else {
            return last(Duration::MAX).ok_or(Error::State("busy; try again"));
        };
        let (at, changes) = (Instant::now(), self.state().changes);
        let reply = ask()?;
        let mut state = self.state();
        if state.changes == changes {
            state.last = Some((at, reply.clone()));
        }
        Ok(reply)
    }

    /// Runs `change`, after which the last status no longer counts.
    pub(super) fn forget_after<R>(&self, change: impl FnOnce() -> R) -> R {
        let result = change();
        let mut state = self.state();
        state.last = None;
        state.changes += 1;
        result
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
