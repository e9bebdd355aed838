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

    fn push(&mut self, call: Call, executes: bool) {
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

/// The calling platform thread ends.
pub(crate) fn thread_ended(jni: &JniEnv) {
    CALLS.remove(ThreadKey::of_platform(jni).number());
}

pub(super) fn clear() {
    CALLS.clear();
}
