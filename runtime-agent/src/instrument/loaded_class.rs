//! A class that is loaded, while this thread holds a reference to it.
#![allow(unsafe_code)]

use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jni;

use super::load_hook::LoadHook;
use super::methods::ClassKey;
use super::statement_probes;
use crate::jvm::jvm_properties::internal_name;
use crate::jvm::loaders::{LoaderId, Loaders};

/// A loaded class.
#[derive(Clone, Copy)]
pub(crate) struct LoadedClass<'c> {
    jvmti: &'c Jvmti,
    jni: &'c JniEnv,
    class: jni::jclass,
}

impl<'c> LoadedClass<'c> {
    /// # Safety
    /// `class` is a live reference of this thread, and stays so for `'c`.
    pub(super) unsafe fn new(jvmti: &'c Jvmti, jni: &'c JniEnv, class: jni::jclass) -> Self {
        Self { jvmti, jni, class }
    }

    /// Its key; `None` for arrays and primitive types.
    pub(crate) fn key(&self) -> Option<ClassKey> {
        let name = internal_name(self.jvmti, self.class)?;
        // SAFETY: a live reference of this thread.
        let loader = unsafe { Loaders::all().of_class(self.jvmti, self.jni, self.class) }?;
        Some((loader.id, name))
    }

    /// Whether it is one of a JDBC driver's that needs probes, and the JVM can change it.
    pub(crate) fn is_of_driver(&self, load_hook: &LoadHook, key: &ClassKey) -> bool {
        statement_probes::wants(key)
            && self.is_application_class(load_hook, key.0, &key.1)
            && self.is_modifiable()
    }

    /// Whether the filters select it, and the JVM can change it.
    pub(crate) fn is_selected(&self, load_hook: &LoadHook, (loader, name): &ClassKey) -> bool {
        let Some(selection) = load_hook.classes.selects(name) else { return false };
        if !selection.is_included && !self.is_application_class(load_hook, *loader, name) {
            load_hook.classes.leave_out_jdk(name);
            return false;
        }
        self.is_modifiable()
    }

    fn is_modifiable(&self) -> bool {
        // SAFETY: a live reference of this thread.
        unsafe { self.jvmti.is_modifiable_class(self.class) }.unwrap_or(false)
    }

    fn is_application_class(&self, load_hook: &LoadHook, loader: LoaderId, name: &str) -> bool {
        let Self { jvmti, jni, class } = *self;
        // SAFETY: a live reference of this thread; that of the loader is given back.
        unsafe {
            let Ok(reference) = jvmti.get_class_loader(class) else { return false };
            let is_application =
                load_hook.loaders.is_application_class(jvmti, jni, reference, loader, name);
            if !reference.is_null() {
                jni.delete_local_ref(reference);
            }
            is_application
        }
    }
}
