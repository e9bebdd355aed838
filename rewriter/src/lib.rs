//! Instruments class files: takes class bytes and a selector, returns class bytes with probes.
//!
//! Every selected method gets a call of [`probe::START`] at its entry, of [`probe::END`] before each return and of
//! [`probe::THREW`] when an exception leaves it, so that each call of the method ends exactly once. The only
//! exception that no bytecode can catch is one out of a constructor's own `super(...)` call. For it, each handler
//! whose range runs Java code begins with [`probe::CAUGHT`], and [`probe::INITIALIZED`] follows that call.
//!
//! This is a patcher, not an assembler: the constant pool is copied and appended to, the Code attributes of the
//! selected methods are rebuilt, and every other byte is copied unchanged. No input makes it panic: a malformed class
//! is an [`Error`], a method that cannot be instrumented a [`Skip`].
//!
//! Begin to read at [`Rewriter::rewrite`]. `code_layout` plans where the probes go, `overflow_handlers` what happens if
//! one of a handler overflows the stack, `emit` writes the new code, `stack_map`, `tables` and `annotations` move what
//! refers to code offsets; `probe_constants` appends to the constant pool.
//!
//! ```no_run
//! use rewriter::{ClassInfo, MethodInfo, Outcome, ProbeId, Rewriter, Selector};
//!
//! /// Numbers all methods.
//! struct All(u32);
//!
//! impl Selector for All {
//!     fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
//!         self.0 += 1;
//!         ProbeId::new(self.0)
//!     }
//! }
//!
//! let class = std::fs::read("Order.class")?;
//! if let Outcome::Rewritten(rewritten) = Rewriter::new().rewrite(&class, &mut All(0))? {
//!     println!("{} methods", rewritten.methods);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod annotations;
mod backward_branch;
#[cfg(feature = "cli")]
pub mod cli;
mod code;
mod code_layout;
mod constant_pool;
mod constructor;
mod emit;
mod error;
mod instruction;
mod monitors;
mod mutf8;
mod opcode;
mod overflow_handlers;
pub mod probe;
mod probe_constants;
mod reader;
mod rewrite;
mod selector;
mod stack_effect;
mod stack_map;
mod straight_line;
mod tables;

pub use annotations::Annotations;
pub use backward_branch::has_backward_branch;
pub use error::{Error, ErrorKind, Skip};
pub use mutf8::Mutf8;
pub use rewrite::{Outcome, Rewriter, Rewritten, class_name};
pub use selector::{ClassInfo, MethodInfo, ProbeId, Selector};
