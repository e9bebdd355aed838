//! Rewrites the classes of a jar.
//!
//! Every other entry keeps its place and its compressed bytes: folders, resources, nested jars, the manifest. Classes
//! under META-INF/versions count as classes. When a class changes, the jar's signature becomes invalid, and its files
//! are omitted; otherwise a JVM would refuse the classes. A jar with two entries of the same name stays as it is,
//! because the zip crate keeps only one of them.

use std::collections::HashSet;
use std::io::{self, Cursor, Read, Write};
use std::path::Path;

use zip::read::ZipFile;
use zip::result::{ZipError, ZipResult};
use zip::{ZipArchive, ZipWriter};

use super::kind::Kind;
use super::selection::ClassRewriter;

/// Longest class that is read: the length of a class file's attributes is 32 bits, but no JVM accepts a class near
/// that. The limit prevents a broken jar from filling the memory.
const MAX_CLASS: u64 = 256 << 20;

/// The jar with rewritten classes, or `None` if it does not change.
pub(super) fn rewrite(
    classes: &mut ClassRewriter<'_>,
    place: &str,
    bytes: &[u8],
) -> Option<Vec<u8>> {
    match entries(classes, place, bytes) {
        Ok(changed) => changed,
        Err(error) => {
            classes.unreadable(format!("{place}: {error}"));
            None
        }
    }
}

fn entries(
    classes: &mut ClassRewriter<'_>,
    place: &str,
    bytes: &[u8],
) -> ZipResult<Option<Vec<u8>>> {
    let mut archive = ZipArchive::new(Cursor::new(bytes))?;
    if archive.has_duplicate_names() {
        let start = usize::try_from(archive.central_directory_start()).unwrap_or(bytes.len());
        let name = duplicate(bytes.get(start..).unwrap_or_default()).unwrap_or_default();
        return Err(ZipError::InvalidArchive(format!("two entries are named {name}").into()));
    }
    let changed = rewrite_classes(classes, place, &mut archive)?;
    let stays = changed.iter().all(Option::is_none);
    for name in archive.file_names_raw().filter(|name| stays || !is_signature(name)) {
        passed_over(classes, &String::from_utf8_lossy(name));
    }
    if stays {
        return Ok(None);
    }
    let mut writer = ZipWriter::new(Cursor::new(Vec::with_capacity(bytes.len() * 5 / 4)));
    writer.set_raw_comment(archive.comment().into())?;
    let mut signatures = Vec::new();
    for (index, class) in changed.into_iter().enumerate() {
        let entry = archive.by_index_raw(index)?;
        match class {
            _ if is_signature(entry.name_raw()) => signatures.push(name_of(&entry)),
            Some(class) => {
                let (name, options) = (name_of(&entry), entry.options());
                writer.start_file(name, options)?;
                writer.write_all(&class)?;
            }
            None => writer.raw_copy_file(entry)?,
        }
    }
    // An executable jar begins with a script, which offsets in the archive do not count.
    let script = usize::try_from(archive.offset()).ok().and_then(|end| bytes.get(..end));
    let mut jar = script.unwrap_or_default().to_vec();
    jar.append(&mut writer.finish()?.into_inner());
    let signatures = signatures.into_iter().map(|name| format!("{place}: {name}"));
    classes.summary.dropped_signatures.extend(signatures);
    Ok(Some(jar))
}

/// The first name in a central directory that an earlier entry also has (APPNOTE 4.3.12).
fn duplicate(mut directory: &[u8]) -> Option<String> {
    let mut seen = HashSet::new();
    while directory.starts_with(b"PK\x01\x02") {
        let length =
            |at: usize| Some(usize::from(u16::from_le_bytes(*directory.get(at..)?.first_chunk()?)));
        let (name_end, rest) = (46 + length(28)?, length(30)? + length(32)?);
        let name = directory.get(46..name_end)?;
        if !seen.insert(name) {
            return Some(String::from_utf8_lossy(name).into_owned());
        }
        directory = directory.get(name_end + rest..)?;
    }
    None
}

/// Counts an entry that is not a class.
fn passed_over(classes: &mut ClassRewriter<'_>, name: &str) {
    if name.ends_with('/') || name.ends_with(".class") {
        return;
    }
    match Kind::of(Path::new(name)) {
        Kind::Jar => classes.summary.nested_jars += 1,
        Kind::Class | Kind::Other => classes.summary.other_files += 1,
    }
}

/// The new contents of each entry that is a class and changes.
fn rewrite_classes(
    classes: &mut ClassRewriter<'_>,
    place: &str,
    archive: &mut ZipArchive<Cursor<&[u8]>>,
) -> ZipResult<Vec<Option<Vec<u8>>>> {
    let mut changed = Vec::with_capacity(archive.len());
    for index in 0..archive.len() {
        let name = name_of(&archive.by_index_raw(index)?);
        if !name.ends_with(".class") {
            changed.push(None);
            continue;
        }
        let place = format!("{place}: {name}");
        let class = archive.by_index(index).map_err(io::Error::from).and_then(read);
        changed.push(match class {
            Ok(class) => classes.class(&place, &class),
            Err(error) => {
                classes.unreadable(format!("{place}: {error}"));
                None
            }
        });
    }
    Ok(changed)
}

fn read(entry: impl Read) -> io::Result<Vec<u8>> {
    let mut class = Vec::new();
    entry.take(MAX_CLASS).read_to_end(&mut class)?;
    Ok(class)
}

fn name_of<R: Read>(entry: &ZipFile<'_, R>) -> String {
    String::from_utf8_lossy(entry.name_raw()).into_owned()
}

/// The files of a jar's signature (Jar File Specification, "Signed JAR File").
fn is_signature(name: &[u8]) -> bool {
    let name = name.to_ascii_uppercase();
    let Some(file) = name.strip_prefix(b"META-INF/") else { return false };
    let is_block = [&b".SF"[..], b".RSA", b".DSA", b".EC"].iter().any(|end| file.ends_with(end));
    !file.contains(&b'/') && (is_block || file.starts_with(b"SIG-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_files_are_distinguished_from_others() {
        for name in ["META-INF/BCKEY.SF", "META-INF/bckey.dsa", "META-INF/A.EC", "META-INF/SIG-x"] {
            assert!(is_signature(name.as_bytes()), "{name}");
        }
        for name in ["META-INF/MANIFEST.MF", "META-INF/x/A.SF", "A.SF", "META-INF/A.SFX"] {
            assert!(!is_signature(name.as_bytes()), "{name}");
        }
    }
}
