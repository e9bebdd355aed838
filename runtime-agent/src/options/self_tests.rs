//! Options about self-tests: `probe=FORM`, and for the agent's own tests `debug=fails:TRICK` and
//! `debug=newest-tested:JDK`.

/// The form of the probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeChoice {
    /// The fast form on tested JDKs, the plain form on newer ones.
    #[default]
    Auto,
    /// The fast form on every JDK.
    Fast,
    /// The plain form, which relies on nothing specific to HotSpot.
    Plain,
}

impl ProbeChoice {
    const ALL: [Self; 3] = [Self::Auto, Self::Fast, Self::Plain];

    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.text() == text)
    }

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Fast => "fast",
            Self::Plain => "plain",
        }
    }
}

/// What the agent relies on and tests itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trick {
    /// The JVM accepts a class in `java.lang`.
    ProbeClass,
    /// The JIT treats `@Stable` elements as constants.
    CompiledOut,
    /// A new target of a call site discards compiled code.
    CallSite,
    /// The thread word is at the same distance in all threads.
    ThreadWord,
    /// The JVM has HotSpot's extension events for virtual threads.
    MountExtension,
    /// The JVM sends those events.
    MountEvents,
    /// The count of a thread's allocated bytes is where HotSpot's tables say.
    AllocatedBytes,
    /// Frames look as the walker of stacks expects.
    Walker,
}

impl Trick {
    const ALL: [(Self, &'static str); 8] = [
        (Self::ProbeClass, "probe-class"),
        (Self::CompiledOut, "compiled-out"),
        (Self::CallSite, "call-site"),
        (Self::ThreadWord, "thread-word"),
        (Self::MountExtension, "mount-extension"),
        (Self::MountEvents, "mount-events"),
        (Self::AllocatedBytes, "allocated-bytes"),
        (Self::Walker, "walker"),
    ];
}

/// What the agent's own tests make it assume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pretend {
    /// The newest tested JDK, if it should differ from the real one.
    pub newest_tested: Option<u32>,
    fails: Vec<Trick>,
}

impl Pretend {
    /// Whether the self-test of a trick should fail.
    pub(crate) fn fails(&self, trick: Trick) -> bool {
        self.fails.contains(&trick)
    }

    #[cfg(test)]
    pub(crate) fn failing(tricks: &[Trick]) -> Self {
        Self { newest_tested: None, fails: tricks.to_vec() }
    }

    /// Sets the value of `debug`; `None` if it is about something else.
    pub(super) fn set(&mut self, value: &str) -> Option<()> {
        if let Some(jdk) = value.strip_prefix("newest-tested:") {
            self.newest_tested = Some(jdk.parse().ok()?);
            return Some(());
        }
        let name = value.strip_prefix("fails:")?;
        let (trick, _) = Trick::ALL.into_iter().find(|(_, text)| *text == name)?;
        self.fails.push(trick);
        Some(())
    }
}
