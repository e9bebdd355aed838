//! How a Java program starts the agent. `java_agent` passes it to `Agent_OnAttach` in the parameter `reserved`, which
//! the JVM leaves null.

use std::ffi::c_void;

/// A method of the Java class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JavaCall {
    /// `premain`: the JVM's start waits, and the option `strict` can prevent it.
    Premain,
    /// `agentmain` and `Tprofiler.start`.
    Start,
}

static PREMAIN: u8 = 0;
static START: u8 = 1;

impl JavaCall {
    /// Stands for the call in `reserved`.
    pub(crate) fn mark(self) -> *mut c_void {
        let mark = match self {
            Self::Premain => &raw const PREMAIN,
            Self::Start => &raw const START,
        };
        mark.cast_mut().cast()
    }

    /// The call that `reserved` stands for; `None` if the JVM itself calls.
    pub(crate) fn of(reserved: *mut c_void) -> Option<Self> {
        [Self::Premain, Self::Start].into_iter().find(|call| call.mark() == reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_stands_for_its_call() {
        assert_eq!(JavaCall::of(JavaCall::Premain.mark()), Some(JavaCall::Premain));
        assert_eq!(JavaCall::of(JavaCall::Start.mark()), Some(JavaCall::Start));
        assert_eq!(JavaCall::of(std::ptr::null_mut()), None);
    }
}
