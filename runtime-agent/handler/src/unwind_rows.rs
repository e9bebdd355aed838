//! How native functions lay out their frames: rows by address, which the agent makes of each library's `.eh_frame`.
//!
//! A library's rows are published once and stay for ever, so a handler reads them without a lock. There are at most
//! [`MOST_LIBRARIES`].
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Most libraries with rows.
pub const MOST_LIBRARIES: usize = 64;

static LIBRARIES: [Library; MOST_LIBRARIES] = [const { Library::new() }; MOST_LIBRARIES];
/// How many of them are published.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// From an address on, how to find the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The first address, from the start of the library's code on.
    pub from: u32,
    /// What applies there.
    pub rule: Rule,
}

/// How to find a frame's caller, in one word: where the frame ends, and where the caller's frame pointer is.
///
/// A frame ends where its caller's begins; the return address is the word before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule(u32);

/// Where a frame ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameEnd {
    /// So many words above the stack pointer.
    AboveSp(u32),
    /// So many words above the frame pointer.
    AboveFp(u32),
    /// As in a table of jumps to other libraries: a word above the stack pointer, in the second part of each entry two.
    JumpTable,
}

impl Rule {
    /// There is no rule.
    pub const UNKNOWN: Self = Self(0);
    /// A thread's first function has no caller.
    pub const OUTERMOST: Self = Self(1);

    const KIND_BITS: u32 = 3;
    const SP: u32 = 2;
    const FP: u32 = 3;
    const JUMP_TABLE: u32 = 4;
    const WORDS_BITS: u32 = 20;
    const SAVED: u32 = Self::KIND_BITS + Self::WORDS_BITS;
    const MOST_SAVED: u32 = 1 << (32 - Self::SAVED);

    /// `saved_fp` is how many words below the frame's end the caller's frame pointer is; 0 if it is in its register.
    #[must_use]
    pub fn new(end: FrameEnd, saved_fp: u32) -> Self {
        let (kind, words) = match end {
            FrameEnd::AboveSp(words) => (Self::SP, words),
            FrameEnd::AboveFp(words) => (Self::FP, words),
            FrameEnd::JumpTable => (Self::JUMP_TABLE, 0),
        };
        if words >= 1 << Self::WORDS_BITS || saved_fp >= Self::MOST_SAVED {
            return Self::UNKNOWN;
        }
        Self(kind | words << Self::KIND_BITS | saved_fp << Self::SAVED)
    }

    /// Where the frame ends; `None` if there is no rule, or no caller.
    #[must_use]
    pub const fn end(self) -> Option<FrameEnd> {
        let words = self.0 >> Self::KIND_BITS & ((1 << Self::WORDS_BITS) - 1);
        match self.0 & ((1 << Self::KIND_BITS) - 1) {
            Self::SP => Some(FrameEnd::AboveSp(words)),
            Self::FP => Some(FrameEnd::AboveFp(words)),
            Self::JUMP_TABLE => Some(FrameEnd::JumpTable),
            _ => None,
        }
    }

    /// How many words below the frame's end the caller's frame pointer is; 0 if it is in its register.
    #[must_use]
    pub const fn saved_fp(self) -> usize {
        (self.0 >> Self::SAVED) as usize
    }
}

/// A library's code and its rows, by address.
#[derive(Debug)]
struct Library {
    start: AtomicUsize,
    /// The address behind its code; 0 once the library was unloaded.
    end: AtomicUsize,
    rows: AtomicPtr<Row>,
    len: AtomicUsize,
}

impl Library {
    const fn new() -> Self {
        Self {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            rows: AtomicPtr::new(core::ptr::null_mut()),
            len: AtomicUsize::new(0),
        }
    }

    fn rule(&self, offset: usize) -> Rule {
        let (rows, len) = (self.rows.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed));
        // SAFETY: `publish` got this many rows, which stay for ever.
        let rows = unsafe { core::slice::from_raw_parts(rows, len) };
        let offset = offset as u32;
        let after = rows.partition_point(|row| row.from <= offset);
        let row = after.checked_sub(1).and_then(|at| rows.get(at));
        row.map_or(Rule::UNKNOWN, |row| row.rule)
    }
}

/// Whether there may be more libraries.
#[must_use]
pub fn has_room() -> bool {
    COUNT.load(Ordering::Relaxed) < MOST_LIBRARIES
}

/// Publishes the rows of a library whose code is from `start` to `end`. Returns its number; `None` if there are too
/// many libraries. Only one thread may call this.
pub fn publish(start: usize, end: usize, rows: &'static [Row]) -> Option<usize> {
    let number = COUNT.load(Ordering::Relaxed);
    let library = LIBRARIES.get(number)?;
    library.start.store(start, Ordering::Relaxed);
    library.rows.store(rows.as_ptr().cast_mut(), Ordering::Relaxed);
    library.len.store(rows.len(), Ordering::Relaxed);
    library.end.store(end, Ordering::Release);
    COUNT.store(number + 1, Ordering::Release);
    Some(number)
}

/// The library with this number was unloaded: other code may be at its place.
pub fn withdraw(number: usize) {
    if let Some(library) = LIBRARIES.get(number) {
        library.end.store(0, Ordering::Release);
    }
}

/// Where the code of the library with this number is, unless it was unloaded.
#[must_use]
pub fn code(number: usize) -> Option<(usize, usize)> {
    let library = LIBRARIES.get(number).filter(|_| number < COUNT.load(Ordering::Acquire))?;
    let end = library.end.load(Ordering::Acquire);
    (end != 0).then(|| (library.start.load(Ordering::Relaxed), end))
}

/// The rule for an address; `None` if no library with rows has it.
pub(crate) fn rule(pc: usize) -> Option<Rule> {
    let count = COUNT.load(Ordering::Acquire);
    let libraries = LIBRARIES.iter().take(count);
    for library in libraries {
        let (end, start) =
            (library.end.load(Ordering::Acquire), library.start.load(Ordering::Relaxed));
        if pc >= start && pc < end {
            return Some(library.rule(pc - start));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::boxed::Box;
    use std::vec;

    use super::*;

    #[test]
    fn rules_keep_what_they_say() {
        for end in [FrameEnd::AboveSp(1), FrameEnd::AboveFp(0xf_ffff), FrameEnd::JumpTable] {
            for saved in [0, 2, 511] {
                let rule = Rule::new(end, saved);
                assert_eq!((rule.end(), rule.saved_fp()), (Some(end), saved as usize));
            }
        }
        assert_eq!(Rule::new(FrameEnd::AboveSp(1 << 20), 0), Rule::UNKNOWN);
        assert_eq!(Rule::new(FrameEnd::AboveSp(1), 512), Rule::UNKNOWN);
        assert_eq!([Rule::UNKNOWN.end(), Rule::OUTERMOST.end()], [None; 2]);
    }

    #[test]
    fn an_address_has_the_rule_of_the_row_before_it() {
        let of = |from, words| Row { from, rule: Rule::new(FrameEnd::AboveSp(words), 0) };
        let rows = Box::leak(vec![of(0x10, 1), of(0x20, 2)].into_boxed_slice());
        let start = 0x7000_0000;
        let number = publish(start, start + 0x100, rows).expect("room");
        let end = |offset| rule(start + offset).and_then(Rule::end);
        assert_eq!(end(0xf), None);
        assert_eq!(end(0x10), Some(FrameEnd::AboveSp(1)));
        assert_eq!(end(0x1f), Some(FrameEnd::AboveSp(1)));
        assert_eq!(end(0xff), Some(FrameEnd::AboveSp(2)));
        assert_eq!(rule(start + 0x100), None);
        assert_eq!(code(number), Some((start, start + 0x100)));
        withdraw(number);
        assert_eq!((rule(start + 0x10), code(number)), (None, None));
    }
}
