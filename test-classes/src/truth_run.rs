//! Runs the programs of `java/truth` under the agent, and compares the profile with their own counts.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::classes::classes;
use crate::profile::{Profile, truth};
use crate::run::{Finished, Java};

/// The class that runs all programs; its arguments are a file for the counts, and rounds.
pub const TRUTH: &str = "truth.Main";

/// Adds the agent to a java command and runs it. `launch` adds the main class; its arguments are added after that.
/// Returns what was recorded, the truth, and how the program ended.
///
/// # Panics
/// If the profile is not the truth.
pub fn run_truth(
    java: Java,
    what: &str,
    options: &str,
    rounds: u32,
    launch: impl FnOnce(Java) -> Java,
) -> (Profile, Finished) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (logs, counts) = (folder.path().join("logs"), folder.path().join("counts"));
    let options = format!(
        "include=truth,exclude=truth.Count,max_mb_per_hour=off,max_mb=off,logs={},port=off\
         {options}",
        logs.display()
    );
    let finished = launch(java.agent(&options)).arg(&counts).arg(rounds.to_string()).run();
    assert_eq!(finished.status, Some(0), "{what}: {}{}", finished.stdout, finished.stderr);
    let profile = Profile::only_run(&logs);
    let truth = truth(&counts);
    profile.expect_truth(&truth, what);
    assert!(truth.len() > 80, "{what}: {} methods", truth.len());
    (profile, finished)
}

/// Runs the programs without the agent, in the same way.
pub fn run_plain(java: Java, rounds: u32, launch: impl FnOnce(Java) -> Java) -> Finished {
    let folder = tempfile::tempdir().expect("a temporary folder");
    launch(java).arg(folder.path().join("counts")).arg(rounds.to_string()).run()
}

/// Makes a jar in a folder with the classes of a package of `java/`; it is an OSGi bundle too.
pub fn jar_of(package: &str, folder: &Path) -> PathBuf {
    let path = folder.join(format!("{package}.jar"));
    let mut jar = ZipWriter::new(File::create(&path).expect("a file"));
    let mut add = |name: &str, bytes: &[u8]| {
        jar.start_file(name, SimpleFileOptions::default()).expect("an entry");
        jar.write_all(bytes).expect("an entry");
    };
    let manifest = format!(
        "Manifest-Version: 1.0\nBundle-ManifestVersion: 2\nBundle-SymbolicName: {package}\n\
         Bundle-Version: 1.0.0\n"
    );
    add("META-INF/MANIFEST.MF", manifest.as_bytes());
    let entries = std::fs::read_dir(classes().join(package)).expect("a package");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a class").path()).collect();
    files.sort();
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        add(&format!("{package}/{name}"), &std::fs::read(&file).expect("a class"));
    }
    jar.finish().expect("a jar");
    path
}
