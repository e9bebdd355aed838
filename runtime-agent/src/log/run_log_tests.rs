//! Files that are deleted or moved away while a run writes them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use log_format::FORMAT_VERSION;
use log_format::ids::{
    FrameId, JavaThreadId, MethodId, OsThreadId, SampledStackId, StackId, StatementId, ThreadId,
};
use log_format::rows::{
    Exit, FrameRow, MethodRow, SampledStackRow, StackRow, StatementRow, ThreadRow,
};

use super::*;

struct NumbersAsNames;

impl Names for NumbersAsNames {
    fn is_named(&self, _: ThreadId) -> bool {
        true
    }

    fn statement(&self, id: StatementId) -> Option<StatementRow> {
        Some(StatementRow { id, url: String::new(), text: format!("s{id}") })
    }

    fn frame(&self, _: FrameId) -> Option<FrameRow> {
        None
    }

    fn sampled_stack(&self, _: SampledStackId) -> Option<SampledStackRow> {
        None
    }

    fn method(&self, id: MethodId) -> Option<MethodRow> {
        let (loader, source) = (String::new(), String::new());
        let (class, method, descriptor) = ("a.B".into(), format!("m{id}"), "()V".into());
        Some(MethodRow { id, loader, class, method, descriptor, source, line: 0 })
    }

    fn thread(&self, id: ThreadId) -> Option<ThreadRow> {
        let (name, kind) = ("main".into(), "platform".into());
        Some(ThreadRow { id, java_id: JavaThreadId::new(1), os_id: OsThreadId::NONE, name, kind })
    }

    fn stack(&self, id: StackId) -> Option<StackRow> {
        Some(StackRow { id, parent: StackId::new(id.get() - 1), method: MethodId::new(id.get()) })
    }
}

const CALL: CallRow = CallRow {
    start_ns: 0,
    thread: ThreadId::new(5),
    stack: StackId::new(2),
    method: MethodId::new(2),
    total_ns: 9,
    self_ns: 9,
    exit: Exit::Return,
    allocated_bytes: None,
};

fn log_in(logs: &Path) -> RunLog {
    let run = Run { format_version: FORMAT_VERSION, ..Run::default() };
    let limits = Limits { max_bytes: None, keep: None };
    let logs = LogFolder::open(logs, None).unwrap();
    let mut log = RunLog::create(logs, &run, Compression::Off, limits).unwrap();
    log.set_port(None).unwrap();
    log
}

/// The rows of a table, in order.
fn rows(log: &RunLog, table: Table) -> Vec<String> {
    let part = Part { hour: Hour::of_unix_ns(0), number: 1 };
    let text = fs::read_to_string(log.folder().path().join(part.file_name(table))).unwrap();
    let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Rows that wait when a deletion is noticed need names that only the deleted files had.
#[test]
fn files_made_again_have_the_names_of_rows_that_waited() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = log_in(folder.path());
    log.add_calls(&[CALL], &NumbersAsNames);
    log.flush(Now::read(), false, &NumbersAsNames);
    log.add_calls(&[CALL], &NumbersAsNames);
    fs::remove_dir_all(log.folder().path()).unwrap();
    log.flush(Now::read(), false, &NumbersAsNames);
    assert_eq!((log.failure().is_none(), log.io_errors), (true, 0));
    assert_eq!(rows(&log, Table::Calls).len(), 1);
    assert_eq!(rows(&log, Table::Stacks), ["1,0,1", "2,1,2"]);
    assert_eq!(rows(&log, Table::Methods), ["1,,a.B,m1,()V,,0", "2,,a.B,m2,()V,,0"]);
    assert_eq!(rows(&log, Table::Threads), ["5,1,0,main,platform"]);
}

#[test]
fn a_log_folder_whose_name_is_taken_is_tried_again_after_some_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let (logs, theirs) = (folder.path().join("logs"), folder.path().join("theirs"));
    let mut log = log_in(&logs);
    fs::remove_dir_all(&logs).unwrap();
    fs::create_dir(&theirs).unwrap();
    symlink(&theirs, &logs).unwrap();
    let begin = Now::read();
    let flush = |log: &mut RunLog, later_ns| {
        log.add_calls(&[CALL], &NumbersAsNames);
        let now = Now { monotonic_ns: begin.monotonic_ns + later_ns, ..begin };
        log.flush(now, true, &NumbersAsNames);
        (log.failure().map(FileError::to_string), log.io_errors)
    };
    let taken = "it was deleted, and something else has its name now";
    let failure = Some(format!("{}: {taken}", logs.display()));
    assert_eq!(flush(&mut log, 0), (failure.clone(), 1));
    fs::remove_file(&logs).unwrap();
    assert_eq!(flush(&mut log, RETRY_FOLDER_NS - 1), (failure, 1));
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
    assert!(!logs.exists());
    assert_eq!(flush(&mut log, RETRY_FOLDER_NS), (None, 1));
    assert_eq!((rows(&log, Table::Calls).len(), log.rows_dropped), (3, 0));
}

#[test]
fn what_was_moved_out_of_the_folder_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = log_in(&folder.path().join("logs"));
    log.add_calls(&[CALL], &NumbersAsNames);
    log.flush(Now::read(), false, &NumbersAsNames);
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for file in fs::read_dir(log.folder().path()).unwrap().map(|file| file.unwrap()) {
        fs::rename(file.path(), elsewhere.join(file.file_name())).unwrap();
    }
    let old = log.folder().path().to_owned();
    log.add_calls(&[CALL], &NumbersAsNames);
    log.flush(Now::read(), false, &NumbersAsNames);
    assert_eq!((log.failure().is_none(), log.folder().path()), (true, &*old));
    assert!(old.join(RUN_JSON).exists());
    assert_eq!(rows(&log, Table::Calls).len(), 1);
    assert_eq!(rows(&log, Table::Methods).len(), 2);
}
