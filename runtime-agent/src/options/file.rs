//! Reads the options file that `config` names.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::setting::Setting;
use super::{toml, tprofiler};
use crate::error::Error;
use log_format::error::FileError;
use log_format::writer::one_line;

/// Largest size of an options file, in bytes.
const MAX_CONFIG: u64 = 1 << 20;

/// Whether an options file is one of TProfiler's, judged by its name.
pub(super) fn is_of_tprofiler(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "properties")
}

/// Reads a file: TProfiler's format by its name, otherwise TOML.
pub(super) fn read_file(
    path: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Setting>, Error> {
    let name = one_line(&path.display().to_string());
    let unread = |error: io::Error| FileError::at(&name)(error).of("config");
    let bytes = read_regular(path).map_err(unread)?;
    if is_of_tprofiler(path) {
        return Ok(tprofiler::read(&name, &bytes, environment, warnings)?);
    }
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| unread(io::Error::other("not UTF-8, as TOML is")))?;
    Ok(toml::read(&name, &text)?)
}

/// Reads a regular file. Pipes and devices are refused: they may never end, or even never open.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let check = |found: &Metadata| match found.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("not a file")),
    };
    // Opening a device can have side effects, so check before. Check again after: it may have changed.
    check(&fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    check(&file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(MAX_CONFIG + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        0..=MAX_CONFIG => Ok(bytes),
        _ => Err(io::Error::other(format!("more than {MAX_CONFIG} bytes"))),
    }
}
