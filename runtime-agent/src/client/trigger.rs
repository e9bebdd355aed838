//! The file that has a JVM listen for attach requests: `.attach_pid<pid>` in the JVM's working folder, or
//! in /tmp if it cannot be made there.
//!
//! Others may be able to write to these folders. So the file is made with `O_EXCL`, and nothing that has
//! its name already is opened, written to or followed. HotSpot looks in its working folder first, and
//! at /tmp only if there is nothing of that name; a file of another user there makes it dump its threads on
//! the service's stdout. So what is in the way ends the attempt before the JVM gets a signal.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::bounded::bounded;
use super::hotspot::temporary_folder;
use super::jvm::{Jvm, own_uid};

/// How long a file system may take to make the file.
const CREATE: Duration = Duration::from_secs(5);

/// The file. It goes when this is dropped.
#[derive(Debug)]
pub(super) struct Trigger(PathBuf);

impl Trigger {
    /// Makes it, or takes one that this user or the JVM's has left.
    ///
    /// # Errors
    /// One line: what is in the way.
    pub(super) fn make(jvm: &Jvm) -> Result<Self, String> {
        let name = format!(".attach_pid{}", jvm.own_pid());
        let folders = [jvm.working_folder(), temporary_folder(jvm)];
        // The JVM wants to see it owned by its user or root.
        let owners = [0, jvm.uid(), own_uid()];
        let made = bounded("the JVM's working folder", CREATE, move || {
            Self::make_in(&folders.map(|folder| folder.join(&name)), &owners)
        });
        made?
    }

    fn make_in(paths: &[PathBuf], owners: &[u32]) -> Result<Self, String> {
        let mut reason = String::new();
        for path in paths {
            let of = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
            match create(path) {
                Ok(file) => {
                    let trigger = Self(path.clone());
                    match file.metadata() {
                        Ok(made) if owners.contains(&made.uid()) => return Ok(trigger),
                        Ok(made) => reason = of(&format!("it belongs to user {}", made.uid())),
                        Err(error) => reason = of(&error),
                    }
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    match fs::symlink_metadata(path) {
                        Ok(found) if is_left_over(&found, owners) => return Ok(Self(path.clone())),
                        // A link to nothing is nothing to the JVM.
                        Ok(_) if fs::metadata(path).is_err() => {}
                        Ok(_) => return Err(of(&"not a file of the JVM's user; delete it")),
                        Err(_) => {}
                    }
                    reason = of(&error);
                }
                Err(error) => reason = of(&error),
            }
        }
        Err(reason)
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

impl Drop for Trigger {
    fn drop(&mut self) {
        // The JVM may have done it.
        let _ = fs::remove_file(&self.0);
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

        let trigger = make().unwrap();
        assert_eq!((trigger.0.as_path(), cwd.exists(), tmp.exists()), (&**cwd, true, false));
        assert_eq!(fs::metadata(cwd).unwrap().mode() & 0o777, 0o600);
        drop(trigger);
        assert!(!cwd.exists());

        // One that an earlier attempt left is taken, and goes.
        fs::write(cwd, "").unwrap();
        drop(make().unwrap());
        assert!(!cwd.exists());

        let in_the_way = error("not a file of the JVM's user; delete it");
        fs::create_dir(cwd).unwrap();
        assert_eq!(make().err(), in_the_way);
        fs::remove_dir(cwd).unwrap();
        let secret = folder.path().join("secret");
        fs::write(&secret, "kept").unwrap();
        symlink(&secret, cwd).unwrap();
        assert_eq!(make().err(), in_the_way);
        assert_eq!(fs::read_to_string(&secret).unwrap(), "kept");
        fs::remove_file(cwd).unwrap();
        fs::write(cwd, "").unwrap();
        assert_eq!(Trigger::make_in(&paths, &[own_uid() + 1]).err(), in_the_way);
        assert!(cwd.exists());
        fs::remove_file(cwd).unwrap();

        // The JVM passes over a link to nothing, and looks in /tmp.
        let nothing = folder.path().join("nothing");
        symlink(&nothing, cwd).unwrap();
        assert_eq!(make().unwrap().0, *tmp);
        assert!(!nothing.exists());
    }
}
