//! Splits the client's bytes into lines, and recognizes the two dialects.
//!
//! A line ends with `\n` or `\r\n`. A word that ends with a bare `\r` is TProfiler's dialect. Only the next byte
//! shows whether a `\r` is bare, so the reader waits a short while for it.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Longest line that is read.
pub(super) const MAX_LINE: usize = 4096;
/// How long to wait for the `\n` after a `\r`.
const AFTER_CR: Duration = Duration::from_millis(100);
/// How long a client may take for a line, however slowly it sends bytes.
const LINE: Duration = Duration::from_secs(30);

/// The protocol of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// This agent's.
    Lines,
    /// TProfiler's.
    TProfiler,
}

/// What a client sent next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A line without its end.
    Line(String, Dialect),
    /// More than [`MAX_LINE`] bytes without an end, or an end that came too late.
    TooLong,
    /// The client has disconnected.
    End,
}

/// The lines of a client.
pub(super) struct Lines<'s> {
    stream: &'s TcpStream,
    /// Bytes read and not yet returned.
    buffer: Vec<u8>,
}

impl<'s> Lines<'s> {
    pub(super) fn new(stream: &'s TcpStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// The next line.
    ///
    /// # Errors
    /// The client is silent or too slow.
    pub(super) fn next(&mut self) -> io::Result<Next> {
        let deadline = Instant::now() + LINE;
        loop {
            let end = self.buffer.iter().position(|b| matches!(b, b'\n' | b'\r'));
            if end.unwrap_or(self.buffer.len()) > MAX_LINE {
                return Ok(Next::TooLong);
            }
            if let Some(end) = end {
                return self.take_line(end);
            }
            if Instant::now() >= deadline {
                return Err(ErrorKind::TimedOut.into());
            }
            if !self.read_more()? {
                return Ok(Next::End);
            }
        }
    }

    fn take_line(&mut self, end: usize) -> io::Result<Next> {
        let is_cr = self.buffer.get(end) == Some(&b'\r');
        if is_cr && self.buffer.len() == end + 1 {
            self.wait_for_byte_after_cr()?;
        }
        let is_crlf = is_cr && self.buffer.get(end + 1) == Some(&b'\n');
        let dialect = if is_cr && !is_crlf { Dialect::TProfiler } else { Dialect::Lines };
        let line: Vec<u8> = self.buffer.drain(..end + 1 + usize::from(is_crlf)).take(end).collect();
        Ok(Next::Line(String::from_utf8_lossy(&line).trim().to_owned(), dialect))
    }

    fn wait_for_byte_after_cr(&mut self) -> io::Result<()> {
        let idle = self.stream.read_timeout()?;
        self.stream.set_read_timeout(Some(AFTER_CR))?;
        let more = self.read_more();
        self.stream.set_read_timeout(idle)?;
        match more {
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Reads more bytes. `false` at the end of the stream.
    fn read_more(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 512];
        let count = (&mut self.stream).read(&mut bytes)?;
        self.buffer.extend_from_slice(bytes.get(..count).unwrap_or_default());
        Ok(count > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    /// The result of `Lines` for pieces that arrive one after the other.
    fn lines(pieces: &[&[u8]]) -> Vec<Next> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|p| p.to_vec()).collect();
        let sender = std::thread::spawn(move || {
            for piece in pieces {
                client.write_all(&piece).unwrap();
                client.flush().unwrap();
            }
        });
        let mut reader = Lines::new(&server);
        let mut found = Vec::new();
        while let Ok(next) = reader.next() {
            found.push(next);
            if matches!(found.last(), Some(Next::End | Next::TooLong)) {
                break;
            }
        }
        sender.join().unwrap();
        found
    }

    #[test]
    fn both_dialects_are_distinguished() {
        let ours = |text: &str| Next::Line(text.to_owned(), Dialect::Lines);
        let old = |text: &str| Next::Line(text.to_owned(), Dialect::TProfiler);
        let end = Next::End;
        assert_eq!(lines(&[b"status\n"]), [ours("status"), end.clone()]);
        let both = [ours("status"), ours("stop"), end.clone()];
        assert_eq!(lines(&[b"sta", b"tus\r\nstop\n"]), both);
        let both = [ours("status"), ours("flush"), end.clone()];
        assert_eq!(lines(&[b"status\r", b"\nflush\n"]), both);
        assert_eq!(lines(&[b"status\r"]), [old("status"), end.clone()]);
        assert_eq!(lines(&[b"status\rstop\n"]), [old("status"), ours("stop"), end.clone()]);
        assert_eq!(lines(&[b"no end"]), [end]);
    }

    #[test]
    fn a_line_may_be_so_long_and_no_longer() {
        let longest = vec![b'x'; MAX_LINE];
        let line = Next::Line("x".repeat(MAX_LINE), Dialect::Lines);
        assert_eq!(lines(&[&longest, b"\n"]), [line, Next::End]);
        assert_eq!(lines(&[&longest, b"x\nstatus\n"]), [Next::TooLong]);
        assert_eq!(lines(&[&longest, b"x"]), [Next::TooLong]);
    }
}
