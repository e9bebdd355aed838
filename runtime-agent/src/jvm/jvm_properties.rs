//! Facts about the JVM and its classes.
#![allow(unsafe_code)]

use jvmti_bindings::env::Jvmti;
use jvmti_bindings::prelude::jni;

/// The most local references that HotSpot lets a caller ask for.
pub(crate) const MOST_REFERENCES: jni::jint = 65_536;

/// The major version of Java: 8, 11, 17.
pub(crate) fn java_major(jvmti: &Jvmti) -> jni::jint {
    jvmti.get_version_number().map_or(0, |version| version >> 16 & 0xfff)
}

/// The internal name of a loaded class; `None` for arrays and primitive types.
pub(crate) fn internal_name(jvmti: &Jvmti, class: jni::jclass) -> Option<String> {
    // SAFETY: a live reference of the calling thread.
    let (signature, _) = unsafe { jvmti.get_class_signature(class) }.ok()?;
    Some(signature.strip_prefix('L')?.strip_suffix(';')?.to_owned())
}
