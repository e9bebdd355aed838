//! One word for each thread, as cheap to reach as possible.
//!
//! In a shared library, `thread_local!` compiles to a call of `__tls_get_addr`, with the C calling convention, for each
//! use: after the clock, the most expensive part of a probe. The ABI's other way, a TLS descriptor, is a function with
//! its own convention and an argument, both set by the C library. If the C library had room for the word in every
//! thread's static block, the function returns the argument: the word's distance from the thread pointer. [`init`]
//! checks that it is that function, and that the word really is there in this thread and in another. Then [`near`] need
//! not call it. Otherwise the word is far, and [`get`] calls the function each time.
//!
//! musl has another such function, so the word is far there: the library for glibc works with it, and needs no build of
//! its own.
//!
//! aarch64 has only the descriptor, and `thread_local!` uses it there.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod word {
    use std::arch::{asm, global_asm};
    use std::ptr;
    use std::sync::atomic::{AtomicIsize, Ordering};
    use std::thread;

    use crate::self_test::cpu_time;

    // In the section of zero-initialized thread-local variables.
    global_asm!(
        ".pushsection .tbss.tprofiler_thread_word,\"awT\",@nobits",
        ".hidden tprofiler_thread_word",
        ".globl tprofiler_thread_word",
        ".type tprofiler_thread_word,@object",
        ".size tprofiler_thread_word,8",
        ".p2align 3",
        "tprofiler_thread_word:",
        ".zero 8",
        ".popsection",
    );

    /// The word's distance from the thread pointer, if that is the same in all threads. Otherwise, and before [`init`],
    /// it is 0, which is where the thread pointer itself is stored.
    static OFFSET: AtomicIsize = AtomicIsize::new(0);

    /// The word's distance from the calling thread's pointer.
    fn offset() -> isize {
        let offset;
        // SAFETY: the sequence that the ABI prescribes, which the linker of a program may replace by a shorter one. It
        // changes only its result. The vector registers are listed for glibc's bug 31372: before 2.39, the function for
        // words outside the static block did not preserve them.
        unsafe {
            asm!(
                "lea rax, [rip + tprofiler_thread_word@TLSDESC]",
                "call [rax + tprofiler_thread_word@TLSCALL]",
                out("rax") offset,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            );
        }
        offset
    }

    /// That function's code in glibc: `mov rax, [rax + 8]`, where `rax` is the descriptor's address, and `ret`; perhaps
    /// with an `endbr64` before.
    const RETURNS_ARGUMENT: [&[u8]; 2] =
        [&[0x48, 0x8b, 0x40, 0x08, 0xc3], &[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x40, 0x08, 0xc3]];

    /// Tests whether the word is near. It is never near if the counter is not the clock, because callers of [`near`]
    /// read the counter next. In tests, `fails` makes the second thread's answer wrong.
    pub(crate) fn init(wants_near: bool, fails: bool) {
        let near = if wants_near && crate::sys::clock::is_counter() { distance() } else { 0 };
        let is_same = near != 0 && cpu_time::timed(|| is_same_in_two_threads(near, fails));
        OFFSET.store(if is_same { near } else { 0 }, Ordering::Relaxed);
    }

    /// The word's distance from the thread pointer, if that seems to be the same in all threads, else 0.
    fn distance() -> isize {
        let found: usize;
        // SAFETY: the first half of the sequence, which changes only its result.
        unsafe {
            asm!(
                "lea rax, [rip + tprofiler_thread_word@TLSDESC]",
                out("rax") found,
                options(nomem, nostack, preserves_flags),
            );
        }
        // In a program, the linker has replaced it by the offset, which is negative.
        if found.cast_signed() < 0 { found.cast_signed() } else { argument(found) }
    }

    /// Whether the word is at this distance from the pointers of the calling thread and of another one.
    fn is_same_in_two_threads(near: isize, fails: bool) -> bool {
        let other = thread::Builder::new().name("tprofiler test".to_owned());
        let other = other.spawn(move || cpu_time::timed(|| is_there(near)) && !fails);
        is_there(near) && other.is_ok_and(|other| other.join().unwrap_or(false))
    }

    /// Whether a word set through the function is found at this distance. Restores the word.
    fn is_there(near: isize) -> bool {
        const MARK: usize = 0x5eed;
        let before = get();
        set(MARK);
        let is_there = near == offset() && read(near) == MARK;
        set(before);
        is_there
    }

    /// The argument of the descriptor at this address, if its function only returns it, else 0.
    fn argument(descriptor: usize) -> isize {
        // SAFETY: a descriptor is two words: the address of a function, and its argument.
        let [function, argument] =
            unsafe { ptr::with_exposed_provenance::<[usize; 2]>(descriptor).read() };
        let code = ptr::with_exposed_provenance::<u8>(function);
        let is = |expected: &&[u8]| {
            // SAFETY: as long as all bytes matched, the function continues.
            expected.iter().enumerate().all(|(n, byte)| unsafe { code.add(n).read() } == *byte)
        };
        if RETURNS_ARGUMENT.iter().any(is) { argument.cast_signed() } else { 0 }
    }

    /// The calling thread's word, if it is near.
    #[inline(always)]
    pub(crate) fn near() -> usize {
        let offset = OFFSET.load(Ordering::Relaxed);
        if offset == 0 { 0 } else { read(offset) }
    }

    /// The calling thread's word.
    pub(crate) fn get() -> usize {
        read(offset())
    }

    #[inline(always)]
    fn read(offset: isize) -> usize {
        let word;
        // SAFETY: the calling thread's own word, which lives as long as the thread.
        unsafe {
            asm!("mov {}, fs:[{}]", out(reg) word, in(reg) offset,
                options(nostack, readonly, preserves_flags));
        }
        word
    }

    pub(crate) fn set(word: usize) {
        // SAFETY: as above.
        unsafe {
            asm!("mov fs:[{}], {}", in(reg) offset(), in(reg) word,
                options(nostack, preserves_flags));
        }
    }

    /// Whether [`near`] finds it.
    pub(crate) fn is_near() -> bool {
        distance_if_near().is_some()
    }

    /// The word's distance from the thread pointer, if that is the same in all threads.
    pub(crate) fn distance_if_near() -> Option<isize> {
        Some(OFFSET.load(Ordering::Relaxed)).filter(|distance| *distance != 0)
    }
}

#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
mod word {
    use std::cell::Cell;

    thread_local! {
        // `const` and without a destructor, so it can be read at any time in a thread's life.
        static WORD: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) const fn init(_wants_near: bool, _fails: bool) {}

    /// The calling thread's word, if the counter is the clock: callers read the counter next.
    #[inline(always)]
    pub(crate) fn near() -> usize {
        if crate::sys::clock::is_counter() { WORD.get() } else { 0 }
    }

    pub(crate) fn get() -> usize {
        WORD.get()
    }

    pub(crate) fn set(word: usize) {
        WORD.set(word);
    }

    pub(crate) fn is_near() -> bool {
        crate::sys::clock::is_counter()
    }

    pub(crate) const fn distance_if_near() -> Option<isize> {
        None
    }
}

pub(super) use self::word::{distance_if_near, get, init, is_near, near, set};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own() {
        crate::sys::clock::init(crate::sys::clock::ClockChoice::Auto);
        init(true, true);
        assert!(!is_near());
        assert_eq!(near(), 0);
        init(false, false);
        assert!(!is_near());
        init(true, false);
        if !crate::sys::clock::is_counter() {
            return assert_eq!(near(), 0);
        }
        assert!(is_near());
        let threads: Vec<_> = (1..=50usize)
            .map(|own| {
                std::thread::spawn(move || {
                    let first = (get(), near());
                    set(own);
                    std::thread::yield_now();
                    (first, (get(), near()), own)
                })
            })
            .collect();
        for thread in threads {
            let (first, then, own) = thread.join().unwrap();
            assert_eq!((first, then), ((0, 0), (own, own)));
        }
    }
}
