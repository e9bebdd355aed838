//! Java's `.properties` format, with `${name}` variables like TProfiler's configuration.

/// A key and its value, as in `key = value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub key: String,
    pub value: String,
    /// Number of its first line, from 1.
    pub line: usize,
}

/// The entries of a file. Like Java's reader, it accepts any input; if a key repeats, the last value counts.
pub(super) fn read(bytes: &[u8]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let text = decode(bytes);
    for (line, logical) in logical_lines(&text) {
        let (key, value) = split(&logical);
        entries.retain(|entry| entry.key != key);
        entries.push(Entry { key, value, line });
    }
    entries
}

/// Decodes UTF-8, or else ISO-8859-1, in which any bytes are valid.
fn decode(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|b| char::from(*b)).collect(),
    }
}

/// White space as the format defines it.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// Lines without comments and empty ones, continuation lines (after a backslash) joined; each with the number of its
/// first line.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut open: Option<(usize, String)> = None;
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    for (index, natural) in text.split('\n').enumerate() {
        let natural = natural.trim_start_matches(is_blank);
        if open.is_none() && (natural.is_empty() || natural.starts_with(['#', '!'])) {
            continue;
        }
        let (number, mut logical) = open.take().unwrap_or((index + 1, String::new()));
        let backslashes = natural.bytes().rev().take_while(|b| *b == b'\\').count();
        if backslashes % 2 == 1 {
            logical.push_str(natural.strip_suffix('\\').unwrap_or(natural));
            open = Some((number, logical));
        } else {
            logical.push_str(natural);
            lines.push((number, logical));
        }
    }
    lines.extend(open);
    lines.retain(|(_, line)| !line.is_empty());
    lines
}

/// Splits key and value at white space, or at one `=` or `:` with white space around it.
fn split(line: &str) -> (String, String) {
    let mut is_escaped = false;
    let end = line.find(|c: char| {
        let ends = !is_escaped && (matches!(c, '=' | ':') || is_blank(c));
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(is_blank);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(is_blank);
    (unescape(key), unescape(rest))
}

fn unescape(text: &str) -> String {
    // In UTF-16, because a character may be two escapes.
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let c = match c {
            '\\' => match rest.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some('u') => {
                    let digits = rest
                        .as_str()
                        .get(..4)
                        .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
                    let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
                    if let Some(unit) = unit {
                        units.push(unit);
                        rest.nth(3);
                        continue;
                    }
                    // Java refuses such a file; here it is just the letter.
                    'u'
                }
                Some(other) => other,
                None => continue,
            },
            c => c,
        };
        units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    }
    String::from_utf16_lossy(&units)
}

/// How deep variables may refer to each other. This also ends a variable that refers to itself.
const MAX_DEPTH: u32 = 16;

/// Expands variables. One that `lookup` does not know stays unchanged, and its name is added to `unknown`.
pub(super) fn expand(
    value: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    unknown: &mut Vec<String>,
) -> String {
    expand_to(value, lookup, unknown, MAX_DEPTH)
}

fn expand_to(
    value: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    unknown: &mut Vec<String>,
    depth: u32,
) -> String {
    let mut expanded = String::new();
    let mut rest = value;
    while let Some((before, behind)) = rest.split_once("${") {
        let Some((name, after)) = behind.split_once('}') else { break };
        expanded.push_str(before);
        // A value this long refers to itself several times.
        let value = lookup(name).filter(|_| depth > 0 && expanded.len() < 1 << 16);
        match value {
            Some(value) => expanded.push_str(&expand_to(&value, lookup, unknown, depth - 1)),
            None => {
                if !unknown.iter().any(|known| known == name) {
                    unknown.push(name.to_owned());
                }
                expanded.push_str(&format!("${{{name}}}"));
            }
        }
        rest = after;
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &[u8]) -> Vec<(usize, String, String)> {
        read(text).into_iter().map(|e| (e.line, e.key, e.value)).collect()
    }

    fn entry(text: &[u8]) -> (String, String) {
        let mut entries = read(text);
        assert_eq!(entries.len(), 1, "{entries:?}");
        let Entry { key, value, .. } = entries.remove(0);
        (key, value)
    }

    #[test]
    fn keys_are_distinguished_from_values_as_java_does() {
        // Each as java.util.Properties reads it.
        for (text, key, value) in [
            ("a=b", "a", "b"),
            ("a = b ", "a", "b "),
            ("a: b", "a", "b"),
            ("a b c", "a", "b c"),
            ("  a\t=\u{c} b", "a", "b"),
            ("a==b", "a", "=b"),
            ("a = = b", "a", "= b"),
            ("a\\ b\\:c\\=d=e", "a b:c=d", "e"),
            ("a", "a", ""),
            ("=b", "", "b"),
            ("a=\\u00e9\\ud83d\\ude00", "a", "\u{e9}\u{1f600}"),
            ("a=x\\ty\\\\z\\q", "a", "x\ty\\zq"),
            ("a=one\\\n   two\\\r\n\tthree", "a", "onetwothree"),
            ("a=one\\\\\n", "a", "one\\"),
            ("a=one\\", "a", "one"),
            ("# x\n ! y\n\n \t\na=b", "a", "b"),
            ("a=one\\\n# two", "a", "one# two"),
            ("a=1\na=2", "a", "2"),
            ("\u{feff}a=größe", "a", "größe"),
        ] {
            assert_eq!(entry(text.as_bytes()), (key.to_owned(), value.to_owned()), "{text:?}");
        }
        assert_eq!(entry(b"a=gr\xf6\xdfe").1, "größe");
        assert_eq!(entry(b"a=\\u12").1, "u12");
        assert_eq!(entries(b""), []);
        assert_eq!(entries(b"\\"), []);
    }

    #[test]
    fn entries_know_their_line() {
        let found = entries(b"# c\na=1\\\n  2\n\nb=3\r\nc=4");
        let found: Vec<_> = found.iter().map(|(n, k, v)| (*n, &**k, &**v)).collect();
        assert_eq!(found, [(2, "a", "12"), (5, "b", "3"), (6, "c", "4")]);
    }

    #[test]
    fn any_bytes_are_some_entries() {
        let mut state = 1_u32;
        for _ in 0..2_000 {
            let bytes: Vec<u8> = (0..40)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let symbols = b"ab=: \\\n\r\tu0f#!${}\xe9";
                    symbols[(state >> 16) as usize % symbols.len()]
                })
                .collect();
            for (line, ..) in entries(&bytes) {
                assert!(line > 0);
            }
        }
    }

    #[test]
    fn variables_are_replaced_and_unknown_ones_stay() {
        let lookup = |name: &str| {
            let value = match name {
                "home" => "/home/shop",
                "logs" => "${home}/logs",
                "self" => "x${self}",
                "many" => "${many}${many}",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let mut unknown = Vec::new();
        let mut expand = |value: &str| expand(value, &lookup, &mut unknown);
        assert_eq!(expand("${logs}/t.log"), "/home/shop/logs/t.log");
        assert_eq!(expand("${home}${home}"), "/home/shop/home/shop");
        assert_eq!(expand("a ${none} ${none} b"), "a ${none} ${none} b");
        assert_eq!(expand("${open $ {x}"), "${open $ {x}");
        assert!(expand("${self}").starts_with("xxx"));
        assert!(expand("${many}").contains("${many}"));
        assert_eq!(unknown, ["none", "open $ {x", "self", "many"]);
    }
}
