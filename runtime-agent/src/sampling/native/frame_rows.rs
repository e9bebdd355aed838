//! Turns a library's `.eh_frame` into rows that a signal handler can use.

use std::collections::HashMap;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, LittleEndian, RegisterRule, UnwindContext,
    UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};
use sampling_handler::unwind_rows::{FrameEnd, Row, Rule};

/// `sp + 8 + ((pc & 15) >= 11) * 8`: where frames end in a table of jumps.
const JUMP_TABLE: [u8; 11] = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];

type Section<'s> = EhFrame<gimli::EndianSlice<'s, LittleEndian>>;

/// The rows of an `.eh_frame` with these bytes at this address, by the distance from `code`. What cannot be read is left
/// out.
pub(super) fn read(data: &[u8], address: u64, text: u64, code: u64) -> Vec<Row> {
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    let section = EhFrame::new(data, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(address).set_text(text);
    let mut rows = Vec::new();
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
            push(&mut rows, row.start_address(), code, rule(row, &section, data));
        }
        // Overridden by what begins there.
        if let Some(end) = end {
            push(&mut rows, end, code, Rule::UNKNOWN);
        }
    }
    in_order(rows)
}

fn push(rows: &mut Vec<Row>, address: u64, code: u64, rule: Rule) {
    if let Some(from) = address.checked_sub(code).and_then(|from| u32::try_from(from).ok()) {
        rows.push(Row { from, rule });
    }
}

/// Sorts rows. Of several from the same address the last applies that is not unknown.
fn in_order(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_key(|row| (row.from, row.rule != Rule::UNKNOWN));
    let mut sorted: Vec<Row> = Vec::new();
    for row in rows {
        if sorted.last().is_some_and(|last| last.from == row.from) {
            sorted.pop();
        }
        if sorted.last().is_none_or(|last| last.rule != row.rule) {
            sorted.push(row);
        }
    }
    sorted.shrink_to_fit();
    sorted
}

fn rule(row: &UnwindTableRow<usize>, section: &Section<'_>, data: &[u8]) -> Rule {
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
        CfaRule::Expression(expression) if is_jump_table(expression, section, data) => {
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

fn is_jump_table(of: &UnwindExpression<usize>, section: &Section<'_>, _data: &[u8]) -> bool {
    of.get(section).is_ok_and(|expression| expression.0.slice() == JUMP_TABLE)
}
