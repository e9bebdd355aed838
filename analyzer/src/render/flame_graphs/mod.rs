//! Whole stacks with their times, for flame graphs and for the tools that draw them.
//!
//! [`svg`] is a flame graph itself, [`speedscope`] and [`pprof`] are for the tools with these names. [`collapsed`]
//! has a line for each stack; it makes the stacks of the others too, and of the call trees in text. Profile tasks use
//! [`svg`].

pub(super) mod collapsed;
pub(super) mod pprof;
pub(super) mod speedscope;
pub(super) mod svg;
