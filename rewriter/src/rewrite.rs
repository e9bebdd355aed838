//! Walks through a class file and assembles its rewritten parts.

use std::ops::Range;

use crate::annotations::{ANNOTATIONS, Annotated, Attributes};
use crate::code::{CodeAttribute, ExceptionEntry};
use crate::code_layout::{self, Lengths, OffsetMap};
use crate::constant_pool::{Appended, ConstantPool, CpIndex, PoolFull, STACK_MAP_TABLE};
use crate::constructor::{self, Found};
use crate::emit::{self, Buffers, Method};
use crate::error::{Error, ErrorKind, Skip};
use crate::instruction::{Bytecode, Pc};
use crate::monitors;
use crate::mutf8::Mutf8;
use crate::opcode::INVOKESTATIC;
use crate::overflow_handlers;
use crate::probe::{self, StatementMethod};
use crate::probe_constants::{Blocker, Needs, ProbeConstants, WITH_THREE, WITH_TWO};
use crate::reader::{Cursor, Result};
use crate::selector::{ClassInfo, MethodInfo, ProbeId, Selector};
use crate::stack_effect::{EffectCache, KnownSlots, parameter_count};
use crate::stack_map;

const ACC_STATIC: u16 = 0x0008;
const MAGIC: u32 = 0xcafe_babe;
/// The first version whose verifier requires a StackMapTable.
const FIRST_WITH_FRAMES: u16 = 50;

/// The result of rewriting a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No method was instrumented: keep the class as it is.
    Unchanged,
    /// At least one method was instrumented.
    Rewritten(Rewritten),
}

/// An instrumented class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The class file.
    pub bytes: Vec<u8>,
    /// How many of its methods are instrumented.
    pub methods: u32,
}

/// Rewrites classes. It keeps its buffers from class to class; make one per thread.
#[derive(Debug, Default)]
pub struct Rewriter {
    offsets: Vec<u32>,
    slots: KnownSlots,
    calls: Vec<Pc>,
    map: OffsetMap,
    buffers: Buffers,
    appended: Appended,
    /// The new Code attributes, one after the other, and the bytes of the class that each replaces.
    codes: Vec<u8>,
    patches: Vec<Patch>,
}

/// What the probes are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probes {
    Calls,
    Parks,
    Statements,
}

impl Probes {
    /// The class that they are in.
    const fn class(self) -> &'static str {
        match self {
            Self::Calls | Self::Parks => probe::CLASS,
            Self::Statements => probe::STATEMENT_CLASS,
        }
    }

    /// The lengths of those in a method.
    fn lengths(self, method: &MethodInfo<'_>) -> Lengths {
        let is_maker = || statement_method(method).is_some_and(StatementMethod::returns_object);
        match self {
            Self::Calls | Self::Parks => Lengths::SHORT,
            Self::Statements if is_maker() => Lengths { entry: WITH_THREE, at_return: WITH_TWO },
            Self::Statements => Lengths { entry: WITH_THREE, ..Lengths::SHORT },
        }
    }
}

/// Selects the methods that park the thread.
struct Parks;

impl Selector for Parks {
    fn selects(&mut self, _: &ClassInfo<'_>, method: &MethodInfo<'_>) -> bool {
        method.access_flags & ACC_STATIC != 0 && method.name.to_str().starts_with("park")
    }

    /// Their probes take none.
    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
        ProbeId::new(1)
    }
}

fn blocker(method: &MethodInfo<'_>) -> Blocker {
    let is_object = method.descriptor.to_str().starts_with("(L");
    if is_object { Blocker::Parameter } else { Blocker::Null }
}

/// Static methods and those of other names implement nothing of JDBC's.
fn statement_method(method: &MethodInfo<'_>) -> Option<StatementMethod> {
    if method.access_flags & ACC_STATIC != 0 {
        return None;
    }
    StatementMethod::of(&method.name.to_str(), &method.descriptor.to_str())
}

#[derive(Clone, Debug)]
struct Patch {
    old: Range<usize>,
    new: Range<usize>,
}

/// The internal name of a class, `com/shop/Order`. The rest of the class is not read.
///
/// # Errors
/// The class file ends or is malformed before its name is known.
pub fn class_name(class: &[u8]) -> Result<Mutf8<'_>> {
    let (mut cursor, _) = start(class)?;
    let mut offsets = Vec::new();
    let pool = ConstantPool::read(class, &mut cursor, &mut offsets)?;
    let _access_flags = cursor.u2()?;
    pool.class_name(CpIndex(cursor.u2()?))
}

/// The first version whose Code attribute has today's form.
const FIRST_WITH_LONG_CODE: (u16, u16) = (45, 3);

/// Reads magic and version: returns a cursor after them, and the version, major first.
fn start(class: &[u8]) -> Result<(Cursor<'_>, (u16, u16))> {
    let mut cursor = Cursor::new(class, 0);
    if cursor.u4() != Ok(MAGIC) {
        return Err(Error::new(ErrorKind::NotAClassFile, 0));
    }
    let minor_version = cursor.u2()?;
    let major_version = cursor.u2()?;
    Ok((cursor, (major_version, minor_version)))
}

/// A method in the form of the class file.
struct RawMethod<'a> {
    access_flags: u16,
    name: Mutf8<'a>,
    descriptor: Mutf8<'a>,
    /// Where the number of its attributes is.
    attributes_at: usize,
    attributes: Attributes<'a>,
    code: Code<'a>,
}

/// The code of a method.
enum Code<'a> {
    /// There is no code.
    None,
    /// The class file's version is too old to be rewritten.
    Old,
    Attribute(CodeAttribute<'a>),
}

impl Rewriter {
    /// A rewriter with empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Rewrites one class.
    ///
    /// # Errors
    /// The class is malformed: keep it as it is. Earlier calls of the selector for it do not count.
    pub fn rewrite(&mut self, class: &[u8], selector: &mut dyn Selector) -> Result<Outcome> {
        self.rewrite_for(Probes::Calls, class, selector)
    }

    /// Rewrites a class whose static methods `park...` park the thread, as `java.util.concurrent.locks.LockSupport`:
    /// they call [`probe::PARKING`] and [`probe::PARKED`]. An object as first parameter is what the thread waits for.
    ///
    /// # Errors
    /// As [`rewrite`](Self::rewrite).
    pub fn rewrite_parks(&mut self, class: &[u8]) -> Result<Outcome> {
        self.rewrite_for(Probes::Parks, class, &mut Parks)
    }

    /// Rewrites a class with methods that JDBC's statements and connections have ([`StatementMethod`]): those that are
    /// selected call [`probe::ENTERED`], and [`probe::RETURNED`], [`probe::PREPARED`] or [`probe::FAILED`].
    ///
    /// # Errors
    /// As [`rewrite`](Self::rewrite).
    pub fn rewrite_statements(
        &mut self,
        class: &[u8],
        selector: &mut dyn Selector,
    ) -> Result<Outcome> {
        self.rewrite_for(Probes::Statements, class, selector)
    }

    fn rewrite_for(
        &mut self,
        probes_for: Probes,
        class: &[u8],
        selector: &mut dyn Selector,
    ) -> Result<Outcome> {
        let Self { offsets, slots, calls, map, buffers, appended, codes, patches } = self;
        codes.clear();
        patches.clear();

        let (mut cursor, version) = start(class)?;
        let pool = ConstantPool::read(class, &mut cursor, offsets)?;
        let pool_end = cursor.offset();
        let access_flags = cursor.u2()?;
        let name = pool.class_name(CpIndex(cursor.u2()?))?;
        let super_class = cursor.u2()?;
        let interfaces = usize::from(cursor.u2()?);
        cursor.bytes(2 * interfaces)?;
        skip_members(&mut cursor)?;
        let mut methods = cursor.clone();
        skip_members(&mut cursor)?;
        let annotated = Annotated::new(&pool, Attributes::at(&cursor));
        let source_file = read_source_file(&mut cursor, &pool)?;

        let major_version = version.0;
        let info = ClassInfo { name, major_version, access_flags, source_file, annotated };
        appended.start(pool.count());
        let calls_probes = || has_probes(methods.clone(), &pool, version, probes_for.class());
        let mut work = ClassWork {
            info,
            has_super_class: super_class != 0,
            has_probes: pool.names_probes && calls_probes(),
            effects: EffectCache::new(slots),
            pool: &pool,
            calls,
            map,
            buffers,
            appended,
            probes_for,
            probes: ProbeConstants::default(),
            codes,
        };
        let mut rewritten = 0;
        for _ in 0..methods.u2()? {
            let method = RawMethod::read(&mut methods, work.pool, version)?;
            let start = work.codes.len();
            if work.method(&method, selector).map_err(|error| in_method(error, &method))?
                && let Code::Attribute(code) = &method.code
            {
                rewritten += 1;
                let count = work.annotate(&method);
                let end = work.codes.len();
                if let Some(count) = count {
                    work.codes.extend_from_slice(&count.to_be_bytes());
                    let at = method.attributes_at;
                    patches.push(Patch { old: at..at + 2, new: end..end + 2 });
                }
                patches.push(Patch { old: code.start..code.end, new: start..end });
            }
        }
        if patches.is_empty() {
            return Ok(Outcome::Unchanged);
        }
        let bytes = assemble(class, pool_end, appended, codes, patches);
        Ok(Outcome::Rewritten(Rewritten { bytes, methods: rewritten }))
    }
}

/// The error with the method in which it was found.
fn in_method(mut error: Error, method: &RawMethod<'_>) -> Error {
    error.method.get_or_insert(format!("{}{}", method.name, method.descriptor).into());
    error
}

/// Whether a method calls a probe. A class that cannot be read counts as having probes.
fn has_probes<'a>(
    mut methods: Cursor<'a>,
    pool: &ConstantPool<'a, '_>,
    version: (u16, u16),
    class: &str,
) -> bool {
    let mut look = || -> Result<bool> {
        for _ in 0..methods.u2()? {
            if let Code::Attribute(code) = RawMethod::read(&mut methods, pool, version)?.code
                && calls_probe(&code.bytecode, pool, class)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    };
    look().unwrap_or(true)
}

fn calls_probe(code: &Bytecode<'_>, pool: &ConstantPool<'_, '_>, class: &str) -> Result<bool> {
    let mut next = Pc(0);
    while let Some((instruction, after)) = code.instruction(next)? {
        next = after;
        if let [INVOKESTATIC, a, b] = *instruction.bytes
            && pool.member_class(CpIndex(u16::from_be_bytes([a, b])))? == *class
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The class with its longer constant pool and its new Code attributes.
fn assemble(
    class: &[u8],
    pool_end: usize,
    appended: &Appended,
    codes: &[u8],
    patches: &[Patch],
) -> Vec<u8> {
    let copy = |range: Range<usize>| class.get(range).unwrap_or_default();
    let replaced: usize = patches.iter().map(|p| p.old.len()).sum();
    let length = class.len() + appended.bytes.len() + codes.len() - replaced;
    let mut out = Vec::with_capacity(length);
    // Magic and version; the pool's count follows them.
    out.extend_from_slice(copy(0..8));
    out.extend_from_slice(&appended.count().to_be_bytes());
    out.extend_from_slice(copy(10..pool_end));
    out.extend_from_slice(&appended.bytes);
    let mut copied = pool_end;
    for patch in patches {
        out.extend_from_slice(copy(copied..patch.old.start));
        out.extend_from_slice(codes.get(patch.new.clone()).unwrap_or_default());
        copied = patch.old.end;
    }
    out.extend_from_slice(copy(copied..class.len()));
    out
}

/// Skips the fields or the methods.
fn skip_members(cursor: &mut Cursor<'_>) -> Result<()> {
    for _ in 0..cursor.u2()? {
        cursor.bytes(6)?;
        for _ in 0..cursor.u2()? {
            cursor.bytes(2)?;
            cursor.attribute()?;
        }
    }
    Ok(())
}

/// Reads the attributes of the class, which are at the end of the file.
fn read_source_file<'a>(
    cursor: &mut Cursor<'a>,
    pool: &ConstantPool<'a, '_>,
) -> Result<Option<Mutf8<'a>>> {
    let mut source_file = None;
    for _ in 0..cursor.u2()? {
        let name = pool.utf8(CpIndex(cursor.u2()?))?;
        let mut contents = cursor.attribute()?;
        if name == *"SourceFile" {
            source_file = Some(pool.utf8(CpIndex(contents.u2()?))?);
        }
    }
    if cursor.is_empty() { Ok(source_file) } else { cursor.error(ErrorKind::TrailingBytes) }
}

impl<'a> RawMethod<'a> {
    fn read(
        cursor: &mut Cursor<'a>,
        pool: &ConstantPool<'a, '_>,
        version: (u16, u16),
    ) -> Result<Self> {
        let access_flags = cursor.u2()?;
        let name = pool.utf8(CpIndex(cursor.u2()?))?;
        let descriptor = pool.utf8(CpIndex(cursor.u2()?))?;
        let (attributes_at, attributes) = (cursor.offset(), Attributes::at(cursor));
        let mut code = Code::None;
        for _ in 0..cursor.u2()? {
            let name_index = cursor.u2()?;
            if pool.utf8(CpIndex(name_index))? == *"Code" {
                if !matches!(code, Code::None) {
                    return cursor.error(ErrorKind::DuplicateCode);
                }
                code = if version < FIRST_WITH_LONG_CODE {
                    cursor.attribute()?;
                    Code::Old
                } else {
                    Code::Attribute(CodeAttribute::read(name_index, cursor)?)
                };
            } else {
                cursor.attribute()?;
            }
        }
        Ok(Self { access_flags, name, descriptor, attributes_at, attributes, code })
    }
}

/// A class being rewritten.
struct ClassWork<'a, 's> {
    info: ClassInfo<'a>,
    has_super_class: bool,
    has_probes: bool,
    pool: &'a ConstantPool<'a, 'a>,
    effects: EffectCache<'s>,
    calls: &'s mut Vec<Pc>,
    map: &'s mut OffsetMap,
    buffers: &'s mut Buffers,
    appended: &'s mut Appended,
    probes_for: Probes,
    probes: ProbeConstants,
    codes: &'s mut Vec<u8>,
}

impl ClassWork<'_, '_> {
    /// Appends an annotation behind the Code attribute of a method that parks: HotSpot's compilers shall not put it
    /// into its callers. With the probes, it made loops that park an eighth slower. Returns how many attributes the
    /// method has then; `None` if it gets no annotation.
    fn annotate(&mut self, method: &RawMethod<'_>) -> Option<u16> {
        let annotated = Annotated::new(self.pool, method.attributes);
        if self.probes_for != Probes::Parks || annotated.attribute(ANNOTATIONS).is_some() {
            return None;
        }
        let count = annotated.count()?.checked_add(1)?;
        let (name, annotation) = self.probes.dont_inline(self.appended).ok()?;
        // The length; one annotation, with no values.
        let (length, one, none) = (6_u32.to_be_bytes(), 1_u16.to_be_bytes(), 0_u16.to_be_bytes());
        self.codes.extend_from_slice(&name.0.to_be_bytes());
        self.codes.extend_from_slice(&length);
        self.codes.extend_from_slice(&one);
        self.codes.extend_from_slice(&annotation.0.to_be_bytes());
        self.codes.extend_from_slice(&none);
        Some(count)
    }

    /// Appends the new Code attribute of a method to `codes`. `false` if it stays as it is.
    fn method(&mut self, method: &RawMethod<'_>, selector: &mut dyn Selector) -> Result<bool> {
        let skip = match &method.code {
            Code::None => Skip::NoCode,
            Code::Old => Skip::OldCodeFormat,
            Code::Attribute(_) if method.name == *"<clinit>" => Skip::ClassInitializer,
            Code::Attribute(code) => {
                let info = MethodInfo::new(
                    method.name,
                    method.descriptor,
                    method.access_flags,
                    code,
                    self.pool,
                    method.attributes,
                );
                let is_other =
                    self.probes_for == Probes::Statements && statement_method(&info).is_none();
                if is_other || !selector.selects(&self.info, &info) {
                    return Ok(false);
                }
                if self.has_probes {
                    Skip::HasProbes
                } else {
                    match self.instrument(code, &info, selector)? {
                        Ok(changed) => return Ok(changed),
                        Err(skip) => skip,
                    }
                }
            }
        };
        selector.skipped(&self.info, method.name, method.descriptor, skip);
        Ok(false)
    }

    fn instrument(
        &mut self,
        code: &CodeAttribute<'_>,
        info: &MethodInfo<'_>,
        selector: &mut dyn Selector,
    ) -> Result<std::result::Result<bool, Skip>> {
        let needs_frames = self.info.major_version >= FIRST_WITH_FRAMES;
        let is_constructor = info.name == *"<init>" && self.has_super_class;
        self.map.start(&code.bytecode, self.probes_for.lengths(info));
        let mut found = Found::default();
        if is_constructor {
            let parameters = parameter_count(info.descriptor)?;
            let without_this = match code_attribute(code, self.pool, STACK_MAP_TABLE)? {
                Some(table) => stack_map::frames_without_this(table, parameters)?,
                None => Vec::new(),
            };
            let (pool, effects) = (self.pool, &mut self.effects);
            match constructor::analyse(code, &without_this, pool, effects, self.map)? {
                Ok(in_constructor) => found = in_constructor,
                Err(skip) => return Ok(Err(skip)),
            }
        }
        if found.init_throws {
            self.map.tell_initialized();
        }
        if self.probes_for == Probes::Calls {
            self.mark_handlers(code)?;
        }
        self.map.scan(&code.bytecode)?;

        if let Err(skip) =
            emit::plan_handlers(self.map, is_constructor, found.throws_before_init, self.buffers)
        {
            return Ok(Err(skip));
        }
        let Some(id) = selector.id(&self.info, info) else { return Ok(Ok(false)) };
        let needs = Needs {
            caught: self.map.has_handlers(),
            initialized: found.init_throws,
            frames: needs_frames,
        };
        let (pool, appended) = (self.pool, &mut *self.appended);
        let constants = match self.probes_for {
            Probes::Calls => self.probes.of_method(pool, appended, id, needs),
            Probes::Parks => self.probes.of_park(pool, appended, blocker(info), needs),
            Probes::Statements => match statement_method(info) {
                Some(what) => self.probes.of_statement(pool, appended, (id, what), needs),
                None => return Ok(Ok(false)),
            },
        };
        let constants = match constants {
            Ok(constants) => constants,
            Err(PoolFull) => return Ok(Err(Skip::ConstantPoolFull)),
        };
        let method = Method { constants, map: self.map };
        let written = emit::write_code(self.codes, code, self.pool, &method, self.buffers)?;
        Ok(written.map(|()| true))
    }

    /// Marks the handlers that should begin with `Caught`, and plans their guards.
    fn mark_handlers(&mut self, code: &CodeAttribute<'_>) -> Result<()> {
        if code.exceptions().len() == 0 {
            return Ok(());
        }
        self.mark_callers(code)?;
        overflow_handlers::mark(code, self.pool, self.map)
    }

    /// Marks the handlers whose range can run Java code.
    fn mark_callers(&mut self, code: &CodeAttribute<'_>) -> Result<()> {
        let has_monitors = code_layout::calls(&code.bytecode, self.calls)?;
        let calls = &*self.calls;
        let runs_java = |entry: &ExceptionEntry| {
            let first = calls.partition_point(|pc| *pc < entry.start);
            calls.get(first).is_some_and(|pc| *pc < entry.end)
        };
        let mut handlers = code.exceptions().filter(runs_java).map(|entry| entry.handler);
        if has_monitors {
            return monitors::mark_handlers(code, handlers, self.map);
        }
        handlers.try_for_each(|handler| {
            self.map.set_handler(handler);
            Ok(())
        })
    }
}

/// The first attribute of a Code attribute with this name.
fn code_attribute<'a>(
    code: &CodeAttribute<'a>,
    pool: &ConstantPool<'a, '_>,
    name: &str,
) -> Result<Option<Cursor<'a>>> {
    let mut attributes = code.attributes.clone();
    for _ in 0..code.attribute_count {
        let found = pool.utf8(CpIndex(attributes.u2()?))?;
        let contents = attributes.attribute()?;
        if found == *name {
            return Ok(Some(contents));
        }
    }
    Ok(None)
}
