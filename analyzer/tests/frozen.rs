//! Logs of each format version stay readable, with the same figures.
//!
//! `frozen/v1` has the logs of two runs that version 0.2.0 recorded (`scripts/freeze.sh`), and what its `analyze` said
//! of them. These files are never changed: not when a report changes, and not by `UPDATE_GOLDEN`. If this test fails,
//! `analyze` no longer reads what users have on their disks.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::Logs;
use flate2::read::GzDecoder;
use log_format::names::Table;
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

/// The frozen logs have a row of each table, frames of each kind, and a run of each way to start.
#[test]
fn the_logs_of_version_1_have_all_of_its_parts() {
    let found = RefCell::new((BTreeSet::new(), BTreeSet::new(), false));
    let copy = copy("v1", |file, at, line| {
        let table = file.split('.').nth(1).unwrap().to_owned();
        let (rows, kinds, has_kernel_names) = &mut *found.borrow_mut();
        if table == "frames" && at > 0 {
            let cells: Vec<&str> = line.split(',').collect();
            kinds.insert(cells[1].to_owned());
            *has_kernel_names |= cells[1..3] == ["kernel", "[kernel]"];
        }
        if at > 0 {
            rows.insert(table);
        }
        line.to_owned()
    });
    let tables: BTreeSet<String> = Table::ALL.iter().map(|table| table.name().to_owned()).collect();
    let (rows, kinds, has_kernel_names) = found.into_inner();
    assert_eq!(rows, tables);
    assert_eq!(kinds, ["java", "kernel", "native", "other"].map(str::to_owned).into());
    assert!(has_kernel_names, "functions of the kernel");
    let attached = ["before", "after"].map(|side| {
        let run = fs::read_dir(copy.root().join(side)).unwrap().next().unwrap().unwrap().path();
        let about: Value =
            serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
        about["attached"].clone()
    });
    assert_eq!(attached, [Value::Null, json!(true)]);
}

/// What later releases may add to version 1: columns at the end, tables, counters, events and fields of `run.json`.
#[test]
fn additions_to_version_1_change_no_figure() {
    let logs = copy("v1", |file, at, line| {
        let more = match (file, at) {
            (_, 0) => format!("{line},a_later_column"),
            _ => format!("{line},\"a, later value\""),
        };
        if at == 0 && file.ends_with(".counters.csv") {
            format!("{more}\n1795887832000000000,a_later_counter,7,")
        } else if at == 0 && file.ends_with(".events.csv") {
            format!("{more}\n1795887832000000000,a_later_event,,,,,,,,")
        } else {
            more
        }
    });
    for side in ["before", "after"] {
        let run = fs::read_dir(logs.root().join(side)).unwrap().next().unwrap().unwrap().path();
        fs::write(run.join("20261128T17Z.a_later_table.csv"), "id,value\n1,2\n").unwrap();
        let about = run.join("run.json");
        let mut fields: Value = serde_json::from_slice(&fs::read(&about).unwrap()).unwrap();
        fields["a_later_field"] = json!({ "any": ["value"] });
        fields["options"]["a_later_option"] = json!("on");
        File::create(about).unwrap().write_all(fields.to_string().as_bytes()).unwrap();
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
