//! Finds methods that take no time worth measuring.
//!
//! Short code without calls, loops, allocations, monitors and dynamic constants runs each of its few instructions at
//! most once, and none of them waits or runs other code. There are two exceptions: the first use of a class loads and
//! initialises it, once; and where the JVM throws (a null pointer, an index), it creates the exception. A loop is any
//! jump that does not lead forward, including one to an exception handler. Long code of this kind, such as arithmetic
//! on many limbs, can be where the time goes.

use crate::code::ExceptionEntry;
use crate::constant_pool::{ConstantPool, CpIndex};
use crate::instruction::{Bytecode, Instruction, Pc};
use crate::opcode::{
    ANEWARRAY, INVOKEDYNAMIC, INVOKEVIRTUAL, JSR, JSR_W, LDC, LDC_W, LDC2_W, MONITORENTER,
    MONITOREXIT, MULTIANEWARRAY, NEW, RET,
};

/// Longest code that counts as short, in bytes: some thirty or forty instructions.
const MAX_LENGTH: usize = 100;

/// Whether the code of a method that is not synchronized is short and has no loops or calls.
pub(crate) fn is_straight_line(
    code: Bytecode<'_>,
    mut exceptions: impl Iterator<Item = ExceptionEntry>,
    pool: &ConstantPool<'_, '_>,
) -> bool {
    if code.bytes.len() > MAX_LENGTH || exceptions.any(|entry| entry.handler < entry.end) {
        return false;
    }
    let mut next = Pc(0);
    // The rewriting of the method reports code that cannot be read.
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
