//! Modified UTF-8, the encoding of all names in a class file (JVMS 4.4.7).

use std::borrow::Cow;
use std::fmt;

/// Text in the encoding of the class file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mutf8<'a>(pub &'a [u8]);

impl<'a> Mutf8<'a> {
    /// The text. Borrowed if it is plain UTF-8, as nearly all names are; invalid characters become U+FFFD.
    #[must_use]
    pub fn to_str(self) -> Cow<'a, str> {
        match std::str::from_utf8(self.0) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(self.decode()),
        }
    }

    fn decode(self) -> String {
        let mut units = Vec::with_capacity(self.0.len());
        let mut bytes = self.0;
        while let Some((unit, rest)) = utf16_unit(bytes) {
            units.push(unit);
            bytes = rest;
        }
        String::from_utf16_lossy(&units)
    }
}

/// The next UTF-16 unit and the bytes after it. A byte that begins no unit becomes U+FFFD.
fn utf16_unit(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let low = |b: u8| u16::from(b & 0x3f);
    let continues = |b: &u8| b & 0xc0 == 0x80;
    Some(match bytes {
        [] => return None,
        [a, rest @ ..] if *a < 0x80 => (u16::from(*a), rest),
        [a, b, rest @ ..] if a & 0xe0 == 0xc0 && continues(b) => {
            (u16::from(a & 0x1f) << 6 | low(*b), rest)
        }
        [a, b, c, rest @ ..] if a & 0xf0 == 0xe0 && continues(b) && continues(c) => {
            (u16::from(a & 0x0f) << 12 | low(*b) << 6 | low(*c), rest)
        }
        [_, rest @ ..] => (0xfffd, rest),
    })
}

impl PartialEq<str> for Mutf8<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Display for Mutf8<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_str())
    }
}

impl fmt::Debug for Mutf8<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_ascii_are_read() {
        // From `javac`: a NUL is two bytes, a character outside the BMP two surrogates of three bytes.
        for (bytes, text) in [
            (&b"Order"[..], "Order"),
            ("Größe".as_bytes(), "Größe"),
            (b"a\xc0\x80b", "a\0b"),
            (b"\xed\xa0\xbd\xed\xb8\x80", "\u{1f600}"),
            (b"\xed\xa0\xbdx", "\u{fffd}x"),
            (b"a\xffb\xe3", "a\u{fffd}b\u{fffd}"),
        ] {
            assert_eq!(Mutf8(bytes).to_str(), text);
        }
    }
}
