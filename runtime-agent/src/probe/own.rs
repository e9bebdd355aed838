//! Who may call which functions of a thread's data: functions for the thread itself are on [`Own`], functions for all
//! threads on the data.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Deref;

/// The calling thread's data, or a part of it. It neither leaves the thread nor outlives the closure that gets it:
///
/// ```
/// use tprofiler::doc_tests::with_current;
///
/// let mut kept = None;
/// with_current(|own| {
///     kept = Some(());
///     let _own = own;
///     std::thread::scope(|scope| {
///         scope.spawn(move || ());
///     });
/// });
/// ```
/// ```compile_fail,E0277
/// use tprofiler::doc_tests::with_current;
///
/// with_current(|own| {
///     std::thread::scope(|scope| {
///         scope.spawn(move || {
///             let _own = own;
///         });
///     });
/// });
/// ```
/// ```compile_fail,E0521
/// use tprofiler::doc_tests::with_current;
///
/// let mut kept = None;
/// with_current(|own| {
///     kept = Some(own);
/// });
/// ```
#[repr(transparent)]
pub struct Own<'t, T>(&'t T, PhantomData<*mut ()>);

impl<T> Clone for Own<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Own<'_, T> {}

impl<'t, T> Own<'t, T> {
    /// # Safety
    /// This is the calling thread's data, or a part of it.
    #[inline(always)]
    pub(super) const unsafe fn new(data: &'t T) -> Self {
        Self(data, PhantomData)
    }

    /// A part of this data.
    #[inline(always)]
    pub(super) fn part<P>(self, part: impl FnOnce(&T) -> &P) -> Own<'t, P> {
        // SAFETY: `part` takes a reference of any lifetime, so what it returns is a part of this data, or static, which
        // no thread's data is.
        unsafe { Own::new(part(self.0)) }
    }
}

impl<T> Deref for Own<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.0
    }
}
