//! The page's table of methods: those with exact figures, then those that were only sampled, then those with only a
//! name.

use std::collections::HashMap;

use serde::Serialize;

use crate::render::shared::labels::Labels;
use crate::report::cpu::SampledMethod;
use crate::report::groups::MethodReport;
use crate::report::not_counted::NotCounted;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::CpuFigures;

/// Methods are embedded until so many bytes are used, the busiest first, and their histograms until so many.
const METHOD_BYTES: usize = 8_000_000;
const HISTOGRAM_BYTES: usize = 4_000_000;

/// Bytes of a method's figures, without its name.
const FIGURES_BYTES: usize = 80;

/// Bytes of a histogram bucket.
const BUCKET_BYTES: usize = 7;

/// A row for each method.
#[derive(Default, Serialize)]
pub(super) struct Methods {
    class: Vec<usize>,
    name: Vec<String>,
    calls: Vec<u64>,
    throws: Vec<u64>,
    total: Vec<u64>,
    own: Vec<u64>,
    max: Vec<u64>,
    p50: Vec<Option<u64>>,
    p95: Vec<Option<u64>>,
    p99: Vec<Option<u64>>,
    /// How long it was throttled, and muted, in nanoseconds.
    throttled: Vec<u64>,
    muted: Vec<u64>,
    /// Whether its figures lack some time because of that.
    partial: Vec<bool>,
    mostly_probe: Vec<bool>,
    /// Whether its average is too low.
    recursive: Vec<bool>,
    /// CPU time by samples; nothing if there are none.
    cpu_self: Vec<u64>,
    cpu_total: Vec<u64>,
    /// With the JDK code that it calls.
    cpu_jdk: Vec<u64>,
    samples: Vec<u64>,
    /// Buckets and their counts, alternating; only for the busiest methods.
    hist: Vec<Vec<u64>>,
}

/// Methods that are not embedded.
#[derive(Default, Serialize)]
pub(super) struct NotShown {
    methods: u64,
    calls: u64,
    throws: u64,
    own: u64,
    only_sampled: u64,
}

/// The methods that are embedded with figures, and those with only a name: an unfinished or slow call may be of a
/// method in none of the tables.
pub(super) struct Table<'r, 'l> {
    labels: &'l Labels,
    pub(super) methods: Methods,
    pub(super) places: HashMap<&'r Method, usize>,
    pub(super) classes: Vec<&'r str>,
    class_places: HashMap<&'r str, usize>,
    bytes: usize,
    histogram_bytes: usize,
    /// What the budgets are divided by.
    scale: usize,
}

impl<'r, 'l> Table<'r, 'l> {
    pub(super) fn new(labels: &'l Labels, scale: usize) -> Self {
        Self {
            labels,
            methods: Methods::default(),
            places: HashMap::new(),
            classes: Vec::new(),
            class_places: HashMap::new(),
            bytes: 0,
            histogram_bytes: 0,
            scale,
        }
    }

    pub(super) fn add(&mut self, row: &'r MethodReport, not_shown: &mut NotShown) {
        let figures = &row.figures;
        if self.bytes > METHOD_BYTES / self.scale {
            not_shown.methods += 1;
            not_shown.calls = not_shown.calls.saturating_add(figures.calls);
            not_shown.throws = not_shown.throws.saturating_add(figures.throws);
            not_shown.own = not_shown.own.saturating_add(figures.self_ns);
            return;
        }
        self.name(&row.method);
        let methods = &mut self.methods;
        methods.calls.push(figures.calls);
        methods.throws.push(figures.throws);
        methods.total.push(figures.total_ns);
        methods.own.push(figures.self_ns);
        methods.max.push(figures.max_ns);
        let [p50, p95, p99] = figures.percentiles_ns();
        methods.p50.push(p50);
        methods.p95.push(p95);
        methods.p99.push(p99);
        methods.add_not_counted(row.not_counted, row.not_counted.is_any());
        methods.mostly_probe.push(row.is_mostly_probe());
        methods.recursive.push(row.is_recursive);
        methods.add_cpu(row.cpu);
        if self.histogram_bytes < HISTOGRAM_BYTES / self.scale {
            let buckets = figures.hist.buckets();
            let buckets: Vec<u64> = buckets.flat_map(|(b, count)| [u64::from(b), count]).collect();
            self.histogram_bytes += buckets.len() / 2 * BUCKET_BYTES;
            methods.hist.push(buckets);
        }
    }

    /// How many methods have figures so far.
    pub(super) fn listed(&self) -> usize {
        self.methods.calls.len()
    }

    /// Adds a method without exact figures, after all that have some.
    pub(super) fn add_sampled(&mut self, row: &'r SampledMethod, not_shown: &mut NotShown) {
        if self.bytes > METHOD_BYTES / self.scale {
            not_shown.only_sampled += 1;
            return;
        }
        self.name(&row.method);
        let methods = &mut self.methods;
        for exact in [
            &mut methods.calls,
            &mut methods.throws,
            &mut methods.total,
            &mut methods.own,
            &mut methods.max,
        ] {
            exact.push(0);
        }
        for percentile in [&mut methods.p50, &mut methods.p95, &mut methods.p99] {
            percentile.push(None);
        }
        methods.add_not_counted(row.not_counted, !row.sign().is_empty());
        methods.mostly_probe.push(false);
        methods.recursive.push(false);
        methods.add_cpu(Some(row.cpu));
    }

    /// The index of a method's name, which is added if missing.
    pub(super) fn place(&mut self, method: &'r Method) -> usize {
        match self.places.get(method) {
            Some(place) => *place,
            None => self.name(method),
        }
    }

    fn name(&mut self, method: &'r Method) -> usize {
        let class = method.parts().0;
        let label = self.labels.of(method);
        let name = label.strip_prefix(class).and_then(|rest| rest.strip_prefix('.'));
        // If a class's name had to be changed to be shown, it is only in the label.
        let (class, name) = match name {
            Some(name) => (class, name.to_owned()),
            None => ("", label),
        };
        let next = self.classes.len();
        let at = *self.class_places.entry(class).or_insert(next);
        if at == next {
            self.classes.push(class);
            self.bytes += class.len();
        }
        self.bytes += name.len() + FIGURES_BYTES;
        self.methods.class.push(at);
        self.methods.name.push(name);
        let place = self.methods.class.len() - 1;
        self.places.insert(method, place);
        place
    }
}

impl Methods {
    fn add_not_counted(&mut self, time: NotCounted, is_partial: bool) {
        self.throttled.push(time.throttled_ns.unwrap_or(0));
        self.muted.push(time.muted_ns.unwrap_or(0));
        self.partial.push(is_partial);
    }

    fn add_cpu(&mut self, cpu: Option<CpuFigures>) {
        let Some(CpuFigures { self_ns, total_ns, with_jdk_ns, samples, .. }) = cpu else { return };
        self.cpu_self.push(self_ns);
        self.cpu_total.push(total_ns);
        self.cpu_jdk.push(with_jdk_ns);
        self.samples.push(samples);
    }
}
