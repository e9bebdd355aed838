//! Turns recording on and off: the guard in front of the probes is open, closed, or removed.
//!
//! ```text
//! on                guard open
//! off               guard closed: a start opens it at once
//! off for long      guard removed, which discards compiled code: probes cost nothing; a start puts it back
//! ```

use std::time::{Duration, Instant};

use jvmti_bindings::env::JniEnv;

use crate::error::JvmError;
use crate::instrument::virtual_loops;
use crate::jvm::probe_class::ProbeClass;
use crate::options::Pretend;
use crate::probe;
use crate::self_test::compiled_out::{self, Attempts};
use crate::stderr::message;
use crate::sys::clock;

/// How long recording stays off before the guard is removed, which discards compiled code: after a command, and in
/// a pause of the schedule.
const AFTER_STOP: Duration = Duration::from_secs(10);
const LONG_PAUSE: Duration = Duration::from_secs(600);

/// Whether recording is on, and what becomes of the guard while it is off.
pub(crate) struct RecordingSwitch<'j> {
    jni: &'j JniEnv,
    probe_class: ProbeClass,
    pretend: Pretend,
    /// When the self-test of compiled-out probes goes on.
    attempts: Attempts,
    /// The guard in front of the probes is open.
    is_on: bool,
    /// When it was last turned on or off, in unix nanoseconds.
    since_ns: u64,
    /// When to remove the guard, if it stays closed.
    guard_out: Option<Instant>,
}

impl<'j> RecordingSwitch<'j> {
    /// Recording is off, and the guard stays as it is.
    pub(crate) fn new(jni: &'j JniEnv, probe_class: ProbeClass, pretend: Pretend) -> Self {
        Self {
            jni,
            probe_class,
            pretend,
            attempts: Attempts::new(),
            is_on: false,
            since_ns: clock::unix_ns(),
            guard_out: None,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether recording is off, and nothing more is to be done for that.
    pub(crate) fn is_off_for_long(&self) -> bool {
        !self.is_on && self.guard_out.is_none() && !Attempts::are_left()
    }

    /// When recording was last turned on or off, in unix nanoseconds.
    pub(crate) fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// Puts the guard back if it was removed. `true` if all code with probes was discarded for that.
    ///
    /// # Errors
    /// The JVM refuses it.
    pub(crate) fn put_guard_back(&mut self) -> Result<bool, JvmError> {
        self.guard_out = None;
        self.probe_class.set_off(self.jni, false)
    }

    /// Begins recording, if it is off; returns whether it was. Calls `first` before the guard opens.
    pub(crate) fn turn_on(&mut self, first: impl FnOnce()) -> bool {
        let begins = probe::begin_recording();
        if begins {
            first();
            self.probe_class.set_on(self.jni, true);
            self.is_on = true;
            self.since_ns = clock::unix_ns();
        }
        begins
    }

    /// Ends recording, and returns its number; `None` if it was off.
    pub(crate) fn turn_off(&mut self) -> Option<u32> {
        if !self.is_on {
            return None;
        }
        self.is_on = false;
        self.guard_out = Some(Instant::now() + LONG_PAUSE);
        virtual_loops::remember(|_| true);
        // Close the guard first, so that no thread goes on calling probes for nothing.
        self.probe_class.set_on(self.jni, false);
        probe::end_recording();
        self.since_ns = clock::unix_ns();
        // Each start and each stop adds one to the number; the frames have the odd one before.
        Some(probe::recording().wrapping_sub(1))
    }

    /// Has the guard removed soon, because recording was turned off by a command.
    pub(crate) fn stays_off(&mut self) {
        // A repeated stop does not postpone it.
        let at = Instant::now() + AFTER_STOP;
        self.guard_out = Some(self.guard_out.map_or(at, |before| before.min(at)));
    }

    /// Repeats the self-test of compiled-out probes while its result is not known.
    pub(crate) fn go_on_with_self_test(&mut self) {
        if !self.attempts.is_due() {
            return;
        }
        if let Err(error) = self.probe_class.test_compiled_out(self.jni, &self.pretend, true) {
            message!("self-test: {error}");
        }
        // The guard could not be removed before.
        if compiled_out::can_renew() && !self.is_on {
            self.guard_out.get_or_insert_with(|| Instant::now() + AFTER_STOP);
        }
    }

    /// Removes the guard if recording has been off for long enough: in a program whose methods are tiny, a closed guard
    /// costs as much as the program itself.
    pub(crate) fn remove_guard_if_due(&mut self) {
        if self.guard_out.is_some_and(|at| Instant::now() >= at) {
            self.remove_guard();
        }
    }

    /// Removes the guard from the probe class.
    pub(crate) fn remove_guard(&mut self) {
        self.guard_out = None;
        if let Err(error) = self.probe_class.set_off(self.jni, true) {
            message!("{error}; probes that are off keep their guard, which costs time");
        }
    }

    /// Stops probes after an internal error, without touching the data.
    pub(crate) fn give_up(&self) {
        // The JVM takes no calls while an exception of any kind is pending.
        self.jni.exception_clear();
        self.probe_class.set_on(self.jni, false);
        probe::give_up();
        let _ = self.probe_class.set_off(self.jni, true);
        message!("internal error; profiling is off, the service goes on");
    }
}
