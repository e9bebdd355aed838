//! Cost of rewriting a class and of rejecting one, by criterion: `cargo bench -p rewriter`. It takes
//! the classes that the build has made of this crate's own test input; `scripts/bench-rewriter.sh`
//! measures a whole JDK.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use log_format::pattern::{ClassMatch, Filter, Pattern};
use rewriter::{ClassInfo, MethodId, MethodInfo, Rewriter, Selector};

struct All;

impl Selector for All {
    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<MethodId> {
        MethodId::new(70_000)
    }
}

struct Nothing;

impl Selector for Nothing {
    fn selects(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> bool {
        false
    }

    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<MethodId> {
        None
    }
}

fn rewrite(criterion: &mut Criterion) {
    // Any class will do: REWRITE_CLASS names one.
    let path = std::env::var("REWRITE_CLASS");
    let Some(class) = path.ok().map(|path| std::fs::read(path).unwrap()) else {
        println!("set REWRITE_CLASS to a class file to measure the rewriting of it");
        return;
    };
    let mut group = criterion.benchmark_group("class");
    group.throughput(Throughput::Bytes(class.len() as u64));
    let mut rewriter = Rewriter::new();
    group.bench_function("rewrite", |b| b.iter(|| rewriter.rewrite(black_box(&class), &mut All)));
    group.bench_function("nothing selected", |b| {
        b.iter(|| rewriter.rewrite(black_box(&class), &mut Nothing));
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
