//! Names of Java threads by the kernel's number. A thread that starts notes its own before it can be sampled.

use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::probe::thread::ThreadName;

/// Names that nobody has taken yet. With more at a time, threads have the kernel's name.
static NOTED: Mutex<Vec<(u32, ThreadName)>> = Mutex::new(Vec::new());
const MOST: usize = 50_000;

/// Notes a thread's name.
pub(super) fn note(os_id: u32, name: ThreadName) {
    let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
    if noted.len() < MOST {
        noted.push((os_id, name));
    }
}

struct Known {
    name: ThreadName,
    /// It was not in the last scan.
    is_absent: bool,
}

/// Names of threads that may have samples, on the agent thread.
#[derive(Default)]
pub(super) struct ThreadNames {
    known: HashMap<u32, Known>,
}

impl ThreadNames {
    /// Forgets all names.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        NOTED.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Takes the names that were noted. Returns numbers of other threads before, whose end nobody saw.
    pub(super) fn take_noted(&mut self) -> Vec<u32> {
        let noted = std::mem::take(&mut *NOTED.lock().unwrap_or_else(PoisonError::into_inner));
        let is_other = |(os_id, name): (u32, ThreadName)| {
            let java_id = name.java_id;
            let before = self.known.insert(os_id, Known { name, is_absent: false });
            before.is_some_and(|before| before.name.java_id != java_id).then_some(os_id)
        };
        noted.into_iter().filter_map(is_other).collect()
    }

    /// The name of a Java thread.
    pub(super) fn get(&self, os_id: u32) -> Option<&ThreadName> {
        self.known.get(&os_id).map(|known| &known.name)
    }

    /// Forgets threads that were in none of the last two scans: samples of those that have just ended are still on
    /// their way.
    pub(super) fn scanned(&mut self, present: &HashSet<u32>) {
        self.known.retain(|os_id, known| {
            let was_absent = std::mem::replace(&mut known.is_absent, !present.contains(os_id));
            !(was_absent && known.is_absent)
        });
    }
}

#[cfg(test)]
mod tests {
    use log_format::ids::JavaThreadId;

    use super::*;

    #[test]
    fn names_stay_until_the_second_scan_without_the_thread() {
        let name =
            |name: &str, id| ThreadName { name: name.to_owned(), java_id: JavaThreadId::new(id) };
        let mut names = ThreadNames::default();
        note(7, name("seven", 1));
        note(8, name("eight", 2));
        assert_eq!(names.take_noted(), [0; 0]);
        assert_eq!(names.get(7), Some(&name("seven", 1)));
        let present = HashSet::from([8]);
        names.scanned(&present);
        assert!(names.get(7).is_some());
        names.scanned(&present);
        assert!(names.get(7).is_none() && names.get(8).is_some());
        note(8, name("another", 3));
        assert_eq!(names.take_noted(), [8]);
        assert_eq!(names.get(8), Some(&name("another", 3)));
        names.clear();
        assert!(names.get(8).is_none());
    }
}
