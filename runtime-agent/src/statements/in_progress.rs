//! Calls of JDBC's methods that have not ended, by thread.
//!
//! A thread's calls are in one another: a pool's statement calls the driver's, and that may call itself.

use jvmti_bindings::env::JniEnv;
use log_format::ids::MethodId;

use super::texts::Text;
use super::urls::UrlId;
use crate::jvm::thread_key::ThreadKey;
use crate::sys::memory::sharded::Sharded;

/// Deeper calls are not noted: the outer ones count.
const DEEPEST: usize = 6;

/// A call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// The id of its method's probe.
    pub id: u32,
    /// The identity hash of its object.
    pub hash: u32,
    pub url: UrlId,
    pub text: Text,
    /// The innermost measured call.
    pub method: MethodId,
    /// When it began, in ticks.
    pub began: u64,
    /// Where the stack of the thread was, or 0 for virtual threads: it grows down.
    pub stack: usize,
    /// Calls of the same object in it that have not ended.
    pub inner: u32,
    /// Whether a call in it has executed the same text.
    pub is_wrapper: bool,
}

#[derive(Clone, Copy, Debug)]
struct Calls {
    calls: [Option<Call>; DEEPEST],
    depth: usize,
    /// Calls that are not noted.
    deeper: u32,
}

impl Calls {
    const NONE: Self = Self { calls: [None; DEEPEST], depth: 0, deeper: 0 };

    fn last(&mut self) -> Option<&mut Call> {
        self.calls.get_mut(self.depth.checked_sub(1)?)?.as_mut()
    }

    fn push(&mut self, mut call: Call, executes: bool) {
        // The thread has left calls whose end was not seen: a probe had no stack left.
        while call.stack != 0 && self.last().is_some_and(|last| last.stack <= call.stack) {
            self.depth -= 1;
            self.deeper = 0;
        }
        if executes
            && self.deeper == 0
            && let Some(last) = self.last()
            && last.hash == call.hash
        {
            last.inner += 1;
            return;
        }
        // A driver uses a connection before it returns it.
        if call.url.is_none()
            && let Some(last) = self.last()
        {
            call.url = last.url;
        }
        match self.calls.get_mut(self.depth) {
            Some(place) => {
                *place = Some(call);
                self.depth += 1;
            }
            None => self.deeper += 1,
        }
    }

    /// Ends the innermost call, which a method with this id has begun.
    fn pop(&mut self, id: u32) -> Option<Call> {
        if self.deeper > 0 {
            self.deeper -= 1;
            return None;
        }
        let last = self.last()?;
        if last.inner > 0 {
            last.inner -= 1;
            return None;
        }
        // The ends of those above it were not seen.
        let is_it = |call: &Option<Call>| call.is_some_and(|call| call.id == id);
        self.depth = self.calls.iter().take(self.depth).rposition(is_it)?;
        self.calls.get(self.depth).copied().flatten()
    }

    /// Whether the call around the one that has just ended is a wrapper of it: it has the same text, or one of the texts
    /// is not known.
    fn tell_outer(
        &mut self,
        inner: &Call,
        executes: impl Fn(u32) -> bool,
    ) -> Option<(Text, UrlId)> {
        let outer = self.last()?;
        if !executes(outer.id) {
            return None;
        }
        let is_unknown = outer.text.id.is_none() || inner.text.id.is_none();
        if is_unknown || outer.text.raw == inner.text.raw || outer.text.id == inner.text.id {
            outer.is_wrapper = true;
        }
        Some((outer.text, outer.url))
    }
}

static CALLS: Sharded<Calls> = Sharded::new();

/// A call begins; `false` if there is no memory.
pub(super) fn begin(key: ThreadKey, call: Call, executes: bool) -> bool {
    CALLS.change_or_insert(key.number(), Calls::NONE, |calls| calls.push(call, executes))
}

/// The innermost call of a method with this id ends. Without a text, it has that of the call around it.
pub(super) fn end(key: ThreadKey, id: u32, executes: impl Fn(u32) -> bool) -> Option<Call> {
    end_if(key, |calls| {
        let mut ended = calls.pop(id)?;
        if executes(id)
            && let Some((text, url)) = calls.tell_outer(&ended, executes)
        {
            if ended.text.id.is_none() {
                ended.text = text;
            }
            if ended.url.is_none() {
                ended.url = url;
            }
        }
        Some(ended)
    })
}

/// The innermost call ends, if it is one that this holds for.
pub(super) fn end_last(key: ThreadKey, is_it: impl Fn(&Call) -> bool) -> Option<Call> {
    end_if(key, |calls| {
        let last = *calls.last()?;
        if is_it(&last) { calls.pop(last.id) } else { None }
    })
}

fn end_if(key: ThreadKey, end: impl FnOnce(&mut Calls) -> Option<Call>) -> Option<Call> {
    let mut ended = None;
    let mut is_last = false;
    CALLS.change(key.number(), |calls| {
        ended = end(calls);
        is_last = calls.depth == 0;
    });
    // A platform thread keeps its place until it ends.
    if is_last && key.virtual_thread().is_some() {
        CALLS.remove(key.number());
    }
    ended
}

/// The innermost call of each thread that executes a statement.
pub(super) fn executing(executes: impl Fn(u32) -> bool) -> Vec<(ThreadKey, Call)> {
    let mut all = Vec::new();
    CALLS.for_each(|key, calls| {
        let calls = calls.calls.iter().take(calls.depth).rev().flatten();
        all.extend(
            calls.copied().find(|call| executes(call.id)).map(|call| (ThreadKey::new(key), call)),
        );
    });
    all
}

/// The calling platform thread ends.
pub(crate) fn thread_ended(jni: &JniEnv) {
    CALLS.remove(ThreadKey::of_platform(jni).number());
}

pub(super) fn clear() {
    CALLS.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::texts::TextId;

    const KEY: ThreadKey = ThreadKey::new(77);

    fn call(id: u32, hash: u32, text: u32) -> Call {
        Call {
            id,
            hash,
            url: UrlId::default(),
            text: Text { id: TextId::new(text), raw: text },
            method: MethodId::NONE,
            began: 0,
            stack: 0,
            inner: 0,
            is_wrapper: false,
        }
    }

    /// Odd ids execute.
    fn executes(id: u32) -> bool {
        id % 2 == 1
    }

    fn begin_in(key: ThreadKey, call: Call) {
        assert!(begin(key, call, executes(call.id)));
    }

    /// The text and whether it is a wrapper of the call that ends.
    fn end_in(key: ThreadKey, id: u32) -> Option<(u32, bool)> {
        end(key, id, executes).map(|call| (call.text.id.get(), call.is_wrapper))
    }

    #[test]
    fn the_innermost_object_counts_and_its_outermost_call() {
        // A pool's statement, the driver's, which calls itself.
        for (id, hash) in [(1, 10), (3, 20), (5, 20), (3, 20)] {
            begin_in(KEY, call(id, hash, 7));
        }
        assert_eq!([3, 5].map(|id| end_in(KEY, id)), [None; 2]);
        assert_eq!(end_in(KEY, 3), Some((7, false)));
        assert_eq!(end_in(KEY, 1), Some((7, true)));
        assert_eq!(end_in(KEY, 1), None);
    }

    #[test]
    fn other_texts_count_by_themselves_and_unknown_ones_do_not() {
        let key = ThreadKey::new(78);
        begin_in(key, call(1, 10, 7));
        begin_in(key, call(1, 20, 8));
        assert_eq!(end_in(key, 1), Some((8, false)));
        assert_eq!(end_in(key, 1), Some((7, false)));
        // The text is known of the pool's statement alone.
        begin_in(key, call(1, 10, 7));
        begin_in(key, call(3, 20, 0));
        assert_eq!(end_in(key, 3), Some((7, false)));
        assert_eq!(end_in(key, 1), Some((7, true)));
        // Of the driver's alone.
        begin_in(key, call(1, 10, 0));
        begin_in(key, call(3, 20, 7));
        assert_eq!(end_in(key, 3), Some((7, false)));
        assert_eq!(end_in(key, 1), Some((0, true)));
    }

    #[test]
    fn calls_whose_end_was_not_seen_are_forgotten() {
        let key = ThreadKey::new(79);
        let at = |stack, call: Call| Call { stack, ..call };
        begin_in(key, at(1_000, call(1, 10, 7)));
        begin_in(key, at(900, call(3, 20, 8)));
        // The end of the outer one is.
        assert_eq!(end_in(key, 1), Some((7, false)));
        begin_in(key, at(900, call(3, 20, 8)));
        // The thread is less deep.
        begin_in(key, at(950, call(3, 20, 9)));
        assert_eq!(end_in(key, 3), Some((9, false)));
        assert_eq!(end_in(key, 3), None);
    }

    #[test]
    fn very_deep_calls_are_not_noted() {
        let key = ThreadKey::new(80);
        for depth in 0..20 {
            begin_in(key, call(1, depth, 100 + depth));
        }
        let ended: Vec<_> = (0..20).map(|_| end_in(key, 1)).collect();
        assert_eq!(ended.iter().flatten().count(), DEEPEST);
        assert_eq!(ended.last(), Some(&Some((100, false))));
    }

    #[test]
    fn what_is_made_belongs_to_the_call_that_makes_it() {
        let key = ThreadKey::new(81);
        let makes = |call: &Call| call.id == 2;
        begin_in(key, Call { url: UrlId::new(3), ..call(2, 10, 7) });
        // The driver uses the connection before it is made.
        begin_in(key, call(1, 20, 8));
        assert_eq!(end(key, 1, executes).map(|call| call.url), Some(UrlId::new(3)));
        assert_eq!(end_last(key, makes).map(|call| call.text.id.get()), Some(7));
        assert!(end_last(key, makes).is_none());
    }
}
