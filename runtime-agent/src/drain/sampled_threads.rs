//! Threads that were met only in samples: their ids and names in the log.

use std::collections::{HashMap, HashSet};
use std::fs;

use log_format::ids::{JavaThreadId, OsThreadId, ThreadId};
use log_format::rows::ThreadRow;
use log_format::writer::one_line;

use crate::probe::thread::ThreadName;
use crate::sampling::off_cpu::GoneThread;

/// A thread that was met only in samples.
struct Seen {
    id: ThreadId,
    name: ThreadName,
    /// It is one of Java's; of others, the name says what they do.
    is_java: bool,
    /// It has ended. It may have samples still: while it exits, it may wait for a processor, and what it had before is
    /// taken in a later round. Another thread with its number is another one.
    has_ended: bool,
}

impl Seen {
    /// Whether it is the thread that has this name if it is one of Java's. Before a thread tells the JVM of its start,
    /// it is a native one.
    fn is(&self, java: Option<&ThreadName>) -> bool {
        java.map_or(!self.has_ended, |name| name.java_id == self.name.java_id)
    }
}

/// The threads that were met only in samples.
#[derive(Default)]
pub(super) struct SampledThreads {
    /// By the kernel's number.
    seen: HashMap<OsThreadId, Seen>,
    /// Those of them that the kernel or the JVM no longer has, since this round and since the last one.
    gone: Vec<(OsThreadId, ThreadId)>,
    gone_before: Vec<(OsThreadId, ThreadId)>,
    /// Those that were not in the last scan.
    absent: HashSet<OsThreadId>,
    /// Threads whose number another one has since this round; their last rows are named when it ends.
    replaced: Vec<(OsThreadId, Seen)>,
}

impl SampledThreads {
    /// The id of a thread, which has this name if it is one of Java's; `listed` is what it calls itself by now.
    pub(super) fn id<'n>(
        &mut self,
        os_id: OsThreadId,
        java: Option<&'n ThreadName>,
        listed: impl FnOnce() -> Option<&'n ThreadName>,
        next: &mut dyn FnMut() -> ThreadId,
    ) -> ThreadId {
        if let Some(seen) = self.seen.get(&os_id).filter(|seen| seen.is(java)) {
            return seen.id;
        }
        let (id, is_java) = (next(), java.is_some());
        let is_it = |listed: &&ThreadName| java.is_some_and(|name| name.java_id == listed.java_id);
        let name = java.map(|name| listed().filter(is_it).unwrap_or(name));
        let name = name.cloned().unwrap_or_else(|| native_name(os_id));
        self.insert(os_id, Seen { id, name, is_java, has_ended: false });
        id
    }

    fn insert(&mut self, os_id: OsThreadId, seen: Seen) {
        let before = self.seen.insert(os_id, seen);
        self.replaced.extend(before.map(|before| (os_id, before)));
    }

    /// The id of a thread that has probes from now on, if it was met before.
    pub(super) fn take_id(&mut self, os_id: OsThreadId, java_id: JavaThreadId) -> Option<ThreadId> {
        // It may not know its Java id yet.
        let is_same = |seen: &Seen| match java_id.is_none() {
            true => !seen.has_ended,
            false => seen.name.java_id == java_id,
        };
        let is_it = |seen: &&Seen| seen.is_java && is_same(seen);
        let id = self.seen.get(&os_id).filter(is_it)?.id;
        self.seen.remove(&os_id);
        Some(id)
    }

    /// A thread with probes has ended.
    pub(super) fn ended(&mut self, row: &ThreadRow) {
        let name = ThreadName { name: row.name.clone(), java_id: row.java_id };
        self.insert(row.os_id, Seen { id: row.id, name, is_java: true, has_ended: true });
    }

    /// What kind of thread it is that runs no Java code.
    pub(super) fn group(&self, os_id: OsThreadId) -> &'static str {
        let Some(seen) = self.seen.get(&os_id) else { return "[no Java]" };
        let name = &*seen.name.name;
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        if seen.is_java {
            // The application may name its threads as it likes.
            let is_of_vm =
                ["Signal Dispatcher", "Notification Thread", "Attach Listener"].contains(&name);
            return if is_of_vm { "[vm]" } else { "[no Java]" };
        }
        if name.starts_with("tprofiler") {
            "[tprofiler]"
        } else if starts(&["C1 Comp", "C2 Comp", "JVMCI"]) {
            "[jit]"
        } else if starts(&["GC ", "ParGC ", "G1 ", "CMS ", "Z", "Shenandoah", "XGC", "Concurrent"])
        {
            "[gc]"
        } else if starts(&["VM ", "Monitor", "Service", "Signal", "Notification", "Sweeper"]) {
            "[vm]"
        } else {
            "[native thread]"
        }
    }

    /// A round begins: the last rows of threads that were gone before the last one have been named.
    pub(super) fn forget_gone(&mut self) {
        self.replaced.clear();
        for (os_id, id) in std::mem::replace(&mut self.gone_before, std::mem::take(&mut self.gone))
        {
            // Another thread may have the number by now.
            if self.seen.get(&os_id).is_some_and(|seen| seen.id == id) {
                self.seen.remove(&os_id);
            }
        }
    }

    /// There is no such thread any more. What it had after this round's samples were taken comes with the next round.
    pub(super) fn is_gone(&mut self, gone: GoneThread) {
        let is_it =
            |seen: &&mut Seen| gone.java_id.is_none_or(|java_id| java_id == seen.name.java_id);
        if let Some(seen) = self.seen.get_mut(&gone.os_id).filter(is_it) {
            seen.has_ended = true;
            self.gone.push((gone.os_id, seen.id));
        }
    }

    /// Nobody looks at threads any more: those that have ended are not looked for.
    pub(super) fn forget_ended(&mut self) {
        let ended = self.seen.iter().filter(|(_, seen)| seen.has_ended);
        self.gone.extend(ended.map(|(os_id, seen)| (*os_id, seen.id)));
    }

    /// Threads that were seen, and were in none of the last two scans: nobody saw their end.
    pub(super) fn forgotten(&mut self, scanned: Option<&HashSet<OsThreadId>>) -> Vec<GoneThread> {
        let Some(present) = scanned else { return Vec::new() };
        let absent = self.seen.keys().filter(|number| !present.contains(number));
        let absent: HashSet<OsThreadId> = absent.copied().collect();
        let gone = |os_id: &OsThreadId| GoneThread { os_id: *os_id, java_id: None };
        let forgotten = absent.intersection(&self.absent).map(gone).collect();
        self.absent = absent;
        forgotten
    }

    pub(super) fn row(&self, id: ThreadId) -> Option<ThreadRow> {
        let replaced = self.replaced.iter().map(|(os_id, seen)| (os_id, seen));
        let (os_id, seen) = self.seen.iter().chain(replaced).find(|(_, seen)| seen.id == id)?;
        Some(ThreadRow {
            id,
            java_id: seen.name.java_id,
            os_id: *os_id,
            name: one_line(&seen.name.name),
            kind: "platform".to_owned(),
        })
    }
}

/// The kernel's name of a thread.
pub(super) fn native_name(os_id: OsThreadId) -> ThreadName {
    let name = fs::read_to_string(format!("/proc/self/task/{os_id}/comm"));
    let name = name.unwrap_or_default().trim_end().to_owned();
    ThreadName { name, java_id: JavaThreadId::NONE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_id_until_it_has_ended() {
        const NUMBER: OsThreadId = OsThreadId::new(7);
        let mut last = 0;
        let mut next = || {
            last += 1;
            ThreadId::new(last)
        };
        let java =
            |name: &str, id| ThreadName { name: name.to_owned(), java_id: JavaThreadId::new(id) };
        let mut threads = SampledThreads::default();
        let native = threads.id(NUMBER, None, || None, &mut next);
        assert_eq!(threads.id(NUMBER, None, || None, &mut next), native);
        // It has told the JVM of its start.
        let alpha = java("alpha", 12);
        let renamed = java("alpha-1", 12);
        let id = threads.id(NUMBER, Some(&alpha), || Some(&renamed), &mut next);
        assert_ne!(id, native);
        // Rows of this round have both ids.
        assert!(threads.row(native).is_some());
        let row = threads.row(id).map(|row| (row.name, row.os_id));
        assert_eq!(row, Some(("alpha-1".to_owned(), NUMBER)));
        assert_eq!(threads.take_id(NUMBER, JavaThreadId::new(13)), None);
        assert_eq!(threads.take_id(NUMBER, JavaThreadId::new(12)), Some(id));
        // It has probes now, and ends; its last samples have its id.
        let row = ThreadRow {
            id,
            java_id: alpha.java_id,
            os_id: NUMBER,
            name: alpha.name.clone(),
            kind: String::new(),
        };
        threads.ended(&row);
        assert_eq!(threads.take_id(NUMBER, JavaThreadId::NONE), None);
        // While it exits, it may wait for a processor for long.
        threads.forget_gone();
        threads.forget_gone();
        assert_eq!(threads.id(NUMBER, Some(&alpha), || None, &mut next), id);
        // Its number was that of another Java thread before.
        let gone = |java_id: Option<u64>| GoneThread {
            os_id: NUMBER,
            java_id: java_id.map(JavaThreadId::new),
        };
        threads.is_gone(gone(Some(3)));
        threads.forget_gone();
        threads.forget_gone();
        assert_eq!(threads.id(NUMBER, Some(&alpha), || None, &mut next), id);
        threads.is_gone(gone(Some(12)));
        threads.forget_gone();
        assert_eq!(threads.id(NUMBER, Some(&alpha), || None, &mut next), id);
        // Another thread has its number.
        let other = threads.id(NUMBER, None, || None, &mut next);
        assert_ne!(other, id);
        threads.forget_gone();
        assert_eq!(threads.id(NUMBER, None, || None, &mut next), other);
        // Nobody saw the end of that one.
        let none = HashSet::new();
        assert!(threads.forgotten(Some(&none)).is_empty());
        assert_eq!(threads.forgotten(Some(&none))[0].os_id, NUMBER);
    }
}
