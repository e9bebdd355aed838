//! The tables besides the code that hold code offsets: exception table, LineNumberTable, LocalVariableTable,
//! LocalVariableTypeTable, and type annotations on code.

use crate::code::CodeAttribute;
use crate::code_layout::{NewPc, OffsetMap};
use crate::error::ErrorKind;
use crate::instruction::{Bytecode, Pc};
use crate::reader::{Cursor, Result};
use crate::stack_map::{patch_u2, push_pc};

/// Deepest nesting of annotations. Java's own limit is the nesting of types.
const MAX_ANNOTATION_DEPTH: u32 = 64;

/// A handler that the rewriter adds, and the new code that it protects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protected {
    pub start: NewPc,
    pub end: NewPc,
    pub handler: NewPc,
}

/// Writes the exception table with its count: first the guards of its handlers' probes, then the method's own entries,
/// split where something was inserted, then those of the added handlers. `new_index` gets the new index of each old
/// entry. `Ok(false)` if there are too many.
pub(crate) fn write_exceptions(
    out: &mut Vec<u8>,
    attribute: &CodeAttribute<'_>,
    map: &OffsetMap,
    ours: &[Protected],
    new_index: &mut Vec<u16>,
) -> Result<bool> {
    let code = &attribute.bytecode;
    let count_at = out.len();
    out.extend_from_slice(&[0, 0]);
    new_index.clear();
    let mut count = map.guards().len();
    for guard in map.guards() {
        let caught = map.caught(code, guard.handler)?;
        let to = map.with_overflow(code, guard.to)?;
        write_entry(out, caught.start, caught.end, to, guard.catch_type);
    }
    for entry in attribute.exceptions() {
        let Ok(index) = u16::try_from(count) else { return Ok(false) };
        new_index.push(index);
        let handler = map.target(code, entry.handler)?;
        map.split(code, entry.start..entry.end, |piece| {
            write_entry(out, piece.start, piece.end, handler, entry.catch_type);
            count += 1;
        })?;
    }
    for entry in ours {
        write_entry(out, entry.start, entry.end, entry.handler, 0);
        count += 1;
    }
    let Ok(count) = u16::try_from(count) else { return Ok(false) };
    patch_u2(out, count_at, count);
    Ok(true)
}

fn write_entry(out: &mut Vec<u8>, start: NewPc, end: NewPc, handler: NewPc, catch_type: u16) {
    push_pc(out, start);
    push_pc(out, end);
    push_pc(out, handler);
    out.extend_from_slice(&catch_type.to_be_bytes());
}

/// Writes the contents of a LineNumberTable.
pub(crate) fn write_line_numbers(
    out: &mut Vec<u8>,
    mut table: Cursor<'_>,
    code: &Bytecode<'_>,
    map: &OffsetMap,
) -> Result<()> {
    let count = table.u2()?;
    out.extend_from_slice(&count.to_be_bytes());
    for _ in 0..count {
        push_pc(out, map.debug(code, Pc(u32::from(table.u2()?)))?);
        out.extend_from_slice(table.bytes(2)?);
    }
    table.expect_end()
}

/// The line of the first instruction that has one, or 0.
pub(crate) fn first_line(mut table: Cursor<'_>) -> Result<u16> {
    let count = table.u2()?;
    let mut first = (u16::MAX, 0);
    for _ in 0..count {
        let (pc, line) = (table.u2()?, table.u2()?);
        if first.1 == 0 || pc < first.0 {
            first = (pc, line);
        }
    }
    Ok(first.1)
}

/// Writes the contents of a LocalVariableTable or LocalVariableTypeTable.
pub(crate) fn write_local_variables(
    out: &mut Vec<u8>,
    mut table: Cursor<'_>,
    code: &Bytecode<'_>,
    map: &OffsetMap,
) -> Result<()> {
    let count = table.u2()?;
    out.extend_from_slice(&count.to_be_bytes());
    for _ in 0..count {
        copy_range(out, &mut table, |pc| map.debug(code, pc))?;
        // Name, descriptor or signature, variable.
        out.extend_from_slice(table.bytes(6)?);
    }
    table.expect_end()
}

/// Moves a range that is given by start and length.
fn copy_range(
    out: &mut Vec<u8>,
    table: &mut Cursor<'_>,
    place: impl Fn(Pc) -> Result<NewPc>,
) -> Result<()> {
    let start = Pc(u32::from(table.u2()?));
    let end = Pc(start.0 + u32::from(table.u2()?));
    let new_start = place(start)?;
    let new_end = if end == start { new_start } else { place(end)? };
    push_pc(out, new_start);
    push_pc(out, NewPc(new_end.0.saturating_sub(new_start.0)));
    Ok(())
}

/// Writes the contents of a RuntimeVisibleTypeAnnotations or RuntimeInvisibleTypeAnnotations
/// attribute of a Code attribute (JVMS 4.7.20).
pub(crate) fn write_type_annotations(
    out: &mut Vec<u8>,
    mut table: Cursor<'_>,
    code: &Bytecode<'_>,
    map: &OffsetMap,
    new_exception_index: &[u16],
) -> Result<()> {
    let count = table.u2()?;
    out.extend_from_slice(&count.to_be_bytes());
    for _ in 0..count {
        let target_type = table.u1()?;
        out.push(target_type);
        match target_type {
            // A type parameter, a formal parameter.
            0x00 | 0x01 | 0x16 => out.extend_from_slice(table.bytes(1)?),
            // A supertype, a bound, a throws clause.
            0x10..=0x12 | 0x17 => out.extend_from_slice(table.bytes(2)?),
            // A field, a return type, a receiver.
            0x13..=0x15 => {}
            // A local variable, a resource.
            0x40 | 0x41 => {
                let ranges = table.u2()?;
                out.extend_from_slice(&ranges.to_be_bytes());
                for _ in 0..ranges {
                    copy_range(out, &mut table, |pc| Ok(annotated(code, map, pc)))?;
                    out.extend_from_slice(table.bytes(2)?);
                }
            }
            // An exception parameter: an index into the exception table.
            0x42 => {
                let index = table.u2()?;
                // An index past the table is meaningless, and stays so.
                let index = new_exception_index.get(usize::from(index)).unwrap_or(&index);
                out.extend_from_slice(&index.to_be_bytes());
            }
            // instanceof, new, method references; casts and type arguments have one byte more.
            0x43..=0x4b => {
                let pc = Pc(u32::from(table.u2()?));
                push_pc(
                    out,
                    map.instruction(code, pc).unwrap_or_else(|_| annotated(code, map, pc)),
                );
                if target_type >= 0x47 {
                    out.extend_from_slice(table.bytes(1)?);
                }
            }
            _ => return table.error(ErrorKind::BadTypeAnnotation),
        }
        let path_and_annotation = table.clone();
        let path_length = usize::from(table.u1()?);
        table.bytes(2 * path_length)?;
        skip_annotation(&mut table, 0)?;
        let length = table.offset() - path_and_annotation.offset();
        out.extend_from_slice(path_and_annotation.clone().bytes(length)?);
    }
    table.expect_end()
}

/// Where an annotated range begins or ends. The JVM never looks at these offsets: one past the code is meaningless,
/// and stays as it is.
fn annotated(code: &Bytecode<'_>, map: &OffsetMap, pc: Pc) -> NewPc {
    map.debug(code, pc).unwrap_or(NewPc(pc.0))
}

fn skip_annotation(table: &mut Cursor<'_>, depth: u32) -> Result<()> {
    table.u2()?;
    let pairs = table.u2()?;
    for _ in 0..pairs {
        table.u2()?;
        skip_element_value(table, depth)?;
    }
    Ok(())
}

fn skip_element_value(table: &mut Cursor<'_>, depth: u32) -> Result<()> {
    if depth > MAX_ANNOTATION_DEPTH {
        return table.error(ErrorKind::BadTypeAnnotation);
    }
    match table.u1()? {
        b'B' | b'C' | b'D' | b'F' | b'I' | b'J' | b'S' | b'Z' | b's' | b'c' => {
            table.u2()?;
        }
        b'e' => {
            table.u4()?;
        }
        b'@' => skip_annotation(table, depth + 1)?,
        b'[' => {
            for _ in 0..table.u2()? {
                skip_element_value(table, depth + 1)?;
            }
        }
        _ => return table.error(ErrorKind::BadTypeAnnotation),
    }
    Ok(())
}
