//! A short cut for lines as the agent writes them: plain numbers, the format's columns in their order, no quotes,
//! ended by `\n`. It reads them almost at memory speed, and refuses every other line, even if that is a valid row.
//! [`LineParser`] is authoritative: if both return a row, it is the same one.
//!
//! Numbers are read eight digits at a time. In a word of eight characters, xor with `0` makes digits 0 to 9; the
//! first byte that is larger shows how many digits there are; three multiplications turn them into a number:
//!
//! ```text
//! 1 2 3 4 5 6 7 8      d0 * 10 + d1              of each two neighbours
//! 12 34 56 78          d0 * 100 + d1             of each two pairs
//! 1234 5678            d0 * 10000 + d1           12345678
//! ```

use crate::histogram::Histogram;
use crate::ids::{MethodId, StackId, ThreadId};
use crate::reader::{LineParser, MAX_LINE};
use crate::rows::{CallRow, Exit, MethodRow, Row, StackRow, StatsRow};

/// A row whose table can have plain lines.
pub trait PlainRow: Row {
    /// The row that `text` begins with, and the text after its last column.
    #[doc(hidden)]
    fn split_plain(text: &[u8]) -> Option<(Self, &[u8])>;
}

/// Reads the plain lines of one file.
#[derive(Clone, Copy, Debug)]
pub struct PlainLines {
    /// Columns after those of the format; `None` if the format's columns are not the first, in order.
    more_columns: Option<usize>,
}

impl PlainLines {
    /// A parser for the file whose other lines `parser` reads.
    #[must_use]
    pub fn of<R: PlainRow>(lines: &LineParser<R>) -> Self {
        let is_in_order = R::COLUMNS.iter().copied().eq(lines.columns().take(R::COLUMNS.len()));
        let more = lines.columns().count().saturating_sub(R::COLUMNS.len());
        Self { more_columns: is_in_order.then_some(more) }
    }

    /// The row of the line that `text` begins with, and the length of the line with its end. `None` only means that
    /// the line has to be read in another way. The last line of `text` may need that just because it is the last.
    #[inline]
    #[must_use]
    pub fn next<R: PlainRow>(self, text: &[u8]) -> Option<(R, usize)> {
        let more_columns = self.more_columns?;
        let (row, mut rest) = R::split_plain(text)?;
        for _ in 0..more_columns {
            (_, rest) = text_of(rest.strip_prefix(b",")?)?;
        }
        let rest = rest.strip_prefix(b"\n")?;
        let len = text.len() - rest.len();
        (len <= MAX_LINE).then_some((row, len))
    }
}

impl PlainRow for CallRow {
    #[inline]
    fn split_plain(text: &[u8]) -> Option<(Self, &[u8])> {
        let (start_ns, text) = column(text)?;
        let (thread, text) = column(text)?;
        let (stack, text) = column(text)?;
        let (method, text) = column(text)?;
        let (total_ns, text) = column(text)?;
        let (self_ns, text) = column(text)?;
        let (exit, text) = if let Some(text) = text.strip_prefix(b"return") {
            (Exit::Return, text)
        } else if let Some(text) = text.strip_prefix(b"throw") {
            (Exit::Throw, text)
        } else {
            (Exit::Unfinished, text.strip_prefix(b"unfinished")?)
        };
        let text = text.strip_prefix(b",")?;
        let (allocated_bytes, text) = match text.first()? {
            b',' | b'\n' => (None, text),
            _ => number(text).map(|(bytes, text)| (Some(bytes), text))?,
        };
        let thread = ThreadId::new(u32::try_from(thread).ok()?);
        let stack = StackId::new(u32::try_from(stack).ok()?);
        let method = MethodId::new(u32::try_from(method).ok()?);
        Some((
            Self { start_ns, thread, stack, method, total_ns, self_ns, exit, allocated_bytes },
            text,
        ))
    }
}

impl PlainRow for StatsRow {
    #[inline]
    fn split_plain(text: &[u8]) -> Option<(Self, &[u8])> {
        let (start_ns, text) = column(text)?;
        let (method, text) = column(text)?;
        let (calls, text) = column(text)?;
        let (throws, text) = column(text)?;
        let (total_ns, text) = column(text)?;
        let (self_ns, text) = column(text)?;
        let (max_ns, mut text) = column(text)?;
        let mut hist = Histogram::default();
        while !matches!(text.first()?, b',' | b'\n') {
            let (bucket, rest) = number(text)?;
            let (count, rest) = number(rest.strip_prefix(b":")?)?;
            if !hist.add(u8::try_from(bucket).ok()?, count) {
                return None;
            }
            text = match rest.strip_prefix(b";") {
                // Nothing may follow the last column.
                Some(rest) if rest.first()?.is_ascii_digit() => rest,
                Some(_) => return None,
                None if matches!(rest.first()?, b',' | b'\n') => rest,
                None => return None,
            };
        }
        let method = MethodId::new(u32::try_from(method).ok()?);
        Some((Self { start_ns, method, calls, throws, total_ns, self_ns, max_ns, hist }, text))
    }
}

impl PlainRow for MethodRow {
    fn split_plain(text: &[u8]) -> Option<(Self, &[u8])> {
        let (id, text) = column(text)?;
        let (loader, text) = text_column(text)?;
        let (class, text) = text_column(text)?;
        let (method, text) = text_column(text)?;
        let (descriptor, text) = text_column(text)?;
        let (source, text) = text_column(text)?;
        let (line, text) = number(text)?;
        let (id, line) = (MethodId::new(u32::try_from(id).ok()?), u32::try_from(line).ok()?);
        Some((Self { id, loader, class, method, descriptor, source, line }, text))
    }
}

impl PlainRow for StackRow {
    #[inline]
    fn split_plain(text: &[u8]) -> Option<(Self, &[u8])> {
        let (id, text) = column(text)?;
        let (parent, text) = column(text)?;
        let (method, text) = number(text)?;
        let id = StackId::new(u32::try_from(id).ok()?);
        let parent = StackId::new(u32::try_from(parent).ok()?);
        Some((Self { id, parent, method: MethodId::new(u32::try_from(method).ok()?) }, text))
    }
}

/// Text of printable ASCII without quotes, up to the next comma or the end of the line.
fn text_of(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_end = |byte: &u8| !matches!(byte, b' '..=b'~') || matches!(byte, b',' | b'"');
    let (column, rest) = text.split_at_checked(text.iter().position(is_end)?)?;
    matches!(rest.first()?, b',' | b'\n').then_some((column, rest))
}

/// Like `text_of`, and also consumes the comma.
fn text_column(text: &[u8]) -> Option<(String, &[u8])> {
    let (column, rest) = text_of(text)?;
    Some((String::from_utf8(column.to_vec()).ok()?, rest.strip_prefix(b",")?))
}

/// A number and the comma after it.
#[inline(always)]
fn column(text: &[u8]) -> Option<(u64, &[u8])> {
    let (value, rest) = number(text)?;
    Some((value, rest.strip_prefix(b",")?))
}

const POWERS_OF_TEN: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// The number that `text` begins with, of 1 to 19 digits. Eight bytes must follow wherever a word of digits could
/// begin.
#[inline(always)]
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut value, mut text) = (0_u64, text);
    // 19 digits always fit: two words and three digits.
    for before in [0, 8, 16] {
        let digits = u64::from_le_bytes(*text.first_chunk()?) ^ 0x3030_3030_3030_3030;
        // Sets the highest bit of every byte over 9. A carry affects only bytes after the first such byte.
        let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
        if others == 0 {
            value = value.wrapping_mul(100_000_000).wrapping_add(of_eight(digits));
            text = text.get(8..)?;
            continue;
        }
        let count = others.trailing_zeros() / 8;
        if count == 0 {
            return (before > 0).then_some((value, text));
        }
        if before == 16 && count > 3 {
            return None;
        }
        let count = count as usize;
        // Moved to the end, so that zeros precede them.
        let last = of_eight(digits << (64 - 8 * count));
        value = value.wrapping_mul(*POWERS_OF_TEN.get(count)?).wrapping_add(last);
        return Some((value, text.get(count..)?));
    }
    None
}

/// The number of eight digits, the first in the lowest byte.
#[inline]
const fn of_eight(digits: u64) -> u64 {
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::TableReader;
    use crate::writer::{write_header, write_rows};

    const CALLS: &str = "start_ns,thread,stack,method,total_ns,self_ns,exit,allocated_bytes";
    const STATS: &str = "start_ns,method,calls,throws,total_ns,self_ns,max_ns,hist";

    fn lines<R: PlainRow>(header: &str) -> LineParser<R> {
        TableReader::new(format!("{header}\n").as_bytes()).unwrap().into_parts().0
    }

    /// If the short cut reads a line, the full parser reads the same row.
    fn agree<R: PlainRow + PartialEq + std::fmt::Debug>(header: &str, line: &[u8]) -> bool {
        agrees(&mut lines::<R>(header), line)
    }

    fn agrees<R: PlainRow + PartialEq + std::fmt::Debug>(
        slow: &mut LineParser<R>,
        line: &[u8],
    ) -> bool {
        let plain = PlainLines::of(slow);
        let text = [line, b"\n1,2,3,4,5,6,7,8\n"].concat();
        let Some((row, len)) = plain.next::<R>(&text) else { return false };
        assert_eq!(slow.parse(line), Ok(row), "{}", String::from_utf8_lossy(line));
        assert_eq!(len, line.len() + 1);
        true
    }

    #[test]
    fn numbers_of_every_length_are_read() {
        for digits in 1..=19 {
            for number_of in ["1234567890123456789", "9999999999999999999", "0000000000000000001"] {
                let text = format!("{}:,-------", &number_of[..digits]);
                let (value, rest) = number(text.as_bytes()).unwrap();
                assert_eq!(
                    (value, rest),
                    (number_of[..digits].parse().unwrap(), &b":,-------"[..])
                );
            }
        }
        for none in ["-1,-------", ",--------", "18446744073709551615,-------", "1,-----", ""] {
            assert_eq!(number(none.as_bytes()), None, "{none}");
        }
        // Every byte but a digit ends a number.
        for byte in (0..=u8::MAX).filter(|byte| !byte.is_ascii_digit()) {
            let text = [b'4', b'2', byte, b'7', 0xff, 0xff, 0xff, 0xff, 0xff];
            assert_eq!(number(&text), Some((42, &text[2..])));
        }
    }

    #[test]
    fn what_the_agent_writes_is_plain() {
        let call = |exit| CallRow {
            start_ns: 1_795_183_200_123_456_789,
            thread: ThreadId::new(u32::MAX),
            stack: StackId::new(123_456_789),
            method: MethodId::new(1),
            total_ns: 12_345_678,
            self_ns: 0,
            exit,
            allocated_bytes: None,
        };
        let mut rows = vec![call(Exit::Return), call(Exit::Throw), call(Exit::Unfinished)];
        let known = [0, 7, 12_345_678_901]
            .map(|bytes| CallRow { allocated_bytes: Some(bytes), ..call(Exit::Return) });
        rows.extend(known);
        let mut text = Vec::new();
        write_header::<CallRow>(&mut text);
        write_rows(&mut text, &rows).unwrap();
        let text = String::from_utf8(text).unwrap();
        for line in text.lines().skip(1) {
            assert!(agree::<CallRow>(CALLS, line.as_bytes()), "{line}");
        }
        let mut stats = StatsRow {
            start_ns: 1_795_183_200_000_000_000,
            method: MethodId::new(50_000),
            calls: 3,
            throws: 0,
            total_ns: 77,
            self_ns: 12_345_678_901,
            max_ns: 5,
            hist: Histogram::default(),
        };
        for _ in 0..2 {
            let mut text = Vec::new();
            write_header::<StatsRow>(&mut text);
            write_rows(&mut text, std::slice::from_ref(&stats)).unwrap();
            let text = String::from_utf8(text).unwrap();
            let (header, line) = text.split_once('\n').unwrap();
            assert!(agree::<StatsRow>(header, line.trim_end().as_bytes()), "{line}");
            stats.hist.add(0, 1_000_000);
            stats.hist.add(116, 2);
        }
    }

    #[test]
    fn all_else_is_left_to_the_other_reader() {
        for line in [
            "\"1\",1,1,1,5,5,return,",
            "+1,1,1,1,5,5,return,",
            "0x1,1,1,1,5,5,return,",
            "1,1,1,1,5,5,return,\r",
            "1,1,1,1,5,5,return",
            "1,1,1,1,5,5,return,-1",
            "1,1,1,1,5,5,return,1.5",
            "1,1,1,1,5,5,return,\"7\"",
            "1,1,1,1,5,5,return,7,",
            "1,1,1,1,5,5,returned,",
            "1,4294967296,1,1,5,5,return,",
            "18446744073709551615,1,1,1,5,5,return,",
            "1,1,1,1,5,return,",
            "",
        ] {
            assert!(!agree::<CallRow>(CALLS, line.as_bytes()), "{line}");
        }
        let more = format!("{CALLS},weather,wind");
        assert!(agree::<CallRow>(
            &more,
            b"1,1,1,1,5,5,unfinished,,rainy,,".strip_suffix(b",").unwrap()
        ));
        for line in [
            "1,1,1,1,5,5,unfinished,,\"rainy\",",
            "1,1,1,1,5,5,unfinished,,ra\tiny,",
            "1,1,1,1,5,5,unfinished,,",
        ] {
            assert!(!agree::<CallRow>(&more, line.as_bytes()), "{line}");
        }
        assert!(agree::<StackRow>("id,parent,method", b"200000,0,4294967295"));
        for line in ["1,2,4294967296", "1,2,3\r", "1,2,", "1,2,3,4", "1,\"2\",3"] {
            assert!(!agree::<StackRow>("id,parent,method", line.as_bytes()), "{line}");
        }
        let methods = "id,loader,class,method,descriptor,source,line";
        assert!(agree::<MethodRow>(methods, b"7,app,com.shop.Order,<init>,(I[J)V,Order.java,12"));
        assert!(agree::<MethodRow>(methods, b"7,,,,,,0"));
        for line in [
            "7,app,\"a,b\",m,()V,,0",
            "7,app,Gr\u{f6}\u{df}e,m,()V,,0",
            "7,app,a,m,()V,,-1",
            "7,app,a\t,m,()V,,1",
            "7,app,a,m,()V,,1,",
            "7,app,a,m,()V,1",
        ] {
            assert!(!agree::<MethodRow>(methods, line.as_bytes()), "{line}");
        }
        let other = "thread,start_ns,stack,method,total_ns,self_ns,exit,allocated_bytes";
        assert!(!agree::<CallRow>(other, b"1,1,1,1,5,5,return,"));
        assert!(agree::<StatsRow>(STATS, b"1,1,1,1,5,5,5,3:1;2:0;3:4"));
        for hist in ["3", "3:", "3:1;", ";", ":1", "117:1", "300:1", "3:1,", "3:1x", "3:1;;4:1"] {
            let line = format!("1,1,1,1,5,5,5,{hist}");
            assert!(!agree::<StatsRow>(STATS, line.as_bytes()), "{hist}");
        }
    }

    #[test]
    fn bytes_of_every_kind_are_rows_for_both_or_for_none() {
        let mut random = 7_u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % below
        };
        let mut calls = lines::<CallRow>(CALLS);
        let mut stats = lines::<StatsRow>(STATS);
        let mut plain = 0;
        for _ in 0..50_000 {
            let mut line = b"1795183200123456789,12,345,6789,1234567,0,return,4096".to_vec();
            for _ in 0..next(3) {
                let (at, byte) = (next(line.len()), b"0123456789,\r\"+x \xff\0ope"[next(21)]);
                match next(3) {
                    0 => line[at] = byte,
                    1 => line.insert(at, byte),
                    _ => drop(line.remove(at)),
                }
            }
            plain += usize::from(agrees(&mut calls, &line));
            line.truncate(next(line.len()));
            line.extend_from_slice(b"5,1:2;3:4");
            agrees(&mut stats, &line);
        }
        assert!(plain > 20_000, "{plain}");
    }
}
