//! Makes the text of `--version` from the version, the commit and the target. The commit comes from the variable
//! `TPROFILER_COMMIT`, which `scripts/release.sh` sets. Git is not asked: every commit would build all programs again.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=TPROFILER_COMMIT");
    let [version, target] =
        ["CARGO_PKG_VERSION", "TARGET"].map(|name| env::var(name).unwrap_or_default());
    let commit = env::var("TPROFILER_COMMIT").ok().filter(|commit| !commit.is_empty());
    let source =
        commit.map_or_else(|| "source build".to_owned(), |commit| format!("commit {commit}"));
    println!("cargo::rustc-env=TPROFILER_VERSION={version} ({source}, {target})");
}
