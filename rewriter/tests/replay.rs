//! The fuzzer's corpus once more, with the toolchain that the project is built with.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../fuzz/check.rs"]
mod check;

use std::fs;
use std::path::Path;

#[test]
fn the_corpus_is_as_it_should_be() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    let (mut seen, mut rewritten) = (0, 0);
    for seed in fs::read_dir(seeds).unwrap() {
        seen += 1;
        rewritten += u32::from(check::check(&fs::read(seed.unwrap().path()).unwrap()));
    }
    println!("{seen} seeds, {rewritten} of them rewritten");
    assert!(seen > 300 && rewritten > 50, "{seen} seeds, {rewritten} rewritten");
}
