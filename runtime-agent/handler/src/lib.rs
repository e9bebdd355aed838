//! What the profiler runs in a signal handler: a sample of the interrupted thread, with its stack.
//!
//! ```text
//! signal   the handler: is the signal ours? take a sample, put it into the queue
//!   walk     the interrupted thread's frames: native ones, and Java's by HotSpot's own data
//!     vm_layout    where HotSpot has its fields; filled in by the agent
//!     unwind_rows  how native functions lay out their frames; made by the agent
//!     load         loads from memory that may not be mapped
//!   kernel_stacks  where the thread was in the kernel, as its perf event says
//!   queue    samples on their way to the agent thread
//!   threads  what is known about threads, by the kernel's number
//! ```
//! Begin to read at [`signal`]. All of it is async-signal-safe: the crate has neither `std` nor `alloc` nor
//! dependencies.
#![no_std]
// Only parts of words are taken, and words have 64 bits.
#![allow(clippy::cast_possible_truncation)]

pub mod kernel_stacks;
pub mod load;
pub mod memory;
pub mod queue;
mod registers;
pub mod signal;
mod sys;
pub mod threads;
pub mod unwind_rows;
pub mod vm_layout;
pub mod walk;
