//! Whether the JVM reports mounts of virtual threads, and what happens to calls if it does not.
//!
//! Without these events, calls of one virtual thread on a carrier cannot be told from those of the next. So they are
//! not timed, and each is counted as lost. The rest of the process is profiled as usual.
//!
//! ```text
//! a mount or unmount event                              they arrive
//! first instrumented call in a virtual thread,
//!   and the agent has listened since the JVM's start    there would have been an event: they are missing
//! a virtual thread ends                                 its unmount event would have come before: they are missing
//! ```
//! This costs nothing in threads without virtual threads, and starts no virtual thread.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::mute;
use super::thread::{self, OwnThread};

/// What is known about the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Events {
    /// The JVM has no virtual threads, or each is a thread of its own.
    #[default]
    NotNeeded,
    /// No virtual thread has been seen so far.
    Unknown,
    Arrive,
    Missing,
}

impl Events {
    const ALL: [Self; 4] = [Self::NotNeeded, Self::Unknown, Self::Arrive, Self::Missing];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::NotNeeded => "not needed",
            Self::Unknown => "unknown",
            Self::Arrive => "yes",
            Self::Missing => "no",
        }
    }
}

static EVENTS: AtomicU8 = AtomicU8::new(Events::NotNeeded as u8);
/// Whether a virtual thread may have been mounted before the agent listened.
static CAME_LATE: AtomicBool = AtomicBool::new(false);

pub(crate) fn events() -> Events {
    let number = EVENTS.load(Ordering::Relaxed);
    Events::ALL.into_iter().find(|events| *events as u8 == number).unwrap_or_default()
}

/// Begins an attachment. `came_late` if the JVM was already running.
pub(crate) fn begin(events: Events, came_late: bool) {
    CAME_LATE.store(came_late, Ordering::Relaxed);
    EVENTS.store(events as u8, Ordering::Relaxed);
}

/// Whether each mount so far has had its event.
pub(super) fn are_complete() -> bool {
    !CAME_LATE.load(Ordering::Relaxed) && events() != Events::Missing
}

/// Notes that a mount or unmount event arrived.
pub(super) fn arrived() {
    if events() != Events::Arrive {
        EVENTS.store(Events::Arrive as u8, Ordering::Relaxed);
    }
}

/// Whether the events are missing. To be called at the calling thread's first instrumented call in a virtual thread
/// whose mount event it has not seen.
pub(super) fn are_missing_at_first_call() -> bool {
    match events() {
        Events::Missing => true,
        Events::Arrive => false,
        Events::Unknown if CAME_LATE.load(Ordering::Relaxed) => false,
        Events::Unknown | Events::NotNeeded => {
            EVENTS.store(Events::Missing as u8, Ordering::Relaxed);
            true
        }
    }
}

/// Notes that a virtual thread ended on the calling thread. On a carrier, its unmount event comes first.
pub(super) fn thread_ended() {
    if thread::with_current(|own| own.is_carrier()) != Some(true) {
        return;
    }
    let (unknown, missing) = (Events::Unknown as u8, Events::Missing as u8);
    let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
    if EVENTS.compare_exchange(unknown, missing, set, read).is_ok() {
        // Every thread checks whether it runs virtual threads.
        mute::tell();
    }
}

/// Whether calls of the thread cannot be timed. If so, drops its frames and counts their calls as lost.
#[cold]
pub(super) fn cannot_measure(own: OwnThread<'_>) -> bool {
    if !own.is_carrier() || events() != Events::Missing {
        return false;
    }
    if own.stack().depth() > 0 {
        for _ in 0..own.stack().depth() {
            own.lost().count_without_times(false);
        }
        // No recording has this number, so each probe of the thread comes here.
        own.stack().restart(0);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::method_totals::Reading;
    use super::super::tests::{counts, end, no_java, record_on_thread, start, turn, with_reader};
    use super::super::{STATE, mounts};
    use log_format::ids::JavaThreadId;

    use super::*;

    #[test]
    fn what_a_first_call_and_an_end_say() {
        let _turn = turn();
        for (known, came_late, is_missing, then) in [
            (Events::Unknown, false, true, Events::Missing),
            // It may have been mounted before.
            (Events::Unknown, true, false, Events::Unknown),
            (Events::Arrive, false, false, Events::Arrive),
            (Events::Missing, true, true, Events::Missing),
            // A virtual thread with a carrier, in a JVM without events.
            (Events::NotNeeded, true, true, Events::Missing),
        ] {
            begin(known, came_late);
            assert_eq!((are_missing_at_first_call(), events()), (is_missing, then), "{known:?}");
        }
        // A late event still counts.
        mounts::unmount(JavaThreadId::new(7));
        assert_eq!(events(), Events::Arrive);
        begin(Events::NotNeeded, false);
    }

    /// The agent came late: calls of a virtual thread are counted until it ends without an event. From then on all are
    /// lost, including the one in progress, until an event does arrive.
    #[test]
    fn calls_of_a_carrier_are_lost_once_events_are_known_to_be_missing() {
        let _turn = turn();
        let (lost, counted) = record_on_thread(u64::MAX, || {
            begin(Events::Unknown, true);
            let virtual_thread = |own: OwnThread<'_>| mounts::is_mounted(own, JavaThreadId::new(9));
            let call = || {
                start(21, virtual_thread);
                end(21);
            };
            call();
            start(22, virtual_thread);
            let before = STATE.load(Ordering::Relaxed);
            mounts::end(JavaThreadId::new(9));
            assert_eq!(events(), Events::Missing);
            assert!(STATE.load(Ordering::Relaxed) > before, "threads have a look");
            end(22);
            call();
            call();
            let lost = with_reader(|reader| reader.lost().take_since(&mut Reading::default()));
            mounts::mount(JavaThreadId::new(10));
            call();
            (lost.map(|lost| lost.calls), (counts(21), counts(22)))
        });
        assert_eq!(lost, Some(3));
        assert_eq!(counted, ((2, 0), (0, 0)));
        // A thread without virtual threads is profiled whatever the events are.
        begin(Events::Missing, false);
        let counted = record_on_thread(u64::MAX, || {
            start(23, no_java);
            end(23);
            counts(23)
        });
        assert_eq!(counted, (1, 0));
        begin(Events::NotNeeded, false);
    }
}
