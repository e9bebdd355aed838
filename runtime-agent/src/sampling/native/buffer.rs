//! Large tables, in memory that goes back to the kernel at once: the allocator would keep megabytes of it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;

use crate::sys::mapped_memory::MappedMemory;

/// Plain values without padding, for which any bytes are valid.
///
/// # Safety
/// The type is such.
pub(super) unsafe trait Plain: Copy {}

// SAFETY: any byte is one.
unsafe impl Plain for u8 {}

/// A list with fixed room.
#[derive(Debug)]
pub(super) struct Buffer<T> {
    memory: MappedMemory,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Plain> Buffer<T> {
    /// Room for so many; `None` if the kernel refuses.
    pub(super) fn with_room(room: usize) -> Option<Self> {
        const { assert!(align_of::<T>() <= 4_096 && size_of::<T>() > 0) };
        let memory = MappedMemory::large(room.max(1).checked_mul(size_of::<T>())?)?;
        Some(Self { memory, len: 0, of: PhantomData })
    }

    /// Adds a value; `None` if there is no room.
    pub(super) fn push(&mut self, value: T) -> Option<()> {
        self.len += 1;
        let added = self.as_mut_slice().and_then(<[T]>::last_mut);
        match added {
            Some(place) => {
                *place = value;
                Some(())
            }
            None => {
                self.len -= 1;
                None
            }
        }
    }

    pub(super) fn as_slice(&self) -> &[T] {
        // SAFETY: the mapping is aligned to a page, has this many values, whose bytes may be anything, and lives as
        // long.
        unsafe { std::slice::from_raw_parts(self.memory.start().cast().as_ptr(), self.len) }
    }

    /// The values; `None` if there is no room for so many.
    fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        let has_room = self.len * size_of::<T>() <= self.memory.length();
        // SAFETY: as above; nobody else has the mapping.
        has_room.then(|| unsafe {
            std::slice::from_raw_parts_mut(self.memory.start().cast().as_ptr(), self.len)
        })
    }

    pub(super) fn sort<K: Ord>(&mut self, order: impl Fn(&T) -> K) {
        self.as_mut_slice().into_iter().for_each(|values| values.sort_unstable_by_key(&order));
    }

    /// Of neighbours for which `same` says so, keeps the first.
    pub(super) fn keep_first(&mut self, same: impl Fn(&T, &T) -> bool) {
        self.keep(same, |_, _| {});
    }

    /// Of neighbours for which `same` says so, keeps the last.
    pub(super) fn keep_last(&mut self, same: impl Fn(&T, &T) -> bool) {
        self.keep(same, |kept, next| *kept = next);
    }

    fn keep(&mut self, same: impl Fn(&T, &T) -> bool, replace: impl Fn(&mut T, T)) {
        let Some(values) = self.as_mut_slice() else { return };
        let mut kept = 0_usize;
        for at in 0..values.len() {
            let Some(next) = values.get(at).copied() else { break };
            let last = kept.checked_sub(1).and_then(|last| values.get_mut(last));
            match last {
                Some(last) if same(last, &next) => replace(last, next),
                _ => {
                    kept += 1;
                    values.get_mut(kept - 1).into_iter().for_each(|place| *place = next);
                }
            }
        }
        self.len = kept;
    }

    /// The same values without the rest of the room.
    pub(super) fn shrunk(&self) -> Option<Self> {
        let mut shrunk = Self::with_room(self.len)?;
        shrunk.len = self.len;
        shrunk.as_mut_slice()?.copy_from_slice(self.as_slice());
        Some(shrunk)
    }

    /// The values, for as long as the process lives.
    pub(super) fn leak(self) -> &'static [T] {
        let len = self.len;
        // SAFETY: as above; the mapping is never given back.
        unsafe { std::slice::from_raw_parts(self.memory.into_raw().cast().as_ptr(), len) }
    }

    /// Memory that it uses.
    pub(super) fn bytes(&self) -> usize {
        self.memory.length()
    }
}

impl Buffer<u8> {
    /// A part of a file.
    ///
    /// # Errors
    /// The file cannot be read, or the kernel refuses memory.
    pub(super) fn read(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        let mut buffer = Self::with_room(len).ok_or(io::ErrorKind::OutOfMemory)?;
        buffer.len = len;
        let room = buffer.as_mut_slice().ok_or(io::ErrorKind::OutOfMemory)?;
        file.read_exact_at(room, offset)?;
        Ok(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SAFETY: any bytes are two numbers.
    unsafe impl Plain for (u32, u32) {}

    #[test]
    fn of_neighbours_the_first_or_the_last_is_kept() {
        let mut buffer = Buffer::with_room(6).expect("memory");
        for value in [(3, 1), (1, 1), (3, 2), (2, 2), (1, 0)] {
            assert!(buffer.push(value).is_some());
        }
        buffer.sort(|value| *value);
        buffer.keep_last(|one, next| one.0 == next.0);
        assert_eq!(buffer.as_slice(), [(1, 1), (2, 2), (3, 2)]);
        buffer.keep_first(|one, next| one.1 == next.1);
        assert_eq!(buffer.as_slice(), [(1, 1), (2, 2)]);
        let shrunk = buffer.shrunk().expect("memory");
        assert_eq!(shrunk.as_slice(), buffer.as_slice());
        assert_eq!(shrunk.leak(), [(1, 1), (2, 2)]);
        let mut full = Buffer::with_room(1).expect("memory");
        assert!(full.push((1, 1)).is_some() && full.push((2, 2)).is_none());
        assert_eq!(full.as_slice(), [(1, 1)]);
    }
}
