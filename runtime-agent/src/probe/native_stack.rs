//! How much of a thread's own stack is left.
//!
//! Java code may continue until the pages that the JVM keeps free for native code would reach its guard zones. Only the
//! JVM knows that address; the figures here are its defaults.
#![allow(unsafe_code)]

use crate::sys::mapped_memory::page_size;
use crate::sys::native_thread;

/// The size of the JVM's guard zones and of the pages it keeps free for native code: 1, 2, 1 and 20 pages of 4 KiB,
/// each rounded up to whole kernel pages.
fn kept_by_the_jvm() -> usize {
    [1, 2, 1, 20].map(|pages: usize| (pages * 4096).next_multiple_of(page_size())).iter().sum()
}

/// Stack that the end of a call may need beyond its start: the JVM may replace a compiled frame by a larger,
/// interpreted one, and a StackOverflowError has to be created.
const FOR_THE_END: usize = 16 << 10;

/// An address in the frame of the function into which this is inlined.
#[inline(always)]
pub(super) fn address_here() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let address;
        // SAFETY: copies a register. Taking the address of a variable would need a stack frame for it.
        unsafe {
            std::arch::asm!("mov {}, rsp", out(reg) address,
                options(nomem, nostack, preserves_flags));
        }
        address
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let local = std::mem::MaybeUninit::<u64>::uninit();
        local.as_ptr().addr()
    }
}

/// The lowest address on the calling thread's stack where a call may begin; 0 if unknown.
pub(super) fn least_address() -> usize {
    native_thread::lowest_stack_address()
        .map_or(0, |lowest| lowest + kept_by_the_jvm() + FOR_THE_END)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_the_end_of_its_stack() {
        // Larger than any stack that the C library may keep from another thread.
        let size = 64 << 20;
        let builder = std::thread::Builder::new().stack_size(size);
        let thread = builder
            .spawn(|| (address_here(), native_thread::lowest_stack_address(), least_address()));
        let (here, lowest, least) = thread.unwrap().join().unwrap();
        let lowest = lowest.unwrap();
        assert!(lowest < here && here - lowest <= size + 65536, "{here:x} {lowest:x}");
        assert!(here - lowest > size / 2, "{here:x} {lowest:x}");
        assert!(lowest < least && least < here, "{least:x}");
    }
}
