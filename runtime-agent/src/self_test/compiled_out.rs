//! Tests whether the JIT treats a compiled-out probe as a constant, and whether a call site discards that code again.
//!
//! ```text
//! element 0 of `compiledOut` is not 0   a method that reads it is called until the JIT has compiled it
//! element 0 is 0 for a moment           the method still treats it as compiled out: it was folded
//! the call site gets a target           the method reads the element again: compiled code was discarded
//! ```
//! Nothing is timed. No method has the id 0, and no other code has this call site, so the service notices nothing. Code
//! that is not compiled yet reads the element, just like code that never folds it. So the test continues in the agent
//! thread for half a minute; until it is decided, probes are plain.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use super::verdict::Verdict;
use crate::options::{Pretend, Trick};

/// How often the method is called to get it compiled, and how often to see what it does.
pub(crate) const WARM_CALLS: i32 = 2_000;
pub(crate) const CALLS: i32 = 100;
/// How long the test continues.
const LONGEST: Duration = Duration::from_secs(30);
/// The pause after an attempt; added to it is a tenth of the time since the beginning.
const PAUSE: Duration = Duration::from_millis(50);

static FOLDED: AtomicU8 = AtomicU8::new(Verdict::Plain as u8);
static RENEWED: AtomicU8 = AtomicU8::new(Verdict::Plain as u8);

/// Whether compiled-out probes are folded.
pub(crate) fn folded() -> Verdict {
    Verdict::of(FOLDED.load(Ordering::Relaxed))
}

/// Whether a call site discards compiled code.
pub(crate) fn renewed() -> Verdict {
    Verdict::of(RENEWED.load(Ordering::Relaxed))
}

/// Whether the guard can be removed from compiled code, and be put back.
pub(crate) fn can_renew() -> bool {
    renewed() == Verdict::Works
}

/// Whether methods can be compiled out.
pub(crate) fn can_compile_out() -> bool {
    folded() == Verdict::Works && can_renew()
}

/// Begins an attachment. Nothing is known yet; with plain probes, nothing is tested.
pub(crate) fn begin(is_fast: bool) {
    let verdict = if is_fast { Verdict::Unknown } else { Verdict::Plain };
    FOLDED.store(verdict as u8, Ordering::Relaxed);
    RENEWED.store(verdict as u8, Ordering::Relaxed);
}

/// Judges one attempt: how many of [`CALLS`] found the element to be 0, and how many after the call site got a target,
/// which is tested only if all calls were folded.
pub(crate) fn judge<E>(
    open: i32,
    after_renewal: impl FnOnce() -> Result<i32, E>,
    pretend: &Pretend,
) -> Result<(), E> {
    let open = if pretend.fails(Trick::CompiledOut) { CALLS } else { open };
    if open != 0 {
        return Ok(());
    }
    let after = after_renewal()?;
    let is_renewed = after == CALLS && !pretend.fails(Trick::CallSite);
    FOLDED.store(Verdict::Works as u8, Ordering::Relaxed);
    let renewed = if is_renewed { Verdict::Works } else { Verdict::Fails };
    RENEWED.store(renewed as u8, Ordering::Relaxed);
    Ok(())
}

/// When the agent thread tries again.
#[derive(Debug)]
pub(crate) struct Attempts {
    began: Instant,
    next: Duration,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), next: PAUSE }
    }

    /// Whether there will be another one.
    pub(crate) fn are_left() -> bool {
        folded() == Verdict::Unknown
    }

    /// Whether another attempt is due. After the last one, the verdict is `Fails`.
    pub(crate) fn is_due(&mut self) -> bool {
        Self::are_left() && self.is_due_after(self.began.elapsed())
    }

    fn is_due_after(&mut self, elapsed: Duration) -> bool {
        if elapsed > LONGEST {
            FOLDED.store(Verdict::Fails as u8, Ordering::Relaxed);
            return false;
        }
        let is_due = elapsed >= self.next;
        if is_due {
            self.next = elapsed + PAUSE + elapsed / 10;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(open: i32, after: i32, debug: &[Trick]) -> (Verdict, Verdict, bool) {
        let pretend = Pretend::failing(debug);
        begin(true);
        let result: Result<(), ()> = judge(open, || Ok(after), &pretend);
        assert_eq!(result, Ok(()));
        (folded(), renewed(), can_compile_out())
    }

    /// One test only, because the verdicts belong to the process.
    #[test]
    fn verdicts_and_attempts() {
        use Verdict::{Fails, Plain, Unknown, Works};
        assert_eq!(judged(0, CALLS, &[]), (Works, Works, true));
        // If a new target does not discard compiled code, that code could never count again.
        assert_eq!(judged(0, 0, &[]), (Works, Fails, false));
        assert_eq!(judged(CALLS, CALLS, &[]), (Unknown, Unknown, false));
        // The JIT finished in the middle.
        assert_eq!(judged(CALLS / 2, CALLS, &[]), (Unknown, Unknown, false));
        assert_eq!(judged(0, CALLS, &[Trick::CompiledOut]), (Unknown, Unknown, false));
        assert_eq!(judged(0, CALLS, &[Trick::CallSite]), (Works, Fails, false));
        begin(true);
        assert_eq!(judge(0, || Err("refused"), &Pretend::default()), Err("refused"));
        assert_eq!((folded(), renewed()), (Unknown, Unknown));
        begin(false);
        assert_eq!((folded(), renewed(), can_renew()), (Plain, Plain, false));

        begin(true);
        let mut attempts = Attempts::new();
        let ms = (0..40_000).filter(|ms| attempts.is_due_after(Duration::from_millis(*ms)));
        let due: Vec<u64> = ms.collect();
        assert!(due.starts_with(&[50, 105]), "{due:?}");
        assert!((40..70).contains(&due.len()), "{due:?}");
        assert!(due.last().is_some_and(|last| (25_000..=30_000).contains(last)), "{due:?}");
        assert_eq!(folded(), Fails);
        assert!(!attempts.is_due());
        begin(false);
    }
}
