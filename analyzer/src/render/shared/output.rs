//! Writes a report to standard output, or to a file, whole or not at all.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use tempfile::{Builder, NamedTempFile};

/// Mode of a new file, before the umask.
const NEW_FILE_MODE: u32 = 0o666;

/// Our open files by number: a file without a name gets one through this path.
const OWN_FILES: &str = "/proc/self/fd";

/// Writes to standard output.
///
/// # Errors
/// It cannot be written; if the reader has closed it, this is [`io::ErrorKind::BrokenPipe`].
pub fn to_stdout<E: From<io::Error>>(
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out)?;
    Ok(out.flush()?)
}

/// Writes a file without a name, and gives it its name when it is whole. If the process is ended before that, by
/// Ctrl-C or in any other way, `path` is unchanged and nothing else is left. If `path` is not a file (a pipe, a
/// terminal), it is written to directly.
///
/// # Errors
/// It cannot be written; then `path` is unchanged.
pub fn to_file<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    if !is_file(path) {
        let mut out = BufWriter::new(fs::OpenOptions::new().write(true).open(path)?);
        write(&mut out)?;
        return Ok(out.flush()?);
    }
    let (path, folder) = place_of(path);
    let mut out = BufWriter::new(NewFile::in_folder(&folder, fs::metadata(&path).ok().as_ref())?);
    write(&mut out)?;
    out.flush()?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(file.persist(&folder, &path)?)
}

/// Checks that [`to_file`] could begin to write, so that nobody waits for a report that cannot be stored. Leaves
/// nothing behind.
///
/// # Errors
/// The file could not be created.
pub fn check_place(path: &Path) -> io::Result<()> {
    if is_file(path) {
        let (_, folder) = place_of(path);
        NewFile::in_folder(&folder, None)?;
    } else if path.is_dir() {
        return Err(rustix::io::Errno::ISDIR.into());
    }
    Ok(())
}

/// Whether it is a file, or will be one.
fn is_file(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |found| found.is_file())
}

/// The file, and the folder that it is in.
fn place_of(path: &Path) -> (PathBuf, PathBuf) {
    // A symlink keeps pointing to the file.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).to_owned();
    (path, folder)
}

/// A file that does not have its name yet.
enum NewFile {
    Nameless(File),
    /// If the file system has no files without names: it is deleted unless the process is killed.
    Named(NamedTempFile),
}

impl NewFile {
    /// Users who can read the old file can read the new one; without an old file, the umask decides.
    fn in_folder(folder: &Path, before: Option<&Metadata>) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        if Path::new(OWN_FILES).exists()
            && let Ok(file) = rustix::fs::open(folder, flags, Mode::from_raw_mode(NEW_FILE_MODE))
        {
            let file = File::from(file);
            if let Some(before) = before {
                file.set_permissions(before.permissions())?;
            }
            return Ok(Self::Nameless(file));
        }
        let new_file = || Permissions::from_mode(NEW_FILE_MODE);
        // Its error would name a file that the user does not know.
        fs::metadata(folder)?;
        let mut builder = temporary();
        builder.permissions(before.map_or_else(new_file, Metadata::permissions));
        Ok(Self::Named(builder.tempfile_in(folder)?))
    }

    fn persist(self, folder: &Path, path: &Path) -> io::Result<()> {
        match self {
            Self::Named(file) => file.persist(path).map_err(|error| error.error).map(drop),
            Self::Nameless(file) => {
                let own = format!("{OWN_FILES}/{}", file.as_raw_fd());
                // A link does not replace an existing name, a rename does.
                let name = temporary().make_in(folder, |name| {
                    let follow = AtFlags::SYMLINK_FOLLOW;
                    Ok(rustix::fs::linkat(CWD, own.as_str(), CWD, name, follow)?)
                })?;
                name.into_temp_path().persist(path).map_err(|error| error.error)
            }
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Nameless(file) => file.write(bytes),
            Self::Named(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Nameless(file) => file.flush(),
            Self::Named(file) => file.flush(),
        }
    }
}

fn temporary() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".analyze-").suffix(".new");
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_every_file_has_a_name_it_is_another_one_at_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        let file = temporary().tempfile_in(folder.path()).unwrap();
        let mut new = NewFile::Named(file);
        new.write_all(b"one").unwrap();
        assert!(!path.exists());
        new.persist(folder.path(), &path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        drop(NewFile::Named(temporary().tempfile_in(folder.path()).unwrap()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_written_whole_or_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        to_file(&path, |out| out.write_all(b"one")).unwrap();
        let failed = to_file(&path, |out| {
            out.write_all(b"two")?;
            Err(io::Error::other("no"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "no");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let new_file = folder.path().join("new");
        File::create(&new_file).unwrap();
        assert_eq!(mode(), fs::metadata(&new_file).unwrap().permissions().mode() & 0o777);
        fs::remove_file(&new_file).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o604)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        to_file(&link, |out| out.write_all(b"three")).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode()), (b"three".to_vec(), 0o604));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(to_file(&folder.path().join("no/report"), |out| out.write_all(b"")).is_err());
        assert!(to_file(folder.path(), |out| out.write_all(b"")).is_err());
    }
}
