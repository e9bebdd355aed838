//! A cursor over class-file bytes. It never reads past the end, and every error has its position.

use crate::error::{Error, ErrorKind};

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Reads big-endian values from a part of a class file.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    /// Offset of `rest` in the class file.
    offset: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor over `bytes`, which are at `offset` in the class file.
    pub(crate) fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self { rest: bytes, offset }
    }

    /// Position in the class file.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The bytes not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn error<T>(&self, kind: ErrorKind) -> Result<T> {
        Err(Error::new(kind, self.offset))
    }

    #[inline]
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((bytes, rest)) = self.rest.split_at_checked(count) else {
            return self.error(ErrorKind::Truncated);
        };
        self.rest = rest;
        self.offset += count;
        Ok(bytes)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((bytes, rest)) = self.rest.split_first_chunk::<N>() else {
            return self.error(ErrorKind::Truncated);
        };
        self.rest = rest;
        self.offset += N;
        Ok(*bytes)
    }

    #[inline]
    pub(crate) fn u1(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn u2(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn u4(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A cursor over the next `count` bytes, which this one skips.
    pub(crate) fn part(&mut self, count: usize) -> Result<Self> {
        let offset = self.offset;
        Ok(Self { rest: self.bytes(count)?, offset })
    }

    /// A cursor over the contents of an attribute, whose length comes next.
    pub(crate) fn attribute(&mut self) -> Result<Self> {
        let length = self.u4()?;
        self.part(to_usize(length))
    }

    /// Checks that the attribute has been read to its end.
    pub(crate) fn expect_end(&self) -> Result<()> {
        if self.is_empty() { Ok(()) } else { self.error(ErrorKind::BadAttributeLength) }
    }
}

/// A `u32` as a length. A 16-bit machine would truncate it, but none runs a JVM.
pub(crate) const fn to_usize(value: u32) -> usize {
    value as usize
}
