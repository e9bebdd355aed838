//! Loads from memory that may not be mapped, in a process with the handlers of faults.
#![allow(unsafe_code, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::expect_used, clippy::indexing_slicing)]

use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use sampling_handler::load;
use sampling_handler::memory::{Memory, Process};
use sampling_handler::signal::{self, KernelAction};
use sampling_handler::vm_layout::{
    Anchor, Blob, CodeCache, Compiled, Layout, Metadata, Method, Number, Start,
};
use sampling_handler::walk::{Frames, MAX_FRAMES, Registers, Walk};

const SIGSEGV: c_int = 11;
const SIGBUS: c_int = 7;
const SA_SIGINFO: usize = 4;

static OTHERS: AtomicU32 = AtomicU32::new(0);

/// The handler that was there before: it gets what is not ours.
extern "C" fn other(_signal: c_int, _info: *mut c_void, _context: *mut c_void) {
    OTHERS.fetch_add(1, Ordering::Relaxed);
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for number in [SIGSEGV, SIGBUS] {
            let before = KernelAction::new(other as *const () as usize, SA_SIGINFO, 0);
            assert!(signal::replace_action(number, &before).is_some());
            let before = signal::action(number).expect("an action");
            load::set_before(0, number, before.handler, before.flags);
            let own = KernelAction::new(load::handler(0), SA_SIGINFO, 0);
            assert!(signal::replace_action(number, &own).is_some());
        }
    });
}

#[test]
fn what_cannot_be_read_is_nothing_and_all_else_is_right() {
    install();
    let words = [7_usize, usize::MAX, 0x7470_6661_756c_7465, 0x0102_0304_0506_0708];
    for word in &words {
        assert_eq!(load::word(std::ptr::from_ref(word).addr()), Some(*word));
    }
    let last = std::ptr::from_ref(&words[3]).addr();
    assert_eq!((Process.int(last), Process.int(last + 4)), (Some(0x0506_0708), Some(0x0102_0304)));
    assert_eq!((Process.short(last + 2), Process.byte(last + 7)), (Some(0x0506), Some(1)));
    let before = load::faults();
    for address in [0, 8, 4096, 1 << 47, usize::MAX - 7, usize::MAX / 2] {
        assert_eq!(load::word(address), None, "{address:x}");
    }
    assert!(load::faults() > before);
}

#[test]
fn signals_of_others_reach_the_handler_before() {
    install();
    let before = OTHERS.load(Ordering::Relaxed);
    let process = std::process::id();
    let sent = std::process::Command::new("kill").args(["-SEGV", &process.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    while OTHERS.load(Ordering::Relaxed) == before {
        std::thread::yield_now();
    }
}

/// A layout with plausible offsets, and a code cache that is this program's own code.
fn layout(low: usize) -> Layout {
    let mut heaps = [0; 8];
    heaps[0] = low;
    Layout {
        anchor: Anchor { of_thread: 0x300, sp: 0, pc: 8, fp: 16 },
        thread_state: 0x400,
        stack_base: 0x500,
        blob: Blob {
            name: 8,
            frame_size: 24,
            frame_complete: Number::Int(28),
            code: Start::Offset(32),
        },
        compiled: Compiled {
            method: 64,
            scopes_pcs: 72,
            scopes_data: Start::Offset(80),
            immutable_data: Some(88),
            metadata: Metadata::Mutable { data: 96, relocation_size: 104 },
            entry: None,
            original_pc: 112,
            packed_base: 1,
        },
        method: Method {
            constant: 8,
            pool: 8,
            number: 16,
            original_number: Some(18),
            constant_size: 48,
            holder: 24,
            ids: 400,
        },
        wrapper_anchor: 32,
        entry_wrapper: -6,
        code: CodeCache {
            heaps,
            memory_low: 0,
            memory_high: 8,
            segments_low: 16,
            used: 8,
            segment_shift: 7,
            low,
            high: low + 0x10_0000,
            call_stub_return: low + 64,
        },
    }
}

fn random() -> impl FnMut() -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// Memory that may be anything, or what a walk looks for.
fn memory(random: &mut impl FnMut() -> u64) -> Vec<usize> {
    // Words that look like names of code, like pointers into the memory itself, or like anything.
    let names = [
        *b"nmethod\0",
        *b"Interpre",
        *b"StubRout",
        *b"Cont x\0\0",
        *b"itable\0\0",
        *b"other\0\0\0",
    ];
    let mut memory = vec![0_usize; 1 << 16];
    let start = memory.as_ptr().addr();
    let bytes = memory.len() * 8;
    let name_at = |number: usize| start + 64 + 8 * (number % names.len());
    for word in &mut memory {
        *word = match random() % 8 {
            0 | 1 => start + ((random() as usize % bytes) & !7),
            2 => random() as usize % 1_000,
            3 => random() as usize,
            4 => name_at(random() as usize),
            // Bytes that are numbers of segments, or flags.
            5 => (random() & 0x0101_0101_0101_0101) as usize,
            _ => 0,
        };
    }
    // The heap, which is its own list of segments.
    memory[0] = start;
    memory[1] = start + bytes;
    memory[2] = start + bytes / 2;
    for (at, name) in names.iter().enumerate() {
        memory[8 + at] = usize::from_ne_bytes(*name);
    }
    memory
}

/// From random registers, over memory that is partly mapped, every walk ends, without a crash.
#[test]
fn random_walks_end() {
    install();
    let walks: u64 =
        std::env::var("RANDOM_WALKS").map_or(200_000, |text| text.parse().expect("a number"));
    let mut random = random();
    let memory = memory(&mut random);
    let start = memory.as_ptr().addr();
    let bytes = memory.len() * 8;
    let layout = layout(start);
    let mut ends = std::collections::HashMap::new();
    for _ in 0..walks {
        let mut address = || match random() % 8 {
            0 => random() as usize,
            1 => start + random() as usize % bytes,
            2..=4 => start + ((random() as usize % (bytes / 16)) & !7),
            _ => start + ((random() as usize % bytes) & !7),
        };
        let registers = Registers {
            pc: address(),
            sp: address(),
            fp: address(),
            #[cfg(target_arch = "x86_64")]
            rbx: address(),
            #[cfg(target_arch = "x86_64")]
            r13: address(),
        };
        let (java_thread, stack_end) = (address(), start + bytes);
        let mut slots = [const { std::mem::MaybeUninit::uninit() }; MAX_FRAMES];
        let mut frames = Frames::new(&mut slots);
        let end = Walk::new(Process, &layout, registers, java_thread, stack_end).run(&mut frames);
        *ends.entry(end.name()).or_insert(0_u64) += 1;
    }
    println!("{ends:?}");
    assert!(ends.len() > 6, "{ends:?}");
}
