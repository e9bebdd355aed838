//! The constants of the inserted code, appended to a class's pool when they are first needed.

use crate::ProbeId;
use crate::annotations::ANNOTATIONS;
use crate::constant_pool::{Appended, ConstantPool, CpIndex, PoolFull, STACK_MAP_TABLE};
use crate::opcode::{ACONST_NULL, ALOAD_0, ALOAD_1, DUP, INVOKESTATIC, LDC_W, NOP, SIPUSH, SWAP};
use crate::probe::{self, StatementMethod};

const THROWABLE: &str = "java/lang/Throwable";

/// Indices of the constants appended so far; empty at the start of a class.
#[derive(Debug, Default)]
pub(crate) struct ProbeConstants {
    class: Option<CpIndex>,
    descriptor: Option<CpIndex>,
    start: Option<CpIndex>,
    end: Option<CpIndex>,
    threw: Option<CpIndex>,
    caught: Option<CpIndex>,
    initialized: Option<CpIndex>,
    throwable: Option<CpIndex>,
    stack_map_table: Option<CpIndex>,
    annotations: Option<CpIndex>,
    dont_inline: Option<CpIndex>,
}

/// Keeps HotSpot's compilers from inlining a method of the JDK.
const DONT_INLINE: &str = "Ljdk/internal/vm/annotation/DontInline;";

/// The instructions that call a probe: three bytes that push its argument, and an `invokestatic`.
type Call = [u8; 6];

/// The instructions that call a probe with one, two or three arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LongCall {
    One(Call),
    Two([u8; WITH_TWO as usize]),
    Three([u8; WITH_THREE as usize]),
}

/// The length of [`LongCall::Two`].
pub(crate) const WITH_TWO: u32 = 7;
/// The length of [`LongCall::Three`].
pub(crate) const WITH_THREE: u32 = 8;

impl LongCall {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::One(bytes) => bytes,
            Self::Two(bytes) => bytes,
            Self::Three(bytes) => bytes,
        }
    }
}

/// The length of [`ThrewCall`].
pub(crate) const THREW_LENGTH: u32 = 8;

/// The instructions that call a probe with the exception on top of the stack, and leave that there.
type ThrewCall = [u8; THREW_LENGTH as usize];

/// What the inserted code of one method refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MethodConstants {
    pub start: LongCall,
    pub end: LongCall,
    pub threw: ThrewCall,
    /// `None` if no handler of the method needs it.
    pub caught: Option<Call>,
    /// For a constructor before the end of its `super(...)` call. Same as for the body, unless that call may throw.
    pub threw_before_init: ThrewCall,
    pub caught_before_init: Option<Call>,
    /// `None` if the method does not need it.
    pub initialized: Option<Call>,
    /// The class java/lang/Throwable.
    pub throwable: CpIndex,
    /// The attribute's name, if the class's version needs frames.
    pub stack_map_table: Option<CpIndex>,
}

/// What a method that parks hands to the probe at its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocker {
    Null,
    /// The first parameter of a static method.
    Parameter,
}

/// What this method needs beyond what all methods need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    pub caught: bool,
    pub initialized: bool,
    pub frames: bool,
}

fn or_append(
    known: &mut Option<CpIndex>,
    append: impl FnOnce() -> Result<CpIndex, PoolFull>,
) -> Result<CpIndex, PoolFull> {
    match known {
        Some(index) => Ok(*index),
        None => Ok(*known.insert(append()?)),
    }
}

impl ProbeConstants {
    /// The constants of the method with this id.
    pub(crate) fn of_method(
        &mut self,
        pool: &ConstantPool<'_, '_>,
        appended: &mut Appended,
        id: ProbeId,
        needs: Needs,
    ) -> Result<MethodConstants, PoolFull> {
        let class = or_append(&mut self.class, || appended.class(probe::CLASS))?;
        let descriptor = or_append(&mut self.descriptor, || appended.utf8(probe::DESCRIPTOR))?;
        let mut method = |known: &mut Option<CpIndex>, name: &str| {
            or_append(known, || appended.method_ref(class, name, descriptor))
        };
        let start = method(&mut self.start, probe::START)?;
        let end = method(&mut self.end, probe::END)?;
        let caught =
            if needs.caught { Some(method(&mut self.caught, probe::CAUGHT)?) } else { None };
        let initialized = if needs.initialized {
            Some(method(&mut self.initialized, probe::INITIALIZED)?)
        } else {
            None
        };
        let threw = (class, probe::THREW, probe::THREW_DESCRIPTOR);
        let threw = method_ref(appended, &mut self.threw, threw)?;
        let throwable = or_append(&mut self.throwable, || appended.class(THROWABLE))?;
        let stack_map_table = self.stack_map_table(pool, appended, needs)?;
        let body = push(appended, id.get())?;
        let before = match needs.initialized {
            true => push(appended, id.get() | probe::BEFORE_INIT)?,
            false => body,
        };
        Ok(MethodConstants {
            start: LongCall::One(call_with(before, start)),
            end: LongCall::One(call_with(body, end)),
            threw: threw_call(body, threw),
            caught: caught.map(|caught| call_with(body, caught)),
            threw_before_init: threw_call(before, threw),
            caught_before_init: caught.map(|caught| call_with(before, caught)),
            initialized: initialized.map(|initialized| call_with(before, initialized)),
            throwable,
            stack_map_table,
        })
    }

    /// The constants of a method that parks the thread. No handler of it needs a probe.
    pub(crate) fn of_park(
        &mut self,
        pool: &ConstantPool<'_, '_>,
        appended: &mut Appended,
        blocker: Blocker,
        needs: Needs,
    ) -> Result<MethodConstants, PoolFull> {
        let class = or_append(&mut self.class, || appended.class(probe::CLASS))?;
        let mut method = |known: &mut Option<CpIndex>, name: &str, descriptor: &str| {
            method_ref(appended, known, (class, name, descriptor))
        };
        let start = method(&mut self.start, probe::PARKING, probe::PARKING_DESCRIPTOR)?;
        let end = method(&mut self.end, probe::PARKED, probe::PARKED_DESCRIPTOR)?;
        let push = match blocker {
            Blocker::Null => ACONST_NULL,
            Blocker::Parameter => ALOAD_0,
        };
        let threw = parked(end);
        Ok(MethodConstants {
            start: LongCall::One(call([push, NOP, NOP], start)),
            end: LongCall::One(call([NOP; 3], end)),
            threw,
            caught: None,
            threw_before_init: threw,
            caught_before_init: None,
            initialized: None,
            throwable: or_append(&mut self.throwable, || appended.class(THROWABLE))?,
            stack_map_table: self.stack_map_table(pool, appended, needs)?,
        })
    }

    /// The constants of a method of a JDBC driver with this id. No handler of it needs a probe.
    pub(crate) fn of_statement(
        &mut self,
        pool: &ConstantPool<'_, '_>,
        appended: &mut Appended,
        (id, what): (ProbeId, StatementMethod),
        needs: Needs,
    ) -> Result<MethodConstants, PoolFull> {
        let class = or_append(&mut self.class, || appended.class(probe::STATEMENT_CLASS))?;
        let mut method = |known: &mut Option<CpIndex>, name: &str, descriptor: &str| {
            method_ref(appended, known, (class, name, descriptor))
        };
        let entered = method(&mut self.start, probe::ENTERED, probe::ENTERED_DESCRIPTOR)?;
        let failed = method(&mut self.threw, probe::FAILED, probe::DESCRIPTOR)?;
        let is_maker = what.returns_object();
        let end = if is_maker {
            method(&mut self.initialized, probe::PREPARED, probe::PREPARED_DESCRIPTOR)?
        } else {
            method(&mut self.end, probe::RETURNED, probe::DESCRIPTOR)?
        };
        let id = push(appended, id.get())?;
        let text = if what.takes_text() { ALOAD_1 } else { ACONST_NULL };
        let threw = failed_call(id, failed);
        Ok(MethodConstants {
            start: LongCall::Three(entry_call(id, text, entered)),
            end: match is_maker {
                true => LongCall::Two(prepared_call(id, end)),
                false => LongCall::One(call_with(id, end)),
            },
            threw,
            caught: None,
            threw_before_init: threw,
            caught_before_init: None,
            initialized: None,
            throwable: or_append(&mut self.throwable, || appended.class(THROWABLE))?,
            stack_map_table: self.stack_map_table(pool, appended, needs)?,
        })
    }

    /// The names of the attribute with annotations, and of the annotation against inlining.
    pub(crate) fn dont_inline(
        &mut self,
        appended: &mut Appended,
    ) -> Result<(CpIndex, CpIndex), PoolFull> {
        let attribute = or_append(&mut self.annotations, || appended.utf8(ANNOTATIONS))?;
        let annotation = or_append(&mut self.dont_inline, || appended.utf8(DONT_INLINE))?;
        Ok((attribute, annotation))
    }

    /// The name of the attribute with frames, if the method needs it.
    fn stack_map_table(
        &mut self,
        pool: &ConstantPool<'_, '_>,
        appended: &mut Appended,
        needs: Needs,
    ) -> Result<Option<CpIndex>, PoolFull> {
        if !needs.frames {
            return Ok(None);
        }
        let index = or_append(&mut self.stack_map_table, || match pool.stack_map_table {
            Some(index) => Ok(index),
            None => appended.utf8(STACK_MAP_TABLE),
        })?;
        Ok(Some(index))
    }
}

/// A method of a class, by its name and descriptor.
fn method_ref(
    appended: &mut Appended,
    known: &mut Option<CpIndex>,
    (class, name, descriptor): (CpIndex, &str, &str),
) -> Result<CpIndex, PoolFull> {
    or_append(known, || {
        let descriptor = appended.utf8(descriptor)?;
        appended.method_ref(class, name, descriptor)
    })
}

/// The instruction that pushes an id: its opcode, and two bytes.
type Push = (u8, [u8; 2]);

fn push(appended: &mut Appended, id: u32) -> Result<Push, PoolFull> {
    Ok(match i16::try_from(id) {
        Ok(short) => (SIPUSH, short.to_be_bytes()),
        Err(_) => (LDC_W, appended.integer(id)?.0.to_be_bytes()),
    })
}

/// A call of a probe with an id.
fn call_with((opcode, [a, b]): Push, method: CpIndex) -> Call {
    call([opcode, a, b], method)
}

/// A call of [`probe::ENTERED`] with an id, `this`, and what this instruction pushes.
fn entry_call((opcode, [a, b]): Push, text: u8, method: CpIndex) -> [u8; WITH_THREE as usize] {
    let [d, e] = method.0.to_be_bytes();
    [opcode, a, b, ALOAD_0, text, INVOKESTATIC, d, e]
}

/// A call of [`probe::PREPARED`] with what the method returns, and an id.
fn prepared_call((opcode, [a, b]): Push, method: CpIndex) -> [u8; WITH_TWO as usize] {
    let [d, e] = method.0.to_be_bytes();
    [DUP, opcode, a, b, INVOKESTATIC, d, e]
}

/// A call of [`probe::FAILED`] with an id.
fn failed_call((opcode, [a, b]): Push, method: CpIndex) -> ThrewCall {
    let [d, e] = method.0.to_be_bytes();
    [NOP, NOP, opcode, a, b, INVOKESTATIC, d, e]
}

/// A call of a probe, after these three bytes.
fn call([a, b, c]: [u8; 3], method: CpIndex) -> Call {
    let [d, e] = method.0.to_be_bytes();
    [a, b, c, INVOKESTATIC, d, e]
}

/// A call of [`probe::THREW`]. `dup`, the three bytes that push the id, `swap`, and the call.
fn threw_call((opcode, [a, b]): Push, method: CpIndex) -> ThrewCall {
    let [d, e] = method.0.to_be_bytes();
    [DUP, opcode, a, b, SWAP, INVOKESTATIC, d, e]
}

/// A call of [`probe::PARKED`], which takes nothing.
fn parked(method: CpIndex) -> ThrewCall {
    let [d, e] = method.0.to_be_bytes();
    [NOP, NOP, NOP, NOP, NOP, INVOKESTATIC, d, e]
}
