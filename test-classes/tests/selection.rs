//! Which classes and methods are instrumented.

use std::collections::BTreeSet;

use test_classes::{Java, Jdk, Profile, classes, compiler, found, jdks};

/// The methods that were called, as `class method`.
fn called(profile: &Profile) -> BTreeSet<String> {
    profile.counts.keys().filter_map(|name| Some(name.rsplit_once(' ')?.0.to_owned())).collect()
}

fn profile(jdk: &Jdk, options: &str) -> Profile {
    // Shown if the test fails.
    println!("{jdk}: {options}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (logs, counts) = (folder.path().join("logs"), folder.path().join("counts"));
    let options = format!("{options},logs={},port=off", logs.display());
    let finished =
        Java::new(jdk).agent(&options).main(classes(), "truth.Main").arg(&counts).arg("3").run();
    finished.expect_quiet_success(&options);
    Profile::only_run(&logs)
}

#[test]
fn without_an_include_it_is_the_applications_classes() {
    // The compiler's classes have the application's loader too, but are in a module of the JDK.
    let compilers: Vec<&Jdk> = found().iter().filter(|jdk| jdk.has_compiler()).collect();
    assert!(compilers.contains(&compiler()));
    for jdk in compilers {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, output) = (folder.path().join("logs"), folder.path().join("output"));
        std::fs::create_dir(&output).expect("a folder");
        let source = folder.path().join("Hello.java");
        std::fs::write(&source, "class Hello {}").expect("a file");
        let finished = Java::new(jdk)
            .agent(&format!("logs={},port=off", logs.display()))
            .main(classes(), "programs.Compile")
            .arg("0")
            .args([&output, &source])
            .run();
        finished.expect_quiet_success(jdk);
        let called = called(&Profile::only_run(&logs));
        assert_eq!(called, BTreeSet::from(["programs.Compile main".to_owned()]));
    }
}

#[test]
fn a_package_a_class_or_a_method_is_included_or_excluded() {
    let jdk = jdks().first().expect("a JDK");
    let everything = called(&profile(jdk, ""));
    assert!(everything.contains("truth.Count call") && everything.contains("truth.Calls fib"));

    let one_class = called(&profile(jdk, "include=truth.Calls"));
    assert!(
        one_class.iter().all(|m| m.starts_with("truth.Calls ") || m.starts_with("truth.Calls$"))
    );
    assert!(one_class.contains("truth.Calls$Inner value") && one_class.contains("truth.Calls fib"));

    let one_method = called(&profile(jdk, "include=truth.Calls.fib"));
    assert_eq!(one_method, BTreeSet::from(["truth.Calls fib".to_owned()]));

    // On one JDK everywhere else; they differ in the patterns, not in the JVM's behavior.
    for jdk in jdks() {
        let glob = called(&profile(jdk, "include=truth.*s.run,exclude=truth.Threads"));
        let expected = [
            "truth.Constructors run",
            "truth.Monitors run",
            "truth.Overflow$Rounds run",
            "truth.Shapes run",
        ];
        assert_eq!(glob, expected.map(str::to_owned).into());
    }

    let boundary = called(&profile(jdk, "include=trut,include=truth.Call,include=truth.Main"));
    assert_eq!(boundary, BTreeSet::from(["truth.Main main".to_owned()]));

    let without = called(&profile(jdk, "include=truth,exclude=truth.Count,exclude=**.lambda$*"));
    assert!(!without.iter().any(|m| m.starts_with("truth.Count ") || m.contains("lambda$")));
    assert!(without.contains("truth.Calls lambdas"));
}

#[test]
fn a_class_of_the_jdk_is_instrumented_if_an_include_names_it() {
    for jdk in jdks() {
        let called = called(&profile(jdk, "include=java.util.TreeMap.put,include=truth.Main"));
        let expected = ["java.util.TreeMap put", "truth.Main main"];
        assert_eq!(called, expected.map(str::to_owned).into());
    }
}
