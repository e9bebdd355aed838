//! Frames of the interpreter.

use super::{End, Frame, Frames, Place, Walk};
use crate::memory::{Memory, is_pointer};

/// Where an interpreted frame has its fields, in words from the frame pointer.
const SENDER_SP: usize = 1;
const METHOD: usize = 3;
const BYTECODE: usize = 8;

impl<M: Memory> Walk<'_, M> {
    pub(super) fn pass_interpreted(&mut self, frames: &mut Frames<'_>) -> Result<(), End> {
        let Place { sp, fp, .. } = self.at;
        let has_frame = is_pointer(fp)
            && sp > fp.wrapping_sub(0x1000)
            && sp < fp.wrapping_sub(8 * BYTECODE)
            && fp < self.stack_end;
        if has_frame {
            let method = self.word(fp - 8 * METHOD, End::Interpreted)?;
            if let Some(id) = self.method_id(method) {
                let bytecode = self.word(fp - 8 * BYTECODE, End::Interpreted)?;
                frames.push(Frame::new(id, self.bytecode_index(method, bytecode)))?;
                let caller_sp = self.word(fp - 8 * SENDER_SP, End::Interpreted)?;
                return self.leave_by_frame_pointer(caller_sp);
            }
        }
        if self.is_top {
            return self.pass_entered(frames);
        }
        Err(End::Interpreted)
    }

    fn leave_by_frame_pointer(&mut self, caller_sp: usize) -> Result<(), End> {
        let fp = self.at.fp;
        let pc = self.word(fp + 8, End::Interpreted)?;
        let caller_fp = self.word(fp, End::Interpreted)?;
        self.go_to(pc, caller_sp, caller_fp)
    }

    /// Passes a method that is just being entered: it is in a register, and its frame is not complete.
    #[cfg(target_arch = "x86_64")]
    fn pass_entered(&mut self, frames: &mut Frames<'_>) -> Result<(), End> {
        let Place { sp, fp, .. } = self.at;
        let id = self.method_id(self.registers.rbx).ok_or(End::Interpreted)?;
        frames.push(Frame::new(id, 0))?;
        let entered_at = self.registers.r13;
        let returns = self.memory.word(fp.wrapping_add(8));
        let is_frame_begun = is_pointer(fp)
            && sp <= fp
            && fp - sp <= 8 * BYTECODE
            && returns.is_some_and(|pc| self.layout.code.contains(pc));
        if is_frame_begun {
            // It is the frame's first word; until then, a register has it.
            let caller_sp =
                if sp < fp { self.word(fp - 8 * SENDER_SP, End::Interpreted)? } else { entered_at };
            return self.leave_by_frame_pointer(caller_sp);
        }
        let is_above = entered_at > sp && entered_at - sp < super::LARGE_FRAME;
        // While local variables are pushed, the return address is in a register, and where it was.
        let place = if self.code_at(sp).is_some() || !is_above { sp } else { entered_at - 8 };
        let pc = self.word(place, End::Interpreted)?;
        self.go_to(pc, if is_above { entered_at } else { sp + 8 }, fp)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn pass_entered(&mut self, _frames: &mut Frames<'_>) -> Result<(), End> {
        Err(End::Interpreted)
    }
}
