//! Calls of JDBC's methods that have not ended, by thread.
//!
//! A thread's calls are in one another: a pool's statement calls the driver's, and that may call itself.

use jvmti_bindings::env::JniEnv;
use log_format::ids::MethodId;

use super::texts::Text;
use super::urls::UrlId;
use crate::instrument::statement_probes::StatementProbe;
use crate::jvm::thread_key::ThreadKey;
use crate::sys::memory::Account;
use crate::sys::memory::sharded::Sharded;

/// Most calls of a thread in one another. Deeper ones are lost.
const DEEPEST: usize = 1_000;
/// Room for so many at first: a pool's, the driver's, and those in it.
const FEW: usize = 4;
/// The stack of a call may become so much shorter, in bytes, while it lasts: the JIT replaces its frame. Calls in one
/// another may even share one.
const SHRINKS: usize = 16 << 10;

/// A call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// Its method's probe, and whether that executes a statement.
    pub probe: StatementProbe,
    pub executes: bool,
    /// The identity hash of its object.
    pub hash: u32,
    pub url: UrlId,
    pub text: Text,
    /// The innermost instrumented call around the statement, and around what wraps it.
    pub method: MethodId,
    /// When it began, in ticks.
    pub began: u64,
    /// Where the stack of the thread was, or 0 for virtual threads: it grows down.
    pub stack: usize,
    /// Whether another call counts for it: one around it, or one in it.
    pub is_counted_elsewhere: bool,
}

impl Call {
    /// Whether a call in this one executes the same statement: a pool's or proxy's statement calls the driver's.
    fn is_same(&self, inner: &Self) -> bool {
        let is_unknown = self.text.id.is_none() || inner.text.id.is_none();
        is_unknown || self.text.raw == inner.text.raw || self.text.id == inner.text.id
    }

    /// Decides which of the two counts when a call in this one has ended. If they are of one object, or only this one's
    /// text is known, this one does: a driver may execute a batch by statements that nobody has prepared.
    fn ended(&mut self, inner: &mut Call) {
        if self.url.is_none() {
            self.url = inner.url;
        }
        if self.hash == inner.hash {
            self.is_counted_elsewhere |= inner.is_counted_elsewhere;
            inner.is_counted_elsewhere = true;
        } else if !self.text.id.is_none() && inner.text.id.is_none() {
            inner.is_counted_elsewhere = true;
        } else if self.is_same(inner) {
            self.is_counted_elsewhere = true;
            self.text = inner.text;
        }
    }
}

/// The calls of a thread, the outermost first.
#[derive(Debug)]
struct Calls(Vec<Call>);

impl Calls {
    /// `false` if there are too many, or there is no memory.
    fn push(&mut self, mut call: Call) -> bool {
        // The thread has left calls whose end was not seen: a probe had no stack left.
        let is_left = |last: &mut Call| call.stack != 0 && last.stack + SHRINKS < call.stack;
        while self.0.pop_if(is_left).is_some() {}
        if let Some(outer) = self.0.last() {
            // A driver uses a connection before it returns it.
            if call.url.is_none() {
                call.url = outer.url;
            }
            // Not a method of the pool.
            if call.executes && outer.executes && outer.is_same(&call) {
                call.method = outer.method;
            }
        }
        let has_room = self.0.len() < DEEPEST && self.make_room();
        if has_room {
            self.0.push(call);
        }
        has_room
    }

    fn make_room(&mut self) -> bool {
        if self.0.len() < self.0.capacity() {
            return true;
        }
        let before = self.bytes();
        let more = self.0.len().max(FEW);
        if !MEMORY.take(more * size_of::<Call>()) {
            return false;
        }
        let is_done = self.0.try_reserve_exact(more).is_ok();
        MEMORY.give((before + more * size_of::<Call>()).saturating_sub(self.bytes()));
        is_done
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Call>()
    }

    /// Ends the innermost call of a method with this probe.
    fn pop(&mut self, probe: StatementProbe) -> Option<Call> {
        // The ends of those above it were not seen.
        let at = self.0.iter().rposition(|call| call.probe == probe)?;
        self.0.truncate(at + 1);
        let mut ended = self.0.pop()?;
        if let Some(outer) = self.0.last_mut()
            && outer.executes
            && ended.executes
        {
            outer.ended(&mut ended);
        }
        Some(ended)
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        MEMORY.give(self.bytes());
    }
}

static CALLS: Sharded<Calls> = Sharded::new();
/// The memory of their lists.
static MEMORY: Account = Account::new();

/// A call begins; `false` if it is not noted.
pub(super) fn begin(key: ThreadKey, call: Call) -> bool {
    let mut is_noted = false;
    CALLS.change_or_insert(key.number(), Calls(Vec::new()), |calls| is_noted = calls.push(call));
    is_noted
}

/// The innermost call of a method with this probe ends.
pub(super) fn end(key: ThreadKey, probe: StatementProbe) -> Option<Call> {
    let mut ended = None;
    let mut is_last = false;
    CALLS.change(key.number(), |calls| {
        ended = calls.pop(probe);
        is_last = calls.0.is_empty();
    });
    // A platform thread keeps its place until it ends.
    if is_last && key.virtual_thread().is_some() {
        CALLS.remove(key.number());
    }
    ended
}

/// The innermost call of each thread that executes a statement, of those whose text is known if there are any.
pub(super) fn executing() -> Vec<(ThreadKey, Call)> {
    let mut all = Vec::new();
    CALLS.for_each(|key, calls| {
        let calls = calls.0.iter().rev().copied();
        let mut executing = calls.filter(|call| call.executes);
        let innermost = executing.clone().next();
        let known = executing.find(|call| !call.text.id.is_none());
        all.extend(known.or(innermost).map(|call| (ThreadKey::new(key), call)));
    });
    all
}

/// Calls `visit` with the text of each call.
pub(super) fn for_each_text(mut visit: impl FnMut(Text)) {
    CALLS.for_each(|_, calls| {
        calls.0.iter().for_each(|call| visit(call.text));
    });
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
    use crate::sys::memory::tests::refuse;

    const NONE: [u32; 0] = [];

    /// Odd ids execute.
    fn call(id: u32, hash: u32, text: u32) -> Call {
        Call {
            probe: StatementProbe::new(id),
            executes: id % 2 == 1,
            hash,
            url: UrlId::default(),
            text: Text { id: TextId::new(text), raw: text },
            method: MethodId::new(id),
            began: 0,
            stack: 0,
            is_counted_elsewhere: false,
        }
    }

    fn begin_all(key: ThreadKey, calls: &[Call]) {
        calls.iter().for_each(|call| assert!(begin(key, *call)));
    }

    /// The texts of the calls that count, as they end.
    fn counted(key: ThreadKey, ids: &[u32]) -> Vec<u32> {
        let counts =
            |id: &u32| end(key, StatementProbe::new(*id)).filter(|call| !call.is_counted_elsewhere);
        ids.iter().filter_map(counts).map(|call| call.text.id.get()).collect()
    }

    #[test]
    fn the_innermost_object_counts_and_its_outermost_call() {
        let key = ThreadKey::new(77);
        // A pool's statement, the driver's, which calls itself.
        begin_all(key, &[call(1, 10, 7), call(3, 20, 7), call(5, 20, 7), call(3, 20, 7)]);
        assert_eq!(counted(key, &[3, 5]), NONE);
        assert_eq!(counted(key, &[3]), [7]);
        assert_eq!(counted(key, &[1, 1]), NONE);
        // The pool's statement calls itself, then the driver's.
        begin_all(key, &[call(1, 10, 7), call(3, 10, 7), call(5, 20, 7)]);
        assert_eq!(counted(key, &[5]), [7]);
        assert_eq!(counted(key, &[3, 1]), NONE);
    }

    #[test]
    fn the_method_is_the_one_around_the_wrapper() {
        let key = ThreadKey::new(76);
        begin_all(key, &[call(1, 10, 7), call(3, 20, 7), call(5, 30, 8)]);
        let methods =
            [5, 3, 1].map(|id| end(key, StatementProbe::new(id)).map(|call| call.method.get()));
        // A trigger has a statement of its own.
        assert_eq!(methods, [Some(5), Some(1), Some(1)]);
    }

    #[test]
    fn other_texts_count_by_themselves() {
        let key = ThreadKey::new(78);
        begin_all(key, &[call(1, 10, 7), call(1, 20, 8)]);
        assert_eq!(counted(key, &[1, 1]), [8, 7]);
    }

    #[test]
    fn of_unknown_texts_one_call_counts() {
        let key = ThreadKey::new(82);
        // The driver executes a batch in parts that nobody prepared.
        begin_all(key, &[call(1, 10, 7), call(3, 20, 0)]);
        assert_eq!(counted(key, &[3]), NONE);
        begin_all(key, &[call(3, 21, 0)]);
        assert_eq!(counted(key, &[3, 1]), [7]);
        // The text is known of the driver's alone, or of both ends.
        begin_all(key, &[call(1, 10, 0), call(3, 20, 7)]);
        assert_eq!(counted(key, &[3, 1]), [7]);
        begin_all(key, &[call(1, 10, 7), call(3, 20, 0), call(5, 30, 7)]);
        assert_eq!(counted(key, &[5, 3, 1]), [7]);
        begin_all(key, &[call(1, 10, 0), call(3, 20, 0)]);
        assert_eq!(counted(key, &[3, 1]), [0]);
    }

    #[test]
    fn calls_whose_end_was_not_seen_are_forgotten() {
        let key = ThreadKey::new(79);
        let at = |stack, call: Call| Call { stack, ..call };
        begin_all(key, &[at(100_000, call(1, 10, 7)), at(90_000, call(3, 20, 8))]);
        // The end of the outer one is.
        assert_eq!(counted(key, &[1]), [7]);
        // The thread is less deep.
        begin_all(key, &[at(50_000, call(3, 20, 8)), at(90_000, call(3, 20, 9))]);
        assert_eq!(counted(key, &[3, 3]), [9]);
        // Two calls are in one frame of the JIT's, or it has replaced the outer one's.
        begin_all(key, &[at(90_000, call(1, 10, 7)), at(90_000, call(3, 20, 8))]);
        begin_all(key, &[at(95_000, call(5, 30, 9))]);
        assert_eq!(counted(key, &[5, 3, 1]), [9, 8, 7]);
    }

    #[test]
    fn without_memory_a_call_is_not_noted() {
        let mut calls = Calls(Vec::new());
        for depth in 0..4 {
            assert!(calls.push(call(1, depth, 100 + depth)));
        }
        refuse(true);
        let is_noted = calls.push(call(3, 9, 109));
        refuse(false);
        assert!(!is_noted && calls.push(call(3, 9, 109)));
        assert_eq!((calls.0.len(), calls.bytes()), (5, 8 * size_of::<Call>()));
        assert_eq!(calls.pop(StatementProbe::new(1)).map(|call| call.text.raw), Some(103));
    }

    #[test]
    fn very_deep_calls_are_not_noted() {
        let key = ThreadKey::new(80);
        let noted = (0..2_000).map(|depth| begin(key, call(1, depth, 100 + depth)));
        assert_eq!(noted.filter(|is_noted| *is_noted).count(), DEEPEST);
        let texts = counted(key, &[1; 2_000]);
        assert_eq!((texts.len(), texts.last()), (DEEPEST, Some(&100)));
    }

    #[test]
    fn what_is_made_belongs_to_the_call_that_makes_it() {
        let key = ThreadKey::new(81);
        // The driver uses the connection before it is made.
        begin_all(key, &[Call { url: UrlId::new(3), ..call(2, 10, 7) }, call(1, 20, 8)]);
        assert_eq!(executing().iter().filter(|(of, _)| *of == key).count(), 1);
        assert_eq!(end(key, StatementProbe::new(1)).map(|call| call.url), Some(UrlId::new(3)));
        assert_eq!(end(key, StatementProbe::new(2)).map(|call| call.text.id.get()), Some(7));
        assert!(end(key, StatementProbe::new(2)).is_none());
    }
}
