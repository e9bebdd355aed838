//! Compiles the Java programs, for the oldest runtime.
//!
//! Every test is a separate process. The classes stay in `target/java-classes`, in a folder whose name contains a
//! hash of their sources, and the next process takes them from there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use crate::artifacts::{artifacts, project, target};
use crate::jdk::{Jdk, compiler, found};
use crate::libraries::library;

/// The folder with the classes of all programs in `java/` that Java 11 can run.
pub fn classes() -> &'static Path {
    static CLASSES: OnceLock<PathBuf> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let java = project().join("test-classes/java");
        let sources: Vec<PathBuf> =
            ["truth", "virtual", "programs", "service", "tools", "agents", "changing/before"]
                .iter()
                .flat_map(|p| sources(&java.join(p)))
                .collect();
        kept("programs", compiler(), &sources, &[], |folder| {
            compile(compiler(), &["--release", "11"], &sources, folder);
        })
    })
}

/// The folder with the classes of `java/changing/after`: new versions of the classes of `java/changing/before`.
pub fn changed_classes() -> &'static Path {
    static CLASSES: OnceLock<PathBuf> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let sources = sources(&project().join("test-classes/java/changing/after"));
        let path = classes().display().to_string();
        kept("changed", compiler(), &sources, &[classes()], |folder| {
            compile(compiler(), &["--release", "11", "-cp", &path], &sources, folder);
        })
    })
}

/// The folder with the classes of `java/sql`, which need the jars of H2 and HikariCP.
pub fn sql_classes() -> &'static Path {
    static CLASSES: OnceLock<PathBuf> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let sources = sources(&project().join("test-classes/java/sql"));
        let jars = ["h2-", "HikariCP-"].map(library);
        let path = jars.each_ref().map(|jar| jar.display().to_string()).join(":");
        kept("sql", compiler(), &sources, &jars.each_ref().map(PathBuf::as_path), |folder| {
            compile(compiler(), &["--release", "11", "-cp", &path], &sources, folder);
        })
    })
}

/// The folder with the classes of `java/newest`, and the runtime that can run them: the newest one, at least version
/// 24. Eclipse's compiler compiles them on that runtime, which may have no compiler.
///
/// # Panics
/// If there is no such runtime.
pub fn newest_classes() -> (&'static Jdk, &'static Path) {
    static CLASSES: OnceLock<PathBuf> = OnceLock::new();
    let jdk = found().last().filter(|jdk| jdk.major >= 24);
    let jdk = jdk.expect("a Java runtime 24 or newer is needed; scripts/test.sh fetches one");
    let folder = CLASSES.get_or_init(|| {
        let sources = sources(&project().join("test-classes/java/newest"));
        kept("newest", jdk, &sources, &[&ecj()], |folder| {
            let result = Command::new(jdk.command("java"))
                .arg("-jar")
                .arg(ecj())
                .args(["-24", "-nowarn", "-d"])
                .arg(folder)
                .args(&sources)
                .output()
                .expect("java runs");
            assert!(result.status.success(), "ecj: {}", String::from_utf8_lossy(&result.stderr));
        })
    });
    (jdk, folder)
}

/// `tprofiler-agent.jar` with the agent under test, as `scripts/maven.sh` builds it.
///
/// # Panics
/// If that fails.
pub fn agent_jar() -> PathBuf {
    static REPOSITORY: OnceLock<PathBuf> = OnceLock::new();
    let repository = REPOSITORY.get_or_init(|| {
        let mut made_of = sources(&project().join("maven/java/io/github/tprofiler"));
        let others = ["maven/MANIFEST.MF", "maven/pom.xml", "scripts/maven.sh", "scripts/lib.sh"];
        made_of.extend(others.map(|file| project().join(file)));
        made_of.push(artifacts().agent.clone());
        kept("agent-jar", compiler(), &made_of, &[], |folder| {
            let output = install_agent_jar(folder).output().expect("bash runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        })
    });
    jar_in(repository)
}

/// `scripts/maven.sh` for this repository and the agent under test.
pub fn install_agent_jar(repository: &Path) -> Command {
    let mut script = Command::new(project().join("scripts/maven.sh"));
    script.arg("--library").arg(format!("{}={}", platform(), artifacts().agent.display()));
    script.arg(repository).env("JAVA_HOME", &compiler().home).env_remove("TPROFILER_GPG_KEY");
    script
}

/// The place of the jar in a repository.
#[must_use]
pub fn jar_in(repository: &Path) -> PathBuf {
    let version = env!("CARGO_PKG_VERSION");
    let folder = repository.join("io/github/tprofiler/tprofiler-agent").join(version);
    folder.join(format!("tprofiler-agent-{version}.jar"))
}

/// The name of this machine's platform in the jar.
fn platform() -> &'static str {
    if cfg!(target_arch = "aarch64") { "linux-arm64" } else { "linux-x64" }
}

/// The folder of classes that `make` creates; it runs only if no process has made the same classes before. `uses` is
/// what they are compiled with: classes, whose folder has their hash, or a compiler.
fn kept(
    name: &str,
    jdk: &Jdk,
    sources: &[PathBuf],
    uses: &[&Path],
    make: impl FnOnce(&Path),
) -> PathBuf {
    let all = target().join("java-classes");
    fs::create_dir_all(&all).expect("a folder");
    // This file contains how they are compiled.
    let mut hash = Sha256::new();
    hash.update(include_bytes!("classes.rs"));
    hash.update(format!("{jdk}"));
    for source in sources {
        hash.update(source.as_os_str().as_encoded_bytes());
        hash.update(fs::read(source).expect("a source"));
    }
    for with in uses {
        hash.update(with.as_os_str().as_encoded_bytes());
        hash.update(fs::metadata(with).expect("what they are compiled with").len().to_le_bytes());
    }
    let hash: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let folder = all.join(format!("{name}-{hash}"));
    let lock = File::create(all.join("lock")).expect("a file");
    lock.lock().expect("a lock");
    if !folder.exists() {
        let new = tempfile::tempdir_in(&all).expect("a temporary folder");
        make(new.path());
        fs::rename(new.keep(), &folder).expect("a folder of ours");
    }
    folder
}

/// Eclipse's compiler.
///
/// # Panics
/// If it has not been fetched.
pub fn ecj() -> PathBuf {
    let ecj = project().join("target/jars/ecj.jar");
    assert!(ecj.exists(), "{} is missing; scripts/jdks.sh fetches it", ecj.display());
    ecj
}

/// The Java sources in a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut sources: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a folder's entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "java"))
        .collect();
    sources.sort();
    sources
}

/// Compiles sources into a folder.
///
/// # Panics
/// If the compiler fails.
pub fn compile(jdk: &Jdk, options: &[&str], sources: &[PathBuf], output: &Path) {
    let result = Command::new(jdk.command("javac"))
        .args(options)
        .args(["-g", "-nowarn", "-d"])
        .arg(output)
        .args(sources)
        .output()
        .expect("javac runs");
    assert!(result.status.success(), "javac: {}", String::from_utf8_lossy(&result.stderr));
}
