//! Any files as a run: the reading neither panics nor loops, its sums are those of reading line by
//! line, and each form of report is made.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    analyzer::line_by_line::check(input);
});
