//! Reads a table line by line, and tolerates any input.
//!
//! Columns are found by name; unknown columns are ignored. A line that is not a row becomes a [`BadLine`] with its
//! number, and reading continues with the next line. A last line without its end is torn (the agent is still writing,
//! or was killed): it is not read, only counted.
//!
//! Only [`LineParser`] decides what a line means; [`PlainRow`](crate::plain::PlainRow) is a short cut for lines that
//! do not need its care.

use std::io::{self, BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::path::Path;

use csv::{DeserializeError, StringRecord};
use thiserror::Error;

use crate::compression;
use crate::rows::Row;

/// A longer line is garbage: the longest line that the agent writes is a method whose names are as long as a class
/// file allows (three of 65,535 bytes, quoted).
pub const MAX_LINE: usize = 1 << 20;

const MAX_LINE_READ: u64 = MAX_LINE as u64;

const TOO_LONG: BadRow = BadRow::Text("longer than any row");

/// Why a line is not a row of its table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadRow {
    /// Its text has not the form of a row.
    #[error("{0}")]
    Text(&'static str),
    /// It has more or fewer fields than the header.
    #[error("{found} fields where the header has {expected}")]
    Fields {
        /// Fields of the line.
        found: usize,
        /// Fields of the header.
        expected: usize,
    },
    /// A field is not a value of its column.
    #[error("{0}")]
    Field(#[source] Box<DeserializeError>),
    /// An earlier row gave its id another meaning.
    #[error("{0} {1} has another name in an earlier row")]
    Id(&'static str, u32),
}

impl From<&'static str> for BadRow {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}

/// A line that is not a row of its table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{line}: {reason}")]
pub struct BadLine {
    /// Number of the line, from 1.
    pub line: u64,
    /// What is wrong with it.
    #[source]
    pub reason: BadRow,
}

/// The result of reading a line.
#[derive(Debug)]
pub enum Line<R> {
    /// A row.
    Row(R),
    /// Not a row.
    Bad(BadLine),
}

/// Turns lines of a table into rows.
pub struct LineParser<R> {
    header: StringRecord,
    fields: Fields,
    row: PhantomData<fn() -> R>,
}

impl<R> Clone for LineParser<R> {
    fn clone(&self) -> Self {
        // The clone of csv-core 0.1's reader is incomplete: it lacks a part of the reader's table, and knows no
        // delimiters.
        Self { header: self.header.clone(), fields: Fields::new(), row: PhantomData }
    }
}

impl<R: Row> LineParser<R> {
    fn new(header: StringRecord) -> Self {
        Self { header, fields: Fields::new(), row: PhantomData }
    }

    /// The names of the file's columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.header.iter()
    }

    /// The row of a line, which is given without its line end.
    ///
    /// # Errors
    /// Why it is not a row.
    pub fn parse(&mut self, line: &[u8]) -> Result<R, BadRow> {
        if line.len() >= MAX_LINE {
            return Err(TOO_LONG);
        }
        let record = self.fields.split(line)?;
        let (found, expected) = (record.len(), self.header.len());
        if found != expected {
            return Err(BadRow::Fields { found, expected });
        }
        record.deserialize(Some(&self.header)).map_err(plain)
    }
}

/// Reads the rows of one file.
pub struct TableReader<R, I> {
    input: I,
    lines: LineParser<R>,
    line: Vec<u8>,
    number: u64,
    has_header: bool,
    torn: bool,
}

impl<R: Row> TableReader<R, BufReader<Box<dyn Read + Send>>> {
    /// Opens a file, plain or compressed, and reads its header.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::new(BufReader::with_capacity(1 << 16, compression::open(path)?))
    }
}

impl<R: Row, I: BufRead> TableReader<R, I> {
    /// Starts on `input`, whose first line is the header. An input without a whole first line is a
    /// table without rows.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn new(input: I) -> io::Result<Self> {
        let mut reader = Self {
            input,
            lines: LineParser::new(StringRecord::new()),
            line: Vec::new(),
            number: 0,
            has_header: false,
            torn: false,
        };
        match reader.read_line()? {
            LineEnd::Whole => {
                reader.has_header = true;
                let lines = &mut reader.lines;
                lines.header = lines.fields.split(&reader.line).unwrap_or_default();
            }
            LineEnd::TooLong => reader.has_header = true,
            LineEnd::EndOfFile => {}
        }
        Ok(reader)
    }

    /// Returns a parser that reads lines like this reader, and the rest of the input. The rest begins with a whole
    /// line if none was read yet.
    #[must_use]
    pub fn into_parts(self) -> (LineParser<R>, I) {
        (self.lines, self.input)
    }

    /// The columns of [`Row::COLUMNS`] that the file's header has to have, and does not.
    #[must_use]
    pub fn missing_columns(&self) -> Vec<&'static str> {
        let header = &self.lines.header;
        let missing = |c: &&str| !R::is_optional(c) && !header.iter().any(|h| h == *c);
        R::COLUMNS.iter().copied().filter(missing).collect()
    }

    /// Why no line of this file can be a row: its header lacks a column or has one twice. `None` if all is well, or
    /// if the header is not complete yet.
    #[must_use]
    pub fn header_problem(&self) -> Option<String> {
        if !self.has_header {
            return None;
        }
        let missing = self.missing_columns();
        if !missing.is_empty() {
            return Some(format!("no column {}", missing.join(", ")));
        }
        let times = |column: &str| self.lines.columns().filter(|h| *h == column).count();
        let twice = R::COLUMNS.iter().find(|c| times(c) > 1)?;
        Some(format!("duplicate column {twice}"))
    }

    /// Whether the file ended in the middle of a line.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    /// Reads the next line; `None` at the current end of the input.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn next_line(&mut self) -> io::Result<Option<Line<R>>> {
        let parsed = match self.read_line()? {
            LineEnd::EndOfFile => return Ok(None),
            LineEnd::TooLong => Err(TOO_LONG),
            LineEnd::Whole => self.lines.parse(&self.line),
        };
        Ok(Some(match parsed {
            Ok(row) => Line::Row(row),
            Err(reason) => Line::Bad(BadLine { line: self.number, reason }),
        }))
    }

    fn read_line(&mut self) -> io::Result<LineEnd> {
        self.line.clear();
        self.number += 1;
        let read = self.input.by_ref().take(MAX_LINE_READ).read_until(b'\n', &mut self.line)?;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            return Ok(LineEnd::Whole);
        }
        if read < MAX_LINE {
            self.torn |= read > 0;
            return Ok(LineEnd::EndOfFile);
        }
        // Skip the rest of it.
        loop {
            self.line.clear();
            let read = self.input.by_ref().take(MAX_LINE_READ).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                self.torn = true;
                return Ok(LineEnd::EndOfFile);
            }
            if self.line.last() == Some(&b'\n') {
                return Ok(LineEnd::TooLong);
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum LineEnd {
    Whole,
    TooLong,
    EndOfFile,
}

/// Splits a line into fields.
struct Fields {
    parser: csv_core::Reader,
    /// Unquoted text of all fields, and where each ends.
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Fields {
    fn new() -> Self {
        Self { parser: csv_core::Reader::new(), text: Vec::new(), ends: Vec::new() }
    }

    fn split(&mut self, line: &[u8]) -> Result<StringRecord, BadRow> {
        self.parser.reset();
        // Unquoting never lengthens, and a line has at most one more field than bytes.
        self.text.resize(line.len() + 1, 0);
        self.ends.resize(line.len() + 2, 0);
        let (_, _, written, fields) = self.parser.read_record(line, &mut self.text, &mut self.ends);
        // The end of input ends the last field and the record.
        let rest = self.text.get_mut(written..).unwrap_or_default();
        let (_, _, _, more) =
            self.parser.read_record(&[], rest, self.ends.get_mut(fields..).unwrap_or_default());
        let mut record = StringRecord::new();
        let mut start = 0;
        for end in self.ends.iter().take(fields + more) {
            let bytes = self.text.get(start..*end).ok_or("not CSV")?;
            record.push_field(std::str::from_utf8(bytes).map_err(|_| "not UTF-8")?);
            start = *end;
        }
        Ok(record)
    }
}

/// The csv crate's error without the position, which it does not know.
fn plain(error: csv::Error) -> BadRow {
    match error.into_kind() {
        csv::ErrorKind::Deserialize { err, .. } => BadRow::Field(Box::new(err)),
        // Only this kind comes from a record's fields.
        _ => BadRow::Text("not CSV"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{MethodId, StackId};
    use crate::rows::{CallRow, Exit, MethodRow, StackRow};
    use crate::writer::{write_header, write_rows};

    fn read<R: Row>(text: &[u8]) -> (Vec<R>, Vec<BadLine>, bool) {
        let mut reader = TableReader::<R, _>::new(text).unwrap();
        let (mut rows, mut bad) = (Vec::new(), Vec::new());
        while let Some(line) = reader.next_line().unwrap() {
            match line {
                Line::Row(row) => rows.push(row),
                Line::Bad(line) => bad.push(line),
            }
        }
        (rows, bad, reader.is_torn())
    }

    #[test]
    fn what_is_written_is_read_back() {
        let row = |class: &str| MethodRow {
            id: MethodId::new(7),
            loader: "app".into(),
            class: class.into(),
            method: "a,\"b\"".into(),
            descriptor: "(I)V".into(),
            source: String::new(),
            line: 12,
        };
        let rows = vec![row("plain.Class"), row("\"quoted"), row("with,comma"), row("Größe")];
        let mut text = Vec::new();
        write_header::<MethodRow>(&mut text);
        write_rows(&mut text, &rows).unwrap();
        assert_eq!(read::<MethodRow>(&text), (rows, vec![], false));
    }

    #[test]
    fn columns_are_found_by_name_and_unknown_ones_passed_over() {
        let (rows, bad, _) = read::<StackRow>(b"method,weather,id,parent\n3,rainy,1,2\n");
        assert_eq!(
            (rows, bad),
            (
                vec![StackRow {
                    id: StackId::new(1),
                    parent: StackId::new(2),
                    method: MethodId::new(3)
                }],
                vec![]
            )
        );
        let reader = TableReader::<StackRow, _>::new(&b"id,method\n"[..]).unwrap();
        assert_eq!(reader.missing_columns(), ["parent"]);
    }

    #[test]
    fn a_header_that_no_row_can_follow_is_reported() {
        let problem = |text: &[u8]| TableReader::<StackRow, _>::new(text).unwrap().header_problem();
        assert_eq!(problem(b"id,parent,method\n"), None);
        assert_eq!(problem(b"id,weather,parent,weather,method\n"), None);
        for not_there_yet in [&b""[..], b"id,par"] {
            assert_eq!(problem(not_there_yet), None);
        }
        assert_eq!(problem(b"id\n").unwrap(), "no column parent, method");
        assert_eq!(problem(b"\xff\n").unwrap(), "no column id, parent, method");
        assert_eq!(problem(&vec![b'x'; 2 << 20]), None);
        assert_eq!(problem(b"id,parent,method,id\n").unwrap(), "duplicate column id");
    }

    #[test]
    fn a_copy_of_a_parser_reads_as_it_does() {
        let text = &b"id,parent,method\n"[..];
        let (mut lines, _) = TableReader::<StackRow, _>::new(text).unwrap().into_parts();
        let row =
            StackRow { id: StackId::new(1), parent: StackId::new(2), method: MethodId::new(3) };
        for line in [&b"1,2,3"[..], b"\"1\",2,3\r"] {
            assert_eq!(lines.clone().parse(line), Ok(row.clone()));
            assert_eq!(lines.parse(line), Ok(row.clone()));
        }
    }

    #[test]
    fn a_torn_last_line_is_not_a_row() {
        let (rows, bad, torn) = read::<StackRow>(b"id,parent,method\n1,0,3\n2,1,44");
        assert_eq!((rows.len(), bad.len(), torn), (1, 0, true));
        for empty in [&b""[..], b"id,par"] {
            let (rows, bad, torn) = read::<StackRow>(empty);
            assert_eq!((rows.len(), bad.len(), torn), (0, 0, !empty.is_empty()));
        }
    }

    #[test]
    fn bad_lines_are_numbered_and_passed_over() {
        let mut text = b"start_ns,thread,stack,method,total_ns,self_ns,exit\n".to_vec();
        text.extend_from_slice(b"1,1,1,1,5,5,return\n");
        text.extend_from_slice(b"rubbish\n");
        text.extend_from_slice(b"\"rubbish that opens a quote\n");
        text.extend_from_slice(b"1,1,1,1,5,-5,return\n");
        text.extend_from_slice(b"1,1,1,1,5,5,left\n");
        text.extend_from_slice(b"\xff\xfe,1,1,1,5,5,return\n");
        text.extend_from_slice(b"\n");
        text.extend(std::iter::repeat_n(b'x', 3 << 20));
        text.extend_from_slice(b"\n2,1,1,1,5,5,throw\n");
        let (rows, bad, torn) = read::<CallRow>(&text);
        assert_eq!(rows.iter().map(|r| r.exit).collect::<Vec<_>>(), [Exit::Return, Exit::Throw]);
        assert_eq!(bad.iter().map(|b| b.line).collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8, 9]);
        assert!(!torn);
    }
}
