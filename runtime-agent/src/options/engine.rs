//! What interrupts threads for samples of CPU time.

/// What interrupts threads for samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// A perf event of each thread, which is exact below a tick of the kernel, and takes a file descriptor.
    Perf,
    /// A timer of each thread (`timer_create`), which the kernel looks at each tick.
    Ctimer,
    /// One timer of the process (`setitimer`), which interrupts the thread that runs at the time.
    Itimer,
}

impl Engine {
    /// The name in options, `status` and `run.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Ctimer => "ctimer",
            Self::Itimer => "itimer",
        }
    }

    /// The one with this name.
    pub fn of(name: &str) -> Option<Self> {
        [Self::Perf, Self::Ctimer, Self::Itimer].into_iter().find(|engine| engine.name() == name)
    }
}
