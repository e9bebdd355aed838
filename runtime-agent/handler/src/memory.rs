//! Reading memory that may not be mapped.

use crate::load;

/// Memory that is read word by word. Loads do not fault: what cannot be read is `None`.
pub trait Memory {
    /// The eight bytes at an address.
    fn word(&self, address: usize) -> Option<usize>;

    /// The four bytes at an address, which is a multiple of four.
    fn int(&self, address: usize) -> Option<i32> {
        let word = self.word(address & !7)?;
        let bits = (address & 4) * 8;
        Some(((word >> bits) as u32).cast_signed())
    }

    /// The two bytes at an address, which is even.
    fn short(&self, address: usize) -> Option<u16> {
        let word = self.word(address & !7)?;
        let bits = (address & 6) * 8;
        Some((word >> bits) as u16)
    }

    /// The byte at an address.
    fn byte(&self, address: usize) -> Option<u8> {
        let word = self.word(address & !7)?;
        let bits = (address & 7) * 8;
        Some((word >> bits) as u8)
    }

    /// A pointer to aligned data; `None` for what cannot be one.
    fn pointer(&self, address: usize) -> Option<usize> {
        self.word(address).filter(|pointer| is_pointer(*pointer))
    }
}

/// Whether this can be the address of aligned data.
#[must_use]
pub const fn is_pointer(address: usize) -> bool {
    address >= 4096 && address & 7 == 0
}

/// The process's own memory. Loads are guarded once a handler of [`load`] is installed.
#[derive(Clone, Copy, Debug)]
pub struct Process;

impl Memory for Process {
    fn word(&self, address: usize) -> Option<usize> {
        load::word(address)
    }
}
