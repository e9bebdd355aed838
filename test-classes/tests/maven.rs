//! `tprofiler-agent.jar`: as a Java agent, as a dependency of a Maven project, and what is in it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use log_format::rows::counter;
use test_classes::{
    Java, Profile, TRUTH, agent_jar, artifacts, at_once, classes, compiler, ends_of_jdks,
    executions, install_agent_jar, jar_in, jdks, jdks_by_turns, jdks_from, may_load, project,
    run_plain, run_truth, skipped, sql_expected, sql_java, sums, tprofiler_text,
};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

const ROUNDS: u32 = 100;
/// Where an ELF file says for which machine it is, and what it says there for aarch64.
const MACHINE: usize = 18;
const AARCH64: u8 = 0xb7;

fn on_class_path(java: Java) -> Java {
    java.main(classes(), TRUTH)
}

/// `premain` returns when recording is on, so not one call is missing.
#[test]
fn counts_of_a_java_agent_are_exact_from_the_first_call_on() {
    for jdk in jdks() {
        let what = format!("{jdk}, -javaagent");
        let plain = run_plain(Java::new(jdk), ROUNDS, on_class_path);
        let java = Java::new(jdk).with_agent_jar(jdk);
        let (profile, finished) = run_truth(java, &what, "", ROUNDS, on_class_path);
        assert_eq!((finished.stdout, finished.stderr), (plain.stdout, plain.stderr), "{what}");
        assert!(profile.run.attached, "{what}");
    }
}

#[test]
fn virtual_threads_are_measured() {
    at_once(jdks_from(21), |jdk| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (logs, counts) = (folder.path().join("logs"), folder.path().join("counts"));
        let options =
            format!("include=virtual,exclude=virtual.Count,port=off,logs={}", logs.display());
        let finished = Java::new(jdk)
            .with_agent_jar(jdk)
            .agent(&options)
            .main(classes(), "virtual.Main")
            .arg(&counts)
            .arg("10")
            .run();
        finished.expect_quiet_success(jdk);
        let counted = fs::read_to_string(&counts).expect("counts");
        assert_eq!(counted, "10 50 10", "{jdk}");
        let profile = Profile::only_run(&logs);
        let counts = profile.counts["virtual.Main$Work outer (I)V"];
        assert_eq!((counts.calls, counts.throws), (50, 10), "{jdk}");
        assert_eq!(profile.counter(counter::LOST_CALLS), 0, "{jdk}");
    });
}

/// SQL statements have a class with native methods of its own.
#[test]
fn sql_statements_are_counted() {
    for jdk in ends_of_jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = format!("include=sql,port=off,sql=100ms,logs={}", folder.path().display());
        let java = sql_java(jdk, None).with_agent_jar(jdk).agent(&options);
        let finished = java.args(["sql.Inlined", "2000"]).run();
        finished.expect_quiet_success(jdk);
        let executed = executions(&Profile::only_run(folder.path()).folder);
        assert_eq!(sums(&executed), sql_expected(&finished), "{jdk}");
    }
}

/// Reports name the samples that may be wrong.
#[test]
fn reports_say_that_the_agent_came_into_a_running_jvm() {
    let jdk = jdks().last().expect("a JDK");
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (kind, expected) in [("-javaagent", true), ("-agentpath", false)] {
        let logs = folder.path().join(kind);
        let java = Java::new(jdk);
        let java = if expected { java.with_agent_jar(jdk) } else { java };
        let options = format!("include=truth,port=off,cpu=1ms,logs={}", logs.display());
        let counts = folder.path().join("counts");
        let java = java.agent(&options).main(classes(), TRUTH).arg(counts).arg("100");
        java.run().expect_quiet_success(kind);
        let report = Command::new(&artifacts().analyze).arg(&logs).arg("--notes").output();
        let report = String::from_utf8(report.expect("analyze runs").stdout).expect("text");
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        let note = "runs with an agent that came into a running JVM: 1";
        assert_eq!(report.contains(note), expected, "{kind}: {report}");
    }
}

/// The classes of `test-classes/maven`, and the jars that they need.
fn shop() -> Option<(tempfile::TempDir, PathBuf)> {
    if Command::new("mvn").arg("--version").output().is_err() {
        skipped("Maven is missing: install the Debian package maven");
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = project().join("test-classes/maven");
    let copied = Command::new("cp").arg("-r").args([&source, &folder.path().join("shop")]).status();
    assert!(copied.is_ok_and(|status| status.success()), "{}", source.display());
    // Maven's plugins stay there; the agent is installed each time.
    let repository = artifacts().agent.with_file_name("maven-repository");
    fs::create_dir_all(&repository).expect("a folder");
    let lock = File::create(repository.with_extension("lock")).expect("a file");
    lock.lock().expect("a lock");
    let installed = install_agent_jar(&repository).output().expect("bash runs");
    assert!(installed.status.success(), "{}", text(&installed.stderr));
    let built = ["--offline", "--batch-mode"].map(|mode| build(folder.path(), &repository, mode));
    if !built.iter().any(|output| output.status.success()) {
        skipped(&format!("Maven cannot build the project: {}", text(&built[1].stdout)));
        return None;
    }
    let class_path = format!("{0}/shop/target/classes:{0}/jars/*", folder.path().display());
    Some((folder, class_path.into()))
}

fn build(folder: &Path, repository: &Path, mode: &str) -> Output {
    let property = |name: &str, value: &dyn std::fmt::Display| format!("-D{name}={value}");
    let mut maven = Command::new("mvn");
    maven.args([mode, "--quiet", "--batch-mode", "-Dstyle.color=never"]);
    maven.arg(property("maven.repo.local", &repository.display()));
    maven.arg(property("tprofiler.version", &env!("CARGO_PKG_VERSION")));
    maven.arg(property("outputDirectory", &folder.join("jars").display()));
    maven.arg("-f").arg(folder.join("shop/pom.xml"));
    maven.args(["compile", "dependency:copy-dependencies"]).output().expect("Maven runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_maven_project_starts_and_stops_the_agent() {
    let Some((_folder, class_path)) = shop() else { return };
    for jdk in jdks_by_turns() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options = format!(
            "include=shop.Orders,leaves=keep,overhead=off,port=off,logs={}",
            logs.path().display()
        );
        let run = |words: &[&str]| {
            let java = Java::new(jdk).args(may_load(jdk)).arg("-cp").arg(&class_path);
            java.arg("shop.Shop").args(words).run()
        };
        let start = format!("thread:start={options}");
        let again = format!("start={options}");
        let words = ["stop", &start, "pay=1000", "stop", "pay=100", "start", "pay=10", &again];
        let finished = run(&[&words[..], &["pay=1", "stop", "stop"]].concat());
        finished.expect_quiet_success(jdk);
        let expected = "stop: false\nstart in a thread: true\npay: 1000\nstop: true\npay: 1100\n\
                        start: true\npay: 1110\nstart: true\npay: 1111\nstop: true\nstop: true\n";
        assert_eq!(finished.stdout, expected, "{jdk}");
        let profile = Profile::only_run(logs.path());
        assert_eq!(profile.counts["shop.Orders payAll (I)I"].calls, 3, "{jdk}");
        assert_eq!(profile.counts["shop.Orders pay (I)V"].calls, 1_011, "{jdk}");
    }
}

/// Asserts that stderr is one line of the agent, with this text, beside warnings of the JVM.
fn expect_line(stderr: &str, expected: &str, what: &str) {
    let lines = stderr.lines().filter(|line| !line.starts_with("WARNING: "));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 1, "{what}: {stderr}");
    let is_it = lines[0].starts_with("tprofiler: ") && lines[0].contains(expected);
    assert!(is_it, "{what}: {stderr}");
}

/// Of two agents in one JVM, one measures everything, and the other prints a line.
#[test]
fn a_second_agent_prints_one_line_and_breaks_nothing() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (jar, library) = (agent_jar(), &artifacts().agent);
        let path = format!("-agentpath:{}", library.display());
        let jar = format!("-javaagent:{}", jar.display());
        for (number, (first, second, line)) in [
            (&path, &jar, "this copy does nothing"),
            (&jar, &path, "another copy of this library"),
            (&jar, &jar, "what was given first counts"),
        ]
        .into_iter()
        .enumerate()
        {
            let what = format!("{jdk}: {first} {second}");
            let counts = folder.path().join("counts");
            let logs = |name: &str| folder.path().join(format!("{name}{number}"));
            let options = |logs: &Path| {
                format!(
                    "include=truth,exclude=truth.Count,leaves=keep,overhead=off,port=off,logs={}",
                    logs.display()
                )
            };
            let finished = Java::new(jdk)
                .args(may_load(jdk))
                .arg(format!("{first}={}", options(&logs("first"))))
                .arg(format!("{second}={}", options(&logs("second"))))
                .main(classes(), TRUTH)
                .arg(&counts)
                .arg("20")
                .run();
            assert_eq!(finished.status, Some(0), "{what}: {}", finished.stderr);
            expect_line(&finished.stderr, line, &what);
            let profile = Profile::only_run(&logs("first"));
            profile.expect_truth(&test_classes::truth(&counts), &what);
            assert!(!logs("second").exists() || Profile::runs(&logs("second")).is_empty());
        }
    }
}

/// Web applications come and go; the agent that one of them has started stays.
#[test]
fn copies_in_two_class_loaders_are_one_agent() {
    for jdk in jdks() {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let options = format!(
            "include=programs.AgentCopies$Work,leaves=keep,overhead=off,port=off,logs={}",
            logs.path().display()
        );
        let java = Java::new(jdk).args(may_load(jdk)).main(classes(), "programs.AgentCopies");
        let finished = java.arg(agent_jar()).arg(options).run();
        assert_eq!(
            finished.stdout, "start true\nstart false\ngone true\ngone true\nopen 1\n",
            "{jdk}"
        );
        expect_line(&finished.stderr, "this copy does nothing", &jdk.to_string());
        assert_eq!(finished.status, Some(0), "{jdk}");
        let profile = Profile::only_run(logs.path());
        assert_eq!(profile.counts["programs.AgentCopies$Work run (I)V"].calls, 200, "{jdk}");
    }
}

/// The library's file is gone, and yet the JVM can load it again.
#[test]
fn nothing_stays_in_the_temporary_folder_and_the_agent_can_be_detached_and_attached() {
    at_once(ends_of_jdks(), |jdk| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let temporary = folder.path().join("tmp");
        fs::create_dir(&temporary).expect("a folder");
        let options =
            |run: &str| format!("include=programs,port=off,logs={}/{run}", folder.path().display());
        let mut dialogue = Java::new(jdk)
            .with_agent_jar(jdk)
            .arg(format!("-Djava.io.tmpdir={}", temporary.display()))
            .agent(&options("first"))
            .main(classes(), "programs.Phases")
            .talk();
        dialogue.ask("calls 10");
        assert_eq!(fs::read_dir(&temporary).expect("a folder").count(), 0, "{jdk}");
        let pid = dialogue.program.pid().to_string();
        let detached = tprofiler_text(&["detach", &pid]);
        assert!(detached.contains("detached from"), "{jdk}: {detached}");
        let attached = tprofiler_text(&["attach", &pid, &options("second")]);
        assert!(attached.contains("attached to"), "{jdk}: {attached}");
        dialogue.ask("calls 10");
        tprofiler_text(&["detach", &pid]);
        for run in ["first", "second"] {
            let profile = Profile::only_run(&folder.path().join(run));
            assert!(!profile.counts.is_empty(), "{jdk}, {run}");
        }
    });
}

/// Tools attach the jar like any Java agent.
#[test]
fn the_jar_can_be_attached() {
    let jdk = compiler();
    let logs = tempfile::tempdir().expect("a temporary folder");
    let mut dialogue = Java::new(jdk).args(may_load(jdk)).main(classes(), "programs.Phases").talk();
    dialogue.ask("calls 10");
    let options = format!(
        "include=programs,leaves=keep,overhead=off,port=off,logs={}",
        logs.path().display()
    );
    let pid = dialogue.program.pid().to_string();
    let attach = |options: &str| {
        let mut jcmd = Command::new(jdk.command("jcmd"));
        jcmd.args([&pid, "JVMTI.agent_load"]).arg(agent_jar()).arg(options);
        let output = jcmd.output().expect("jcmd runs");
        assert!(output.status.success(), "{}", text(&output.stdout));
    };
    attach(&format!("\"{options}\""));
    dialogue.ask("calls 10");
    attach("\"logs=other\"");
    let finished = dialogue.end();
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    expect_line(&finished.stderr, "what was given first counts", "the second");
    let profile = Profile::only_run(logs.path());
    assert_eq!(profile.counts["programs.Phases$Work outer (I)V"].calls, 10);
}

/// The jar with one entry replaced.
fn changed_jar(folder: &Path, end: &str, contents: &[u8]) -> PathBuf {
    let mut from = ZipArchive::new(File::open(agent_jar()).expect("the jar")).expect("a jar");
    let path = folder.join("changed.jar");
    let mut to = ZipWriter::new(File::create(&path).expect("a file"));
    let mut replaced = 0;
    for index in 0..from.len() {
        let mut entry = from.by_index(index).expect("an entry");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("an entry");
        let name = entry.name().expect("a name").into_owned();
        if name.ends_with(end) {
            (bytes, replaced) = (contents.to_vec(), replaced + 1);
        }
        if !entry.is_dir() {
            to.start_file(name, SimpleFileOptions::default()).expect("an entry");
            to.write_all(&bytes).expect("an entry");
        }
    }
    to.finish().expect("a jar");
    assert_eq!(replaced, 1, "{end}");
    path
}

/// The service goes on without the agent, and says why in one line.
#[test]
fn what_goes_wrong_is_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (open, missing) = (folder.path().join("open"), folder.path().join("missing"));
    fs::create_dir(&open).expect("a folder");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("a mode");
    let temporary = |path: &Path| format!("-Djava.io.tmpdir={}", path.display());
    let jar = agent_jar();
    let wrong_sum = changed_jar(folder.path(), ".so.sha256", &[b'0'; 64]);
    let no_file = folder.path().join("file");
    fs::write(&no_file, "").expect("a file");
    let no_logs = format!("logs={}/logs", no_file.display());
    for (jar, option, options, line) in [
        (&jar, "-Da=b", "colour=red", "unknown option 'colour'"),
        (&jar, "-Da=b", &no_logs, "profiling is off"),
        (&jar, "-Dos.arch=s390x", "", "there is no agent for Linux on s390x"),
        (&jar, "-Dos.arch=aarch64", "", "this jar has no library for Linux on aarch64"),
        (&jar, "-Dos.name=Plan9", "", "there is no agent for Plan9"),
        (&jar, &temporary(&missing), "", "cannot be unpacked in"),
        (&jar, &temporary(&open), "", "has no sticky bit"),
        (&wrong_sum, "-Da=b", "", "the unpacked library has the SHA-256 sum"),
    ] {
        for jdk in jdks_by_turns() {
            let what = format!("{jdk} {option} {options}");
            let agent = format!("-javaagent:{}={options}", jar.display());
            let java = Java::new(jdk).args(may_load(jdk)).args([option, &agent]);
            let java = java.folder(folder.path());
            let counts = folder.path().join("counts");
            let finished = java.main(classes(), TRUTH).arg(counts).arg("1").run();
            assert_eq!((finished.status, &*finished.stdout), (Some(0), "done\n"), "{what}");
            expect_line(&finished.stderr, line, &what);
            assert!(finished.stderr.contains("profiling is off"), "{what}: {}", finished.stderr);
        }
    }
}

/// Only who asks for it gets a JVM that does not start.
#[test]
fn a_wrong_option_with_strict_ends_the_jvm() {
    for jdk in ends_of_jdks() {
        let java = Java::new(jdk).with_agent_jar(jdk).agent("colour=red,strict,port=off");
        let finished = java.main(classes(), TRUTH).run();
        assert_eq!((finished.status, &*finished.stdout), (Some(1), ""), "{jdk}");
        expect_line(&finished.stderr, "because of the option strict", &jdk.to_string());
    }
}

#[test]
fn a_temporary_folder_without_programs_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mount = format!("mount -t tmpfs -o noexec,mode=1777 none '{}'", folder.path().display());
    let trial = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &mount])
        .stderr(Stdio::null())
        .status();
    if !trial.is_ok_and(|status| status.success()) {
        return skipped("no file system can be mounted here");
    }
    for jdk in ends_of_jdks() {
        let java = Java::with_mounts(jdk, &mount).with_agent_jar(jdk);
        let java = java.arg(format!("-Djava.io.tmpdir={}", folder.path().display()));
        let finished = java.agent("port=off").arg("-version").run();
        assert_eq!(finished.status, Some(0), "{jdk}");
        // The JVM's version is there too.
        let own = |line: &&str| line.starts_with("tprofiler: ");
        let lines: Vec<&str> = finished.stderr.lines().filter(own).collect();
        let line = "is mounted noexec, set -Djava.io.tmpdir";
        expect_line(&lines.join("\n"), line, &jdk.to_string());
    }
}

/// The entries of a jar, without folders.
fn entries(jar: &Path) -> BTreeSet<String> {
    let jar = ZipArchive::new(File::open(jar).expect("a jar")).expect("a jar");
    let names = jar.file_names().map(|name| name.expect("a name").into_owned());
    names.filter(|name| !name.ends_with('/')).collect()
}

/// What the script makes is complete and signed, and the same each time.
#[test]
fn the_script_makes_what_maven_central_asks_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let repositories = ["first", "second"].map(|name| folder.path().join(name));
    let bundle = folder.path().join("bundle.zip");
    let archive = folder.path().join("archive.tar.gz");
    // By its header, this library is for the other machine.
    let mut library = fs::read(&artifacts().agent).expect("the agent");
    library[MACHINE] = AARCH64;
    fs::write(folder.path().join("libtprofiler.so"), library).expect("a file");
    let tar = Command::new("tar")
        .arg("-czf")
        .arg(&archive)
        .args(["--transform", "s|^|tprofiler/|", "-C"])
        .arg(folder.path())
        .arg("libtprofiler.so")
        .status();
    assert!(tar.is_ok_and(|status| status.success()));
    let arm64 = format!("linux-arm64={}", archive.display());
    for repository in &repositories {
        let mut script = install_agent_jar(repository);
        script.args(["--library", &arm64, "--bundle"]).arg(&bundle);
        let output = script.output().expect("bash runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("not signed: TPROFILER_GPG_KEY names no key"));
    }
    let [first, second] = repositories.map(|repository| jar_in(&repository));
    let place = first.parent().expect("a folder");
    let name = |end: &str| first.to_str().expect("text").replace(".jar", end);
    for end in [".jar", "-sources.jar", "-javadoc.jar", ".pom"] {
        let again = second.to_str().expect("text").replace(".jar", end);
        assert!(fs::read(name(end)).expect("a file") == fs::read(again).expect("a file"), "{end}");
        for sum in ["md5", "sha1"] {
            let path = format!("{}.{sum}", name(end));
            let expected = fs::read_to_string(&path).expect("a sum");
            let output = Command::new(format!("{sum}sum")).arg(name(end)).output().expect("runs");
            assert!(text(&output.stdout).starts_with(&format!("{expected} ")), "{path}");
        }
    }
    let inside = entries(&first);
    for platform in ["linux-x64", "linux-arm64"] {
        let library = format!("io/github/tprofiler/{platform}/libtprofiler.so");
        assert!(inside.contains(&library), "{inside:?}");
        assert!(inside.contains(&format!("{library}.sha256")), "{inside:?}");
    }
    let sources = entries(Path::new(&name("-sources.jar")));
    assert!(sources.contains("io/github/tprofiler/Tprofiler.java"), "{sources:?}");
    assert!(entries(Path::new(&name("-javadoc.jar"))).contains("index.html"));
    let pom = fs::read_to_string(name(".pom")).expect("a POM");
    for element in ["name", "description", "url", "licenses", "developers", "scm"] {
        assert!(pom.contains(&format!("<{element}>")), "{element}");
    }
    assert!(!pom.contains('@'), "{pom}");
    let count = fs::read_dir(place).expect("a folder").count();
    assert_eq!(entries(&bundle).len(), count, "the bundle has the same files");
}

#[test]
fn the_script_signs_with_a_key() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let home = folder.path().join("keys");
    fs::create_dir(&home).expect("a folder");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).expect("a mode");
    let gpg = |arguments: &[&str]| {
        let mut gpg = Command::new("gpg");
        gpg.env("GNUPGHOME", &home).args(["--batch", "--quiet"]).args(arguments).output()
    };
    let Ok(made) = gpg(&["--passphrase", "", "--quick-generate-key", "trial", "ed25519"]) else {
        return skipped("gpg is missing: install the Debian package gnupg");
    };
    assert!(made.status.success(), "{}", text(&made.stderr));
    let run = |key: &str| {
        let mut script = install_agent_jar(&folder.path().join("repository"));
        script.env("GNUPGHOME", &home).env("TPROFILER_GPG_KEY", key).output().expect("bash runs")
    };
    let unknown = run("nobody");
    assert!(!unknown.status.success(), "a key that is not there");
    assert!(text(&unknown.stderr).contains("gpg does not sign with the key nobody"));
    let output = run("trial");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let jar = jar_in(&folder.path().join("repository"));
    for end in [".jar", "-sources.jar", "-javadoc.jar", ".pom"] {
        let signed = jar.to_str().expect("text").replace(".jar", end);
        let verified = gpg(&["--verify", &format!("{signed}.asc"), &signed]).expect("gpg runs");
        assert!(verified.status.success(), "{end}: {}", text(&verified.stderr));
    }
    // The agent of gpg ends with its folder of keys, after a while.
    let _ = Command::new("gpgconf").env("GNUPGHOME", &home).args(["--kill", "all"]).status();
}
