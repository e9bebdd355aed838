//! Thread ids in the log. A virtual thread gets one with its first recorded call.

use std::collections::HashMap;

use log_format::ids::{JavaThreadId, ThreadId};

use crate::jvm::java_threads;
use crate::probe::thread::ThreadName;

/// Most virtual threads that are remembered. A forgotten one gets another id.
const MAX_VIRTUAL_THREADS: usize = 100_000;
/// Bytes of a virtual thread's name that are kept.
const MAX_NAME: usize = 256;
/// Typical length of a name, in bytes.
const NAME: usize = 32;

#[derive(Default)]
pub(crate) struct ThreadIds {
    last: u32,
    /// By number of the virtual thread.
    virtual_ids: HashMap<JavaThreadId, ThreadId>,
    /// Number and name, by id.
    virtual_names: HashMap<ThreadId, ThreadName>,
}

impl ThreadIds {
    /// A new id.
    pub(crate) fn next(&mut self) -> ThreadId {
        self.last += 1;
        ThreadId::new(self.last)
    }

    /// The id of virtual thread `number`; if `number` is 0, `own`, the thread's own id.
    pub(crate) fn of(&mut self, number: JavaThreadId, own: ThreadId) -> ThreadId {
        if number.is_none() {
            return own;
        }
        self.of_virtual(number, || java_threads::take_virtual_name(number))
    }

    /// The id of a virtual thread. A sample may have given it one before it noted its name.
    fn of_virtual(
        &mut self,
        number: JavaThreadId,
        take_name: impl FnOnce() -> Option<String>,
    ) -> ThreadId {
        if self.name_of(number).is_none_or(|known| known.name.is_empty()) {
            self.name(number, take_name());
        }
        match self.virtual_ids.get(&number) {
            Some(id) => *id,
            None => self.add(number),
        }
    }

    /// Notes which virtual thread makes the thread's next recorded calls: `number`, or none if it is 0.
    /// Takes the virtual thread's noted name, even if it already has one.
    pub(crate) fn runs(&mut self, number: JavaThreadId) {
        if !number.is_none() {
            self.name(number, java_threads::take_virtual_name(number));
        }
    }

    /// Names a virtual thread that has no name yet. Most have an empty one for ever.
    fn name(&mut self, number: JavaThreadId, name: Option<String>) {
        let Some(mut name) = name else { return };
        name.truncate(name.floor_char_boundary(MAX_NAME));
        let id = match self.virtual_ids.get(&number) {
            Some(id) => *id,
            None => self.add(number),
        };
        if let Some(known) = self.virtual_names.get_mut(&id).filter(|known| known.name.is_empty()) {
            known.name = name;
        }
    }

    fn add(&mut self, number: JavaThreadId) -> ThreadId {
        let id = self.next();
        self.virtual_ids.insert(number, id);
        self.virtual_names.insert(id, ThreadName { name: String::new(), java_id: number });
        id
    }

    /// Approximate memory that they use: names are seldom long.
    pub(crate) fn bytes(&self) -> usize {
        self.virtual_ids.capacity() * size_of::<(JavaThreadId, ThreadId)>()
            + self.virtual_names.capacity() * (size_of::<(ThreadId, ThreadName)>() + NAME)
    }

    /// The virtual thread with an id.
    pub(crate) fn virtual_thread(&self, id: ThreadId) -> Option<&ThreadName> {
        self.virtual_names.get(&id)
    }

    /// The virtual thread with a number, if it has an id.
    pub(crate) fn name_of(&self, number: JavaThreadId) -> Option<&ThreadName> {
        self.virtual_thread(*self.virtual_ids.get(&number)?)
    }

    /// Forgets virtual threads when there are too many. Call it only when all rows with their ids are written.
    pub(crate) fn limit(&mut self) {
        if self.virtual_ids.len() > MAX_VIRTUAL_THREADS {
            self.virtual_ids.clear();
            self.virtual_names.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(ids: &ThreadIds, id: ThreadId) -> &str {
        ids.virtual_thread(id).map_or("", |thread| &*thread.name)
    }

    #[test]
    fn a_virtual_thread_keeps_its_id_when_its_name_comes() {
        let mut ids = ThreadIds::default();
        let (thread, other) = (JavaThreadId::new(70), JavaThreadId::new(71));
        let own = ids.next();
        assert_eq!(ids.of(JavaThreadId::NONE, own), own);
        let id = ids.of(thread, own);
        assert_eq!((ids.of(thread, own), named(&ids, id)), (id, ""));
        // Mounted again and again, without a name.
        for name in [None, Some(String::new())] {
            ids.name(thread, name);
            assert_eq!((ids.of(thread, own), named(&ids, id)), (id, ""));
        }
        ids.name(thread, Some("payments".to_owned()));
        assert_eq!((ids.of(thread, own), named(&ids, id)), (id, "payments"));
        // A second name changes nothing.
        ids.name(thread, Some("other".to_owned()));
        assert_eq!((ids.of(thread, own), named(&ids, id)), (id, "payments"));
        // A sample came first.
        let sampled = JavaThreadId::new(72);
        let id = ids.of_virtual(sampled, || None);
        assert_eq!(ids.of_virtual(sampled, || Some(String::new())), id);
        assert_eq!(ids.of_virtual(sampled, || Some("waiter".to_owned())), id);
        assert_eq!(named(&ids, id), "waiter");
        assert_eq!(ids.of_virtual(sampled, || panic!("it has a name")), id);
        ids.name(other, Some("ü".repeat(200)));
        let long = ids.of(other, own);
        assert_eq!(named(&ids, long), "ü".repeat(128));
    }
}
