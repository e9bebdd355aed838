//! Cost of rewriting classes and of rejecting one, by criterion: `cargo bench -p rewriter`. The
//! classes are a whole JDK's, in memory; `scripts/bench-rewriter.sh` provides them, and compares.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use log_format::pattern::{ClassMatch, Filter, Pattern};
use rewriter::{ClassInfo, MethodInfo, ProbeId, Rewriter, Selector};

struct All;

impl Selector for All {
    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
        ProbeId::new(70_000)
    }
}

struct Nothing;

impl Selector for Nothing {
    fn selects(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> bool {
        false
    }

    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
        None
    }
}

/// The classes of a JDK, which `scripts/bench-rewriter.sh` puts there: length, four bytes, and bytes
/// of each.
fn image() -> Option<Vec<Vec<u8>>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/image");
    let image = std::fs::read(path).ok()?;
    let mut classes = Vec::new();
    let mut rest = &image[..];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (class, after) = after.split_at(u32::from_be_bytes(*length) as usize);
        classes.push(class.to_vec());
        rest = after;
    }
    Some(classes)
}

fn rewrite(criterion: &mut Criterion) {
    let Some(classes) = image() else {
        println!("run scripts/bench-rewriter.sh once: it provides the classes of a JDK");
        return;
    };
    let bytes: usize = classes.iter().map(Vec::len).sum();
    let mut group = criterion.benchmark_group("all classes of a JDK");
    group.throughput(Throughput::Bytes(bytes as u64)).sample_size(20);
    let mut rewriter = Rewriter::new();
    group.bench_function("rewrite", |b| {
        b.iter(|| classes.iter().for_each(|c| drop(rewriter.rewrite(black_box(c), &mut All))));
    });
    group.bench_function("no method selected", |b| {
        b.iter(|| classes.iter().for_each(|c| drop(rewriter.rewrite(black_box(c), &mut Nothing))));
    });
    group.finish();
}

fn reject(criterion: &mut Criterion) {
    let patterns = |list: &[&str]| list.iter().map(|p| Pattern::parse(p).unwrap()).collect();
    let filter = Filter {
        include: patterns(&[
            "com.shop",
            "com.shop.dao.*Dao",
            "org.example.**.Service",
            "net.x.Y.z",
        ]),
        exclude: patterns(&["com.shop.util"]),
    };
    let class = "org/apache/lucene/search/ConstantScoreQuery$ConstantBulkScorer";
    assert_eq!(filter.class(class), ClassMatch::None);
    criterion.bench_function("reject by name", |b| b.iter(|| filter.class(black_box(class))));
}

criterion_group!(benches, rewrite, reject);
criterion_main!(benches);
