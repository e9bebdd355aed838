//! The file that makes a JVM listen for attach requests: `.attach_pid<pid>` in the JVM's working folder, or in /tmp
//! if it cannot be created there.
//!
//! Others may be able to write to these folders. So the file is created with `O_EXCL`, and nothing that already has
//! its name is written to or followed. HotSpot looks in its working folder first, and in /tmp only if there is
//! nothing of that name. If the file there belongs to another user, it dumps its threads on the service's stdout. So
//! anything in the way ends the attempt before the JVM gets a signal.
//!
//! HotSpot also dumps its threads if a second signal comes when it already listens. So of several concurrent commands
//! only one sends the signal: the one that has locked the file.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use log_format::error::FileError;

use super::failure::Failure;
use super::jvm::{Jvm, own_uid};
use super::time_limit::bounded;

/// How long a file system may take to create the file.
const CREATE: Duration = Duration::from_secs(5);

/// The file; deleted on drop.
#[derive(Debug)]
pub(super) struct Trigger {
    path: PathBuf,
    /// Locked, where locks work.
    _file: Option<File>,
}

impl Trigger {
    /// Creates the file, or takes over one that this user or the JVM's has left. `None` if another command has it and
    /// sends the signal.
    ///
    /// # Errors
    /// What is in the way.
    pub(super) fn make(jvm: &Jvm) -> Result<Option<Self>, Failure> {
        let name = format!(".attach_pid{}", jvm.own_pid());
        let folders = [jvm.working_folder(), jvm.temporary_folder()];
        // The JVM requires that its user or root owns the file.
        let owners = [0, jvm.uid(), own_uid()];
        let made = bounded("the JVM's working folder", CREATE, move || {
            Self::make_in(&folders.map(|folder| folder.join(&name)), &owners)
        });
        Ok(made??)
    }

    fn make_in(paths: &[PathBuf], owners: &[u32]) -> Result<Option<Self>, FileError> {
        let mut refused = Ok(None);
        for path in paths {
            let of = |error: io::Error| Err(FileError::at(path)(error));
            match create(path) {
                Ok(file) => {
                    match file.metadata() {
                        Ok(made) if owners.contains(&made.uid()) => {
                            return Ok(Self::lock(path, Some(file)));
                        }
                        Ok(made) => {
                            let reason = format!("it belongs to user {}", made.uid());
                            refused = of(io::Error::other(reason));
                        }
                        Err(error) => refused = of(error),
                    }
                    drop(Self { path: path.clone(), _file: None });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    match fs::symlink_metadata(path) {
                        Ok(found) if is_left_over(&found, owners) => {
                            return Ok(Self::lock(path, open(path).ok()));
                        }
                        // The JVM ignores a dangling link.
                        Ok(_) if fs::metadata(path).is_err() => {}
                        Ok(_) => {
                            let reason = "not a file of the JVM's user; delete it";
                            return of(io::Error::other(reason));
                        }
                        Err(_) => {}
                    }
                    refused = of(error);
                }
                Err(error) => refused = of(error),
            }
        }
        refused
    }

    /// Takes over an existing file; `None` if another command has it. If it could not be opened, that is unknown.
    fn lock(path: &Path, file: Option<File>) -> Option<Self> {
        let is_others = file.as_ref().is_some_and(|file| {
            let is_locked = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
            // The other command has just finished with the file and deleted it.
            let is_gone = || file.metadata().is_ok_and(|file| file.nlink() == 0);
            is_locked || is_gone()
        });
        (!is_others).then(|| Self { path: path.to_owned(), _file: file })
    }
}

fn is_left_over(found: &Metadata, owners: &[u32]) -> bool {
    found.is_file() && owners.contains(&found.uid())
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Opens an existing file, only to lock it.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

impl Drop for Trigger {
    fn drop(&mut self) {
        // The JVM may have deleted it already.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_in_the_way_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["cwd", "tmp"].map(|name| folder.path().join(name));
        let [cwd, tmp] = &paths;
        let make = || Trigger::make_in(&paths, &[own_uid()]);
        let error = |what: &str| Some(format!("{}: {what}", cwd.display()));

        let trigger = make().unwrap().unwrap();
        assert_eq!((trigger.path.as_path(), cwd.exists(), tmp.exists()), (&**cwd, true, false));
        // Another command at the same moment leaves the file and the signal to this one.
        assert!(make().unwrap().is_none());
        assert!(cwd.exists());
        assert_eq!(fs::metadata(cwd).unwrap().mode() & 0o777, 0o600);
        drop(trigger);
        assert!(!cwd.exists());

        // A file that an earlier attempt left is taken over, and deleted.
        fs::write(cwd, "").unwrap();
        drop(make().unwrap().unwrap());
        assert!(!cwd.exists());

        let in_the_way = error("not a file of the JVM's user; delete it");
        fs::create_dir(cwd).unwrap();
        assert_eq!(make().err().map(|e| e.to_string()), in_the_way);
        fs::remove_dir(cwd).unwrap();
        let secret = folder.path().join("secret");
        fs::write(&secret, "kept").unwrap();
        symlink(&secret, cwd).unwrap();
        assert_eq!(make().err().map(|e| e.to_string()), in_the_way);
        assert_eq!(fs::read_to_string(&secret).unwrap(), "kept");
        fs::remove_file(cwd).unwrap();
        fs::write(cwd, "").unwrap();
        let refused = Trigger::make_in(&paths, &[own_uid() + 1]).err();
        assert_eq!(refused.map(|e| e.to_string()), in_the_way);
        assert!(cwd.exists());
        fs::remove_file(cwd).unwrap();

        // The JVM ignores a dangling link, and looks in /tmp.
        let nothing = folder.path().join("nothing");
        symlink(&nothing, cwd).unwrap();
        assert_eq!(make().unwrap().unwrap().path, *tmp);
        assert!(!nothing.exists());
    }
}
