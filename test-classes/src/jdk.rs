//! The JVMs of this machine: JAVA_HOME, Debian's folder, and what `scripts/jdks.sh` has fetched.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::artifacts::project;

/// A Java runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jdk {
    /// Its folder.
    pub home: PathBuf,
    /// Its full version, `17.0.15`.
    pub version: String,
    /// Its major version.
    pub major: u32,
}

impl Jdk {
    fn at(home: &Path) -> Option<Self> {
        let home = fs::canonicalize(home).ok()?;
        if !home.join("bin/java").exists() {
            return None;
        }
        let release = fs::read_to_string(home.join("release")).ok()?;
        let version =
            release.lines().find_map(|l| l.strip_prefix("JAVA_VERSION=\"")?.strip_suffix('"'))?;
        let major = version.split('.').next()?.parse().ok()?;
        Some(Self { home: home.clone(), version: version.to_owned(), major })
    }

    /// One of its commands.
    pub fn command(&self, name: &str) -> PathBuf {
        self.home.join("bin").join(name)
    }

    /// Whether it has a compiler.
    pub fn has_compiler(&self) -> bool {
        self.command("javac").exists()
    }
}

impl fmt::Display for Jdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JDK {} in {}", self.version, self.home.display())
    }
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let mut children: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    children.sort();
    children
}

/// All runtimes from version 11 on, each once.
///
/// # Panics
/// If there is none.
pub fn jdks() -> &'static [Jdk] {
    static JDKS: OnceLock<Vec<Jdk>> = OnceLock::new();
    JDKS.get_or_init(|| {
        let mut homes: Vec<PathBuf> =
            std::env::var_os("JAVA_HOME").map(PathBuf::from).into_iter().collect();
        homes.extend(children(Path::new("/usr/lib/jvm")));
        homes.extend(children(&project().join("target/jdks")));
        let mut seen = BTreeSet::new();
        let mut jdks: Vec<Jdk> = homes
            .iter()
            .filter_map(|home| Jdk::at(home))
            .filter(|jdk| jdk.major >= 11 && seen.insert(jdk.home.clone()))
            .collect();
        assert!(!jdks.is_empty(), "no Java runtime was found; scripts/test.sh fetches some");
        jdks.sort_by_key(|jdk| jdk.major);
        jdks
    })
}

/// The oldest JDK from version 17 on that has a compiler.
///
/// # Panics
/// If there is none.
pub fn compiler() -> &'static Jdk {
    let compiler = jdks().iter().find(|jdk| jdk.major >= 17 && jdk.has_compiler());
    compiler.expect("a JDK 17 or newer with javac is needed; scripts/test.sh installs one")
}
