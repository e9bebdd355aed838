//! The agent's interface to the JVM: its probe class, threads, class loaders, pauses.

pub(crate) mod class_names;
pub(crate) mod facts;
pub(crate) mod java_strings;
pub(crate) mod java_threads;
pub(crate) mod loaders;
pub(crate) mod mounted_lately;
pub(crate) mod native_binding;
pub(crate) mod pauses;
pub(crate) mod probe_class;
pub(crate) mod service;
pub(crate) mod statement_class;
pub(crate) mod thread_key;
pub(crate) mod virtual_threads;
