//! Faults that the agent's own tests inject: `debug=fault:STAGE`.

/// Longer than the JVM waits at its start until classes are instrumented.
const SLOW: std::time::Duration = std::time::Duration::from_secs(25);

/// Longer than the JVM waits for files at its start.
const HUNG: std::time::Duration = std::time::Duration::from_secs(5);
const HUNG_AT_ATTACH: std::time::Duration = std::time::Duration::from_secs(33);

/// The fault to inject: where the agent panics, or what takes long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nowhere.
    #[default]
    None,
    /// While the JVM loads the agent.
    Load,
    /// While a run begins.
    Begin,
    /// No panic: files take long.
    Hang,
    /// No panic: instrumenting classes takes long.
    Slow,
    /// No panic: the stack walker walks from random registers.
    Walks,
    /// In the agent thread, when the run has begun.
    Run,
    /// In the agent thread, while it writes everything at a detach.
    Finish,
    /// In the agent thread, while it detaches.
    Detach,
}

impl Fault {
    pub(super) fn parse(stage: &str) -> Option<Self> {
        const ALL: [Fault; 8] = [
            Fault::Load,
            Fault::Begin,
            Fault::Hang,
            Fault::Slow,
            Fault::Walks,
            Fault::Run,
            Fault::Finish,
            Fault::Detach,
        ];
        ALL.into_iter().find(|fault| fault.text() == stage)
    }

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Load => "load",
            Self::Begin => "begin",
            Self::Hang => "hang",
            Self::Slow => "slow",
            Self::Walks => "walks",
            Self::Run => "run",
            Self::Finish => "finish",
            Self::Detach => "detach",
        }
    }

    /// With fault `Hang`, waits like a hung disk that responds only after everybody has given up waiting.
    pub(crate) fn hang(self, is_attached: bool) {
        if self == Self::Hang {
            std::thread::sleep(if is_attached { HUNG_AT_ATTACH } else { HUNG });
        }
    }

    /// With fault `Slow`, takes long.
    pub(crate) fn be_slow(self) {
        if self == Self::Slow {
            std::thread::sleep(SLOW);
        }
    }

    /// Panics if the fault belongs here.
    #[allow(clippy::panic)]
    pub(crate) fn panic_if(self, here: Self) {
        if self == here {
            panic!("fault injected by debug=fault:{}", self.text());
        }
    }
}
