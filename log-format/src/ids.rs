//! Ids of a run: each kind is a type, so that one cannot be taken for another, for an index or for a number of things.
//!
//! All but Java's and the kernel's count from 1 and are valid within the run. In the logs they are plain numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares a type of ids.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident($number:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize)]
        #[serde(transparent)]
        #[repr(transparent)]
        pub struct $name($number);

        impl $name {
            /// 0, which is nobody's id.
            pub const NONE: Self = Self(0);

            /// The id with this number.
            #[inline]
            #[must_use]
            pub const fn new(number: $number) -> Self {
                Self(number)
            }

            /// The number.
            #[inline]
            #[must_use]
            pub const fn get(self) -> $number {
                self.0
            }

            /// Whether it is [`NONE`](Self::NONE).
            #[inline]
            #[must_use]
            pub const fn is_none(self) -> bool {
                self.0 == 0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// A method. In a call path, [`NONE`](Self::NONE) stands for all paths that were not kept.
    MethodId(u32)
}

id! {
    /// A thread. [`JavaThreadId`] is Java's id of it.
    ThreadId(u32)
}

id! {
    /// The kernel's number of a thread.
    OsThreadId(u32)
}

id! {
    /// A call path. As a parent, [`NONE`](Self::NONE) means that the path has no caller.
    StackId(u32)
}

id! {
    /// A frame of sampled stacks.
    FrameId(u32)
}

id! {
    /// A sampled stack. As a parent, [`NONE`](Self::NONE) means that the stack has no caller.
    SampledStackId(u32)
}

id! {
    /// An SQL statement: a text without literals, and its database.
    StatementId(u32)
}

id! {
    /// What `Thread.getId()` returns. A thread that has none, or whose id is unknown, has [`NONE`](Self::NONE).
    JavaThreadId(u64)
}

impl MethodId {
    /// The number, for a table with an entry for each method.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl StackId {
    /// The number, for a table with an entry for each call path.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_and_read_as_its_number() {
        let id = MethodId::new(7);
        assert_eq!(serde_json::to_string(&id).unwrap(), "7");
        assert_eq!(serde_json::from_str::<MethodId>("7").unwrap(), id);
        assert_eq!(format!("{id} {id:>3}"), "7   7");
        assert_eq!((id.get(), id.index(), id.is_none()), (7, 7, false));
        assert!(StackId::NONE.is_none());
    }
}
