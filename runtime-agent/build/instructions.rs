//! The instructions of the guards, in both probe classes.

use std::error;
use std::io::Cursor;

use rewriter::probe::BEFORE_INIT;
use ristretto_classfile::attributes::Instruction;

use crate::call_site::CallSite;

/// HotSpot's compilers inline a method even into rare callers if its code is no longer than this.
pub(crate) const MAX_INLINE_SIZE: usize = 35;

/// How long code is, in bytes.
pub(crate) fn length(code: &[Instruction]) -> Result<usize, Box<dyn error::Error>> {
    let mut bytes = Cursor::new(Vec::new());
    for instruction in code {
        instruction.to_bytes(&mut bytes)?;
    }
    Ok(bytes.into_inner().len())
}

// The shifts remove two bits: the sign, and the one that marks a constructor that is not initialized.
const _: () = assert!(BEFORE_INIT == 1 << 30);

/// The guard in front of a native method.
///
/// The fall-through of each branch is the path that turns a call away, on purpose. When HotSpot's C1 inlines a probe,
/// it follows that path first while it looks for unnecessary null checks. So it first sees the code after the probe
/// with what all paths into it have in common. The other way round, with `muted` known not to be null, it looked at
/// that code again for each probe before it: 0.7 s for a method that calls a hundred small instrumented ones, 12 s for
/// three hundred.
pub(crate) fn guard(
    compiled_out: u16,
    state: &CallSite,
    on: u16,
    muted: u16,
    native: u16,
) -> Vec<Instruction> {
    let mut code = method_of_id();
    code.extend(unless_compiled_out(compiled_out, state, code.len()));
    code.extend(state.unless_off(code.len()));
    code.extend(unless_off(on, code.len()));
    code.extend(unless_muted(muted, code.len()));
    code.extend(call(native));
    code
}

/// The part of the guard that is inlined into every caller, and calls the rest.
pub(crate) fn front(compiled_out: u16, state: &CallSite, rest: u16) -> Vec<Instruction> {
    let mut code = method_of_id();
    code.extend(unless_compiled_out(compiled_out, state, code.len()));
    code.extend(call(rest));
    code
}

/// The rest of the guard.
pub(crate) fn rest_of_end(state: &CallSite, on: u16, muted: u16, native: u16) -> Vec<Instruction> {
    let mut code = method_of_id();
    code.extend(state.unless_off(code.len()));
    code.extend(unless_off(on, code.len()));
    code.extend(unless_muted(muted, code.len()));
    code.extend(call(native));
    code
}

/// `int method = id << 2 >>> 2;`
fn method_of_id() -> Vec<Instruction> {
    vec![
        Instruction::Iload_0,
        Instruction::Iconst_2,
        Instruction::Ishl,
        Instruction::Iconst_2,
        Instruction::Iushr,
        Instruction::Istore_1,
    ]
}

/// `if (method < compiledOut.length && compiledOut[method] != 0) { state.getTarget(); return; }` Like the others, it is
/// at an instruction index, as are branch targets.
fn unless_compiled_out(compiled_out: u16, state: &CallSite, at: usize) -> Vec<Instruction> {
    let behind = target(at, 12);
    vec![
        Instruction::Iload_1,
        Instruction::Getstatic(compiled_out),
        Instruction::Arraylength,
        Instruction::If_icmpge(behind),
        Instruction::Getstatic(compiled_out),
        Instruction::Iload_1,
        Instruction::Baload,
        Instruction::Ifeq(behind),
        Instruction::Getstatic(state.field),
        Instruction::Invokevirtual(state.get),
        Instruction::Pop,
        Instruction::Return,
    ]
}

/// `if (!on) return;`
fn unless_off(on: u16, at: usize) -> Vec<Instruction> {
    vec![Instruction::Getstatic(on), Instruction::Ifne(target(at, 3)), Instruction::Return]
}

/// `byte[] muted = $TProfiler.muted; if (method < muted.length && muted[method] != 0) return;`
fn unless_muted(muted: u16, at: usize) -> Vec<Instruction> {
    let behind = target(at, 11);
    vec![
        Instruction::Getstatic(muted),
        Instruction::Astore_2,
        Instruction::Iload_1,
        Instruction::Aload_2,
        Instruction::Arraylength,
        Instruction::If_icmpge(behind),
        Instruction::Aload_2,
        Instruction::Iload_1,
        Instruction::Baload,
        Instruction::Ifeq(behind),
        Instruction::Return,
    ]
}

/// The guard in front of a native method in the plain class. One instruction does nothing: without it the guard would
/// be short enough for C1 to inline it into every caller.
pub(crate) fn plain_guard(on: u16, muted: u16, native: u16) -> Vec<Instruction> {
    let mut code = vec![Instruction::Nop];
    code.extend(method_of_id());
    code.extend(unless_off(on, code.len()));
    code.extend(unless_muted(muted, code.len()));
    code.extend(call(native));
    code
}

pub(crate) fn call(method: u16) -> Vec<Instruction> {
    vec![Instruction::Iload_0, Instruction::Invokestatic(method), Instruction::Return]
}

/// The instruction this many instructions after `at`.
pub(crate) fn target(at: usize, instructions: u16) -> u16 {
    u16::try_from(at).map_or(u16::MAX, |at| at + instructions)
}

/// Calls probes of the method in the second parameter, as often as the first one says.
pub(crate) fn calls_of(probes: &[u16]) -> Vec<Instruction> {
    const LOOP: u16 = 0;
    let behind = target(2 * probes.len(), 4);
    let mut code = vec![Instruction::Iload_0, Instruction::Ifle(behind)];
    for probe in probes {
        code.extend([Instruction::Iload_1, Instruction::Invokestatic(*probe)]);
    }
    code.extend([Instruction::Iinc(0, -1), Instruction::Goto(LOOP), Instruction::Return]);
    code
}

/// `return compiledOut[0] == 0 ? 1 : 0;`, as the guard of a compiled-out method reads it. No method has the id 0.
pub(crate) fn is_open(compiled_out: u16, trial: &CallSite) -> Vec<Instruction> {
    const OPEN: u16 = 9;
    vec![
        Instruction::Getstatic(compiled_out),
        Instruction::Iconst_0,
        Instruction::Baload,
        Instruction::Ifeq(OPEN),
        Instruction::Getstatic(trial.field),
        Instruction::Invokevirtual(trial.get),
        Instruction::Pop,
        Instruction::Iconst_0,
        Instruction::Ireturn,
        Instruction::Iconst_1,
        Instruction::Ireturn,
    ]
}

/// Calls a method as often as the parameter says, and adds up its results.
pub(crate) fn sum_of(method: u16) -> Vec<Instruction> {
    const LOOP: u16 = 2;
    const BEHIND: u16 = 10;
    vec![
        Instruction::Iconst_0,
        Instruction::Istore_1,
        Instruction::Iload_0,
        Instruction::Ifle(BEHIND),
        Instruction::Iload_1,
        Instruction::Invokestatic(method),
        Instruction::Iadd,
        Instruction::Istore_1,
        Instruction::Iinc(0, -1),
        Instruction::Goto(LOOP),
        Instruction::Iload_1,
        Instruction::Ireturn,
    ]
}
