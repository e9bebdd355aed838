//! What the rewriter tells the selector about a class and its methods, and what it asks.

use crate::annotations::{Annotated, Annotations, Attributes};
use crate::code::{CodeAttribute, ExceptionTable};
use crate::constant_pool::ConstantPool;
use crate::error::Skip;
use crate::instruction::Bytecode;
use crate::mutf8::Mutf8;
use crate::opcode::{
    ALOAD_0, GETFIELD, GETSTATIC, Operand, PUTFIELD, PUTSTATIC, RETURN as RETURNS, lookup,
};
use crate::probe::BEFORE_INIT;
use crate::straight_line::is_straight_line;
use crate::tables;

/// The id by which inserted code names a method to the probes: from 1 to 2^30 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeId(u32);

impl ProbeId {
    /// `None` if the number is out of range.
    #[must_use]
    pub const fn new(id: u32) -> Option<Self> {
        if id == 0 || id >= BEFORE_INIT { None } else { Some(Self(id)) }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A class that is being rewritten.
#[derive(Clone, Copy, Debug)]
pub struct ClassInfo<'a> {
    /// Internal name, `com/shop/Order`.
    pub name: Mutf8<'a>,
    /// Major version of the class file.
    pub major_version: u16,
    /// Access flags (JVMS 4.1).
    pub access_flags: u16,
    /// The SourceFile attribute, if there is one.
    pub source_file: Option<Mutf8<'a>>,
    pub(crate) annotated: Annotated<'a>,
}

impl<'a> ClassInfo<'a> {
    /// The types of its annotations in the class file, whether kept at run time or not: descriptors such as
    /// `Lcom/shop/Timed;`.
    #[must_use]
    pub fn annotations(&self) -> Annotations<'a> {
        self.annotated.annotations()
    }
}

/// A method with code, other than `<clinit>`.
#[derive(Clone, Copy, Debug)]
pub struct MethodInfo<'a> {
    /// Name; a constructor is `<init>`.
    pub name: Mutf8<'a>,
    /// Descriptor, `(I)V`.
    pub descriptor: Mutf8<'a>,
    /// Access flags (JVMS 4.6).
    pub access_flags: u16,
    code: Bytecode<'a>,
    exception_table: ExceptionTable<'a>,
    pool: &'a ConstantPool<'a, 'a>,
    code_attributes: Annotated<'a>,
    annotated: Annotated<'a>,
}

impl<'a> MethodInfo<'a> {
    pub(crate) fn new(
        name: Mutf8<'a>,
        descriptor: Mutf8<'a>,
        access_flags: u16,
        attribute: &CodeAttribute<'a>,
        pool: &'a ConstantPool<'a, 'a>,
        attributes: Attributes<'a>,
    ) -> Self {
        let (code, exception_table) = (attribute.bytecode, attribute.exception_table);
        let code_attributes = Annotated::new(pool, attribute.counted_attributes);
        let annotated = Annotated::new(pool, attributes);
        Self {
            name,
            descriptor,
            access_flags,
            code,
            exception_table,
            pool,
            code_attributes,
            annotated,
        }
    }

    /// First line of its code, or 0 if the class has no line numbers.
    #[must_use]
    pub fn line(&self) -> u16 {
        let table = self.code_attributes.attribute("LineNumberTable");
        // The rewriting of the method reports a table that cannot be read.
        table.map_or(0, |table| tables::first_line(table).unwrap_or(0))
    }

    /// Like [`ClassInfo::annotations`].
    #[must_use]
    pub fn annotations(&self) -> Annotations<'a> {
        self.annotated.annotations()
    }

    /// Length of its code in bytes.
    #[must_use]
    pub const fn code_length(&self) -> usize {
        self.code.bytes.len()
    }

    /// Whether it is a trivial leaf: at most 100 bytes of code, no call, no loop, no allocation, no monitor and no
    /// dynamic constant. The first use of a class, which loads and initialises it, does not count.
    #[must_use]
    pub fn is_straight_line(&self) -> bool {
        const SYNCHRONIZED: u16 = 0x0020;
        self.access_flags & SYNCHRONIZED == 0
            && is_straight_line(self.code, self.exception_table.entries(), self.pool)
    }

    /// Whether it only reads one field, or writes one from its parameter.
    #[must_use]
    pub fn is_trivial_accessor(&self) -> bool {
        let code = match self.code.bytes {
            [ALOAD_0, rest @ ..] => rest,
            other => other,
        };
        let ends = |opcode: &u8| lookup(*opcode).is_some_and(|op| op.is(RETURNS));
        match code {
            [GETFIELD | GETSTATIC, _, _, last] => ends(last),
            [load, PUTFIELD | PUTSTATIC, _, _, last] => is_load(&[*load]) && ends(last),
            [load, local, PUTFIELD | PUTSTATIC, _, _, last] => {
                is_load(&[*load, *local]) && ends(last)
            }
            // The second load of a static setter's own parameter.
            [PUTSTATIC, _, _, last] => self.code.bytes.len() == 5 && ends(last),
            _ => false,
        }
    }
}

/// Whether these bytes are a single instruction that pushes a local variable.
fn is_load(bytes: &[u8]) -> bool {
    let Some((opcode, operands)) = bytes.split_first() else { return false };
    let is_load = lookup(*opcode).is_some_and(|op| op.pop == 0 && op.name.contains("load"));
    let is_long = lookup(*opcode).is_some_and(|op| op.operand == Operand::Local);
    is_load && is_long != operands.is_empty()
}

/// Decides which methods are instrumented. All calls for a class come in the order of its methods.
pub trait Selector {
    /// Whether to instrument the method.
    fn selects(&mut self, class: &ClassInfo<'_>, method: &MethodInfo<'_>) -> bool {
        let _ = (class, method);
        true
    }

    /// The id of a method that was selected and can be instrumented. In rare cases that still fails;
    /// [`skipped`](Self::skipped) reports it after this call. `None` leaves the method as it is.
    fn id(&mut self, class: &ClassInfo<'_>, method: &MethodInfo<'_>) -> Option<ProbeId>;

    /// Reports that a selected method is not instrumented, and why. Methods without code and `<clinit>` are reported
    /// here without having been selected.
    fn skipped(
        &mut self,
        class: &ClassInfo<'_>,
        name: Mutf8<'_>,
        descriptor: Mutf8<'_>,
        why: Skip,
    ) {
        let _ = (class, name, descriptor, why);
    }
}
