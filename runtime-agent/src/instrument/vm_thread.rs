//! How long HotSpot's VM thread has waited for a processor.
//!
//! That thread does all the work while the others are stopped. On a busy machine a pause is longer than its work, by
//! changing amounts, from which nothing can be learned about the size of batches.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::sys::run_delay::scheduled;

/// Measures work of the VM thread.
pub(super) struct Stopwatch {
    begun: Instant,
    waited: Duration,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self { begun: Instant::now(), waited: waited() }
    }

    /// The part of a pause that was work. The pause ends now, and began after the start.
    pub(super) fn work(&self, pause: Duration) -> Duration {
        let pause = pause.min(self.begun.elapsed());
        pause.saturating_sub(waited().saturating_sub(self.waited)).max(pause / 8)
    }
}

/// How long the VM thread has waited for a processor; zero if the kernel does not say.
fn waited() -> Duration {
    static TASK: OnceLock<Option<PathBuf>> = OnceLock::new();
    let task = TASK.get_or_init(|| find("/proc/self/task"));
    let scheduled = task.as_deref().and_then(scheduled).unwrap_or_default();
    Duration::from_nanos(scheduled.delay_ns)
}

fn find(tasks: &str) -> Option<PathBuf> {
    let is_it = |task: &PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim_end() == "VM Thread")
    };
    let mut tasks = fs::read_dir(tasks).ok()?.flatten().map(|task| task.path());
    tasks.find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_is_found_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        for (task, name) in [("1", "java\n"), ("2", "VM Thread\n"), ("3", "VM Periodic Tas\n")] {
            fs::create_dir(folder.path().join(task)).unwrap();
            fs::write(folder.path().join(task).join("comm"), name).unwrap();
        }
        let found = find(folder.path().to_str().unwrap());
        assert_eq!(found, Some(folder.path().join("2")));
        // This process is no JVM.
        assert_eq!(find("/proc/self/task"), None);
        assert_eq!(waited(), Duration::ZERO);
    }
}
