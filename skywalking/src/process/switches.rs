//! How often the kernel took a process's threads off a processor, from `/proc/PID/task/TID/status`.

use std::collections::HashMap;
use std::fs;

/// Context switches of threads between the first look and the last one.
#[derive(Debug)]
pub(crate) struct Switches {
    pid: u32,
    threads: HashMap<u32, Counted>,
    has_begun: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    last: u64,
    since: u64,
}

impl Switches {
    pub(crate) fn new(pid: u32) -> Self {
        Self { pid, threads: HashMap::new(), has_begun: false }
    }

    /// Looks at all threads. Looks should follow each other: the switches of a thread after its last look are not
    /// counted. A process that cannot be read has no threads.
    pub(crate) fn look(&mut self) {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten();
        for task in tasks.flatten() {
            let id = task.file_name().to_str().and_then(|name| name.parse().ok());
            let status = fs::read_to_string(task.path().join("status")).ok();
            if let (Some(id), Some(now)) = (id, status.as_deref().and_then(switches)) {
                self.count(id, now);
            }
        }
        self.has_begun = true;
    }

    fn count(&mut self, thread: u32, now: u64) {
        // A thread that begins later has none before; so has one with the number of another one that has ended.
        let begin = if self.has_begun { 0 } else { now };
        let counted = self.threads.entry(thread).or_insert(Counted { last: begin, since: 0 });
        let before = if now < counted.last { 0 } else { counted.last };
        counted.since = counted.since.saturating_add(now - before);
        counted.last = now;
    }

    /// The switches of a thread; `None` if it was not seen.
    pub(crate) fn of(&self, thread: u32) -> Option<u64> {
        self.threads.get(&thread).map(|counted| counted.since)
    }
}

/// The sum of both kinds.
fn switches(status: &str) -> Option<u64> {
    let number = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|rest| rest.trim().parse::<u64>().ok())
    };
    Some(number("voluntary_ctxt_switches:")? + number("nonvoluntary_ctxt_switches:")?)
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    #[test]
    fn switches_of_this_process_are_counted() {
        let own = fs::read_link("/proc/thread-self").unwrap();
        let own: u32 = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let mut counted = Switches::new(std::process::id());
        counted.look();
        assert_eq!(counted.of(own), Some(0));
        for _ in 0..50 {
            sleep(Duration::from_millis(1));
        }
        counted.look();
        assert!(counted.of(own).unwrap() >= 50);
        let mut gone = Switches::new(u32::MAX);
        gone.look();
        assert_eq!(gone.of(own), None);
    }

    #[test]
    fn threads_that_begin_later_have_all_of_theirs() {
        let mut counted = Switches::new(0);
        counted.count(1, 100);
        counted.has_begun = true;
        counted.count(1, 130);
        counted.count(2, 7);
        // Another thread with the number.
        counted.count(1, 4);
        assert_eq!((counted.of(1), counted.of(2)), (Some(34), Some(7)));
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!((switches(status), switches("Name:\tx\n")), (Some(15), None));
    }
}
