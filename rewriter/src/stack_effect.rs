//! How many stack slots an instruction pops and pushes, if that depends on its constant.

use crate::constant_pool::{ConstantPool, CpIndex};
use crate::error::ErrorKind;
use crate::instruction::Instruction;
use crate::mutf8::Mutf8;
use crate::opcode::{
    BY_CONSTANT, GETFIELD, GETSTATIC, INVOKEDYNAMIC, INVOKESTATIC, MULTIANEWARRAY, PUTFIELD,
    PUTSTATIC,
};
use crate::reader::{Cursor, Result};

/// Slots of a member's descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slots {
    /// Of all parameters, without `this`; 0 for a field.
    pub parameters: u16,
    /// Of the result, or of the field.
    pub value: u16,
}

/// Slots that an instruction pops and then pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    pub pop: u16,
    pub push: u16,
}

/// Reads the slots of a descriptor.
pub(crate) fn descriptor_slots(descriptor: Mutf8<'_>) -> Result<Slots> {
    let mut rest = descriptor.0;
    let mut parameters = 0u16;
    if let [b'(', inner @ ..] = rest {
        rest = inner;
        while let [first, ..] = rest
            && *first != b')'
        {
            let (slots, after) = type_slots(rest)?;
            // A descriptor has at most 65,535 bytes, of one or two slots each.
            parameters = parameters.saturating_add(slots);
            rest = after;
        }
        rest = rest.get(1..).unwrap_or_default();
        if rest == b"V" {
            return Ok(Slots { parameters, value: 0 });
        }
    }
    match type_slots(rest)? {
        (value, []) => Ok(Slots { parameters, value }),
        _ => bad_descriptor(),
    }
}

/// How many parameters a method descriptor has.
pub(crate) fn parameter_count(descriptor: Mutf8<'_>) -> Result<usize> {
    let mut rest = descriptor.0.get(1..).unwrap_or_default();
    let mut count = 0;
    while let [first, ..] = rest
        && *first != b')'
    {
        rest = type_slots(rest)?.1;
        count += 1;
    }
    Ok(count)
}

fn bad_descriptor<T>() -> Result<T> {
    Cursor::new(&[], 0).error(ErrorKind::BadDescriptor)
}

/// Slots of the first type, and the text after it.
fn type_slots(text: &[u8]) -> Result<(u16, &[u8])> {
    let dimensions = text.iter().take_while(|b| **b == b'[').count();
    let element = text.get(dimensions..).unwrap_or_default();
    let (slots, length) = match element {
        [b'J' | b'D', ..] => (2, 1),
        [b'B' | b'C' | b'F' | b'I' | b'S' | b'Z', ..] => (1, 1),
        [b'L', name @ ..] => match name.iter().position(|b| *b == b';') {
            Some(end) => (1, end + 2),
            None => return bad_descriptor(),
        },
        _ => return bad_descriptor(),
    };
    let slots = if dimensions > 0 { 1 } else { slots };
    Ok((slots, element.get(length..).unwrap_or_default()))
}

/// Slots of the members of one class's constant pool. Each descriptor is read once.
pub(crate) struct EffectCache<'s> {
    known: &'s mut KnownSlots,
}

/// What is known about the members of a pool, by index. It is not cleared for the next pool, because most pools are
/// longer than the part that is read: entries of earlier pools have another number.
#[derive(Debug, Default)]
pub(crate) struct KnownSlots {
    pool: u32,
    by_index: Vec<(u32, Slots)>,
}

impl<'s> EffectCache<'s> {
    /// Starts over for another pool.
    pub(crate) fn new(known: &'s mut KnownSlots) -> Self {
        known.pool = known.pool.wrapping_add(1);
        if known.pool == 0 {
            known.by_index.clear();
            known.pool = 1;
        }
        Self { known }
    }

    fn member(&mut self, pool: &ConstantPool<'_, '_>, index: CpIndex) -> Result<Slots> {
        let KnownSlots { pool: number, by_index } = &mut *self.known;
        let place = usize::from(index.0);
        if let Some((of, slots)) = by_index.get(place)
            && of == number
        {
            return Ok(*slots);
        }
        let slots = descriptor_slots(pool.member(index)?.1)?;
        if by_index.len() <= place {
            by_index.resize(pool.count(), (0, Slots::default()));
        }
        if let Some(known) = by_index.get_mut(place) {
            *known = (*number, slots);
        }
        Ok(slots)
    }

    /// What `instruction` pops and pushes.
    #[inline]
    pub(crate) fn of(
        &mut self,
        pool: &ConstantPool<'_, '_>,
        instruction: &Instruction<'_>,
    ) -> Result<Effect> {
        let op = instruction.op;
        if !op.is(BY_CONSTANT) {
            return Ok(Effect { pop: u16::from(op.pop), push: u16::from(op.push) });
        }
        if instruction.opcode == MULTIANEWARRAY {
            let dimensions = instruction.bytes.last().copied().unwrap_or(0);
            return Ok(Effect { pop: u16::from(dimensions), push: 1 });
        }
        let slots = self.member(pool, CpIndex(instruction.u2()))?;
        let value = slots.value;
        let parameters = slots.parameters;
        Ok(match instruction.opcode {
            GETSTATIC => Effect { pop: 0, push: value },
            PUTSTATIC => Effect { pop: value, push: 0 },
            GETFIELD => Effect { pop: 1, push: value },
            PUTFIELD => Effect { pop: value + 1, push: 0 },
            INVOKESTATIC | INVOKEDYNAMIC => Effect { pop: parameters, push: value },
            _ => Effect { pop: parameters.saturating_add(1), push: value },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_descriptors() {
        for (text, parameters, value) in [
            ("()V", 0, 0),
            ("(IJ[DLjava/lang/String;[[Lx;D)J", 1 + 2 + 1 + 1 + 1 + 2, 2),
            ("(Z)[J", 1, 1),
            ("D", 0, 2),
            ("[D", 0, 1),
            ("Lx;", 0, 1),
        ] {
            let slots = descriptor_slots(Mutf8(text.as_bytes())).unwrap();
            assert_eq!(slots, Slots { parameters, value }, "{text}");
        }
        let count = |text: &str| parameter_count(Mutf8(text.as_bytes())).unwrap();
        assert_eq!((count("()V"), count("(IJ[DLjava/lang/String;[[Lx;D)J")), (0, 6));
    }

    #[test]
    fn malformed_descriptors_are_errors() {
        for text in ["", "(", "()", "(I", "(V)V", "Lx", "II", "[", "()VV", "(L)V", "X"] {
            assert!(descriptor_slots(Mutf8(text.as_bytes())).is_err(), "{text}");
        }
    }
}
