//! Walks the frames of the interrupted thread, from the innermost outwards: native ones on top, then Java's.
//!
//! HotSpot has no function for it that may be called anywhere. So the walker knows how frames are laid out on x86-64:
//! interpreted, compiled with what is inlined, stubs, and the frames through which native code calls Java. It only
//! reads, through [`Memory`]. Each step must go up the stack, so every walk ends.
//!
//! Native frames on top are passed by their libraries' rows ([`crate::unwind_rows`]), or else skipped by the thread's
//! last Java frame, which HotSpot notes on the way out of Java code, or by frame pointers.
#![allow(unsafe_code)]

mod blob;
mod code;
mod compiled;
mod interpreted;
mod method;
mod native;

use core::mem::MaybeUninit;

use self::blob::{Blob, Kind};
use crate::memory::Memory;
pub use crate::registers::Registers;
use crate::vm_layout::Layout;

/// Most frames of a walk.
pub const MAX_FRAMES: usize = 256;
/// Most frames of any kind that a walk passes.
const MAX_STEPS: u32 = 1_024;
/// Most words that code pushes onto its frame.
const MOST_PUSHED: usize = 16;
/// `push rbp` and `ret`.
const PUSH: u8 = 0x55;
const RETURN: u8 = 0xc3;
/// The stub that a compiled method calls on entry, if it must be checked first, pushes this before the frame pointer.
const ENTRY_COOKIE: usize = usize::MAX;
/// How far apart two frames may be.
const LARGE_FRAME: usize = 0x4_0000;

/// A frame in one word. Of a Java frame it has the method's `jmethodID`, which is even, and the index in its bytecode;
/// of native code, the kernel's included, the address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame(u64);

impl Frame {
    const NO_INDEX: u64 = 0xffff;
    const NATIVE: u64 = 1 << 16;
    /// Instead of an index, in frames of the kernel.
    const KERNEL: u64 = 0xfffe;
    /// Addresses of the kernel begin with ones, those of processes with zeros.
    const OF_KERNEL: usize = !0 << 47;

    /// `id` is 0 for a method without an id; a negative index is unknown.
    #[must_use]
    pub fn new(id: usize, index: i32) -> Self {
        let index = u16::try_from(index).map_or(Self::NO_INDEX, u64::from);
        Self((id as u64) << 16 & !Self::NATIVE | index)
    }

    /// The frame of native code: of the instruction that is interrupted, or calls.
    #[must_use]
    pub const fn of_native(pc: usize) -> Self {
        Self((pc as u64) << 17 | Self::NATIVE | Self::NO_INDEX)
    }

    /// The address of native code; `None` for a Java frame and for one of the kernel.
    #[must_use]
    pub const fn native(self) -> Option<usize> {
        self.address(Self::NO_INDEX)
    }

    /// The frame of code of the kernel: of the instruction that is interrupted, or calls.
    #[must_use]
    pub const fn of_kernel(pc: usize) -> Self {
        Self((pc as u64) << 17 | Self::NATIVE | Self::KERNEL)
    }

    /// The address of code of the kernel; `None` for another frame.
    #[must_use]
    pub const fn kernel(self) -> Option<usize> {
        match self.address(Self::KERNEL) {
            Some(address) => Some(address | Self::OF_KERNEL),
            None => None,
        }
    }

    /// The address of code that is not Java's, if the frame is of this kind.
    const fn address(self, kind: u64) -> Option<usize> {
        let is_of_kind = self.0 & (Self::NATIVE | Self::NO_INDEX) == Self::NATIVE | kind;
        if is_of_kind { Some((self.0 >> 17) as usize) } else { None }
    }

    /// The frame of this word.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The frame as a word.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The method's `jmethodID`, or 0. A key only: its class may be unloaded.
    #[must_use]
    pub const fn id(self) -> usize {
        (self.0 >> 16) as usize
    }

    /// The index in the method's bytecode, if known.
    #[must_use]
    pub const fn index(self) -> Option<u16> {
        let index = self.0 & Self::NO_INDEX;
        if index == Self::NO_INDEX { None } else { Some(index as u16) }
    }
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// At the thread's first Java frame.
    Whole = 0,
    /// At a virtual thread's first frame: its carrier's frames are below.
    Continuation = 1,
    /// After [`MAX_FRAMES`] frames or too many steps.
    Deep = 2,
    /// The thread runs no Java code.
    NoJava = 3,
    /// The frame's code is not in the code cache.
    Code = 4,
    /// A frame of the interpreter was not understood.
    Interpreted = 5,
    /// A compiled frame was not understood.
    Compiled = 6,
    /// A frame through which native code calls Java was not understood.
    Entry = 7,
    /// A stub's frame was not understood.
    Stub = 8,
    /// Native frames on top could not be skipped.
    Native = 9,
    /// The next frame is not further up on the thread's stack.
    OutOfStack = 10,
    /// The walker is off, or could not read memory safely.
    Off = 11,
}

impl End {
    /// A name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Continuation => "continuation",
            Self::Deep => "deep",
            Self::NoJava => "no_java",
            Self::Code => "code",
            Self::Interpreted => "interpreted",
            Self::Compiled => "compiled",
            Self::Entry => "entry",
            Self::Stub => "stub",
            Self::Native => "native",
            Self::OutOfStack => "out_of_stack",
            Self::Off => "off",
        }
    }

    /// All of them, by number.
    pub const ALL: [Self; 12] = [
        Self::Whole,
        Self::Continuation,
        Self::Deep,
        Self::NoJava,
        Self::Code,
        Self::Interpreted,
        Self::Compiled,
        Self::Entry,
        Self::Stub,
        Self::Native,
        Self::OutOfStack,
        Self::Off,
    ];

    /// The one with this number.
    #[must_use]
    pub fn of(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Off)
    }

    /// Whether a walk that ended so has all frames, or all of a virtual thread.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        matches!(self, Self::Whole | Self::Continuation | Self::NoJava)
    }
}

/// The frames that a walk found: native ones on top, then Java's.
#[derive(Debug)]
pub struct Frames<'f> {
    slots: &'f mut [MaybeUninit<u64>],
    /// How many of the slots are written.
    found: usize,
    /// How many of these, from the first on, are of native code.
    natives: usize,
}

impl<'f> Frames<'f> {
    /// Room for as many frames as there are slots.
    pub fn new(slots: &'f mut [MaybeUninit<u64>]) -> Self {
        Self { slots, found: 0, natives: 0 }
    }

    /// Frames that were written before, for tests.
    #[cfg(test)]
    pub(crate) fn of_words(slots: &'f mut [MaybeUninit<u64>], found: usize) -> Self {
        Self { slots, found, natives: 0 }
    }

    /// How many were found.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.found
    }

    /// Whether none was found.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.found == 0
    }

    /// Whether there are Java frames among them.
    const fn has_java(&self) -> bool {
        self.found > self.natives
    }

    /// What was found, the innermost first.
    pub fn words(&self) -> &[u64] {
        let found = self.slots.get(..self.found).unwrap_or(&[]);
        // SAFETY: `push` wrote these slots.
        unsafe { &*(core::ptr::from_ref(found) as *const [u64]) }
    }

    fn push(&mut self, frame: Frame) -> Result<(), End> {
        let slot = self.slots.get_mut(self.found).ok_or(End::Deep)?;
        slot.write(frame.word());
        self.found += 1;
        Ok(())
    }

    /// Adds a frame of native code. All Java frames come later.
    fn push_native(&mut self, pc: usize) -> Result<(), End> {
        self.push(Frame::of_native(pc))?;
        self.natives += 1;
        Ok(())
    }
}

/// Where a walk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    pc: usize,
    sp: usize,
    fp: usize,
}

/// A walk in progress.
pub struct Walk<'w, M> {
    memory: M,
    layout: &'w Layout,
    #[cfg(target_arch = "x86_64")]
    registers: Registers,
    at: Place,
    /// The last stack pointer: the next must be higher.
    least_sp: usize,
    /// The stack's end.
    stack_end: usize,
    /// The registers are those of this frame.
    is_top: bool,
    /// Address of the thread's last Java frame, while it may be needed; else 0.
    anchor: usize,
    is_java_thread: bool,
    /// How many native frames were passed.
    natives: u32,
    /// One of them by the frame pointer, which may be no such: those below it are not told.
    is_guess: bool,
}

impl<'w, M: Memory> Walk<'w, M> {
    /// The walk of a thread: `java_thread` is its `JavaThread`, `stack_end` the address behind its stack.
    pub fn new(
        memory: M,
        layout: &'w Layout,
        registers: Registers,
        java_thread: usize,
        stack_end: usize,
    ) -> Self {
        let Registers { pc, sp, fp, .. } = registers;
        Self {
            memory,
            layout,
            #[cfg(target_arch = "x86_64")]
            registers,
            at: Place { pc, sp, fp },
            least_sp: sp,
            stack_end,
            is_top: true,
            anchor: if java_thread == 0 { 0 } else { java_thread + layout.anchor.of_thread },
            is_java_thread: java_thread != 0,
            natives: 0,
            is_guess: false,
        }
    }

    /// The walk of a thread that stands still outside of Java code, from its last Java frame; `None` if it has none, as
    /// a thread that runs Java code.
    pub fn of_waiting(memory: M, layout: &'w Layout, java_thread: usize) -> Option<Self> {
        let stack_end = memory.word(java_thread + layout.stack_base)?;
        let mut walk = Self::new(memory, layout, Registers::default(), java_thread, stack_end);
        walk.go_to_last_java_frame(End::Native).ok()?;
        Some(walk)
    }

    /// Walks to the end.
    pub fn run(mut self, frames: &mut Frames<'_>) -> End {
        for _ in 0..MAX_STEPS {
            let Place { sp, pc, .. } = self.at;
            if sp < self.least_sp || sp >= self.stack_end || sp & 7 != 0 {
                return End::OutOfStack;
            }
            self.least_sp = sp;
            let step = if self.layout.code.contains(pc) {
                self.pass_code(frames)
            } else {
                self.pass_native(frames)
            };
            if let Err(end) = step {
                return end;
            }
        }
        End::Deep
    }

    /// Goes on at a caller.
    fn go_to(&mut self, pc: usize, sp: usize, fp: usize) -> Result<(), End> {
        self.at = Place { pc, sp, fp };
        self.is_top = false;
        Ok(())
    }

    /// Goes on at the caller of a frame that has only its return address on the stack.
    fn leave_bare(&mut self, otherwise: End) -> Result<(), End> {
        let Place { sp, fp, .. } = self.at;
        let pc = self.word(sp, otherwise)?;
        // The call is before the return address.
        self.go_to(pc.wrapping_sub(1), sp + 8, fp)
    }

    /// Goes on at the caller of a frame of this many words, whose last two are the caller's frame pointer and the
    /// return address.
    fn leave_sized(&mut self, words: usize, otherwise: End) -> Result<(), End> {
        let sp = self.at.sp.wrapping_add(words.wrapping_mul(8));
        let fp = self.word(sp.wrapping_sub(16), otherwise)?;
        let pc = self.word(sp.wrapping_sub(8), otherwise)?;
        self.go_to(pc, sp, fp)
    }

    fn word(&self, address: usize, otherwise: End) -> Result<usize, End> {
        self.memory.word(address).ok_or(otherwise)
    }

    /// The thread's last Java frame, if it is outside of Java code.
    fn last_java_frame(&self) -> Option<Place> {
        if self.anchor == 0 {
            return None;
        }
        let offsets = self.layout.anchor;
        let sp = self.memory.word(self.anchor + offsets.sp).filter(|sp| *sp != 0)?;
        let pc = self.memory.word(self.anchor + offsets.pc)?;
        let fp = self.memory.word(self.anchor + offsets.fp)?;
        Some(Place { pc, sp, fp })
    }

    /// Passes a frame in the code cache.
    fn pass_code(&mut self, frames: &mut Frames<'_>) -> Result<(), End> {
        // The JVM's own threads run stubs at most.
        if !self.is_java_thread {
            return Err(End::NoJava);
        }
        let Some(blob) = self.blob(self.at.pc) else {
            return self.go_to_last_java_frame(End::Code);
        };
        // While the thread is outside of Java code, its last Java frame is certain, and what is on top is not.
        if !frames.has_java()
            && !blob.kind.is_stub_routine()
            && let Some(place) = self.last_java_frame().filter(|place| place.pc != 0)
        {
            self.anchor = 0;
            self.is_top = false;
            let is_elsewhere = place.pc != self.at.pc;
            self.at = place;
            if is_elsewhere {
                return Ok(());
            }
        }
        match blob.kind {
            Kind::Interpreter => self.pass_interpreted(frames),
            Kind::Compiled => self.pass_compiled(&blob, frames),
            _ if self.at.pc == self.layout.code.call_stub_return => self.pass_entry(frames),
            Kind::Continuation => Err(End::Continuation),
            _ => self.pass_stub(&blob).or_else(|end| match frames.has_java() {
                true => Err(end),
                false => self.go_to_last_java_frame(end),
            }),
        }
    }

    /// Passes the frame through which native code called Java, to the Java frame below.
    fn pass_entry(&mut self, frames: &Frames<'_>) -> Result<(), End> {
        let Layout { entry_wrapper, wrapper_anchor, anchor, .. } = *self.layout;
        let fp = self.at.fp;
        let wrapper = self.word(fp.wrapping_add_signed(entry_wrapper * 8), End::Entry)?;
        // It is a variable of the native function that called.
        if !crate::memory::is_pointer(wrapper) || wrapper.wrapping_sub(fp) > 512 {
            return Err(End::Entry);
        }
        let below = wrapper + wrapper_anchor;
        let pc = self.word(below + anchor.pc, End::Entry)?;
        let sp = self.word(below + anchor.sp, End::Entry)?;
        if pc == 0 || sp == 0 {
            return Err(if frames.has_java() { End::Whole } else { End::NoJava });
        }
        let fp = self.word(below + anchor.fp, End::Entry)?;
        self.go_to(pc, sp, fp)
    }

    /// Passes the frame of a stub.
    fn pass_stub(&mut self, blob: &Blob) -> Result<(), End> {
        let Place { pc, sp, fp } = self.at;
        let is_return = self.memory.byte(pc) == Some(RETURN);
        if is_return || blob.kind == Kind::Table {
            return self.leave_bare(End::Stub);
        }
        // About to keep a frame pointer: `push rbp`, `mov rbp, rsp`.
        if self.is_top
            && let Some(frame) = self.begun_frame(pc)
            && let Some(returns) = self.code_at(sp + frame)
        {
            let caller_fp = if frame == 0 { fp } else { self.word(sp, End::Stub)? };
            return self.go_to(returns - 1, sp + frame + 8, caller_fp);
        }
        if blob.frame_size > 0 {
            return self.leave_sized(blob.frame_size, End::Stub);
        }
        // Routines that call, or use many registers, keep one. What C1 calls, and adapters, push registers at most, and
        // leave the caller's frame pointer where it is.
        if blob.kind.is_stub_routine() {
            if let Some(caller) = self.caller_by_frame_pointer() {
                return caller;
            }
            if self.code_at(sp).is_some() {
                return self.leave_bare(End::Stub);
            }
            // Native code called it, whose variables may look like return addresses.
            if self.last_java_frame().is_some() {
                return Err(End::Stub);
            }
        }
        if let Some(place) = self.return_address(sp) {
            let returns = self.word(place, End::Stub)?;
            return self.go_to(returns - 1, self.sender_sp(place, returns), fp);
        }
        self.caller_by_frame_pointer().unwrap_or(Err(End::Stub))
    }

    /// Goes on at the caller of a frame that keeps a frame pointer, if this looks like one.
    fn caller_by_frame_pointer(&mut self) -> Option<Result<(), End>> {
        let Place { sp, fp, .. } = self.at;
        let is_near = fp >= sp && fp < sp + 0x1000;
        let above = if is_near { self.memory.word(fp + 8)? } else { return None };
        let place = if above == ENTRY_COOKIE { fp + 16 } else { fp + 8 };
        let returns = self.code_at(place)?;
        let caller_fp = self.memory.word(fp)?;
        Some(self.go_to(returns - 1, place + 8, caller_fp))
    }

    /// The word at an address, if it is an address in the code cache.
    fn code_at(&self, address: usize) -> Option<usize> {
        self.memory.word(address).filter(|pc| self.layout.code.contains(*pc))
    }

    /// Where the first return address is on the stack, from `sp` on. Only words that are pushed may be before it.
    fn return_address(&self, sp: usize) -> Option<usize> {
        let mut places = (0..MOST_PUSHED).map(|index| sp + 8 * index);
        let is_it = |at, pc| at == sp || self.is_after_call(pc);
        places.find(|place| self.code_at(*place).is_some_and(|pc| is_it(*place, pc)))
    }

    /// The caller's stack pointer. An adapter between interpreted and compiled code may have copied the return address
    /// down, to make room for arguments; then a register has it.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    fn sender_sp(&self, place: usize, returns: usize) -> usize {
        let sp = place + 8;
        #[cfg(target_arch = "x86_64")]
        if self.is_top {
            let sender = self.registers.r13;
            let is_near = sender > sp && sender - sp < LARGE_FRAME && sender & 7 == 0;
            if is_near && self.memory.word(sender - 8) == Some(returns) {
                return sender;
            }
        }
        sp
    }

    /// How much of a frame with a frame pointer the next instruction finds on the stack, if it makes one.
    fn begun_frame(&self, pc: usize) -> Option<usize> {
        let is_mov = |at| {
            let word = self.memory.word(at).unwrap_or(0).to_ne_bytes();
            matches!(word, [0x48, 0x8b, 0xec, ..] | [0x48, 0x89, 0xe5, ..])
        };
        let is_push = |at| self.memory.byte(at) == Some(PUSH);
        if is_push(pc) && is_mov(pc + 1) {
            return Some(0);
        }
        (is_mov(pc) && is_push(pc - 1)).then_some(8)
    }

    /// Whether the instruction before an address is a call: of an address, by a register, or through memory.
    fn is_after_call(&self, pc: usize) -> bool {
        let word = self.memory.word(pc.wrapping_sub(8)).unwrap_or(0).to_ne_bytes();
        matches!(
            word,
            [_, _, _, 0xe8, ..]
                | [.., 0xff, 0xd0..=0xd7]
                | [.., 0xff, 0x50..=0x57, _]
                | [_, _, 0xff, 0x90..=0x97, ..]
        )
    }

    /// Goes on at the thread's last Java frame.
    fn go_to_last_java_frame(&mut self, otherwise: End) -> Result<(), End> {
        let Place { pc, sp, fp } = self.last_java_frame().ok_or(otherwise)?;
        self.anchor = 0;
        // The return address of the call out of Java code is below the stack pointer.
        let pc = if pc == 0 { self.word(sp.wrapping_sub(8), otherwise)? } else { pc };
        if !self.layout.code.contains(pc) {
            return Err(End::Native);
        }
        self.least_sp = 0;
        self.go_to(pc, sp, fp)
    }
}
