//! Methods in which no time can hide.
//!
//! Short code without a call, a loop, an allocation, a monitor and a dynamic constant runs each of its few
//! instructions once at most, and none of them waits or runs other code, with two exceptions: at the first
//! use of a class that is loaded and initialised, once, and where the JVM throws (a null pointer, an index),
//! it makes the exception. Loops are found as jumps that do not lead onward, those to a handler of
//! exceptions included. Long code of this kind, as arithmetic on many limbs is, can be where the time goes.

use crate::code::ExceptionEntry;
use crate::constant_pool::{ConstantPool, CpIndex};
use crate::instruction::{Bytecode, Instruction, Pc};
use crate::opcode::{
    ANEWARRAY, INVOKEDYNAMIC, INVOKEVIRTUAL, JSR, JSR_W, LDC, LDC_W, LDC2_W, MONITORENTER,
    MONITOREXIT, MULTIANEWARRAY, NEW, RET,
};

/// Longest code, in bytes, of which that is said: some thirty or forty instructions.
const MAX_LENGTH: usize = 100;

/// Whether the code of a method that is not synchronized is short and runs straight on.
pub(crate) fn is_straight_line(
    code: Bytecode<'_>,
    mut exceptions: impl Iterator<Item = ExceptionEntry>,
    pool: &ConstantPool<'_, '_>,
) -> bool {
    if code.bytes.len() > MAX_LENGTH || exceptions.any(|entry| entry.handler < entry.end) {
        return false;
    }
    let mut next = Pc(0);
    // Code that cannot be read is found when the method is rewritten.
    while let Ok(found) = code.instruction(next) {
        let Some((instruction, after)) = found else { return true };
        if !goes_on(&instruction, pool) {
            return false;
        }
        next = after;
    }
    false
}

fn goes_on(instruction: &Instruction<'_>, pool: &ConstantPool<'_, '_>) -> bool {
    match instruction.opcode {
        INVOKEVIRTUAL..=INVOKEDYNAMIC
        | NEW..=ANEWARRAY
        | MULTIANEWARRAY
        | MONITORENTER
        | MONITOREXIT
        | JSR
        | JSR_W
        | RET => false,
        LDC => !pool.is_dynamic(CpIndex(instruction.local())),
        LDC_W | LDC2_W => !pool.is_dynamic(CpIndex(instruction.u2())),
        _ => {
            let onward = |offset: i32| if offset > 0 { Ok(()) } else { Err(()) };
            instruction.branch_offsets(onward).is_ok()
        }
    }
}
