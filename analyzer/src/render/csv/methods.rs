//! The methods' rows.

use std::io::Write;

use csv::WriterBuilder;

use crate::options::By;
use crate::report::Report;
use crate::report::cpu::SampledMethod;
use crate::report::groups::MethodReport;
use crate::report::not_counted::NotCounted;
use crate::stats::method::Method;
use crate::stats::sampled_stacks::CpuFigures;

const COLUMNS: [&str; 18] = [
    "class",
    "method",
    "descriptor",
    "calls",
    "throws",
    "total_ns",
    "self_ns",
    "avg_ns",
    "max_ns",
    "p50_ns",
    "p95_ns",
    "p99_ns",
    "throttled_ns",
    "probe_ns",
    "cpu_self_ns",
    "cpu_total_ns",
    "samples",
    "muted_ns",
];

/// `calls` to `p99_ns`.
const EXACT_COLUMNS: usize = 9;

/// Writes the rows, those of sampled methods last.
pub(super) fn write(report: &Report, out: &mut dyn Write) -> csv::Result<()> {
    let mut writer = WriterBuilder::new().from_writer(out);
    let by = report.layout.by;
    // The class already has its own column.
    let key = by.column().filter(|_| by != By::Class);
    writer.write_record(key.into_iter().chain(COLUMNS))?;
    for group in &report.methods.groups {
        let label = group.label.as_ref().filter(|_| key.is_some());
        for method in &group.methods {
            writer.write_record(fields(label, method))?;
        }
    }
    for sampled in &report.samples.cpu.only_sampled {
        let label = sampled.label.as_ref().filter(|_| key.is_some());
        writer.write_record(fields_of_sampled(label, sampled))?;
    }
    writer.flush()?;
    Ok(())
}

fn fields(label: Option<&String>, method: &MethodReport) -> Vec<String> {
    let figures = &method.figures;
    let mut fields = names(label, &method.method);
    let sums = [figures.calls, figures.throws, figures.total_ns, figures.self_ns];
    fields.extend(sums.map(|sum| sum.to_string()));
    let [p50, p95, p99] = figures.percentiles_ns();
    let of_calls = [figures.avg_ns(), Some(figures.max_ns), p50, p95, p99];
    fields.extend(of_calls.map(|ns| ns.map(|ns| ns.to_string()).unwrap_or_default()));
    let NotCounted { throttled_ns, muted_ns } = method.not_counted;
    fields.push(throttled_ns.unwrap_or(0).to_string());
    fields.push(method.probe_ns.map(|ns| ns.to_string()).unwrap_or_default());
    fields.extend(cpu_fields(method.cpu));
    fields.push(muted_ns.unwrap_or(0).to_string());
    fields
}

fn fields_of_sampled(label: Option<&String>, sampled: &SampledMethod) -> Vec<String> {
    let mut fields = names(label, &sampled.method);
    fields.extend([const { String::new() }; EXACT_COLUMNS]);
    let NotCounted { throttled_ns, muted_ns } = sampled.not_counted;
    fields.extend([throttled_ns.unwrap_or(0).to_string(), String::new()]);
    fields.extend(cpu_fields(Some(sampled.cpu)));
    fields.push(muted_ns.unwrap_or(0).to_string());
    fields
}

fn names(label: Option<&String>, method: &Method) -> Vec<String> {
    let (class, name, descriptor) = method.parts();
    let names = [class.to_owned(), name.into_owned(), descriptor.to_owned()];
    label.into_iter().cloned().chain(names).collect()
}

fn cpu_fields(cpu: Option<CpuFigures>) -> [String; 3] {
    let Some(CpuFigures { self_ns, total_ns, samples, .. }) = cpu else {
        return Default::default();
    };
    [self_ns, total_ns, samples].map(|figure| figure.to_string())
}
