//! Reads any text line by line. A line that is too long is skipped; a last line without its line end is torn.

use std::io::{self, BufRead, Read};

use log_format::reader::BadRow;

/// A line longer than this is garbage.
const MAX_LINE: u64 = 1 << 20;

/// The lines of a text.
pub struct TextLines<I> {
    input: I,
    line: Vec<u8>,
    number: u64,
    is_torn: bool,
}

impl<I: BufRead> TextLines<I> {
    pub fn new(input: I) -> Self {
        Self { input, line: Vec::new(), number: 0, is_torn: false }
    }

    /// The next whole line, without its end; `None` after the last one.
    pub fn next_line(&mut self) -> io::Result<Option<Result<&str, BadRow>>> {
        self.number += 1;
        if !self.read_part()? {
            return Ok(None);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
            let text = std::str::from_utf8(&self.line);
            return Ok(Some(text.map_err(|_| "not UTF-8".into())));
        }
        loop {
            if !self.read_part()? {
                self.is_torn = true;
                return Ok(None);
            }
            if self.line.last() == Some(&b'\n') {
                return Ok(Some(Err("longer than any row".into())));
            }
        }
    }

    /// Reads on in a line; `false` at the end of the text.
    fn read_part(&mut self) -> io::Result<bool> {
        self.line.clear();
        let read = self.input.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.line)?;
        let is_end = self.line.last() == Some(&b'\n');
        if is_end || u64::try_from(read).is_ok_and(|read| read == MAX_LINE) {
            return Ok(true);
        }
        self.is_torn |= read > 0;
        Ok(false)
    }

    /// The number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the text ended within a line.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> (Vec<String>, bool) {
        let mut lines = TextLines::new(text);
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            let line = line.map_or_else(|reason| format!("! {reason}"), str::to_owned);
            all.push(format!("{}: {line}", lines.number()));
        }
        (all, lines.is_torn())
    }

    #[test]
    fn whole_lines_are_numbered_and_the_last_may_be_torn() {
        let expected = |lines: &[&str]| lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
        assert_eq!(lines(b""), (vec![], false));
        assert_eq!(lines(b"a\r\n\nb\n"), (expected(&["1: a", "2: ", "3: b"]), false));
        assert_eq!(lines(b"a\n\xff\nb"), (expected(&["1: a", "2: ! not UTF-8"]), true));
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let mut text = vec![b'x'; 3 << 20];
        assert_eq!(lines(&text), (vec![], true));
        text.extend_from_slice(b"\nb\n");
        let expected = vec!["1: ! longer than any row".to_owned(), "2: b".to_owned()];
        assert_eq!(lines(&text), (expected, false));
        assert_eq!(lines(&vec![b'x'; 1 << 20]), (vec![], true));
    }
}
