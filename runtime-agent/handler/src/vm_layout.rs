//! Where HotSpot has the fields that the walker reads, as its own tables for debuggers say (`gHotSpotVMStructs`).
//!
//! Fields moved between versions; where there are two ways, the agent tells which one this JVM has.

/// Most heaps of a code cache.
pub const HEAPS: usize = 8;

/// Offsets of fields, in bytes, and addresses. Filled in by the agent, and constant from then on.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The thread's last Java frame before it went to native code.
    pub anchor: Anchor,
    /// `JavaThread::_thread_state`.
    pub thread_state: usize,
    /// `JavaThread::_stack_base`: the address behind its stack.
    pub stack_base: usize,
    /// Pieces of the code cache.
    pub blob: Blob,
    /// Compiled methods.
    pub compiled: Compiled,
    /// From a method to its `jmethodID`.
    pub method: Method,
    /// `JavaCallWrapper::_anchor`, and where an entry frame has its call wrapper, in words from its frame pointer.
    pub wrapper_anchor: usize,
    /// See `wrapper_anchor`.
    pub entry_wrapper: isize,
    /// The code cache.
    pub code: CodeCache,
}

/// Offsets in `JavaThread` and `JavaFrameAnchor`.
#[derive(Clone, Copy, Debug)]
pub struct Anchor {
    /// `JavaThread::_anchor`.
    pub of_thread: usize,
    /// `_last_Java_sp`.
    pub sp: usize,
    /// `_last_Java_pc`.
    pub pc: usize,
    /// `_last_Java_fp`.
    pub fp: usize,
}

/// A field that has a pointer, or an offset to the structure's start.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// Offset of a field with an address.
    Pointer(usize),
    /// Offset of a field with an `int` offset.
    Offset(usize),
}

/// The width of a field.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// Offset of an `int`.
    Int(usize),
    /// Offset of a `short`.
    Short(usize),
}

/// Offsets in `CodeBlob`.
#[derive(Clone, Copy, Debug)]
pub struct Blob {
    /// `_name`.
    pub name: usize,
    /// `_frame_size`, in words.
    pub frame_size: usize,
    /// `_frame_complete_offset`.
    pub frame_complete: Number,
    /// `_code_begin`, or `_code_offset` since JDK 23.
    pub code: Start,
}

/// Offsets in `nmethod`.
#[derive(Clone, Copy, Debug)]
pub struct Compiled {
    /// `_method`.
    pub method: usize,
    /// `_scopes_pcs_offset`; the next `int` has the end.
    pub scopes_pcs: usize,
    /// `_scopes_data_begin`, or `_scopes_data_offset` since JDK 23.
    pub scopes_data: Start,
    /// `_immutable_data`, to which scopes are relative since JDK 23; before, to the structure itself.
    pub immutable_data: Option<usize>,
    /// Where its methods are.
    pub metadata: Metadata,
    /// `_verified_entry_point`, where there is one.
    pub entry: Option<usize>,
    /// `_orig_pc_offset`: where in a frame its pc is kept while it is to be deoptimized.
    pub original_pc: usize,
    /// What is added to each byte of packed numbers: 1 since JDK 20.
    pub packed_base: u8,
}

/// Where a compiled method's metadata begin.
#[derive(Clone, Copy, Debug)]
pub enum Metadata {
    /// Offset of the `int` `_metadata_offset`.
    Offset(usize),
    /// Since JDK 25: behind the relocations in mutable data.
    Mutable {
        /// `_mutable_data`.
        data: usize,
        /// `_relocation_size`.
        relocation_size: usize,
    },
}

/// Offsets on the way from a `Method` to its `jmethodID`.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// `Method::_constMethod`.
    pub constant: usize,
    /// `ConstMethod::_constants`.
    pub pool: usize,
    /// `ConstMethod::_method_idnum`.
    pub number: usize,
    /// `ConstMethod::_orig_method_idnum`, if it was found.
    pub original_number: Option<usize>,
    /// Size of a `ConstMethod`, behind which is the bytecode.
    pub constant_size: usize,
    /// `ConstantPool::_pool_holder`.
    pub holder: usize,
    /// `InstanceKlass::_methods_jmethod_ids`.
    pub ids: usize,
}

/// The code cache: its heaps, and offsets in `CodeHeap`.
#[derive(Clone, Copy, Debug)]
pub struct CodeCache {
    /// Addresses of the heaps; 0 for none.
    pub heaps: [usize; HEAPS],
    /// `_memory`, plus `_low` and `_high` of the `VirtualSpace`.
    pub memory_low: usize,
    /// See `memory_low`.
    pub memory_high: usize,
    /// `_segmap`, plus `_low`.
    pub segments_low: usize,
    /// `HeapBlock::Header::_used`.
    pub used: usize,
    /// Binary logarithm of a segment's size.
    pub segment_shift: u32,
    /// The lowest address, and the one behind the highest.
    pub low: usize,
    /// See `low`.
    pub high: usize,
    /// Where a call from native code returns to in the call stub.
    pub call_stub_return: usize,
}
