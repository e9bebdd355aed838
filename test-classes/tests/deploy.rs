//! The Debian package, installed in a clean Debian, and the files of `deploy`.

use std::process::Command;

use test_classes::{artifacts, project, skipped};

#[test]
#[ignore = "full lane: it installs a Debian with a JVM"]
fn the_package_profiles_a_jvm_of_a_clean_debian_and_leaves_nothing() {
    let root = Command::new("id").arg("-u").output().expect("id runs");
    if root.stdout != b"0\n" || !std::path::Path::new("/etc/debian_version").exists() {
        return skipped("only root can install packages, and only on Debian");
    }
    let namespaces = Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]).status();
    if !namespaces.is_ok_and(|status| status.success()) {
        return skipped("this machine forbids namespaces");
    }
    artifacts();
    // That of scripts/release.sh, which the full lane runs before.
    let files = std::fs::read_dir(project().join("target/release-files"));
    let files = files.into_iter().flatten().map(|file| file.expect("a file").path());
    let package = files.into_iter().find(|path| path.to_string_lossy().ends_with("_amd64.deb"));
    let script = project().join("scripts/check-deb.sh");
    let output = Command::new(script).args(package).output().expect("the script runs");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
    assert!(output.status.success(), "{said:#?}");
    let (loaded, attached) = said[0].split_once("-- attached").expect("two parts");
    let (attached, unpacked) = attached.split_once("-- the archive").expect("three parts");
    let reports = [(loaded, "order("), (attached, "price("), (unpacked, "order(")];
    for (report, method) in
        reports.map(|(report, method)| (report, format!("Frozen$Shop.{method}")))
    {
        assert!(report.contains(&method), "{report}");
    }
    assert!(said[1].contains("nothing is left"), "{said:#?}");
}

#[test]
#[ignore = "full lane: it fetches programs that check them"]
fn files_of_deploy_are_valid() {
    let script = project().join("scripts/check-deploy.sh");
    let output = Command::new(script).output().expect("the script runs");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).expect("text");
    let valid =
        ["deploy/Dockerfile is valid", "deployment/shop", "pod/shop", "deploy/systemd is valid"];
    for file in valid {
        assert!(said.contains(file), "{file} in {said}");
    }
}
