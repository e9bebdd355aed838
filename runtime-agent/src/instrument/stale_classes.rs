//! Classes that still have the probes of an earlier attachment after an attach.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use log_format::ids::MethodId;

use super::methods::ClassKey;

/// How often to look for classes that an earlier attachment instrumented and that were not loaded yet: every second,
/// later after a share of the time since the attachment began.
const STALE_ROUND: Duration = Duration::from_secs(1);
const STALE_SHARE: u32 = 60;

/// Classes that still have the probes of an earlier attachment. The guard is closed for their methods until they have
/// passed the hook.
#[derive(Debug)]
pub(crate) struct StaleClasses {
    began: Instant,
    looked: Instant,
    /// Ids of their methods.
    pub classes: HashMap<ClassKey, Vec<MethodId>>,
    /// Those that were found loaded. One that the JVM refuses is not tried again.
    found: HashSet<ClassKey>,
}

impl StaleClasses {
    pub(crate) fn new(classes: HashMap<ClassKey, Vec<MethodId>>) -> Self {
        Self { began: Instant::now(), looked: Instant::now(), classes, found: HashSet::new() }
    }

    /// Whether a class is one of them that was not found before.
    pub(crate) fn finds(&mut self, class: &ClassKey) -> bool {
        self.classes.contains_key(class) && self.found.insert(class.clone())
    }

    /// Whether to look for them among the loaded classes, which takes time: less and less often.
    pub(crate) fn is_time(&mut self) -> bool {
        let pause = STALE_ROUND.max(self.began.elapsed() / STALE_SHARE);
        let is_time = !self.classes.is_empty() && self.looked.elapsed() >= pause;
        if is_time {
            self.looked = Instant::now();
        }
        is_time
    }

    /// Ids of their methods.
    pub(crate) fn ids(&self) -> Vec<MethodId> {
        self.classes.values().flatten().copied().collect()
    }
}
