//! The programs under test, as they are shipped: built in release mode.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Once, OnceLock};

/// Where the built programs are.
#[derive(Debug)]
pub struct Artifacts {
    /// `libtprofiler.so`.
    pub agent: PathBuf,
    /// The control client.
    pub tprofiler: PathBuf,
    /// The analyzer.
    pub analyze: PathBuf,
    /// The offline rewriter.
    pub rewrite: PathBuf,
}

/// The project's folder.
pub fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above this package")
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| project().join("target"), PathBuf::from)
}

/// Whether `scripts/test.sh` has built everything that tests run, so that no test needs to call cargo.
pub(crate) fn are_built() -> bool {
    std::env::var_os("TEST_ARTIFACTS_BUILT").is_some()
}

/// A release build of packages.
fn build(packages: &[&str]) {
    let packages = packages.iter().flat_map(|package| ["-p", package]);
    let build = ["build", "--release", "--quiet"].into_iter().chain(packages);
    let status = Command::new(env!("CARGO")).args(build).current_dir(project()).status();
    assert!(status.expect("cargo runs").success(), "the release build fails");
}

/// Builds the program that `tprofiler skywalking` runs, unless that is done.
pub(crate) fn build_skywalking() {
    static BUILT: Once = Once::new();
    if !are_built() {
        BUILT.call_once(|| build(&["skywalking"]));
    }
}

/// Builds the programs, unless that is done; takes no time if they are up to date.
pub fn artifacts() -> &'static Artifacts {
    static ARTIFACTS: OnceLock<Artifacts> = OnceLock::new();
    ARTIFACTS.get_or_init(|| {
        if !are_built() {
            build(&["runtime-agent", "analyzer", "rewriter"]);
        }
        let release = target().join("release");
        Artifacts {
            agent: release.join("libtprofiler.so"),
            tprofiler: release.join("tprofiler"),
            analyze: release.join("analyze"),
            rewrite: release.join("rewrite"),
        }
    })
}
