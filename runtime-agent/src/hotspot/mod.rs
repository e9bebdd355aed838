//! What HotSpot's own tables for debuggers say, and what can be read with them: threads, methods, stacks.
//!
//! ```text
//! tables           where HotSpot's structures have their fields
//! thread_list      the Java threads that live now
//! method_ids       ids of old versions of methods
//! method_names     names of the methods in samples
//! own_stack        the stack of the calling thread
//! allocated_bytes  where HotSpot counts what a thread has allocated
//! ```
//! Another JVM, or a newer one, may have other fields: each user of one has a self-test, or works without it.

pub(crate) mod allocated_bytes;
pub(crate) mod method_ids;
pub(crate) mod method_names;
pub(crate) mod own_stack;
pub(crate) mod tables;
pub(crate) mod thread_list;

/// What this JVM does not say.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("this JVM does not say {0}")]
pub(crate) struct NotSaid(pub String);
