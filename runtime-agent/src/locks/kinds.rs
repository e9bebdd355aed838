//! What a wait is for, in the number of the lock's class.

use log_format::rows::LockKind;

use crate::jvm::class_names::{ClassNumber, FREE_BITS};

const LOCK: u32 = 1 << 30;
const PARK: u32 = 1 << 29;
const _: () = assert!(LOCK | PARK == FREE_BITS);

/// A number that says what is waited for, too.
pub(super) const fn with_kind(number: ClassNumber, kind: LockKind) -> ClassNumber {
    let bits = match kind {
        LockKind::Monitor => 0,
        LockKind::Lock => LOCK,
        LockKind::Park => PARK,
    };
    ClassNumber::from_bits(number.bits() | bits)
}

/// What is waited for.
pub(crate) const fn kind(number: ClassNumber) -> LockKind {
    if number.bits() & LOCK != 0 {
        LockKind::Lock
    } else if number.bits() & PARK != 0 {
        LockKind::Park
    } else {
        LockKind::Monitor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_says_what_is_waited_for() {
        for of in [LockKind::Monitor, LockKind::Lock, LockKind::Park] {
            assert_eq!(kind(with_kind(ClassNumber::from_bits(7), of)), of);
        }
    }
}
