//! Walks from random registers, for a test: none may escape from the guard, and each must end.

use std::mem::MaybeUninit;

use sampling_handler::memory::Process;
use sampling_handler::unwind_rows;
use sampling_handler::vm_layout::Layout;
use sampling_handler::walk::{Frames, MAX_FRAMES, Registers, Walk};

/// The first libraries with rows, the JVM's among them.
const LIBRARIES: usize = 4;
/// Walks in a round.
const ROUND: u32 = 50_000;

/// Xorshift: any sequence will do, and the same each time is best.
#[derive(Debug)]
pub(super) struct RandomWalks {
    state: u64,
}

impl RandomWalks {
    pub(super) fn new() -> Self {
        Self { state: 0x9e37_79b9_7f4a_7c15 }
    }

    fn next(&mut self) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state).unwrap_or(0)
    }

    /// An address near one of these places, or any.
    fn near(&mut self, places: [usize; 3]) -> usize {
        let (choice, random) = (self.next(), self.next());
        match places.get(choice & 3) {
            // Most registers are aligned.
            Some(place) if choice & 4 == 0 => place.wrapping_add(random & 0xfff8),
            Some(place) => place.wrapping_sub(random & 0xffff),
            None => random >> (choice >> 3 & 31),
        }
    }

    /// An address of code whose library has rows.
    fn in_library(&mut self) -> Option<usize> {
        let (start, end) = unwind_rows::code(self.next() % LIBRARIES)?;
        Some(start + self.next() % (end - start).max(1))
    }

    /// Walks from other registers each time. Returns how many walks that were.
    pub(super) fn round(&mut self, layout: &Layout, java_threads: &[usize]) -> u32 {
        let variable = 0;
        let own_stack = (&raw const variable).addr();
        let code = layout.code;
        for _ in 0..ROUND {
            let part = self.next() % (code.high - code.low).max(1);
            let java_thread = match java_threads.get(self.next() % (java_threads.len() + 1)) {
                Some(java_thread) => *java_thread,
                None => self.near([own_stack, code.low, 0]),
            };
            let places = [own_stack, java_thread, code.low + part];
            let native = self.in_library().unwrap_or(code.low + part);
            let registers = Registers {
                pc: self.near([code.low + part, native, own_stack]),
                sp: self.near(places),
                fp: self.near(places),
                #[cfg(target_arch = "x86_64")]
                rbx: self.near(places),
                #[cfg(target_arch = "x86_64")]
                r13: self.near(places),
            };
            let stack_end = self.near([own_stack + (1 << 20), usize::MAX, own_stack]);
            let mut slots = [const { MaybeUninit::uninit() }; MAX_FRAMES];
            Walk::new(Process, layout, registers, java_thread, stack_end)
                .run(&mut Frames::new(&mut slots));
        }
        ROUND
    }
}
