//! Where a report goes: to standard output, or to a file that is written whole or not at all.

use std::fs::{self, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::Builder;

/// Writes to standard output.
///
/// # Errors
/// It cannot be written; a reader that has gone away is [`io::ErrorKind::BrokenPipe`].
pub fn to_stdout<E: From<io::Error>>(
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out)?;
    Ok(out.flush()?)
}

/// Writes a file under another name beside it, and gives it its name when it is whole. What is no
/// file (a pipe, a terminal) is written to directly.
///
/// # Errors
/// It cannot be written; then `path` is as it was.
pub fn to_file<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let is_file = fs::metadata(path).map_or(true, |found| found.is_file());
    if !is_file {
        let mut out = BufWriter::new(fs::OpenOptions::new().write(true).open(path)?);
        write(&mut out)?;
        return Ok(out.flush()?);
    }
    // A link keeps pointing to the file.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // Whoever may read new files may read this one: the umask takes its part.
    let permissions = match fs::metadata(&path) {
        Ok(found) => found.permissions(),
        Err(_) => Permissions::from_mode(0o666),
    };
    let mut builder = Builder::new();
    builder.prefix(".analyze-").suffix(".new").permissions(permissions);
    let mut out = BufWriter::new(builder.tempfile_in(folder.unwrap_or(Path::new(".")))?);
    write(&mut out)?;
    out.flush()?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        to_file(&link, |out| out.write_all(b"three")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(to_file(&folder.path().join("no/report"), |out| out.write_all(b"")).is_err());
        assert!(to_file(folder.path(), |out| out.write_all(b"")).is_err());
    }
}
