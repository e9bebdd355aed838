//! Where a method goes on if the `Caught` of a handler overflows the stack.
//!
//! A probe runs in frames of its own, so a nearly full stack may have no room for it. Whatever would catch a
//! StackOverflowError of the handler's first instruction must not be skipped for that: the handler itself, because its
//! own exception was thrown before, and else those around it, such as a `finally`. They run with the probe's error.

use crate::code::{CodeAttribute, ExceptionEntry};
use crate::code_layout::{Guard, OffsetMap};
use crate::constant_pool::{ConstantPool, CpIndex};
use crate::reader::Result;

/// StackOverflowError and its superclasses.
const OVERFLOW_TYPES: [&str; 4] = [
    "java/lang/StackOverflowError",
    "java/lang/VirtualMachineError",
    "java/lang/Error",
    "java/lang/Throwable",
];

/// Most checks of a handler against an exception table entry. If there would be more, there are no guards.
const MAX_CHECKS: usize = 1 << 24;

/// Plans the guards of all handlers that begin with `Caught`. Those of a handler are in the order of their types'
/// precedence.
pub(crate) fn mark(
    code: &CodeAttribute<'_>,
    pool: &ConstantPool<'_, '_>,
    map: &mut OffsetMap,
) -> Result<()> {
    if !map.has_handlers() {
        return Ok(());
    }
    let handlers = map.handlers().to_vec();
    let mut entries = Vec::new();
    for entry in code.exceptions() {
        if catches_overflow(pool, entry.catch_type)? {
            entries.push(entry);
        }
    }
    if handlers.len().saturating_mul(entries.len()) > MAX_CHECKS {
        return Ok(());
    }
    for handler in handlers {
        let mut types = Vec::new();
        let mut add = |entry: &ExceptionEntry, map: &mut OffsetMap| {
            let ExceptionEntry { handler: to, catch_type, .. } = *entry;
            if !types.contains(&0) && !types.contains(&catch_type) {
                types.push(catch_type);
                map.add_guard(Guard { handler, to, catch_type });
            }
        };
        entries.iter().filter(|entry| entry.handler == handler).for_each(|entry| add(entry, map));
        if map.is_covered(handler) {
            continue;
        }
        // One that comes before may lead back to this handler, so that it could be called for ever.
        let around = entries.iter().filter(|entry| entry.start <= handler && handler < entry.end);
        let around = around.filter(|entry| entry.handler != handler);
        around.take_while(|entry| entry.handler > handler).for_each(|entry| add(entry, map));
    }
    Ok(())
}

fn catches_overflow(pool: &ConstantPool<'_, '_>, catch_type: u16) -> Result<bool> {
    if catch_type == 0 {
        return Ok(true);
    }
    let name = pool.class_name(CpIndex(catch_type))?;
    Ok(OVERFLOW_TYPES.iter().any(|overflow| name == **overflow))
}
