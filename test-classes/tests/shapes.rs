//! Code that compilers rarely or never write, made by `java/newest/MakeShapes.java`: checked by the JDK's class-file
//! library, and run on every JVM with and without the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use log_format::rows::{EventRow, counter, event};
use rewriter::Skip;
use test_classes::{
    Check, Java, Jdk, Profile, check, classes, compile, compiler, ends_of_jdks, jdks_from,
    newest_classes, project,
};

/// Makes the shapes in a folder.
fn make(folder: &Path) {
    let (jdk, classes) = newest_classes();
    Java::new(jdk)
        .main(classes, "newest.MakeShapes")
        .arg(folder)
        .run()
        .expect_quiet_success("MakeShapes");
}

fn class_files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path());
    let classes = entries.filter(|path| path.extension().is_some_and(|e| e == "class"));
    classes
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, fs::read(&path).expect("a class"))
        })
        .collect()
}

/// Checks classes and returns the methods not instrumented by accident, by reason.
fn checked(classes: &BTreeMap<String, Vec<u8>>) -> BTreeMap<Skip, BTreeSet<String>> {
    let list: Vec<Check<'_>> =
        classes.values().map(|bytes| Check { bytes, is_checked: true }).collect();
    let checked = check(&list);
    assert!(checked.wrong.is_empty(), "{}", checked.wrong.join("\n"));
    assert_eq!(checked.unreadable, [""; 0]);
    let accidents = checked.skipped.into_iter().filter(|(why, _)| !why.is_by_design());
    accidents.map(|(why, names)| (why, names.into_iter().collect())).collect()
}

#[test]
fn every_shape_is_instrumented_or_skipped_for_its_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    make(folder.path());
    let classes = class_files(folder.path());
    assert!(classes.len() > 150, "{} shapes", classes.len());
    let mut skipped = checked(&classes);

    // Start, one End, and a handler of nine bytes: 21 bytes more.
    let too_large: BTreeSet<String> = (0..21).map(|less| format!("Size{less:02}.run()I")).collect();
    assert_eq!(skipped.remove(&Skip::CodeTooLarge), Some(too_large));
    // The distance grows by the six bytes of each of two Ends inside it.
    let too_far = skipped.remove(&Skip::BranchTooFar).unwrap_or_default();
    let expected: BTreeSet<String> =
        (0..12).map(|less| format!("Forward{less:02}.jump(I)I")).collect();
    let forward: BTreeSet<String> =
        too_far.iter().filter(|n| n.starts_with("Forward")).cloned().collect();
    assert_eq!(forward, expected);
    assert!(too_far.iter().any(|n| n.starts_with("Backward")), "{too_far:?}");
    assert!(!too_far.iter().any(|n| n.starts_with("GotoW")), "{too_far:?}");
    // If there is no space for the constants, and only then.
    let full = skipped.remove(&Skip::ConstantPoolFull).unwrap_or_default();
    for less in 0..=10 {
        for method in ["run()I", "pick(I)I"] {
            assert!(full.contains(&format!("Pool{less:02}.{method}")), "{less}: {full:?}");
        }
    }
    assert!(!full.iter().any(|n| n.starts_with("Pool30")), "{full:?}");
    assert_eq!(skipped, BTreeMap::new());
}

/// Runs the classes of a folder on all JVMs that can, with and without the agent.
fn run_everywhere(folder: &Path, least_version: u32, options: &[&str]) -> BTreeMap<String, String> {
    let mut results = BTreeMap::new();
    // Virtual threads are another matter in each version, byte code is not.
    let is_tried = |jdk: &&Jdk| least_version > 17 || ends_of_jdks().contains(jdk);
    for jdk in jdks_from(least_version).into_iter().filter(is_tried) {
        // Interpreted, and compiled by the optimizing compiler while the main thread waits.
        let compiled = ["-Xbatch", "-XX:-TieredCompilation", "-XX:CompileThreshold=1000"];
        for mode in [&["-Xint"][..], &compiled] {
            let logs = tempfile::tempdir().expect("a temporary folder");
            let agent = format!("exclude=tools,logs={},port=off", logs.path().display());
            let run = |java: Java| {
                java.args(options).args(mode).main(classes(), "tools.RunShapes").arg(folder).run()
            };
            let plain = run(Java::new(jdk));
            let profiled = run(Java::new(jdk).agent(&agent));
            plain.expect_quiet_success(jdk);
            for (plain, profiled) in plain.stdout.lines().zip(profiled.stdout.lines()) {
                assert_eq!(plain, profiled, "{jdk} {mode:?}");
            }
            assert_eq!(plain.stdout, profiled.stdout, "{jdk} {mode:?}");
            assert_eq!((&*profiled.stderr, profiled.status), ("", Some(0)), "{jdk} {mode:?}");
            let profile = Profile::only_run(logs.path());
            assert_eq!(profile.counter(counter::UNSEEN_ENDS), 0, "{jdk} {mode:?}");
            assert_eq!(profile.counter(counter::UNREADABLE), 0, "{jdk} {mode:?}");
            // Each skipped method is named, with the reason.
            let mut named = 0;
            for EventRow { method, reason, .. } in profile.events(event::NOT_INSTRUMENTED) {
                assert!(method.contains('(') && Skip::ALL.iter().any(|s| s.text() == reason));
                named += 1;
            }
            let skipped = profile.counter(counter::NOT_INSTRUMENTED);
            assert_eq!(named, skipped, "{jdk} {mode:?}");
            // Among all shapes, some cannot be instrumented.
            assert!(skipped > 0 || plain.stdout.lines().count() < 100, "{jdk} {mode:?}");
            for line in plain.stdout.lines() {
                let (name, result) = line.split_once(": ").expect("a result");
                results.insert(name.to_owned(), result.to_owned());
            }
        }
    }
    results
}

#[test]
fn every_shape_runs_as_before_on_every_jvm() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    make(folder.path());
    fs::remove_file(folder.path().join("Preview.class")).expect("the preview class");
    let results = run_everywhere(folder.path(), 11, &[]);
    assert!(results.len() > 150, "{} shapes", results.len());
    for (name, result) in &results {
        assert!(result.parse::<i64>().is_ok(), "{name}: {result}");
    }
}

#[test]
fn a_class_of_a_preview_version_runs_as_before() {
    let (made, alone) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    make(made.path());
    fs::copy(made.path().join("Preview.class"), alone.path().join("Preview.class"))
        .expect("a copy");
    let newest = newest_classes().0.major;
    let results = run_everywhere(alone.path(), newest, &["--enable-preview"]);
    assert_eq!(results["Preview"], (42 * 3000).to_string());
}

/// Compiles the sources of `java/modern`, which need Java 21.
fn modern(folder: &Path) {
    let (jdk, _) = newest_classes();
    let source = project().join("test-classes/java/modern/Modern.java");
    let finished = Java::new(jdk)
        .arg("-jar")
        .arg(test_classes::ecj())
        .args(["-21", "-nowarn", "-g", "-d"])
        .args([folder, &source])
        .run();
    finished.expect_quiet_success("ecj");
}

#[test]
fn records_sealed_classes_nest_mates_and_patterns() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    modern(folder.path());
    let classes = class_files(folder.path());
    assert!(classes.len() > 5, "{:?}", classes.keys());
    assert_eq!(checked(&classes), BTreeMap::new());
    let only_run = folder.path().join("run");
    fs::create_dir(&only_run).expect("a folder");
    for (name, bytes) in &classes {
        fs::write(only_run.join(format!("{name}.class")), bytes).expect("a class");
    }
    // Their own classes have no `run`, and report that with and without the agent.
    let results = run_everywhere(&only_run, 21, &[]);
    assert!(results["Modern"].parse::<i64>().is_ok(), "{results:?}");
}

#[test]
fn type_annotations_on_every_target_in_code() {
    let source = project().join("test-classes/java/modern/Annotated.java");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (by_javac, by_ecj) = (folder.path().join("javac"), folder.path().join("ecj"));
    fs::create_dir(&by_javac).expect("a folder");
    compile(compiler(), &["--release", "11"], std::slice::from_ref(&source), &by_javac);
    let (jdk, _) = newest_classes();
    let finished = Java::new(jdk)
        .arg("-jar")
        .arg(test_classes::ecj())
        .args(["-11", "-nowarn", "-g", "-d"])
        .args([&by_ecj, &source])
        .run();
    finished.expect_quiet_success("ecj");
    for compiled in [by_javac, by_ecj] {
        let classes = class_files(&compiled);
        let bytes = &classes["Annotated"];
        for target in 0x40..=0x4b {
            // Each target type occurs, before its table or offset.
            assert!(bytes.contains(&target), "{target:#x} in {}", compiled.display());
        }
        assert_eq!(checked(&classes), BTreeMap::new());
        let only: PathBuf = compiled.join("run");
        fs::create_dir(&only).expect("a folder");
        fs::write(only.join("Annotated.class"), bytes).expect("a class");
        let results = run_everywhere(&only, 11, &[]);
        assert!(results["Annotated"].parse::<i64>().is_ok(), "{results:?}");
    }
}
