//! Reads one table of a run row by row, and turns whatever is not a row into a problem.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use log_format::reader::{BadLine, Line, TableReader};
use log_format::rows::Row;

use crate::problems::Problems;

/// Reads the first `len` bytes of a file and hands each row to `each`. A row that `each` refuses is
/// a bad line, with the reason that `each` gives.
pub fn read_rows<R: Row>(
    path: &Path,
    len: u64,
    problems: &mut Problems,
    each: impl FnMut(R) -> Result<(), String>,
) {
    if let Err(error) = read(path, len, problems, each) {
        problems.unread(path, error);
    }
}

fn read<R: Row>(
    path: &Path,
    len: u64,
    problems: &mut Problems,
    mut each: impl FnMut(R) -> Result<(), String>,
) -> io::Result<()> {
    // A pipe would be waited for, for ever.
    if !fs::metadata(path)?.is_file() {
        problems.unread(path, "not a file");
        return Ok(());
    }
    let input = BufReader::with_capacity(1 << 16, File::open(path)?.take(len));
    let mut reader = TableReader::<R, _>::new(input)?;
    if let Some(reason) = reader.header_problem() {
        problems.unread(path, reason);
        return Ok(());
    }
    // The header is line 1.
    let mut number = 1;
    while let Some(line) = reader.next_line()? {
        number += 1;
        let refused = match line {
            Line::Row(row) => each(row).err().map(|reason| BadLine { line: number, reason }),
            Line::Bad(bad) => Some(bad),
        };
        if let Some(bad) = refused {
            problems.bad_line(path, &bad);
        }
    }
    if reader.is_torn() {
        problems.torn_line();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use log_format::rows::StackRow;

    use super::*;

    fn read(text: &str, len: u64) -> (Vec<u32>, Problems) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        fs::write(&path, text).unwrap();
        let (mut ids, mut problems) = (Vec::new(), Problems::default());
        read_rows(&path, len, &mut problems, |row: StackRow| {
            ids.push(row.id);
            if row.id == 9 { Err("nine".to_owned()) } else { Ok(()) }
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
