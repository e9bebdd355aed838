//! From HotSpot's methods to their ids.

use super::Walk;
use crate::memory::{Memory, is_pointer};

impl<M: Memory> Walk<'_, M> {
    /// The `jmethodID` of a `Method`, if it has one.
    pub(super) fn method_id(&self, method: usize) -> Option<usize> {
        let layout = &self.layout.method;
        if !is_pointer(method) {
            return None;
        }
        let constant = self.memory.pointer(method + layout.constant)?;
        let pool = self.memory.pointer(constant + layout.pool)?;
        let number = usize::from(self.memory.short(constant + layout.number)?);
        let holder = self.memory.pointer(pool + layout.holder)?;
        // An array whose first word is its length.
        let ids = self.memory.pointer(holder + layout.ids)?;
        let length = self.memory.word(ids)?;
        if number >= length {
            return None;
        }
        self.memory.pointer(ids + 8 * (number + 1))
    }

    /// The index of a bytecode's address in its method.
    pub(super) fn bytecode_index(&self, method: usize, bytecode: usize) -> i32 {
        let layout = &self.layout.method;
        let constant = self.memory.word(method + layout.constant);
        let index = constant
            .and_then(|constant| bytecode.checked_sub(constant + layout.constant_size))
            .and_then(|index| i32::try_from(index).ok());
        index.unwrap_or(-1)
    }
}
