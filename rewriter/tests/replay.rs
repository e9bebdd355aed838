//! The fuzzer's corpus once more, with the toolchain that the project is built with.
#![allow(missing_docs, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "../fuzz/check.rs"]
mod check;
#[path = "../fuzz/seeds.rs"]
mod seeds;

use std::path::Path;

#[test]
fn the_corpus_is_as_it_should_be() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds.tar");
    let (mut seen, mut rewritten) = (0, 0);
    for seed in seeds::seeds(&seeds) {
        seen += 1;
        rewritten += u32::from(check::check(&seed));
    }
    println!("{seen} seeds, {rewritten} of them rewritten");
    assert!(seen > 300 && rewritten > 50, "{seen} seeds, {rewritten} rewritten");
}
