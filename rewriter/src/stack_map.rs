//! StackMapTable (JVMS 4.7.4) and the older StackMap: reads and moves frames, and adds some.
//!
//! A frame keeps its form; only the distance to the previous frame and the offsets of `uninitialized` types change.

use crate::code_layout::{NewPc, OffsetMap};
use crate::constant_pool::CpIndex;
use crate::error::ErrorKind;
use crate::instruction::{Bytecode, Pc};
use crate::reader::{Cursor, Result};

const UNINITIALIZED_THIS: u8 = 6;
const OBJECT: u8 = 7;
const UNINITIALIZED: u8 = 8;
const LAST_PLAIN_TYPE: u8 = UNINITIALIZED_THIS;

const SAME_LOCALS_1_STACK_ITEM: u8 = 64;
const FIRST_RESERVED: u8 = 128;
const SAME_LOCALS_1_STACK_ITEM_EXTENDED: u8 = 247;
const FIRST_CHOP: u8 = 248;
const SAME_EXTENDED: u8 = 251;
const FIRST_APPEND: u8 = 252;
const FULL: u8 = 255;

/// Frame of a handler that the rewriter adds: no locals except perhaps an uninitialized `this`, and a Throwable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandlerFrame {
    pub pc: NewPc,
    pub has_uninitialized_this: bool,
}

/// The handlers that the rewriter adds to one method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handlers<'h> {
    pub frames: &'h [HandlerFrame],
    /// The class java/lang/Throwable.
    pub throwable: CpIndex,
}

/// Consecutive verification types.
#[derive(Clone, Copy, Debug)]
struct Types<'a> {
    bytes: &'a [u8],
    count: u16,
}

#[derive(Clone, Copy, Debug)]
enum Kind<'a> {
    /// Also a chop: neither has types, and both keep their tag.
    Plain,
    Types1(Types<'a>),
    Full {
        locals: Types<'a>,
        stack: Types<'a>,
    },
}

#[derive(Clone, Copy, Debug)]
struct Frame<'a> {
    pc: Pc,
    tag: u8,
    kind: Kind<'a>,
}

impl<'a> Frame<'a> {
    /// What is on the stack, if that is one value.
    fn one_on_stack(&self) -> Option<Types<'a>> {
        match (self.kind, self.tag) {
            (Kind::Types1(stack), ..FIRST_CHOP) => Some(stack),
            (Kind::Full { stack, .. }, _) if stack.count == 1 => Some(stack),
            _ => None,
        }
    }
}

/// The frames of a StackMapTable.
struct Frames<'a> {
    cursor: Cursor<'a>,
    left: u16,
    previous: Option<Pc>,
}

impl<'a> Frames<'a> {
    fn new(mut attribute: Cursor<'a>) -> Result<Self> {
        let left = attribute.u2()?;
        Ok(Self { cursor: attribute, left, previous: None })
    }

    fn next(&mut self) -> Result<Option<Frame<'a>>> {
        let cursor = &mut self.cursor;
        let Some(left) = self.left.checked_sub(1) else {
            cursor.expect_end()?;
            return Ok(None);
        };
        self.left = left;
        let tag = cursor.u1()?;
        let (delta, kind) = match tag {
            0..SAME_LOCALS_1_STACK_ITEM => (u16::from(tag), Kind::Plain),
            SAME_LOCALS_1_STACK_ITEM..FIRST_RESERVED => {
                let stack = types(cursor, 1)?;
                (u16::from(tag - SAME_LOCALS_1_STACK_ITEM), Kind::Types1(stack))
            }
            FIRST_RESERVED..SAME_LOCALS_1_STACK_ITEM_EXTENDED => {
                return cursor.error(ErrorKind::BadStackMapFrame);
            }
            SAME_LOCALS_1_STACK_ITEM_EXTENDED => (cursor.u2()?, Kind::Types1(types(cursor, 1)?)),
            FIRST_CHOP..=SAME_EXTENDED => (cursor.u2()?, Kind::Plain),
            FIRST_APPEND..FULL => {
                let delta = cursor.u2()?;
                let locals = types(cursor, u16::from(tag - SAME_EXTENDED))?;
                (delta, Kind::Types1(locals))
            }
            FULL => {
                let delta = cursor.u2()?;
                let count = cursor.u2()?;
                let locals = types(cursor, count)?;
                let count = cursor.u2()?;
                (delta, Kind::Full { locals, stack: types(cursor, count)? })
            }
        };
        let pc = Pc(self.previous.map_or(0, |p| p.0 + 1) + u32::from(delta));
        self.previous = Some(pc);
        Ok(Some(Frame { pc, tag, kind }))
    }
}

/// Skips `count` types.
fn types<'a>(cursor: &mut Cursor<'a>, count: u16) -> Result<Types<'a>> {
    let rest = cursor.rest();
    let start = cursor.offset();
    for _ in 0..count {
        match cursor.u1()? {
            0..=LAST_PLAIN_TYPE => {}
            OBJECT | UNINITIALIZED => {
                cursor.u2()?;
            }
            _ => return cursor.error(ErrorKind::BadVerificationType),
        }
    }
    let bytes = rest.get(..cursor.offset() - start).unwrap_or_default();
    Ok(Types { bytes, count })
}

/// The places, in order, where the frames of a constructor do not have an uninitialized `this` in the first variable.
/// `parameters` is the number of parameters.
pub(crate) fn frames_without_this(table: Cursor<'_>, parameters: usize) -> Result<Vec<Pc>> {
    let mut without = Vec::new();
    let mut frames = Frames::new(table)?;
    let (mut locals, mut has_this) = (parameters + 1, true);
    while let Some(frame) = frames.next()? {
        let begins_with_this = |types: &Types<'_>| types.bytes.first() == Some(&UNINITIALIZED_THIS);
        match (frame.kind, frame.tag) {
            (Kind::Full { locals: types, .. }, _) => {
                (locals, has_this) = (usize::from(types.count), begins_with_this(&types));
            }
            (Kind::Types1(types), FIRST_APPEND..) => {
                if locals == 0 {
                    has_this = begins_with_this(&types);
                }
                locals += usize::from(types.count);
            }
            (Kind::Plain, FIRST_CHOP..SAME_EXTENDED) => {
                locals = locals.saturating_sub(usize::from(SAME_EXTENDED - frame.tag));
                has_this &= locals > 0;
            }
            _ => {}
        }
        if !has_this {
            without.push(frame.pc);
        }
    }
    Ok(without)
}

/// Writes the contents of a StackMapTable: the frames of `attribute`, if there is one, with two more in each handler
/// that has a `nop` for an overflow, and then those of the added handlers. `Ok(false)` if there are too many.
pub(crate) fn write(
    out: &mut Vec<u8>,
    attribute: Option<Cursor<'_>>,
    code: &Bytecode<'_>,
    map: &OffsetMap,
    handlers: Handlers<'_>,
) -> Result<bool> {
    let count_at = out.len();
    out.extend_from_slice(&[0, 0]);
    let mut count = 0usize;
    let mut previous = None;
    if let Some(attribute) = attribute {
        let mut frames = Frames::new(attribute)?;
        while let Some(frame) = frames.next()? {
            let pc = map.target(code, frame.pc)?;
            write_frame(out, code, map, &frame, delta(previous, pc))?;
            previous = Some(pc);
            count += 1;
            if let Some(stack) = frame.one_on_stack()
                && map.is_guarded(frame.pc)
            {
                // Both with the variables of the frame before them.
                let nop = map.with_overflow(code, frame.pc)?;
                for pc in [nop, NewPc(nop.0 + 1)] {
                    let frame =
                        Frame { tag: SAME_LOCALS_1_STACK_ITEM, kind: Kind::Types1(stack), ..frame };
                    write_frame(out, code, map, &frame, delta(previous, pc))?;
                    previous = Some(pc);
                    count += 1;
                }
            }
        }
    }
    for handler in handlers.frames {
        out.push(FULL);
        out.extend_from_slice(&delta(previous, handler.pc).to_be_bytes());
        write_handler_types(out, handler, handlers.throwable);
        previous = Some(handler.pc);
        count += 1;
    }
    let Ok(count) = u16::try_from(count) else { return Ok(false) };
    patch_u2(out, count_at, count);
    Ok(true)
}

fn delta(previous: Option<NewPc>, pc: NewPc) -> u16 {
    let delta = pc.0 - previous.map_or(0, |p| p.0 + 1);
    // Frames are within the code, which is no longer than this.
    u16::try_from(delta).unwrap_or(u16::MAX)
}

fn write_frame(
    out: &mut Vec<u8>,
    code: &Bytecode<'_>,
    map: &OffsetMap,
    frame: &Frame<'_>,
    delta: u16,
) -> Result<()> {
    let (short_base, extended) = match frame.tag {
        0..SAME_LOCALS_1_STACK_ITEM => (Some(0), SAME_EXTENDED),
        SAME_LOCALS_1_STACK_ITEM..FIRST_RESERVED => {
            (Some(SAME_LOCALS_1_STACK_ITEM), SAME_LOCALS_1_STACK_ITEM_EXTENDED)
        }
        tag => (None, tag),
    };
    match (short_base, u8::try_from(delta)) {
        (Some(base), Ok(short)) if short < SAME_LOCALS_1_STACK_ITEM => out.push(base + short),
        _ => {
            out.push(extended);
            out.extend_from_slice(&delta.to_be_bytes());
        }
    }
    match frame.kind {
        Kind::Plain => Ok(()),
        Kind::Types1(types) => write_types(out, code, map, types),
        Kind::Full { locals, stack } => {
            out.extend_from_slice(&locals.count.to_be_bytes());
            write_types(out, code, map, locals)?;
            out.extend_from_slice(&stack.count.to_be_bytes());
            write_types(out, code, map, stack)
        }
    }
}

fn write_types(
    out: &mut Vec<u8>,
    code: &Bytecode<'_>,
    map: &OffsetMap,
    types: Types<'_>,
) -> Result<()> {
    let mut rest = types.bytes;
    while let [tag, after @ ..] = rest {
        rest = match (*tag, after) {
            (UNINITIALIZED, [a, b, after @ ..]) => {
                let new = Pc(u32::from(u16::from_be_bytes([*a, *b])));
                out.push(UNINITIALIZED);
                push_pc(out, map.instruction(code, new)?);
                after
            }
            (OBJECT, [a, b, after @ ..]) => {
                out.extend_from_slice(&[OBJECT, *a, *b]);
                after
            }
            (tag, after) => {
                out.push(tag);
                after
            }
        };
    }
    Ok(())
}

fn write_handler_types(out: &mut Vec<u8>, handler: &HandlerFrame, throwable: CpIndex) {
    if handler.has_uninitialized_this {
        out.extend_from_slice(&[0, 1, UNINITIALIZED_THIS]);
    } else {
        out.extend_from_slice(&[0, 0]);
    }
    out.extend_from_slice(&[0, 1, OBJECT]);
    out.extend_from_slice(&throwable.0.to_be_bytes());
}

/// Writes the contents of a StackMap, the table of CLDC and of compilers before version 50, in which each frame is
/// full and has its own offset. `Ok(false)` if there are too many.
pub(crate) fn write_old(
    out: &mut Vec<u8>,
    mut attribute: Cursor<'_>,
    code: &Bytecode<'_>,
    map: &OffsetMap,
    handlers: Handlers<'_>,
) -> Result<bool> {
    let count = attribute.u2()?;
    let count_at = out.len();
    out.extend_from_slice(&[0, 0]);
    let mut new_count = usize::from(count) + handlers.frames.len();
    for _ in 0..count {
        let pc = Pc(u32::from(attribute.u2()?));
        push_pc(out, map.target(code, pc)?);
        let types_at = out.len();
        for _locals_then_stack in 0..2 {
            let count = attribute.u2()?;
            out.extend_from_slice(&count.to_be_bytes());
            let types = types(&mut attribute, count)?;
            write_types(out, code, map, types)?;
        }
        if map.is_guarded(pc) {
            let types = types_at..out.len();
            let nop = map.with_overflow(code, pc)?;
            for pc in [nop, NewPc(nop.0 + 1)] {
                push_pc(out, pc);
                out.extend_from_within(types.clone());
                new_count += 1;
            }
        }
    }
    attribute.expect_end()?;
    let Ok(new_count) = u16::try_from(new_count) else { return Ok(false) };
    patch_u2(out, count_at, new_count);
    for handler in handlers.frames {
        push_pc(out, handler.pc);
        write_handler_types(out, handler, handlers.throwable);
    }
    Ok(true)
}

/// Appends a code offset of two bytes. `emit` refuses code whose offsets do not fit.
pub(crate) fn push_pc(out: &mut Vec<u8>, pc: NewPc) {
    let pc = u16::try_from(pc.0).unwrap_or(u16::MAX);
    out.extend_from_slice(&pc.to_be_bytes());
}

/// Overwrites a two-byte placeholder.
pub(crate) fn patch_u2(out: &mut [u8], at: usize, value: u16) {
    if let Some(place) = out.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// Overwrites a four-byte placeholder.
pub(crate) fn patch_u4(out: &mut [u8], at: usize, value: u32) {
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}
