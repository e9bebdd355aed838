//! Reads HotSpot's tables for debuggers (`gHotSpotVMStructs` and others): where its structures have their fields.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, Ordering};

use sampling_handler::memory::{Memory as _, Process};
use sampling_handler::vm_layout::{
    Anchor, Blob, CodeCache, Compiled, HEAPS, Layout, Metadata, Method, Number, Start,
};

use super::NotSaid;
use crate::sys::libraries::Library;

/// The first JDK whose packed numbers leave zero bytes out.
const PACKED_WITHOUT_ZERO: u32 = 20;
/// How many methods show where a field is.
const MANY: usize = 50;

/// A field: its offset, or the address of a static one.
#[derive(Clone, Copy)]
struct Field {
    offset: usize,
    address: usize,
}

/// HotSpot's tables.
pub(crate) struct Tables {
    fields: HashMap<(String, String), Field>,
    sizes: HashMap<String, usize>,
    numbers: HashMap<String, i32>,
}

impl Tables {
    /// Reads the tables; `None` if this JVM has none.
    pub(crate) fn read() -> Option<Self> {
        let library = Jvm::find()?;
        let at = |name: &CStr| library.value(name);
        let structs = library.table(c"gHotSpotVMStructs", c"gHotSpotVMStructEntryArrayStride")?;
        let (of, name) = (
            at(c"gHotSpotVMStructEntryTypeNameOffset")?,
            at(c"gHotSpotVMStructEntryFieldNameOffset")?,
        );
        let (offset, address) =
            (at(c"gHotSpotVMStructEntryOffsetOffset")?, at(c"gHotSpotVMStructEntryAddressOffset")?);
        let fields = structs.entries(|entry| {
            let field = Field { offset: entry.word(offset), address: entry.word(address) };
            Some(((entry.text(of)?, entry.text(name)?), field))
        });
        let types = library.table(c"gHotSpotVMTypes", c"gHotSpotVMTypeEntryArrayStride")?;
        let (name, size) =
            (at(c"gHotSpotVMTypeEntryTypeNameOffset")?, at(c"gHotSpotVMTypeEntrySizeOffset")?);
        let sizes = types.entries(|entry| Some((entry.text(name)?, entry.word(size))));
        let constants =
            library.table(c"gHotSpotVMIntConstants", c"gHotSpotVMIntConstantEntryArrayStride")?;
        let (name, value) = (
            at(c"gHotSpotVMIntConstantEntryNameOffset")?,
            at(c"gHotSpotVMIntConstantEntryValueOffset")?,
        );
        // An `int`, whose upper half is padding.
        #[allow(clippy::cast_possible_truncation)]
        let numbers = constants
            .entries(|entry| Some((entry.text(name)?, (entry.word(value) as u32).cast_signed())));
        Some(Self { fields, sizes, numbers })
    }

    fn find(&self, of: &str, name: &str) -> Option<Field> {
        self.fields.get(&(of.to_owned(), name.to_owned())).copied()
    }

    /// The offset of a field that one of these types has.
    fn any(&self, types: &[&str], name: &str) -> Result<usize, NotSaid> {
        let found = types.iter().find_map(|of| self.find(of, name));
        let missing = || not_said(&format!("{}::{name}", types.join(" or ")));
        found.map(|field| field.offset).ok_or_else(missing)
    }

    fn offset(&self, of: &str, name: &str) -> Result<usize, NotSaid> {
        self.any(&[of], name)
    }

    fn optional(&self, of: &str, name: &str) -> Option<usize> {
        self.find(of, name).map(|field| field.offset)
    }

    /// The value of a static field of eight bytes.
    fn value(&self, of: &str, name: &str) -> Result<usize, NotSaid> {
        let field = self.find(of, name).filter(|field| field.address != 0);
        let field = field.ok_or_else(|| not_said(&format!("{of}::{name}")))?;
        // SAFETY: the address of a variable of HotSpot's, as its own table says.
        Ok(unsafe { word_at(field.address) })
    }

    /// Where the walker finds what it needs.
    ///
    /// # Errors
    /// The field that is missing.
    pub(crate) fn layout(&self, jdk: u32) -> Result<Layout, NotSaid> {
        let anchor = |name| self.offset("JavaFrameAnchor", name);
        const ENTRY_WRAPPER: &str = "frame::entry_frame_call_wrapper_offset";
        let entry_wrapper = self.numbers.get(ENTRY_WRAPPER);
        let entry_wrapper = entry_wrapper.ok_or_else(|| not_said(ENTRY_WRAPPER))?;
        Ok(Layout {
            anchor: Anchor {
                of_thread: self.offset("JavaThread", "_anchor")?,
                sp: anchor("_last_Java_sp")?,
                pc: anchor("_last_Java_pc")?,
                fp: anchor("_last_Java_fp")?,
            },
            thread_state: self.offset("JavaThread", "_thread_state")?,
            stack_base: self.any(&["Thread", "JavaThread"], "_stack_base")?,
            blob: self.blob(jdk)?,
            compiled: self.compiled(jdk)?,
            method: self.method()?,
            wrapper_anchor: self.offset("JavaCallWrapper", "_anchor")?,
            entry_wrapper: *entry_wrapper as isize,
            code: self.code_cache()?,
        })
    }

    fn blob(&self, jdk: u32) -> Result<Blob, NotSaid> {
        let offset = |name| self.offset("CodeBlob", name);
        let complete = offset("_frame_complete_offset")?;
        // A `short` since JDK 23.
        let is_short = jdk >= 23;
        Ok(Blob {
            name: offset("_name")?,
            frame_size: offset("_frame_size")?,
            frame_complete: if is_short { Number::Short(complete) } else { Number::Int(complete) },
            code: match self.optional("CodeBlob", "_code_begin") {
                Some(field) => Start::Pointer(field),
                None => Start::Offset(offset("_code_offset")?),
            },
        })
    }

    fn compiled(&self, jdk: u32) -> Result<Compiled, NotSaid> {
        let types = ["CompiledMethod", "nmethod"];
        let scopes_data = self.optional("CompiledMethod", "_scopes_data_begin");
        let mutable = self.optional("CodeBlob", "_mutable_data");
        Ok(Compiled {
            method: self.any(&types, "_method")?,
            scopes_pcs: self.offset("nmethod", "_scopes_pcs_offset")?,
            scopes_data: match scopes_data {
                Some(field) => Start::Pointer(field),
                None => Start::Offset(self.offset("nmethod", "_scopes_data_offset")?),
            },
            immutable_data: self.optional("nmethod", "_immutable_data"),
            metadata: match mutable {
                Some(data) => Metadata::Mutable {
                    data,
                    relocation_size: self.offset("CodeBlob", "_relocation_size")?,
                },
                None => Metadata::Offset(self.offset("nmethod", "_metadata_offset")?),
            },
            entry: self.optional("nmethod", "_verified_entry_point"),
            original_pc: self.any(&types, "_orig_pc_offset")?,
            packed_base: u8::from(jdk >= PACKED_WITHOUT_ZERO),
        })
    }

    pub(crate) fn method(&self) -> Result<Method, NotSaid> {
        let size =
            self.sizes.get("ConstMethod").ok_or_else(|| not_said("the size of ConstMethod"))?;
        Ok(Method {
            constant: self.offset("Method", "_constMethod")?,
            pool: self.offset("ConstMethod", "_constants")?,
            number: self.offset("ConstMethod", "_method_idnum")?,
            original_number: None,
            constant_size: *size,
            holder: self.offset("ConstantPool", "_pool_holder")?,
            ids: self.offset("InstanceKlass", "_methods_jmethod_ids")?,
        })
    }

    fn code_cache(&self) -> Result<CodeCache, NotSaid> {
        let heaps = self.value("CodeCache", "_heaps")?;
        let length = self.any(&["GrowableArrayBase", "GenericGrowableArray"], "_len")?;
        let data = self.offset("GrowableArray<int>", "_data")?;
        // SAFETY: the list of heaps, which is made before Java code runs, and stays.
        let (count, first) = unsafe { (int_at(heaps + length), word_at(heaps + data)) };
        let count = usize::try_from(count).unwrap_or(0);
        if count == 0 || count > HEAPS {
            return Err(not_said("how many code heaps it has"));
        }
        let mut addresses = [0; HEAPS];
        for (at, heap) in addresses.iter_mut().take(count).enumerate() {
            // SAFETY: the list has this many addresses.
            *heap = unsafe { word_at(first + 8 * at) };
        }
        let (low, high) =
            (self.offset("VirtualSpace", "_low")?, self.offset("VirtualSpace", "_high")?);
        let memory = self.offset("CodeHeap", "_memory")?;
        let shift = self.offset("CodeHeap", "_log2_segment_size")?;
        let [heap, ..] = addresses;
        // SAFETY: a heap, with this field.
        let segment_shift = unsafe { int_at(heap + shift) };
        Ok(CodeCache {
            heaps: addresses,
            memory_low: memory + low,
            memory_high: memory + high,
            segments_low: self.offset("CodeHeap", "_segmap")? + low,
            used: self.offset("HeapBlock::Header", "_used")?,
            segment_shift: u32::try_from(segment_shift)
                .map_err(|_| not_said("the size of segments"))?,
            low: self.value("CodeCache", "_low_bound")?,
            high: self.value("CodeCache", "_high_bound")?,
            call_stub_return: self.value("StubRoutines", "_call_stub_return_address")?,
        })
    }

    /// Whether a switch of the JVM is on; `None` if it has no such switch.
    pub(crate) fn is_on(&self, switch: &str) -> Option<bool> {
        self.switch(switch).map(|at| at.load(Ordering::Relaxed))
    }

    /// Whether nobody has set a switch of the JVM.
    pub(crate) fn is_default(&self, switch: &str) -> Option<bool> {
        const ORIGIN: i32 = 15;
        let flags = self.flag(switch)?.0 + self.optional("JVMFlag", "_flags")?;
        // SAFETY: a field of the JVM's own table.
        Some(unsafe { int_at(flags) } & ORIGIN == 0)
    }

    /// A switch of the JVM; `None` if it has no such switch.
    pub(crate) fn switch(&self, switch: &str) -> Option<&'static AtomicBool> {
        let value = self.flag(switch)?.word(self.optional("JVMFlag", "_addr")?);
        let at = std::ptr::with_exposed_provenance_mut::<bool>(value);
        // SAFETY: the address of a variable of this type, as the JVM's own table says.
        (!at.is_null()).then(|| unsafe { AtomicBool::from_ptr(at) })
    }

    fn flag(&self, wanted: &str) -> Option<Entry> {
        let name = self.optional("JVMFlag", "_name")?;
        let size = *self.sizes.get("JVMFlag")?;
        let all = |name| self.value("JVMFlag", name).ok();
        let (first, count) = (all("flags")?, all("numFlags")?);
        let entries = (0..count).map(|at| Entry(first + at * size));
        entries
            .take_while(|entry| entry.word(name) != 0)
            .find(|entry| entry.text(name).as_deref() == Some(wanted))
    }

    /// Where a `JavaThread` leads to the kernel's number of its thread.
    ///
    /// # Errors
    /// The field that is missing.
    pub(crate) fn os_thread(&self) -> Result<(usize, usize), NotSaid> {
        Ok((
            self.any(&["Thread", "JavaThread"], "_osthread")?,
            self.offset("OSThread", "_thread_id")?,
        ))
    }

    /// In a thread's structure: the bytes of full buffers and of objects outside of them, where the buffer in use
    /// begins, and how far it is full.
    pub(crate) fn allocated_bytes(&self) -> Option<[usize; 3]> {
        let buffer = self.optional("Thread", "_tlab")?;
        let of_buffer = |name| Some(buffer + self.optional("ThreadLocalAllocBuffer", name)?);
        let counted = self.optional("Thread", "_allocated_bytes")?;
        Some([counted, of_buffer("_start")?, of_buffer("_top")?])
    }
}

/// Where a `ConstMethod` has `_orig_method_idnum`, which HotSpot's tables leave out; from the methods of a class that
/// has many. Of each method that is no old version it equals `_method_idnum`, and no other field does. `None` if that
/// is not so.
pub(crate) fn original_number(method: &Method, ids: &[usize]) -> Option<usize> {
    let constants = ids.iter().map(|id| {
        let method_address = Process.pointer(*id)?;
        Process.pointer(method_address + method.constant)
    });
    let constants: Vec<usize> = constants.collect::<Option<_>>()?;
    let number_at = |constant: &usize, at: usize| Process.short(constant + at);
    let is_same = |at: &usize| {
        constants.iter().all(|constant| {
            number_at(constant, *at).is_some_and(|n| number_at(constant, method.number) == Some(n))
        })
    };
    let mut same = (method.number + 2..method.constant_size).step_by(2).filter(is_same);
    same.next().filter(|_| constants.len() >= MANY && same.next().is_none())
}

fn not_said(what: &str) -> NotSaid {
    NotSaid(what.to_owned())
}

/// # Safety
/// There is a word at the address.
unsafe fn word_at(address: usize) -> usize {
    // SAFETY: the caller guarantees it.
    unsafe { std::ptr::with_exposed_provenance::<usize>(address).read_unaligned() }
}

/// # Safety
/// There is an `int` at the address.
unsafe fn int_at(address: usize) -> i32 {
    // SAFETY: the caller guarantees it.
    unsafe { std::ptr::with_exposed_provenance::<i32>(address).read_unaligned() }
}

/// The JVM's library.
struct Jvm(Library);

impl Jvm {
    fn find() -> Option<Self> {
        Library::find(c"libjvm.so").map(Self)
    }

    /// The value of a variable of eight bytes.
    fn value(&self, name: &CStr) -> Option<usize> {
        // SAFETY: all variables that are asked for here have eight bytes.
        self.0.symbol(name).map(|address| unsafe { address.cast::<usize>().read() })
    }

    /// The table that this variable points to.
    fn table(&self, start: &CStr, stride: &CStr) -> Option<Table> {
        Some(Table { start: self.value(start)?, stride: self.value(stride)? })
    }
}

/// A table of HotSpot's.
struct Table {
    start: usize,
    stride: usize,
}

impl Table {
    /// The entries, up to the first without a name.
    fn entries<K: std::hash::Hash + Eq, V>(
        &self,
        of: impl Fn(Entry) -> Option<(K, V)>,
    ) -> HashMap<K, V> {
        (0..).map_while(|at| of(Entry(self.start + at * self.stride))).collect()
    }
}

/// The address of an entry.
#[derive(Clone, Copy)]
struct Entry(usize);

impl Entry {
    /// The word at an offset that the table's variables have.
    fn word(self, offset: usize) -> usize {
        // SAFETY: an entry of a table, which has a field there.
        unsafe { word_at(self.0 + offset) }
    }

    /// The text whose address is at an offset.
    fn text(self, offset: usize) -> Option<String> {
        let text = std::ptr::with_exposed_provenance::<c_char>(self.word(offset));
        // SAFETY: null, or a constant of HotSpot's.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}
