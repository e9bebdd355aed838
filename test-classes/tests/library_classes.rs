//! Every class of real libraries, from javac, Eclipse's compiler, Kotlin, Scala, Groovy, Clojure, AspectJ, ProGuard,
//! R8 and compilers of twenty years ago, with all methods instrumented.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use log_format::rows::counter;
use rewriter::{ClassInfo, MethodInfo, Mutf8, Outcome, ProbeId, Rewriter, Selector, Skip};
use test_classes::{
    Check, Java, Jdk, LibraryClass, Profile, check, classes, classes_of, found, is_in_lane, jdks,
    libraries, library,
};

/// Checks classes, asserts that there are no errors, and prints the numbers.
fn assert_all_well(what: &str, own: &[LibraryClass], others: &[LibraryClass]) {
    let mut seen = HashSet::new();
    let checked: Vec<Check<'_>> = own
        .iter()
        .map(|class| (class, true))
        .chain(others.iter().map(|class| (class, false)))
        .filter(|(class, _)| seen.insert(&class.entry))
        .map(|(class, is_checked)| Check { bytes: &class.bytes, is_checked })
        .collect();
    let checked = check(&checked);
    println!(
        "{what}: {} classes checked with {} methods; {} errors of the originals; skipped: {:?}",
        checked.classes,
        checked.methods,
        checked.known,
        checked.skipped.iter().map(|(why, names)| (why.text(), names.len())).collect::<Vec<_>>(),
    );
    assert!(checked.wrong.is_empty(), "{what}:\n{}", checked.wrong.join("\n"));
    assert_eq!(checked.unreadable, [""; 0], "{what}");
    // Nothing is skipped silently: methods that could not be instrumented are named here.
    let accidents: Vec<_> = checked.skipped.iter().filter(|(why, _)| !why.is_by_design()).collect();
    assert!(accidents.is_empty(), "{what}: {accidents:?}");
}

#[test]
fn no_class_of_the_libraries_is_broken() {
    let all: Vec<LibraryClass> = libraries().iter().flat_map(|jar| classes_of(jar)).collect();
    let mut versions = BTreeMap::<u16, usize>::new();
    for class in &all {
        *versions.entry(class.major_version()).or_default() += 1;
    }
    println!("class file versions: {versions:?}");
    assert!(versions.keys().any(|v| *v < 49) && versions.keys().any(|v| *v >= 61));
    let (own, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|class| is_in_lane(&class.bytes));
    assert_all_well("libraries", &own, &others);
}

/// ProGuard merges, inlines, renames and overloads in ways that no compiler does.
#[test]
#[ignore = "full lane: it runs ProGuard"]
fn no_class_of_an_optimized_and_obfuscated_library_is_broken() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("obfuscated.jar");
    let input = ["commons-lang3", "commons-collections", "gson", "antlr-2"].map(library);
    let mut command = Command::new(newest_with_jmods().command("java"));
    // It ends before the best compiler pays off.
    command.arg("-XX:TieredStopAtLevel=1");
    command.arg("-cp").arg(class_path(&libraries())).arg("proguard.ProGuard");
    for jar in &input {
        command.arg("-injars").arg(format!("{}(!META-INF/**)", jar.display()));
    }
    let result = command
        .arg("-outjars")
        .arg(&output)
        .arg("-libraryjars")
        .arg(format!(
            "{}/jmods/java.base.jmod(!**.jar;!module-info.class)",
            newest_with_jmods().home.display()
        ))
        .args(["-dontwarn", "-dontnote", "-ignorewarnings", "-forceprocessing"])
        .args(["-optimizationpasses", "3"])
        .args(["-allowaccessmodification", "-overloadaggressively"])
        .args(["-mergeinterfacesaggressively", "-repackageclasses", "x"])
        .args(["-keep,allowobfuscation,allowoptimization", "class ** { public *; }"])
        .output()
        .expect("ProGuard runs");
    let said = String::from_utf8_lossy(&result.stdout).into_owned()
        + &String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{said}");
    let own = classes_of(&output);
    assert!(own.len() > 500, "{} classes; {said}", own.len());
    let others: Vec<LibraryClass> = libraries().iter().flat_map(|jar| classes_of(jar)).collect();
    assert_all_well("obfuscated", &own, &others);
}

/// A JDK with classes that ProGuard can read.
fn newest_with_jmods() -> &'static Jdk {
    let jdk = found().iter().find(|jdk| jdk.home.join("jmods/java.base.jmod").exists());
    jdk.expect("a JDK with jmods is needed; scripts/test.sh installs one")
}

fn class_path(jars: &[PathBuf]) -> String {
    let jars: Vec<String> = jars.iter().map(|jar| jar.display().to_string()).collect();
    jars.join(":")
}

/// Links classes in a JVM, with the agent or without: returns which ones it refuses, and how many it links.
fn link(jdk: &Jdk, names: &Path, jars: &[PathBuf], agent: Option<&str>) -> (BTreeSet<String>, u64) {
    let java = Java::new(jdk);
    let java = match agent {
        Some(options) => java.agent(options),
        None => java,
    };
    let finished = java.main(classes(), "tools.LinkClasses").arg(names).args(jars).run();
    finished.expect_quiet_success(jdk);
    let mut refused = BTreeSet::new();
    let mut linked = 0;
    for line in finished.stdout.lines() {
        match line.strip_prefix("linked ") {
            Some(number) => linked = number.parse().expect("a number"),
            None => {
                refused.insert(line.to_owned());
            }
        }
    }
    (refused, linked)
}

/// The first version of class files that have frames.
const WITH_FRAMES: u16 = 50;

/// The verifier of java.lang.classfile handles only classes with frames, so the oldest JVM links the older ones, and
/// the newest JVM all: a sixth of them in the fast lane.
#[test]
fn hotspot_links_every_class_that_it_links_without_probes() {
    let jars = libraries();
    let (mut old, mut in_lane) = (BTreeSet::new(), BTreeSet::new());
    for class in jars.iter().flat_map(|jar| classes_of(jar)) {
        let Some(name) = class.name() else { continue };
        if class.major_version() < WITH_FRAMES {
            old.insert(name.clone());
        }
        if is_in_lane(&class.bytes) {
            in_lane.insert(name);
        }
    }
    assert!(old.len() > 2_000, "only {} classes without frames", old.len());
    for (jdk, selected) in [(jdks().first(), old), (jdks().last(), in_lane)] {
        let jdk = jdk.expect("a JDK");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let list = folder.path().join("names");
        let selected: Vec<String> = selected.into_iter().collect();
        fs::write(&list, selected.join("\n")).expect("a file");
        let (plain, linked) = link(jdk, &list, &jars, None);
        let logs = folder.path().join("logs");
        // With the probes of JDBC's methods too.
        let options = format!("sql=100ms,logs={},port=off", logs.display());
        let (profiled, linked_with_probes) = link(jdk, &list, &jars, Some(&options));
        println!("{jdk}: {linked} of {} classes linked, {} refused", selected.len(), plain.len());
        assert_eq!(plain, profiled, "{jdk}");
        assert_eq!(linked, linked_with_probes, "{jdk}");
        let profile = Profile::only_run(&logs);
        // Some are interfaces without code.
        assert!(profile.counter(counter::CLASSES) > linked * 3 / 4, "{jdk}");
        let not_done =
            [counter::NOT_INSTRUMENTED, counter::UNREADABLE].map(|name| profile.counter(name));
        assert_eq!(not_done, [0, 0], "{jdk}");
    }
}

/// Selects all methods that JDBC has.
struct OfJdbc(usize);

impl Selector for OfJdbc {
    fn selects(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> bool {
        true
    }

    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
        self.0 += 1;
        ProbeId::new(1)
    }

    fn skipped(&mut self, class: &ClassInfo<'_>, name: Mutf8<'_>, _: Mutf8<'_>, why: Skip) {
        assert!(why.is_by_design(), "{}.{name}: {}", class.name, why.text());
    }
}

/// HotSpot links them above.
#[test]
fn drivers_and_pools_have_methods_with_probes_of_statements() {
    for start in ["h2-", "sqlite-jdbc-", "postgresql-", "mysql-connector-j-", "HikariCP-"] {
        let mut methods = OfJdbc(0);
        let mut rewritten = 0;
        for class in classes_of(&library(start)) {
            let outcome = Rewriter::new().rewrite_statements(&class.bytes, &mut methods);
            rewritten += usize::from(matches!(outcome, Ok(Outcome::Rewritten(_))));
        }
        println!("{start}: {} methods in {rewritten} classes", methods.0);
        assert!(rewritten >= 3 && methods.0 >= 20, "{start}: {} in {rewritten}", methods.0);
    }
}
