//! Encodes rows as CSV lines.
//!
//! A row is always one line: control characters and the like in names become escapes like `\u000a`, so that a file can
//! be cut, searched and read line by line.

use std::fmt::Write as _;

use crate::rows::Row;

/// Appends the header line of a table.
pub fn write_header<R: Row>(out: &mut Vec<u8>) {
    out.extend_from_slice(R::COLUMNS.join(",").as_bytes());
    out.push(b'\n');
}

/// Appends rows, a line each. Bytes already in `out` stay.
///
/// # Errors
/// A row has fields that are not plain values; no row type of this crate does.
pub fn write_rows<R: Row>(out: &mut Vec<u8>, rows: &[R]) -> Result<(), csv::Error> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    for row in rows {
        writer.serialize(row)?;
    }
    writer.flush()?;
    Ok(())
}

/// Whether a character may change more of a line than its own place: control characters, separators of lines, and marks
/// that turn the direction of text.
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    let turns = ['\u{61c}', '\u{200e}', '\u{200f}'];
    c.is_control()
        || turns.contains(&c)
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name, escaped to fit on one line.
#[must_use]
pub fn one_line(name: &str) -> String {
    if !name.chars().any(is_unprintable) {
        return name.to_owned();
    }
    let mut text = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        if is_unprintable(c) {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use crate::ids::{MethodId, StackId, ThreadId};
    use crate::rows::{CallRow, Exit, MethodRow, StatsRow};

    #[test]
    fn what_would_spoil_a_line_is_escaped() {
        let name = "a\nb\u{1b}[31m\u{202e}c\u{2028}d\u{e9}";
        assert_eq!(one_line(name), "a\\u000ab\\u001b[31m\\u202ec\\u2028d\u{e9}");
    }

    fn lines<R: Row>(rows: &[R]) -> String {
        let mut out = Vec::new();
        write_header::<R>(&mut out);
        write_rows(&mut out, rows).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_are_the_lines_that_the_format_promises() {
        let call = CallRow {
            start_ns: 1_795_186_458_000_000_001,
            thread: ThreadId::new(1),
            stack: StackId::new(2),
            method: MethodId::new(3),
            total_ns: 4,
            self_ns: 0,
            exit: Exit::Throw,
            allocated_bytes: None,
        };
        assert_eq!(
            lines(&[call]),
            "start_ns,thread,stack,method,total_ns,self_ns,exit,allocated_bytes\n\
             1795186458000000001,1,2,3,4,0,throw,\n"
        );
        let mut hist = Histogram::default();
        hist.add(0, 2);
        hist.add(28, 1);
        let stats = StatsRow {
            start_ns: 1,
            method: MethodId::new(2),
            calls: 3,
            throws: 0,
            total_ns: 4,
            self_ns: 5,
            max_ns: 6,
            hist,
        };
        assert_eq!(
            lines(&[stats]),
            "start_ns,method,calls,throws,total_ns,self_ns,max_ns,hist\n1,2,3,0,4,5,6,0:2;28:1\n"
        );
    }

    #[test]
    fn names_with_commas_and_quotes_are_quoted_and_fit_on_a_line() {
        let method = MethodRow {
            id: MethodId::new(1),
            loader: "app".into(),
            class: one_line("a\"b,c\nd"),
            method: "m".into(),
            descriptor: "()V".into(),
            source: String::new(),
            line: 0,
        };
        assert_eq!(
            lines(&[method]),
            "id,loader,class,method,descriptor,source,line\n1,app,\"a\"\"b,c\\u000ad\",m,()V,,0\n"
        );
    }
}
