//! Turns a library's `.eh_frame` into rows that a signal handler can use.
#![allow(unsafe_code)]

use std::collections::HashMap;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, LittleEndian, RegisterRule, UnwindContext,
    UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};
use sampling_handler::unwind_rows::{FrameEnd, Row, Rule};

use super::buffer::{Buffer, Plain};

/// `sp + 8 + ((pc & 15) >= 11) * 8`: where frames end in a table of jumps.
const JUMP_TABLE: [u8; 11] = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];

/// Each row takes at least so many bytes of the section: where registers are popped three, in HotSpot's 11 on average.
const BYTES_OF_ROW: usize = 2;

// SAFETY: two numbers.
unsafe impl Plain for Row {}

type Section<'s> = EhFrame<gimli::EndianSlice<'s, LittleEndian>>;

/// The rows of an `.eh_frame` with these bytes at this address, by the distance from `code`. What cannot be read is
/// left out; `None` if there is no room for them.
pub(super) fn read(data: &[u8], address: u64, text: u64, code: u64) -> Option<Buffer<Row>> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let section = EhFrame::new(data, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(address).set_text(text);
    let mut rows = Buffer::with_room(data.len() / BYTES_OF_ROW)?;
    let mut context = UnwindContext::new();
    let mut common = HashMap::new();
    let mut entries = section.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let entry = partial.parse(|section, bases, offset| {
            let known = common.get(&offset.0).cloned();
            known.map_or_else(
                || {
                    let entry = section.cie_from_offset(bases, offset)?;
                    common.insert(offset.0, entry.clone());
                    Ok(entry)
                },
                Ok,
            )
        });
        let Ok(entry) = entry else { continue };
        let Ok(mut table) = entry.rows(&section, &bases, &mut context) else { continue };
        let mut end = None;
        while let Ok(Some(row)) = table.next_row() {
            end = Some(row.end_address());
            if row.start_address() < row.end_address() {
                push(&mut rows, row.start_address(), code, rule(row, &section))?;
            }
        }
        // Overridden by what begins there.
        if let Some(end) = end {
            push(&mut rows, end, code, Rule::UNKNOWN)?;
        }
    }
    // Of several rows from the same address, one that is known applies.
    rows.sort(|row| (row.from, row.rule != Rule::UNKNOWN));
    rows.keep_last(|row, next| row.from == next.from);
    rows.keep_first(|row, next| row.rule == next.rule);
    rows.shrunk()
}

fn push(rows: &mut Buffer<Row>, address: u64, code: u64, rule: Rule) -> Option<()> {
    match address.checked_sub(code).and_then(|from| u32::try_from(from).ok()) {
        Some(from) => rows.push(Row { from, rule }),
        None => Some(()),
    }
}

fn rule(row: &UnwindTableRow<usize>, section: &Section<'_>) -> Rule {
    match row.register(X86_64::RA) {
        RegisterRule::Undefined => return Rule::OUTERMOST,
        RegisterRule::Offset(-8) => {}
        _ => return Rule::UNKNOWN,
    }
    let end = match row.cfa() {
        CfaRule::RegisterAndOffset { register: X86_64::RSP, offset } => {
            words(*offset).map(FrameEnd::AboveSp)
        }
        CfaRule::RegisterAndOffset { register: X86_64::RBP, offset } => {
            words(*offset).map(FrameEnd::AboveFp)
        }
        CfaRule::Expression(expression) if is_jump_table(expression, section) => {
            Some(FrameEnd::JumpTable)
        }
        _ => None,
    };
    let saved_fp = match row.register(X86_64::RBP) {
        RegisterRule::Undefined | RegisterRule::SameValue => Some(0),
        RegisterRule::Offset(offset) => words(-offset),
        _ => None,
    };
    end.zip(saved_fp).map_or(Rule::UNKNOWN, |(end, saved_fp)| Rule::new(end, saved_fp))
}

/// A positive number of bytes in words.
fn words(bytes: i64) -> Option<u32> {
    let words = u32::try_from(bytes / 8).ok()?;
    (bytes % 8 == 0 && words > 0).then_some(words)
}

fn is_jump_table(of: &UnwindExpression<usize>, section: &Section<'_>) -> bool {
    of.get(section).is_ok_and(|expression| expression.0.slice() == JUMP_TABLE)
}
