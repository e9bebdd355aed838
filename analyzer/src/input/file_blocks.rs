//! Cuts a table into blocks of whole lines, in order. A block's memory does not depend on the file's content: of a
//! line longer than any row, only enough is kept to show its length.

use std::io::{self, ErrorKind, Read};

use log_format::reader::MAX_LINE;
use memchr::{memchr, memrchr};

/// Lines with their ends. The memory is reused for the next block.
#[derive(Debug, Default)]
pub struct Block {
    bytes: Vec<u8>,
    len: usize,
}

impl Block {
    /// The lines.
    pub fn text(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Space for `size` more bytes.
    fn room(&mut self, size: usize) -> &mut [u8] {
        let end = self.len.saturating_add(size);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes.get_mut(self.len..end).unwrap_or_default()
    }

    fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// The blocks of an input.
#[derive(Debug)]
pub struct Blocks<I> {
    input: I,
    /// Approximate length of a block.
    size: usize,
    /// Bytes read at once.
    read_size: usize,
    /// What follows the last whole line.
    rest: Vec<u8>,
    ended: bool,
    torn: bool,
    error: Option<io::Error>,
}

impl<I: Read> Blocks<I> {
    /// Blocks of about `size` bytes, read in pieces of `read_size`.
    pub fn new(input: I, size: usize, read_size: usize) -> Self {
        let (size, read_size) = (size.max(1), read_size.max(1));
        Self { input, size, read_size, rest: Vec::new(), ended: false, torn: false, error: None }
    }

    /// Reads the next block; `false` at the end, or where nothing more can be read.
    pub fn next(&mut self, block: &mut Block) -> bool {
        block.len = 0;
        block.push(&self.rest);
        self.rest.clear();
        let mut size = self.size;
        loop {
            while !self.ended && block.len < size {
                self.read(block, size - block.len);
            }
            if let Some(end) = memrchr(b'\n', block.text()) {
                let (lines, rest) = block.text().split_at(end + 1);
                self.rest.extend_from_slice(rest);
                block.len = lines.len();
                return true;
            }
            if self.ended {
                self.torn |= block.len > 0;
                return false;
            }
            if block.len > MAX_LINE {
                return self.pass_over(block);
            }
            size = size.saturating_mul(2);
        }
    }

    fn read(&mut self, block: &mut Block, size: usize) {
        match self.input.read(block.room(size.min(self.read_size))) {
            Ok(0) => self.ended = true,
            Ok(read) => block.len += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => (self.ended, self.error) = (true, Some(error)),
        }
    }

    /// Skips the rest of a line that is longer than any row, up to its end.
    fn pass_over(&mut self, block: &mut Block) -> bool {
        let kept = MAX_LINE.min(block.len);
        loop {
            block.len = kept;
            if self.ended {
                self.torn = true;
                return false;
            }
            self.read(block, MAX_LINE);
            let more = block.text().get(kept..).unwrap_or_default();
            if let Some(end) = memchr(b'\n', more) {
                self.rest.extend_from_slice(more.get(end + 1..).unwrap_or_default());
                block.len = kept;
                block.push(b"\n");
                return true;
            }
        }
    }

    /// Whether the input ended within a line.
    ///
    /// # Errors
    /// The input could not be read to its end.
    pub fn finish(self) -> io::Result<bool> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.torn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], size: usize) -> (Vec<Vec<u8>>, bool) {
        let mut blocks = Blocks::new(text, size, 7);
        let (mut block, mut lines) = (Block::default(), Vec::new());
        while blocks.next(&mut block) {
            assert!(block.text().ends_with(b"\n"));
            lines.extend(block.text().split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec));
        }
        (lines, blocks.finish().unwrap())
    }

    #[test]
    fn blocks_have_every_whole_line_once() {
        let text = b"one\n\nthree\na long line that fills some blocks\n\nlast\ntorn";
        for size in 1..80 {
            let (lines, torn) = lines(text, size);
            assert_eq!(lines.concat(), text[..text.len() - 4], "blocks of {size}");
            assert_eq!((lines.len(), torn), (6, true));
        }
        assert_eq!(lines(b"", 9), (vec![], false));
        assert_eq!(lines(b"torn", 2), (vec![], true));
    }

    #[test]
    fn of_a_line_without_end_little_is_kept() {
        for size in [64, 1 << 19, 8 << 20] {
            let long = vec![b'x'; 5 << 20];
            let text = [b"first\n", &long[..], b"\nlast\n", &long[..]].concat();
            let mut blocks = Blocks::new(&text[..], size, 1 << 16);
            let (mut block, mut lens) = (Block::default(), Vec::new());
            while blocks.next(&mut block) {
                lens.extend(block.text().split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len));
            }
            assert!(blocks.finish().unwrap());
            assert_eq!((lens.len(), lens[0], lens[2]), (3, 6, 5));
            assert!(lens[1] > MAX_LINE);
            assert!(block.bytes.len() <= (4 << 20).max(2 * size), "{}", block.bytes.len());
        }
    }

    #[test]
    fn what_was_read_before_an_error_counts() {
        struct Broken(usize);
        impl Read for Broken {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                match self.0 {
                    1 => (&b"one\ntw"[..]).read(buffer),
                    2 => Err(ErrorKind::Interrupted.into()),
                    3 => (&b"o\nthr"[..]).read(buffer),
                    _ => Err(io::Error::other("no")),
                }
            }
        }
        let mut blocks = Blocks::new(Broken(0), 100, 100);
        let mut block = Block::default();
        assert!(blocks.next(&mut block));
        assert_eq!(block.text(), b"one\ntwo\n");
        assert!(!blocks.next(&mut block));
        assert_eq!(blocks.finish().unwrap_err().to_string(), "no");
    }
}
