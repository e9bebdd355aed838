//! The least that exact timing in native code costs: a native method at a call's entry that only reads the clock, and
//! one at its exit. Benchmarks compare the probe with it.
#![allow(unsafe_code, non_snake_case, missing_docs)]

use std::ffi::c_void;
use std::hint::black_box;

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> std::time::Instant {
    std::time::Instant::now()
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_workloads_Leaf_enter(_env: *mut c_void, _class: *mut c_void, _id: i32) {
    black_box(ticks());
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_workloads_Leaf_leave(_env: *mut c_void, _class: *mut c_void, _id: i32) {
    black_box(ticks());
}
