//! The Code attribute (JVMS 4.7.3), read in place.

use crate::annotations::Attributes;
use crate::error::ErrorKind;
use crate::instruction::{Bytecode, Pc};
use crate::reader::{Cursor, Result, to_usize};

/// Longest code that a class file can hold.
pub(crate) const MAX_CODE_LENGTH: u32 = 65_535;

/// A Code attribute and its position.
#[derive(Clone, Debug)]
pub(crate) struct CodeAttribute<'a> {
    /// First byte of the attribute (its name index) in the class file.
    pub start: usize,
    /// First byte after it.
    pub end: usize,
    pub name_index: u16,
    pub max_stack: u16,
    pub max_locals: u16,
    pub bytecode: Bytecode<'a>,
    pub exception_table: ExceptionTable<'a>,
    pub attribute_count: u16,
    /// The attributes, without their count.
    pub attributes: Cursor<'a>,
    /// The same with their count, for reading annotations later.
    pub counted_attributes: Attributes<'a>,
}

/// An entry of the exception table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExceptionEntry {
    /// First instruction that it protects.
    pub start: Pc,
    /// First instruction after the protected ones, or the end of the code.
    pub end: Pc,
    pub handler: Pc,
    pub catch_type: u16,
}

impl<'a> CodeAttribute<'a> {
    /// Reads the attribute whose name index has just been read from `cursor`.
    pub(crate) fn read(name_index: u16, cursor: &mut Cursor<'a>) -> Result<Self> {
        let start = cursor.offset() - 2;
        let mut body = cursor.attribute()?;
        let max_stack = body.u2()?;
        let max_locals = body.u2()?;
        let code_length = body.u4()?;
        if code_length == 0 || code_length > MAX_CODE_LENGTH {
            return body.error(ErrorKind::BadCodeLength);
        }
        let offset = body.offset();
        let bytes = body.bytes(to_usize(code_length))?;
        let entries = usize::from(body.u2()?);
        let exception_table = ExceptionTable(body.bytes(8 * entries)?.as_chunks::<8>().0);
        let counted_attributes = Attributes::at(&body);
        let attribute_count = body.u2()?;
        Ok(Self {
            start,
            end: cursor.offset(),
            name_index,
            max_stack,
            max_locals,
            bytecode: Bytecode { bytes, offset },
            exception_table,
            attribute_count,
            attributes: body,
            counted_attributes,
        })
    }

    /// The exception table's entries, in order.
    pub(crate) fn exceptions(&self) -> impl ExactSizeIterator<Item = ExceptionEntry> + use<'a> {
        self.exception_table.entries()
    }
}

/// An exception table, read in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExceptionTable<'a>(&'a [[u8; 8]]);

impl<'a> ExceptionTable<'a> {
    /// Its entries, in order.
    pub(crate) fn entries(self) -> impl ExactSizeIterator<Item = ExceptionEntry> + use<'a> {
        self.0.iter().map(|[a, b, c, d, e, f, g, h]| ExceptionEntry {
            start: Pc(u32::from(u16::from_be_bytes([*a, *b]))),
            end: Pc(u32::from(u16::from_be_bytes([*c, *d]))),
            handler: Pc(u32::from(u16::from_be_bytes([*e, *f]))),
            catch_type: u16::from_be_bytes([*g, *h]),
        })
    }
}
