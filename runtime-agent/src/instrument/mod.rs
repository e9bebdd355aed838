//! Classes on their way into the JVM get probes; those that are loaded get them by retransformation, and lose them
//! by it.
//!
//! ```text
//! load_hook      classes on their way into the JVM
//! class_hook     which classes get probes
//! class_changes  loaded classes that are to pass the hook again, and when each may
//! activations    loops that run, by looks at stacks
//! ages           how long they have been running
//! virtual_loops  calls of virtual threads, by shadow stacks
//! stack_reader   stacks, with short pauses
//! batches        retransformation with short pauses
//! batch_size     how much fits into a short pause
//! first_pause    whether the first retransformation can be borne
//! vm_thread      how long the thread that does all that had to wait
//! restore        classes get their own bytes back
//! stale_classes  classes that did not get them, at the next attach
//! ```

mod activations;
mod ages;
mod batch_size;
mod batches;
pub(crate) mod class_changes;
pub(crate) mod class_hook;
pub(crate) mod class_log;
pub(crate) mod filters;
pub(crate) mod first_pause;
pub(crate) mod include_hints;
pub(crate) mod load_hook;
pub(crate) mod loaded_class;
mod long_calls;
pub(crate) mod methods;
pub(crate) mod muting;
pub(crate) mod restore;
mod stack_reader;
pub(crate) mod stale_classes;
pub(crate) mod virtual_loops;
mod vm_thread;
