//! Decodes instructions in place.

use crate::error::{Error, ErrorKind};
use crate::opcode::{self, Op, Operand};
use crate::reader::Result;

/// An offset into the code of the original class file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pc(pub u32);

impl Pc {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The code of a method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytecode<'a> {
    pub bytes: &'a [u8],
    /// The position of the code in the class file.
    pub offset: usize,
}

/// One instruction of the code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction<'a> {
    pub pc: Pc,
    pub opcode: u8,
    pub op: &'static Op,
    /// Opcode and operands. After `wide` the opcode is the widened one, and the bytes begin with it.
    pub bytes: &'a [u8],
    pub is_wide: bool,
}

impl<'a> Bytecode<'a> {
    pub(crate) fn error<T>(&self, kind: ErrorKind, pc: Pc) -> Result<T> {
        Err(Error::new(kind, self.offset + pc.index()))
    }

    /// The instruction at `pc` and the offset of the next one; `None` at the end of the code.
    #[inline]
    pub(crate) fn instruction(&self, pc: Pc) -> Result<Option<(Instruction<'a>, Pc)>> {
        let rest = self.bytes.get(pc.index()..).unwrap_or_default();
        let Some(opcode) = rest.first().copied() else { return Ok(None) };
        let Some(op) = opcode::lookup(opcode) else {
            return self.error(ErrorKind::UnknownOpcode, pc);
        };
        let length = match op.operand {
            Operand::TableSwitch => self.table_switch_length(pc)?,
            Operand::LookupSwitch => self.lookup_switch_length(pc)?,
            Operand::Wide => return self.wide(pc, rest).map(Some),
            other => opcode::fixed_length(other),
        };
        let Some(bytes) = rest.get(..length) else {
            return self.error(ErrorKind::TruncatedInstruction, pc);
        };
        let instruction = Instruction { pc, opcode, op, bytes, is_wide: false };
        Ok(Some((instruction, self.after(pc, length))))
    }

    /// The offset of a branch at `pc`, if it has two bytes, as most have. The fast path for these.
    #[inline]
    pub(crate) fn short_branch(&self, pc: Pc) -> Option<i16> {
        let bytes = self.bytes.get(pc.index()..).and_then(|rest| rest.first_chunk::<3>());
        let [opcode, a, b] = *bytes?;
        opcode::brief(opcode).is_short_branch().then(|| i16::from_be_bytes([a, b]))
    }

    fn wide(&self, pc: Pc, rest: &'a [u8]) -> Result<(Instruction<'a>, Pc)> {
        let Some(opcode) = rest.get(1).copied() else {
            return self.error(ErrorKind::TruncatedInstruction, pc);
        };
        let widened = opcode::lookup(opcode).map(|op| (op, op.operand));
        let (op, length) = match widened {
            Some((op, Operand::Local)) => (op, 4),
            Some((op, Operand::Iinc)) => (op, 6),
            _ => return self.error(ErrorKind::UnknownOpcode, pc),
        };
        let Some(bytes) = rest.get(1..length) else {
            return self.error(ErrorKind::TruncatedInstruction, pc);
        };
        Ok((Instruction { pc, opcode, op, bytes, is_wide: true }, self.after(pc, length)))
    }

    fn after(&self, pc: Pc, length: usize) -> Pc {
        // `length` has been checked to be within the code.
        Pc(pc.0 + u32::try_from(length).unwrap_or(u32::MAX))
    }

    /// A four-byte operand of a switch, the `index`th after the padding.
    fn switch_word(&self, pc: Pc, index: usize) -> Result<i32> {
        let start = (pc.index() | 3) + 1 + 4 * index;
        match self.bytes.get(start..).and_then(|b| b.first_chunk::<4>()) {
            Some(word) => Ok(i32::from_be_bytes(*word)),
            None => self.error(ErrorKind::TruncatedInstruction, pc),
        }
    }

    fn table_switch_length(&self, pc: Pc) -> Result<usize> {
        let (low, high) = (self.switch_word(pc, 1)?, self.switch_word(pc, 2)?);
        let cases = i64::from(high) - i64::from(low) + 1;
        self.switch_length(pc, 3, cases, 1)
    }

    fn lookup_switch_length(&self, pc: Pc) -> Result<usize> {
        let pairs = i64::from(self.switch_word(pc, 1)?);
        self.switch_length(pc, 2, pairs, 2)
    }

    fn switch_length(&self, pc: Pc, head: usize, cases: i64, words: usize) -> Result<usize> {
        match usize::try_from(cases) {
            // There cannot be more cases than bytes of code; so nothing overflows below.
            Ok(cases) if cases <= self.bytes.len() => {
                let padding = 3 - (pc.index() & 3);
                Ok(1 + padding + 4 * (head + words * cases))
            }
            _ => self.error(ErrorKind::BadSwitch, pc),
        }
    }
}

impl Instruction<'_> {
    /// The two-byte operand after the opcode; 0 if there is none.
    pub(crate) fn u2(&self) -> u16 {
        match self.bytes {
            [_, a, b, ..] => u16::from_be_bytes([*a, *b]),
            _ => 0,
        }
    }

    /// The local variable that a `Local` or `Iinc` instruction names.
    pub(crate) fn local(&self) -> u16 {
        match self.bytes {
            [_, index, ..] if !self.is_wide => u16::from(*index),
            _ => self.u2(),
        }
    }

    /// Operands of a switch, in words, without the padding.
    pub(crate) fn switch_words(&self) -> &[u8] {
        let padding = 3 - (self.pc.index() & 3);
        self.bytes.get(1 + padding..).unwrap_or_default()
    }

    /// Calls `visit` with the offset of each branch: one for a jump, default first for a switch.
    pub(crate) fn branch_offsets<E>(
        &self,
        mut visit: impl FnMut(i32) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        match (self.op.operand, self.bytes) {
            (Operand::Branch2, [_, a, b]) => visit(i32::from(i16::from_be_bytes([*a, *b]))),
            (Operand::Branch4, [_, a, b, c, d]) => visit(i32::from_be_bytes([*a, *b, *c, *d])),
            (Operand::TableSwitch | Operand::LookupSwitch, _) => {
                let words = self.switch_words().as_chunks::<4>().0;
                let is_table = self.op.operand == Operand::TableSwitch;
                for (index, word) in words.iter().enumerate() {
                    // table: default, low, high, offset...; lookup: default, count, (match, offset)...
                    let is_offset = if is_table {
                        index != 1 && index != 2
                    } else {
                        index == 0 || (index >= 3 && index % 2 == 1)
                    };
                    if is_offset {
                        visit(i32::from_be_bytes(*word))?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
