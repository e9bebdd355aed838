//! The log folder and a run's folder in it, by their descriptors.
//!
//! ```text
//! LogFolder    descriptor of the folder that contains `logs`, and the name of `logs` in it;
//!              descriptor of `logs`
//! RunFolder    descriptor of the run's folder; its files are opened, renamed and deleted
//!              relative to it
//! ```
//! Another user may be able to write to `logs`, or to the folder that contains it, and so rename what is there and
//! put something else in its place. So the path that the options give is resolved once, with its symlinks. After that
//! every name is one component, relative to one of these descriptors, and no symlink is followed. The invariant: the
//! agent writes only to files in a folder that it created itself, and that no other user can write to. Paths are only
//! for messages and status.

mod access;
mod refusal;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use log_format::error::FileError;
use rustix::fs::{
    Access as Rights, AtFlags, CWD, Dir, FileType, Mode, OFlags, accessat, fchmod, fstat, mkdirat,
    openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use self::access::Access;
pub(crate) use self::refusal::Refusal;
use crate::error::Error;

/// Most runs of one process that begin in the same second.
const MAX_ATTEMPTS: u32 = 1_000;

/// How a folder of the given path is opened. The agent may only have search permission for it.
const FOUND: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// How a folder that the agent has created is opened.
const MADE: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// How a file is created.
const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// How an existing file is opened. It may be a pipe, and opening one must not wait.
const OLD_FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// New folders belong to the JVM's user alone until they have been checked.
const OWN_FOLDER: Mode = Mode::RWXU;
const OWN_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The log folder.
#[derive(Debug)]
pub(crate) struct LogFolder {
    path: PathBuf,
    access: Access,
    /// The folder that contains it, and its name there; `None` for a path like `.`, which ends in no name.
    place: Option<(OwnedFd, OsString)>,
    folder: OwnedFd,
}

impl LogFolder {
    /// Opens the log folder, and creates it and its missing parents. The group may use the folders that it creates.
    ///
    /// # Errors
    /// The folder cannot be used, or there is no such group.
    pub(crate) fn open(path: &Path, group: Option<&str>) -> Result<Self, Error> {
        let access = Access::of(group)?;
        let opened = Self::open_with(path, access).map_err(FileError::at(path));
        Ok(opened.map_err(|error| error.of("logs"))?)
    }

    fn open_with(path: &Path, access: Access) -> io::Result<Self> {
        let start = if path.is_absolute() { "/" } else { "." };
        let mut folder = openat(CWD, start, FOUND, Mode::empty())?;
        let mut place = None;
        for component in path.components() {
            let name = match component {
                Component::Normal(name) => name,
                Component::ParentDir => OsStr::new(".."),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => continue,
            };
            let next = open_or_make(&folder, name, access)?;
            let parent = std::mem::replace(&mut folder, next);
            place = (name != "..").then(|| (parent, name.to_owned()));
        }
        Ok(Self { path: path.to_owned(), access, place, folder })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks whether runs can be created in it.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self) -> Result<(), FileError> {
        self.try_check().map_err(FileError::at(&self.path)).map_err(|error| error.of("logs"))
    }

    fn try_check(&self) -> io::Result<()> {
        let rights = Rights::WRITE_OK | Rights::EXEC_OK;
        match accessat(&self.folder, ".", rights, AtFlags::EACCESS) {
            // Not every kernel can tell for a process whose real user is another; creating the run's folder will show
            // it.
            Ok(()) | Err(Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        // A file without a name shows whether the group can be given access, and leaves nothing behind. Not every
        // file system has such files; there, creating the run's folder will show it.
        let trial = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        if self.access.has_group()
            && let Ok(file) = openat(&self.folder, ".", trial, OWN_FILE)
        {
            self.access.admit_group(&file, self.access.file_mode())?;
        }
        Ok(())
    }

    /// Creates the folder of a run, with the first name that is free. `name` returns the name of each attempt, from 1
    /// on.
    ///
    /// # Errors
    /// It cannot be created, or what has the name now is not the folder that was created.
    pub(crate) fn make_run(&self, name: impl Fn(u32) -> String) -> io::Result<RunFolder> {
        for attempt in 1..=MAX_ATTEMPTS {
            let name = name(attempt);
            match make(&self.folder, OsStr::new(&name), self.access, Contents::None) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(folder) => {
                    let path = self.path.join(name);
                    return Ok(RunFolder { path, access: self.access, folder });
                }
            }
        }
        Err(Refusal::TooManyRuns.into())
    }

    /// Deletes a run's folder with its files.
    ///
    /// # Errors
    /// It cannot be deleted, for example because somebody has renamed it.
    pub(crate) fn remove_run(&self, run: &RunFolder) -> io::Result<()> {
        for entry in Dir::read_from(&run.folder)? {
            // It contains no folders, and anything that cannot be deleted makes the deletion of the folder fail.
            let _ = unlinkat(&run.folder, entry?.file_name(), AtFlags::empty());
        }
        let name = run.path.file_name().unwrap_or_default();
        Ok(unlinkat(&self.folder, name, AtFlags::REMOVEDIR)?)
    }

    /// Creates the log folder again if somebody has deleted it.
    ///
    /// # Errors
    /// It cannot be created, for example because something else has its name now.
    pub(crate) fn make_again(&mut self) -> io::Result<()> {
        if !is_deleted(&self.folder) {
            return Ok(());
        }
        let Some((place, name)) = &self.place else { return Err(Refusal::NoPlace.into()) };
        let made = make(place, name, self.access, Contents::OfOtherRuns);
        self.folder = match made.map_err(|error| (error.kind(), error)) {
            Ok(folder) => folder,
            Err((ErrorKind::AlreadyExists, _)) => self.open_made_by_another_jvm(place, name)?,
            Err((ErrorKind::NotFound, _)) => return Err(Refusal::NoPlace.into()),
            Err((_, error)) => return Err(error),
        };
        Ok(())
    }

    /// Opens the folder that another JVM of this user has created in the place of a deleted log folder. Nobody else
    /// can create a folder that this user owns and that is as closed to others as the agent's.
    fn open_made_by_another_jvm(&self, place: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
        let folder = openat(place, name, MADE, Mode::empty()).map_err(|_| Refusal::Taken)?;
        let stat = fstat(&folder)?;
        let mode = Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
        if stat.st_uid != geteuid().as_raw() || mode != self.access.folder_mode() {
            return Err(Refusal::Taken.into());
        }
        Ok(folder)
    }
}

/// The folder of a run.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    access: Access,
    folder: OwnedFd,
}

impl RunFolder {
    /// A run's folder in `logs`.
    #[cfg(test)]
    pub(crate) fn for_test(logs: &Path) -> Self {
        LogFolder::open(logs, None).unwrap().make_run(|_| "run".to_owned()).unwrap()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether somebody has deleted it. A renamed folder stays in use.
    pub(crate) fn is_deleted(&self) -> bool {
        is_deleted(&self.folder)
    }

    /// Whether anything has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        !matches!(statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
    }

    /// Creates a file to write, and replaces one that has its name.
    ///
    /// # Errors
    /// It cannot be created.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        match unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => self.make_file(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a file that only the JVM's user can read, even if there is a group.
    ///
    /// # Errors
    /// It cannot be created, or something has its name.
    pub(crate) fn create_private(&self, name: &str) -> io::Result<File> {
        Ok(openat(&self.folder, name, NEW_FILE, OWN_FILE)?.into())
    }

    /// Opens a file to append to; `true` if it is empty. A file that the JVM's user has put back stays in use.
    ///
    /// # Errors
    /// It cannot be created, or what has its name is not a file of the JVM's user with a single link.
    pub(crate) fn append(&self, name: &str) -> io::Result<(File, bool)> {
        match self.make_file(name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            file => return Ok((file?, true)),
        }
        let (file, stat) = self.open_old(name, OFlags::WRONLY | OFlags::APPEND)?;
        if stat.st_uid != geteuid().as_raw() {
            return Err(Refusal::Owner(stat.st_uid).into());
        }
        #[allow(clippy::useless_conversion, reason = "its width depends on the processor")]
        let links = u64::from(stat.st_nlink);
        if links != 1 {
            return Err(Refusal::Links(links).into());
        }
        self.access.admit_group(&file, self.access.file_mode())?;
        fchmod(&file, self.access.file_mode())?;
        Ok((file, stat.st_size == 0))
    }

    /// Opens a file to read.
    ///
    /// # Errors
    /// It cannot be opened, or is not a file.
    pub(crate) fn read(&self, name: &str) -> io::Result<File> {
        self.open_old(name, OFlags::RDONLY).map(|(file, _)| file)
    }

    /// Renames a file, and replaces one that has the new name.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.folder, from, &self.folder, to)?)
    }

    /// Deletes a file.
    ///
    /// # Errors
    /// It cannot be deleted.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.folder, name, AtFlags::empty())?)
    }

    fn make_file(&self, name: &str) -> io::Result<File> {
        let file = openat(&self.folder, name, NEW_FILE | OFlags::APPEND, OWN_FILE)?;
        if let Err(error) = self.access.admit_group(&file, self.access.file_mode()) {
            let _ = self.remove(name);
            return Err(error.into());
        }
        Ok(file.into())
    }

    fn open_old(&self, name: &str, flags: OFlags) -> io::Result<(File, rustix::fs::Stat)> {
        let file = match openat(&self.folder, name, OLD_FILE | flags, Mode::empty()) {
            // A symlink.
            Err(Errno::LOOP) => return Err(Refusal::NotAFile.into()),
            file => file?,
        };
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Refusal::NotAFile.into());
        }
        Ok((file.into(), stat))
    }
}

/// What a new folder may have in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    None,
    /// The folder may have other runs in it: several JVMs may share a log folder, and another may be faster.
    OfOtherRuns,
}

/// Opens a folder that the given path names, or creates it.
fn open_or_make(parent: &OwnedFd, name: &OsStr, access: Access) -> io::Result<OwnedFd> {
    match openat(parent, name, FOUND, Mode::empty()) {
        Err(Errno::NOENT) => {}
        found => return Ok(found?),
    }
    match make(parent, name, access, Contents::OfOtherRuns) {
        // Another JVM was faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Ok(openat(parent, name, FOUND, Mode::empty())?)
        }
        made => made,
    }
}

/// Creates a folder, and opens it.
fn make(parent: &OwnedFd, name: &OsStr, access: Access, contents: Contents) -> io::Result<OwnedFd> {
    mkdirat(parent, name, OWN_FOLDER)?;
    let made = open_made(parent, name, access, contents);
    if made.is_err() {
        // This removes nothing but an empty folder.
        let _ = unlinkat(parent, name, AtFlags::REMOVEDIR);
    }
    made
}

/// Opens a folder that was just created, and checks that it is the same one: a user who can write to `parent` may
/// have put another in its place.
fn open_made(
    parent: &OwnedFd,
    name: &OsStr,
    access: Access,
    contents: Contents,
) -> io::Result<OwnedFd> {
    let folder = openat(parent, name, MADE, Mode::empty())?;
    let stat = fstat(&folder)?;
    if stat.st_uid != geteuid().as_raw() {
        return Err(Refusal::Owner(stat.st_uid).into());
    }
    if stat.st_mode & 0o077 != 0 {
        return Err(Refusal::Mode(stat.st_mode & 0o777).into());
    }
    if contents == Contents::None && !is_empty(&folder)? {
        return Err(Refusal::NotEmpty.into());
    }
    access.admit_group(&folder, access.folder_mode())?;
    Ok(folder)
}

fn is_empty(folder: &OwnedFd) -> io::Result<bool> {
    for entry in Dir::read_from(folder)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a folder has no name any more.
fn is_deleted(folder: impl AsFd) -> bool {
    match fstat(folder) {
        Ok(stat) => stat.st_nlink == 0,
        // NFS reports a deleted folder this way.
        Err(error) => error == Errno::STALE,
    }
}
