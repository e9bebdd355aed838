//! A piece of the code cache.

/// What kind of code a piece of the code cache has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Interpreter,
    /// A compiled method, or the wrapper of a native one.
    Compiled,
    /// Routines of HotSpot's own that Java code calls.
    StubRoutines,
    /// Where a virtual thread's frames end.
    Continuation,
    /// A jump through a table of methods: without a frame.
    Table,
    Other,
}

impl Kind {
    pub(super) const fn is_stub_routine(self) -> bool {
        matches!(self, Self::StubRoutines)
    }

    /// By the first bytes of the name.
    pub(super) fn of(name: [u8; 8]) -> Self {
        match &name {
            b"Interpre" => Self::Interpreter,
            b"nmethod\0" | b"native n" => Self::Compiled,
            b"StubRout" | b"Stub Gen" => Self::StubRoutines,
            [b'c', b'o', b'n', b't', ..] | [b'C', b'o', b'n', b't', b' ', ..] => Self::Continuation,
            [b'i' | b'v', b't', b'a', b'b', b'l', b'e', ..] => Self::Table,
            _ => Self::Other,
        }
    }
}

/// A piece of the code cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blob {
    pub address: usize,
    pub kind: Kind,
    /// Where its code begins.
    pub code: usize,
    /// In words; 0 if it has no fixed frame.
    pub frame_size: usize,
    /// How far into the code the frame is complete, if ever.
    pub frame_complete: Option<usize>,
}
