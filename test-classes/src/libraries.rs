//! The real libraries that `scripts/libraries.sh` has fetched.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use crate::artifacts::project;

/// A class of a jar.
#[derive(Clone, Debug)]
pub struct LibraryClass {
    /// Its jar entry, `com/shop/Order.class`.
    pub entry: String,
    /// The class file.
    pub bytes: Vec<u8>,
}

/// The jars, in the order of their names.
///
/// # Panics
/// If they have not been fetched.
pub fn libraries() -> Vec<PathBuf> {
    let folder = project().join("target/libraries");
    let entries = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}; scripts/libraries.sh fetches them", folder.display()));
    let mut jars: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "jar"))
        .collect();
    jars.sort();
    assert!(jars.len() > 50, "only {} libraries", jars.len());
    jars
}

/// The jar whose name begins with `start`.
///
/// # Panics
/// If there is none.
pub fn library(start: &str) -> PathBuf {
    let found = libraries().into_iter().find(|jar| {
        jar.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(start))
    });
    found.unwrap_or_else(|| panic!("no library {start}; scripts/libraries.sh fetches it"))
}

/// async-profiler's library, written into this folder.
///
/// # Panics
/// If it has not been fetched.
pub fn async_profiler(folder: &Path) -> PathBuf {
    let file = File::open(library("async-profiler")).expect("a jar");
    let mut jar = ZipArchive::new(file).expect("a jar");
    let machine = if cfg!(target_arch = "aarch64") { "linux-arm64" } else { "linux-x64" };
    let name = format!("{machine}/libasyncProfiler.so");
    let path = folder.join("libasyncProfiler.so");
    let mut library = jar.by_name(&name).expect("a library for this machine");
    io::copy(&mut library, &mut File::create(&path).expect("a file")).expect("a copy");
    path
}

/// All classes of a jar, except those for other Java versions and of modules.
pub fn classes_of(jar: &Path) -> Vec<LibraryClass> {
    let file = File::open(jar).unwrap_or_else(|e| panic!("{}: {e}", jar.display()));
    let mut archive = ZipArchive::new(file).unwrap_or_else(|e| panic!("{}: {e}", jar.display()));
    let mut classes = Vec::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).expect("an entry");
        let name = entry.name().expect("a name").into_owned();
        if name.ends_with(".class") && !name.ends_with("module-info.class") {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("an entry");
            classes.push(LibraryClass { entry: name, bytes });
        }
    }
    classes
}

impl LibraryClass {
    /// Its version (JVMS 4.1), or 0 if it is not a class.
    pub fn major_version(&self) -> u16 {
        self.bytes.get(6..8).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
    }

    /// Its name with dots; `None` under META-INF/versions.
    pub fn name(&self) -> Option<String> {
        let name = self.entry.strip_suffix(".class")?;
        (!name.starts_with("META-INF/")).then(|| name.replace('/', "."))
    }
}
