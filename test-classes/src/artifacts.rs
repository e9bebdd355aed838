//! The programs under test, as they are shipped: built in release mode.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Once, OnceLock};

use crate::lane::is_full;

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

/// Builds what the arguments say.
fn build<'a>(arguments: impl IntoIterator<Item = &'a str>) {
    let mut cargo = Command::new(env!("CARGO"));
    let status = cargo.args(["build", "--quiet"]).args(arguments).current_dir(project()).status();
    assert!(status.expect("cargo runs").success(), "the build fails");
}

/// `tprofiler` beside the program that `tprofiler skywalking` runs: as released in the full lane; else without
/// optimization, which would take long.
pub fn tprofiler_of_skywalking() -> PathBuf {
    static BUILT: Once = Once::new();
    let profile = if is_full() { "release" } else { "debug" };
    if !are_built() {
        BUILT.call_once(|| {
            let release = is_full().then_some("--release");
            build(release.into_iter().chain(["--workspace", "--bins"]));
        });
    }
    target().join(profile).join("tprofiler")
}

/// Builds the programs, unless that is done; takes no time if they are up to date.
pub fn artifacts() -> &'static Artifacts {
    static ARTIFACTS: OnceLock<Artifacts> = OnceLock::new();
    ARTIFACTS.get_or_init(|| {
        if !are_built() {
            build(["--release", "-p", "runtime-agent", "-p", "analyzer", "-p", "rewriter"]);
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
