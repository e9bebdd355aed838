//! The `rewrite` command on class files, jars and folders; real JVMs load its output.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{Cursor, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use log_format::rows::counter;
use test_classes::{Java, Profile, artifacts, classes, jdks, truth};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

fn rewrite(arguments: &[&str]) -> Output {
    Command::new(&artifacts().rewrite).args(arguments).output().expect("rewrite runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// The number in the summary line that begins with `what`.
fn number(summary: &str, what: &str) -> u64 {
    let line = summary.lines().find_map(|line| line.trim_start().strip_prefix(what));
    line.unwrap_or_else(|| panic!("{what} in {summary}")).trim().parse().expect("a number")
}

/// Runs the programs from these classes under an agent that instruments nothing itself. Rewritten classes call the
/// probe with ids that the agent does not know.
fn runs_everywhere(class_path: &str, folder: &Path) {
    for jdk in jdks() {
        let counts = folder.join("counts");
        let options = format!("exclude=**,logs={},port=off,start=off", path(&folder.join("logs")));
        let finished = Java::new(jdk)
            .agent(&options)
            .args(["-cp", class_path, "truth.Main"])
            .arg(&counts)
            .arg("20")
            .run();
        finished.expect_quiet_success(jdk);
        assert_eq!(finished.stdout, "done\n", "{jdk}");
    }
}

#[test]
fn a_folder_is_rewritten_and_what_it_gives_runs_everywhere() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    copy(classes(), &input);
    fs::write(input.join("notes.txt"), "no class").expect("a file");
    fs::write(input.join("truth/Broken.class"), "no class either").expect("a file");
    fs::create_dir(input.join("empty")).expect("a folder");
    let result = rewrite(&[path(&input), "-o", path(&output), "--exclude", "truth.Count"]);
    assert_eq!(result.status.code(), Some(1), "an unreadable class: {result:?}");
    let summary = text(&result.stdout);
    assert!(summary.contains("Broken.class: not a class file at byte 0\n"), "{summary}");
    assert_eq!(number(&summary, "unreadable inputs"), 1);
    assert_eq!(number(&summary, "other files copied as they are"), 1);
    let (seen, rewritten) =
        (number(&summary, "classes seen"), number(&summary, "classes rewritten"));
    assert_eq!(seen, rewritten + number(&summary, "classes left unchanged"));
    assert!(rewritten > 20 && number(&summary, "methods instrumented") > 80, "{summary}");
    assert!(
        number(&summary, "class initializer") > 0 && number(&summary, "abstract or native") > 0
    );

    assert_eq!(names(&input), names(&output));
    for name in ["notes.txt", "truth/Broken.class", "truth/Count.class"] {
        let read = |folder: &Path| fs::read(folder.join(name)).expect("a file");
        assert_eq!(read(&input), read(&output), "{name}");
    }
    runs_everywhere(path(&output), folder.path());
}

/// Their probes have ids that the agent does not know: the calls are counted as lost.
#[test]
fn rewritten_classes_under_the_agent_are_not_taken_for_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("out");
    let result = rewrite(&[path(classes()), "-o", path(&output), "--include", "truth.Calls"]);
    assert_eq!(result.status.code(), Some(0), "{result:?}");
    let again = rewrite(&[path(&output), "-o", path(&folder.path().join("again"))]);
    let summary = text(&again.stdout);
    assert!(number(&summary, "class is instrumented already") > 10, "{summary}");

    for jdk in jdks() {
        let (counts, logs) = (folder.path().join("counts"), folder.path().join("logs"));
        let options = format!("include=truth,exclude=truth.Count,logs={},port=off", path(&logs));
        let java = Java::new(jdk).agent(&options).args(["-cp", path(&output), "truth.Main"]);
        let finished = java.arg(&counts).arg("20").run();
        finished.expect_quiet_success(jdk);
        assert_eq!(finished.stdout, "done\n", "{jdk}");
        let profile = Profile::only_run(&logs);
        let (foreign, own): (BTreeMap<_, _>, _) =
            truth(&counts).into_iter().partition(|(name, _)| {
                name.starts_with("truth.Calls ") || name.starts_with("truth.Calls$")
            });
        assert_eq!(profile.counts, own, "{jdk}");
        let lost: u64 = foreign.values().map(|counts| counts.calls).sum();
        assert_eq!(profile.counter(counter::LOST_CALLS), lost, "{jdk}");
        assert!(
            lost > 1_000 && profile.counter(counter::NOT_INSTRUMENTED) >= foreign.len() as u64,
            "{jdk}"
        );
        fs::remove_dir_all(&logs).expect("the logs");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry").path();
        let target = to.join(entry.file_name().expect("a name"));
        if entry.is_dir() {
            copy(&entry, &target);
        } else {
            fs::copy(&entry, &target).expect("a copy");
        }
    }
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.push(path.strip_prefix(folder).expect("below").to_owned());
        }
    }
    found.sort();
    found
}

#[test]
fn a_class_file_with_nothing_selected_stays_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (classes().join("truth/Calls.class"), folder.path().join("Calls.class"));
    let bytes = fs::read(&input).expect("a class");
    let result = rewrite(&[path(&input), "-o", path(&output), "--include", "com.elsewhere"]);
    assert!(result.status.success());
    assert_eq!(number(&text(&result.stdout), "not selected"), 1);
    assert_eq!(fs::read(&output).expect("the output"), bytes);

    let some = rewrite(&[path(&input), "-o", path(&output), "--include", "truth.Calls.fib"]);
    assert_eq!(number(&text(&some.stdout), "methods instrumented"), 1);
    let all = rewrite(&[path(&input), "-o", path(&output), "--exclude", "truth.Calls.fib"]);
    assert!(number(&text(&all.stdout), "methods instrumented") > 10);
}

/// A jar with everything that jars may contain.
fn jar(file: &Path) {
    let mut inner = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let deflated = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    let class = |name: &str| fs::read(classes().join(name)).expect("a class");
    inner.start_file("truth/Shapes.class", deflated).expect("an entry");
    inner.write_all(&class("truth/Shapes.class")).expect("an entry");
    let inner = inner.finish().expect("a jar").into_inner();

    let mut jar = ZipWriter::new(File::create(file).expect("a file"));
    jar.set_comment("a comment").expect("a comment");
    jar.add_directory("META-INF/", stored).expect("an entry");
    let entries: [(&str, SimpleFileOptions, Vec<u8>); 9] = [
        (
            "META-INF/MANIFEST.MF",
            deflated,
            b"Manifest-Version: 1.0\r\nMulti-Release: true\r\n\r\n".to_vec(),
        ),
        ("META-INF/SHOP.SF", deflated, b"Signature-Version: 1.0\r\n\r\n".to_vec()),
        ("META-INF/SHOP.RSA", stored, vec![1, 2, 3]),
        ("truth/Calls.class", deflated, class("truth/Calls.class")),
        ("lib/inner.jar", stored, inner),
        ("META-INF/versions/17/truth/Calls.class", deflated, class("truth/Calls.class")),
        ("broken/Broken.class", deflated, b"\xca\xfe\xba\xbe\0\0".to_vec()),
        ("größe.txt", deflated, b"text ".repeat(1000)),
        ("z/Stored.class", stored, class("truth/Threads.class")),
    ];
    for (name, options, contents) in entries {
        jar.start_file(name, options).expect("an entry");
        jar.write_all(&contents).expect("an entry");
    }
    jar.finish().expect("a jar");
}

/// Compression, compressed bytes and contents of an entry.
type Entry = (CompressionMethod, Vec<u8>, Vec<u8>);

/// Names in order, and the entries.
fn entries(bytes: Vec<u8>) -> (Vec<String>, BTreeMap<String, Entry>) {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).expect("a jar");
    let (mut names, mut found) = (Vec::new(), BTreeMap::new());
    for index in 0..archive.len() {
        let (mut raw, mut contents) = (Vec::new(), Vec::new());
        let mut entry = archive.by_index_raw(index).expect("an entry");
        let (name, method) = (entry.name().expect("a name").into_owned(), entry.compression());
        entry.read_to_end(&mut raw).expect("an entry");
        drop(entry);
        archive.by_index(index).expect("an entry").read_to_end(&mut contents).expect("an entry");
        names.push(name.clone());
        found.insert(name, (method, raw, contents));
    }
    (names, found)
}

#[test]
fn a_jar_keeps_its_other_entries_their_order_and_bytes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (folder.path().join("in.jar"), folder.path().join("out.jar"));
    jar(&input);
    // An executable jar begins with a script.
    let script = b"#!/bin/sh\nexec java -jar \"$0\"\n";
    let plain = fs::read(&input).expect("the jar");
    fs::write(&input, [&script[..], &plain].concat()).expect("the jar");

    let result = rewrite(&[path(&input), "-o", path(&output)]);
    assert_eq!(result.status.code(), Some(1), "there is a broken class in it");
    let summary = text(&result.stdout);
    assert_eq!((number(&summary, "classes seen"), number(&summary, "classes rewritten")), (4, 3));
    // The manifest and a text.
    assert_eq!(number(&summary, "other files copied as they are"), 2, "{summary}");
    assert_eq!(number(&summary, "nested jars copied as they are"), 1, "{summary}");
    assert!(
        summary.contains("in.jar: META-INF/SHOP.SF\n")
            && summary.contains("in.jar: META-INF/SHOP.RSA\n")
    );
    assert!(
        summary.contains("in.jar: broken/Broken.class: class file ends early at byte 6\n"),
        "{summary}"
    );

    let written = fs::read(&output).expect("the output");
    assert!(written.starts_with(script));
    let comment = ZipArchive::new(Cursor::new(written.clone())).expect("a jar").comment().to_vec();
    assert_eq!(comment, b"a comment");
    let ((names_before, before), (names_after, after)) = (entries(plain), entries(written));
    let kept: Vec<&String> =
        names_before.iter().filter(|n| !n.starts_with("META-INF/SHOP.")).collect();
    assert_eq!(kept, names_after.iter().collect::<Vec<_>>());
    for (name, now) in &after {
        let old = &before[name];
        let is_rewritten = name.ends_with(".class") && !name.starts_with("broken");
        assert_eq!(now.0, old.0, "{name}: compression");
        assert_eq!(now.1 == old.1, !is_rewritten, "{name}: bytes");
        assert_eq!(now.2 == old.2, !is_rewritten, "{name}: contents");
    }
}

#[test]
fn a_signed_jar_in_which_nothing_changes_stays_signed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (folder.path().join("in.jar"), folder.path().join("out.jar"));
    jar(&input);
    let result = rewrite(&[path(&input), "-o", path(&output), "--include", "com.elsewhere"]);
    let summary = text(&result.stdout);
    assert!(!summary.contains("signature"), "{result:?}");
    assert_eq!(number(&summary, "other files copied as they are"), 4, "{summary}");
    assert_eq!(fs::read(&input).expect("a jar"), fs::read(&output).expect("a jar"));
}

#[test]
fn a_jar_with_two_entries_of_one_name_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (folder.path().join("in.jar"), folder.path().join("out.jar"));
    let mut jar = ZipWriter::new(Cursor::new(Vec::new()));
    let class = fs::read(classes().join("truth/Calls.class")).expect("a class");
    for (name, contents) in [
        ("META-INF/services/a.Service", &b"shop.First"[..]),
        ("truth/Calls.class", &class),
        ("META-INF/services/b.Service", b"shop.Second"),
    ] {
        jar.start_file(name, SimpleFileOptions::default()).expect("an entry");
        jar.write_all(contents).expect("an entry");
    }
    // No writer here makes such a jar: the name is changed afterwards, everywhere.
    let mut bytes = jar.finish().expect("a jar").into_inner();
    let (from, to) = (&b"services/b."[..], &b"services/a."[..]);
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert_eq!(places.len(), 2, "before the entry and in the directory");
    places.iter().for_each(|at| bytes[*at..at + to.len()].copy_from_slice(to));
    // With a script before it, which the directory's offset does not include.
    let bytes = [b"#!/bin/sh\n", &bytes[..]].concat();
    fs::write(&input, &bytes).expect("a jar");

    let result = rewrite(&[path(&input), "-o", path(&output)]);
    assert_eq!(result.status.code(), Some(1), "{result:?}");
    let summary = text(&result.stdout);
    let line = "in.jar: invalid Zip archive: two entries are named META-INF/services/a.Service\n";
    assert!(summary.contains(line), "{summary}");
    assert_eq!((number(&summary, "unreadable inputs"), number(&summary, "classes seen")), (1, 0));
    assert!(fs::read(&output).expect("the output") == bytes);
}

#[test]
fn a_rewritten_jar_runs_everywhere() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (folder.path().join("in.jar"), folder.path().join("out.jar"));
    let mut jar = ZipWriter::new(File::create(&input).expect("a file"));
    for name in names(classes()).iter().filter(|n| n.extension().is_some()) {
        jar.start_file(path(name), SimpleFileOptions::default()).expect("an entry");
        jar.write_all(&fs::read(classes().join(name)).expect("a class")).expect("an entry");
    }
    jar.finish().expect("a jar");
    assert!(rewrite(&[path(&input), "-o", path(&output)]).status.success());
    runs_everywhere(path(&output), folder.path());
}

#[test]
fn kinds_are_recognized_in_any_case() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (folder.path().join("IN.JAR"), folder.path().join("out"));
    jar(&input);
    let result = rewrite(&[path(&input), "-o", path(&output)]);
    assert_eq!(number(&text(&result.stdout), "classes rewritten"), 3);
    fs::copy(classes().join("truth/Calls.class"), folder.path().join("A.CLASS")).expect("a copy");
    let result = rewrite(&[path(&folder.path().join("A.CLASS")), "-o", path(&output)]);
    assert_eq!(number(&text(&result.stdout), "classes rewritten"), 1);
}

#[test]
fn nothing_but_files_is_read_from_a_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    fs::create_dir(&input).expect("a folder");
    fs::copy(classes().join("truth/Calls.class"), input.join("Calls.class")).expect("a copy");
    let made = Command::new("mkfifo").arg(input.join("Pipe.class")).status().expect("mkfifo runs");
    assert!(made.success());
    std::os::unix::fs::symlink("Pipe.class", input.join("Link.class")).expect("a link");
    // Reading a pipe without a writer waits forever.
    let result = Command::new("timeout")
        .arg("20")
        .args([&artifacts().rewrite, &input])
        .arg("-o")
        .arg(&output)
        .output()
        .expect("timeout runs");
    let summary = text(&result.stdout);
    assert_eq!(result.status.code(), Some(1), "{summary}");
    for name in ["Pipe.class", "Link.class"] {
        let line = format!("{}: neither a file nor a folder\n", input.join(name).display());
        assert!(summary.contains(&line), "{summary}");
    }
    assert_eq!(names(&output), [PathBuf::from("Calls.class")]);
}

#[test]
fn an_output_is_whole_or_not_there() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let class = fs::read(classes().join("truth/Calls.class")).expect("a class");
    fs::write(at("Calls.class"), &class).expect("a class");
    let read_only = Permissions::from_mode(0o444);
    fs::set_permissions(at("Calls.class"), read_only.clone()).expect("a mode");
    // Again, over the first output.
    for _ in 0..2 {
        let result = rewrite(&[path(&at("Calls.class")), "-o", path(&at("out.class"))]);
        assert!(result.status.success(), "{result:?}");
        let mode = fs::metadata(at("out.class")).expect("the output").permissions().mode();
        assert_eq!(mode & 0o777, 0o444);
        assert!(fs::read(at("out.class")).expect("the output").len() > class.len());
    }

    // Files may be as long as the class, in KiB; the instrumented one is longer.
    let limited = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", class.len().div_ceil(1024));
    let result = Command::new("bash")
        .args(["-c", &limited, "bash", path(&artifacts().rewrite), path(&at("Calls.class")), "-o"])
        .arg(at("full.class"))
        .output()
        .expect("bash runs");
    assert_eq!(result.status.code(), Some(1), "{result:?}");
    let error = text(&result.stderr);
    assert!(error.contains("full.class: File too large") && error.lines().count() == 1, "{error}");
    assert_eq!(names(folder.path()), ["Calls.class", "out.class"].map(PathBuf::from));

    let result = rewrite(&[path(&at("Calls.class")), "-o", "/dev/null"]);
    assert!(result.status.success(), "{result:?}");
    assert!(!fs::metadata("/dev/null").expect("a device").is_file());
}

#[test]
fn wrong_input_is_reported_in_one_line_and_nothing_is_harmed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("not.jar"), "no zip at all").expect("a file");
    fs::write(at("notes.txt"), "no class").expect("a file");
    let bad = rewrite(&[path(&at("not.jar")), "-o", path(&at("out.jar"))]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(text(&bad.stdout).contains("not.jar: "), "{bad:?}");
    assert_eq!(fs::read(at("out.jar")).expect("a copy"), b"no zip at all");

    for (arguments, message) in [
        (
            vec![path(&at("absent")).to_owned(), "-o".into(), path(&at("x")).into()],
            "absent: No such file",
        ),
        (
            vec!["/dev/null".to_owned(), "-o".into(), path(&at("x")).into()],
            "/dev/null: neither a class nor a jar",
        ),
        (
            vec![path(&at("notes.txt")).to_owned(), "-o".into(), path(&at("x")).into()],
            "notes.txt: neither a class nor a jar",
        ),
        (
            vec![path(folder.path()).to_owned(), "-o".into(), path(&at("sub")).into()],
            "must not be the input or lie in it",
        ),
        (
            vec![path(&at("not.jar")).to_owned(), "-o".into(), path(&at("not.jar")).into()],
            "must not be the input or lie in it",
        ),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let result = rewrite(&arguments);
        assert_eq!(result.status.code(), Some(1), "{arguments:?}");
        let error = text(&result.stderr);
        assert!(error.contains(message) && error.lines().count() == 1, "{error}");
    }
    assert_eq!(fs::read(at("not.jar")).expect("the file"), b"no zip at all");
    assert!(!at("x").exists());
    let help = text(&rewrite(&["--help"]).stdout);
    assert!(help.contains("Do not run the output under the agent"), "{help}");
    let pattern = rewrite(&[path(&at("not.jar")), "-o", path(&at("y")), "--include", "a..b"]);
    assert_eq!(pattern.status.code(), Some(2));
    assert!(text(&pattern.stderr).contains("'a..b' is not a pattern"));
}
