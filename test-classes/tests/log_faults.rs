//! Faults of a log and of the process that writes it: the service's own output is unchanged, the log can be read,
//! losses are counted and stay within the promised limits.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use log_format::rows::counter;
use test_classes::{
    Control, Finished, Java, Jdk, Profile, Running, artifacts, classes, free_port, jdks, skipped,
    tprofiler, wait_until,
};

const TICK: &str = "programs.Ticks tick ()V";

/// The program `Ticks` under the agent, which records every tick.
struct Service {
    program: Running,
    port: u16,
    folder: tempfile::TempDir,
    logs: PathBuf,
}

/// The user that runs the program if the test runs as root: root may write anywhere.
const NOBODY: u32 = 65_534;

impl Service {
    fn start(jdk: &Jdk) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        Self::start_in(jdk, folder, logs, false)
    }

    fn start_in(jdk: &Jdk, folder: tempfile::TempDir, logs: PathBuf, as_nobody: bool) -> Self {
        // Shown if the test fails.
        println!("{jdk}");
        let port = free_port();
        let options =
            format!("include=programs.Ticks.tick,threshold=0,logs={},port={port}", logs.display());
        let mut java = Java::new(jdk).agent(&options).main(classes(), "programs.Ticks");
        if as_nobody {
            java = java.user(NOBODY);
        }
        let program = java.arg(folder.path()).start();
        let service = Self { program, port, folder, logs };
        wait_until("records", || service.has("calls"));
        service
    }

    fn run(&self) -> Option<PathBuf> {
        if self.logs.exists() { Profile::runs(&self.logs).pop() } else { None }
    }

    /// Whether the run has a file of a table.
    fn has(&self, table: &str) -> bool {
        let entries = self.run().and_then(|run| fs::read_dir(run).ok()).into_iter().flatten();
        let names = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned());
        names.into_iter().any(|name| name.ends_with(&format!(".{table}.csv")))
    }

    /// The answer to a command, on stdout or stderr.
    fn ask(&self, command: &str) -> String {
        let output = tprofiler(self.port, &[command]);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    fn tell(&self, what: &str) {
        File::create(self.folder.path().join(what)).expect("a file");
    }

    fn stop(self) -> (Finished, Ticks, tempfile::TempDir) {
        self.tell("stop");
        let finished = self.program.wait();
        assert_eq!(finished.status, Some(0), "{}", finished.stderr);
        let ticks = Ticks::of(&finished);
        let said = finished.stdout.lines().last().and_then(|l| l.strip_prefix("ticks "));
        assert_eq!(said, Some(ticks.0.len().to_string().as_str()));
        (finished, ticks, self.folder)
    }
}

/// When each tick ended, in milliseconds, as printed by the program.
struct Ticks(Vec<u64>);

impl Ticks {
    /// Reads the program's output: every tick once, in order.
    fn of(finished: &Finished) -> Self {
        let whole = finished.stdout.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let ticks: Vec<(usize, u64)> = whole
            .lines()
            .filter_map(|line| line.strip_prefix("tick ")?.split_once(' '))
            .map(|(number, ms)| (number.parse().expect("a number"), ms.parse().expect("a time")))
            .collect();
        for (index, (number, _)) in ticks.iter().enumerate() {
            assert_eq!(*number, index + 1);
        }
        Self(ticks.into_iter().map(|(_, ms)| ms).collect())
    }

    fn until(&self, ms: u64) -> usize {
        self.0.iter().filter(|tick| **tick < ms).count()
    }

    fn since(&self, ms: u64) -> usize {
        self.0.len() - self.until(ms)
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
    u64::try_from(since.as_millis()).expect("a time")
}

/// Reports can be made from it, with this exit status.
fn assert_readable(logs: &Path) {
    for arguments in [&["--format", "csv"][..], &["--by", "thread"], &["--format", "json"]] {
        let analyze = Command::new(&artifacts().analyze).args(arguments).arg(logs).output();
        let output = analyze.expect("analyze runs");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("tick"), "{output:?}");
    }
}

/// Rows of recorded calls in the files, without a torn last line.
fn records_on_disk(run: &Path) -> usize {
    let files = fs::read_dir(run).expect("a run").map(|e| e.expect("a file").path());
    let calls = files.filter(|p| p.to_string_lossy().ends_with(".calls.csv"));
    let lines = |path: PathBuf| fs::read_to_string(path).expect("rows").matches('\n').count();
    // Without the header.
    calls.map(|path| lines(path) - 1).sum()
}

#[test]
fn kill_9_loses_a_second_of_recorded_calls_and_an_interval_of_statistics() {
    for jdk in jdks() {
        for round in 0..2_u64 {
            let service = Service::start(jdk);
            assert!(service.ask("flush").contains("profiling: on"));
            // Everything up to here is on disk.
            let flushed_ms = now_ms();
            std::thread::sleep(Duration::from_millis(1_500 + round * 333));
            service.program.signal("KILL");
            let run = service.run().expect("a run");
            let Service { program, folder, .. } = service;
            let finished = program.wait();
            assert_eq!((finished.status, &*finished.stderr), (None, ""), "{jdk}");
            let ticks = Ticks::of(&finished);
            assert_readable(&folder.path().join("logs"));
            let last = *ticks.0.last().expect("a tick");
            let records = records_on_disk(&run);
            let (due, all) = (ticks.until(last.saturating_sub(1_000)), ticks.0.len() + 1);
            assert!((due..=all).contains(&records), "{jdk}: {records} of {due} to {all}");
            // Of the method statistics, all that were flushed.
            let analyze = Command::new(&artifacts().analyze);
            let calls = calls_in_report(analyze, &folder.path().join("logs"));
            let before = ticks.until(flushed_ms - 500);
            assert!((before..=all).contains(&calls), "{jdk}: {calls} of {before} to {all}");
        }
    }
}

/// The number of calls of `tick` in a report.
fn calls_in_report(mut analyze: Command, logs: &Path) -> usize {
    let output = analyze.args(["--format", "csv"]).arg(logs).output().expect("analyze runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = text.lines().find(|line| line.contains(",tick,")).expect("a row");
    row.split(',').nth(3).and_then(|calls| calls.parse().ok()).expect("a number")
}

/// A small file system, unmounted on drop.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` if mounting is not allowed.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(folder.path());
        mount.status().is_ok_and(|status| status.success()).then_some(Self { folder })
    }

    /// Fills it completely.
    fn fill(&self) {
        let mut file = File::create(self.folder.path().join("filler")).expect("a file");
        let error = loop {
            if let Err(error) = file.write_all(&[0; 4096]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    }

    fn free(&self) {
        fs::remove_file(self.folder.path().join("filler")).expect("the filler");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).status();
    }
}

#[test]
fn a_disk_that_is_full_and_has_room_again_loses_nothing() {
    for jdk in jdks() {
        let Some(disk) = SmallDisk::mount() else {
            return skipped("a full disk: nothing can be mounted here");
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = disk.folder.path().join("logs");
        let service = Service::start_in(jdk, folder, logs.clone(), false);
        disk.fill();
        wait_until("a full disk", || service.ask("flush").contains("No space left on device"));
        assert!(!service.ask("status").contains("write errors: 0\n"));
        // It goes on for a while.
        std::thread::sleep(Duration::from_secs(2));
        assert!(service.ask("flush").starts_with("tprofiler: "), "it is full");
        disk.free();
        wait_until("room again", || service.ask("flush").contains("profiling: on"));
        let (finished, ticks, _folder) = service.stop();
        let messages: Vec<&str> = finished.stderr.lines().collect();
        let [full, again] = messages[..] else { panic!("{jdk}: {messages:?}") };
        assert!(full.ends_with("No space left on device (os error 28); it is tried again"));
        assert_eq!(again, "tprofiler: the log is written again; 0 rows were dropped");
        let profile = Profile::only_run(&logs);
        assert_eq!(profile.counts[TICK].calls, ticks.0.len() as u64, "{jdk}");
        assert_eq!(profile.records.len(), ticks.0.len(), "{jdk}");
        assert!(profile.counter(counter::IO_ERRORS) > 0, "{jdk}");
        assert_eq!(profile.counter(counter::ROWS_DROPPED), 0, "{jdk}");
        assert_readable(&logs);
    }
}

/// `stop` fails if the disk does not take the method statistics.
#[test]
fn a_stop_says_that_the_disk_is_full() {
    let jdk = jdks().last().expect("a JDK");
    let Some(disk) = SmallDisk::mount() else {
        return skipped("a full disk: nothing can be mounted here");
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let service = Service::start_in(jdk, folder, disk.folder.path().join("logs"), false);
    disk.fill();
    wait_until("a full disk", || service.ask("flush").contains("No space left on device"));
    let stopped = service.ask("stop");
    let expected = "recording is off; what was recorded is not on the disk yet: ";
    assert!(stopped.contains(expected), "{stopped}");
    assert!(service.ask("status").contains("profiling: off"));
    disk.free();
    wait_until("room again", || service.ask("flush").contains("profiling: off"));
    service.stop();
}

#[test]
fn a_log_folder_that_is_deleted_goes_on_in_a_new_one() {
    for jdk in jdks() {
        let service = Service::start(jdk);
        let run = service.run().expect("a run");
        // The agent may create it again during the deletion, which must then be repeated.
        let mut deletions = 0;
        wait_until("the folder is gone", || {
            deletions += 1;
            fs::remove_dir_all(&service.logs).is_ok()
        });
        let deleted_ms = now_ms();
        wait_until("a new folder", || service.has("calls"));
        let logs = service.logs.clone();
        let (finished, ticks, _folder) = service.stop();
        let expected =
            format!("tprofiler: files of the log were deleted; it goes on in {}", run.display());
        let messages: Vec<&str> = finished.stderr.lines().collect();
        assert!(messages.iter().all(|line| *line == expected), "{jdk}: {messages:?}");
        assert!((1..=deletions).contains(&messages.len()), "{jdk}: {deletions} {messages:?}");
        let profile = Profile::only_run(&logs);
        assert_eq!(profile.folder, run);
        // Everything since then is there, with all names; method statistics of the interval too.
        let since = ticks.since(deleted_ms);
        assert!((since..=ticks.0.len()).contains(&profile.records.len()), "{jdk}: {since}");
        let calls = usize::try_from(profile.counts[TICK].calls).expect("a count");
        assert!((since..=ticks.0.len()).contains(&calls), "{jdk}: {since} {calls}");
        assert_readable(&logs);
    }
}

#[test]
fn a_log_folder_that_may_not_be_written_to_is_tried_again() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("permissions");
        let is_root = folder.path().metadata().expect("a folder").uid() == 0;
        let logs = folder.path().join("logs");
        let service = Service::start_in(jdk, folder, logs.clone(), is_root);
        let run = service.run().expect("a run");
        // The files are deleted, and no new ones can be created, unless the agent was faster.
        let set = |mode| fs::set_permissions(&run, Permissions::from_mode(mode)).expect("a folder");
        let was_refused = || service.ask("flush").contains("Permission denied");
        wait_until("it is refused", || {
            set(0o755);
            for file in fs::read_dir(&run).expect("a run").flatten() {
                if file.file_name() != "run.json" {
                    fs::remove_file(file.path()).expect("a file");
                }
            }
            set(0o555);
            was_refused()
        });
        std::thread::sleep(Duration::from_secs(1));
        set(0o755);
        wait_until("it is written again", || service.ask("flush").contains("profiling: on"));
        let refused_ms = now_ms();
        let (finished, ticks, _folder) = service.stop();
        let messages: Vec<&str> = finished.stderr.lines().collect();
        let [refused, again] = messages[..] else { panic!("{jdk}: {messages:?}") };
        assert!(refused.ends_with("Permission denied (os error 13); it is tried again"));
        assert_eq!(again, "tprofiler: the log is written again; 0 rows were dropped");
        let profile = Profile::only_run(&logs);
        let records = profile.records.len();
        assert!(records >= ticks.since(refused_ms) && records <= ticks.0.len(), "{jdk}");
        assert!(profile.counter(counter::IO_ERRORS) > 0, "{jdk}");
        assert_readable(&logs);
    }
}

#[test]
fn without_file_descriptors_the_log_waits() {
    for jdk in jdks() {
        let service = Service::start(jdk);
        let run = service.run().expect("a run");
        // Later there is no descriptor for a connection.
        let mut control = Control::connect(service.port);
        let mut ask = |command: &str| control.answer(command);
        let pid = service.program.pid().to_string();
        let limited = Command::new("prlimit").args(["--nofile=200:200", "--pid", &pid]).status();
        assert!(limited.is_ok_and(|status| status.success()), "prlimit of util-linux is needed");
        service.tell("exhaust");
        // They cannot be counted from here: a waiting call of `accept` holds an invisible one.
        let exhaust = service.folder.path().join("exhaust");
        wait_until("no descriptors are left", || !exhaust.exists());
        // All files are gone, and the agent cannot create new ones.
        wait_until("the folder is gone", || fs::remove_dir_all(&run).is_ok());
        wait_until("a failure", || ask("flush").contains("Too many open files"));
        service.tell("release");
        wait_until("descriptors again", || ask("flush").contains("profiling: on"));
        let logs = service.logs.clone();
        let (finished, ticks, _folder) = service.stop();
        assert!(finished.stdout.contains("\nexhausted\n"), "{jdk}");
        assert!(finished.stdout.contains("\nreleased\n"), "{jdk}");
        assert!(finished.stderr.contains("Too many open files (os error 24); it is tried again"));
        assert!(finished.stderr.ends_with("the log is written again; 0 rows were dropped\n"));
        let profile = Profile::only_run(&logs);
        assert!(profile.counter(counter::IO_ERRORS) > 0, "{jdk}");
        assert!(profile.records.len() <= ticks.0.len() && !profile.records.is_empty(), "{jdk}");
        assert_readable(&logs);
    }
}

#[test]
#[ignore = "full lane: it waits for a minute"]
fn a_minute_without_the_processor_is_in_the_log_as_it_was() {
    // All at once: most of the time they are stopped.
    let services: Vec<(&Jdk, Service)> = jdks().iter().map(|j| (j, Service::start(j))).collect();
    for (_, service) in &services {
        service.program.signal("STOP");
    }
    std::thread::sleep(Duration::from_secs(60));
    for (_, service) in &services {
        service.program.signal("CONT");
    }
    for (jdk, service) in services {
        assert!(service.ask("status").contains("profiling: on"), "{jdk}");
        let logs = service.logs.clone();
        let (finished, ticks, _folder) = service.stop();
        assert_eq!(finished.stderr, "", "{jdk}");
        let profile = Profile::only_run(&logs);
        assert_eq!(profile.counts[TICK].calls, ticks.0.len() as u64, "{jdk}");
        assert_eq!(profile.records.len(), ticks.0.len(), "{jdk}");
        // The minute is within a tick, or between two.
        let gap = |pair: &[u64]| pair[1] - pair[0] > 59_000;
        assert_eq!(ticks.0.windows(2).filter(|pair| gap(pair)).count(), 1, "{jdk}");
        let long = profile.records.iter().filter(|r| r.total_ns > 59_000_000_000).count();
        assert!(long <= 1, "{jdk}: {long}");
        let starts: Vec<u64> = profile.records.iter().map(|r| r.start_ns).collect();
        assert!(starts.is_sorted(), "{jdk}");
        assert_eq!(starts.iter().collect::<BTreeSet<_>>().len(), starts.len(), "{jdk}");
        assert_readable(&logs);
    }
}
