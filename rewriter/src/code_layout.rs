//! Where each instruction goes: plans the insertions and maps old code offsets to new ones.
//!
//! ```text
//! old                     new
//!                         Start                        once, at the start of the code
//! h: <handler>            h: Caught  <handler>         an exception handler whose range runs Java code
//! h: <handler>            h: Caught  goto n  nop       one that catches StackOverflowErrors: at the `nop`, it goes
//!                         n: <handler>                 on if `Caught` overflows the stack (see `overflow_handlers`)
//! i: super(...)           i: super(...)  Initialized   in a constructor, if it may throw
//! r: return               r: End  return
//!                         Threw  athrow                behind the code, see `emit`
//! ```
//! One [`OffsetMap`] serves branches, switches, exception table, frames and debug tables, with two queries.
//! [`OffsetMap::target`] is where a jump to an instruction arrives, before anything inserted in front of it.
//! [`OffsetMap::instruction`] is where the instruction itself is. The entry probe is before `target(0)`, because a
//! branch to the start is not a call. `Initialized` is before the target that follows it, because a branch to there
//! is not the `super(...)` call.
//!
//! C1 compiles no method with a handler that ordinary code leads into, hence the `nop`, which only the error leads to.

use crate::error::ErrorKind;
use crate::instruction::{Bytecode, Instruction, Pc};
use crate::opcode::{self, GOTO, NOP, Operand, RETURN};
use crate::reader::Result;

/// Bytes of a probe: a three-byte instruction that pushes the method id, and an `invokestatic`.
pub(crate) const PROBE_LENGTH: u32 = 6;
/// Those of a `Caught` with the `goto` and the `nop` behind it.
pub(crate) const GUARDED_LENGTH: u32 = PROBE_LENGTH + 4;
/// `goto` past the `nop`, and the `nop`.
pub(crate) const GUARD: [u8; 4] = [GOTO, 0, 4, NOP];
/// Where the `nop` is.
const CAUGHT_OVERFLOW: u32 = GUARDED_LENGTH - 1;
/// That of the longest probe before a return.
const LONGEST_AT_RETURN: u32 = 7;

/// The lengths of the probes at a method's entry and before a return.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    pub entry: u32,
    pub at_return: u32,
}

impl Lengths {
    /// Those of a call with one argument.
    pub(crate) const SHORT: Self = Self { entry: PROBE_LENGTH, at_return: PROBE_LENGTH };
}

impl Default for Lengths {
    fn default() -> Self {
        Self::SHORT
    }
}

/// Bytes of an `invokespecial`.
pub(crate) const INIT_CALL_LENGTH: u32 = 3;

/// An offset into the new code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NewPc(pub u32);

/// What is known about one byte of old code, packed into a `u32`; the low bits of an instruction are its new offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot(u32);

impl Slot {
    /// An instruction begins here.
    const START: u32 = 1 << 31;
    /// `Caught` is inserted in front of it.
    const HANDLER: u32 = 1 << 30;
    /// It is a return: `End` is inserted in front of it.
    const RETURN: u32 = 1 << 29;
    /// Reachable in a constructor before the `super(...)` call.
    const BEFORE_INIT: u32 = 1 << 28;
    /// Reachable after it.
    const AFTER_INIT: u32 = 1 << 27;
    /// It is that call.
    const INIT_CALL: u32 = 1 << 26;
    /// It is before that call, and no variable holds `this` for a handler to see.
    const NO_THIS: u32 = 1 << 25;
    /// The `Caught` in front of it is in the ranges of the handlers that cover it.
    const COVERED: u32 = 1 << 24;
    /// The handler goes on if that `Caught` overflows the stack.
    const GUARDED: u32 = 1 << 23;
    const VALUE: u32 = (1 << 23) - 1;

    const fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    const fn value(self) -> u32 {
        self.0 & Self::VALUE
    }

    /// The length of the `Caught` in front of it.
    const fn caught_length(self) -> u32 {
        match (self.has(Self::HANDLER), self.has(Self::GUARDED)) {
            (false, _) => 0,
            (true, false) => PROBE_LENGTH,
            (true, true) => GUARDED_LENGTH,
        }
    }
}

// The largest new offset: each byte is a return with two probes. An `invokespecial` also gets two at most, but has
// three bytes.
const _: () = assert!(65_536 * (1 + GUARDED_LENGTH + LONGEST_AT_RETURN) < Slot::VALUE);

/// The part of a constructor that an instruction is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// `this` is not yet initialized.
    BeforeInit,
    /// Everything in a method that is not a constructor.
    Body,
}

/// Instructions that cannot be copied unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditKind {
    /// Insert `Caught`, in no protected range.
    Handler,
    /// Insert `Caught`, in the protected ranges of what follows.
    CoveredHandler,
    /// Insert `End`.
    Return,
    /// Insert `Initialized` after it.
    InitCall,
    /// Adjust the branch offset.
    Branch,
}

/// What catches the errors of a handler's `Caught`, of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    pub handler: Pc,
    /// The handler where the method goes on: the same one, or one around it.
    pub to: Pc,
    pub catch_type: u16,
}

/// An instruction that changes or gets something inserted in front of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edit {
    pub pc: Pc,
    pub kind: EditKind,
}

/// Maps old code offsets to new ones. Its buffers are reused for every method.
#[derive(Debug, Default)]
pub(crate) struct OffsetMap {
    slots: Vec<Slot>,
    edits: Vec<Edit>,
    handlers: Vec<Pc>,
    guards: Vec<Guard>,
    /// Length of the new code, without the added handlers at its end.
    length: u32,
    /// Those of the probes at the entry and before a return.
    lengths: Lengths,
    /// Whether to insert `Initialized`.
    tells_initialized: bool,
}

impl OffsetMap {
    /// Resets the map for another method.
    pub(crate) fn start(&mut self, code: &Bytecode<'_>, lengths: Lengths) {
        self.slots.clear();
        self.slots.resize(code.bytes.len() + 1, Slot::default());
        self.edits.clear();
        self.handlers.clear();
        self.guards.clear();
        self.length = 0;
        self.lengths = lengths;
        self.tells_initialized = false;
    }

    /// Marks an exception handler that should begin with `Caught`.
    pub(crate) fn set_handler(&mut self, pc: Pc) {
        if let Some(slot) = self.slots.get_mut(pc.index())
            && !slot.has(Slot::HANDLER)
        {
            slot.0 |= Slot::HANDLER;
            self.handlers.push(pc);
        }
    }

    /// Marks an exception handler that should begin with `Caught`, in the protected ranges that the handler is in
    /// itself.
    pub(crate) fn set_covered_handler(&mut self, pc: Pc) {
        self.set_handler(pc);
        if let Some(slot) = self.slots.get_mut(pc.index()) {
            slot.0 |= Slot::COVERED;
        }
    }

    /// The handlers that begin with `Caught`.
    pub(crate) fn handlers(&self) -> &[Pc] {
        &self.handlers
    }

    /// Adds a guard behind those that it has.
    pub(crate) fn add_guard(&mut self, guard: Guard) {
        if guard.to == guard.handler
            && let Some(slot) = self.slots.get_mut(guard.handler.index())
        {
            slot.0 |= Slot::GUARDED;
        }
        self.guards.push(guard);
    }

    pub(crate) fn guards(&self) -> &[Guard] {
        &self.guards
    }

    pub(crate) fn is_guarded(&self, pc: Pc) -> bool {
        self.slots.get(pc.index()).is_some_and(|slot| slot.has(Slot::GUARDED))
    }

    /// Whether a handler's `Caught` is in the protected ranges that the handler is in itself.
    pub(crate) fn is_covered(&self, pc: Pc) -> bool {
        self.slots.get(pc.index()).is_some_and(|slot| slot.has(Slot::COVERED))
    }

    /// Marks an instruction before a constructor's `super(...)` call where a handler would not see `this`.
    pub(crate) fn set_without_this(&mut self, pc: Pc) {
        if let Some(slot) = self.slots.get_mut(pc.index()) {
            slot.0 |= Slot::NO_THIS;
        }
    }

    /// Whether [`set_without_this`](Self::set_without_this) marked it.
    pub(crate) fn is_without_this(&self, pc: Pc) -> bool {
        self.slots.get(pc.index()).is_some_and(|slot| slot.has(Slot::NO_THIS))
    }

    /// Marks an instruction of a constructor as reachable in `part`. `false` if it was already.
    pub(crate) fn set_reachable(&mut self, pc: Pc, part: Part) -> bool {
        let flag = match part {
            Part::BeforeInit => Slot::BEFORE_INIT,
            Part::Body => Slot::AFTER_INIT,
        };
        match self.slots.get_mut(pc.index()) {
            Some(slot) if !slot.has(flag) => {
                slot.0 |= flag;
                true
            }
            _ => false,
        }
    }

    /// Whether an instruction is reachable both before and after the `super(...)` call.
    pub(crate) fn is_in_both_parts(&self, pc: Pc) -> bool {
        self.slots
            .get(pc.index())
            .is_some_and(|s| s.has(Slot::BEFORE_INIT) && s.has(Slot::AFTER_INIT))
    }

    /// Marks the `super(...)` or `this(...)` call of a constructor.
    pub(crate) fn set_init_call(&mut self, pc: Pc) {
        if let Some(slot) = self.slots.get_mut(pc.index()) {
            slot.0 |= Slot::INIT_CALL;
        }
    }

    /// Makes the scan insert `Initialized` after each of these calls.
    pub(crate) fn tell_initialized(&mut self) {
        self.tells_initialized = true;
    }

    /// Whether an instruction is in the part of a constructor before its `super(...)` call.
    pub(crate) fn is_before_init(&self, pc: Pc) -> bool {
        self.slots.get(pc.index()).is_some_and(|slot| slot.has(Slot::BEFORE_INIT))
    }

    /// Goes through the code once and assigns every instruction its new offset.
    pub(crate) fn scan(&mut self, code: &Bytecode<'_>) -> Result<()> {
        let Lengths { entry: mut new, at_return } = self.lengths;
        let mut pc = Pc(0);
        loop {
            (pc, new) = scan_plain(code.bytes, &mut self.slots, pc, new);
            // Shorter paths for the two most frequent kinds.
            if let (Some(slot), Some(opcode)) =
                (self.slots.get_mut(pc.index()), code.bytes.get(pc.index()))
                && !slot.has(Slot::HANDLER)
            {
                if opcode::brief(*opcode).is_return() {
                    slot.0 |= Slot::RETURN;
                    self.edits.push(Edit { pc, kind: EditKind::Return });
                    (pc.0, new) = (pc.0 + 1, new + at_return + 1);
                    continue;
                }
                if code.short_branch(pc).is_some() {
                    self.edits.push(Edit { pc, kind: EditKind::Branch });
                    (pc.0, new) = (pc.0 + 3, new + 3);
                    continue;
                }
            }
            let Some((instruction, next)) = code.instruction(pc)? else { break };
            new = self.scan_other(&instruction, next, new);
            pc = next;
        }
        if pc.index() != code.bytes.len() {
            return code.error(ErrorKind::TruncatedInstruction, pc);
        }
        self.length = new;
        Ok(())
    }

    /// Assigns a new offset to an instruction that changes or gets a probe. Its slot already contains `new`. Returns
    /// the offset of the next one.
    fn scan_other(&mut self, instruction: &Instruction<'_>, next: Pc, mut new: u32) -> u32 {
        let pc = instruction.pc;
        let length = next.0 - pc.0;
        if let Some(slot) = self.slots.get_mut(pc.index()) {
            if slot.has(Slot::HANDLER) {
                let is_covered = slot.has(Slot::COVERED);
                let kind = if is_covered { EditKind::CoveredHandler } else { EditKind::Handler };
                self.edits.push(Edit { pc, kind });
                new += slot.caught_length();
            }
            if slot.has(Slot::INIT_CALL) && self.tells_initialized {
                self.edits.push(Edit { pc, kind: EditKind::InitCall });
                new += PROBE_LENGTH;
            }
            if instruction.op.is(RETURN) {
                self.edits.push(Edit { pc, kind: EditKind::Return });
                slot.0 |= Slot::RETURN;
                new += self.lengths.at_return;
            }
        }
        match instruction.op.operand {
            Operand::Branch2 | Operand::Branch4 => {
                self.edits.push(Edit { pc, kind: EditKind::Branch });
                new + length
            }
            Operand::TableSwitch | Operand::LookupSwitch => {
                self.edits.push(Edit { pc, kind: EditKind::Branch });
                new + length - (3 - (pc.0 & 3)) + (3 - (new & 3))
            }
            _ => new + length,
        }
    }

    /// Where a jump to the instruction at `pc` arrives.
    pub(crate) fn target(&self, code: &Bytecode<'_>, pc: Pc) -> Result<NewPc> {
        match self.slots.get(pc.index()) {
            Some(slot) if slot.has(Slot::START) => Ok(NewPc(slot.value())),
            _ => code.error(ErrorKind::BadCodeOffset, pc),
        }
    }

    /// The length of the probes before an instruction.
    fn inserted(&self, slot: Slot) -> u32 {
        slot.caught_length() + u32::from(slot.has(Slot::RETURN)) * self.lengths.at_return
    }

    fn caught_length(&self, pc: Pc) -> u32 {
        self.slots.get(pc.index()).map_or(0, |slot| slot.caught_length())
    }

    /// The `Caught` of a handler.
    pub(crate) fn caught(
        &self,
        code: &Bytecode<'_>,
        handler: Pc,
    ) -> Result<std::ops::Range<NewPc>> {
        let NewPc(start) = self.target(code, handler)?;
        Ok(NewPc(start)..NewPc(start + PROBE_LENGTH))
    }

    /// Where a handler goes on with an error of a `Caught`: without calling its own, if it has a `nop` for that.
    pub(crate) fn with_overflow(&self, code: &Bytecode<'_>, handler: Pc) -> Result<NewPc> {
        let NewPc(start) = self.target(code, handler)?;
        Ok(NewPc(if self.is_guarded(handler) { start + CAUGHT_OVERFLOW } else { start }))
    }

    /// Where the instruction at `pc` itself is.
    pub(crate) fn instruction(&self, code: &Bytecode<'_>, pc: Pc) -> Result<NewPc> {
        match self.slots.get(pc.index()) {
            Some(slot) if slot.has(Slot::START) => Ok(NewPc(slot.value() + self.inserted(*slot))),
            _ => code.error(ErrorKind::BadCodeOffset, pc),
        }
    }

    /// Where a range that ended before `pc` ends: at an instruction, or at the end of the code.
    fn range_end(&self, code: &Bytecode<'_>, pc: Pc) -> Result<NewPc> {
        if pc.index() == code.bytes.len() { Ok(NewPc(self.length)) } else { self.target(code, pc) }
    }

    /// The new offset of a debug table entry that begins or ends at `pc`. The start of the code stays the start, so
    /// that it includes the entry probe. An offset within an instruction is accepted, as the JVM does.
    pub(crate) fn debug(&self, code: &Bytecode<'_>, pc: Pc) -> Result<NewPc> {
        match self.slots.get(pc.index()) {
            _ if pc.0 == 0 => Ok(NewPc(0)),
            _ if pc.index() == code.bytes.len() => Ok(NewPc(self.length)),
            Some(slot) if slot.has(Slot::START) => Ok(NewPc(slot.value())),
            Some(_) => Ok(self.within(pc)),
            None => code.error(ErrorKind::BadCodeOffset, pc),
        }
    }

    /// A byte within an instruction keeps its distance from the instruction's start.
    fn within(&self, pc: Pc) -> NewPc {
        let before = self.slots.get(..pc.index()).unwrap_or_default();
        let distance = before.iter().rev().take_while(|slot| !slot.has(Slot::START)).count() + 1;
        let start = before.len().checked_sub(distance).and_then(|i| before.get(i));
        let start = start.copied().unwrap_or_default();
        NewPc(start.value() + self.inserted(start) + u32::try_from(distance).unwrap_or(u32::MAX))
    }

    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    pub(crate) fn has_handlers(&self) -> bool {
        !self.handlers.is_empty()
    }

    /// The changes, in the order of the code.
    pub(crate) fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Splits a protected range of old code so that it covers no inserted instruction, except a `Caught` that belongs
    /// to it. Calls `visit` with each piece; there is at least one.
    pub(crate) fn split(
        &self,
        code: &Bytecode<'_>,
        range: std::ops::Range<Pc>,
        mut visit: impl FnMut(std::ops::Range<NewPc>),
    ) -> Result<()> {
        if range.start >= range.end {
            return code.error(ErrorKind::BadCodeOffset, range.start);
        }
        let mut start = if self.is_covered(range.start) {
            self.target(code, range.start)?
        } else {
            self.instruction(code, range.start)?
        };
        let end = self.range_end(code, range.end)?;
        let first = self.edits.partition_point(|edit| edit.pc < range.start);
        for edit in self.edits.get(first..).unwrap_or_default() {
            if edit.pc >= range.end {
                break;
            }
            let (target, instruction) =
                (self.target(code, edit.pc)?, self.instruction(code, edit.pc)?);
            let (before, after) = match edit.kind {
                EditKind::Branch | EditKind::CoveredHandler => continue,
                // After a `Caught` that belongs to the range.
                EditKind::Return if self.is_covered(edit.pc) => {
                    (NewPc(target.0 + self.caught_length(edit.pc)), instruction)
                }
                EditKind::Handler | EditKind::Return => (target, instruction),
                EditKind::InitCall => {
                    let behind = instruction.0 + INIT_CALL_LENGTH;
                    (NewPc(behind), NewPc(behind + PROBE_LENGTH))
                }
            };
            // A handler that is also a return has two edits and one gap.
            if after > start {
                visit(start..before);
                start = after;
            }
        }
        if start < end {
            visit(start..end);
        }
        Ok(())
    }

    /// Calls `visit` with each range of new code that the catch-all handler protects: everything except the entry
    /// probe and each `End` with its return.
    pub(crate) fn protected(&self, mut visit: impl FnMut(std::ops::Range<NewPc>)) {
        let mut start = NewPc(self.lengths.entry);
        for edit in self.edits.iter().filter(|edit| edit.kind == EditKind::Return) {
            let slot = self.slots.get(edit.pc.index()).copied().unwrap_or_default();
            // A handler may be a return itself.
            let end = NewPc(slot.value() + slot.caught_length());
            if start < end {
                visit(start..end);
            }
            // A return is one byte.
            start = NewPc(slot.value() + self.inserted(slot) + 1);
        }
        if start.0 < self.length {
            visit(start..NewPc(self.length));
        }
    }

    /// Like [`protected`](Self::protected), for one part of a constructor. The `super(...)` call belongs to neither
    /// part, nor do instructions before it without `this` in the first variable.
    pub(crate) fn protected_part(&self, part: Part, mut visit: impl FnMut(std::ops::Range<NewPc>)) {
        let flag = match part {
            Part::BeforeInit => Slot::BEFORE_INIT,
            Part::Body => Slot::AFTER_INIT,
        };
        let mut open: Option<NewPc> = None;
        for slot in self.slots.iter().filter(|slot| slot.has(Slot::START)) {
            let here = NewPc(slot.value());
            let belongs =
                slot.has(flag) && !slot.has(Slot::RETURN | Slot::INIT_CALL | Slot::NO_THIS);
            match (belongs, open) {
                (true, None) => open = Some(here),
                (false, Some(start)) => {
                    visit(start..here);
                    open = None;
                }
                _ => {}
            }
        }
        if let Some(start) = open {
            visit(start..NewPc(self.length));
        }
    }
}

/// Assigns new offsets to instructions from `pc` on, up to and including the first that changes or gets a probe.
/// Returns the old and the new offset of that one.
#[inline]
fn scan_plain(code: &[u8], slots: &mut [Slot], mut pc: Pc, mut new: u32) -> (Pc, u32) {
    while let (Some(opcode), Some(slot)) = (code.get(pc.index()), slots.get_mut(pc.index())) {
        let brief = opcode::brief(*opcode);
        let gets_probe = slot.has(Slot::HANDLER | Slot::INIT_CALL);
        slot.0 |= Slot::START | new;
        if !brief.is_plain() || gets_probe {
            break;
        }
        new += brief.length();
        pc.0 += brief.length();
    }
    (pc, new)
}

/// The target of a branch at `pc` with `offset`, unless it is before the code.
pub(crate) fn branch_target(pc: Pc, offset: i32) -> Option<Pc> {
    pc.0.checked_add_signed(offset).map(Pc)
}

/// Offsets of the instructions that can run Java code, in order. Returns whether any instruction enters or exits a
/// monitor.
pub(crate) fn calls(code: &Bytecode<'_>, calls: &mut Vec<Pc>) -> Result<bool> {
    calls.clear();
    let mut has_monitors = false;
    let mut pc = Pc(0);
    while let Some(opcode) = code.bytes.get(pc.index()) {
        let brief = opcode::brief(*opcode);
        if brief.runs_java() {
            calls.push(pc);
        }
        has_monitors |= brief.is_monitor();
        if brief.length() > 0 {
            pc.0 += brief.length();
        } else {
            let Some((_, next)) = code.instruction(pc)? else { break };
            pc = next;
        }
    }
    Ok(has_monitors)
}
