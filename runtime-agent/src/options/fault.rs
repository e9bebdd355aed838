//! Faults that the agent's own tests inject: `debug=fault:STAGE`.

/// Longer than anybody waits for.
const SLOW: std::time::Duration = std::time::Duration::from_secs(25);

/// Longer than the JVM's start waits for files.
const HUNG: std::time::Duration = std::time::Duration::from_secs(5);
const HUNG_AT_ATTACH: std::time::Duration = std::time::Duration::from_secs(33);

/// Where the agent panics on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nowhere.
    #[default]
    None,
    /// While the JVM loads it.
    Load,
    /// While a run begins.
    Begin,
    /// Not at all: files take long.
    Hang,
    /// Not at all: it takes long to instrument classes.
    Slow,
    /// In the agent thread, when the run has begun.
    Run,
    /// In the agent thread, while it writes everything at a detach.
    Finish,
    /// In the agent thread, while it detaches.
    Detach,
}

impl Fault {
    pub(super) fn parse(stage: &str) -> Option<Self> {
        [Self::Load, Self::Begin, Self::Hang, Self::Slow, Self::Run, Self::Finish, Self::Detach]
            .into_iter()
            .find(|fault| fault.text() == stage)
    }

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Load => "load",
            Self::Begin => "begin",
            Self::Hang => "hang",
            Self::Slow => "slow",
            Self::Run => "run",
            Self::Finish => "finish",
            Self::Detach => "detach",
        }
    }

    /// Takes as long as a hung disk that comes back when nobody waits any more, if that is the fault.
    pub(crate) fn hang(self, is_attached: bool) {
        if self == Self::Hang {
            std::thread::sleep(if is_attached { HUNG_AT_ATTACH } else { HUNG });
        }
    }

    /// Takes long if that is the fault.
    pub(crate) fn be_slow(self) {
        if self == Self::Slow {
            std::thread::sleep(SLOW);
        }
    }

    /// Panics if the fault is to happen here.
    #[allow(clippy::panic)]
    pub(crate) fn panic_if(self, here: Self) {
        if self == here {
            panic!("fault injected by debug=fault:{}", self.text());
        }
    }
}
