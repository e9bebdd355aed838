//! Measures the cost of keeping durations of recorded calls for percentiles, by method: the sketch of
//! `analyzer::stats::sketch` against the crate `sketches-ddsketch` with the same error.
//!
//! Usage: `cargo run --release -p analyzer --example sketch_costs [ROUNDS]`
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::hint::black_box;
use std::time::Instant;

use analyzer::stats::sketch::Sketch;
use sketches_ddsketch::{Config, DDSketch};

const CALLS: usize = 4_000_000;

/// Calls of this many methods in pseudo-random order: methods, and durations over six octaves.
fn calls(methods: u64) -> Vec<(usize, u64)> {
    let mut random = 88_172_645_463_325_252u64;
    let mut next = |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    let call = |_| {
        let method = next(methods);
        let spread = next(1_000_000) as f64 / 250_000.0 * (next(1_000_000) as f64 / 1e6);
        (method as usize, (1e6 * (1 + method % 7) as f64 * spread.exp()) as u64)
    };
    (0..CALLS).map(call).collect()
}

fn ns_per_call(begin: Instant) -> f64 {
    begin.elapsed().as_nanos() as f64 / CALLS as f64
}

fn main() {
    let rounds: u32 = std::env::args().nth(1).map_or(5, |n| n.parse().expect("a number"));
    println!("nanoseconds a call, the methods' sketches in turn; medians of {rounds} rounds");
    for methods in [50u64, 2_000, 50_000] {
        let calls = calls(methods);
        let (mut own, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let mut sketches = vec![Sketch::default(); methods as usize];
            let begin = Instant::now();
            calls.iter().for_each(|(method, ns)| sketches[*method].add(*ns));
            own.push(ns_per_call(begin));
            black_box(sketches);
            // Within 1.6%, like ours.
            let config = Config::new(1.0 / 64.0, 2_048, 1.0);
            let mut sketches = vec![DDSketch::new(config); methods as usize];
            let begin = Instant::now();
            calls.iter().for_each(|(method, ns)| sketches[*method].add(*ns as f64));
            theirs.push(ns_per_call(begin));
            black_box(sketches);
        }
        let median = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let (own, theirs) = (median(&mut own), median(&mut theirs));
        println!("{methods:>6} methods: {own:>5.1}, sketches-ddsketch {theirs:>5.1}");
    }
}
