//! Class loaders: their ids and names, and which classes belong to the application.
#![allow(unsafe_code)]

use std::collections::HashSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use dashmap::DashMap;
use jvmti_bindings::env::{JniEnv, Jvmti};
use jvmti_bindings::prelude::jni;
use log_format::descriptor::class_name;

/// A class loader: the JVMTI tag of the loader object, so it ends with the loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LoaderId(u64);

impl LoaderId {
    /// The loader with this number.
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    fn of_tag(tag: jni::jlong) -> Self {
        Self(tag.cast_unsigned())
    }

    fn tag(self) -> jni::jlong {
        self.0.cast_signed()
    }
}

/// A class loader as the log names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loader {
    pub id: LoaderId,
    pub name: String,
}

impl Loader {
    /// The class of a loader that is logged by another name.
    pub(crate) fn class(&self) -> Option<&'static str> {
        match self.id {
            PLATFORM => Some("jdk.internal.loader.ClassLoaders$PlatformClassLoader"),
            APP => Some("jdk.internal.loader.ClassLoaders$AppClassLoader"),
            _ => None,
        }
    }
}

const BOOT: LoaderId = LoaderId::new(0);
const PLATFORM: LoaderId = LoaderId::new(1);
const APP: LoaderId = LoaderId::new(2);
const FIRST_OTHER: u64 = 3;

/// Packages of the JDK in any loader: its code generators put classes there.
const JDK_PREFIXES: [&str; 3] = ["java/", "jdk/", "sun/"];

/// The loaders seen so far.
#[derive(Debug)]
pub(crate) struct Loaders {
    next: Mutex<u64>,
    /// Names of loaders that are neither boot, platform nor app.
    names: DashMap<LoaderId, String>,
    /// For packages of the app loader: whether they belong to a module of the JDK.
    jdk_packages: DashMap<String, bool>,
}

/// The loaders of this JVM. The loader objects carry their numbers, so these persist across attachments.
static LOADERS: OnceLock<Loaders> = OnceLock::new();

/// Freed loaders that nobody has handled yet. The JVM reports them during a garbage collection, so nobody may hold the
/// lock while waiting for the JVM.
static GONE: Mutex<Vec<LoaderId>> = Mutex::new(Vec::new());

/// Notes that a tagged object was freed.
pub(crate) fn object_freed(tag: jni::jlong) {
    let mut gone = GONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Without memory, its classes stay known until the next attach finds that it is gone.
    if gone.try_reserve(1).is_ok() {
        gone.push(LoaderId::of_tag(tag));
    }
}

/// Finds loaders that were freed. Between attachments the JVM reports none.
pub(crate) fn find_gone(jvmti: &Jvmti, jni: &JniEnv) {
    let known: HashSet<LoaderId> = Loaders::all().names.iter().map(|entry| *entry.key()).collect();
    let tags: Vec<jni::jlong> = known.iter().map(|id| id.tag()).collect();
    if tags.is_empty() {
        return;
    }
    let _frame = jni.push_local_frame(jni::jint::try_from(tags.len()).unwrap_or(jni::jint::MAX));
    let Ok((_, tags)) = jvmti.get_objects_with_tags(&tags) else { return };
    let live: HashSet<LoaderId> = tags.into_iter().map(LoaderId::of_tag).collect();
    known.difference(&live).for_each(|id| object_freed(id.tag()));
}

/// Forgets the freed loaders, and returns them.
pub(crate) fn take_gone() -> HashSet<LoaderId> {
    let gone = std::mem::take(&mut *GONE.lock().unwrap_or_else(PoisonError::into_inner));
    let gone: HashSet<LoaderId> = gone.into_iter().collect();
    for id in &gone {
        Loaders::all().names.remove(id);
    }
    gone
}

impl Loaders {
    pub(crate) fn all() -> &'static Self {
        LOADERS.get_or_init(|| Self {
            next: Mutex::new(FIRST_OTHER),
            names: DashMap::new(),
            jdk_packages: DashMap::new(),
        })
    }

    /// The loader of a class; null is the boot loader.
    ///
    /// # Safety
    /// `loader` is a live reference of this thread, or null.
    pub(crate) unsafe fn get(&self, jvmti: &Jvmti, jni: &JniEnv, loader: jni::jobject) -> Loader {
        // SAFETY: the caller guarantees it.
        let id = unsafe { self.id(jvmti, jni, loader) };
        let name = match id {
            BOOT => "boot".to_owned(),
            PLATFORM => "platform".to_owned(),
            APP => "app".to_owned(),
            _ => self.names.get(&id).map_or_else(String::new, |name| name.clone()),
        };
        Loader { id, name }
    }

    /// The loader of a loaded class.
    ///
    /// # Safety
    /// `class` is a live reference of this thread.
    pub(crate) unsafe fn of_class(
        &self,
        jvmti: &Jvmti,
        jni: &JniEnv,
        class: jni::jclass,
    ) -> Option<Loader> {
        // SAFETY: the caller guarantees the class; the loader's reference is deleted.
        unsafe {
            let loader = jvmti.get_class_loader(class).ok()?;
            let known = self.get(jvmti, jni, loader);
            if !loader.is_null() {
                jni.delete_local_ref(loader);
            }
            Some(known)
        }
    }

    unsafe fn id(&self, jvmti: &Jvmti, jni: &JniEnv, loader: jni::jobject) -> LoaderId {
        if loader.is_null() {
            return BOOT;
        }
        // SAFETY: the caller guarantees that `loader` is live.
        let tag = || unsafe { jvmti.get_tag(loader) }.ok().filter(|tag| *tag != 0);
        if let Some(tag) = tag() {
            return LoaderId::of_tag(tag);
        }
        // Only one thread at a time assigns a new number.
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tag) = tag() {
            return LoaderId::of_tag(tag);
        }
        // SAFETY: `loader` is live.
        let class = unsafe { jni.get_object_class(loader) };
        // SAFETY: its class is a live reference of this thread, deleted right after.
        let signature = unsafe { jvmti.get_class_signature(class) };
        // SAFETY: as above.
        unsafe { jni.delete_local_ref(class) };
        let signature =
            signature.map_or_else(|_| "Lloader;".to_owned(), |(signature, _)| signature);
        // There is one object of each, even if the application sets its own system class loader.
        let id = match &*signature {
            "Ljdk/internal/loader/ClassLoaders$AppClassLoader;" => APP,
            "Ljdk/internal/loader/ClassLoaders$PlatformClassLoader;" => PLATFORM,
            other => {
                let number = *next;
                *next += 1;
                let id = LoaderId::new(number);
                self.names.insert(id, format!("{}#{number}", class_name(other)));
                id
            }
        };
        // SAFETY: `loader` is live. Without the tag it gets another number next time.
        let _ = unsafe { jvmti.set_tag(loader, id.tag()) };
        id
    }

    /// Whether a class belongs to the application and not to the JDK, if no include decides.
    ///
    /// # Safety
    /// `loader` is a live reference of this thread, or null, and its id is `id`.
    pub(crate) unsafe fn is_application_class(
        &self,
        jvmti: &Jvmti,
        jni: &JniEnv,
        loader: jni::jobject,
        id: LoaderId,
        class: &str,
    ) -> bool {
        if id == BOOT || id == PLATFORM {
            return false;
        }
        if JDK_PREFIXES.iter().any(|prefix| class.starts_with(prefix)) {
            return false;
        }
        if id != APP {
            return true;
        }
        // The JDK's compiler and other tools are in the app loader too, in modules of their own.
        let package = class.rsplit_once('/').map_or("", |(package, _)| package);
        if let Some(is_jdk) = self.jdk_packages.get(package) {
            return !*is_jdk;
        }
        // SAFETY: the caller guarantees the loader; the returned reference is deleted.
        let module = unsafe { jvmti.get_named_module(loader, package) };
        let is_jdk = match module {
            Ok(module) if !module.is_null() => {
                // SAFETY: a live reference of this thread to a java.lang.Module.
                let name = unsafe { module_name(jni, module) }.unwrap_or_default();
                // SAFETY: as above.
                unsafe { jni.delete_local_ref(module) };
                name.starts_with("java.") || name.starts_with("jdk.")
            }
            _ => false,
        };
        self.jdk_packages.insert(package.to_owned(), is_jdk);
        !is_jdk
    }
}

/// Reads the name from its field, because no Java code of the application may run here.
///
/// # Safety
/// `module` is a live reference of this thread to a java.lang.Module.
unsafe fn module_name(jni: &JniEnv, module: jni::jobject) -> Option<String> {
    // SAFETY: the class is that of the module and has this field since Java 9; the exception for a missing field is
    // cleared.
    unsafe {
        let class = jni.get_object_class(module);
        let field = jni.get_field_id(class, "name", "Ljava/lang/String;");
        jni.delete_local_ref(class);
        if field.is_none() {
            jni.exception_clear();
        }
        let name = jni.get_object_field(module, field?);
        if name.is_null() {
            return None;
        }
        let text = jni.get_string_utf(name);
        jni.delete_local_ref(name);
        text
    }
}
