//! Numbers of classes: JVMTI tags of the class objects, so nothing here keeps a class or its loader alive.
#![allow(unsafe_code)]

use std::sync::{Mutex, PoisonError};

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jni;
use log_format::descriptor::class_name;
use log_format::writer::one_line;

/// Marks tags of classes; those of class loaders are below it.
const TAG: jni::jlong = 1 << 62;
/// Marks numbers of the class objects themselves, like `Stock.class`.
const CLASS_OBJECT: u32 = 1 << 31;
/// Users of numbers may put something else into these bits.
pub(crate) const FREE_BITS: u32 = 0b11 << 29;
const FLAGS: u32 = CLASS_OBJECT | FREE_BITS;
const _: () = assert!(MOST < 1 << 29);
/// More classes are not told apart.
const MOST: usize = 10_000;
/// The number of `java.lang.Class`, which is the first.
const JAVA_LANG_CLASS: ClassNumber = ClassNumber(1);

/// The number of a class, or of the class object itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClassNumber(u32);

impl ClassNumber {
    /// Instead of a number, where a class has none.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    const fn of_class_object(self) -> Self {
        Self(self.0 | CLASS_OBJECT)
    }
}

/// Names by number, from 1 on.
static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Whether a tag is that of a class.
pub(crate) const fn is_class_tag(tag: jni::jlong) -> bool {
    tag & TAG != 0
}

/// The number of the class of an object.
///
/// # Safety
/// `object` is a live reference of this thread.
pub(crate) unsafe fn number(jvmti: &Jvmti, jni: &JniEnv, object: jni::jobject) -> ClassNumber {
    // SAFETY: the caller guarantees the object. The class is a live reference of this thread until it is deleted.
    unsafe {
        let class = jni.get_object_class(object);
        let number = of_class(jvmti, class);
        jni.delete_local_ref(class);
        match number {
            JAVA_LANG_CLASS => of_class(jvmti, object).of_class_object(),
            number => number,
        }
    }
}

/// The number of a class.
///
/// # Safety
/// `class` is a live reference of this thread.
pub(crate) unsafe fn of_class(jvmti: &Jvmti, class: jni::jclass) -> ClassNumber {
    // SAFETY: the caller guarantees it.
    let tag = unsafe { jvmti.get_tag(class) };
    if let Some(number) = tag.ok().and_then(of_tag) {
        return number;
    }
    // SAFETY: as above.
    let Ok((signature, _)) = (unsafe { jvmti.get_class_signature(class) }) else {
        return ClassNumber::NONE;
    };
    let number = number_of(one_line(&class_name(&signature)));
    // SAFETY: as above. Without the tag, it is asked for again. Not under the lock of the names: somebody may suspend
    // this thread.
    let _ = unsafe { jvmti.set_tag(class, TAG | jni::jlong::from(number.bits())) };
    number
}

/// The number of a class with this name, always the same; none if there are too many.
pub(crate) fn number_of(name: String) -> ClassNumber {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if names.is_empty() {
        names.push("java.lang.Class".to_owned());
    }
    let known = names.iter().position(|known| *known == name);
    let index = known.unwrap_or(names.len());
    if known.is_none() && index < MOST {
        names.push(name);
    }
    let number = u32::try_from(index + 1).ok().filter(|_| index < MOST);
    number.map_or(ClassNumber::NONE, ClassNumber)
}

fn of_tag(tag: jni::jlong) -> Option<ClassNumber> {
    is_class_tag(tag).then(|| u32::try_from(tag & !TAG).ok().map(ClassNumber))?
}

/// The name of a class, as the log has it.
pub(crate) fn name(ClassNumber(number): ClassNumber) -> String {
    let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let index = (number & !FLAGS).checked_sub(1).and_then(|index| usize::try_from(index).ok());
    match index.and_then(|index| names.get(index)) {
        Some(name) if number & CLASS_OBJECT != 0 => format!("{name}.class"),
        Some(name) => name.clone(),
        None => "[other classes]".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_numbers_and_names() {
        let number = number_of("com.shop.Stock".to_owned());
        assert_eq!(number_of("com.shop.Stock".to_owned()), number);
        assert_eq!(name(number), "com.shop.Stock");
        assert_eq!(name(number.of_class_object()), "com.shop.Stock.class");
        assert_eq!(number_of("java.lang.Class".to_owned()), JAVA_LANG_CLASS);
        assert_eq!(of_tag(TAG | 7), Some(ClassNumber(7)));
        assert_eq!(of_tag(7), None);
        assert_eq!(name(ClassNumber::NONE), "[other classes]");
        assert_eq!(name(ClassNumber(number.bits() | FREE_BITS)), "com.shop.Stock");
    }
}
