//! A program under the agent behaves as without it: the same output, the same exit status, and for a compiler the
//! same class files byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use log_format::rows::counter;
use test_classes::{
    Finished, Java, Jdk, Profile, classes, ecj, found, is_full, jdks, jdks_from, project,
};

/// All files below a folder, by relative path.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("a path below the folder");
                found.insert(name.to_owned(), fs::read(&path).expect("a file"));
            }
        }
    }
    found
}

fn sources() -> Vec<PathBuf> {
    let java = project().join("test-classes/java");
    // The folders that every compiler here compiles without a class path.
    let folders = ["truth", "programs"].map(|name| java.join(name));
    let below = |folder: &PathBuf| files(folder).into_keys().map(|p| folder.join(p)).collect();
    folders.iter().flat_map(|folder| -> Vec<PathBuf> { below(folder) }).collect()
}

/// Runs a compiler without and with the agent, and compares its output.
fn same_classes(jdk: &Jdk, compiler: &[&str], agent_options: &str, what: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let logs = folder.path().join("logs");
    let compile = |agent: Option<String>, output: &Path| {
        let java = Java::new(jdk);
        let java = match agent {
            Some(options) => java.agent(&options),
            None => java,
        };
        let finished =
            java.args(compiler).args(["-g", "-nowarn", "-d"]).arg(output).args(sources()).run();
        finished.expect_quiet_success(format!("{jdk}: {what}"));
        files(output)
    };
    let plain = compile(None, &folder.path().join("plain"));
    let options = format!("{agent_options},logs={},port=off", logs.display());
    let profiled = compile(Some(options), &folder.path().join("profiled"));
    assert!(plain.len() > 20, "{jdk}: {} classes", plain.len());
    assert_eq!(plain.keys().collect::<Vec<_>>(), profiled.keys().collect::<Vec<_>>());
    for (name, bytes) in &plain {
        assert!(bytes == &profiled[name], "{jdk}: {what}: {} differs", name.display());
    }
    let profile = Profile::only_run(&logs);
    let calls: u64 = profile.counts.values().map(|c| c.calls).sum();
    assert!(calls > 500_000, "{jdk}: {what}: only {calls} calls were seen");
    assert_eq!(profile.counter(counter::UNREADABLE), 0, "{jdk}: {what}");
    assert_eq!(profile.counter(counter::UNSEEN_ENDS), 0, "{jdk}: {what}");
}

#[test]
fn javac_writes_the_same_classes() {
    let able: Vec<&Jdk> = found().iter().filter(|jdk| jdk.has_compiler()).collect();
    assert!(!able.is_empty(), "no JDK here has a compiler");
    let chosen = if is_full() { &able[..] } else { &able[able.len() - 1..] };
    for jdk in chosen {
        let javac = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "--release", "11"];
        same_classes(jdk, &javac, "include=com.sun.tools.javac", "javac");
    }
}

#[test]
fn eclipses_compiler_writes_the_same_classes() {
    let ecj = ecj();
    // The compiler requires Java 17.
    let count = found().iter().filter(|jdk| jdk.major >= 17).count();
    assert!(count >= 2, "too few runtimes from 17 on: {count}");
    let able = jdks_from(17);
    let chosen = if is_full() { &able[..] } else { &able[able.len() - 1..] };
    for jdk in chosen {
        let main = "org.eclipse.jdt.internal.compiler.batch.Main";
        // Small runtimes lack what --release needs.
        let compiler = ["-cp", ecj.to_str().expect("a path"), main, "-11"];
        // Without an include: everything in the class path.
        same_classes(jdk, &compiler, "threshold=5ms", "ecj");
    }
}

/// Everything that a JVM runs, including its own libraries: strings, collections, class loading.
#[test]
fn a_program_with_all_of_java_base_instrumented_is_the_same() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = format!(
            "include=java,include=sun,include=jdk,include=programs,logs={},port=off",
            folder.path().display()
        );
        let plain = Java::new(jdk).main(classes(), "programs.Exits").arg("return").run();
        let profiled =
            Java::new(jdk).agent(&options).main(classes(), "programs.Exits").arg("return").run();
        assert_same(&plain, &profiled, &format!("{jdk}: java.base"));
        let profile = Profile::only_run(folder.path());
        assert!(
            profile.counts.keys().any(|name| name.starts_with("java.util.HashMap put ")),
            "{jdk}"
        );
    }
}

fn assert_same(plain: &Finished, profiled: &Finished, what: &str) {
    assert_eq!(plain.stdout, profiled.stdout, "{what}: stdout");
    assert_eq!(plain.stderr, profiled.stderr, "{what}: stderr");
    assert_eq!(plain.status, profiled.status, "{what}: exit status");
}

#[test]
fn output_and_exit_status_are_the_same() {
    for jdk in jdks() {
        for (how, status) in [("return", 0), ("exit", 3), ("halt", 4), ("throw", 1)] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let options = format!("logs={},port=off", folder.path().display());
            let plain = Java::new(jdk).main(classes(), "programs.Exits").arg(how).run();
            let profiled =
                Java::new(jdk).agent(&options).main(classes(), "programs.Exits").arg(how).run();
            assert_same(&plain, &profiled, &format!("{jdk}: {how}"));
            assert_eq!(plain.status, Some(status), "{jdk}: {how}");
        }
    }
}

#[test]
fn the_agents_thread_is_not_among_the_programs() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = format!("logs={}", folder.path().display());
        let plain = Java::new(jdk).main(classes(), "programs.ListThreads").run();
        let profiled = Java::new(jdk).agent(&options).main(classes(), "programs.ListThreads").run();
        assert!(plain.stdout.contains("main"), "{}", plain.stdout);
        assert_eq!(plain.stdout, profiled.stdout, "{jdk}");
    }
}
