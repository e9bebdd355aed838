//! Whether a method has a loop, as HotSpot's on-stack replacement counts loops.

use crate::instruction::{Bytecode, Pc};

/// Whether bytecode has a branch to itself or to an earlier instruction. Code that cannot be read counts as having
/// one.
///
/// `code` is what the Code attribute holds (JVMS 4.7.3), or what JVMTI's `GetBytecodes` returns.
#[must_use]
pub fn has_backward_branch(code: &[u8]) -> bool {
    let code = Bytecode { bytes: code, offset: 0 };
    let forward = |offset: i32| if offset > 0 { Ok(()) } else { Err(()) };
    let mut next = Pc(0);
    while let Ok(found) = code.instruction(next) {
        let Some((instruction, after)) = found else { return false };
        if instruction.branch_offsets(forward).is_err() {
            return true;
        }
        next = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::has_backward_branch;

    const NOP: u8 = 0;
    const GOTO: u8 = 167;
    const IFEQ: u8 = 153;
    const RETURN: u8 = 177;

    #[test]
    fn branches_backward_make_a_loop() {
        assert!(!has_backward_branch(&[RETURN]));
        // if (x) goto +4: forward
        assert!(!has_backward_branch(&[26, IFEQ, 0, 4, NOP, RETURN]));
        // nop; goto -1
        assert!(has_backward_branch(&[NOP, GOTO, 0xff, 0xff]));
        // goto itself
        assert!(has_backward_branch(&[GOTO, 0, 0]));
        // goto_w -1
        assert!(has_backward_branch(&[NOP, 200, 0xff, 0xff, 0xff, 0xff]));
    }

    #[test]
    fn a_switch_may_branch_backward() {
        let switch = |offset: i32| {
            // iload_0; tableswitch at pc 1: two bytes of padding, default, low = high = 0, one offset
            let mut code = vec![26, 170, 0, 0];
            for word in [19, 0, 0, offset] {
                code.extend(i32::to_be_bytes(word));
            }
            code.push(RETURN);
            code
        };
        assert!(!has_backward_branch(&switch(19)));
        assert!(has_backward_branch(&switch(-1)));
    }

    #[test]
    fn code_that_cannot_be_read_counts_as_a_loop() {
        assert!(has_backward_branch(&[GOTO, 0]));
        assert!(has_backward_branch(&[0xfe]));
    }
}
