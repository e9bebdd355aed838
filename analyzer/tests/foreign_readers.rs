//! Formats for other tools, read by those tools: Python's csv and json, `go tool pprof`, `promtool`, and in a browser
//! speedscope's page and Perfetto's.
//!
//! A missing tool is named on stderr; with `REQUIRE_READERS=1` that is a failure. `scripts/check-formats.sh` installs
//! them.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::shop::shop;
use crate::common::{Logs, browser};

/// Whether a tool is installed; if not, reports that. `scripts/test.sh` prints it at its end, because output of tests
/// that pass is hidden.
fn is_there(tool: &str, args: &[&str], needed_for: &str) -> bool {
    let tried = Command::new(tool).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = tried.is_ok_and(|status| status.success());
    if !is_there {
        let line = format!("{tool} is missing: {needed_for} is not checked by it");
        eprintln!("WARNING: {line}");
        if let Some(file) = std::env::var_os("TEST_SKIPPED") {
            let file = OpenOptions::new().create(true).append(true).open(file);
            file.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
        }
        let is_required = std::env::var_os("REQUIRE_READERS").is_some_and(|value| value == "1");
        assert!(!is_required, "{tool} is missing");
    }
    is_there
}

fn write(logs: &Logs, format: &str, file: &str, more: &[&str]) {
    let outcome = logs.analyze(&[&["logs", "--format", format, "-o", file], more].concat());
    assert_eq!(outcome.status, 0, "{outcome:?}");
}

/// Runs a tool in the folder of the logs. It must succeed.
fn run(logs: &Logs, tool: &str, args: &[&str], input: Option<&str>) -> String {
    let input = input
        .map_or_else(Stdio::null, |name| Stdio::from(File::open(logs.root().join(name)).unwrap()));
    let command = &mut Command::new(tool);
    // Go keeps a folder in the home folder.
    let command = command.args(args).current_dir(logs.root()).stdin(input);
    let output = command.env("PPROF_TMPDIR", logs.root()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {args:?}: {text}{said}");
    format!("{text}{said}")
}

#[test]
fn python_reads_csv() {
    if !is_there("python3", &["--version"], "CSV") {
        return;
    }
    let logs = shop();
    write(&logs, "csv", "report.csv", &["--by", "package"]);
    let program = "import csv; rows = list(csv.DictReader(open('report.csv', newline='')))
assert [row['package'] for row in rows] == ['com.shop.order'] * 2 + ['com.shop.stock'], rows
assert sum(int(row['calls']) for row in rows) == 8, rows
assert rows[0]['descriptor'] == '(ILjava/lang/String;)Z', rows
assert all(None not in row for row in rows), rows";
    run(&logs, "python3", &["-c", program], None);
}

#[test]
fn python_reads_every_json() {
    if !is_there("python3", &["--version"], "JSON, speedscope and the trace") {
        return;
    }
    let logs = shop();
    write(&logs, "json", "report.json", &[]);
    write(&logs, "speedscope", "speedscope.json", &[]);
    write(&logs, "chrome-trace", "trace.json", &[]);
    let program = "import json
report, speedscope, trace = (json.load(open(n + '.json')) for n in ('report', 'speedscope', 'trace'))
assert report['schema'] == 1 and len(report['methods']) == 3, report
frames, (profile,) = speedscope['shared']['frames'], speedscope['profiles']
assert speedscope['$schema'] == 'https://www.speedscope.app/file-format-schema.json'
assert profile['type'] == 'sampled' and profile['unit'] == 'nanoseconds', profile
assert len(profile['samples']) == len(profile['weights']), profile
assert all(0 <= place < len(frames) for sample in profile['samples'] for place in sample), profile
assert sum(profile['weights']) == profile['endValue'] - profile['startValue'] == 100_000_000, profile
events = trace['traceEvents']
calls = [event for event in events if event['ph'] == 'X']
named = {(e['pid'], e['tid']) for e in events if e['name'] == 'thread_name'}
assert len(calls) == 6 and {(e['pid'], e['tid']) for e in calls} == named, events
for thread in named:  # Calls of a thread lie within each other or apart.
    spans = [(round(e['ts'] * 1000), round(e['dur'] * 1000)) for e in calls if (e['pid'], e['tid']) == thread]
    open_until = []
    for start, length in sorted(spans, key=lambda span: (span[0], -span[1])):
        while open_until and open_until[-1] <= start: open_until.pop()
        assert not open_until or start + length <= open_until[-1], spans
        open_until.append(start + length)";
    run(&logs, "python3", &["-c", program], None);
}

#[test]
fn python_reads_the_picture() {
    if !is_there("python3", &["--version"], "the flame graph") {
        return;
    }
    let logs = shop();
    write(&logs, "flamegraph", "graph.svg", &[]);
    let program = "import xml.etree.ElementTree as xml
svg = '{http://www.w3.org/2000/svg}'
graph = xml.parse('graph.svg').getroot()
assert graph.tag == svg + 'svg', graph.tag
widths = {}
for group in graph.iter(svg + 'g'):
    title, box = group.find(svg + 'title'), group.find(svg + 'rect')
    if title is not None: widths[title.text.split(' (')[0]] = float(box.get('width').rstrip('%'))
assert round(widths['all']) == 100 and round(widths['com.shop.Worker.run()']) == 40, widths";
    run(&logs, "python3", &["-c", program], None);
}

#[test]
#[ignore = "full lane: Go first builds its tool, for half a minute"]
fn go_tool_pprof_reads_the_profile() {
    if !is_there("go", &["version"], "pprof") {
        return;
    }
    let logs = shop();
    write(&logs, "pprof", "profile.pb.gz", &[]);
    let top = run(&logs, "go", &["tool", "pprof", "-top", "-cum", "profile.pb.gz"], None);
    let row = |end: &str| {
        let row = top.lines().find(|line| line.ends_with(end));
        let row = row.unwrap_or_else(|| panic!("no {end} in {top}"));
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(top.contains("Type: time"), "{top}");
    assert_eq!(row("OrderService.pay(int, String)")[..4], ["62ms", "62.00%", "62.00%", "100ms"]);
    assert_eq!(row("com.shop.stock.Stock.count(int)")[3], "30ms");
    assert_eq!(row("(calls < 1 ms)")[0], "6ms");
    let args = ["tool", "pprof", "-top", "-sample_index=calls", "profile.pb.gz"];
    let calls = run(&logs, "go", &args, None);
    assert!(calls.contains("Type: calls") && calls.contains("of 6 total"), "{calls}");
    let raw = run(&logs, "go", &["tool", "pprof", "-raw", "profile.pb.gz"], None);
    assert!(raw.contains("OrderService.java:41"), "{raw}");
}

#[test]
fn promtool_finds_nothing_to_complain_of() {
    if !is_there("promtool", &["--version"], "the Prometheus form") {
        return;
    }
    let logs = shop();
    for (file, more) in [("all.prom", &["--unfinished"][..]), ("hours.prom", &["--by", "hour"])] {
        write(&logs, "prometheus", file, more);
        let said = run(&logs, "promtool", &["check", "metrics"], Some(file));
        assert_eq!(said, "", "{file}");
    }
}

#[test]
fn the_prometheus_client_reads_every_series() {
    let python = browser::tool("python");
    if !is_there("python3", &["--version"], "the Prometheus form")
        || !is_there("ls", &[&python.to_string_lossy()], "the Prometheus form by its client")
    {
        return;
    }
    let logs = shop();
    write(&logs, "prometheus", "all.prom", &["--unfinished"]);
    let program = format!(
        "import sys; sys.path.insert(0, {:?})
from prometheus_client.parser import text_string_to_metric_families as parse
families = {{f.name: f for f in parse(open('all.prom').read())}}
calls = families['tprofiler_method_calls']
assert calls.type == 'counter' and calls.documentation, calls
found = {{(s.labels['class'], s.labels['method']): s.value for s in calls.samples}}
assert found == {{('com.shop.order.OrderService', 'pay'): 3, ('com.shop.stock.Stock', 'count'): 3,
    ('com.shop.order.Order', '<init>'): 2}}, found
assert families['tprofiler_method_unfinished_calls'].type == 'gauge', families",
        python.to_string_lossy()
    );
    run(&logs, "python3", &["-c", &program], None);
}

#[test]
fn speedscope_shows_the_call_paths() {
    let logs = shop();
    write(&logs, "speedscope", "shop.speedscope.json", &[]);
    let profile = logs.root().join("shop.speedscope.json");
    let Some(table) = browser::run("speedscope.mjs", &["node_modules/speedscope"], &[&profile])
    else {
        return;
    };
    let mut rows: Vec<&str> = table.lines().skip(1).collect();
    rows.sort_unstable();
    assert_eq!(
        rows,
        [
            "100.00ms (100%)\t62.00ms (62%)\tcom.shop.order.OrderService.pay(int, String)",
            "30.00ms (30%)\t30.00ms (30%)\tcom.shop.stock.Stock.count(int)",
            "40.00ms (40%)\t0.00ns (<0.01%)\tcom.shop.Worker.run()",
            "5.00ms (5.0%)\t2.00ms (2.0%)\tcom.shop.order.Order.<init>()",
            "6.00ms (6.0%)\t6.00ms (6.0%)\t(calls < 1 ms)",
        ]
    );
}

#[test]
fn perfetto_shows_every_call() {
    let logs = shop();
    write(&logs, "chrome-trace", "trace.json", &[]);
    let trace = logs.root().join("trace.json");
    let perfetto = browser::tool("perfetto");
    let Some(slices) = browser::run("perfetto.mjs", &["perfetto"], &[&perfetto, &trace]) else {
        return;
    };
    let slices: Vec<Vec<&str>> = slices.lines().map(|line| line.split('\t').collect()).collect();
    let first: u64 = slices[0][3].parse().unwrap();
    // Thread, name, end, microseconds after the first, nanoseconds, depth.
    let reported: Vec<String> = slices
        .iter()
        .filter(|row| row.len() > 2)
        .map(|row| {
            let after: u64 = row[3].parse::<u64>().unwrap() - first;
            format!("{} {} {} {} {} {}", row[0], row[1], row[2], after / 1_000, row[4], row[5])
        })
        .collect();
    assert_eq!(
        reported,
        [
            "exec-1 #1 OrderService.pay throw 0 50000000 0",
            "exec-1 #1 Stock.count return 10000 30000000 1",
            "exec-1 #1 Stock.count return 15000 20000000 2",
            "exec-1 #1 Order.<init> return 41000 5000000 1",
            "worker #2 OrderService.pay return 5000000 40000000 0",
            "exec-1 #1 OrderService.pay return 3596000000 10000000 0",
        ]
    );
    assert_eq!(slices.last().unwrap()[..], ["errors", "0"]);
}
