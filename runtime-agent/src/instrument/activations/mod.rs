//! Finds long-lived activations of methods with loops, by looking at stacks.
//!
//! Retransforming a class makes the running activations of its methods old. HotSpot compiles a running loop by
//! on-stack replacement, but never that of an old method: such a loop is interpreted, at a twentieth of its speed,
//! until the method returns. So a class is not retransformed while a method of its own that has a backward branch has
//! been running for long.
//!
//! Callers of the class's methods do not count: their code stays new. `ages` finds out from look to look how long an
//! activation has been running.
//!
//! ```text
//! stack_looks   which threads a look reads, and how often
//! stack_search  which activations are on a stack, and since when, by the thread's shadow stack
//! carriers      threads that carry virtual threads
//! ```

pub(super) mod carriers;
pub(super) mod stack_looks;
mod stack_search;

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use jvmti_bindings::prelude::jni;

use log_format::ids::JavaThreadId;

use crate::instrument::methods::Methods;

/// A running call of a method with a loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Activation {
    /// `Thread.getId()`.
    pub thread: JavaThreadId,
    /// How many frames are below it on the thread's stack.
    pub depth: usize,
    /// The JVM's id of the method.
    pub method: usize,
}

/// An activation, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub activation: Activation,
    /// Internal name.
    pub class: Rc<str>,
    pub method: Rc<str>,
    pub thread: Rc<str>,
    /// The earliest time at which it may have begun, in ticks, if the shadow stack knows calls of the method.
    pub began: Option<u64>,
    /// The same if the shadow stack knows every call of the method that was there, which one read does not prove.
    pub(super) likely_began: Option<u64>,
    /// The shadow stack says that it has been running for long.
    pub is_long: bool,
    /// The method is measured now: the shadow stack knows all its calls but the latest.
    pub is_measured: bool,
}

/// What a look found.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// Activations of current versions of methods.
    pub seen: Vec<Seen>,
    /// Activations of old versions: their loops are caught.
    pub old: Vec<Seen>,
    /// Frames on all stacks.
    pub frames: usize,
    /// There are threads that carry virtual ones.
    pub has_carriers: bool,
    /// All stacks that were to be read were read. Otherwise there may be more activations.
    pub is_complete: bool,
}

/// Live local references by internal name; of several classes with one name, any.
pub(super) type Classes = HashMap<String, jni::jclass>;

/// The methods that a look is for: those with loops of these classes, by internal name.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'l> {
    /// Null where only running methods matter.
    pub classes: &'l Classes,
    pub methods: &'l Methods,
    /// When to give up.
    pub deadline: Instant,
}
