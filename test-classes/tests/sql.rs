//! SQL statements are counted exactly, slow ones have their stacks, and no literal or password is in a log.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use log_format::rows::{Exit, StatementRow, counter};
use test_classes::{
    Executed, Jdk, Profile, SqlRun, ends_of_jdks, executions, field, free_port, jdks,
    jdks_by_turns, jdks_from, library, rows, run_sql, secrets, set_clock, slow_statements,
    sql_classes, sql_expected, sql_java, sums, tprofiler, tprofiler_text, wait_until,
};

const STATEMENTS: &str = "sql.Statements";

/// Prepared, plain, batched, failing, nested and cancelled ones, through a pool, proxies and wrappers, of many threads.
#[test]
fn statements_of_h2_are_counted_exactly() {
    for jdk in jdks_by_turns() {
        let plain = sql_java(jdk, None).args([STATEMENTS, "h2", "all"]).run();
        plain.expect_quiet_success(jdk);
        let ran = run_sql(jdk, "sql=100ms", &[STATEMENTS, "h2", "all"]);
        assert_eq!(ran.finished.stdout, plain.stdout, "{jdk}");
        ran.expect_truth(jdk);
        assert!(ran.total() > 2_000, "{jdk}: {}", ran.total());
        for (text, method) in [
            ("select count_items(), ?", "sql.Nested nested (Lsql/Database;)V"),
            ("select count(*) from item", "sql.Aliases countItems (Ljava/sql/Connection;)I"),
            ("delete from item where name = ?; ...", "sql.Statements batch ()V"),
        ] {
            let rows = ran.executions.iter().filter(|executed| executed.text == text);
            let methods: BTreeSet<_> = rows.map(|executed| executed.method.as_deref()).collect();
            assert_eq!(methods, BTreeSet::from([Some(method)]), "{jdk}: {text}");
        }
        for executed in &ran.executions {
            // A statement that is closed has no connection.
            let may_be_closed = executed.url.is_empty() && executed.throws == executed.executions;
            // H2 gives this one to triggers.
            let is_inner = executed.url == "jdbc:default:connection";
            let is_right = executed.url.starts_with("jdbc:h2:mem:") || is_inner || may_be_closed;
            assert!(is_right, "{jdk}: {executed:?}");
        }
    }
}

/// In SQLite's driver, classes that are no statements have the methods, and statements inherit them.
#[test]
fn statements_of_sqlite_are_counted_exactly() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = format!("-Dorg.sqlite.tmpdir={}", folder.path().display());
    for jdk in jdks_by_turns() {
        let program = [&library, STATEMENTS, "sqlite", "all"];
        let plain = sql_java(jdk, None).args(program).run();
        plain.expect_quiet_success(jdk);
        let ran = run_sql(jdk, "sql=100ms", &program);
        assert_eq!(ran.finished.stdout, plain.stdout, "{jdk}");
        ran.expect_truth(jdk);
        for Executed { url, text, .. } in &ran.executions {
            // The driver executes this one before the connection has its URL.
            let is_first = url.is_empty() && text.starts_with("pragma ");
            assert!(is_first || url.starts_with("jdbc:sqlite:"), "{jdk}: {url:?}: {text}");
        }
    }
}

#[test]
fn wrappers_that_add_comments_change_no_count() {
    for jdk in jdks_by_turns() {
        run_sql(jdk, "sql=100ms", &[STATEMENTS, "h2", "commenting"]).expect_truth(jdk);
    }
}

/// Without an instrumented method, the statement has none; what is measured does not change what is counted.
#[test]
fn statements_count_without_measured_methods() {
    for jdk in ends_of_jdks() {
        let ran =
            run_sql(jdk, "include=sql.Database.isSqlite,sql=100ms", &[STATEMENTS, "h2", "nested"]);
        ran.expect_truth(jdk);
        assert!(ran.executions.iter().all(|executed| executed.method.is_none()), "{jdk}");
        // The driver's own methods are measured too.
        let ran = run_sql(jdk, "include=org.h2,sql=100ms", &[STATEMENTS, "h2", "all"]);
        ran.expect_truth(jdk);
    }
}

#[test]
fn without_the_option_nothing_is_recorded() {
    for jdk in ends_of_jdks() {
        for options in ["threshold=100ms", "sql=off"] {
            let ran = run_sql(jdk, options, &[STATEMENTS, "h2", "prepared"]);
            assert!(ran.executions.is_empty() && ran.slow.is_empty(), "{jdk}: {options}");
            assert_eq!(ran.secrets, BTreeSet::new(), "{jdk}: {options}");
        }
    }
}

#[test]
fn methods_of_other_classes_do_not_count() {
    for jdk in jdks_by_turns() {
        let ran = run_sql(jdk, "sql=0ms", &["sql.Others", "none"]);
        assert_eq!((ran.total(), ran.slow.len()), (0, 0), "{jdk}: {:?}", ran.executions);
        assert_eq!(ran.secrets, BTreeSet::new(), "{jdk}");
        run_sql(jdk, "sql=0ms", &["sql.Others", "inherited"]).expect_truth(jdk);
    }
}

/// The JIT puts the methods of statements into each other, and replaces their frames while they run.
#[test]
fn statements_in_one_another_are_counted_when_they_are_inlined() {
    for jdk in jdks() {
        for options in ["sql=100ms", "sql=0"] {
            run_sql(jdk, options, &["sql.Inlined", "200000"]).expect_truth(jdk);
        }
    }
}

/// Other subclasses of the superclass, before and after the statements' classes are loaded.
#[test]
fn siblings_of_statements_do_not_count() {
    for jdk in jdks_by_turns() {
        run_sql(jdk, "sql=0ms", &["sql.Others", "siblings"]).expect_truth(jdk);
    }
}

#[test]
fn statements_of_virtual_threads_are_counted_exactly() {
    for jdk in jdks_from(21) {
        let ran = run_sql(jdk, "sql=100ms", &["sql.Virtual", "100"]);
        ran.expect_truth(jdk);
        let slow: Vec<_> = ran.slow.iter().filter(|slow| slow.text == "get sleep ?").collect();
        assert_eq!(slow.len(), 100, "{jdk}");
        let threads: BTreeSet<&str> = slow.iter().map(|slow| &*slow.thread).collect();
        assert!(threads.iter().all(|name| name.starts_with("virtual-")), "{jdk}: {threads:?}");
        assert_eq!(threads.len(), 100, "{jdk}");
        for slow in slow {
            assert!(slow.total_ns >= 150_000_000, "{jdk}: {slow:?}");
            assert!(slow.frames.iter().any(|frame| frame == "sql.Virtual.work"), "{jdk}: {slow:?}");
        }
    }
}

/// Compares the recorded executions of `sql.Slow`.
fn compare_slow(jdk: &Jdk, ran: &SqlRun) {
    for line in ran.lines("slow") {
        let [thread, method, text] = [3, 4, 5].map(|at| line[at]);
        let slow: Vec<_> = ran.slow.iter().filter(|slow| slow.text == text).collect();
        assert_eq!(slow.len().to_string(), line[1], "{jdk}: {line:?}");
        let throws = slow.iter().filter(|slow| slow.exit == Exit::Throw).count();
        assert_eq!(throws.to_string(), line[2], "{jdk}: {line:?}");
        for slow in slow {
            assert_eq!(slow.thread, thread, "{jdk}");
            assert!((150_000_000..10_000_000_000).contains(&slow.total_ns), "{jdk}: {slow:?}");
            assert_eq!(slow.url.get(..15), Some("jdbc:h2:mem:slo"), "{jdk}");
            let frame = format!("sql.Slow.{method}");
            assert!(slow.frames.contains(&frame), "{jdk}: {slow:?}");
            let start = format!("sql.Slow {method} ");
            assert!(slow.path.iter().any(|name| name.starts_with(&start)), "{jdk}: {slow:?}");
        }
        let rows: Vec<_> = ran.executions.iter().filter(|row| row.text == text).collect();
        let [total_ns, max_ns] = [
            rows.iter().map(|row| row.total_ns).sum::<u64>(),
            rows.iter().map(|row| row.max_ns).max().unwrap_or_default(),
        ];
        let of_slow = ran.slow.iter().filter(|slow| slow.text == text);
        let sum = of_slow.clone().map(|slow| slow.total_ns).sum::<u64>();
        // The length of a tick is measured again each second.
        assert!(total_ns.abs_diff(sum) <= sum / 1_000, "{jdk}: {text}: {total_ns}, {sum} ns");
        let longest = of_slow.map(|slow| slow.total_ns).max().unwrap_or_default();
        assert!(max_ns.abs_diff(longest) <= longest / 1_000, "{jdk}: {max_ns}, {longest} ns");
    }
}

#[test]
fn slow_statements_have_their_stacks() {
    for jdk in jdks() {
        let ran = run_sql(jdk, "sql=100ms", &["sql.Slow"]);
        ran.expect_truth(jdk);
        compare_slow(jdk, &ran);
        assert!(ran.slow.iter().all(|slow| slow.total_ns >= 100_000_000), "{jdk}");
        assert!(ran.slow.iter().all(|slow| slow.with_literals.is_empty()), "{jdk}");
        assert_eq!(ran.profile.counter(counter::SLOW_SQL_DROPPED), 0, "{jdk}");
    }
}

#[test]
fn a_threshold_of_zero_records_all() {
    for jdk in ends_of_jdks() {
        let ran = run_sql(jdk, "sql=0ms", &["sql.Slow"]);
        ran.expect_truth(jdk);
        compare_slow(jdk, &ran);
        assert_eq!(ran.slow.len() as u64, ran.total(), "{jdk}");
        let ran = run_sql(jdk, "sql=0ms", &[STATEMENTS, "h2", "all"]);
        ran.expect_truth(jdk);
        let dropped = ran.profile.counter(counter::SLOW_SQL_DROPPED);
        assert_eq!(ran.slow.len() as u64 + dropped, ran.total(), "{jdk}");
        assert!(ran.slow.iter().all(|slow| !slow.frames.is_empty()), "{jdk}");
    }
}

/// Parameters of prepared statements are in no text, and passwords are never written.
#[test]
fn literals_are_written_if_asked() {
    for jdk in ends_of_jdks() {
        let ran = run_sql(jdk, "sql=0ms,sql_literals=on", &[STATEMENTS, "h2", "all"]);
        let expected: BTreeSet<String> = ["COMMENT", "LITERAL"].map(str::to_owned).into();
        assert_eq!(ran.secrets, expected, "{jdk}");
        let ran = run_sql(jdk, "sql=100ms,sql_literals=on", &["sql.Slow"]);
        let texts: BTreeSet<&str> = ran.slow.iter().map(|slow| &*slow.with_literals).collect();
        for text in [
            "select pause(150), 'SECRET_LITERAL_31'",
            "select pause(?)",
            "select pause_and_fail(150)",
            "select pause(150), name from item where id = ?",
        ] {
            assert!(texts.contains(text), "{jdk}: {text}: {texts:?}");
        }
        // Not the URL's.
        assert_eq!(ran.secrets, BTreeSet::from(["LITERAL".to_owned()]), "{jdk}");
    }
}

#[test]
fn urls_have_no_secrets() {
    for jdk in jdks_by_turns() {
        for options in ["sql=0ms", "sql=0ms,sql_literals=on"] {
            let ran = run_sql(jdk, options, &["sql.Urls"]);
            ran.expect_truth(jdk);
            let lines = ran.lines("url");
            assert_eq!(lines.len(), 6, "{jdk}");
            for line in lines {
                let (start, text) = (line[1], line[2]);
                let urls = ran.executions.iter().filter(|executed| executed.text == text);
                let urls = urls.map(|executed| &*executed.url);
                let urls: BTreeSet<&str> = urls
                    .chain(ran.slow.iter().filter(|s| s.text == text).map(|s| &*s.url))
                    .collect();
                let is_right = urls.len() == 1 && urls.iter().all(|url| url.starts_with(start));
                assert!(is_right, "{jdk}: {text}: {urls:?}, not {start}");
            }
        }
    }
}

/// The most texts, and those that are no text.
const MOST_TEXTS: usize = 4_000;
const OTHERS: &str = "[other statements]";
const UNKNOWN: &str = "[unknown statement]";

#[test]
fn texts_are_bounded() {
    for jdk in ends_of_jdks() {
        let ran = run_sql(jdk, "sql=100ms", &["sql.Many", "texts", "50000"]);
        let total: u64 = ran.lines("total")[0][1].parse().expect("a number");
        assert_eq!(ran.total(), total, "{jdk}");
        let found = sums(&ran.executions);
        assert!(found.len() <= MOST_TEXTS + 2, "{jdk}: {} texts", found.len());
        assert!(found.len() > MOST_TEXTS / 2, "{jdk}: {} texts", found.len());
        let others = found.get(OTHERS).map_or(0, |sum| sum.0);
        assert!(others > total / 2, "{jdk}: {others} others of {total}");
        // One in three texts is executed twice, at least once before the limit.
        let counts = found.iter().filter(|(text, _)| *text != OTHERS).map(|(_, sum)| sum.0);
        assert!(counts.clone().all(|count| count <= 2) && counts.max() == Some(2), "{jdk}");
    }
}

/// Prepared statements that are held open for long may lose their texts, but no execution is lost.
#[test]
fn many_open_statements_are_all_counted() {
    for jdk in ends_of_jdks() {
        let ran = run_sql(jdk, "sql=100ms", &["sql.Many", "held", "200000"]);
        let total: u64 = ran.lines("total")[0][1].parse().expect("a number");
        assert_eq!(ran.total(), total, "{jdk}");
        let (expected, found) = (sql_expected(&ran.finished), sums(&ran.executions));
        // Some identity hashes are those of two statements.
        let same = 50;
        let mut known = 0;
        for (text, (count, _)) in &found {
            let most = expected.get(text).map_or(0, |expected| expected.0 + same);
            let is_known = text != UNKNOWN;
            assert!(!is_known || *count <= most, "{jdk}: {text}: {count} of {most}");
            known += if is_known { *count } else { 0 };
        }
        println!("{jdk}: {known} of {total} executions with their text");
        assert!(known > 0, "{jdk}");
    }
}

#[test]
fn statements_and_class_loaders_are_collected() {
    let classes = format!("{}/", sql_classes().display());
    let h2 = library("h2-").display().to_string();
    for jdk in ends_of_jdks() {
        let ran = run_sql(jdk, "sql=0ms", &["sql.Many", "collected", "20", &classes, &h2]);
        ran.expect_truth(jdk);
        let left = ran.finished.stdout.lines().find_map(|line| line.strip_prefix("remaining "));
        assert_eq!(left, Some("0 of 1120"), "{jdk}");
    }
}

#[test]
fn statements_are_recorded_from_attach_to_detach_and_again() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        let attaches: &[&str] =
            if jdk.major >= 21 { &["-XX:+EnableDynamicAgentLoading"] } else { &[] };
        let mut program = sql_java(jdk, None).args(attaches).arg("sql.Listen").talk();
        let pid = program.program.pid().to_string();
        for line in ["old 5", "new 5", "plain 5", "begin 4000"] {
            assert_eq!(program.ask(line), line, "{jdk}");
        }
        for round in [1, 2] {
            let options =
                format!("include=sql,sql=0ms,port={},logs={}", free_port(), logs.display());
            let attached = tprofiler_text(&["attach", &pid, &options]);
            assert_eq!(field(&attached, "profiling"), "on", "{jdk}");
            for line in ["old 7", "new 11", "plain 13", "join"] {
                assert_eq!(program.ask(line), line, "{jdk}: {round}");
            }
            let detached = tprofiler_text(&["detach", &pid]);
            assert_eq!(field(&detached, "classes not restored"), "0", "{jdk}: {round}");
            for line in ["old 3", "new 3", "plain 3"] {
                assert_eq!(program.ask(line), line, "{jdk}: {round}");
            }
        }
        program.end().expect_quiet_success(jdk);
        let runs = Profile::runs(&logs);
        assert_eq!(runs.len(), 2, "{jdk}");
        for run in runs {
            let executions = executions(&run);
            let found = sums(&executions);
            let of = |text: &str| found.get(text).copied().unwrap_or_default();
            assert_eq!(of("select name from item where id = ?"), (11, 0), "{jdk}: {found:?}");
            assert_eq!(of("select id from item where name = ?"), (13, 0), "{jdk}: {found:?}");
            // The agent did not see it being prepared.
            assert_eq!(of(UNKNOWN), (7, 0), "{jdk}: {found:?}");
            // It began before.
            assert!(of("select pause(?)").0 <= 1, "{jdk}: {found:?}");
            assert!(found.len() <= 4, "{jdk}: {found:?}");
            for Executed { url, .. } in &executions {
                let is_right = url.is_empty() || url.starts_with("jdbc:h2:mem:listen");
                assert!(is_right, "{jdk}: {url}");
            }
        }
        assert_eq!(secrets(&logs), BTreeSet::new(), "{jdk}");
    }
}

/// Files of closed hours are compressed, and have no secrets either; each hour has the texts that it needs.
#[test]
fn closed_hours_have_texts_and_no_secrets() {
    for (jdk, compress, end) in
        [(0, "gzip", ".sql.csv.gz"), (1, "zstd", ".sql.csv.zst")].map(|(at, compress, end)| {
            let jdks = ends_of_jdks();
            (jdks[at.min(jdks.len() - 1)], compress, end)
        })
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, clock) = (folder.path().join("logs"), folder.path().join("clock"));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = i64::try_from(now.expect("a time").as_secs()).expect("a time");
        // The middle of the next hour.
        let ahead = 3_600 - now % 3_600 + 1_800;
        fs::write(&clock, ahead.to_ne_bytes()).expect("a clock");
        let port = free_port();
        let options =
            format!("include=sql,sql=0ms,compress={compress},port={port},logs={}", logs.display());
        let java = sql_java(jdk, Some(&options)).variable("LD_PRELOAD", set_clock());
        let mut program = java.variable("SET_CLOCK", &clock).arg("sql.Listen").talk();
        for line in ["old 20", "new 20", "plain 20"] {
            assert_eq!(program.ask(line), line, "{jdk}");
        }
        assert!(tprofiler(port, &["flush"]).status.success(), "{jdk}");
        let file = OpenOptions::new().write(true).open(&clock).expect("a clock");
        file.write_all_at(&(ahead + 3_600).to_ne_bytes(), 0).expect("a clock");
        wait_until("a closed hour", || has(&logs, end));
        for line in ["old 30", "new 30", "plain 30"] {
            assert_eq!(program.ask(line), line, "{jdk}");
        }
        program.end().expect_quiet_success(jdk);
        assert_eq!(secrets(&logs), BTreeSet::new(), "{jdk}");
        let run = Profile::only_run(&logs).folder;
        assert!(has(&logs, end), "{jdk}: closed");
        let found = sums(&executions(&run));
        for text in [
            "select amount from item where id = ?",
            "select name from item where id = ?",
            "select id from item where name = ?",
        ] {
            assert_eq!(found.get(text), Some(&(50, 0)), "{jdk}: {text}");
        }
    }
}

/// Texts of prepared statements and of statements in progress stay known, others are forgotten after two hours.
#[test]
fn texts_that_are_needed_outlive_hours_without_executions() {
    for jdk in ends_of_jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, clock) = (folder.path().join("logs"), folder.path().join("clock"));
        fs::write(&clock, 0_i64.to_ne_bytes()).expect("a clock");
        let file = OpenOptions::new().write(true).open(&clock).expect("a clock");
        let port = free_port();
        let options = format!("include=sql,sql=100ms,port={port},logs={}", logs.display());
        let java = sql_java(jdk, Some(&options)).variable("LD_PRELOAD", set_clock());
        let mut program = java.variable("SET_CLOCK", &clock).arg("sql.Listen").talk();
        // `old` is prepared already, and executed when all is over.
        for line in ["plain 1", "begin 5000"] {
            assert_eq!(program.ask(line), line, "{jdk}");
        }
        for hour in 1_i64..=4 {
            file.write_all_at(&(hour * 3_600).to_ne_bytes(), 0).expect("a clock");
            assert_eq!(program.ask("new 1"), "new 1", "{jdk}");
            // It ends the interval, in which the agent sees the hour.
            assert!(tprofiler(port, &["flush"]).status.success(), "{jdk}");
        }
        for line in ["old 5", "plain 5", "join"] {
            assert_eq!(program.ask(line), line, "{jdk}");
        }
        program.end().expect_quiet_success(jdk);
        let run = Profile::only_run(&logs).folder;
        let found = sums(&executions(&run));
        let plain = "select id from item where name = ?";
        for (text, number) in [
            ("select amount from item where id = ?", 5),
            (plain, 6),
            ("select name from item where id = ?", 4),
            ("select pause(?)", 1),
        ] {
            assert_eq!(found.get(text), Some(&(number, 0)), "{jdk}: {text}: {found:?}");
        }
        assert_eq!(found.get(UNKNOWN), None, "{jdk}");
        let ids = rows::<StatementRow>(&run).into_iter().filter(|row| row.text == plain);
        let ids: BTreeSet<_> = ids.map(|row| row.id).collect();
        assert_eq!(ids.len(), 2, "{jdk}: it was forgotten once");
        assert_eq!(secrets(&logs), BTreeSet::new(), "{jdk}");
    }
}

/// Whether a file of the only run has a name that ends like this.
fn has(logs: &Path, end: &str) -> bool {
    let runs = if logs.exists() { Profile::runs(logs) } else { vec![] };
    let files = runs.first().and_then(|run| fs::read_dir(run).ok()).into_iter().flatten().flatten();
    files.into_iter().any(|file| file.file_name().to_string_lossy().ends_with(end))
}

/// A statement in progress is in the answers, and in the log if recording ends before it does.
#[test]
fn statements_in_progress_are_shown_and_recorded() {
    for jdk in jdks_by_turns() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, port) = (folder.path().join("logs"), free_port());
        let options =
            format!("include=sql,sql=100ms,wall=50ms,port={port},logs={}", logs.display());
        let mut program = sql_java(jdk, Some(&options)).arg("sql.Listen").talk();
        for line in ["new 20", "begin 12000"] {
            assert_eq!(program.ask(line), line, "{jdk}");
        }
        let answer = |command: &[&str]| {
            let answer = tprofiler(port, command);
            assert!(answer.status.success(), "{jdk}: {command:?}");
            String::from_utf8(answer.stdout).expect("a text")
        };
        let is_executed = |text: &str| text.contains("select pause(?)");
        wait_until("a thread that executes", || is_executed(&answer(&["threads"])));
        let threads = answer(&["threads"]);
        let begun = threads.lines().find(|line| is_executed(line)).expect("a thread");
        assert!(begun.starts_with("thread: begun ") && begun.contains(", SQL for "), "{threads}");
        wait_until("a call of a second", || is_executed(&answer(&["inflight", "100ms"])));
        let top = answer(&["top", "--sql"]);
        let of = |text: &str| top.lines().filter(|line| line.contains(text)).count();
        assert_eq!(of(" in 20 executions, sql.Listen.prepare("), 1, "{top}");
        assert_eq!(of("V, select name from item where id = ?"), 1, "{top}");
        assert_eq!((of("select pause(?)"), of("self ")), (0, 0), "{top}");
        answer(&["stop"]);
        assert_eq!(program.ask("join"), "join", "{jdk}");
        program.end().expect_quiet_success(jdk);
        let run = Profile::only_run(&logs).folder;
        let (slow, counted) = (slow_statements(&run), sums(&executions(&run)));
        let [slow] = slow.iter().filter(|slow| is_executed(&slow.text)).collect::<Vec<_>>()[..]
        else {
            panic!("{jdk}: {slow:?}");
        };
        assert_eq!((slow.exit, &*slow.thread), (Exit::Unfinished, "begun"), "{jdk}");
        assert!((100_000_000..12_000_000_000).contains(&slow.total_ns), "{jdk}: {slow:?}");
        assert!(slow.frames.iter().any(|frame| frame == "sql.Listen.pause"), "{jdk}: {slow:?}");
        assert_eq!(counted.get("select pause(?)"), None, "{jdk}: {counted:?}");
        assert_eq!(secrets(&logs), BTreeSet::new(), "{jdk}");
    }
}

/// Without the option there is nothing to show.
#[test]
fn top_says_that_statements_are_not_counted() {
    for jdk in ends_of_jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = free_port();
        let options = format!("include=sql,port={port},logs={}", folder.path().display());
        let mut program = sql_java(jdk, Some(&options)).arg("sql.Listen").talk();
        assert_eq!(program.ask("new 1"), "new 1", "{jdk}");
        let refused = tprofiler(port, &["top", "--sql"]);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && error.contains("sql=100ms"), "{jdk}: {error}");
        program.end().expect_quiet_success(jdk);
    }
}
