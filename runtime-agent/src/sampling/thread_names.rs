//! Names of Java threads by the kernel's number. A thread that starts notes its own before it can be sampled.

use std::collections::{HashMap, HashSet};

use log_format::ids::OsThreadId;

use crate::jvm::java_threads::NotedThread;
use crate::probe::thread::ThreadName;
use crate::sys::memory::sharded::Sharded;

/// Names that the agent thread has not taken yet. Without memory, and with more at a time, a thread has the kernel's
/// name in the log.
static NOTED: Sharded<NotedThread> = Sharded::new();
const MOST: usize = 50_000;

/// Notes a thread's name.
pub(super) fn note(os_id: OsThreadId, thread: Option<NotedThread>) {
    if let Some(thread) = thread
        && NOTED.len() < MOST
    {
        drop(NOTED.insert(os_id.get().into(), thread));
    }
}

struct KnownName {
    name: ThreadName,
    /// It was not in the last scan.
    is_absent: bool,
}

/// Names of threads that may have samples, on the agent thread.
#[derive(Default)]
pub(super) struct ThreadNames {
    known: HashMap<OsThreadId, KnownName>,
}

impl ThreadNames {
    /// Forgets all names.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        NOTED.clear();
    }

    /// Takes the names that were noted.
    pub(super) fn take_noted(&mut self) {
        for (os_id, thread) in NOTED.take_all() {
            if let Ok(os_id) = u32::try_from(os_id) {
                let os_id = OsThreadId::new(os_id);
                self.known.insert(os_id, KnownName { name: thread.decoded(), is_absent: false });
            }
        }
    }

    /// The name of a Java thread.
    pub(super) fn get(&self, os_id: OsThreadId) -> Option<&ThreadName> {
        self.known.get(&os_id).map(|known| &known.name)
    }

    /// Forgets threads that were in none of the last two scans: samples of those that have just ended are still on
    /// their way. `is_here` says whether there is a Java thread with a number.
    pub(super) fn scanned(
        &mut self,
        present: &HashSet<OsThreadId>,
        is_here: impl Fn(OsThreadId) -> bool,
    ) {
        self.known.retain(|os_id, known| {
            let is_absent = !present.contains(os_id) || !is_here(*os_id);
            let was_absent = std::mem::replace(&mut known.is_absent, is_absent);
            !(was_absent && is_absent)
        });
    }

    /// Approximate memory that they use.
    pub(super) fn bytes(&self) -> usize {
        const NAME: usize = 32;
        self.known.capacity() * (size_of::<(u32, KnownName)>() + NAME)
    }
}

#[cfg(test)]
mod tests {
    use log_format::ids::JavaThreadId;

    use super::*;

    #[test]
    fn names_stay_until_the_second_scan_without_the_thread() {
        let mut names = ThreadNames::default();
        let [seven, eight, nine] = [7, 8, 9].map(OsThreadId::new);
        for (os_id, name) in [(seven, "seven"), (eight, "eight"), (nine, "nine")] {
            let name = ThreadName { name: name.to_owned(), java_id: JavaThreadId::new(1) };
            names.known.insert(os_id, KnownName { name, is_absent: false });
        }
        let present = HashSet::from([eight, nine]);
        // A native thread has number 9 now.
        let is_here = |os_id| os_id != nine;
        names.scanned(&present, is_here);
        assert!([seven, eight, nine].iter().all(|os_id| names.get(*os_id).is_some()));
        names.scanned(&present, is_here);
        assert!(
            names.get(seven).is_none() && names.get(eight).is_some() && names.get(nine).is_none()
        );
        names.clear();
        assert!(names.get(eight).is_none());
    }
}
