//! `analyze` is ended before its report is whole: the old file stays, and nothing else is left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::common::{Logs, MS, T14, call, method, stack, thread};

#[test]
fn what_is_interrupted_leaves_the_report_of_before() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "com.shop.Order", "pay", "()V")]);
    run.rows(T14, &[thread(1, "main")]).rows(T14, &[stack(1, 0, 1)]);
    // Enough for a second or two.
    let rows: Vec<_> = (0..400_000).map(|at| call(T14 + at * MS, 1, 1, 1, MS)).collect();
    run.rows(T14, &rows);
    let folder = logs.root().join("reports");
    fs::create_dir(&folder).unwrap();
    let report = folder.join("trace.json");
    for (signal, number, is_there) in [("INT", 2, false), ("TERM", 15, true), ("KILL", 9, true)] {
        if is_there {
            fs::write(&report, "before").unwrap();
        }
        let args = ["logs", "--format", "chrome-trace", "-o", "reports/trace.json"];
        // A shell's background job may ignore SIGINT. Requires coreutils 8.31 or newer.
        let mut child = Command::new("env")
            .args(["--default-signal=INT", env!("CARGO_BIN_EXE_analyze")])
            .args(args)
            .current_dir(logs.root())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The report is a file in the folder that has no name yet, and something has been written to it.
        let files = format!("/proc/{}/fd", child.id());
        let under_way = || {
            fs::read_dir(&files).unwrap().find_map(|file| {
                let file = file.unwrap().path();
                let to = fs::read_link(&file).ok().filter(|to| to.starts_with(&folder))?;
                fs::metadata(&file).ok().filter(|found| found.len() > 0).map(|_| to)
            })
        };
        let new_file = loop {
            assert!(child.try_wait().unwrap().is_none(), "it has ended");
            if let Some(new_file) = under_way() {
                break new_file;
            }
        };
        let mut kill = Command::new("kill");
        kill.arg(format!("-{signal}")).arg(child.id().to_string());
        assert!(kill.status().unwrap().success());
        assert_eq!(child.wait().unwrap().signal(), Some(number));
        // If the file system has no files without names, this one had another name.
        if fs::remove_file(&new_file).is_ok() {
            eprintln!("{} had a name", new_file.display());
        }
        let names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
        if is_there {
            assert_eq!(names, ["trace.json"], "{signal}");
            assert_eq!(fs::read_to_string(&report).unwrap(), "before");
        } else {
            assert!(names.is_empty(), "{signal}: {names:?}");
        }
    }
}
