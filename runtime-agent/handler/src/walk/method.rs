//! From HotSpot's methods to their ids.

use super::Walk;
use crate::memory::{Memory, is_pointer};
use crate::vm_layout::Method;

impl Method {
    /// The `jmethodID` of a `Method`, if it has one. A version of it from before its class was redefined has that of
    /// the newest version.
    pub fn id(&self, memory: &impl Memory, method: usize) -> Option<usize> {
        if !is_pointer(method) {
            return None;
        }
        let constant = memory.pointer(method + self.constant)?;
        let pool = memory.pointer(constant + self.pool)?;
        let number = self.original_number.unwrap_or(self.number);
        let number = usize::from(memory.short(constant + number)?);
        let holder = memory.pointer(pool + self.holder)?;
        // An array whose first word is its length.
        let ids = memory.pointer(holder + self.ids)?;
        let length = memory.word(ids)?;
        if number >= length {
            return None;
        }
        memory.pointer(ids + 8 * (number + 1))
    }

    /// The id that [`id`](Self::id) gives the method with this one: the JVM gives old versions ids of their own when it
    /// is asked for a stack. The method is on a stack, so its id points to it.
    #[must_use]
    pub fn newest_id(&self, memory: &impl Memory, id: usize) -> usize {
        let method = if is_pointer(id) { memory.pointer(id) } else { None };
        method.and_then(|method| self.id(memory, method)).unwrap_or(id)
    }
}

impl<M: Memory> Walk<'_, M> {
    pub(super) fn method_id(&self, method: usize) -> Option<usize> {
        self.layout.method.id(&self.memory, method)
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
