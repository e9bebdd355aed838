//! Text as the JVM encodes it.

/// The beginning of a text in modified UTF-8: at most `most` bytes, without half a character at its end.
pub(crate) fn cut(text: &[u8], most: usize) -> &[u8] {
    let continues = |end: usize| text.get(end).is_some_and(|byte| byte & 0xc0 == 0x80);
    let end = (0..=most.min(text.len())).rev().find(|end| !continues(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}
