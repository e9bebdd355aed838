//! Logs of each format version stay readable, with the same figures.
//!
//! `frozen/v1` has the logs of two runs that version 0.2.0 recorded (`scripts/freeze.sh`), and what its `analyze` said
//! of them. These files are never changed: not when a report changes, and not by `UPDATE_GOLDEN`. If this test fails,
//! `analyze` no longer reads what users have on their disks.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Logs;
use flate2::read::GzDecoder;
use log_format::file_names::Table;
use serde_json::{Value, json};

/// The reports that are kept, and their arguments.
const REPORTS: [(&str, &[&str]); 5] = [
    ("report", &["before", "after"]),
    ("by_thread", &["before", "after", "--by", "thread"]),
    ("by_state", &["before", "after", "--by", "state"]),
    ("task", &["after", "--task", "frozen"]),
    ("diff", &["diff", "before", "after"]),
];

fn frozen(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen").join(version)
}

/// What `analyze` says in a folder.
fn analyze(folder: &Path, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_analyze"));
    command.args(arguments).args(["--format", "json"]).current_dir(folder);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Where a report lacks something of an older one, or has another value for it. It may have more fields; the words of
/// notes are promised to nobody.
fn differences(path: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old.iter().filter(|(key, _)| *key != "notes") {
                match new.get(key) {
                    Some(new) => differences(&format!("{path}.{key}"), value, new, found),
                    None => found.push(format!("{path}.{key} is missing")),
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                differences(&format!("{path}[{at}]"), old, new, found);
            }
        }
        _ if old == new => {}
        _ => found.push(format!("{path} was {old}, is {new}")),
    }
}

/// Compares the reports on a folder's logs with those of a version.
fn expect_same(version: &str, folder: &Path) {
    for (name, arguments) in REPORTS {
        let old = fs::read(frozen(version).join(name).with_extension("json")).unwrap();
        let mut found = Vec::new();
        let new = analyze(folder, arguments);
        differences("", &serde_json::from_slice(&old).unwrap(), &new, &mut found);
        assert!(found.is_empty(), "{name} of {version}: {found:#?}");
    }
}

/// Unpacked copies of the logs of a version, changed line by line: `change` gets a file's name, the number of the line
/// and the line.
fn copy(version: &str, change: impl Fn(&str, usize, &str) -> String) -> Logs {
    let logs = Logs::new();
    for side in ["before", "after"] {
        let run = fs::read_dir(frozen(version).join(side)).unwrap().next().unwrap().unwrap();
        let copy = logs.root().join(side).join(run.file_name());
        fs::create_dir_all(&copy).unwrap();
        for entry in fs::read_dir(run.path()).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let Some(csv) = name.strip_suffix(".gz") else {
                fs::copy(entry.path(), copy.join(name)).unwrap();
                continue;
            };
            let mut text = String::new();
            GzDecoder::new(File::open(entry.path()).unwrap()).read_to_string(&mut text).unwrap();
            let lines = text.lines().enumerate().map(|(at, line)| change(csv, at, line) + "\n");
            fs::write(copy.join(csv), lines.collect::<String>()).unwrap();
        }
    }
    logs
}

#[test]
fn logs_of_version_1_are_read_with_the_same_figures() {
    expect_same("v1", &frozen("v1"));
}

/// The folders of a version's two runs.
fn runs(version: &str) -> [PathBuf; 2] {
    ["before", "after"].map(|side| {
        let mut runs = fs::read_dir(frozen(version).join(side)).unwrap();
        runs.next().unwrap().unwrap().path()
    })
}

/// What a run says of itself.
fn about(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap()
}

/// The values of a column in all files of a table; without a name, of the first column.
fn values(version: &str, table: &str, column: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for run in runs(version) {
        for entry in fs::read_dir(run).unwrap() {
            let path = entry.unwrap().path();
            if path.to_string_lossy().ends_with(&format!(".{table}.csv.gz")) {
                let mut rows = csv::Reader::from_reader(GzDecoder::new(File::open(path).unwrap()));
                let place = rows.headers().unwrap().iter().position(|name| name == column);
                let place = place.unwrap_or_else(|| {
                    assert!(column.is_empty(), "{column} is not in {table}");
                    0
                });
                found.extend(rows.records().map(|row| row.unwrap()[place].to_owned()));
            }
        }
    }
    found
}

/// The frozen logs have a row of each table, each value of columns with few, and an attached run.
#[test]
fn the_logs_of_version_1_have_all_of_its_parts() {
    for table in Table::ALL {
        assert!(!values("v1", table.name(), "").is_empty(), "{table:?} has no row");
    }
    for (table, column, expected) in [
        ("calls", "exit", "return throw unfinished"),
        ("events", "event", "class_postponed muted threshold throttled unmuted"),
        ("frames", "kind", "java kernel native other"),
        ("frames", "class", "[kernel] [libjvm.so] sql.Frozen$Shop"),
        ("lock_waits", "kind", "lock monitor park"),
        ("locks", "kind", "lock monitor park"),
        ("samples", "kind", "cpu off_cpu"),
        (
            "samples",
            "state",
            "blocked java native parked runnable sleeping timed_waiting vm waiting",
        ),
        ("slow_sql", "exit", "return throw"),
        ("tasks", "state", "finished notified rejected running"),
        ("threads", "kind", "platform virtual"),
    ] {
        let found = values("v1", table, column);
        let missing: Vec<&str> =
            expected.split(' ').filter(|value| !found.contains(*value)).collect();
        assert!(missing.is_empty(), "{table}, {column}: {missing:?} not in {found:?}");
    }
    for column in ["owner", "owner_stack"] {
        let owners = values("v1", "lock_waits", column);
        assert!(owners.iter().any(|owner| !["", "0"].contains(&&**owner)), "{column}: {owners:?}");
    }
    let attached = runs("v1").map(|run| about(&run)["attached"].clone());
    assert_eq!(attached, [Value::Null, json!(true)]);
}

/// What later releases may add to version 1: columns at the end, tables, counters, events and fields of `run.json`.
#[test]
fn additions_to_version_1_change_no_figure() {
    let start = about(&runs("v1")[0])["start_ns"].clone();
    let logs = copy("v1", |file, at, line| {
        let more = match (file, at) {
            (_, 0) => format!("{line},a_later_column"),
            _ => format!("{line},\"a, later value\""),
        };
        if at == 0 && file.ends_with(".counters.csv") {
            format!("{more}\n{start},a_later_counter,7,")
        } else if at == 0 && file.ends_with(".events.csv") {
            format!("{more}\n{start},a_later_event,,,,,,,,")
        } else {
            more
        }
    });
    for side in ["before", "after"] {
        let run = fs::read_dir(logs.root().join(side)).unwrap().next().unwrap().unwrap().path();
        let names = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name());
        let tables =
            names.map(|name| name.into_string().unwrap()).find(|n| n.ends_with(".stats.csv"));
        let later = tables.unwrap().replace("stats", "a_later_table");
        fs::write(run.join(later), "id,value\n1,2\n").unwrap();
        let mut fields = about(&run);
        fields["a_later_field"] = json!({ "any": ["value"] });
        fields["options"]["a_later_option"] = json!("on");
        File::create(run.join("run.json"))
            .unwrap()
            .write_all(fields.to_string().as_bytes())
            .unwrap();
    }
    expect_same("v1", logs.root());
}

/// The comparison sees what it should.
#[test]
fn another_figure_is_a_difference() {
    let of = |old: Value, new: Value| {
        let mut found = Vec::new();
        differences("", &old, &new, &mut found);
        found
    };
    let none: [&str; 0] = [];
    assert_eq!(of(json!({"a": [1], "notes": ["x"]}), json!({"a": [1], "b": 2, "notes": []})), none);
    assert_eq!(of(json!({"a": [{"b": 1}]}), json!({"a": [{"b": 2}]})), [".a[0].b was 1, is 2"]);
    assert_eq!(of(json!({"a": 1}), json!({})), [".a is missing"]);
    assert_eq!(of(json!({"a": [1]}), json!({"a": [1, 2]})), [".a was [1], is [1,2]"]);
    let changed = copy("v1", |file, at, line| match (file.ends_with(".stats.csv"), at) {
        (true, 1) => {
            let mut cells: Vec<_> = line.splitn(4, ',').map(str::to_owned).collect();
            cells[2] = (cells[2].parse::<u64>().unwrap() + 1).to_string();
            cells.join(",")
        }
        _ => line.to_owned(),
    });
    let old = serde_json::from_slice(&fs::read(frozen("v1").join("report.json")).unwrap()).unwrap();
    assert_ne!(of(old, analyze(changed.root(), REPORTS[0].1)), none);
}
