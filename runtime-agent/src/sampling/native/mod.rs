//! Native code in samples: which function it belongs to, and how frames are laid out, so that handlers find callers.
//!
//! Both are in files of libraries, which take some 100 ms for all of HotSpot's. They are read on a thread of their own,
//! and only once samples in native code stand for a second of CPU time: no short program pays for them.

mod buffer;
mod elf;
mod frame_rows;
pub(super) mod kernel;
mod libraries;
mod mapping;

use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};

use sampling_handler::load;
use sampling_handler::unwind_rows::{self, Row};

use self::buffer::Buffer;
use self::elf::Tables;
use self::kernel::Kernel;
use self::libraries::{Functions, Libraries};
use crate::hotspot::method_names::Named;
use crate::sys::libraries as loaded;
use crate::sys::memory;
use crate::sys::native_thread::{self, Priority};

/// CPU time in native code after which files are read.
const WORTH_IT_NS: u64 = 1_000_000_000;
/// Most memory of all tables, and which part of the agent's they may take. HotSpot's are 2 MB.
const MOST_BYTES: u64 = 16 << 20;
const PART: u64 = 4;

/// Most memory of all tables.
fn most_bytes() -> u64 {
    MOST_BYTES.min(memory::used_and_max().1 / PART)
}

/// What an earlier attachment has read: rows that handlers may use stay for ever, and are not read twice.
static KEPT: Mutex<Option<NativeCode>> = Mutex::new(None);

/// The id of the kernel among those of libraries.
const KERNEL: u32 = u32::MAX;
/// Its name.
const KERNEL_NAME: &str = "[kernel]";

/// A native function: the library's id, and the function's address in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Function {
    library: u32,
    start: Option<u32>,
}

impl Function {
    /// Whether it has a name of its own, besides the library's.
    pub(crate) const fn has_name(self) -> bool {
        self.start.is_some()
    }
}

/// What was read of a library with this id; `None` if that failed.
type Answer = (u32, Option<Found>);
type Found = (Tables, Option<Buffer<Row>>);

/// The native code of the process, on the agent thread.
#[derive(Debug, Default)]
pub(crate) struct NativeCode {
    libraries: Libraries,
    kernel: Kernel,
    /// CPU time of samples in native code.
    sampled_ns: u64,
    /// How often libraries were loaded or unloaded when they were listed.
    changes: u64,
    /// Samples are in libraries whose files nobody has asked for.
    is_more_wanted: bool,
    answers: Option<Receiver<Answer>>,
    /// Memory of the rows that were published; those of unloaded libraries stay.
    rows_bytes: usize,
}

impl NativeCode {
    /// What is known already.
    pub(super) fn take() -> Self {
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    /// Files are read from now on, whatever the samples say.
    pub(super) fn want(&mut self) {
        self.sampled_ns = WORTH_IT_NS;
    }

    /// Keeps it for the next attachment.
    pub(super) fn keep(&mut self) {
        *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::mem::take(self));
    }

    /// Reads which libraries are there.
    pub(super) fn look(&mut self) {
        self.changes = loaded::changes();
        self.libraries.read();
    }

    /// A sample in native code stands for this time.
    pub(super) fn add(&mut self, ns: u64) {
        self.sampled_ns = self.sampled_ns.saturating_add(ns);
    }

    /// A sample in the kernel stands for this time.
    pub(super) fn add_in_kernel(&mut self, ns: u64) {
        self.kernel.add(ns);
    }

    /// Lists the libraries again, if some were loaded or unloaded.
    pub(super) fn look_again(&mut self) {
        if self.changes != loaded::changes() {
            self.look();
        }
    }

    /// Takes what was read of files, and asks for more.
    pub(super) fn round(&mut self) {
        self.take_answers();
        self.kernel.round(most_bytes().saturating_sub(self.bytes() as u64));
        let is_free = self.is_more_wanted && self.answers.is_none();
        // Somebody may have replaced the handlers of faults, and a library may be gone.
        if is_free && self.sampled_ns >= WORTH_IT_NS && load::is_guarded() {
            self.is_more_wanted = false;
            self.ask();
        }
    }

    fn take_answers(&mut self) {
        while let Some(answers) = &self.answers {
            match answers.try_recv() {
                Ok((library, found)) => self.add_found(library, found),
                Err(mpsc::TryRecvError::Empty) => break,
                Err(mpsc::TryRecvError::Disconnected) => self.answers = None,
            }
        }
    }

    fn add_found(&mut self, library: u32, found: Option<Found>) {
        let Some((tables, rows)) = found else { return };
        let bytes = self.bytes() + tables.bytes() + rows.as_ref().map_or(0, Buffer::bytes);
        let most = most_bytes();
        let Some(library) = self.libraries.by_id(library) else { return };
        if bytes as u64 > most {
            return;
        }
        let (start, end) = (library.mapping.start, library.mapping.end);
        let number = rows.filter(|_| unwind_rows::has_room()).and_then(|rows| {
            self.rows_bytes += rows.bytes();
            unwind_rows::publish(start, end, rows.leak())
        });
        library.functions = Functions::Tables(tables, number);
    }

    /// Has the files of libraries read in which samples are.
    fn ask(&mut self) {
        let wanted =
            self.libraries.iter_mut().filter(|of| matches!(of.functions, Functions::Wanted));
        let wanted: Vec<_> = wanted
            .filter_map(|library| {
                library.functions = Functions::Asked;
                Some((library.id, library.mapping.clone(), library.mapping.first_page()?))
            })
            .collect();
        if wanted.is_empty() {
            return;
        }
        let (sender, receiver) = mpsc::channel();
        let most_bytes = most_bytes().saturating_sub(self.bytes() as u64);
        let read = move || {
            for (id, mapping, first_page) in wanted {
                // The agent may have been detached meanwhile.
                if sender.send((id, elf::read(&mapping, first_page, most_bytes))).is_err() {
                    return;
                }
            }
        };
        if native_thread::spawn("tprofiler-elf", Priority::Normal, read).is_ok() {
            self.answers = Some(receiver);
        }
    }

    /// The function at an address; `None` for code that is of no library.
    pub(super) fn function(&mut self, pc: usize) -> Option<Function> {
        let library = self.libraries.at(pc)?;
        if matches!(library.functions, Functions::Nothing) {
            library.functions = Functions::Wanted;
            self.is_more_wanted = true;
        }
        let start = match &library.functions {
            Functions::Tables(tables, _) => tables.function(pc),
            _ => None,
        };
        Some(Function { library: library.id, start })
    }

    /// The function at an address of the kernel.
    pub(super) fn kernel_function(&self, pc: usize) -> Function {
        Function { library: KERNEL, start: self.kernel.function(pc) }
    }

    /// The name of a function: the library's, if it has no other.
    pub(super) fn name(&mut self, function: Function) -> Named {
        let (descriptor, source) = (String::new(), String::new());
        if function.library == KERNEL {
            let name = function.start.and_then(|start| self.kernel.name(start));
            let (class, method) = match name {
                Some(name) => (KERNEL_NAME.to_owned(), name),
                None => (String::new(), KERNEL_NAME.to_owned()),
            };
            return Named { kind: "kernel", class, method, descriptor, source };
        }
        let library = self.libraries.by_id(function.library);
        let of = library.as_ref().map_or_else(|| "[unloaded]".to_owned(), |of| of.mapping.name());
        let name =
            library.zip(function.start).and_then(|(library, start)| match &library.functions {
                Functions::Tables(tables, _) => tables.name(start),
                _ => None,
            });
        let (class, method) = match name {
            Some(name) => (of, name),
            None => (String::new(), of),
        };
        Named { kind: "native", class, method, descriptor, source }
    }

    /// Memory that it uses.
    pub(super) fn bytes(&self) -> usize {
        self.tables().map(Tables::bytes).sum::<usize>() + self.rows_bytes + self.kernel.bytes()
    }

    fn tables(&self) -> impl Iterator<Item = &Tables> {
        self.libraries.iter().filter_map(|library| match &library.functions {
            Functions::Tables(tables, _) => Some(tables),
            _ => None,
        })
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use sampling_handler::unwind_rows::{FrameEnd, Rule};

    use super::*;

    /// Of this program and its C library: what the agent knows of functions and their frames.
    #[test]
    fn functions_of_this_process_have_names_and_rows() {
        let mut libraries = Libraries::default();
        libraries.read();
        assert_ne!(loaded::changes(), 0);
        for (pc, name) in [
            (elf::read as *const () as usize, "elf4read"),
            (libc::qsort as *const () as usize, "qsort"),
        ] {
            let library = libraries.at(pc).expect("a library");
            let page = std::fs::read(&library.mapping.path).expect("its file");
            let page = page[..mapping::FIRST_PAGE].to_vec();
            let (tables, rows) =
                elf::read(&library.mapping, page.clone(), MOST_BYTES).expect("its tables");
            let rows = rows.expect("its rows").leak();
            let found = tables.function(pc + 1).and_then(|function| tables.name(function));
            assert!(found.as_ref().is_some_and(|found| found.contains(name)), "{found:?}");
            assert!(rows.len() > 1_000 && rows.is_sorted_by_key(|row| row.from), "{}", rows.len());
            let offset = u32::try_from(pc - library.mapping.start).expect("an offset");
            let at = rows.partition_point(|row| row.from <= offset) - 1;
            // On entry, only the return address is on the stack.
            let entry = Rule::new(FrameEnd::AboveSp(1), 0);
            assert_eq!(rows[at].rule, entry);

            // Another file has other tables.
            let mut other = page;
            other[40] ^= 1;
            assert!(elf::read(&library.mapping, other, MOST_BYTES).is_none());
        }
    }
}
