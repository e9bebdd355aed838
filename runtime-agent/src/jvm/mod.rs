//! The agent's interface to the JVM, by JNI and JVMTI: its probe class, threads, class loaders, pauses. What only
//! HotSpot's tables know is in [`crate::hotspot`].
//!
//! ```text
//! probe_class, statement_class   the classes that probes call, and their switches
//! native_binding                 the native methods of these classes
//! java_threads, thread_key       names of threads, and which one this is
//! virtual_threads, recent_mounts   mounts of virtual threads
//! loaders, class_names           class loaders and classes, without keeping them alive
//! java_strings, facts, service   texts, versions and modules, the program's name
//! pauses                         how long the agent has stopped threads
//! ```

pub(crate) mod class_names;
pub(crate) mod java_strings;
pub(crate) mod java_threads;
pub(crate) mod jvm_properties;
pub(crate) mod loaders;
pub(crate) mod native_binding;
pub(crate) mod pauses;
pub(crate) mod probe_class;
pub(crate) mod recent_mounts;
pub(crate) mod service;
pub(crate) mod statement_class;
pub(crate) mod thread_key;
pub(crate) mod virtual_threads;
