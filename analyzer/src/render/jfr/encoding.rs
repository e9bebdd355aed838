//! How a recording encodes numbers, texts and events.

/// A number: seven bits a byte, the low ones first, the highest bit says that more follow. The ninth byte is whole.
pub fn number(out: &mut Vec<u8>, mut value: u64) {
    for _ in 0..8 {
        let [low, ..] = value.to_le_bytes();
        if value < 0x80 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
        value >>= 7;
    }
    let [low, ..] = value.to_le_bytes();
    out.push(low);
}

/// A number of things.
pub fn count(out: &mut Vec<u8>, count: usize) {
    number(out, u64::try_from(count).unwrap_or(u64::MAX));
}

/// A text. 0 is none, 1 is empty, 3 is UTF-8.
pub fn text(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        None => out.push(0),
        Some("") => out.push(1),
        Some(text) => {
            out.push(3);
            count(out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// An event: its length, its type, and what `fields` writes.
pub fn event(out: &mut Vec<u8>, type_id: u64, fields: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::new();
    number(&mut body, type_id);
    fields(&mut body);
    // The length counts itself.
    let bytes = (1..5).find(|bytes| body.len() + bytes < 1 << (7 * bytes)).unwrap_or(5);
    count(out, body.len() + bytes);
    out.append(&mut body);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        number(&mut out, value);
        out
    }

    #[test]
    fn numbers_take_one_to_nine_bytes() {
        assert_eq!(encoded(0), [0]);
        assert_eq!(encoded(127), [127]);
        assert_eq!(encoded(128), [0x80, 1]);
        assert_eq!(encoded(u64::from(u32::MAX)), [0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(encoded(u64::MAX), [0xff; 9]);
        assert_eq!(encoded(1 << 56), [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1]);
    }

    #[test]
    fn the_length_of_an_event_counts_itself() {
        for (fields, length) in [(0, vec![2]), (125, vec![127]), (126, vec![0x81, 1])] {
            let mut out = Vec::new();
            event(&mut out, 7, |body| body.extend(vec![9; fields]));
            assert_eq!(out[..length.len()], length, "{fields}");
            assert_eq!(out[length.len()], 7);
            let said = length.iter().rev().fold(0, |sum, byte| sum << 7 | usize::from(byte & 127));
            assert_eq!(out.len(), said);
        }
    }

    #[test]
    fn a_text_may_be_absent_or_empty() {
        let mut out = Vec::new();
        [None, Some(""), Some("é")].into_iter().for_each(|of| text(&mut out, of));
        assert_eq!(out, [0, 1, 3, 2, 0xc3, 0xa9]);
    }
}
