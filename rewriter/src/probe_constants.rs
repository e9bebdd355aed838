//! The constants of the inserted code, appended to a class's pool when they are first needed.

use crate::ProbeId;
use crate::constant_pool::{Appended, ConstantPool, CpIndex, PoolFull, STACK_MAP_TABLE};
use crate::opcode::{INVOKESTATIC, LDC_W, SIPUSH};
use crate::probe;

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
}

/// The instructions that call a probe: one that pushes the id, and an `invokestatic`.
type Call = [u8; 6];

/// What the inserted code of one method refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MethodConstants {
    pub start: Call,
    pub end: Call,
    pub threw: Call,
    /// `None` if no handler of the method needs it.
    pub caught: Option<Call>,
    /// For a constructor before the end of its `super(...)` call. Same as for the body, unless that call may throw.
    pub threw_before_init: Call,
    pub caught_before_init: Option<Call>,
    /// `None` if the method does not need it.
    pub initialized: Option<Call>,
    /// The class java/lang/Throwable.
    pub throwable: CpIndex,
    /// The attribute's name, if the class's version needs frames.
    pub stack_map_table: Option<CpIndex>,
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
        let threw = method(&mut self.threw, probe::THREW)?;
        let caught =
            if needs.caught { Some(method(&mut self.caught, probe::CAUGHT)?) } else { None };
        let initialized = if needs.initialized {
            Some(method(&mut self.initialized, probe::INITIALIZED)?)
        } else {
            None
        };
        let throwable = or_append(&mut self.throwable, || appended.class(THROWABLE))?;
        let stack_map_table = if needs.frames {
            Some(or_append(&mut self.stack_map_table, || match pool.stack_map_table {
                Some(index) => Ok(index),
                None => appended.utf8(STACK_MAP_TABLE),
            })?)
        } else {
            None
        };
        let mut push = |id: u32| {
            Ok(match i16::try_from(id) {
                Ok(short) => (SIPUSH, short.to_be_bytes()),
                Err(_) => (LDC_W, appended.integer(id)?.0.to_be_bytes()),
            })
        };
        let body = push(id.get())?;
        let before = if needs.initialized { push(id.get() | probe::BEFORE_INIT)? } else { body };
        let call = |(opcode, [a, b]): (u8, [u8; 2]), method: CpIndex| {
            let [c, d] = method.0.to_be_bytes();
            [opcode, a, b, INVOKESTATIC, c, d]
        };
        Ok(MethodConstants {
            start: call(before, start),
            end: call(body, end),
            threw: call(body, threw),
            caught: caught.map(|caught| call(body, caught)),
            threw_before_init: call(before, threw),
            caught_before_init: caught.map(|caught| call(before, caught)),
            initialized: initialized.map(|initialized| call(before, initialized)),
            throwable,
            stack_map_table,
        })
    }
}
