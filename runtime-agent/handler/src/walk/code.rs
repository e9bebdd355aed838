//! Finds the piece of the code cache that an address belongs to.

use super::Walk;
use super::blob::{Blob, Kind};
use crate::memory::Memory;
use crate::vm_layout::{CodeCache, Number, Start};

/// Most steps back to the start of a block; each passes up to 254 segments.
const MAX_JUMPS: u32 = 4_096;

impl CodeCache {
    pub(super) const fn contains(&self, pc: usize) -> bool {
        pc >= self.low && pc < self.high
    }
}

impl<M: Memory> Walk<'_, M> {
    /// The piece of the code cache at an address.
    pub(super) fn blob(&self, pc: usize) -> Option<Blob> {
        let address = self.blob_address(pc)?;
        let layout = &self.layout.blob;
        let name = self.memory.word(address + layout.name)?;
        let name = self.memory.word(name)?.to_ne_bytes();
        let code = match layout.code {
            Start::Pointer(offset) => self.memory.word(address + offset)?,
            Start::Offset(offset) => self.offset_from(address, address + offset)?,
        };
        let frame_complete = match layout.frame_complete {
            Number::Int(offset) => self.memory.int(address + offset)?,
            Number::Short(offset) => i32::from(self.memory.short(address + offset)?.cast_signed()),
        };
        let frame_size = self.memory.int(address + layout.frame_size)?;
        Some(Blob {
            address,
            kind: Kind::of(name),
            code,
            frame_size: usize::try_from(frame_size).unwrap_or(0),
            frame_complete: usize::try_from(frame_complete).ok(),
        })
    }

    /// The address that the `int` at `field` is away from `base`.
    pub(super) fn offset_from(&self, base: usize, field: usize) -> Option<usize> {
        let offset = self.memory.int(field)?;
        Some(base.wrapping_add_signed(offset as isize))
    }

    /// Each heap has a byte a segment, which leads back to the start of the segment's block.
    fn blob_address(&self, pc: usize) -> Option<usize> {
        const FREE: u8 = 0xff;
        let code = &self.layout.code;
        for heap in code.heaps.iter().take_while(|heap| **heap != 0) {
            let low = self.memory.word(heap + code.memory_low)?;
            let high = self.memory.word(heap + code.memory_high)?;
            if pc < low || pc >= high {
                continue;
            }
            let segments = self.memory.word(heap + code.segments_low)?;
            let mut index = (pc - low) >> code.segment_shift;
            let mut back = self.memory.byte(segments + index)?;
            if back == FREE {
                return None;
            }
            for _ in 0..MAX_JUMPS {
                if back == 0 {
                    break;
                }
                index = index.checked_sub(usize::from(back))?;
                back = self.memory.byte(segments + index)?;
            }
            let used = low + (index << code.segment_shift) + code.used;
            let is_used = self.memory.byte(used)? != 0;
            return is_used.then_some((used + 8) & !7);
        }
        None
    }
}
