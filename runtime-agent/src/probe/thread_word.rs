//! One word that each thread has for itself, as near as it can be.
//!
//! What `thread_local!` compiles to in a shared library is a call of `__tls_get_addr`, by the C
//! convention, for each use: next to the clock the dearest part of a probe. The other way that the ABI
//! has, a TLS descriptor, is a call that keeps all registers and returns at once where the C library had
//! room for the word in each thread's static block, and is as good as the first where it had not.
//! aarch64 has no other, and there `thread_local!` is it.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod word {
    use std::arch::{asm, global_asm};

    // In the section of thread-local variables that are zero at first.
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

    /// How far the word is from the thread's pointer.
    #[inline(always)]
    fn offset() -> usize {
        let offset;
        // SAFETY: the sequence that the ABI prescribes, which the linker may replace by a shorter one. It
        // changes nothing but its result; for the vector registers see glibc's bug 31372: before 2.39
        // the way without a static block did not keep them.
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

    #[inline(always)]
    pub(crate) fn get() -> usize {
        let word;
        // SAFETY: the calling thread's own word, which is there as long as the thread.
        unsafe {
            asm!("mov {}, fs:[{}]", out(reg) word, in(reg) offset(),
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
}

#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
mod word {
    use std::cell::Cell;

    thread_local! {
        // `const` and without a destructor, so that it is never too early or too late to read it.
        static WORD: Cell<usize> = const { Cell::new(0) };
    }

    #[inline(always)]
    pub(crate) fn get() -> usize {
        WORD.get()
    }

    pub(crate) fn set(word: usize) {
        WORD.set(word);
    }
}

pub(super) use self::word::{get, set};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own() {
        let threads: Vec<_> = (1..=50usize)
            .map(|own| {
                std::thread::spawn(move || {
                    let first = get();
                    set(own);
                    std::thread::yield_now();
                    (first, get(), own)
                })
            })
            .collect();
        for thread in threads {
            let (first, then, own) = thread.join().unwrap();
            assert_eq!((first, then), (0, own));
        }
    }
}
