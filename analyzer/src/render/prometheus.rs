//! The methods' figures in Prometheus' text format, version 0.0.4: base units, `_total` for counters. It is a
//! snapshot of the logs, to be scraped once or put into a textfile collector.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::report::Report;
use crate::report::groups::MethodReport;
use crate::run::data::UnfinishedCall;
use crate::stats::aggregate::Figures;
use crate::stats::method::Method;

/// A metric of every method.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&Figures) -> String,
}

const OF_METHODS: [Metric; 5] = [
    Metric {
        name: "tprofiler_method_calls_total",
        kind: "counter",
        help: "Calls that ended, with a return or an exception.",
        value: |figures| figures.calls.to_string(),
    },
    Metric {
        name: "tprofiler_method_exceptions_total",
        kind: "counter",
        help: "Calls that ended with an exception.",
        value: |figures| figures.throws.to_string(),
    },
    Metric {
        name: "tprofiler_method_time_seconds_total",
        kind: "counter",
        help: "Time in the method and what it called; of a recursion only the outermost call counts.",
        value: |figures| seconds(figures.total_ns),
    },
    Metric {
        name: "tprofiler_method_self_time_seconds_total",
        kind: "counter",
        help: "Time in the method itself, without instrumented callees.",
        value: |figures| seconds(figures.self_ns),
    },
    Metric {
        name: "tprofiler_method_longest_call_seconds",
        kind: "gauge",
        help: "The longest call.",
        value: |figures| seconds(figures.max_ns),
    },
];

pub fn render(report: &Report, with_unfinished: bool, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<(String, &MethodReport)> = report
        .methods
        .groups
        .iter()
        .flat_map(|group| group.methods.iter().map(move |method| (group, method)))
        .map(|(group, method)| {
            // The class already has its label.
            let key = report.layout.by.column().filter(|key| *key != "class");
            (labels(&method.method, key.zip(group.label.as_deref())), method)
        })
        .collect();
    for metric in OF_METHODS.iter().filter(|_| !rows.is_empty()) {
        head(metric.name, metric.kind, metric.help, out)?;
        for (labels, method) in &rows {
            writeln!(out, "{}{labels} {}", metric.name, (metric.value)(&method.figures))?;
        }
    }
    if with_unfinished {
        unfinished_calls(&report.unfinished.calls, out)?;
    }
    let losses = &report.missing.losses;
    for (name, help, value) in [
        (
            "tprofiler_recorded_calls_dropped_total",
            "Recorded calls dropped because their thread's ring was full.",
            losses.log.recorded_calls_dropped,
        ),
        (
            "tprofiler_recorded_calls_over_budget_total",
            "Calls over the threshold that were not recorded, to stay within the hour's log budget.",
            losses.log.recorded_calls_over_budget,
        ),
        (
            "tprofiler_calls_lost_total",
            "Calls that were not counted.",
            losses.statistics.lost_calls,
        ),
    ] {
        head(name, "counter", help, out)?;
        writeln!(out, "{name} {value}")?;
    }
    Ok(())
}

fn unfinished_calls(calls: &[UnfinishedCall], out: &mut dyn Write) -> io::Result<()> {
    let mut by_method: BTreeMap<&Method, (u64, u64)> = BTreeMap::new();
    for call in calls {
        let (calls, longest_ns) = by_method.entry(&call.method).or_default();
        *calls += 1;
        *longest_ns = (*longest_ns).max(call.running_ns);
    }
    if by_method.is_empty() {
        return Ok(());
    }
    let name = "tprofiler_method_unfinished_calls";
    head(name, "gauge", "Calls in progress when recording stopped.", out)?;
    for (method, (calls, _)) in &by_method {
        writeln!(out, "{name}{} {calls}", labels(method, None))?;
    }
    let name = "tprofiler_method_longest_unfinished_call_seconds";
    head(name, "gauge", "The longest call in progress when recording stopped, up to then.", out)?;
    for (method, (_, longest_ns)) in &by_method {
        writeln!(out, "{name}{} {}", labels(method, None), seconds(*longest_ns))?;
    }
    Ok(())
}

fn head(name: &str, kind: &str, help: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn labels(method: &Method, key: Option<(&str, &str)>) -> String {
    let (class, name, descriptor) = method.parts();
    let of_method = [("class", class), ("method", &name), ("descriptor", descriptor)];
    let labels = key.into_iter().chain(of_method);
    let labels: Vec<String> =
        labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", labels.join(","))
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Nanoseconds as seconds, with all digits.
fn seconds(ns: u64) -> String {
    let (whole, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let text = format!("{whole}.{rest:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_all_digits_and_no_others() {
        for (ns, text) in [
            (0, "0"),
            (1, "0.000000001"),
            (1_500_000_000, "1.5"),
            (10_000_000_000, "10"),
            (u64::MAX, "18446744073.709551615"),
        ] {
            assert_eq!(seconds(ns), text);
        }
        assert_eq!(escaped("a\\b\"\n"), "a\\\\b\\\"\\n");
    }
}
