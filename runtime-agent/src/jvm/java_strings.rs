//! Reads strings of Java.
#![allow(unsafe_code)]

use jvmti_bindings::env::JniEnv;
use jvmti_bindings::prelude::jni;

/// So many UTF-16 units are read.
const LONGEST: jni::jsize = 16_384;

/// The UTF-16 units of a string, as far as they are read; `None` for null, or without memory.
///
/// # Safety
/// `string` is a live reference of this thread to a string, or null.
pub(crate) unsafe fn units(jni: &JniEnv, string: jni::jstring) -> Option<Vec<u16>> {
    if string.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees it; the range is within the string, and the buffer as long.
    unsafe {
        let length = jni.get_string_length(string).min(LONGEST);
        let mut units = Vec::new();
        units.try_reserve_exact(usize::try_from(length).ok()?).ok()?;
        units.resize(usize::try_from(length).ok()?, 0);
        jni.get_string_region(string, 0, length, &mut units);
        Some(units)
    }
}
