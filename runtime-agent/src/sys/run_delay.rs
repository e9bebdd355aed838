//! How long threads wait for a processor, by the kernel's `schedstat`. Times by a clock on the wall include it.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use crate::sys::clock::as_f64;
use log_format::ids::OsThreadId;

const TASKS: &str = "/proc/self/task";
/// A reading reads the files of so many threads, some 4 us each.
const THREADS: usize = 64;
/// After this time, a third is left of what was read.
const MEMORY_S: f64 = 10.0;

/// What the kernel has counted for a thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scheduled {
    pub cpu_ns: u64,
    pub delay_ns: u64,
}

/// Reads a thread's file; `None` if the thread is gone, or the kernel does not count.
pub(crate) fn scheduled(task: &Path) -> Option<Scheduled> {
    // Three short numbers. To read to the end would be two more system calls.
    let mut bytes = [0; 96];
    let length = fs::File::open(task.join("schedstat")).ok()?.read(&mut bytes).ok()?;
    let text = std::str::from_utf8(bytes.get(..length)?).ok()?;
    // Time on a processor, time in wait for one, time slices.
    let mut numbers = text.split_ascii_whitespace().map_while(|number| number.parse().ok());
    Some(Scheduled { cpu_ns: numbers.next()?, delay_ns: numbers.next()? })
}

/// How long this process's threads have waited for a processor lately.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Delay {
    /// As a share of the time in which they could run.
    pub share: f64,
    /// All of them together, in nanoseconds a second.
    pub ns_per_s: f64,
}

/// Finds how long this process's threads wait for a processor.
#[derive(Debug, Default)]
pub(crate) struct RunDelay {
    seen: HashMap<OsThreadId, Scheduled>,
    /// Threads that are still to be read, before it is asked again which there are.
    left: Vec<OsThreadId>,
    cpu_ns: f64,
    delay_ns: f64,
    seconds: f64,
}

impl RunDelay {
    /// Reads some threads' files, in turn. The reading before was so many seconds ago.
    pub(crate) fn read(&mut self, seconds: f64) -> Delay {
        if self.left.is_empty() {
            self.left = threads();
            let is_left = |id: &OsThreadId| self.left.binary_search(id).is_ok();
            self.seen.retain(|id, _| is_left(id));
        }
        let remains = (-seconds / MEMORY_S).exp();
        self.cpu_ns *= remains;
        self.delay_ns *= remains;
        self.seconds = self.seconds * remains + seconds;
        for id in self.left.drain(self.left.len().saturating_sub(THREADS)..) {
            let Some(now) = scheduled(&Path::new(TASKS).join(id.to_string())) else { continue };
            if let Some(before) = self.seen.insert(id, now) {
                self.cpu_ns += as_f64(now.cpu_ns.saturating_sub(before.cpu_ns));
                self.delay_ns += as_f64(now.delay_ns.saturating_sub(before.delay_ns));
            }
        }
        Delay {
            share: self.delay_ns / (self.cpu_ns + self.delay_ns).max(1.0),
            ns_per_s: self.delay_ns / self.seconds.max(0.1),
        }
    }
}

/// The process's threads, in the order of their numbers.
fn threads() -> Vec<OsThreadId> {
    let tasks = fs::read_dir(TASKS).into_iter().flatten().flatten();
    let mut threads: Vec<OsThreadId> = tasks
        .filter_map(|task| task.file_name().to_str()?.parse().ok().map(OsThreadId::new))
        .collect();
    threads.sort_unstable();
    threads
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn threads_that_outnumber_the_processors_wait() {
        let mut run_delay = RunDelay::default();
        assert_eq!(run_delay.read(1.0), Delay::default());
        let processors = thread::available_parallelism().unwrap().get();
        let end = Instant::now() + Duration::from_secs(2);
        let busy = move || while black_box(Instant::now()) < end {};
        let threads: Vec<_> = (0..4 * processors).map(|_| thread::spawn(busy)).collect();
        while Instant::now() < end {
            run_delay.read(0.1);
            thread::sleep(Duration::from_millis(100));
        }
        let Delay { share, ns_per_s } = run_delay.read(0.1);
        assert!((0.5..1.0).contains(&share), "{share}");
        assert!(ns_per_s > 1e9, "{ns_per_s}");
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn a_thread_that_is_gone_has_no_file() {
        assert!(scheduled(Path::new("/proc/self/task/self")).is_none());
        assert!(scheduled(Path::new("/proc/self")).is_some_and(|now| now.cpu_ns > 0));
    }
}
