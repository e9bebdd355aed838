//! Names of the kernel's functions: `/proc/kallsyms`, which has some 120,000 of them.
//!
//! Reading it takes the kernel some 40 ms, and its names 3 MB. So a thread of its own reads it, once samples in the
//! kernel stand for a tenth of a second.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::sync::mpsc::{self, Receiver, TryRecvError};

use super::buffer::{Buffer, Plain};
use crate::sys::native_thread::{self, Priority};

const PATH: &str = "/proc/kallsyms";
/// CPU time in the kernel after which names are read.
const WORTH_IT_NS: u64 = 100_000_000;
/// Most functions.
const MOST: usize = 1 << 19;
/// Lines that say whether there are addresses.
const LOOKED_AT: usize = 100;
/// The longest name that is kept.
const LONGEST_NAME: usize = 200;

/// A function, by its distance from the first one.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    start: u32,
    /// Where its name ends among the names, and its length.
    name_end: u32,
    name_len: u32,
}

// SAFETY: three numbers.
#[allow(unsafe_code)]
unsafe impl Plain for Symbol {}

/// The kernel's functions.
#[derive(Debug)]
struct Symbols {
    first: usize,
    symbols: Buffer<Symbol>,
    names: Buffer<u8>,
}

/// What is known of the kernel.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    sampled_ns: u64,
    is_asked: bool,
    answer: Option<Receiver<Option<Symbols>>>,
    symbols: Option<Symbols>,
}

/// Why functions of the kernel have no names here; `None` if they have.
pub(in crate::sampling) fn refusal() -> Option<String> {
    let file = match File::open(PATH) {
        Ok(file) => file,
        Err(error) => return Some(format!("{PATH}: {error}")),
    };
    // Where addresses are hidden, all are 0. The first symbol's may be.
    let mut first = BufReader::new(file).lines().take(LOOKED_AT).map_while(Result::ok);
    let is_hidden = |line: &String| line.starts_with("0000000000000000 ");
    if first.any(|line| !is_hidden(&line)) {
        return None;
    }
    let level = |name| {
        let level = fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        format!("{name}={}", level.trim())
    };
    // Both hide them from some users.
    Some(format!("{}, {}", level("kptr_restrict"), level("perf_event_paranoid")))
}

/// Address and name of a line, if it is a function whose address the kernel says.
fn parsed(line: &str) -> Option<(usize, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    let address = usize::from_str_radix(address, 16).ok()?;
    let is_function = matches!(kind, "t" | "T" | "w" | "W");
    (is_function && address > usize::MAX / 2).then_some((address, name))
}

impl Symbols {
    fn read(most_bytes: u64) -> Option<Self> {
        Self::of(BufReader::with_capacity(1 << 16, File::open(PATH).ok()?), most_bytes)
    }

    fn of(mut lines: impl BufRead, most_bytes: u64) -> Option<Self> {
        let most = usize::try_from(most_bytes).ok()?;
        let mut found: Buffer<Symbol> = Buffer::with_room(MOST)?;
        let mut names: Buffer<u8> = Buffer::with_room(most)?;
        let (mut first, mut line) = (None, String::new());
        while lines.read_line(&mut line).ok()? > 0 {
            if let Some((address, name)) = parsed(&line) {
                let first = *first.get_or_insert(address);
                let name = name.get(..LONGEST_NAME).unwrap_or(name);
                // Modules are no further than 4 GB away.
                if let Ok(start) = u32::try_from(address.wrapping_sub(first)) {
                    name.bytes().try_for_each(|byte| names.push(byte))?;
                    let name_end = u32::try_from(names.as_slice().len()).ok()?;
                    let name_len = u32::try_from(name.len()).ok()?;
                    found.push(Symbol { start, name_end, name_len })?;
                }
            }
            line.clear();
        }
        // Of several names of a function the first.
        found.sort(|symbol| (symbol.start, symbol.name_end));
        found.keep_first(|symbol, next| symbol.start == next.start);
        let (symbols, names) = (found.shrunk()?, names.shrunk()?);
        Some(Self { first: first?, symbols, names })
    }

    fn function(&self, pc: usize) -> Option<u32> {
        let address = u32::try_from(pc.wrapping_sub(self.first)).ok()?;
        let symbols = self.symbols.as_slice();
        let after = symbols.partition_point(|symbol| symbol.start <= address);
        Some(symbols.get(after.checked_sub(1)?)?.start)
    }

    fn name(&self, function: u32) -> Option<String> {
        let symbols = self.symbols.as_slice();
        let at = symbols.binary_search_by_key(&function, |symbol| symbol.start).ok()?;
        let symbol = symbols.get(at)?;
        let end = symbol.name_end as usize;
        let name = self.names.as_slice().get(end.checked_sub(symbol.name_len as usize)?..end)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    fn bytes(&self) -> usize {
        self.symbols.bytes() + self.names.bytes()
    }
}

impl Kernel {
    /// A sample in the kernel stands for this time.
    pub(super) fn add(&mut self, ns: u64) {
        self.sampled_ns = self.sampled_ns.saturating_add(ns);
    }

    /// Takes the names, or has them read. They may take so many bytes.
    pub(super) fn round(&mut self, most_bytes: u64) {
        if let Some(answer) = &self.answer {
            match answer.try_recv() {
                Ok(symbols) => (self.symbols, self.answer) = (symbols, None),
                Err(TryRecvError::Disconnected) => self.answer = None,
                Err(TryRecvError::Empty) => {}
            }
        }
        if self.is_asked || self.sampled_ns < WORTH_IT_NS {
            return;
        }
        self.is_asked = true;
        let (sender, receiver) = mpsc::channel();
        // The agent may have been detached meanwhile.
        let read = move || drop(sender.send(Symbols::read(most_bytes)));
        if native_thread::spawn("tprofiler-elf", Priority::Normal, read).is_ok() {
            self.answer = Some(receiver);
        }
    }

    /// The function at an address, if its name is known.
    pub(super) fn function(&self, pc: usize) -> Option<u32> {
        self.symbols.as_ref()?.function(pc)
    }

    /// A function's name.
    pub(super) fn name(&self, function: u32) -> Option<String> {
        self.symbols.as_ref()?.name(function)
    }

    /// Memory that the names use.
    pub(super) fn bytes(&self) -> usize {
        self.symbols.as_ref().map_or(0, Symbols::bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000400 t do_one_initcall
ffffffff81000900 D data
ffffffffa0001000 t nf_hook\t[nf_tables]
ffffffff81000800 W memcpy
";

    fn name(symbols: &Symbols, pc: usize) -> Option<String> {
        symbols.function(pc).and_then(|function| symbols.name(function))
    }

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let symbols = Symbols::of(LINES.as_bytes(), 1 << 16).expect("symbols");
        for (pc, expected) in [
            (0xffff_ffff_8100_0000, Some("_text")),
            (0xffff_ffff_8100_03ff, Some("_text")),
            (0xffff_ffff_8100_0400, Some("do_one_initcall")),
            (0xffff_ffff_8100_0a00, Some("memcpy")),
            (0xffff_ffff_a000_1001, Some("nf_hook")),
            (0xffff_ffff_80ff_ffff, None),
            (0x7fff_0000_0000, None),
        ] {
            assert_eq!(name(&symbols, pc).as_deref(), expected, "{pc:x}");
        }
    }

    #[test]
    fn without_addresses_or_room_there_are_no_names() {
        let hidden = LINES.replace("ffffffff", "00000000").replace('8', "0").replace("a0", "00");
        assert!(Symbols::of(hidden.as_bytes(), 1 << 16).is_none());
        assert!(Symbols::of(&b""[..], 1 << 16).is_none());
        let long = "ffffffff81000000 T ".to_owned() + &"x".repeat(LONGEST_NAME + 9);
        let symbols = Symbols::of(long.as_bytes(), 4_096).expect("one");
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0001), Some("x".repeat(LONGEST_NAME)));
        let many = format!("{long}\n").repeat(30);
        assert!(Symbols::of(many.as_bytes(), 4_096).is_none());
    }

    /// Of this machine, if it shows them.
    #[test]
    fn this_kernel_has_names_unless_it_hides_them() {
        match (Symbols::read(16 << 20), refusal()) {
            (Some(symbols), None) => {
                assert!(symbols.symbols.as_slice().len() > 10_000);
                assert!(symbols.symbols.as_slice().is_sorted_by_key(|symbol| symbol.start));
            }
            (None, Some(why)) => assert!(!why.is_empty()),
            (symbols, why) => panic!("{} {why:?}", symbols.is_some()),
        }
    }
}
