//! What a wait is for, in the number of the lock's class.

use log_format::rows::LockKind;

use crate::jvm::class_names::FREE_BITS;

const LOCK: u32 = 1 << 30;
const PARK: u32 = 1 << 29;
const _: () = assert!(LOCK | PARK == FREE_BITS);

/// A number that says what is waited for, too.
pub(super) const fn with_kind(number: u32, kind: LockKind) -> u32 {
    match kind {
        LockKind::Monitor => number,
        LockKind::Lock => number | LOCK,
        LockKind::Park => number | PARK,
    }
}

/// What is waited for.
pub(crate) const fn kind(number: u32) -> LockKind {
    if number & LOCK != 0 {
        LockKind::Lock
    } else if number & PARK != 0 {
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
            assert_eq!(kind(with_kind(7, of)), of);
        }
    }
}
