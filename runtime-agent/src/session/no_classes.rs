//! Why no class is instrumented, if none is: for `status`, and once on stderr.

use std::sync::Arc;
use std::time::Duration;

use crate::instrument::class_hook::ClassCounts;
use crate::instrument::include_hints::WhyEmpty;
use crate::options::retransform::Retransform;
use crate::stderr::message;

/// When to report it.
const UNTIL_REPORTED: Duration = Duration::from_secs(30);

/// With `retransform=off`.
const LEFT_ALONE: &str =
    "classes that were loaded before the agent came are not instrumented (retransform=off)";

/// The reasons, as far as they are known.
pub(super) struct NoClasses {
    counts: Arc<ClassCounts>,
    reasons: Arc<WhyEmpty>,
    retransform: Retransform,
    is_reported: bool,
}

impl NoClasses {
    pub(super) fn new(
        counts: Arc<ClassCounts>,
        reasons: Arc<WhyEmpty>,
        retransform: Retransform,
    ) -> Self {
        Self { counts, reasons, retransform, is_reported: false }
    }

    /// The reasons, a line each; none if a class is instrumented. `postponed` is how many classes are.
    pub(super) fn reasons(&self, postponed: usize) -> Vec<String> {
        if self.counts.classes() > 0 {
            return Vec::new();
        }
        if postponed > 0 {
            return vec![format!("classes that an include matches are postponed: {postponed}")];
        }
        let left_alone = (self.retransform == Retransform::Off).then(|| LEFT_ALONE.to_owned());
        left_alone.into_iter().chain(self.reasons.messages()).collect()
    }

    /// Whether it is time to say which patterns match nothing: once, when the agent thread has been running for long
    /// enough.
    pub(super) fn is_due(&mut self, running: Duration) -> bool {
        !self.is_reported && {
            self.is_reported = running >= UNTIL_REPORTED;
            self.is_reported
        }
    }

    /// Prints the reasons.
    pub(super) fn tell(&self, postponed: usize) {
        for reason in self.reasons(postponed) {
            message!("{reason}");
        }
    }
}
