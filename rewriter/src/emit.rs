//! Writes the Code attribute of an instrumented method.
//!
//! ```text
//! new code    Start  <the method's code, with Caught and End where the layout put them>
//! body        Threw  athrow       handler of everything after super(...), or of the whole method
//! before      Threw  athrow       handler of what a constructor does before super(...)
//! ```
//! The two handlers are the last entries of the exception table, so that all handlers of the method come first.

use crate::code::{CodeAttribute, MAX_CODE_LENGTH};
use crate::code_layout::{
    EditKind, GUARD, INIT_CALL_LENGTH, NewPc, OffsetMap, Part, branch_target,
};
use crate::constant_pool::{ConstantPool, CpIndex};
use crate::error::Skip;
use crate::instruction::{Bytecode, Instruction, Pc};
use crate::opcode::{ATHROW, Operand};
use crate::probe_constants::{MethodConstants, THREW_LENGTH};
use crate::reader::{Cursor, Result};
use crate::stack_map::{self, HandlerFrame, Handlers, patch_u2, patch_u4};
use crate::tables::{self, Protected};

/// `Threw` and `athrow`.
const HANDLER_LENGTH: u32 = THREW_LENGTH + 1;

/// What writing a method needs, besides its attribute.
pub(crate) struct Method<'m> {
    pub constants: MethodConstants,
    pub map: &'m OffsetMap,
}

/// Buffers that are reused for every method.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    protected: Vec<Protected>,
    frames: Vec<HandlerFrame>,
    new_exception_index: Vec<u16>,
}

/// Plans where a method's own handlers go, into `buffers`. This happens before the method gets an id, so that a
/// method that is too large never gets one. `throws_before_init` means that a constructor has something to protect
/// before its `super(...)` call.
pub(crate) fn plan_handlers(
    map: &OffsetMap,
    is_constructor: bool,
    throws_before_init: bool,
    buffers: &mut Buffers,
) -> std::result::Result<(), Skip> {
    buffers.protected.clear();
    buffers.frames.clear();
    let mut length = map.length();
    for part in [Part::Body, Part::BeforeInit] {
        if part == Part::BeforeInit && !throws_before_init {
            continue;
        }
        let (handler, before) = (NewPc(length), buffers.protected.len());
        let visit = |range: std::ops::Range<NewPc>| {
            buffers.protected.push(Protected { start: range.start, end: range.end, handler });
        };
        if is_constructor {
            map.protected_part(part, visit)
        } else {
            map.protected(visit)
        }
        if buffers.protected.len() > before {
            let has_uninitialized_this = part == Part::BeforeInit;
            buffers.frames.push(HandlerFrame { pc: handler, has_uninitialized_this });
            length += HANDLER_LENGTH;
        }
    }
    if length > MAX_CODE_LENGTH { Err(Skip::CodeTooLarge) } else { Ok(()) }
}

/// Appends the attribute to `out`. If the method has to be skipped, `out` does not change.
pub(crate) fn write_code(
    out: &mut Vec<u8>,
    attribute: &CodeAttribute<'_>,
    pool: &ConstantPool<'_, '_>,
    method: &Method<'_>,
    buffers: &mut Buffers,
) -> Result<std::result::Result<(), Skip>> {
    let start = out.len();
    let result = write(out, attribute, pool, method, buffers);
    if !matches!(result, Ok(Ok(()))) {
        out.truncate(start);
    }
    result
}

fn write(
    out: &mut Vec<u8>,
    attribute: &CodeAttribute<'_>,
    pool: &ConstantPool<'_, '_>,
    method: &Method<'_>,
    buffers: &mut Buffers,
) -> Result<std::result::Result<(), Skip>> {
    let map = method.map;
    let Some(max_stack) = max_stack(attribute) else {
        return Ok(Err(Skip::LimitReached));
    };
    out.extend_from_slice(&attribute.name_index.to_be_bytes());
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&max_stack.to_be_bytes());
    out.extend_from_slice(&attribute.max_locals.to_be_bytes());
    let code_length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let code_at = out.len();
    if let Err(skip) = write_instructions(out, attribute, method)? {
        return Ok(Err(skip));
    }
    for frame in &buffers.frames {
        out.extend_from_slice(if frame.has_uninitialized_this {
            &method.constants.threw_before_init
        } else {
            &method.constants.threw
        });
        out.push(ATHROW);
    }
    let code_length = out.len() - code_at;
    patch_u4(out, code_length_at, u32_length(code_length));
    let Buffers { protected, frames, new_exception_index } = buffers;
    if !tables::write_exceptions(out, attribute, map, protected, new_exception_index)? {
        return Ok(Err(Skip::LimitReached));
    }
    let handlers = Handlers { frames, throwable: method.constants.throwable };
    if !write_attributes(out, attribute, pool, method, handlers, new_exception_index)? {
        return Ok(Err(Skip::LimitReached));
    }
    let length = out.len() - length_at - 4;
    patch_u4(out, length_at, u32_length(length));
    Ok(Ok(()))
}

/// The length of something smaller than the class file.
fn u32_length(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// The stack that the probes need: a method id above what is there, or between a throwable and itself. At most returns
/// the stack is not at its full depth, but following it would take a quarter as long as everything else, to save one
/// word of an interpreted frame.
fn max_stack(attribute: &CodeAttribute<'_>) -> Option<u16> {
    attribute.max_stack.max(2).checked_add(1)
}

fn write_instructions(
    out: &mut Vec<u8>,
    attribute: &CodeAttribute<'_>,
    method: &Method<'_>,
) -> Result<std::result::Result<(), Skip>> {
    let code = &attribute.bytecode;
    out.extend_from_slice(method.constants.start.bytes());
    let mut copied = 0;
    for edit in method.map.edits() {
        out.extend_from_slice(code.bytes.get(copied..edit.pc.index()).unwrap_or_default());
        copied = edit.pc.index();
        match edit.kind {
            EditKind::Handler | EditKind::CoveredHandler => {
                let caught = if method.map.is_before_init(edit.pc) {
                    method.constants.caught_before_init
                } else {
                    method.constants.caught
                };
                out.extend_from_slice(&caught.unwrap_or_default());
                if method.map.is_guarded(edit.pc) {
                    out.extend_from_slice(&GUARD);
                }
            }
            EditKind::Return => out.extend_from_slice(method.constants.end.bytes()),
            EditKind::InitCall => {
                let behind = copied + INIT_CALL_LENGTH as usize;
                out.extend_from_slice(code.bytes.get(copied..behind).unwrap_or_default());
                out.extend_from_slice(&method.constants.initialized.unwrap_or_default());
                copied = behind;
            }
            EditKind::Branch => {
                if let Some(offset) = code.short_branch(edit.pc) {
                    let target = new_offset(code, method.map, edit.pc, i32::from(offset))?;
                    let Ok(target) = i16::try_from(target) else {
                        return Ok(Err(Skip::BranchTooFar));
                    };
                    out.extend(code.bytes.get(copied));
                    out.extend_from_slice(&target.to_be_bytes());
                    copied += 3;
                } else if let Some((instruction, next)) = code.instruction(edit.pc)? {
                    write_branch(out, code, method.map, &instruction)?;
                    copied = next.index();
                }
            }
        }
    }
    out.extend_from_slice(code.bytes.get(copied..).unwrap_or_default());
    Ok(Ok(()))
}

/// The new offset of a branch at `pc`.
#[inline]
fn new_offset(code: &Bytecode<'_>, map: &OffsetMap, pc: Pc, offset: i32) -> Result<i32> {
    let Some(target) = branch_target(pc, offset) else {
        return code.error(crate::ErrorKind::BadCodeOffset, pc);
    };
    let (here, target) = (map.instruction(code, pc)?, map.target(code, target)?);
    // Both are below 2^24.
    Ok(target.0.cast_signed() - here.0.cast_signed())
}

/// Writes a long branch or a switch with its new offsets.
fn write_branch(
    out: &mut Vec<u8>,
    code: &Bytecode<'_>,
    map: &OffsetMap,
    instruction: &Instruction<'_>,
) -> Result<()> {
    let here = map.instruction(code, instruction.pc)?;
    let new_offset = |offset: i32| new_offset(code, map, instruction.pc, offset);
    out.push(instruction.opcode);
    match instruction.op.operand {
        Operand::Branch4 => {
            instruction.branch_offsets(|offset| {
                out.extend_from_slice(&new_offset(offset)?.to_be_bytes());
                Ok(())
            })?;
        }
        _ => {
            let padding = 3 - (here.0 & 3);
            out.extend(std::iter::repeat_n(0, padding as usize));
            let words_at = out.len();
            out.extend_from_slice(instruction.switch_words());
            let mut at = words_at;
            let is_table = instruction.op.operand == Operand::TableSwitch;
            instruction.branch_offsets(|offset| {
                patch_u4(out, at, new_offset(offset)?.cast_unsigned());
                // Skips low and high, or the next match.
                at += match (is_table, at == words_at) {
                    (true, true) | (false, true) => 12,
                    (true, false) => 4,
                    (false, false) => 8,
                };
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Writes the attributes of the Code attribute. `Ok(false)` if one has too many entries.
fn write_attributes(
    out: &mut Vec<u8>,
    attribute: &CodeAttribute<'_>,
    pool: &ConstantPool<'_, '_>,
    method: &Method<'_>,
    handlers: Handlers<'_>,
    new_exception_index: &[u16],
) -> Result<bool> {
    let (code, map) = (&attribute.bytecode, method.map);
    let count_at = out.len();
    out.extend_from_slice(&attribute.attribute_count.to_be_bytes());
    let mut attributes = attribute.attributes.clone();
    let mut has_frames = false;
    for _ in 0..attribute.attribute_count {
        let name_index = attributes.u2()?;
        let contents = attributes.attribute()?;
        out.extend_from_slice(&name_index.to_be_bytes());
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        let fits = match pool.utf8(CpIndex(name_index))?.0 {
            b"StackMapTable" => {
                has_frames = true;
                stack_map::write(out, Some(contents), code, map, handlers)?
            }
            b"StackMap" => stack_map::write_old(out, contents, code, map, handlers)?,
            b"LineNumberTable" => tables::write_line_numbers(out, contents, code, map).map(yes)?,
            b"LocalVariableTable" | b"LocalVariableTypeTable" => {
                tables::write_local_variables(out, contents, code, map).map(yes)?
            }
            b"RuntimeVisibleTypeAnnotations" | b"RuntimeInvisibleTypeAnnotations" => {
                let index = new_exception_index;
                tables::write_type_annotations(out, contents, code, map, index).map(yes)?
            }
            _ => {
                out.extend_from_slice(contents.rest());
                true
            }
        };
        if !fits {
            return Ok(false);
        }
        let length = out.len() - length_at - 4;
        patch_u4(out, length_at, u32_length(length));
    }
    attributes.expect_end()?;
    if let Some(stack_map_table) = method.constants.stack_map_table
        && !has_frames
        && !handlers.frames.is_empty()
    {
        let Some(count) = attribute.attribute_count.checked_add(1) else { return Ok(false) };
        patch_u2(out, count_at, count);
        out.extend_from_slice(&stack_map_table.0.to_be_bytes());
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        if !stack_map::write(out, None::<Cursor<'_>>, code, map, handlers)? {
            return Ok(false);
        }
        let length = out.len() - length_at - 4;
        patch_u4(out, length_at, u32_length(length));
    }
    Ok(true)
}

const fn yes((): ()) -> bool {
    true
}
