//! Frames of compiled methods, with the methods that are inlined into them.

use super::blob::Blob;
use super::{End, Frame, Frames, PUSH, Place, RETURN, Walk};
use crate::memory::Memory;
use crate::vm_layout::{Metadata, Start};

/// Size of a `PcDesc`, whose first two `int`s are an offset in the code and where its scopes begin.
const PC_DESC: usize = 16;
/// Most descriptions of one compiled method: far more than any has.
const MAX_DESCS: usize = 1 << 24;
/// How far a method's first instructions may reach into it.
const PROLOGUE: usize = 48;

/// `pop rbp`.
const POP: u8 = 0x5d;

impl<M: Memory> Walk<'_, M> {
    pub(super) fn pass_compiled(
        &mut self,
        blob: &Blob,
        frames: &mut Frames<'_>,
    ) -> Result<(), End> {
        let Place { pc, .. } = self.at;
        let is_complete = blob.frame_complete.is_some_and(|from| pc >= blob.code + from);
        if is_complete {
            if self.is_top && self.is_call_stub()? {
                return self.leave_bare(End::Compiled);
            }
            if self.is_top && self.pass_epilogue(blob, frames)? {
                return Ok(());
            }
            let is_known = self.push_scopes(pc, blob, frames)?
                || match self.original_pc(blob) {
                    Some(original) => self.push_scopes(original, blob, frames)?,
                    None => false,
                };
            if !is_known {
                self.push_method(blob, frames)?;
            }
            return self.leave_complete(blob);
        }
        self.push_method(blob, frames)?;
        self.leave_prologue(blob)
    }

    /// Leaves a complete frame, onto which the code may have pushed something: arguments of a stub, or registers.
    fn leave_complete(&mut self, blob: &Blob) -> Result<(), End> {
        let returns = self.at.sp.wrapping_add(blob.frame_size.wrapping_mul(8)).wrapping_sub(8);
        if self.code_at(returns).is_none()
            && let Some(place) = self.return_address(returns)
        {
            let fp = self.word(place - 8, End::Compiled)?;
            let pc = self.word(place, End::Compiled)?;
            return self.go_to(pc, place + 8, fp);
        }
        self.leave_sized(blob.frame_size, End::Compiled)
    }

    /// Whether this is behind the method's code, on the way from its call of a method to the interpreter: `mov rbx,
    /// method`, `jmp`. The call's return address is on top of the stack.
    fn is_call_stub(&self) -> Result<bool, End> {
        const JUMP: u8 = 0xe9;
        let is_mov = |bytes: [u8; 8]| matches!(bytes, [0x48, 0xbb, ..]);
        let Place { pc, sp, .. } = self.at;
        if !self.code_at(sp).is_some_and(|returns| self.is_after_call(returns)) {
            return Ok(false);
        }
        let bytes = self.bytes(pc)?;
        Ok(match bytes {
            [JUMP, ..] => is_mov(self.bytes(pc - 10)?),
            _ => is_mov(bytes) && self.memory.byte(pc + 10) == Some(JUMP),
        })
    }

    /// The method that was compiled, without what is inlined.
    fn push_method(&self, blob: &Blob, frames: &mut Frames<'_>) -> Result<(), End> {
        let method = self.word(blob.address + self.layout.compiled.method, End::Compiled)?;
        frames.push(Frame::new(self.method_id(method).unwrap_or(0), -1))
    }

    /// Leaves a frame that is already gone, or almost, if the method is about to return.
    fn pass_epilogue(&mut self, blob: &Blob, frames: &mut Frames<'_>) -> Result<bool, End> {
        let Place { pc, sp, .. } = self.at;
        let after = self.bytes(pc)?;
        let before = self.memory.byte(pc - 1);
        // After `add rsp` and `pop rbp` come a safepoint poll and `ret`.
        let is_gone = match after {
            [RETURN, ..] => true,
            // cmp rsp, [r15 + poll]
            [0x49, 0x3b, 0x67 | 0xa7, ..] => before == Some(POP),
            // ja to a stub, ret
            [0x0f, 0x87, _, _, _, _, RETURN, ..] => true,
            // mov r10, [r15 + poll]
            [0x4d, 0x8b, 0x97, ..] => before == Some(POP),
            // test [r10], eax; ret
            [0x41, 0x85, 2, RETURN, ..] => true,
            _ => false,
        };
        if is_gone {
            self.push_method(blob, frames)?;
            self.leave_bare(End::Compiled)?;
            return Ok(true);
        }
        if after[0] == POP {
            self.push_method(blob, frames)?;
            let fp = self.word(sp, End::Compiled)?;
            let pc = self.word(sp + 8, End::Compiled)?;
            self.go_to(pc.wrapping_sub(1), sp + 16, fp)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn bytes(&self, pc: usize) -> Result<[u8; 8], End> {
        Ok(self.word(pc, End::Compiled)?.to_ne_bytes())
    }

    /// Leaves a method whose frame may not be complete.
    fn leave_prologue(&mut self, blob: &Blob) -> Result<(), End> {
        let Place { pc, sp, fp } = self.at;
        let entry = match self.layout.compiled.entry {
            Some(offset) => self.word(blob.address + offset, End::Compiled)?,
            None => blob.code,
        };
        // Behind `push rbp`, which is one of the first instructions, or before `sub rsp, n`.
        let is_early = pc > entry && pc <= entry + 15;
        if self.memory.byte(pc - 1) == Some(PUSH) && (is_early || self.moves_stack_pointer(pc)) {
            let returns = self.word(sp + 8, End::Compiled)?;
            return self.go_to(returns.wrapping_sub(1), sp + 16, fp);
        }
        let [next, ..] = self.bytes(pc)?;
        if pc <= entry || next == PUSH || blob.frame_size == 0 {
            return self.leave_bare(End::Compiled);
        }
        // Where the entry is unknown, the frame is made shortly before.
        let from = if self.layout.compiled.entry.is_some() { entry } else { blob.code };
        let from = from.max(pc.saturating_sub(PROLOGUE));
        if self.has_stack_pointer_moved(from, pc) {
            return self.leave_sized(blob.frame_size, End::Compiled);
        }
        self.leave_bare(End::Compiled)
    }

    /// Whether `sub rsp, n` is among the instructions between two addresses.
    fn has_stack_pointer_moved(&self, from: usize, to: usize) -> bool {
        let last = to.checked_sub(4);
        last.is_some_and(|last| (from..=last).rev().any(|pc| self.moves_stack_pointer(pc)))
    }

    /// Whether `sub rsp, n` is at an address.
    fn moves_stack_pointer(&self, pc: usize) -> bool {
        let word = self.memory.word(pc).unwrap_or(0).to_ne_bytes();
        matches!(word, [0x48, 0x81 | 0x83, 0xec, ..])
    }

    /// Where a frame that is to be deoptimized is: the JVM has replaced its callee's return address, and keeps it here.
    fn original_pc(&self, blob: &Blob) -> Option<usize> {
        let offset = self.memory.int(blob.address + self.layout.compiled.original_pc)?;
        let offset = usize::try_from(offset).ok().filter(|offset| *offset > 0 && !self.is_top)?;
        self.memory.word(self.at.sp + offset).filter(|pc| *pc >= blob.code)
    }

    /// Adds the methods that are in progress at this place of the code, the innermost first; `false` if nothing is
    /// known about the place.
    fn push_scopes(&self, pc: usize, blob: &Blob, frames: &mut Frames<'_>) -> Result<bool, End> {
        let layout = &self.layout.compiled;
        let nmethod = blob.address;
        let base = match layout.immutable_data {
            Some(offset) => self.word(nmethod + offset, End::Compiled)?,
            None => nmethod,
        };
        let Some(scope) = self.scope_at(pc, base, blob)? else { return Ok(false) };
        let scopes = match layout.scopes_data {
            Start::Pointer(offset) => self.memory.word(nmethod + offset),
            Start::Offset(offset) => self.offset_from(base, nmethod + offset),
        };
        let metadata = match layout.metadata {
            Metadata::Offset(offset) => self.offset_from(nmethod, nmethod + offset),
            Metadata::Mutable { data, relocation_size } => self
                .memory
                .word(nmethod + data)
                .and_then(|data| self.offset_from(data, nmethod + relocation_size)),
        };
        let (Some(scopes), Some(metadata)) = (scopes, metadata) else {
            return Err(End::Compiled);
        };
        let mut at = scope;
        while at > 0 {
            let mut packed = Packed { walk: self, at: scopes + at };
            let caller = packed.next()?;
            let method = packed.next()?;
            // -1 stands for the method's entry.
            let index = packed.next()?.cast_signed() - 1;
            let method = match method {
                0 => None,
                // Metadata are numbered from 1.
                number => self.memory.word(metadata + 8 * (number as usize - 1)),
            };
            let id = method.and_then(|method| self.method_id(method)).unwrap_or(0);
            frames.push(Frame::new(id, index))?;
            let caller = caller as usize;
            // A caller's scope was written before.
            if caller >= at {
                break;
            }
            at = caller;
        }
        Ok(true)
    }

    /// Where the scopes of this place of the code begin: those of the first description at or after it.
    fn scope_at(&self, pc: usize, base: usize, blob: &Blob) -> Result<Option<usize>, End> {
        let field = blob.address + self.layout.compiled.scopes_pcs;
        let first = self.offset_from(base, field).ok_or(End::Compiled)?;
        let end = self.offset_from(base, field + 4).ok_or(End::Compiled)?;
        let count = end.saturating_sub(first) / PC_DESC;
        if count > MAX_DESCS {
            return Err(End::Compiled);
        }
        let Ok(wanted) = i32::try_from(pc.wrapping_sub(blob.code)) else {
            return Ok(None);
        };
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = (low + high) / 2;
            let offset = self.memory.int(first + middle * PC_DESC).ok_or(End::Compiled)?;
            if offset < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low == count {
            return Ok(None);
        }
        let scope = self.memory.int(first + low * PC_DESC + 4).ok_or(End::Compiled)?;
        Ok(usize::try_from(scope).ok().filter(|scope| *scope > 0))
    }
}

/// Packed numbers: one to five bytes each, of which all but the last are at least 192.
struct Packed<'p, 'w, M> {
    walk: &'p Walk<'w, M>,
    at: usize,
}

impl<M: Memory> Packed<'_, '_, M> {
    fn next(&mut self) -> Result<u32, End> {
        const LAST_BELOW: u32 = 192;
        let base = u32::from(self.walk.layout.compiled.packed_base);
        let mut number = 0_u32;
        for shift in [0, 6, 12, 18, 24] {
            let byte = u32::from(self.walk.memory.byte(self.at).ok_or(End::Compiled)?);
            self.at += 1;
            number = number.wrapping_add(byte.wrapping_sub(base) << shift);
            if byte < LAST_BELOW {
                break;
            }
        }
        Ok(number)
    }
}
