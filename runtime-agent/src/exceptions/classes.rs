//! Numbers of classes by identity hash: a table that threads read and extend without a lock. Two classes have the same
//! hash with a probability of 2^-31.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use jvmti_bindings::env::JniEnv;
use jvmti_bindings::prelude::jni;

use crate::jvm::class_names::{self, ClassNumber};
use crate::jvm::java_threads;
use crate::probe::ClassHash;

/// Slots of the table, a power of two. Classes that find none of [`TRIES`] free have no number.
const SLOTS: usize = 4_096;
const TRIES: usize = 16;

/// In the upper half a hash, in the lower one the number; 0 is free, because numbers begin with 1.
static TABLE: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];

fn slots(hash: ClassHash) -> impl Iterator<Item = &'static AtomicU64> {
    let first = hash.bits().wrapping_mul(0x9e37_79b9) as usize;
    (first..first + TRIES).filter_map(|index| TABLE.get(index % SLOTS))
}

#[allow(clippy::cast_possible_truncation)] // Its halves.
const fn halves(slot: u64) -> (u32, u32) {
    ((slot >> 32) as u32, slot as u32)
}

/// The number of the class with this hash, if it has one.
fn known(hash: ClassHash) -> Option<ClassNumber> {
    for slot in slots(hash) {
        match halves(slot.load(Ordering::Acquire)) {
            (_, 0) => return None,
            (of, number) if of == hash.bits() => return Some(ClassNumber::from_bits(number)),
            _ => {}
        }
    }
    None
}

/// The name of the class with this hash.
pub(crate) fn name(hash: ClassHash) -> String {
    class_names::name(known(hash).unwrap_or(ClassNumber::NONE))
}

/// Notes the name of an object's class, if there is room.
///
/// # Safety
/// `object` is a live reference of this thread, and `hash` the identity hash of its class.
pub(super) unsafe fn know(jni: &JniEnv, hash: ClassHash, object: jni::jobject) {
    let is_full = || slots(hash).all(|slot| slot.load(Ordering::Relaxed) != 0);
    if known(hash).is_some() || is_full() {
        return;
    }
    let Some(jvmti) = java_threads::get_jvmti() else { return };
    // SAFETY: the caller guarantees the reference.
    let number = unsafe { class_names::number(&jvmti, jni, object) };
    if number != ClassNumber::NONE {
        put(hash, number);
    }
}

fn put(hash: ClassHash, number: ClassNumber) {
    let new = u64::from(hash.bits()) << 32 | u64::from(number.bits());
    for slot in slots(hash) {
        match slot.compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire) {
            Err(other) if halves(other).0 != hash.bits() => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_found_by_their_hashes() {
        let [slots, tries] = [SLOTS, TRIES].map(|number| u32::try_from(number).unwrap());
        let known = |hash| known(ClassHash::new(hash)).map(ClassNumber::bits);
        let put = |hash, number| put(ClassHash::new(hash), ClassNumber::from_bits(number));
        assert_eq!(known(77), None);
        put(77, 3);
        put(77, 3);
        // Their slots follow one another.
        for more in 1..20 {
            put(77 + more * slots, 3 + more);
        }
        for more in 0..tries {
            assert_eq!(known(77 + more * slots), Some(3 + more));
        }
        assert_eq!(known(77 + tries * slots), None);
    }
}
