//! Registers of an interrupted thread.

/// Registers of an interrupted thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers {
    /// The instruction's address.
    pub pc: usize,
    /// The stack pointer.
    pub sp: usize,
    /// The frame pointer.
    pub fp: usize,
    /// The interpreter's current method, at its entry.
    #[cfg(target_arch = "x86_64")]
    pub rbx: usize,
    /// The stack pointer of an interpreted frame's caller.
    #[cfg(target_arch = "x86_64")]
    pub r13: usize,
}
