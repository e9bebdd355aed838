//! Each error is reported in one line, and the service goes on.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use test_classes::{Finished, Java, Jdk, Profile, artifacts, classes, jdks};

/// Runs a program with these agent options in a folder.
fn run(jdk: &Jdk, options: &str, folder: &Path) -> Finished {
    Java::new(jdk)
        .agent(options)
        .main(classes(), "programs.Exits")
        .arg("return")
        .folder(folder)
        .run()
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = Command::new(&artifacts().tprofiler).arg("list").stdout(full).output();
    let output = output.expect("tprofiler runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("tprofiler: the answer cannot be written: "), "{stderr}");
}

#[test]
fn a_wrong_option_leaves_the_service_alone() {
    for jdk in jdks() {
        for (options, message) in [
            (
                "colour=red",
                "unknown option 'colour'; options are include, exclude, exclude_loader, leaves, accessors, min_code, threshold, overhead, cpu, wall, lock, parks, sql, sql_literals, alloc, trace, exceptions, exception_messages, sampler_cap, engine, start, window, record, pause, logs, log_group, max_mb_per_hour, max_mb, keep, compress, debug, port, port_access, bind, token_file, max_memory, clock, retransform, probe, strict, config",
            ),
            (
                "include=com.shop,threshold=soon",
                "threshold: 'soon' is not a duration like 500us, 1ms or 2s",
            ),
            ("port=http", "port: 'http' is not a port from 1 to 65535, like 50000, or off"),
            (
                "include=com..shop",
                "'com..shop' is not a pattern like com.shop, com.shop.*Dao or com.shop.Order.pay",
            ),
            (
                "include==com.shop",
                "'=com.shop' is not a pattern like com.shop, com.shop.*Dao or com.shop.Order.pay",
            ),
            (
                "exclude=com/shop/Order",
                "'com/shop/Order' is not a pattern; use dots: com.shop.Order",
            ),
            ("start=maybe", "start: 'maybe' is neither on nor off"),
            ("logs=", "logs: a folder is needed"),
        ] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let finished = run(jdk, options, folder.path());
            assert_eq!(
                (finished.status, &*finished.stdout),
                (Some(0), "worked\nhook\n"),
                "{jdk}: {options}"
            );
            assert_eq!(
                finished.stderr,
                format!("tprofiler: {message}; profiling is off\n"),
                "{jdk}"
            );
            assert_eq!(
                fs::read_dir(folder.path()).expect("a folder").count(),
                0,
                "{jdk}: {options}"
            );
        }
    }
}

#[test]
fn strict_stops_the_jvm_instead() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let finished = run(jdk, "strict,colour=red", folder.path());
        assert_eq!(finished.status, Some(1), "{jdk}");
        assert!(!finished.stdout.contains("worked"), "{jdk}: {}", finished.stdout);
        let line = finished.stderr.lines().next().unwrap_or_default();
        assert!(
            line.starts_with("tprofiler: unknown option 'colour'"),
            "{jdk}: {}",
            finished.stderr
        );
        assert!(
            line.ends_with("the JVM does not start, because of the option strict"),
            "{jdk}: {line}"
        );
    }
}

#[test]
fn a_log_folder_that_cannot_be_used_is_named() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("file"), "mine").expect("a file");
        for (logs, reason) in [
            ("file", "Not a directory"),
            ("file/below", "Not a directory"),
            ("/proc/logs", "No such file or directory"),
        ] {
            let finished = run(jdk, &format!("logs={logs}"), folder.path());
            assert_eq!(
                (finished.status, &*finished.stdout),
                (Some(0), "worked\nhook\n"),
                "{jdk}: {logs}"
            );
            let start = format!("tprofiler: logs: {logs}: {reason}");
            assert!(finished.stderr.starts_with(&start), "{jdk}: {}", finished.stderr);
            assert!(
                finished.stderr.ends_with("; profiling is off\n"),
                "{jdk}: {}",
                finished.stderr
            );
            assert_eq!(finished.stderr.lines().count(), 1);
            let strict = run(jdk, &format!("strict,logs={logs}"), folder.path());
            assert_eq!(strict.status, Some(1), "{jdk}: {logs}");
        }
        assert_eq!(fs::read_to_string(folder.path().join("file")).expect("the file"), "mine");
    }
}

#[test]
fn a_log_folder_is_made_with_its_parents() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        run(jdk, "logs=a/b/c,port=off", folder.path()).expect_quiet_success(jdk);
        assert!(!Profile::only_run(&folder.path().join("a/b/c")).counts.is_empty());
    }
}

fn analyze(arguments: &[&Path]) -> Output {
    Command::new(&artifacts().analyze).args(arguments).output().expect("analyze runs")
}

/// Real logs of a real run, to be damaged.
fn logs(folder: &Path) -> std::path::PathBuf {
    let jdk = jdks().first().expect("a JDK");
    run(jdk, "logs=logs,port=off,threshold=0,cpu=off", folder).expect_quiet_success("the run");
    Profile::runs(&folder.join("logs")).remove(0)
}

fn file(run: &Path, table: &str) -> std::path::PathBuf {
    let mut files = fs::read_dir(run).expect("a run").map(|e| e.expect("a file").path());
    files.find(|p| p.to_string_lossy().ends_with(&format!(".{table}.csv"))).expect("a table")
}

#[test]
fn damaged_logs_are_read_as_far_as_they_go() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = logs(folder.path());
    let whole = analyze(&[&run]);
    assert!(whole.status.success());
    let report = String::from_utf8_lossy(&whole.stdout).into_owned();
    assert!(report.contains("programs.Exits.work()"), "{report}");

    // A truncated last line, as after kill -9.
    let calls = file(&run, "calls");
    let text = fs::read_to_string(&calls).expect("calls");
    fs::write(&calls, &text[..text.len() - 9]).expect("a cut file");
    let cut = analyze(&[&run]);
    assert!(cut.status.success());
    assert!(String::from_utf8_lossy(&cut.stdout).contains("torn"), "{cut:?}");

    // A line of garbage.
    fs::write(&calls, format!("{text}what is this?\n")).expect("a file with rubbish");
    let rubbish = analyze(&[&run]);
    let message = String::from_utf8_lossy(&rubbish.stderr).into_owned();
    let place = format!("{}:{}: ", calls.display(), text.lines().count() + 1);
    assert!(message.contains(&place) && message.lines().count() == 1, "{message}");
    assert!(rubbish.status.success());

    // No names.
    fs::remove_file(file(&run, "methods")).expect("methods");
    let nameless = analyze(&[&run]);
    assert!(String::from_utf8_lossy(&nameless.stdout).contains("method #"), "{nameless:?}");
    assert!(!String::from_utf8_lossy(&nameless.stdout).contains("programs.Exits.work"));
}

#[test]
fn there_may_be_nothing_to_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for path in [folder.path().to_owned(), folder.path().join("absent")] {
        let output = analyze(&[&path]);
        assert_eq!(output.status.code(), Some(2), "{}", path.display());
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{output:?}");
        assert!(output.stdout.is_empty());
    }
}
