//! Compiles the Java programs, once for the oldest runtime.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::artifacts::project;
use crate::jdk::{Jdk, compiler, jdks};

/// The folder with the classes of all programs in `java/` that Java 11 can run.
pub fn classes() -> &'static Path {
    static CLASSES: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = CLASSES.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let java = project().join("test-classes/java");
        let sources: Vec<PathBuf> =
            ["truth", "virtual", "programs", "service", "tools", "agents", "changing/before"]
                .iter()
                .flat_map(|p| sources(&java.join(p)))
                .collect();
        compile(compiler(), &["--release", "11"], &sources, folder.path());
        folder
    });
    folder.path()
}

/// The folder with the classes of `java/changing/after`, which are other versions of classes of
/// `java/changing/before`.
pub fn changed_classes() -> &'static Path {
    static CLASSES: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = CLASSES.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let sources = sources(&project().join("test-classes/java/changing/after"));
        let path = classes().display().to_string();
        compile(compiler(), &["--release", "11", "-cp", &path], &sources, folder.path());
        folder
    });
    folder.path()
}

/// The folder with the classes of `java/newest`, and the runtime that can run them: the newest, at
/// least version 24. Eclipse's compiler compiles them on that runtime, which may have no compiler.
///
/// # Panics
/// If there is no such runtime.
pub fn newest_classes() -> (&'static Jdk, &'static Path) {
    static CLASSES: OnceLock<tempfile::TempDir> = OnceLock::new();
    let jdk = jdks().last().filter(|jdk| jdk.major >= 24);
    let jdk = jdk.expect("a Java runtime 24 or newer is needed; scripts/test.sh fetches one");
    let folder = CLASSES.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let result = Command::new(jdk.command("java"))
            .arg("-jar")
            .arg(ecj())
            .args(["-24", "-nowarn", "-d"])
            .arg(folder.path())
            .args(sources(&project().join("test-classes/java/newest")))
            .output()
            .expect("java runs");
        assert!(result.status.success(), "ecj: {}", String::from_utf8_lossy(&result.stderr));
        folder
    });
    (jdk, folder.path())
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
/// If the compiler is not content.
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
