//! What depends on the processor: raw system calls, the guarded load, and the registers of an interrupted thread.
#![allow(unsafe_code)]

use core::arch::{asm, global_asm};
use core::ffi::{c_int, c_void};

use crate::registers::Registers;

pub(crate) const SIGBUS: c_int = 7;
pub(crate) const SIGSEGV: c_int = 11;
pub(crate) const SIGPROF: c_int = 27;
pub(crate) const SA_SIGINFO: usize = 4;
#[cfg(target_arch = "x86_64")]
const SA_RESTORER: usize = 0x0400_0000;

/// How a signal came, which decides how the default action comes to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restored {
    /// An instruction faulted; it is executed again.
    Fault,
    /// A process sent it; it is sent again.
    Sent,
}

impl Restored {
    /// # Safety
    /// `info` is a signal's `siginfo_t`.
    pub(crate) unsafe fn of_info(info: *const c_void) -> Self {
        // SAFETY: its third field is the code.
        if unsafe { Info::new(info) }.code() > 0 { Self::Fault } else { Self::Sent }
    }
}

/// A signal's `siginfo_t`.
#[derive(Clone, Copy)]
pub(crate) struct Info(*const c_void);

impl Info {
    /// # Safety
    /// It is what the kernel gave a handler, and is used only there.
    pub(crate) unsafe fn new(info: *const c_void) -> Self {
        Self(info)
    }

    /// Calls `pass_on`, and marks the signal meanwhile. If it is marked already by the handler with this number,
    /// `pass_on` gets `true`. The mark is in bytes that the kernel does not use. Some kernels leave old values there,
    /// so it is taken away afterwards.
    ///
    /// # Safety
    /// As of [`new`](Self::new).
    pub(crate) unsafe fn marked(info: *mut c_void, number: usize, pass_on: impl FnOnce(bool)) {
        const LAST: usize = 120;
        const MARK: u64 = 0x7470_7365_656e_0000;
        // SAFETY: as of `int`; the handlers that are called do not use it.
        let last = unsafe { info.byte_add(LAST).cast::<u64>() };
        // SAFETY: as above.
        let before = unsafe { last.read() };
        let seen = if before & !0xff == MARK { before } else { MARK };
        let marked = seen | 1 << (number & 7);
        // SAFETY: as above.
        unsafe { last.write(marked) };
        pass_on(marked == seen);
        // SAFETY: as above.
        unsafe { last.write(before) };
    }

    fn int(self, offset: usize) -> c_int {
        // SAFETY: the structure has 128 bytes, and is aligned to eight.
        unsafe { self.0.byte_add(offset).cast::<c_int>().read() }
    }

    /// Why it was sent.
    pub(crate) fn code(self) -> c_int {
        self.int(8)
    }

    /// Of a timer: how many expirations were not delivered.
    pub(crate) fn overrun(self) -> c_int {
        self.int(20)
    }

    /// Of a descriptor's signal: the descriptor.
    pub(crate) fn descriptor(self) -> c_int {
        self.int(24)
    }

    /// Of a timer: its value.
    pub(crate) fn value(self) -> u64 {
        // SAFETY: as above; the value is at a multiple of eight.
        unsafe { self.0.byte_add(24).cast::<u64>().read() }
    }
}

/// The kernel's `sigaction`.
#[repr(C)]
pub struct KernelAction {
    /// The handler's address; 0 is the default, 1 ignores.
    pub handler: usize,
    /// `SA_` flags.
    pub flags: usize,
    restorer: usize,
    /// The signals that are blocked while it runs.
    pub mask: u64,
}

impl KernelAction {
    /// An action, with the code that a handler returns to.
    #[must_use]
    pub fn new(handler: usize, flags: usize, mask: u64) -> Self {
        #[cfg(target_arch = "x86_64")]
        let (flags, restorer) = (flags | SA_RESTORER, tprofiler_restorer as *const () as usize);
        #[cfg(target_arch = "aarch64")]
        let restorer = 0;
        Self { handler, flags, restorer, mask }
    }
}

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .text.tprofiler_load,\"ax\",@progbits",
    ".globl tprofiler_load",
    ".hidden tprofiler_load",
    ".type tprofiler_load,@function",
    "tprofiler_load:",
    "mov rax, rsi",
    ".globl tprofiler_load_at",
    ".hidden tprofiler_load_at",
    "tprofiler_load_at:",
    "mov rax, [rdi]",
    ".globl tprofiler_load_done",
    ".hidden tprofiler_load_done",
    "tprofiler_load_done:",
    "ret",
    ".size tprofiler_load,.-tprofiler_load",
    ".popsection",
    // As the C library has it, so that debuggers know it.
    ".pushsection .text.tprofiler_restorer,\"ax\",@progbits",
    ".globl tprofiler_restorer",
    ".hidden tprofiler_restorer",
    ".type tprofiler_restorer,@function",
    "nop",
    "tprofiler_restorer:",
    "mov rax, 15",
    "syscall",
    ".size tprofiler_restorer,.-tprofiler_restorer",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .text.tprofiler_load,\"ax\",@progbits",
    ".globl tprofiler_load",
    ".hidden tprofiler_load",
    ".type tprofiler_load,@function",
    "tprofiler_load:",
    "mov x2, x0",
    "mov x0, x1",
    ".globl tprofiler_load_at",
    ".hidden tprofiler_load_at",
    "tprofiler_load_at:",
    "ldr x0, [x2]",
    ".globl tprofiler_load_done",
    ".hidden tprofiler_load_done",
    "tprofiler_load_done:",
    "ret",
    ".size tprofiler_load,.-tprofiler_load",
    ".popsection",
);

unsafe extern "C" {
    fn tprofiler_load(address: usize, otherwise: usize) -> usize;
    fn tprofiler_load_at();
    fn tprofiler_load_done();
    #[cfg(target_arch = "x86_64")]
    fn tprofiler_restorer();
}

/// The word at an address, or `otherwise` if the load faults.
///
/// # Safety
/// A handler of `load` is installed, or the address can be read.
#[inline]
pub(crate) unsafe fn load(address: usize, otherwise: usize) -> usize {
    // SAFETY: the function changes only its result.
    unsafe { tprofiler_load(address, otherwise) }
}

/// SIGILL, SIGTRAP, SIGBUS, SIGFPE and SIGSEGV, as a mask.
pub(crate) const FAULTS: u64 =
    1 << (4 - 1) | 1 << (5 - 1) | 1 << (SIGBUS - 1) | 1 << (8 - 1) | 1 << (SIGSEGV - 1);

/// What a signal interrupted: the kernel's `ucontext_t`.
pub(crate) struct Context(*mut c_void);

#[cfg(target_arch = "x86_64")]
mod offsets {
    //! Of registers in `ucontext_t`: after flags, link and stack.
    const GENERAL: usize = 40;
    pub(super) const R13: usize = GENERAL + 8 * 5;
    pub(super) const FP: usize = GENERAL + 8 * 10;
    pub(super) const RBX: usize = GENERAL + 8 * 11;
    pub(super) const SP: usize = GENERAL + 8 * 15;
    pub(super) const PC: usize = GENERAL + 8 * 16;
    /// The blocked signals, after the registers and a reserved part.
    pub(super) const MASK: usize = GENERAL + 8 * 32;
}

#[cfg(target_arch = "aarch64")]
mod offsets {
    //! Of registers in `ucontext_t`: after flags, link, stack, mask, padding and the fault's address.
    const GENERAL: usize = 184;
    pub(super) const FP: usize = GENERAL + 8 * 29;
    pub(super) const SP: usize = GENERAL + 8 * 31;
    pub(super) const PC: usize = GENERAL + 8 * 32;
    pub(super) const MASK: usize = 40;
}

impl Context {
    /// # Safety
    /// It is what the kernel gave a handler, and is used only there.
    pub(crate) unsafe fn new(context: *mut c_void) -> Self {
        Self(context)
    }

    fn get(&self, offset: usize) -> usize {
        // SAFETY: all offsets are of words within the structure.
        unsafe { self.0.byte_add(offset).cast::<usize>().read() }
    }

    fn set(&mut self, offset: usize, value: usize) {
        // SAFETY: as above; the kernel takes registers from here when the handler returns.
        unsafe { self.0.byte_add(offset).cast::<usize>().write(value) };
    }

    /// If a guarded load was interrupted, lets it go on with its other value.
    pub(crate) fn skip_load(&mut self) -> bool {
        let is_load = self.get(offsets::PC) == tprofiler_load_at as *const () as usize;
        if is_load {
            self.set(offsets::PC, tprofiler_load_done as *const () as usize);
        }
        is_load
    }

    /// Whether the interrupted thread blocks faults: a guarded load that faults would end the process.
    pub(crate) fn blocks_faults(&self) -> bool {
        self.get(offsets::MASK) & (1 << (SIGSEGV - 1) | 1 << (SIGBUS - 1)) != 0
    }

    /// Whether the thread has a stack for handlers that is too small for a walk and a fault in it.
    pub(crate) fn has_small_stack(&self) -> bool {
        // The same on all processors: after flags and link, the address, then these.
        const STACK_FLAGS: usize = 24;
        const STACK_SIZE: usize = 32;
        const DISABLED: u32 = 2;
        const ENOUGH: usize = 32 << 10;
        let flags = self.get(STACK_FLAGS) as u32;
        let size = self.get(STACK_SIZE);
        // A new process may have neither flags nor a stack.
        flags & DISABLED == 0 && size != 0 && size < ENOUGH
    }

    pub(crate) fn registers(&self) -> Registers {
        Registers {
            pc: self.get(offsets::PC),
            sp: self.get(offsets::SP),
            fp: self.get(offsets::FP),
            #[cfg(target_arch = "x86_64")]
            rbx: self.get(offsets::RBX),
            #[cfg(target_arch = "x86_64")]
            r13: self.get(offsets::R13),
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod number {
    pub(super) const RT_SIGACTION: usize = 13;
    pub(super) const IOCTL: usize = 16;
    pub(super) const GETPID: usize = 39;
    pub(super) const GETTID: usize = 186;
    pub(super) const TGKILL: usize = 234;
    pub(super) const CLOCK_GETTIME: usize = 228;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub(super) const IOCTL: usize = 29;
    pub(super) const CLOCK_GETTIME: usize = 113;
    pub(super) const TGKILL: usize = 131;
    pub(super) const RT_SIGACTION: usize = 134;
    pub(super) const GETPID: usize = 172;
    pub(super) const GETTID: usize = 178;
}

/// A system call, without `errno`.
///
/// # Safety
/// As the call's.
unsafe fn call(number: usize, arguments: [usize; 4]) -> isize {
    let result;
    let [a, b, c, d] = arguments;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel's convention; the caller guarantees the rest.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, out("rcx") _, out("r11") _, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the kernel's convention; the caller guarantees the rest.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a => result, in("x1") b, in("x2") c,
            in("x3") d, options(nostack));
    }
    result
}

/// The kernel's number of the calling thread.
pub(crate) fn gettid() -> u32 {
    // SAFETY: has no preconditions.
    (unsafe { call(number::GETTID, [0; 4]) }).cast_unsigned() as u32
}

/// Stops a perf event. Nothing happens if the descriptor is none.
pub(crate) fn stop_event(descriptor: c_int) {
    /// PERF_EVENT_IOC_DISABLE
    const DISABLE: usize = 0x2401;
    // SAFETY: has no preconditions.
    unsafe { call(number::IOCTL, [descriptor as usize, DISABLE, 0, 0]) };
}

/// Replaces a signal's action, and returns the one before; `None` if the kernel refuses.
pub(crate) fn sigaction(signal: c_int, new: Option<&KernelAction>) -> Option<KernelAction> {
    let mut before = KernelAction { handler: 0, flags: 0, restorer: 0, mask: 0 };
    let new = new.map_or(core::ptr::null(), |new| new as *const KernelAction);
    let arguments = [signal.cast_unsigned() as usize, new as usize, &raw mut before as usize, 8];
    // SAFETY: both are actions of the kernel's form; the last argument is the mask's size.
    let failed = unsafe { call(number::RT_SIGACTION, arguments) };
    (failed == 0).then_some(before)
}

/// Gives a signal its default action, and sends it again if nothing else does.
pub(crate) fn restore_default(signal: c_int, how: Restored) {
    sigaction(signal, Some(&KernelAction::new(0, 0, 0)));
    if how == Restored::Sent {
        // SAFETY: has no preconditions.
        let process = unsafe { call(number::GETPID, [0; 4]) }.cast_unsigned();
        // SAFETY: a signal to this thread, whose action is the default now.
        unsafe {
            call(number::TGKILL, [process, gettid() as usize, signal.cast_unsigned() as usize, 0]);
        }
    }
}

/// The word at a distance from the thread pointer.
///
/// # Safety
/// There is a word of the thread.
#[inline]
pub(crate) unsafe fn thread_word(offset: isize) -> usize {
    let word;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller guarantees it.
    unsafe {
        asm!("mov {}, fs:[{}]", out(reg) word, in(reg) offset,
            options(nostack, readonly, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller guarantees it.
    unsafe {
        asm!("mrs {0}, tpidr_el0", "ldr {0}, [{0}, {1}]", out(reg) word, in(reg) offset,
            options(nostack, readonly, preserves_flags));
    }
    word
}

/// CLOCK_MONOTONIC, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    const MONOTONIC: usize = 1;
    let mut now = [0_u64; 2];
    // SAFETY: a `timespec` of two words.
    unsafe { call(number::CLOCK_GETTIME, [MONOTONIC, (&raw mut now).addr(), 0, 0]) };
    let [seconds, ns] = now;
    seconds.wrapping_mul(1_000_000_000).wrapping_add(ns)
}

/// The processor's counter, as probes read it.
#[inline]
pub(crate) fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a counter.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks;
        // SAFETY: reads a counter.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
}
