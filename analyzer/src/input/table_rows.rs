//! Reads one table of a run row by row, and reports lines that are not rows as problems.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use log_format::compression::Compression;
use log_format::plain::{PlainLines, PlainRow};
use log_format::reader::{BadLine, BadRow, Line, LineParser, TableReader};
use log_format::rows::Row;
use memchr::memchr;

use crate::input::file_blocks::{Block, Blocks};
use crate::input::problems::Problems;
use crate::input::progress::{Counted, Progress};

/// A block fits a processor's own cache, and is long enough to make its fixed costs small.
pub const BLOCK_BYTES: usize = 1 << 18;

/// Bytes that are read at a time.
const BUFFER: usize = 1 << 16;

/// Reads the first `len` bytes of a file and passes each row to `each`; a compressed file, which does not grow, is
/// read whole. If `each` refuses a row, it is a bad line, with the reason that `each` returns.
pub fn read_rows<R: Row>(
    path: &Path,
    len: u64,
    problems: &mut Problems,
    each: impl FnMut(R) -> Result<(), BadRow>,
) {
    read_part(TablePart { path, len, progress: None }, problems, each);
}

/// Like `read_rows`, with progress.
pub fn read_part<R: Row>(
    part: TablePart,
    problems: &mut Problems,
    each: impl FnMut(R) -> Result<(), BadRow>,
) {
    if let Err(error) = read(part, problems, each) {
        problems.unread(part.path, error);
    }
}

/// Like `read_rows`, for tables with plain lines, in a fraction of the time.
pub fn read_plain<R: PlainRow>(
    part: TablePart,
    problems: &mut Problems,
    mut each: impl FnMut(R) -> Result<(), BadRow>,
) {
    let mut read = || {
        let Some((reader, is_plain)) = open::<R>(part, problems)? else { return Ok(()) };
        if reader.is_torn() {
            problems.torn_line();
            return Ok(());
        }
        let (mut lines, input) = reader.into_parts();
        let plain = PlainLines::of(&lines);
        let mut blocks = Blocks::new(input, BLOCK_BYTES, read_size(is_plain));
        let (mut block, mut before) = (Block::default(), 1);
        while blocks.next(&mut block) {
            before += each_line(block.text(), plain, &mut lines, |line, row: Result<R, _>| {
                if let Err(reason) = row.and_then(&mut each) {
                    problems.bad_line(part.path, &BadLine { line: before + line, reason });
                }
            });
        }
        if blocks.finish()? {
            problems.torn_line();
        }
        Ok(())
    };
    let read: io::Result<()> = read();
    if let Err(error) = read {
        problems.unread(part.path, error);
    }
}

/// Passes each line of a block to `each`, with its number from 1 on. Returns the number of lines.
#[inline]
pub fn each_line<R: PlainRow>(
    mut text: &[u8],
    plain: PlainLines,
    lines: &mut LineParser<R>,
    mut each: impl FnMut(u64, Result<R, BadRow>),
) -> u64 {
    let mut number = 0;
    while !text.is_empty() {
        number += 1;
        let len = if let Some((row, len)) = plain.next(text) {
            each(number, Ok(row));
            len
        } else {
            let len = memchr(b'\n', text).unwrap_or(text.len());
            each(number, lines.parse(text.get(..len).unwrap_or_default()));
            len + 1
        };
        text = text.get(len..).unwrap_or_default();
    }
    number
}

/// Bytes read at once: of a damaged file, this yields as much as a buffered reader would get.
pub fn read_size(is_plain: bool) -> usize {
    if is_plain { usize::MAX } else { BUFFER }
}

/// What to read of a file.
#[derive(Clone, Copy, Debug)]
pub struct TablePart<'f> {
    /// The file.
    pub path: &'f Path,
    /// How many bytes of a plain file to read.
    pub len: u64,
    /// Where to report the progress.
    pub progress: Option<&'f Arc<Progress>>,
}

fn read<R: Row>(
    part: TablePart,
    problems: &mut Problems,
    mut each: impl FnMut(R) -> Result<(), BadRow>,
) -> io::Result<()> {
    let Some((mut reader, _)) = open::<R>(part, problems)? else { return Ok(()) };
    // The header is line 1.
    let mut number = 1;
    while let Some(line) = reader.next_line()? {
        number += 1;
        let refused = match line {
            Line::Row(row) => each(row).err().map(|reason| BadLine { line: number, reason }),
            Line::Bad(bad) => Some(bad),
        };
        if let Some(bad) = refused {
            problems.bad_line(part.path, &bad);
        }
    }
    if reader.is_torn() {
        problems.torn_line();
    }
    Ok(())
}

/// Opens the first `len` bytes of a plain file, or all of a compressed one, and reads the header. Also returns
/// whether the file is plain. Returns `None` for a file that cannot have rows; `problems` say why.
pub fn open<R: Row>(
    part: TablePart,
    problems: &mut Problems,
) -> io::Result<Option<(TableReader<R, impl BufRead + Send + use<R>>, bool)>> {
    let TablePart { path, len, progress } = part;
    let found = now_at(path)?;
    // Reading a pipe could wait forever.
    if !fs::metadata(&found)?.is_file() {
        problems.unread(path, "not a file");
        return Ok(None);
    }
    let len = if compression_of(path) == Compression::Off { len } else { u64::MAX };
    let file = File::open(&found)?;
    let compression = compression_of(&found);
    let input = match progress {
        Some(progress) => compression.decode(Counted::new(file, progress)),
        None => compression.decode(file),
    };
    let input = BufReader::with_capacity(BUFFER, input.take(len));
    let reader = TableReader::<R, _>::new(input)?;
    if let Some(reason) = reader.header_problem() {
        problems.unread(path, reason);
        return Ok(None);
    }
    Ok(Some((reader, compression == Compression::Off)))
}

/// The current path of a file: it may have been compressed since it was found.
fn now_at(path: &Path) -> io::Result<Cow<'_, Path>> {
    match fs::metadata(path) {
        Err(error)
            if error.kind() == ErrorKind::NotFound && compression_of(path) == Compression::Off =>
        {
            [Compression::Gzip, Compression::Zstd]
                .into_iter()
                .map(|compression| {
                    let mut name = path.as_os_str().to_owned();
                    name.push(compression.suffix());
                    PathBuf::from(name)
                })
                .find(|compressed| compressed.exists())
                .map_or(Err(error), |compressed| Ok(Cow::Owned(compressed)))
        }
        _ => Ok(Cow::Borrowed(path)),
    }
}

fn compression_of(path: &Path) -> Compression {
    Compression::of_name(&path.file_name().unwrap_or_default().to_string_lossy()).0
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use log_format::ids::StackId;
    use log_format::rows::StackRow;

    use super::*;

    fn read(text: &str, len: u64) -> (Vec<u32>, Problems) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        fs::write(&path, text).unwrap();
        let (mut ids, mut problems) = (Vec::new(), Problems::default());
        read_rows(&path, len, &mut problems, |row: StackRow| {
            ids.push(row.id.get());
            if row.id == StackId::new(9) { Err("nine".into()) } else { Ok(()) }
        });
        (ids, problems)
    }

    #[test]
    fn rows_beyond_the_length_are_not_there() {
        let text = "id,parent,method\n1,0,1\n2,1,1\n";
        assert_eq!(read(text, u64::MAX), (vec![1, 2], Problems::default()));
        let (ids, problems) = read(text, 25);
        assert_eq!((ids, problems.torn_lines()), (vec![1], 1));
        assert_eq!(read(text, 23), (vec![1], Problems::default()));
    }

    #[test]
    fn a_file_that_was_compressed_meanwhile_is_read_as_far_as_it_was_found() {
        let folder = tempfile::tempdir().unwrap();
        let text = "id,parent,method\n1,0,1\n2,1,1\n";
        let gz = folder.path().join("t.csv.gz");
        let mut encoder =
            flate2::write::GzEncoder::new(File::create(&gz).unwrap(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap();
        let read = |path: &Path, len| {
            let (mut ids, mut problems) = (Vec::new(), Problems::default());
            read_rows(path, len, &mut problems, |row: StackRow| {
                ids.push(row.id.get());
                Ok(())
            });
            (ids, problems)
        };
        let plain = folder.path().join("t.csv");
        assert_eq!(read(&plain, 23), (vec![1], Problems::default()));
        assert_eq!(read(&gz, 5), (vec![1, 2], Problems::default()));
        fs::remove_file(&gz).unwrap();
        assert_eq!(read(&plain, 23).1.all_unread().len(), 1);
    }

    #[test]
    fn refused_rows_and_rubbish_are_numbered_alike() {
        let (_, problems) = read("id,parent,method\nrubbish\n9,0,1\n", u64::MAX);
        let messages = problems.messages();
        assert!(messages[0].ends_with("t.csv:2: 1 fields where the header has 3"), "{messages:?}");
        assert!(messages[1].ends_with("t.csv:3: nine"), "{messages:?}");
    }

    #[test]
    fn a_file_with_a_useless_header_is_not_read() {
        let (ids, problems) = read("id,parent\n1,0\n", u64::MAX);
        assert!(ids.is_empty());
        assert!(problems.all_unread()[0].ends_with("t.csv: no column method"));
    }
}
