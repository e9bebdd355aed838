//! Any bytes: the rewriter neither panics nor loops, and what it writes it can read.
#![no_main]

#[path = "../check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|class: &[u8]| {
    check::check(class);
});
