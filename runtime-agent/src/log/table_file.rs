//! One CSV file of the log, and the rows that wait to be written to it.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;

use log_format::rows::Row;
use log_format::writer::{write_header, write_rows};

/// Capacity of the row buffer that is kept after a write.
const KEPT_BYTES: usize = 64 << 10;

/// A file to append to.
#[derive(Debug)]
pub(crate) struct TableFile {
    header: Vec<u8>,
    file: Option<File>,
    /// Bytes of the header that are not in the file yet.
    header_left: usize,
    /// Whole lines, but for the part of the first that has been written.
    pending: Vec<u8>,
    /// Whether the file ends in the middle of a line.
    is_torn: bool,
}

impl TableFile {
    pub(crate) fn new<R: Row>() -> Self {
        let mut header = Vec::new();
        write_header::<R>(&mut header);
        Self { header, file: None, header_left: 0, pending: Vec::new(), is_torn: false }
    }

    /// Adds rows, and returns how many bytes they take.
    pub(crate) fn add<R: Row>(&mut self, rows: &[R]) -> u64 {
        let before = self.pending.len();
        // No row of this format has a field that cannot be written.
        let _ = write_rows(&mut self.pending, rows);
        (self.pending.len() - before) as u64
    }

    /// Bytes waiting to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Whether anything waits to be written.
    pub(crate) fn is_behind(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether somebody has deleted the file.
    pub(crate) fn was_deleted(&self) -> bool {
        let links = self.file.as_ref().and_then(|file| file.metadata().ok());
        links.is_some_and(|metadata| metadata.nlink() == 0)
    }

    /// Drops the file; what waits goes into a new one.
    pub(crate) fn forget(&mut self) {
        self.file = None;
        if std::mem::take(&mut self.is_torn) {
            let rest = self.pending.iter().position(|b| *b == b'\n').map_or(0, |end| end + 1);
            self.pending.drain(..rest);
        }
    }

    /// Writes as much of what waits as possible, and returns how many bytes that was. `open` returns the file to
    /// append to, and whether it is empty; a file that somebody has put back has a header.
    pub(crate) fn write(
        &mut self,
        open: impl FnOnce() -> io::Result<(File, bool)>,
        sync: bool,
    ) -> (u64, Option<io::Error>) {
        if self.file.is_none() && self.pending.is_empty() {
            return (0, None);
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => match open() {
                Ok((file, is_new)) => {
                    self.header_left = if is_new { self.header.len() } else { 0 };
                    none.insert(file)
                }
                Err(error) => return (0, Some(error)),
            },
        };
        let header = self.header.len() - self.header_left;
        let (of_header, mut error) = append(file, self.header.get(header..).unwrap_or_default());
        self.header_left -= of_header;
        let mut written = 0;
        if error.is_none() {
            (written, error) = append(file, &self.pending);
        }
        if let Some(last) = written.checked_sub(1).and_then(|last| self.pending.get(last)) {
            self.is_torn = *last != b'\n';
        }
        self.pending.drain(..written);
        self.pending.shrink_to(KEPT_BYTES);
        let error = error.or_else(|| if sync { file.sync_data().err() } else { None });
        ((of_header + written) as u64, error)
    }

    /// Drops the rows that the disk has not accepted for too long, and returns how many.
    pub(crate) fn give_up(&mut self) -> u64 {
        let rows = self.pending.iter().filter(|b| **b == b'\n').count() as u64;
        self.pending.clear();
        if self.is_torn {
            self.pending.push(b'\n');
        }
        rows
    }
}

/// Writes as much as possible, and returns how many bytes that was.
fn append(file: &mut File, bytes: &[u8]) -> (usize, Option<io::Error>) {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match file.write(rest) {
            Ok(0) => return (written, Some(ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use log_format::ids::{MethodId, StackId};
    use log_format::rows::StackRow;

    use super::*;

    fn open(path: &Path) -> impl FnOnce() -> io::Result<(File, bool)> {
        move || {
            let file = File::options().append(true).create(true).open(path)?;
            let is_new = file.metadata()?.len() == 0;
            Ok((file, is_new))
        }
    }

    fn row(id: u32) -> StackRow {
        StackRow { id: StackId::new(id), parent: StackId::NONE, method: MethodId::new(7) }
    }

    fn file_with(ids: std::ops::Range<u32>) -> TableFile {
        let mut file = TableFile::new::<StackRow>();
        file.add(&ids.map(row).collect::<Vec<_>>());
        file
    }

    #[test]
    fn a_file_that_is_there_gets_no_second_header() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stacks.csv");
        for first in [1, 3] {
            let mut file = file_with(first..first + 2);
            let (bytes, error) = file.write(open(&path), true);
            assert!(error.is_none() && bytes > 0 && !file.is_behind());
        }
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "id,parent,method\n1,0,7\n2,0,7\n3,0,7\n4,0,7\n");
    }

    #[test]
    fn dropped_rows_are_counted_and_the_header_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stacks.csv");
        let mut file = file_with(0..2_000_000);
        let (bytes, error) = file.write(|| Err(ErrorKind::PermissionDenied.into()), false);
        assert!(error.is_some() && bytes == 0);
        assert_eq!(file.give_up(), 2_000_000);
        assert!(!file.is_behind());
        file.add(&[row(9)]);
        assert!(file.write(open(&path), false).1.is_none());
        assert_eq!(fs::read_to_string(&path).unwrap(), "id,parent,method\n9,0,7\n");
    }

    #[test]
    fn a_deleted_file_is_noticed_and_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stacks.csv");
        let mut file = file_with(1..2);
        file.write(open(&path), false);
        assert!(!file.was_deleted());
        fs::remove_file(&path).unwrap();
        assert!(file.was_deleted());
        file.forget();
        file.add(&[row(2)]);
        assert!(file.write(open(&path), false).1.is_none());
        assert_eq!(fs::read_to_string(&path).unwrap(), "id,parent,method\n2,0,7\n");
    }

    #[test]
    fn a_file_that_takes_the_place_of_one_on_a_full_disk_has_one_header() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stacks.csv");
        let mut file = file_with(1..3);
        let (bytes, error) = file.write(open(Path::new("/dev/full")), false);
        assert!(error.is_some() && bytes == 0);
        assert_eq!(file.give_up(), 2);
        file.forget();
        file.add(&[row(9)]);
        assert!(file.write(open(&path), false).1.is_none());
        assert_eq!(fs::read_to_string(&path).unwrap(), "id,parent,method\n9,0,7\n");
    }
}
