//! The programs under test, as they are shipped: built in release mode.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

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

/// Builds the programs, unless that is done; takes no time if they are up to date.
pub fn artifacts() -> &'static Artifacts {
    static ARTIFACTS: OnceLock<Artifacts> = OnceLock::new();
    ARTIFACTS.get_or_init(|| {
        if !are_built() {
            let status = Command::new(env!("CARGO"))
                .args(["build", "--release", "--quiet", "--workspace", "--exclude", "test-classes"])
                .current_dir(project())
                .status()
                .expect("cargo runs");
            assert!(status.success(), "the release build fails");
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
