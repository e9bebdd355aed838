//! Counts are exact under every garbage collector, with archives of classes and compiled code, in images, modules,
//! bundles and under a security manager, and the agent prints nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use test_classes::{
    Finished, Java, Jdk, Profile, Sampled, TRUTH, classes, compile, compiler, ends_of_jdks, jar_of,
    jdks, jdks_by_turns, jdks_from, library, newest_classes, project, run_plain, run_truth,
    samples,
};

const ROUNDS: u32 = 100;

/// Runs the truth programs, and compares their output with that of the plain run.
fn same_as_plain(what: &str, java: impl Fn() -> Java, launch: impl Fn(Java) -> Java) {
    let plain = run_plain(java(), ROUNDS, &launch);
    assert_eq!(plain.status, Some(0), "{what}: {}{}", plain.stdout, plain.stderr);
    assert!(plain.stdout.ends_with("done\n"), "{what}: {}", plain.stdout);
    let (_, finished) = run_truth(java(), what, "", ROUNDS, &launch);
    assert_eq!(finished.stdout, plain.stdout, "{what}");
    assert_eq!(finished.stderr, plain.stderr, "{what}");
}

fn on_class_path(java: Java) -> Java {
    java.main(classes(), TRUTH)
}

/// Whether a runtime starts with these options.
fn takes(jdk: &Jdk, options: &[&str]) -> bool {
    let output = Command::new(jdk.command("java")).args(options).arg("-version").output();
    output.expect("java runs").status.success()
}

#[test]
fn under_every_garbage_collector() {
    let mut runs = 0;
    for jdk in ends_of_jdks() {
        for collector in ["G1", "Parallel", "Serial", "Z", "Shenandoah"] {
            let option = format!("-XX:+Use{collector}GC");
            if takes(jdk, &[&option]) {
                // A small heap, so that the collector has work.
                let java = Java::new(jdk).args([&option, "-Xmx64m"]);
                let what = format!("{jdk} {option}");
                let (_, finished) = run_truth(java, &what, "", ROUNDS, on_class_path);
                finished.expect_quiet_success(&what);
                runs += 1;
            } else {
                println!("{jdk} has no {collector}");
            }
        }
    }
    assert!(runs >= 4 * ends_of_jdks().len(), "only {runs} runs");
}

/// Runs a java command that creates a file.
fn make(jdk: &Jdk, arguments: &[&str], file: &Path) {
    let output = Command::new(jdk.command("java")).args(arguments).output().expect("java runs");
    let text = [output.stdout, output.stderr].concat();
    assert!(file.exists(), "{jdk} {arguments:?}: {}", String::from_utf8_lossy(&text));
}

/// Runs the truth programs from a jar, with classes from an archive.
fn with_archive(jdk: &Jdk, what: &str, jar: &Path, options: &[&str]) {
    let log = tempfile::NamedTempFile::new().expect("a temporary file");
    let log_option = format!("-Xlog:class+load:file={}", log.path().display());
    let java = || Java::new(jdk).args(options).arg(&log_option);
    same_as_plain(&format!("{jdk}, {what}"), java, |java| java.main(jar, TRUTH));
    let loaded = fs::read_to_string(log.path()).expect("a log");
    let shared = |line: &&str| line.contains("source: shared objects file");
    let count = loaded.lines().filter(shared).count();
    assert!(count > 300, "{jdk}, {what}: {count} classes from the archive\n{loaded}");
}

#[test]
fn with_archives_of_classes() {
    for jdk in ends_of_jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str| folder.path().join(name).display().to_string();
        let (jar, counts, list) = (jar_of("truth", folder.path()), file("counts"), file("list"));
        let path = jar.display().to_string();

        let base = file("base.jsa");
        let to_base = format!("-XX:SharedArchiveFile={base}");
        make(jdk, &["-Xshare:dump", &to_base], Path::new(&base));
        with_archive(jdk, "an archive of the JDK", &jar, &["-Xshare:on", &to_base]);

        let to_list = format!("-XX:DumpLoadedClassList={list}");
        let run = ["-Xshare:off", &to_list, "-cp", &path, TRUTH, &counts, "10"];
        make(jdk, &run, Path::new(&list));
        let app = file("app.jsa");
        let (from_list, to_app) =
            (format!("-XX:SharedClassListFile={list}"), format!("-XX:SharedArchiveFile={app}"));
        make(jdk, &["-Xshare:dump", &from_list, &to_app, "-cp", &path], Path::new(&app));
        with_archive(jdk, "an archive of the application", &jar, &["-Xshare:on", &to_app]);
    }
}

#[test]
fn with_a_cache_of_compiled_code() {
    let mut runs = 0;
    for jdk in jdks_from(25) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str| folder.path().join(name).display().to_string();
        let (jar, counts) = (jar_of("truth", folder.path()), file("counts"));
        let (path, configuration, cache) = (jar.display().to_string(), file("conf"), file("cache"));
        let configuration_option = format!("-XX:AOTConfiguration={configuration}");
        let cache_option = format!("-XX:AOTCache={cache}");
        let run = ["-XX:AOTMode=record", &configuration_option, "-cp", &path, TRUTH, &counts, "10"];
        make(jdk, &run, Path::new(&configuration));
        let create = ["-XX:AOTMode=create", &configuration_option, &cache_option, "-cp", &path];
        make(jdk, &create, Path::new(&cache));
        for mode in ["-XX:AOTMode=on", "-XX:AOTMode=auto"] {
            with_archive(jdk, mode, &jar, &[mode, &cache_option]);
        }
        runs += 1;
    }
    assert!(runs > 0, "no JDK 25");
}

#[test]
fn in_an_image_of_few_modules() {
    let mut runs = 0;
    let with_jlink = jdks().iter().chain([compiler()]).filter(|jdk| jdk.command("jlink").exists());
    for jdk in with_jlink.collect::<BTreeSet<_>>() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = folder.path().join("image");
        let jlink = Command::new(jdk.command("jlink"))
            .args(["--add-modules", "java.base", "--output"])
            .arg(&home)
            .output()
            .expect("jlink runs");
        assert!(jlink.status.success(), "{jdk}: {jlink:?}");
        let image = Jdk { home, ..jdk.clone() };
        same_as_plain(&format!("{jdk}, jlink"), || Java::new(&image), on_class_path);
        runs += 1;
    }
    assert!(runs > 0, "no JDK with jlink");
}

#[test]
fn as_a_module_of_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("module-info.java");
    fs::write(&source, "module truth.app { requires java.base; }").expect("a file");
    let mut sources = vec![source];
    let truth = fs::read_dir(project().join("test-classes/java/truth")).expect("sources");
    sources.extend(truth.map(|entry| entry.expect("a source").path()));
    let modules = folder.path().join("modules");
    compile(compiler(), &["--release", "11"], &sources, &modules);
    for jdk in jdks() {
        let launch = |java: Java| {
            java.arg("--module-path").arg(&modules).args(["-m", &format!("truth.app/{TRUTH}")])
        };
        same_as_plain(&format!("{jdk}, module"), || Java::new(jdk), launch);
    }
}

#[test]
fn with_options_that_open_modules() {
    for jdk in jdks() {
        let mut options = vec!["--add-opens", "java.base/java.lang=ALL-UNNAMED"];
        options.extend(["--add-exports", "java.base/sun.nio.ch=ALL-UNNAMED"]);
        options.extend(["--add-reads", "java.base=ALL-UNNAMED"]);
        for more in ["--illegal-access=deny", "--limit-modules=java.base"] {
            if takes(jdk, &[more]) {
                options.push(more);
            }
        }
        let what = format!("{jdk} {options:?}");
        same_as_plain(&what, || Java::new(jdk).args(&options), on_class_path);
    }
}

#[test]
fn under_a_security_manager() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let policy = folder.path().join("policy");
    // The programs set thread handlers and write one file; the agent needs no permissions.
    fs::write(
        &policy,
        "grant {\n  permission java.io.FilePermission \"<<ALL FILES>>\", \"write\";\n};\n",
    )
    .expect("a file");
    let policy = format!("-Djava.security.policy=={}", policy.display());
    let mut runs = 0;
    for jdk in jdks() {
        if !takes(jdk, &["-Djava.security.manager"]) {
            println!("{jdk} has no security manager");
            continue;
        }
        let java = || Java::new(jdk).args(["-Djava.security.manager", &policy]);
        same_as_plain(&format!("{jdk}, security manager"), java, on_class_path);
        runs += 1;
    }
    assert!(runs > 0, "no JDK with a security manager");
}

#[test]
fn in_a_bundle_of_an_osgi_container() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let felix = library("org.apache.felix.framework-");
    let source = project().join("test-classes/java/libraries/Bundle.java");
    let path = felix.display().to_string();
    compile(compiler(), &["--release", "11", "-cp", &path], &[source], folder.path());
    let bundle = jar_of("truth", folder.path());
    for jdk in jdks_by_turns() {
        let cache = tempfile::tempdir().expect("a temporary folder");
        let launch = |java: Java| {
            java.arg("-cp")
                .arg(format!("{path}:{}", folder.path().display()))
                .arg("libraries.Bundle")
                .arg(&bundle)
                .arg(cache.path())
                .arg(TRUTH)
        };
        same_as_plain(&format!("{jdk}, Felix"), || Java::new(jdk), launch);
    }
}

/// A runtime's own output is the same as without the agent.
#[test]
fn nothing_is_printed_where_the_jvm_tells_all() {
    let (jdk, _) = newest_classes();
    let version = |java: Java| java.arg("-version").run();
    let plain: Finished = version(Java::new(jdk));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = format!("logs={},port=off", folder.path().display());
    let profiled = version(Java::new(jdk).agent(&options));
    assert_eq!((profiled.stdout, profiled.stderr), (plain.stdout, plain.stderr));
}

/// Many calls in one method, each of a method that does almost nothing.
fn calls_of_many(folder: &Path) {
    let methods: String = (0..200)
        .map(|m| format!("static int m{m}(int x) {{ return (x ^ {m}) * 31; }}\n"))
        .collect();
    let calls: String = (0..200).map(|m| format!("x = m{m}(x);\n")).collect();
    let source = format!(
        "package many;
        public final class Many {{
            {methods}
            static int all(int x) {{ {calls} return x; }}
            public static void main(String[] args) {{
                int x = 1;
                for (int i = 0; i < 30_000; i++) x = all(x);
                System.out.println(x);
            }}
        }}"
    );
    let file = folder.join("Many.java");
    fs::write(&file, source).expect("a source file");
    compile(compiler(), &["--release", "11"], &[file], folder);
}

/// The CPU time of a compiler's threads, by samples. The time that the JVM says (`-XX:+CITime`) is not theirs alone on
/// a busy machine.
fn compile_ns(samples: &[Sampled], compiler: &str) -> u64 {
    let of = samples.iter().filter(|sample| sample.thread.starts_with(compiler));
    of.map(|sample| sample.weight_ns).sum()
}

/// C1 compiles the method first, and its code runs only for a moment. With the guard inlined into each caller and its
/// branches in another order, C1 took five to ten times as long as C2 for a method like this, which was interpreted
/// meanwhile; now it takes a tenth.
#[test]
fn a_method_that_calls_hundreds_of_measured_ones_keeps_c1_busy_for_less_than_c2() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    calls_of_many(folder.path());
    for jdk in jdks() {
        let logs = folder.path().join(format!("logs-{}", jdk.major));
        let options = format!("include=many,logs={},port=off,cpu=1ms", logs.display());
        // The program waits for its compilers, so that they do the same in each run.
        let java = Java::new(jdk).arg("-Xbatch").arg("-XX:+PrintCompilation");
        let ended = java.agent(&options).main(folder.path(), "many.Many").run();
        assert_eq!(ended.status, Some(0), "{jdk}");
        let output = ended.stdout;
        assert!(output.contains(" 4       many.Many::all "), "{jdk}: {output}");
        let samples = samples(&Profile::only_run(&logs).folder);
        let [c1, c2] = ["C1 Comp", "C2 Comp"].map(|compiler| compile_ns(&samples, compiler));
        println!("{jdk}: C1 worked for {c1} ns, C2 for {c2} ns");
        assert!(c1 < c2, "{jdk}: C1 worked for {c1} ns, C2 for {c2} ns");
    }
}
