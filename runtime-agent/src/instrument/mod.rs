//! Instruments classes: new ones while the JVM loads them, loaded ones by retransformation, which removes probes too.
//!
//! ```text
//! load_hook         instruments classes while the JVM loads them
//! class_hook        which classes are instrumented
//! park_probes       probes of LockSupport
//! statement_probes  probes of JDBC drivers
//! guards            whose calls are turned away: muted, throttled
//! method_states     the states of the methods that a pattern matches
//! retransformation  which loaded classes are to be retransformed
//! class_changes     when each of them may be
//! change_counts     what became of them
//! postponed         the classes that may not be yet, and why
//! caught_loops      loops that began just before their class was retransformed
//! activations       running loops, found by looks at stacks
//! ages              how long they have been running
//! virtual_loops     calls of virtual threads, by shadow stacks
//! stack_reader      stacks, with short pauses
//! batches           retransformation with short pauses
//! batch_size        how much fits into a short pause
//! first_pause       whether the first retransformation would take too long
//! vm_thread         how long the VM thread, which does all that, had to wait
//! restore           restores classes after a run
//! stale_classes     classes that still have probes at the next attach
//! ```

mod activations;
mod ages;
mod batch_size;
mod batches;
mod caught_loops;
pub(crate) mod change_counts;
pub(crate) mod class_changes;
pub(crate) mod class_hook;
pub(crate) mod class_log;
pub(crate) mod first_pause;
pub(crate) mod guards;
pub(crate) mod include_hints;
pub(crate) mod load_hook;
pub(crate) mod loaded_class;
mod long_calls;
pub(crate) mod method_states;
pub(crate) mod methods;
pub(crate) mod park_probes;
pub(crate) mod postponed;
pub(crate) mod restore;
pub(crate) mod retransformation;
mod stack_reader;
pub(crate) mod stale_classes;
pub(crate) mod statement_probes;
pub(crate) mod virtual_loops;
mod vm_thread;
