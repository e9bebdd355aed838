//! The constants of a chunk: threads, stacks, methods and their names, each stored once and referred to by number.
//!
//! A constant has the same number in all chunks, and no other has it: if a number was in the chunk before, the JDK's
//! reader takes the constant from there, and tells threads and methods apart by that.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use log_format::ids::{SampledStackId, StackId, ThreadId};

use super::encoding::{count, event, number, text};
use super::types::{
    CHECKPOINT, CLASS, FRAME_TYPE, METHOD, PACKAGE, STACK_TRACE, SYMBOL, THREAD, THREAD_STATE,
};
use crate::render::shared::labels::is_descriptor;
use crate::run::names::NamedThread;
use crate::stats::method::Method;

/// The number of no constant.
pub const NONE: u64 = 0;

/// The state of sampled threads: they were using CPU time.
pub const RUNNABLE: u64 = 1;

/// A frame of Java code.
const JAVA: u64 = 1;
/// Any other frame: `[gc]`.
const NATIVE: u64 = 2;

/// A line or bytecode index that is not known: -1 as 32 bits.
const UNKNOWN: u64 = 0xffff_ffff;

/// The descriptor of what is not a method: tools fail if they cannot parse it.
const NO_DESCRIPTOR: &str = "()V";

/// What a stack is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StackKey {
    /// The callers of a recorded call with this call path.
    Callers(StackId),
    /// A sampled stack.
    Sampled(SampledStackId),
}

/// The constants of a chunk, and the numbers of all that were in chunks before.
#[derive(Default)]
pub struct Constants {
    threads: Pool<ThreadId>,
    stacks: Pool<StackKey>,
    methods: Pool<Method>,
    classes: Pool<String>,
    packages: Pool<String>,
    symbols: Pool<String>,
}

/// The constants of one type.
struct Pool<K> {
    known: HashMap<K, Written>,
    /// The largest number.
    last: u64,
    /// How many chunks were before.
    chunk: u64,
    /// How many constants the chunk has.
    count: usize,
    encoded: Vec<u8>,
}

/// A constant that the chunk has, or one before.
struct Written {
    number: u64,
    /// The last chunk that has it.
    chunk: u64,
}

impl<K> Default for Pool<K> {
    fn default() -> Self {
        Self { known: HashMap::new(), last: 0, chunk: 0, count: 0, encoded: Vec::new() }
    }
}

impl<K: Eq + Hash> Pool<K> {
    /// The number of a constant that the chunk has.
    fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<u64>
    where
        K: Borrow<Q>,
    {
        self.known.get(key).filter(|known| known.chunk == self.chunk).map(|known| known.number)
    }

    /// Adds a constant that the chunk does not have.
    fn add(&mut self, key: K, fields: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let known = self.known.entry(key).or_insert_with(|| {
            self.last = self.last.saturating_add(1);
            Written { number: self.last, chunk: self.chunk }
        });
        known.chunk = self.chunk;
        self.count += 1;
        number(&mut self.encoded, known.number);
        fields(&mut self.encoded);
        known.number
    }

    fn next_chunk(&mut self) {
        self.chunk = self.chunk.saturating_add(1);
        self.count = 0;
        self.encoded.clear();
    }

    fn write(&self, type_id: u64, out: &mut Vec<u8>) {
        number(out, type_id);
        count(out, self.count);
        out.extend_from_slice(&self.encoded);
    }
}

impl Constants {
    /// Begins a chunk, without constants.
    pub fn next_chunk(&mut self) {
        self.threads.next_chunk();
        self.stacks.next_chunk();
        self.methods.next_chunk();
        self.classes.next_chunk();
        self.packages.next_chunk();
        self.symbols.next_chunk();
    }

    /// Begins a run, which has its own threads and stacks, with a chunk.
    pub fn next_run(&mut self) {
        self.next_chunk();
        self.threads.known.clear();
        self.stacks.known.clear();
    }

    /// The number of a thread that `of` describes.
    pub fn thread(&mut self, id: ThreadId, of: impl FnOnce() -> NamedThread) -> u64 {
        if let Some(known) = self.threads.get(&id) {
            return known;
        }
        let NamedThread { name, java_id, os_id, is_virtual } = of();
        self.threads.add(id, |out| {
            text(out, (!is_virtual).then_some(name.as_str()));
            number(out, u64::from(os_id.get()));
            text(out, (!java_id.is_none()).then_some(name.as_str()));
            number(out, java_id.get());
            out.push(u8::from(is_virtual));
        })
    }

    /// The number of a stack that the chunk has.
    pub fn known_stack(&self, key: StackKey) -> Option<u64> {
        self.stacks.get(&key)
    }

    /// Adds a stack, which the chunk does not have, with these frames from the top; outer frames may be missing.
    pub fn add_stack<'m>(
        &mut self,
        key: StackKey,
        frames: impl Iterator<Item = &'m Method>,
        is_truncated: bool,
    ) -> u64 {
        let frames: Vec<(u64, u64)> = frames
            .map(|method| {
                let class = method.parts().0;
                // Libraries and the kernel are in brackets.
                let is_native = class.is_empty() || class.starts_with('[');
                let kind = if is_native { NATIVE } else { JAVA };
                (self.method(method), kind)
            })
            .collect();
        self.stacks.add(key, |out| {
            out.push(u8::from(is_truncated));
            count(out, frames.len());
            for (method, kind) in frames {
                [method, UNKNOWN, UNKNOWN, kind].into_iter().for_each(|field| number(out, field));
            }
        })
    }

    /// The number of a method.
    pub fn method(&mut self, method: &Method) -> u64 {
        if let Some(known) = self.methods.get(method) {
            return known;
        }
        let (class, name, descriptor) = method.parts();
        let descriptor = if is_descriptor(descriptor) { descriptor } else { NO_DESCRIPTOR };
        let fields = [self.class(class), self.symbol(&name), self.symbol(descriptor)];
        self.methods.add(method.clone(), |out| {
            fields.into_iter().for_each(|field| number(out, field));
            // Modifiers, which are not known, and whether it is hidden.
            out.extend([0, 0]);
        })
    }

    /// The number of a class.
    pub fn class(&mut self, name: &str) -> u64 {
        if let Some(known) = self.classes.get(name) {
            return known;
        }
        let package = name.rsplit_once('.').map_or(NONE, |(package, _)| self.package(package));
        let symbol = self.symbol(&name.replace('.', "/"));
        self.classes.add(name.to_owned(), |out| {
            // Loader and modifiers are not known.
            [NONE, symbol, package, 0].into_iter().for_each(|field| number(out, field));
        })
    }

    fn package(&mut self, name: &str) -> u64 {
        if let Some(known) = self.packages.get(name) {
            return known;
        }
        let symbol = self.symbol(&name.replace('.', "/"));
        self.packages.add(name.to_owned(), |out| number(out, symbol))
    }

    fn symbol(&mut self, name: &str) -> u64 {
        if let Some(known) = self.symbols.get(name) {
            return known;
        }
        self.symbols.add(name.to_owned(), |out| text(out, Some(name)))
    }

    /// How many bytes they take in a chunk, about.
    pub fn len(&self) -> usize {
        let names = self.classes.encoded.len() + self.symbols.encoded.len();
        self.threads.encoded.len() + self.stacks.encoded.len() + self.methods.encoded.len() + names
    }

    /// Writes them as an event.
    pub fn write(&self, out: &mut Vec<u8>) {
        event(out, CHECKPOINT, |body| {
            // Start, duration, the place of the checkpoint before (there is none), its kind, and the number of types.
            body.extend([0, 0, 0, 0, 8]);
            number(body, FRAME_TYPE);
            count(body, 2);
            for (kind, name) in [(JAVA, "Java"), (NATIVE, "Native")] {
                number(body, kind);
                text(body, Some(name));
            }
            number(body, THREAD_STATE);
            count(body, 1);
            number(body, RUNNABLE);
            text(body, Some("STATE_RUNNABLE"));
            self.threads.write(THREAD, body);
            self.stacks.write(STACK_TRACE, body);
            self.methods.write(METHOD, body);
            self.classes.write(CLASS, body);
            self.packages.write(PACKAGE, body);
            self.symbols.write(SYMBOL, body);
        });
    }
}
