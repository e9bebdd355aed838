//! A log with less space than it would need: method statistics stay exact, every second still has its slowest calls,
//! and the log says what is missing. Then hours that end on a clock that is being set.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use log_format::rows::{Exit, counter};
use tempfile::TempDir;
use test_classes::{
    Java, Jdk, Profile, Record, Running, artifacts, classes, compiler, free_port, jdks, set_clock,
    tprofiler, wait_until,
};

const SLOW: &str = "programs.Load slow ()V";
const REQUEST: &str = "programs.Load request (J)V";
const STEP: &str = "programs.Load step (IJ)V";
const MS: u64 = 1_000_000;

fn analyze(arguments: &[&str], logs: &Path) -> Output {
    Command::new(&artifacts().analyze).args(arguments).arg(logs).output().expect("analyze runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A number that a program printed after a word.
fn printed(stdout: &str, word: &str) -> u64 {
    let line = stdout.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    line.expect(word).parse().expect("a number")
}

fn bytes_in(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).expect("a run").map(|e| e.expect("a file"));
    // One may be deleted in this moment.
    files.map(|file| file.metadata().map_or(0, |metadata| metadata.len())).sum()
}

/// Starts a program that makes more recorded calls than the log has room for. In half a minute, samples and lock waits
/// would take most of it: they have a part of the hour's.
fn load(jdk: &Jdk) -> (&Jdk, TempDir, u16, Running) {
    let logs = tempfile::tempdir().expect("a temporary folder");
    let port = free_port();
    let options = format!(
        "include=programs.Load,exclude=programs.Load.main,exclude=programs.Load.serve,\
         exclude=programs.Load.lambda*,max_mb_per_hour=8,cpu=off,logs={},port={port}",
        logs.path().display()
    );
    let program = Java::new(jdk)
        .agent(&options)
        .main(classes(), "programs.Load")
        .args(["4", "100", "14", "1", "16"])
        .start();
    (jdk, logs, port, program)
}

#[test]
fn the_slowest_calls_of_every_second_are_kept_and_totals_are_exact() {
    // All at once: most of the time they wait.
    let runs: Vec<_> = jdks().iter().map(load).collect();
    let raised: Vec<String> = runs
        .iter()
        .map(|(.., port, _)| {
            let mut status = String::new();
            wait_until("a raised threshold", || {
                status = text(&tprofiler(*port, &["status"]).stdout);
                status.lines().any(|l| l.starts_with("thresholds raised to: "))
            });
            status
        })
        .collect();
    for ((jdk, logs, _, program), status) in runs.into_iter().zip(raised) {
        assert!(status.lines().any(|l| l.ends_with("% of 8.00 MB")), "{jdk}: {status}");
        assert!(status.contains("\nhours deleted: 0\n"), "{jdk}: {status}");
        let finished = program.wait();
        finished.expect_quiet_success(jdk);
        let (requests, slow) =
            (printed(&finished.stdout, "requests"), printed(&finished.stdout, "slow"));
        let profile = Profile::only_run(logs.path());
        for (method, calls) in [(REQUEST, requests), (SLOW, slow), (STEP, (requests + slow) * 9)] {
            assert_eq!(profile.counts[method].calls, calls, "{jdk}: {method}");
        }
        assert!(requests > 1_000 && slow >= 28, "{jdk}: {requests} {slow}");

        let ended = times(&finished.stdout, "ended ");
        assert_eq!(ended.len() as u64, slow, "{jdk}");
        expect_slowest_of_each_second(jdk, &profile, ended.clone());

        // Far fewer than there were, within the budget: a minute's share at once and half a minute's besides. Names,
        // which a run writes only once, come on top.
        let records = profile.records.len() as u64;
        assert!(records < (requests + slow) * 10 / 3, "{jdk}: {records}");
        assert!(bytes_in(&profile.folder) < 8_000_000 / 60 * 2, "{jdk}");
        assert_eq!(profile.counter(counter::RECORDED_CALLS), records, "{jdk}");
        let cut = profile.counter(counter::RECORDED_CALLS_OVER_BUDGET);
        assert!(cut > 0 && cut + records <= (requests + slow) * 10, "{jdk}: {cut}");
        assert_eq!(profile.counter(counter::RECORDED_CALLS_DROPPED), 0, "{jdk}");

        expect_slowest_of_each_method(jdk, &profile);

        expect_late_requests(jdk, &profile, &times(&finished.stdout, "served "), ended);

        let report = text(&analyze(&["--notes"], logs.path()).stdout);
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(report.contains("the hour's log budget had room only for"), "{jdk}: {report}");
        assert!(report.contains("threshold raised from 1.00 ms to "), "{jdk}: {report}");
    }
}

/// The times that a program printed after a word.
fn times(stdout: &str, word: &str) -> Vec<u64> {
    stdout.lines().filter_map(|line| line.strip_prefix(word)?.parse().ok()).collect()
}

/// When requests are few again, the threshold comes down, and all of them are recorded again, each call. They were
/// served at these times; slow ones ended at others. Counted from the longest pause in the middle, which no stall of
/// the machine fills.
fn expect_late_requests(jdk: &Jdk, profile: &Profile, served: &[u64], ended: Vec<u64>) {
    let first = served.iter().min().expect("requests");
    let mut all = ended;
    all.extend(served);
    all.retain(|ms| ms >= first);
    all.sort_unstable();
    let third = all.len() / 3;
    let pauses = all.iter().zip(all.iter().skip(1)).skip(third).take(third);
    let (before, after) = pauses.max_by_key(|(one, next)| *next - *one).expect("requests");
    let middle = u64::midpoint(*before, *after);
    let late = |method: &str| {
        profile.records.iter().filter(|r| r.method == method && end_ms(r) > middle).count()
    };
    let requests = served.iter().filter(|ms| **ms > middle).count();
    assert!(requests > 3, "{jdk}: {served:?}");
    assert_eq!(late(REQUEST), requests, "{jdk}: the threshold did not come down");
    assert_eq!(late(STEP), 9 * (requests + late(SLOW)), "{jdk}: the threshold did not come down");
}

/// When a recorded call ended, in unix milliseconds.
fn end_ms(record: &Record) -> u64 {
    (record.start_ns + record.total_ns) / MS
}

/// Each second has recorded calls, and its slowest: those that ended at these times, in unix milliseconds.
fn expect_slowest_of_each_second(jdk: &Jdk, profile: &Profile, ended: Vec<u64>) {
    for ended_ms in ended {
        // A stall of the machine makes other calls as slow.
        let is_it = |r: &Record| r.total_ns >= 200 * MS && end_ms(r).abs_diff(ended_ms) < 500;
        assert!(profile.records.iter().any(is_it), "{jdk}: {ended_ms}");
    }
    let ends: BTreeSet<u64> = profile.records.iter().map(end_ms).collect();
    for (one, next) in ends.iter().zip(ends.iter().skip(1)) {
        assert!(next - one < 2_000, "{jdk}: no records from {one} to {next}");
    }
    let (first, last) = (ends.first().expect("a record"), ends.last().expect("a record"));
    assert!(last - first > 27_000, "{jdk}");
}

/// The slowest call of each method is recorded, however many others are. The length of a tick is corrected between
/// the two.
fn expect_slowest_of_each_method(jdk: &Jdk, profile: &Profile) {
    let mut longest: BTreeMap<&str, u64> = BTreeMap::new();
    for (method, row) in &profile.intervals {
        let of_method = longest.entry(method).or_default();
        *of_method = row.max_ns.max(*of_method);
    }
    for (method, longest) in longest.into_iter().filter(|(_, ns)| *ns > 2 * MS) {
        let of_method = profile.records.iter().filter(|record| record.method == method);
        let recorded = of_method.map(|record| record.total_ns).max().expect("a record");
        let is_same = recorded + recorded / 100_000 >= longest;
        assert!(is_same, "{jdk}: {method}: {recorded} of {longest} ns");
    }
}

/// Seconds from now to the middle of the next hour.
fn to_next_hour() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time");
    let now = i64::try_from(now.as_secs()).expect("a time");
    3_600 - now % 3_600 + 1_800
}

/// Sets a running clock. Its file is never shorter than eight bytes: a process reads it.
fn set_to(clock: &Path, seconds: i64) {
    let file = OpenOptions::new().write(true).open(clock).expect("a clock");
    file.write_all_at(&seconds.to_ne_bytes(), 0).expect("a clock");
}

/// Starts `programs.Ticks` in a folder with the file `clock`, which sets its clock.
fn ticks(jdk: &Jdk, options: &str, folder: &Path) -> Running {
    Java::new(jdk)
        .variable("LD_PRELOAD", set_clock())
        .variable("SET_CLOCK", folder.join("clock"))
        .agent(options)
        .main(classes(), "programs.Ticks")
        .arg(folder)
        .start()
}

/// The names of the run's files, sorted.
fn file_names(folder: &Path) -> Vec<String> {
    let logs = folder.join("logs");
    let run = if logs.exists() { Profile::runs(&logs).pop() } else { None };
    let files = run.into_iter().flat_map(|run| fs::read_dir(run).expect("a run"));
    let mut names: Vec<String> =
        files.map(|f| f.expect("a file").file_name().into_string().expect("a name")).collect();
    names.sort();
    names
}

#[test]
fn hours_are_closed_compressed_and_never_lost_when_the_clock_is_set() {
    let runs: Vec<_> = jdks()
        .iter()
        .zip(["gzip", "zstd", "off"].into_iter().cycle())
        .map(|(jdk, compress)| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let (logs, clock) = (folder.path().join("logs"), folder.path().join("clock"));
            let ahead = to_next_hour();
            fs::write(&clock, ahead.to_ne_bytes()).expect("a clock");
            let port = free_port();
            let options = format!(
                "include=programs.Ticks.tick,threshold=0,compress={compress},max_mb_per_hour=50,\
                 logs={},port={port}",
                logs.display()
            );
            let program = ticks(jdk, &options, folder.path());
            (jdk, compress, folder, ahead, port, program)
        })
        .collect();
    let end = |compress: &str| match compress {
        "gzip" => ".stats.csv.gz",
        "zstd" => ".stats.csv.zst",
        _ => ".stats.csv",
    };
    for (jdk, compress, folder, ahead, port, _) in &runs {
        let has = |end: &str| file_names(folder.path()).iter().any(|name| name.ends_with(end));
        wait_until(&format!("{jdk}: a record"), || has(".calls.csv"));
        assert!(tprofiler(*port, &["flush"]).status.success());
        // The next hour begins; the files of this one are closed and compressed.
        set_to(&folder.path().join("clock"), ahead + 3_600);
        wait_until(&format!("{jdk}: {compress}: a closed hour"), || has(end(compress)));
    }
    // Back into the closed hour, after the agent has noticed its end.
    for (jdk, compress, folder, ahead, ..) in &runs {
        set_to(&folder.path().join("clock"), *ahead);
        let has = |text: &str| file_names(folder.path()).iter().any(|name| name.contains(text));
        wait_until(&format!("{jdk}: {compress}: a second part"), || {
            *compress == "off" || has("Z-2.calls.csv")
        });
        set_to(&folder.path().join("clock"), ahead + 2 * 86_400);
    }
    for (jdk, compress, folder, .., program) in runs {
        // A recorded call of the day after tomorrow.
        wait_until(&format!("{jdk}: another day"), || {
            let names = file_names(folder.path());
            let calls = names.iter().filter(|name| name.contains("calls"));
            calls.map(|name| &name[..8]).collect::<BTreeSet<_>>().len() > 1
        });
        fs::write(folder.path().join("stop"), "").expect("a file");
        let finished = program.wait();
        finished.expect_quiet_success(jdk);
        let ticks = printed(&finished.stdout, "ticks");
        let profile = Profile::only_run(&folder.path().join("logs"));
        let tick = &profile.counts["programs.Ticks tick ()V"];
        assert_eq!(tick.calls, ticks, "{jdk}: {compress}: {:?}", file_names(folder.path()));
        assert_eq!(profile.records.len() as u64, ticks, "{jdk}: {compress}");
        let output = analyze(&["--format", "csv"], &folder.path().join("logs"));
        let stderr = text(&output.stderr);
        let is_reported = |line: &str| line.starts_with("analyze: The profiler took about ");
        assert!(output.status.success() && stderr.lines().all(is_reported), "{jdk}: {stderr}");
        assert!(text(&output.stdout).contains(&format!(",{ticks},0,")), "{jdk}");
    }
}

#[test]
fn the_oldest_hours_of_the_own_run_are_deleted_and_nothing_else() {
    let jdk = jdks().last().expect("a JDK");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (logs, clock) = (folder.path().join("logs"), folder.path().join("clock"));
    // Another run, older and larger, whose files have the names that this run's will have.
    let hour = |ahead: i64| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let ns =
            now.expect("a time").as_nanos() + u128::try_from(ahead).expect("ahead") * 1_000_000_000;
        log_format::file_names::Hour::of_unix_ns(u64::try_from(ns).expect("a time"))
    };
    let ahead = to_next_hour();
    let other = logs.join("20200101T000000Z-web07-1");
    fs::create_dir_all(&other).expect("a folder");
    let closed = hour(ahead).file_name(log_format::file_names::Table::Calls);
    fs::write(other.join(&closed), vec![b'x'; 3_000_000]).expect("a file");
    fs::write(&clock, ahead.to_ne_bytes()).expect("a clock");
    let port = free_port();
    let options = format!(
        "include=programs.Ticks.tick,threshold=0,keep=3s,compress=off,logs={},port={port}",
        logs.display()
    );
    let program = ticks(jdk, &options, folder.path());
    wait_until("a run", || Profile::runs(&logs).len() == 2);
    let run = Profile::runs(&logs).remove(1);
    let calls = run.join(&closed);
    wait_until("the first hour", || calls.exists());
    set_to(&clock, ahead + 3_600);
    wait_until("the first hour's end", || !calls.exists());
    let status = text(&tprofiler(port, &["status"]).stdout);
    assert!(status.contains("\nhours deleted: 1\n"), "{status}");
    fs::write(folder.path().join("stop"), "").expect("a file");
    program.wait().expect_quiet_success(jdk);
    assert_eq!(fs::metadata(other.join(&closed)).expect("the other run's file").len(), 3_000_000);
    // The rest is intact.
    let profile = Profile::read(&run);
    assert!(!profile.records.is_empty());
    let report = analyze(&[], &run);
    assert_eq!(report.status.code(), Some(0));
    let report = text(&report.stdout);
    assert!(report.contains("1 hour of the log was deleted (options keep and"), "{report}");
}

/// Each flush writes the statistics of some thousand methods, whatever the hour's budget.
#[test]
fn a_run_stays_below_its_size_however_often_it_is_flushed() {
    let jdk = compiler();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (logs, port) = (folder.path().join("logs"), free_port());
    let source = folder.path().join("Hello.java");
    fs::write(&source, "class Hello {}").expect("a file");
    let options =
        format!("include=com.sun.tools,max_mb=2,compress=off,logs={},port={port}", logs.display());
    let program = Java::new(jdk)
        .agent(&options)
        .main(classes(), "programs.Compile")
        .arg("15")
        .args([folder.path(), &source])
        .start();
    wait_until("control", || tprofiler(port, &["status"]).status.success());
    let (mut most, mut written, mut deleted) = (0, 0, 0);
    // How much a flush writes depends on the compiler's progress.
    while written <= 20_000 || deleted < 2 {
        assert!(tprofiler(port, &["flush"]).status.success());
        std::thread::sleep(Duration::from_millis(100));
        most = most.max(bytes_in(&Profile::runs(&logs)[0]));
        let status = text(&tprofiler(port, &["status"]).stdout);
        let status = status.replace(": ", " ");
        written += printed(&status, "methods instrumented");
        deleted =
            if status.contains("hours deleted") { printed(&status, "hours deleted") } else { 0 };
    }
    program.wait().expect_quiet_success(jdk);
    // The part being written is never deleted, and it may be the larger half.
    assert!(most < 4_000_000, "{most} bytes");
    let report = analyze(&[], &logs);
    assert_eq!(report.status.code(), Some(0), "{}", text(&report.stderr));
    assert!(text(&report.stdout).contains("of the log were deleted"), "{}", text(&report.stdout));
}

/// Recording that pauses all the time writes statistics at the end of their interval, not at each pause.
#[test]
fn pauses_do_not_write_method_statistics() {
    let jdk = compiler();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let logs = folder.path().join("logs");
    let source = folder.path().join("Hello.java");
    fs::write(&source, "class Hello {}").expect("a file");
    let options = format!(
        "include=com.sun.tools,record=100ms,pause=100ms,compress=off,logs={},port=off",
        logs.display()
    );
    let java = Java::new(jdk).agent(&options).main(classes(), "programs.Compile");
    java.arg("4").args([folder.path(), &source]).run().expect_quiet_success(jdk);
    let profile = Profile::only_run(&logs);
    let files = fs::read_dir(&profile.folder).expect("a run").map(|e| e.expect("a file").path());
    let stats = files.filter(|path| path.to_string_lossy().ends_with(".stats.csv"));
    let starts: BTreeSet<String> = stats
        .flat_map(|path| {
            let text = fs::read_to_string(path).expect("rows");
            let rows =
                text.lines().skip(1).filter_map(|row| Some(row.split_once(',')?.0.to_owned()));
            rows.collect::<Vec<_>>()
        })
        .collect();
    // Some twenty pauses; an interval may end with a minute, and one ends with the JVM.
    assert!((1..=3).contains(&starts.len()), "{starts:?}");
    let open = profile.records.iter().filter(|record| record.exit == Exit::Unfinished);
    assert!(open.count() > 20, "calls open at the pauses");
}
