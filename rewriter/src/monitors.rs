//! Which exception handlers of a method with monitors can begin with `Caught`.
//!
//! HotSpot compiles a method only if each instruction is reached with the same number of monitors held on every path,
//! and each call may throw. So the call of `Caught` must be in the ranges of the handlers that cover its handler:
//! they release the monitors that it holds. If it holds one, a handler among them must catch everything; otherwise
//! the handler around the whole method would be reached with a monitor held. None of them may come before it in the
//! code: such a handler may lead back to it, so that it could be called for ever. Where this does not hold, as in
//! javac's handlers that release a monitor and cover themselves, `Caught` is omitted. Then the next handler or the
//! end of the method removes the frames left behind.

use crate::code::CodeAttribute;
use crate::code_layout::{OffsetMap, branch_target};
use crate::instruction::Pc;
use crate::opcode::{ENDS, JSR, JSR_W, MONITORENTER, MONITOREXIT, RET, RETURN, THROWS};
use crate::reader::Result;

/// Most checks of an instruction against an exception table entry. If there would be more, no handler begins with
/// `Caught`.
const MAX_CHECKS: usize = 1 << 24;

/// Number of monitors held at an instruction that was not reached.
const UNKNOWN: u8 = u8::MAX;

/// Marks those of `handlers` that can begin with `Caught`.
pub(crate) fn mark_handlers(
    code: &CodeAttribute<'_>,
    handlers: impl Iterator<Item = Pc>,
    map: &mut OffsetMap,
) -> Result<()> {
    let Some(held) = monitors_held(code)? else { return Ok(()) };
    let held = |pc: Pc| held.get(pc.index()).copied().unwrap_or(UNKNOWN);
    for handler in handlers {
        let mut may_leave = true;
        let fits = code
            .exceptions()
            .filter(|entry| entry.start <= handler && handler < entry.end)
            .take_while(|entry| {
                let reached = may_leave;
                may_leave &= entry.catch_type != 0;
                reached
            })
            .all(|entry| entry.handler > handler && held(entry.handler) == held(handler));
        if fits && held(handler) != UNKNOWN && (!may_leave || held(handler) == 0) {
            map.set_covered_handler(handler);
        }
    }
    Ok(())
}

/// How many monitors are held before each instruction. `None` if that differs between paths, or is unknown.
fn monitors_held(code: &CodeAttribute<'_>) -> Result<Option<Vec<u8>>> {
    let length = code.bytecode.bytes.len();
    if code.exceptions().len().saturating_mul(length) > MAX_CHECKS {
        return Ok(None);
    }
    let mut known = vec![UNKNOWN; length];
    let mut waiting = vec![(Pc(0), 0u8)];
    while let Some((mut pc, mut held)) = waiting.pop() {
        while let Some((instruction, next)) = code.bytecode.instruction(pc)? {
            match known.get_mut(pc.index()) {
                Some(known) if *known == UNKNOWN => *known = held,
                Some(known) if *known == held => break,
                _ => return Ok(None),
            }
            let opcode = instruction.opcode;
            // A subroutine may be called with different monitors held.
            if matches!(opcode, JSR | JSR_W | RET) {
                return Ok(None);
            }
            // HotSpot assumes that these two do not throw if monitors are balanced.
            if instruction.op.is(THROWS) && !instruction.op.is(RETURN) && opcode != MONITOREXIT {
                let covering = code.exceptions().filter(|e| e.start <= pc && pc < e.end);
                waiting.extend(covering.map(|entry| (entry.handler, held)));
            }
            let after = match opcode {
                MONITORENTER => held.checked_add(1).filter(|held| *held != UNKNOWN),
                MONITOREXIT => held.checked_sub(1),
                _ => Some(held),
            };
            let Some(after) = after else { return Ok(None) };
            held = after;
            // The error type is never constructed; the scan finds a target outside the code.
            let _ = instruction.branch_offsets::<()>(|offset| {
                waiting.extend(branch_target(pc, offset).map(|target| (target, held)));
                Ok(())
            });
            if instruction.op.is(ENDS) {
                break;
            }
            pc = next;
        }
    }
    Ok(Some(known))
}
