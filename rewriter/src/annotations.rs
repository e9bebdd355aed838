//! The annotations of a class or method (JVMS 4.7.16, 4.7.17), read in place and only on request.
//!
//! The JVM itself does not check these attributes. Anything unreadable ends the annotations of its attribute. This is
//! not an error, and the class is rewritten all the same.

use crate::constant_pool::{ConstantPool, CpIndex};
use crate::mutf8::Mutf8;
use crate::reader::Cursor;

/// The attribute with annotations that the JVM sees.
pub(crate) const ANNOTATIONS: &str = "RuntimeVisibleAnnotations";
const ATTRIBUTES: [&str; 2] = [ANNOTATIONS, "RuntimeInvisibleAnnotations"];

/// Deepest nesting of values: more than any compiler writes.
const MAX_NESTING: u32 = 32;

/// The attributes of a class or a method, from which annotations can be read.
#[derive(Clone, Copy)]
pub(crate) struct Annotated<'a> {
    pool: &'a ConstantPool<'a, 'a>,
    attributes: Attributes<'a>,
}

/// Attributes that have not been read yet, beginning with their count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    bytes: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// The attributes that begin at `cursor`.
    pub(crate) fn at(cursor: &Cursor<'a>) -> Self {
        Self { bytes: cursor.rest() }
    }
}

impl<'a> Annotated<'a> {
    pub(crate) fn new(pool: &'a ConstantPool<'a, 'a>, attributes: Attributes<'a>) -> Self {
        Self { pool, attributes }
    }

    /// The contents of the first attribute with this name.
    pub(crate) fn attribute(self, name: &str) -> Option<Cursor<'a>> {
        let mut attributes = Cursor::new(self.attributes.bytes, 0);
        for _ in 0..attributes.u2().ok()? {
            let found = self.pool.utf8(CpIndex(attributes.u2().ok()?)).ok()?;
            let contents = attributes.attribute().ok()?;
            if found == *name {
                return Some(contents);
            }
        }
        None
    }

    /// How many attributes there are.
    pub(crate) fn count(self) -> Option<u16> {
        Cursor::new(self.attributes.bytes, 0).u2().ok()
    }

    pub(crate) fn annotations(self) -> Annotations<'a> {
        let mut attributes = Cursor::new(self.attributes.bytes, 0);
        let left = attributes.u2().unwrap_or(0);
        Annotations { pool: self.pool, attributes, left, current: None }
    }
}

impl std::fmt::Debug for Annotated<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.annotations()).finish()
    }
}

/// The types of annotations, as descriptors: `Lcom/shop/Timed;`.
pub struct Annotations<'a> {
    pool: &'a ConstantPool<'a, 'a>,
    attributes: Cursor<'a>,
    /// How many attributes have not been read yet.
    left: u16,
    /// The rest of an attribute with annotations, and how many are left in it.
    current: Option<(Cursor<'a>, u16)>,
}

impl<'a> Iterator for Annotations<'a> {
    type Item = Mutf8<'a>;

    fn next(&mut self) -> Option<Mutf8<'a>> {
        loop {
            if let Some((cursor, count)) = self.current.as_mut().filter(|(_, count)| *count > 0) {
                *count -= 1;
                let annotation = read_annotation(cursor, self.pool, MAX_NESTING);
                if annotation.is_some() {
                    return annotation;
                }
            }
            self.current = None;
            self.left = self.left.checked_sub(1)?;
            self.current = self.next_attribute()?;
        }
    }
}

impl<'a> Annotations<'a> {
    /// The next attribute, if it has annotations; `None` at the end.
    fn next_attribute(&mut self) -> Option<Option<(Cursor<'a>, u16)>> {
        let name = self.pool.utf8(CpIndex(self.attributes.u2().ok()?)).ok()?;
        let mut contents = self.attributes.attribute().ok()?;
        if !ATTRIBUTES.iter().any(|known| name == **known) {
            return Some(None);
        }
        let count = contents.u2().unwrap_or(0);
        Some(Some((contents, count)))
    }
}

impl std::fmt::Debug for Annotations<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Annotations").field("left", &self.left).finish_non_exhaustive()
    }
}

/// Skips an annotation and returns its type.
fn read_annotation<'a>(
    cursor: &mut Cursor<'a>,
    pool: &ConstantPool<'a, '_>,
    nesting: u32,
) -> Option<Mutf8<'a>> {
    let name = pool.utf8(CpIndex(cursor.u2().ok()?)).ok()?;
    for _ in 0..cursor.u2().ok()? {
        let _element_name = cursor.u2().ok()?;
        skip_value(cursor, pool, nesting)?;
    }
    Some(name)
}

fn skip_value<'a>(
    cursor: &mut Cursor<'a>,
    pool: &ConstantPool<'a, '_>,
    nesting: u32,
) -> Option<()> {
    let nesting = nesting.checked_sub(1)?;
    match cursor.u1().ok()? {
        b'B' | b'C' | b'D' | b'F' | b'I' | b'J' | b'S' | b'Z' | b's' | b'c' => {
            cursor.bytes(2).ok()?;
        }
        b'e' => {
            cursor.bytes(4).ok()?;
        }
        b'@' => {
            read_annotation(cursor, pool, nesting)?;
        }
        b'[' => {
            for _ in 0..cursor.u2().ok()? {
                skip_value(cursor, pool, nesting)?;
            }
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf8(text: &str) -> Vec<u8> {
        let length = u16::try_from(text.len()).unwrap().to_be_bytes();
        [&[1], &length[..], text.as_bytes()].concat()
    }

    /// The annotations in these attributes, for a class whose pool has the attribute's name, `LA;`, `LB;` and `v`.
    /// `LB;` and `v`.
    fn annotations(attributes: &[u8]) -> Vec<String> {
        let names = ["RuntimeInvisibleAnnotations", "LA;", "LB;", "v"].map(utf8).concat();
        let class = [&[0, 5], &names[..]].concat();
        let mut offsets = Vec::new();
        let pool = ConstantPool::read(&class, &mut Cursor::new(&class, 0), &mut offsets).unwrap();
        let attributes = Attributes::at(&Cursor::new(attributes, 0));
        Annotated::new(&pool, attributes).annotations().map(|a| a.to_string()).collect()
    }

    fn attribute(contents: &[u8]) -> Vec<u8> {
        let length = u32::try_from(contents.len()).unwrap().to_be_bytes();
        [&[0, 1], &length[..], contents].concat()
    }

    /// `@A(v = {"v", @B, 5, E.v}) @B`, and the same attribute again with `@B` alone.
    fn sample() -> Vec<u8> {
        let values = [&b"s\0\x04"[..], b"@\0\x03\0\0", b"I\0\x04", b"e\0\x04\0\x04"].concat();
        let first = [b"\0\x02\0\x02\0\x01\0\x04[\0\x04", &values[..], b"\0\x03\0\0"].concat();
        let other = [0, 4, 0, 0, 0, 2, 9, 9];
        [&[0, 3][..], &attribute(&first), &other, &attribute(b"\0\x01\0\x03\0\0")].concat()
    }

    #[test]
    fn annotations_are_read_over_values_of_every_kind() {
        assert_eq!(annotations(&sample()), ["LA;", "LB;", "LB;"]);
        assert!(annotations(&[0, 0]).is_empty() && annotations(&[]).is_empty());
    }

    #[test]
    fn what_cannot_be_read_ends_them() {
        let sample = sample();
        for length in 0..sample.len() {
            assert!(annotations(&sample[..length]).len() <= 3);
        }
        for at in 0..sample.len() {
            for byte in [0, 1, 2, 0x40, 0x5b, 0x7f, 0xff] {
                let mut changed = sample.clone();
                changed[at] = byte;
                annotations(&changed);
            }
        }
        // Lists in lists, deeper than any stack allows.
        let deep = [&b"\0\x01\0\x02\0\x01\0\x04"[..], &b"[\0\x01".repeat(100_000)].concat();
        assert!(annotations(&[&[0, 1][..], &attribute(&deep)].concat()).is_empty());
    }
}
