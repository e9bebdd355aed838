//! The scripts find what the tests find.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use test_classes::{found, project};

/// The Java runtimes that the scripts list, in their order.
fn listed(java_home: Option<&OsStr>) -> Vec<PathBuf> {
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", ". scripts/lib.sh; java_homes"]).current_dir(project());
    if let Some(home) = java_home {
        bash.env("JAVA_HOME", home);
    }
    let output = bash.output().expect("bash runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text").lines().map(PathBuf::from).collect()
}

#[test]
fn every_java_runtime_is_listed_once() {
    let expected: BTreeSet<PathBuf> = found().iter().map(|jdk| jdk.home.clone()).collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&found()[0].home, &link).expect("a link");
    let again = found()[0].home.join("bin/..");
    for java_home in [None, Some(link.as_os_str()), Some(again.as_os_str())] {
        let listed = listed(java_home);
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), expected, "{java_home:?}");
        assert_eq!(listed.len(), expected.len(), "{java_home:?}: {listed:?}");
    }
    // A runtime that can be found in no other way.
    let outside = folder.path().join("jdk");
    std::fs::create_dir_all(outside.join("bin")).expect("a folder");
    std::fs::write(outside.join("release"), "JAVA_VERSION=\"21.0.1\"\n").expect("a file");
    std::os::unix::fs::symlink("/bin/true", outside.join("bin/java")).expect("a link");
    let link = folder.path().join("outside");
    std::os::unix::fs::symlink("jdk", &link).expect("a link");
    let home = std::fs::canonicalize(&outside).expect("a path");
    assert!(listed(Some(link.as_os_str())).contains(&home), "a JAVA_HOME that is a link");
}
