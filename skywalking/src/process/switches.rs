//! How often the kernel took a process's threads off a processor, from `/proc/PID/task/TID/status`.
//!
//! The log has the numbers that process and threads have in the JVM's own namespace, which may be a container's. So the
//! process with that number here may be another one: it is looked at only if it is the JVM.

use log_format::ids::OsThreadId;
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Context switches of threads between the first look and the last one.
#[derive(Debug)]
pub(crate) struct Switches {
    pid: u32,
    /// The file of the run's token, if it has one; the JVM has it open.
    token: Option<PathBuf>,
    process: Process,
    threads: HashMap<OsThreadId, Counted>,
}

/// The process that is looked at.
#[derive(Debug)]
enum Process {
    /// Before the first look.
    Unknown,
    /// Its open folder in `/proc`. Another process that gets its number later is not in there.
    Found(File),
    /// Why it is not looked at.
    NotFound(&'static str),
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    last: u64,
    since: u64,
}

impl Switches {
    pub(crate) fn new(pid: u32, token: Option<PathBuf>) -> Self {
        Self { pid, token, process: Process::Unknown, threads: HashMap::new() }
    }

    /// Looks at all threads. Looks should follow each other: the switches of a thread after its last look are not
    /// counted. A process that cannot be read has no threads.
    pub(crate) fn look(&mut self) {
        let has_begun = !matches!(self.process, Process::Unknown);
        if !has_begun {
            self.process = find(self.pid, self.token.as_deref());
        }
        let Process::Found(folder) = &self.process else { return };
        let tasks = fs::read_dir(path_of(folder).join("task")).into_iter().flatten();
        for task in tasks.flatten() {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let id = task.file_name().to_str().and_then(|name| name.parse().ok());
            if let (Some(id), Some(now)) = (inner_number(&status).or(id), switches(&status)) {
                self.count(OsThreadId::new(id), now, has_begun);
            }
        }
    }

    fn count(&mut self, thread: OsThreadId, now: u64, has_begun: bool) {
        // A thread that begins later has none before; so has one with the number of another one that has ended.
        let begin = if has_begun { 0 } else { now };
        let counted = self.threads.entry(thread).or_insert(Counted { last: begin, since: 0 });
        let before = if now < counted.last { 0 } else { counted.last };
        counted.since = counted.since.saturating_add(now - before);
        counted.last = now;
    }

    /// The switches of a thread, by its number in the JVM's namespace; `None` if it was not seen.
    pub(crate) fn of(&self, thread: OsThreadId) -> Option<u64> {
        self.threads.get(&thread).map(|counted| counted.since)
    }

    /// Why nothing is counted.
    pub(crate) fn why_none(&self) -> &'static str {
        match self.process {
            Process::NotFound(why) => why,
            Process::Unknown | Process::Found(_) => "the kernel's counts cannot be read",
        }
    }
}

/// The JVM's folder in `/proc`, if the process with this number is the JVM.
fn find(pid: u32, token: Option<&Path>) -> Process {
    let Ok(folder) = File::open(format!("/proc/{pid}")) else {
        return Process::NotFound("the JVM is not in this /proc");
    };
    let path = path_of(&folder);
    match token {
        Some(token) => match has_open(&path, token) {
            Some(true) => Process::Found(folder),
            Some(false) => Process::NotFound("the process with the JVM's number here is another"),
            None => Process::NotFound("this user may not look into the JVM's process"),
        },
        None => {
            let status = fs::read_to_string(path.join("status")).unwrap_or_default();
            let is_outer = inner_number(&status).is_some_and(|inner| inner != pid);
            if is_outer || fs::read_link(path.join("exe")).is_err() {
                return Process::NotFound("the process with the JVM's number here may be another");
            }
            Process::Found(folder)
        }
    }
}

/// Where the kernel shows what an open folder has.
fn path_of(folder: &File) -> PathBuf {
    format!("/proc/self/fd/{}", folder.as_raw_fd()).into()
}

/// Whether a process has a file open; `None` if its files may not be seen.
fn has_open(process: &Path, file: &Path) -> Option<bool> {
    let of = |path: &Path| fs::metadata(path).ok().map(|file| (file.st_dev(), file.st_ino()));
    let Some(wanted) = of(file) else { return Some(false) };
    let files = fs::read_dir(process.join("fd")).ok()?;
    Some(files.flatten().any(|entry| of(&entry.path()) == Some(wanted)))
}

/// The number of a process or thread in its innermost namespace.
fn inner_number(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
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
    use std::process::{self, Command, Stdio};
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    fn own_thread() -> OsThreadId {
        let own = fs::read_link("/proc/thread-self").unwrap();
        OsThreadId::new(own.file_name().unwrap().to_str().unwrap().parse().unwrap())
    }

    #[test]
    fn switches_of_this_process_are_counted() {
        let own = own_thread();
        let mut counted = Switches::new(process::id(), None);
        counted.look();
        assert_eq!(counted.of(own), Some(0));
        for _ in 0..50 {
            sleep(Duration::from_millis(1));
        }
        counted.look();
        assert!(counted.of(own).unwrap() >= 50);
        let mut gone = Switches::new(u32::MAX, None);
        gone.look();
        assert_eq!((gone.of(own), gone.why_none()), (None, "the JVM is not in this /proc"));
    }

    #[test]
    fn only_the_process_that_has_the_token_open_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("control.token");
        let open = File::create(&token).unwrap();
        let mut counted = Switches::new(process::id(), Some(token.clone()));
        counted.look();
        assert_eq!(counted.of(own_thread()), Some(0));
        let mut other = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let mut of_other = Switches::new(other.id(), Some(token.clone()));
        of_other.look();
        let why = "the process with the JVM's number here is another";
        assert_eq!((of_other.of(OsThreadId::new(other.id())), of_other.why_none()), (None, why));
        // Another file with the same name is another file.
        drop(open);
        let _open = File::create(folder.path().join("other")).unwrap();
        let mut closed = Switches::new(process::id(), Some(token));
        closed.look();
        assert_eq!((closed.of(own_thread()), closed.why_none()), (None, why));
        // Its number may become another process's, whose threads are not counted then.
        let mut ending = Switches::new(other.id(), None);
        ending.look();
        assert_eq!(ending.of(OsThreadId::new(other.id())), Some(0));
        other.kill().unwrap();
        other.wait().unwrap();
        let Process::Found(folder) = &ending.process else { panic!("{ending:?}") };
        assert!(fs::read_dir(path_of(folder).join("task")).is_err());
    }

    #[test]
    fn threads_that_begin_later_have_all_of_theirs() {
        let mut counted = Switches::new(0, None);
        let [one, other] = [1, 2].map(OsThreadId::new);
        counted.count(one, 100, false);
        counted.count(one, 130, true);
        counted.count(other, 7, true);
        // Another thread with the number.
        counted.count(one, 4, true);
        assert_eq!((counted.of(one), counted.of(other)), (Some(34), Some(7)));
        let status = "Name:\tx\nNSpid:\t4242\t17\t7\nvoluntary_ctxt_switches:\t12\n\
                      nonvoluntary_ctxt_switches:\t3\n";
        assert_eq!((switches(status), switches("Name:\tx\n")), (Some(15), None));
        assert_eq!((inner_number(status), inner_number("Name:\tx\n")), (Some(7), None));
    }
}
