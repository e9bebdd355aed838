//! Inputs of `analyze` and everything that can be wrong with them: each with its message and exit status, and never
//! with a wrong sum.

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

use crate::common::*;
use flate2::write::GzEncoder;
use log_format::file_names::{RUN_JSON, Table};
use log_format::rows::StatsRow;

/// A run with one method, with one call of 1 ms in one minute.
fn one_run(logs: &Logs, name: &str, pid: u32) -> RunFolder {
    let run = logs.run(name, "web", pid);
    run.rows(T14, &[method(1, "C", "m", "()V")]);
    run.rows(T14, &[stats(T14, 1, 0, MS, &[MS])]);
    run
}

fn calls(outcome: &Outcome) -> Vec<String> {
    outcome.csv_column("calls")
}

#[test]
fn nothing_to_read_is_an_error_of_one_line() {
    let logs = Logs::new();
    fs::create_dir(logs.root().join("logs/not-a-run")).unwrap();
    fs::write(logs.root().join("notes.txt"), "").unwrap();
    for (path, message) in [
        ("logs", "analyze: logs: there is no run in this folder\n"),
        ("nowhere", "analyze: nowhere: No such file or directory (os error 2)\n"),
        ("notes.txt", "analyze: notes.txt: not a file of a run, ignored\n"),
    ] {
        let outcome = logs.analyze(&[path]);
        assert_eq!((outcome.status, outcome.stderr.as_str()), (2, message));
        assert_eq!(outcome.stdout, "");
    }
}

#[test]
fn what_is_there_is_read_though_something_else_is_not() {
    let logs = Logs::new();
    one_run(&logs, "run", 1);
    let outcome = logs.analyze(&["nowhere", "logs", "--format", "csv"]);
    assert_eq!(outcome.status, 1);
    assert_eq!(calls(&outcome), ["1"]);
    assert!(outcome.stderr.starts_with("analyze: nowhere: No such file"), "{}", outcome.stderr);
}

#[test]
fn a_run_that_cannot_be_understood_is_skipped() {
    let logs = Logs::new();
    one_run(&logs, "good", 1);
    let about = |name: &str| one_run(&logs, name, 2).0.join(RUN_JSON);
    fs::remove_file(about("a-none")).unwrap();
    fs::write(about("b-newer"), r#"{"format_version": 2}"#).unwrap();
    fs::write(about("c-rubbish"), "rubbish").unwrap();
    let outcome = logs.analyze(&["logs", "--format", "csv"]);
    assert_eq!(outcome.status, 1);
    assert_eq!(calls(&outcome), ["1"]);
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    for (line, start) in lines.iter().zip([
        "analyze: logs/a-none/run.json: No such file",
        "analyze: logs/b-newer/run.json: format version 2, this release reads up to 1: this run",
        "analyze: logs/c-rubbish/run.json: expected value",
        "analyze: missing: 3 parts of the logs could not be read",
    ]) {
        assert!(line.starts_with(start), "{line}");
    }
    let text = logs.analyze(&["logs"]);
    assert!(text.stdout.contains("missing   3 parts of the logs"), "{}", text.stdout);
    let alone = logs.analyze(&["logs/b-newer"]);
    assert_eq!((alone.status, alone.stdout.as_str()), (2, ""));
    assert_eq!(alone.stderr.lines().count(), 1);
}

#[test]
fn rubbish_lines_are_shown_up_to_a_number_and_counted() {
    let logs = Logs::new();
    let run = one_run(&logs, "run", 1);
    run.raw(T14, Table::Stats, "rubbish\n");
    for _ in 0..10 {
        run.raw(T14, Table::Calls, "rubbish\n");
    }
    // The first line of a file is its header.
    let calls_file = run.file(T14, Table::Calls);
    let text = fs::read_to_string(&calls_file).unwrap();
    let header = "start_ns,thread,stack,method,total_ns,self_ns,exit\n";
    fs::write(&calls_file, format!("{header}{text}")).unwrap();
    run.raw(T14, Table::Stats, &format!("{T14},1,-1,0,0,0,0,\n{T14},1,1,0,7,7,7,300:1\n"));
    let outcome = logs.analyze(&["logs"]);
    assert_eq!(outcome.status, 0);
    assert!(
        outcome.stdout.contains("1 row of method statistics, 13 bad lines"),
        "{}",
        outcome.stdout
    );
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 6, "{lines:#?}");
    assert_eq!(
        lines[0],
        "analyze: logs/run/20261120T14Z.calls.csv:2: 1 fields where the header has 7"
    );
    assert_eq!(lines[5], "analyze: 8 more lines are no rows");
    assert_eq!(calls(&logs.analyze(&["logs", "--format", "csv"])), ["1"]);
}

#[test]
fn a_torn_line_is_counted_and_not_read() {
    let logs = Logs::new();
    let run = one_run(&logs, "run", 1);
    run.raw(T14, Table::Stats, &format!("{},1,1,0,99", T14 + MIN));
    let text = logs.analyze(&["logs"]).quiet();
    assert!(text.contains("0 recorded calls, 1 row of method statistics, 1 torn line\n"), "{text}");
    assert_eq!(calls(&logs.analyze(&["logs", "--format", "csv"])), ["1"]);
    // A file cut at any point does no harm.
    let stats_file = run.file(T14, Table::Stats);
    let whole = fs::read(&stats_file).unwrap();
    for length in 0..whole.len() {
        fs::write(&stats_file, &whole[..length]).unwrap();
        let outcome = logs.analyze(&["logs", "--format", "csv"]);
        assert_eq!(outcome.status, 0, "cut at {length}: {}", outcome.stderr);
    }
}

#[test]
fn a_file_with_a_useless_header_is_skipped() {
    let logs = Logs::new();
    let run = one_run(&logs, "run", 1);
    let good = "start_ns,method,calls,throws,total_ns,self_ns,max_ns,hist";
    for (header, reason) in [
        (good.replace(",hist", ""), "no column hist"),
        (good.replace(",throws", ",max_ns"), "no column throws"),
        (format!("{good},calls"), "duplicate column calls"),
        ("rubbish".to_owned(), "no column start_ns, method, calls"),
    ] {
        let file = run.file(T14 + HOUR, Table::Stats);
        fs::write(&file, format!("{header}\n{T14},1,1,0,1,1,1,0:1\n")).unwrap();
        let outcome = logs.analyze(&["logs", "--format", "csv"]);
        assert_eq!((outcome.status, calls(&outcome)), (1, vec!["1".to_owned()]));
        let message = format!("analyze: logs/run/20261120T15Z.stats.csv: {reason}");
        assert!(outcome.stderr.starts_with(&message), "{}", outcome.stderr);
    }
    // More columns, and in another order, are fine.
    let row = format!("rainy,{T14},1,1,0,1,1,1,0:1\n");
    fs::write(run.file(T14 + HOUR, Table::Stats), format!("weather,{good}\n{row}")).unwrap();
    assert_eq!(calls(&logs.analyze(&["logs", "--format", "csv"])), ["2"]);
}

#[test]
fn a_folder_in_place_of_a_file_cannot_be_read() {
    let logs = Logs::new();
    let run = one_run(&logs, "run", 1);
    fs::create_dir(run.file(T14, Table::Calls)).unwrap();
    fs::create_dir(run.file(T14, Table::Threads)).unwrap();
    let outcome = logs.analyze(&["logs", "--format", "csv"]);
    assert_eq!((outcome.status, calls(&outcome)), (1, vec!["1".to_owned()]));
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(lines[0], "analyze: logs/run/20261120T14Z.threads.csv: not a file");
    assert_eq!(lines[1], "analyze: logs/run/20261120T14Z.calls.csv: not a file");
}

#[test]
fn names_are_only_ever_those_of_the_own_run() {
    let logs = Logs::new();
    let a = one_run(&logs, "a", 1);
    a.rows(T14, &[stats(T14, 7, 0, 5 * MS, &[5 * MS])]);
    let b = logs.run("b", "web", 2);
    b.rows(T14, &[stats(T14, 1, 0, 3 * MS, &[3 * MS])]);
    let outcome = logs.analyze(&["logs"]);
    assert_eq!(outcome.status, 0);
    assert_eq!(
        outcome.stderr,
        "analyze: logs/b: no methods.csv, its methods are shown by number\n"
    );
    for expected in [
        "missing   logs/b/*.methods.csv\n",
        "note      Methods without a name in their run and are shown by number: 2\n",
        "  1 method #7 (unknown, run a)\n",
        "  2 method #1 (unknown, run b)\n",
        "  3 C.m()\n",
    ] {
        assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
    }
    let csv = logs.analyze(&["logs", "--format", "csv"]);
    assert_eq!(csv.csv()[2][..4], ["", "method #1 (unknown, run b)", "", "1"]);
}

#[test]
fn a_name_of_any_hour_holds_for_the_run() {
    let logs = Logs::new();
    let run = one_run(&logs, "run", 1);
    run.rows(T15, &[stats(T15, 1, 0, MS, &[MS])]);
    let csv = logs.analyze(&["logs", "--format", "csv"]);
    assert_eq!(csv.csv()[1][..4], ["C", "m", "()V", "2"]);
}

#[test]
fn an_id_that_changes_its_meaning_is_a_bad_line() {
    let logs = Logs::new();
    let run = one_run(&logs, "run", 1);
    run.rows(T14, &[method(1, "C", "m", "()V"), method(1, "D", "n", "()V")]);
    let csv = logs.analyze(&["logs", "--format", "csv"]);
    assert_eq!(csv.csv()[1][..4], ["C", "m", "()V", "1"]);
    let message = "analyze: logs/run/20261120T14Z.methods.csv:4: method 1 has another name in an earlier row\n";
    assert_eq!(csv.stderr, message);
}

#[test]
fn single_files_are_counted_alone_and_named_by_their_run() {
    let logs = Logs::new();
    let run = one_run(&logs, "run", 1);
    run.rows(T15, &[stats(T15, 1, 0, MS, &[MS, MS])]);
    run.rows(T15, &[stack(1, 0, 1)]).rows(T15, &[call(T15, 1, 1, 1, MS)]);
    let file = "logs/run/20261120T15Z.stats.csv";
    let csv = logs.analyze(&[file, "--format", "csv"]);
    assert_eq!(csv.csv()[1][..4], ["C", "m", "()V", "2"]);
    let records = "logs/run/20261120T15Z.calls.csv";
    let json = logs.analyze(&[records, "--format", "json"]).json();
    assert_eq!(
        (&json["methods"][0]["calls"], &json["figures_of"]),
        (&1.into(), &"recorded_calls".into())
    );
    let csv = logs.analyze(&[records, "--format", "csv"]);
    assert!(
        csv.stderr.contains("no method statistics in these files, only recorded calls"),
        "{}",
        csv.stderr
    );
}

#[test]
fn a_file_named_twice_is_counted_once() {
    let logs = Logs::new();
    one_run(&logs, "run", 1);
    let file = "logs/run/20261120T14Z.stats.csv";
    let root = logs.root().join("logs").display().to_string();
    let mut paths = vec![file, file, "logs", "./logs/", "logs/../logs/run", "logs/run", &root];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("run", logs.root().join("logs/latest")).unwrap();
        std::os::unix::fs::symlink(file, logs.root().join("link")).unwrap();
        paths.extend(["logs/latest", "link"]);
    }
    for start in 0..paths.len() {
        let mut args = paths[start..].to_vec();
        args.extend(["--format", "csv"]);
        assert_eq!(calls(&logs.analyze(&args)), ["1"], "{args:?}");
    }
}

#[test]
fn sums_that_cannot_be_held_are_reported() {
    let logs = Logs::new();
    let run = one_run(&logs, "run", 1);
    run.rows(T14, &[StatsRow { self_ns: u64::MAX, ..stats(T14, 1, 0, 0, &[MS]) }]);
    let json = logs.analyze(&["logs", "--format", "json"]).json();
    assert_eq!(json["methods"][0]["self_ns"], u64::MAX);
    assert_eq!(json["notes"][0], "A sum exceeds 64 bits and is shown as the largest number");
}

#[test]
fn bad_arguments_are_refused_with_status_2() {
    let logs = Logs::new();
    one_run(&logs, "run", 1);
    for (args, message) in [
        (&["--from", "noon"][..], "--from: 'noon' is not a time like "),
        (&["--to", "25:00"], "--to: '25:00' is not a time like "),
        (&["--method", "a..b"], "--method: 'a..b' is not a pattern like "),
        (&["--from", "15:00", "--to", "14:00"], "--from 2026-11-20T15:00:00Z is not before --to "),
    ] {
        let outcome = logs.analyze(&[&["logs"], args].concat());
        assert_eq!((outcome.status, outcome.stdout.as_str()), (2, ""));
        assert!(outcome.stderr.starts_with(&format!("analyze: {message}")), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1);
    }
    for args in [&[][..], &["logs", "--sort", "beauty"], &["logs", "--top", "-1"]] {
        assert_eq!(logs.analyze(args).status, 2, "{args:?}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    // More than a pipe holds.
    for id in 1..=5_000 {
        run.rows(T14, &[method(id, "com.shop.Order", &format!("method{id}"), "()V")]);
        run.rows(T14, &[stats(T14, id, 0, MS, &[MS])]);
    }
    for format in ["text", "csv", "json"] {
        let mut child = logs
            .command(&["logs", "--top", "0", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{format}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{format}");
    }
}

#[test]
fn rows_that_come_while_it_reads_do_no_harm() {
    let logs = Logs::new();
    let run = one_run(&logs, "run", 1);
    let mut agent = fs::OpenOptions::new().append(true).open(run.file(T14, Table::Stats)).unwrap();
    let row = format!("{T14},1,1,0,{MS},{MS},{MS},0:1\n");
    let mut last = 0;
    for (half, rest) in (1..40).map(|at| row.split_at(at % row.len())) {
        agent.write_all(half.as_bytes()).unwrap();
        let outcome = logs.analyze(&["logs", "--format", "csv"]);
        assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
        let now: u64 = calls(&outcome)[0].parse().unwrap();
        assert_eq!(now, last + 1);
        last = now;
        agent.write_all(rest.as_bytes()).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_description_of_a_run_that_never_ends_holds_up_no_other() {
    let logs = Logs::new();
    one_run(&logs, "run", 1);
    let bad = logs.root().join("logs/bad");
    fs::create_dir(&bad).unwrap();
    let pipe = bad.join("run.json");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let outcome = logs.analyze(&["logs"]);
    assert!(outcome.stderr.contains("run.json: not a file"), "{}", outcome.stderr);
    fs::remove_file(&pipe).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &pipe).unwrap();
    let outcome = logs.analyze(&["logs"]);
    assert!(outcome.stderr.contains("run.json: not a file"), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("1 run of 1 JVM"), "{}", outcome.stdout);
}

#[cfg(unix)]
#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let Ok(full) = fs::File::options().write(true).open("/dev/full") else { return };
    let logs = Logs::new();
    one_run(&logs, "run", 1);
    let output = logs.command(&["logs"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("analyze: the report cannot be written: "), "{stderr}");
}

#[test]
fn compressed_hours_and_parts_of_hours_are_read_once() {
    let logs = Logs::new();
    let run = one_run(&logs, "run", 1);
    let stats_file = run.file(T14, Table::Stats);
    let plain = fs::read(&stats_file).unwrap();
    let gzipped = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let named = |end: &str| {
        let mut name = stats_file.as_os_str().to_owned();
        name.push(end);
        std::path::PathBuf::from(name)
    };
    // Both files exist; then only one, then only the other.
    fs::write(named(".gz"), gzipped(&plain)).unwrap();
    assert_eq!(calls(&logs.analyze(&["logs", "--format", "csv"])), ["1"]);
    fs::remove_file(&stats_file).unwrap();
    assert_eq!(calls(&logs.analyze(&["logs", "--format", "csv"])), ["1"]);
    fs::remove_file(named(".gz")).unwrap();
    let zstd = ruzstd::encoding::compress_to_vec(
        plain.as_slice(),
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    fs::write(named(".zst"), &zstd).unwrap();
    // Names are read through compression too.
    let methods = run.file(T14, Table::Methods);
    fs::write(methods.with_extension("csv.gz"), gzipped(&fs::read(&methods).unwrap())).unwrap();
    fs::remove_file(&methods).unwrap();
    let outcome = logs.analyze(&["logs", "--format", "csv"]);
    assert_eq!(
        (calls(&outcome), outcome.csv_column("method")),
        (vec!["1".into()], vec!["m".into()])
    );
    // The clock was set back: the hour has a second part.
    let second = stats_file.with_file_name("20261120T14Z-2.stats.csv");
    assert!(stats_file.ends_with("20261120T14Z.stats.csv"), "{}", stats_file.display());
    fs::write(&second, &plain).unwrap();
    let outcome = logs.analyze(&["logs", "--format", "csv"]);
    assert_eq!((outcome.status, calls(&outcome)), (0, vec!["2".into()]));
    // A truncated compressed file is reported, and what can be read of it counts.
    fs::write(named(".zst"), &zstd[..zstd.len() / 2]).unwrap();
    let outcome = logs.analyze(&["logs", "--format", "csv"]);
    assert_eq!((outcome.status, calls(&outcome)), (1, vec!["1".into()]));
    assert!(outcome.stderr.contains("stats.csv.zst: "), "{}", outcome.stderr);
}

#[test]
fn a_run_that_has_only_begun_has_no_statistics_yet() {
    let logs = Logs::new();
    let run = logs.run("run", "web", 1);
    run.rows(T14, &[method(1, "C", "m", "()V")]).rows(T14, &[thread(1, "main"), thread(2, "t")]);
    run.rows(T14, &[stack(1, 0, 1)]).rows(T14, &[call(T14, 1, 1, 1, MS)]);
    let text = logs.analyze(&["logs"]).quiet();
    assert!(text.contains("note      Figures are of recorded calls alone"), "{text}");
    assert!(!text.contains("missing"), "{text}");
    // A share of all threads is useless with one thread.
    let by_thread = logs.analyze(&["logs", "--by", "thread"]).quiet();
    assert!(by_thread.contains("\nmain #1: 1 call, self 1.00 ms\n"), "{by_thread}");
    // The next hour has just begun.
    run.rows(T14, &[stats(T14, 1, 0, MS, &[MS])]);
    run.rows(T15, &[call(T15, 1, 1, 1, MS)]);
    let text = logs.analyze(&["logs"]).quiet();
    assert!(
        text.contains("note      Method statistics of the last hour are not written yet"),
        "{text}"
    );
}

#[test]
fn a_number_that_is_none_is_an_error_of_one_line() {
    let logs = Logs::new();
    one_run(&logs, "run", 1);
    for args in [vec!["logs", "--top", "x"], vec!["diff", "logs", "logs", "--top", "x"]] {
        let outcome = logs.analyze(&args);
        let line = "analyze: --top: 'x' is not a number of rows, like 20 or 0 for all\n";
        assert_eq!((outcome.status, outcome.stderr.as_str()), (2, line));
    }
}

#[test]
fn the_manual_page_and_the_completions_know_every_option() {
    let logs = Logs::new();
    let help = logs.analyze(&["--help"]).quiet();
    let options: Vec<&str> = help
        .split_whitespace()
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .map(|word| word.trim_end_matches([',', ')', ':']))
        .collect();
    assert!(options.len() > 15, "{options:?}");
    for what in ["man", "bash", "zsh", "fish"] {
        let text = logs.analyze(&["--generate", what]).quiet().replace("\\-", "-");
        for option in &options {
            let word = if what == "fish" { &option[2..] } else { option };
            assert!(text.contains(word), "{what}: {option}");
        }
        if what == "bash" {
            fs::write(logs.root().join("completions"), &text).unwrap();
            let mut bash = std::process::Command::new("bash");
            let bash = bash.args(["-n", "completions"]).current_dir(logs.root()).status();
            assert!(bash.unwrap().success());
        }
    }
    let both = logs.analyze(&["--generate", "man", "logs"]);
    assert_eq!(both.status, 2, "{both:?}");
}
