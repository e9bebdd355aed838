//! The constant pool: scanned in place, read by index, appended to.

use crate::error::{Error, ErrorKind};
use crate::mutf8::Mutf8;
use crate::probe;
use crate::reader::{Cursor, Result};

/// An index into the constant pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CpIndex(pub u16);

const UTF8: u8 = 1;
const INTEGER: u8 = 3;
const FLOAT: u8 = 4;
const LONG: u8 = 5;
const DOUBLE: u8 = 6;
const CLASS: u8 = 7;
const STRING: u8 = 8;
const FIELDREF: u8 = 9;
const METHODREF: u8 = 10;
const INTERFACE_METHODREF: u8 = 11;
const NAME_AND_TYPE: u8 = 12;
const METHOD_HANDLE: u8 = 15;
const METHOD_TYPE: u8 = 16;
const DYNAMIC: u8 = 17;
const INVOKE_DYNAMIC: u8 = 18;
const MODULE: u8 = 19;
const PACKAGE: u8 = 20;

/// The constant pool of a class that is being read.
#[derive(Debug)]
pub(crate) struct ConstantPool<'a, 's> {
    /// The class file up to the end of the pool.
    bytes: &'a [u8],
    /// The position of each constant's tag; 0 for index 0 and for the second half of a long or double.
    offsets: &'s [u32],
    /// The first Utf8 constant `StackMapTable`.
    pub stack_map_table: Option<CpIndex>,
    /// Whether it names the probe class: then the class may have probes. The JVM's bytes of a class that once had
    /// probes still have these constants after a retransformation.
    pub names_probes: bool,
}

pub(crate) const STACK_MAP_TABLE: &str = "StackMapTable";

impl<'a, 's> ConstantPool<'a, 's> {
    /// Reads the pool that begins with its count at `cursor`. `class` is the whole class file,
    /// `offsets` a buffer.
    pub(crate) fn read(
        class: &'a [u8],
        cursor: &mut Cursor<'a>,
        offsets: &'s mut Vec<u32>,
    ) -> Result<Self> {
        offsets.clear();
        let count = usize::from(cursor.u2()?);
        offsets.reserve(count);
        offsets.push(0);
        let mut stack_map_table = None;
        let mut names_probes = false;
        let mut rest = cursor.rest();
        let mut offset = cursor.offset();
        while offsets.len() < count {
            let Some((tag, length)) = tag_and_length(rest) else {
                return Err(error_of_constant(rest, offset));
            };
            let Some((constant, after)) = rest.split_at_checked(length) else {
                return Err(error_of_constant(rest, offset));
            };
            if tag == UTF8 {
                let text = constant.get(3..).unwrap_or_default();
                if text == STACK_MAP_TABLE.as_bytes() && stack_map_table.is_none() {
                    stack_map_table = u16::try_from(offsets.len()).ok().map(CpIndex);
                }
                names_probes |= [probe::CLASS, probe::STATEMENT_CLASS]
                    .iter()
                    .any(|class| text == class.as_bytes());
            }
            // A class file of over 4 GiB does not exist: the JVM's interface takes an int.
            offsets.push(u32::try_from(offset).unwrap_or(u32::MAX));
            if matches!(tag, LONG | DOUBLE) {
                offsets.push(0);
            }
            rest = after;
            offset += length;
        }
        *cursor = Cursor::new(rest, offset);
        let bytes = class.get(..cursor.offset()).unwrap_or(class);
        Ok(Self { bytes, offsets, stack_map_table, names_probes })
    }

    /// Number of entries, index 0 included.
    pub(crate) fn count(&self) -> usize {
        self.offsets.len()
    }

    /// A cursor over the contents of a constant with one of `tags`.
    fn entry(&self, index: CpIndex, tags: &[u8]) -> Result<Cursor<'a>> {
        let offset = match self.offsets.get(usize::from(index.0)) {
            Some(offset) if *offset != 0 => *offset as usize,
            _ => return Cursor::new(&[], 0).error(ErrorKind::BadConstantIndex),
        };
        let mut cursor = Cursor::new(self.bytes.get(offset..).unwrap_or_default(), offset);
        if !tags.contains(&cursor.u1()?) {
            return Cursor::new(&[], offset).error(ErrorKind::BadConstantIndex);
        }
        Ok(cursor)
    }

    pub(crate) fn utf8(&self, index: CpIndex) -> Result<Mutf8<'a>> {
        let mut cursor = self.entry(index, &[UTF8])?;
        let length = usize::from(cursor.u2()?);
        Ok(Mutf8(cursor.bytes(length)?))
    }

    /// Whether a method computes the constant at its first use.
    pub(crate) fn is_dynamic(&self, index: CpIndex) -> bool {
        self.entry(index, &[DYNAMIC]).is_ok()
    }

    pub(crate) fn class_name(&self, index: CpIndex) -> Result<Mutf8<'a>> {
        let name = self.entry(index, &[CLASS])?.u2()?;
        self.utf8(CpIndex(name))
    }

    /// The class of the method that an `invokespecial` names.
    pub(crate) fn member_class(&self, index: CpIndex) -> Result<Mutf8<'a>> {
        let class = self.entry(index, &[METHODREF, INTERFACE_METHODREF])?.u2()?;
        self.class_name(CpIndex(class))
    }

    /// Name and descriptor of the member that a field or invoke instruction names.
    pub(crate) fn member(&self, index: CpIndex) -> Result<(Mutf8<'a>, Mutf8<'a>)> {
        const MEMBERS: &[u8] = &[FIELDREF, METHODREF, INTERFACE_METHODREF, DYNAMIC, INVOKE_DYNAMIC];
        let mut cursor = self.entry(index, MEMBERS)?;
        let _class_or_bootstrap_method = cursor.u2()?;
        let mut name_and_type = self.entry(CpIndex(cursor.u2()?), &[NAME_AND_TYPE])?;
        let name = self.utf8(CpIndex(name_and_type.u2()?))?;
        let descriptor = self.utf8(CpIndex(name_and_type.u2()?))?;
        Ok((name, descriptor))
    }
}

/// By tag: the length of a constant in bytes, its tag included. 0 for Utf8 and for tags that do not exist.
const LENGTHS: [u8; 21] = {
    let mut lengths = [0; 21];
    let of = [
        (INTEGER, 5),
        (FLOAT, 5),
        (LONG, 9),
        (DOUBLE, 9),
        (CLASS, 3),
        (STRING, 3),
        (FIELDREF, 5),
        (METHODREF, 5),
        (INTERFACE_METHODREF, 5),
        (NAME_AND_TYPE, 5),
        (METHOD_HANDLE, 4),
        (METHOD_TYPE, 3),
        (DYNAMIC, 5),
        (INVOKE_DYNAMIC, 5),
        (MODULE, 3),
        (PACKAGE, 3),
    ];
    let mut i = 0;
    while i < of.len() {
        // The compiler checks this index.
        #[allow(clippy::indexing_slicing)]
        let (tag, length) = of[i];
        #[allow(clippy::indexing_slicing)]
        {
            lengths[tag as usize] = length;
        }
        i += 1;
    }
    lengths
};

/// The tag of the next constant, and its length in bytes. `None` if there is none.
#[inline]
fn tag_and_length(rest: &[u8]) -> Option<(u8, usize)> {
    // No constant is shorter than three bytes.
    let [tag, a, b] = *rest.first_chunk::<3>()?;
    if tag == UTF8 {
        return Some((tag, 3 + usize::from(u16::from_be_bytes([a, b]))));
    }
    let length = LENGTHS.get(usize::from(tag)).copied().filter(|length| *length > 0)?;
    Some((tag, usize::from(length)))
}

/// The error for a constant that cannot be read.
#[cold]
fn error_of_constant(rest: &[u8], offset: usize) -> Error {
    let tag = rest.first().copied().unwrap_or(UTF8);
    let is_known = tag == UTF8 || LENGTHS.get(usize::from(tag)).is_some_and(|length| *length > 0);
    let kind = if is_known { ErrorKind::Truncated } else { ErrorKind::UnknownConstant };
    Error::new(kind, offset)
}

/// Constants to append to a pool. They are never removed: an unneeded one does no harm.
#[derive(Debug, Default)]
pub(crate) struct Appended {
    pub bytes: Vec<u8>,
    /// Index of the next constant.
    next: u32,
}

/// The pool is full: it holds 65,534 constants at most.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PoolFull;

impl Appended {
    /// Starts after a pool of `count` entries.
    pub(crate) fn start(&mut self, count: usize) {
        self.bytes.clear();
        self.next = u32::try_from(count).unwrap_or(u32::MAX);
    }

    /// The count of the whole pool.
    pub(crate) fn count(&self) -> u16 {
        // `add` keeps it in range.
        u16::try_from(self.next).unwrap_or(u16::MAX)
    }

    fn add(&mut self, tag: u8, parts: &[&[u8]]) -> std::result::Result<CpIndex, PoolFull> {
        // The count, one above the last index, must fit into 16 bits too.
        let index = u16::try_from(self.next).ok().filter(|i| *i < u16::MAX).ok_or(PoolFull)?;
        self.bytes.push(tag);
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.next += 1;
        Ok(CpIndex(index))
    }

    /// Appends a Utf8 constant; `text` is ASCII and short.
    pub(crate) fn utf8(&mut self, text: &str) -> std::result::Result<CpIndex, PoolFull> {
        let length = u16::try_from(text.len()).map_err(|_| PoolFull)?;
        self.add(UTF8, &[&length.to_be_bytes(), text.as_bytes()])
    }

    pub(crate) fn class(&mut self, name: &str) -> std::result::Result<CpIndex, PoolFull> {
        let name = self.utf8(name)?;
        self.add(CLASS, &[&name.0.to_be_bytes()])
    }

    pub(crate) fn integer(&mut self, value: u32) -> std::result::Result<CpIndex, PoolFull> {
        self.add(INTEGER, &[&value.to_be_bytes()])
    }

    pub(crate) fn method_ref(
        &mut self,
        class: CpIndex,
        name: &str,
        descriptor: CpIndex,
    ) -> std::result::Result<CpIndex, PoolFull> {
        let name = self.utf8(name)?;
        let pair =
            self.add(NAME_AND_TYPE, &[&name.0.to_be_bytes(), &descriptor.0.to_be_bytes()])?;
        self.add(METHODREF, &[&class.0.to_be_bytes(), &pair.0.to_be_bytes()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_index_of_a_pool_is_65534() {
        let mut appended = Appended::default();
        appended.start(65_533);
        assert_eq!(appended.integer(1), Ok(CpIndex(65_533)));
        assert_eq!(appended.integer(2), Ok(CpIndex(65_534)));
        assert_eq!(appended.integer(3), Err(PoolFull));
        assert_eq!(appended.count(), 65_535);
    }
}
