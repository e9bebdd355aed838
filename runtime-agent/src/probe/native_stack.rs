//! How much of a thread's own stack is left.
//!
//! Java code may go on until the JVM's guard zone is nearer than the pages that it keeps free for
//! native code. Which address that is, only the JVM knows; here it is taken from its defaults.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr;

use crate::sys::mapped::page_size;

/// The JVM's guard zones and what it keeps free for native code: 1, 2, 1 and 20 pages of 4 KiB, each in
/// whole pages of the kernel's.
fn kept_by_the_jvm() -> usize {
    [1, 2, 1, 20].map(|pages: usize| (pages * 4096).next_multiple_of(page_size())).iter().sum()
}

/// Stack that the end of a call may need more than its start: the JVM may turn a compiled frame into
/// a larger, interpreted one, and a StackOverflowError has to be made.
const FOR_THE_END: usize = 16 << 10;

/// An address in the frame of the function that this is inlined into.
#[inline(always)]
pub(super) fn address_here() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let address;
        // SAFETY: copies a register. The address of a variable would need a frame to have it in.
        unsafe {
            std::arch::asm!("mov {}, rsp", out(reg) address,
                options(nomem, nostack, preserves_flags));
        }
        address
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let local = MaybeUninit::<u64>::uninit();
        local.as_ptr().addr()
    }
}

/// The lowest address on the calling thread's stack where a call may begin; 0 if there is no telling.
pub(super) fn least_address() -> usize {
    lowest_address().map_or(0, |lowest| lowest + kept_by_the_jvm() + FOR_THE_END)
}

/// The end of the calling thread's stack.
fn lowest_address() -> Option<usize> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut lowest = ptr::null_mut();
    let mut size = 0;
    // SAFETY: the first call initializes the attributes if it returns 0, and only then are they
    // read and destroyed; all pointers are to variables of this function.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let found =
            libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (found == 0).then(|| lowest.addr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_the_end_of_its_stack() {
        // Larger than any that the C library may have kept of another thread.
        let size = 64 << 20;
        let builder = std::thread::Builder::new().stack_size(size);
        let thread = builder.spawn(|| (address_here(), lowest_address(), least_address()));
        let (here, lowest, least) = thread.unwrap().join().unwrap();
        let lowest = lowest.unwrap();
        assert!(lowest < here && here - lowest <= size + 65536, "{here:x} {lowest:x}");
        assert!(here - lowest > size / 2, "{here:x} {lowest:x}");
        assert!(lowest < least && least < here, "{least:x}");
    }
}
