//! Processes the command's input: one file, or everything in a folder.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::path::Path;

use log_format::error::FileError;

use super::jar;
use super::kind::Kind;
use super::options::Options;
use super::selection::ClassRewriter;
use super::summary::Summary;

/// Rewrites the input that the options name.
///
/// # Errors
/// The input does not exist, or the output cannot be written or is inside the input.
pub fn rewrite(options: &Options) -> Result<Summary, FileError> {
    let Options { input, output, .. } = options;
    let metadata = fs::metadata(input).map_err(FileError::at(input))?;
    refuse_overlap(input, output)?;
    let mut classes = ClassRewriter::new(&options.filter, options.skip_accessors);
    if metadata.is_dir() {
        folder(&mut classes, input, output)?;
    } else if metadata.is_file() && Kind::of(input) != Kind::Other {
        file(&mut classes, input, output)?;
    } else {
        return Err(FileError::at(input)(io::Error::other("neither a class nor a jar")));
    }
    Ok(classes.summary)
}

/// Refuses an output that is the input or inside it.
fn refuse_overlap(input: &Path, output: &Path) -> Result<(), FileError> {
    let Ok(input) = fs::canonicalize(input) else { return Ok(()) };
    // The nearest part of the output's path that exists.
    let existing = output.ancestors().find_map(|path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        fs::canonicalize(path).ok()
    });
    match existing {
        Some(existing) if existing.starts_with(&input) => {
            let error = io::Error::other("the output must not be the input or lie in it");
            Err(FileError::at(output)(error))
        }
        _ => Ok(()),
    }
}

fn folder(classes: &mut ClassRewriter<'_>, input: &Path, output: &Path) -> Result<(), FileError> {
    fs::create_dir_all(output).map_err(FileError::at(output))?;
    let entries = fs::read_dir(input).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => {
            classes.unreadable(format!("{}: {error}", input.display()));
            return Ok(());
        }
    };
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (from, to) = (entry.path(), output.join(entry.file_name()));
        // A symbolic link to a folder could lead to a cycle; it stays a link.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => folder(classes, &from, &to)?,
            Ok(kind) if kind.is_symlink() && from.is_dir() => link(classes, &from, &to),
            // Reading from a pipe would wait for its writer.
            Ok(_) if fs::metadata(&from).is_ok_and(|there| !there.is_file()) => {
                classes.unreadable(format!("{}: neither a file nor a folder", from.display()));
            }
            Ok(_) => file(classes, &from, &to)?,
            Err(error) => classes.unreadable(format!("{}: {error}", from.display())),
        }
    }
    Ok(())
}

fn link(classes: &mut ClassRewriter<'_>, from: &Path, to: &Path) {
    #[cfg(unix)]
    let made = fs::read_link(from).and_then(|target| std::os::unix::fs::symlink(target, to));
    #[cfg(not(unix))]
    let made: io::Result<()> = Err(io::ErrorKind::Unsupported.into());
    if let Err(error) = made {
        classes.unreadable(format!("{}: {error}", from.display()));
    }
}

fn file(classes: &mut ClassRewriter<'_>, input: &Path, output: &Path) -> Result<(), FileError> {
    let place = input.display().to_string();
    let read = fs::metadata(input).and_then(|m| Ok((fs::read(input)?, m.permissions())));
    let (bytes, permissions) = match read {
        Ok(read) => read,
        Err(error) => {
            classes.unreadable(format!("{place}: {error}"));
            return Ok(());
        }
    };
    let changed = match Kind::of(input) {
        Kind::Jar => jar::rewrite(classes, &place, &bytes),
        Kind::Class => classes.class(&place, &bytes),
        Kind::Other => {
            classes.summary.other_files += 1;
            None
        }
    };
    write(output, &changed.unwrap_or(bytes), permissions).map_err(FileError::at(output))
}

/// Writes a file as a whole or not at all.
fn write(output: &Path, bytes: &[u8], permissions: Permissions) -> io::Result<()> {
    // Anything that is not a regular file, such as /dev/null, must not be replaced by one.
    if fs::symlink_metadata(output).is_ok_and(|there| !there.is_file()) {
        return fs::write(output, bytes);
    }
    let temporary = output.with_file_name(format!(".rewrite-{}", std::process::id()));
    let written = File::create_new(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        // Last, because the input may be read-only.
        file.set_permissions(permissions)?;
        fs::rename(&temporary, output)
    });
    if written.is_err() {
        // Report the write error, whether this works or not.
        let _ = fs::remove_file(&temporary);
    }
    written
}
