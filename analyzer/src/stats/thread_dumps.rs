//! Counts of thread dumps: how often each thread was in each state, and each frame on a stack.

use std::collections::HashMap;
use std::fmt;

use log_format::ids::JavaThreadId;

/// A `java.lang.Thread.State`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadState {
    /// Not started yet.
    New,
    /// It runs, waits for a processor, or is in native code.
    Runnable,
    /// It waits for a monitor.
    Blocked,
    /// It waits without a time limit.
    Waiting,
    /// It waits with a time limit, or sleeps.
    TimedWaiting,
    /// It has ended.
    Terminated,
}

impl ThreadState {
    const ALL: [Self; 6] = [
        Self::New,
        Self::Runnable,
        Self::Blocked,
        Self::Waiting,
        Self::TimedWaiting,
        Self::Terminated,
    ];

    /// The state that Java calls so: `TIMED_WAITING`.
    #[must_use]
    pub fn of_java(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.java_name() == name)
    }

    /// Its name in Java.
    #[must_use]
    pub const fn java_name(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Runnable => "RUNNABLE",
            Self::Blocked => "BLOCKED",
            Self::Waiting => "WAITING",
            Self::TimedWaiting => "TIMED_WAITING",
            Self::Terminated => "TERMINATED",
        }
    }

    /// Its name in reports, as samples.csv names what threads do: `timed_waiting`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Runnable => "runnable",
            Self::Blocked => "blocked",
            Self::Waiting => "waiting",
            Self::TimedWaiting => "timed_waiting",
            Self::Terminated => "terminated",
        }
    }
}

/// A thread in a state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DumpedThread {
    /// What `Thread.getId()` returns.
    pub id: JavaThreadId,
    /// Its name.
    pub name: String,
    /// What it did.
    pub state: ThreadState,
}

/// A frame as `StackTraceElement.toString()` writes it, without loader and module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DumpedFrame {
    /// Class name with dots.
    pub class: String,
    /// Method name.
    pub method: String,
    /// What stands in parentheses: `Order.java:42`, `Native Method`, `Unknown Source`.
    pub place: String,
}

impl fmt::Display for DumpedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, method, place } = self;
        write!(f, "{class}.{method}({place})")
    }
}

/// How often threads were in a state, and frames on stacks.
#[derive(Debug, Default)]
pub struct DumpCounts {
    threads: HashMap<DumpedThread, u64>,
    frames: HashMap<DumpedFrame, u64>,
}

impl DumpCounts {
    /// Adds stacks of a thread in a state.
    pub fn add_thread(&mut self, thread: DumpedThread, count: u64) {
        let sum = self.threads.entry(thread).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Adds lines of a frame.
    pub fn add_frame(&mut self, frame: DumpedFrame, count: u64) {
        let sum = self.frames.entry(frame).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Whether there is no thread.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Threads by state, most stacks first.
    #[must_use]
    pub fn threads(&self) -> Vec<(&DumpedThread, u64)> {
        most_first(&self.threads)
    }

    /// Frames, most lines first.
    #[must_use]
    pub fn frames(&self) -> Vec<(&DumpedFrame, u64)> {
        most_first(&self.frames)
    }
}

fn most_first<K: Ord>(counts: &HashMap<K, u64>) -> Vec<(&K, u64)> {
    let mut sorted: Vec<(&K, u64)> = counts.iter().map(|(of, count)| (of, *count)).collect();
    sorted.sort_by(|(one, count), (other, others)| others.cmp(count).then_with(|| one.cmp(other)));
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_one_name_in_java_and_one_in_reports() {
        for state in ThreadState::ALL {
            assert_eq!(ThreadState::of_java(state.java_name()), Some(state));
            assert_eq!(state.java_name().to_ascii_lowercase(), state.name());
        }
        assert_eq!(ThreadState::of_java("runnable"), None);
    }

    #[test]
    fn counts_add_up_and_the_largest_comes_first() {
        let mut counts = DumpCounts::default();
        assert!(counts.is_empty());
        let frame = |method: &str| DumpedFrame {
            class: "com.shop.Order".into(),
            method: method.into(),
            place: "Order.java:42".into(),
        };
        for (method, count) in [("pay", 2), ("buy", 2), ("sell", 1), ("sell", 2)] {
            counts.add_frame(frame(method), count);
        }
        let lines: Vec<String> =
            counts.frames().iter().map(|(frame, count)| format!("{frame} {count}")).collect();
        assert_eq!(
            lines,
            [
                "com.shop.Order.sell(Order.java:42) 3",
                "com.shop.Order.buy(Order.java:42) 2",
                "com.shop.Order.pay(Order.java:42) 2",
            ]
        );
    }
}
