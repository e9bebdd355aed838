//! The state of a method. Code, `status`, logs and reports use these names.

/// A method is in one of these states at a time. If several would hold, the first of this list counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MethodState {
    /// It is abstract, native, or a static initialiser.
    NeverInstrumented,
    /// No include names it.
    NotIncluded,
    /// An exclude names it.
    Excluded,
    /// It only reads or writes a field, and the options exclude such methods.
    Accessor,
    /// It has less code than the options ask for.
    Short,
    /// It is straight-line code that calls nothing.
    TrivialLeaf,
    /// It is selected and could not be instrumented; the log has the reason.
    NotInstrumented,
    /// Its class was loaded before, and could not be retransformed yet.
    Postponed,
    /// The user muted it.
    Muted,
    /// It is throttled, and code that is compiled from then on has nothing of its probes.
    CompiledOut,
    /// The overhead budget switched its probes off.
    Throttled,
    /// Its calls are measured.
    Instrumented,
}

impl MethodState {
    /// How many states there are.
    pub const COUNT: usize = Self::Instrumented as usize + 1;

    /// All states, in order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::NeverInstrumented,
        Self::NotIncluded,
        Self::Excluded,
        Self::Accessor,
        Self::Short,
        Self::TrivialLeaf,
        Self::NotInstrumented,
        Self::Postponed,
        Self::Muted,
        Self::CompiledOut,
        Self::Throttled,
        Self::Instrumented,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NeverInstrumented => "never instrumented",
            Self::NotIncluded => "not included",
            Self::Excluded => "excluded",
            Self::Accessor => "accessor",
            Self::Short => "short",
            Self::TrivialLeaf => "trivial leaf",
            Self::NotInstrumented => "not instrumented",
            Self::Postponed => "postponed",
            Self::Muted => "muted",
            Self::CompiledOut => "compiled out",
            Self::Throttled => "throttled",
            Self::Instrumented => "instrumented",
        }
    }

    /// So many methods in this state: `1 trivial leaf`, `3 muted`.
    #[must_use]
    pub fn count_text(self, methods: u64) -> String {
        let name = match self {
            Self::Accessor if methods != 1 => "accessors",
            Self::TrivialLeaf if methods != 1 => "trivial leaves",
            _ => self.name(),
        };
        format!("{methods} {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_whole_and_in_order() {
        for (index, state) in MethodState::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, index, "{state:?}");
        }
        assert!(MethodState::ALL.is_sorted());
    }

    #[test]
    fn numbers_agree() {
        assert_eq!(MethodState::TrivialLeaf.count_text(1), "1 trivial leaf");
        assert_eq!(MethodState::TrivialLeaf.count_text(0), "0 trivial leaves");
        assert_eq!(MethodState::Muted.count_text(2), "2 muted");
    }
}
