//! The Java runtimes of this machine, and those that the tests use.
//!
//! [`found`] searches JAVA_HOME, Debian's folder and the runtimes that `scripts/jdks.sh` has fetched. [`jdks`]
//! chooses from these by the variable `TEST_JDKS`:
//!
//! | `TEST_JDKS` | runtimes |
//! | --- | --- |
//! | not set, or empty | the fast lane: the newest and, by turns of tests, the oldest or 17; or one of these three |
//! | `all` | all |
//! | `17,25` | all of these versions |

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::artifacts::project;

/// A Java runtime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Jdk {
    /// Its folder.
    pub home: PathBuf,
    /// Its full version, `17.0.15`.
    pub version: String,
    /// Its major version.
    pub major: u32,
}

impl Jdk {
    /// The runtime in a folder, if it is one.
    #[must_use]
    pub fn at(home: &Path) -> Option<Self> {
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

    /// The path of one of its commands.
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

/// All runtimes from version 11 on, each once, the oldest first.
///
/// # Panics
/// If there is none.
pub fn found() -> &'static [Jdk] {
    static FOUND: OnceLock<Vec<Jdk>> = OnceLock::new();
    FOUND.get_or_init(|| {
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

/// The runtimes that `TEST_JDKS` chooses, the oldest first.
fn chosen() -> &'static [Jdk] {
    static CHOSEN: OnceLock<Vec<Jdk>> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let choice = std::env::var(CHOICE).unwrap_or_default();
        choose(found(), &choice).unwrap_or_else(|error| panic!("{CHOICE}={choice}: {error}"))
    })
}

fn is_fast_lane() -> bool {
    std::env::var(CHOICE).unwrap_or_default().is_empty()
}

/// The runtimes to test with, the oldest first: all that were chosen. In the fast lane, the newest and one of the
/// others, which depends on the test's name.
///
/// # Panics
/// If there is none, or if `TEST_JDKS` names a version that was not found.
pub fn jdks() -> &'static [Jdk] {
    static PAIRS: OnceLock<Vec<Vec<Jdk>>> = OnceLock::new();
    if !is_fast_lane() {
        return chosen();
    }
    let pairs = PAIRS.get_or_init(|| pairs(chosen()));
    &pairs[turn() % pairs.len()]
}

/// One runtime in the fast lane, which depends on the test's name; all if `TEST_JDKS` is set. For tests of what depends
/// little on the runtime.
///
/// # Panics
/// As [`jdks`].
pub fn jdks_by_turns() -> &'static [Jdk] {
    let all = chosen();
    if is_fast_lane() { std::slice::from_ref(&all[turn() % all.len()]) } else { all }
}

/// A number that differs between tests, and stays the same.
fn turn() -> usize {
    std::thread::current().name().unwrap_or_default().bytes().map(usize::from).sum()
}

/// The newest of these with each of the others.
fn pairs(chosen: &[Jdk]) -> Vec<Vec<Jdk>> {
    match chosen {
        [others @ .., newest] if others.len() > 1 => {
            others.iter().map(|other| vec![other.clone(), newest.clone()]).collect()
        }
        _ => vec![chosen.to_vec()],
    }
}

/// The oldest and the newest runtime in the fast lane, for tests that depend on the version most; all if `TEST_JDKS`
/// is set.
///
/// # Panics
/// As [`jdks`].
pub fn ends_of_jdks() -> Vec<&'static Jdk> {
    match chosen() {
        [oldest, _, .., newest] if is_fast_lane() => vec![oldest, newest],
        all => all.iter().collect(),
    }
}

/// Those of [`jdks`] from a version on; in the fast lane, all that were found, because each implements virtual
/// threads differently. If `TEST_JDKS` leaves none, the newest of all, so that every test has a runtime.
///
/// # Panics
/// If no runtime is new enough.
pub fn jdks_from(major: u32) -> Vec<&'static Jdk> {
    let all = if is_fast_lane() { found() } else { chosen() };
    let mut able: Vec<&Jdk> = all.iter().filter(|jdk| jdk.major >= major).collect();
    if able.is_empty() {
        able.extend(found().last().filter(|jdk| jdk.major >= major));
    }
    assert!(
        !able.is_empty(),
        "a Java runtime {major} or newer is needed; scripts/jdks.sh fetches it"
    );
    able
}

/// Runs a test on each of these runtimes, on all at the same time: for tests that wait most of the time.
///
/// # Panics
/// If it does on one of them.
pub fn at_once<'j>(jdks: impl IntoIterator<Item = &'j Jdk>, test: impl Fn(&'j Jdk) + Sync) {
    std::thread::scope(|scope| {
        for jdk in jdks {
            let test = &test;
            scope.spawn(move || test(jdk));
        }
    });
}

/// The variable that chooses runtimes.
const CHOICE: &str = "TEST_JDKS";

fn choose(found: &[Jdk], choice: &str) -> Result<Vec<Jdk>, String> {
    match choice {
        "" => {
            let ends = [found.first(), found.last()].into_iter().flatten();
            let majors: BTreeSet<u32> = ends.map(|jdk| jdk.major).chain([17]).collect();
            let of = |major| found.iter().filter(move |jdk| jdk.major == major);
            let one = |major| of(major).find(|jdk| jdk.has_compiler()).or(of(major).next());
            Ok(majors.into_iter().filter_map(one).cloned().collect())
        }
        "all" => Ok(found.to_vec()),
        _ => {
            let mut majors = BTreeSet::new();
            for word in choice.split(',') {
                let word = word.trim();
                let major: u32 = word.parse().map_err(|_| {
                    format!("unexpected {word:?}; use `all`, or versions as in 17,25")
                })?;
                if !found.iter().any(|jdk| jdk.major == major) {
                    return Err(format!("no Java runtime {major} was found"));
                }
                majors.insert(major);
            }
            Ok(found.iter().filter(|jdk| majors.contains(&jdk.major)).cloned().collect())
        }
    }
}

/// The oldest JDK from version 17 on that has a compiler, whatever `TEST_JDKS` says.
///
/// # Panics
/// If there is none.
pub fn compiler() -> &'static Jdk {
    let compiler = found().iter().find(|jdk| jdk.major >= 17 && jdk.has_compiler());
    compiler.expect("a JDK 17 or newer with javac is needed; scripts/test.sh installs one")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Jdk> {
        let jdk = |(number, &major): (usize, &u32)| Jdk {
            home: PathBuf::from(format!("/nowhere/{number}")),
            version: format!("{major}.0.1"),
            major,
        };
        [11, 17, 17, 21, 25, 25].iter().enumerate().map(jdk).collect()
    }

    fn majors(choice: &str) -> Result<Vec<u32>, String> {
        Ok(choose(&some(), choice)?.iter().map(|jdk| jdk.major).collect())
    }

    #[test]
    fn the_fast_lane_has_the_oldest_17_and_the_newest_and_each_test_two() {
        assert_eq!(majors(""), Ok(vec![11, 17, 25]));
        let lane = choose(&some(), "").expect("a lane");
        let majors = |pair: &Vec<Jdk>| pair.iter().map(|jdk| jdk.major).collect::<Vec<_>>();
        let of = |chosen| pairs(chosen).iter().map(majors).collect::<Vec<_>>();
        assert_eq!(of(&lane), [[11, 25], [17, 25]]);
        assert_eq!(of(&lane[1..]), [[17, 25]]);
        assert_eq!(of(&lane[..1]), [[11]]);
    }

    #[test]
    fn all_and_lists_have_every_runtime_of_a_version() {
        assert_eq!(majors("all"), Ok(vec![11, 17, 17, 21, 25, 25]));
        assert_eq!(majors("25, 17"), Ok(vec![17, 17, 25, 25]));
    }

    #[test]
    fn a_wrong_choice_is_named() {
        assert_eq!(majors("18"), Err("no Java runtime 18 was found".to_owned()));
        assert!(majors("newest").is_err_and(|error| error.contains("\"newest\"")));
        assert!(majors("17,").is_err());
    }
}
