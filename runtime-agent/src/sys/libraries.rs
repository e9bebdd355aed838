//! The libraries that are loaded in this process.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};

/// A library that was loaded before.
pub(crate) struct Library(*mut c_void);

impl Library {
    /// Finds it by name, and loads none.
    pub(crate) fn find(name: &CStr) -> Option<Self> {
        // SAFETY: finds a library that is loaded already.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// The address of a symbol that it exports.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and closed once; the library stays loaded.
        unsafe { libc::dlclose(self.0) };
    }
}

/// How often libraries were loaded and unloaded so far.
pub(crate) fn changes() -> u64 {
    extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, sum: *mut c_void) -> libc::c_int {
        // SAFETY: the C library's structure, and the number of below.
        let (info, sum) = unsafe { (&*info, &mut *sum.cast::<u64>()) };
        *sum = info.dlpi_adds.wrapping_add(info.dlpi_subs);
        // All libraries have the same numbers.
        1
    }
    let mut sum = 0_u64;
    // SAFETY: the function gets this number, and returns.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut sum).cast()) };
    sum
}
