//! What several formats use: [`labels`] of methods, sentences on what is [`missing`], the [`output`] (a file or
//! standard output), and the loop over runs of formats that are [`streamed`] while the logs are read.
//!
//! Every format may use this folder. It uses none of them.

pub(super) mod labels;
pub(super) mod missing;
pub mod output;
pub(super) mod streamed;
