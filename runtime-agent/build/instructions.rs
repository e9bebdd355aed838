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

/// The native method behind a guard. Parameter 0 is the id; the guard needs the locals 1 and 2.
pub(crate) enum Native {
    /// It takes the id.
    OfId(u16),
    /// It takes the id, the identity hashes of the exception's class and of the exception, and the exception, which is
    /// parameter 1.
    OfThrown { native: u16, get_class: u16, identity_hash: u16 },
}

impl Native {
    /// What comes before a guard.
    fn prologue(&self) -> Vec<Instruction> {
        match self {
            Self::OfId(_) => vec![],
            Self::OfThrown { .. } => vec![Instruction::Aload_1, Instruction::Astore_3],
        }
    }

    /// Pushes the exception, if it takes one.
    fn thrown(&self) -> Vec<Instruction> {
        match self {
            Self::OfId(_) => vec![],
            Self::OfThrown { .. } => vec![Instruction::Aload_3],
        }
    }

    /// The call behind a guard.
    fn call(&self) -> Vec<Instruction> {
        match *self {
            Self::OfId(native) => call(native),
            Self::OfThrown { native, get_class, identity_hash } => vec![
                Instruction::Iload_0,
                Instruction::Aload_3,
                Instruction::Invokevirtual(get_class),
                Instruction::Invokestatic(identity_hash),
                Instruction::Aload_3,
                Instruction::Invokestatic(identity_hash),
                Instruction::Aload_3,
                Instruction::Invokestatic(native),
                Instruction::Return,
            ],
        }
    }
}

/// The first part of a guard, which C2 inlines into every caller, and C1 into none: it inlines no method that has a
/// `jsr`, even if nothing reaches it.
pub(crate) fn front(
    compiled_out: u16,
    state: &CallSite,
    native: &Native,
    rest: u16,
) -> Vec<Instruction> {
    let mut code = native.prologue();
    code.extend(method_of_id());
    code.extend(unless_compiled_out(compiled_out, state, code.len()));
    code.push(Instruction::Iload_0);
    code.extend(native.thrown());
    code.extend([Instruction::Invokestatic(rest), Instruction::Return]);
    code.extend([
        Instruction::Jsr(target(code.len(), 1)),
        Instruction::Astore_1,
        Instruction::Return,
    ]);
    code
}

/// The rest of a guard.
///
/// The fall-through of each branch is the path that turns a call away, on purpose. If HotSpot's C1 inlines it, it
/// follows that path first while it looks for unnecessary null checks. So it first sees the code after the probe with
/// what all paths into it have in common. The other way round, with `muted` known not to be null, it looked at that
/// code again for each probe before it: 0.7 s for a method that calls a hundred small instrumented ones, 12 s for three
/// hundred.
pub(crate) fn rest(state: &CallSite, on: u16, muted: u16, native: &Native) -> Vec<Instruction> {
    let mut code = native.prologue();
    code.extend(method_of_id());
    code.extend(state.unless_off(code.len()));
    code.extend(unless_off(on, code.len()));
    code.extend(unless_muted(muted, code.len()));
    code.extend(native.call());
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

/// `if (method < compiledOut.length && compiledOut[method] != 0) { state.target; return; }` Like the others, it is
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
        Instruction::Getfield(state.target),
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
pub(crate) fn plain_guard(on: u16, muted: u16, native: &Native) -> Vec<Instruction> {
    let mut code = native.prologue();
    code.push(Instruction::Nop);
    code.extend(method_of_id());
    code.extend(unless_off(on, code.len()));
    code.extend(unless_muted(muted, code.len()));
    code.extend(native.call());
    code
}

/// The guard of a probe of a JDBC driver: `if (matches[id] != 2) return; if (!on) return;`, and the call.
pub(crate) fn statement_guard(
    id: Instruction,
    matches: u16,
    on: u16,
    loads: Vec<Instruction>,
    native: u16,
) -> Vec<Instruction> {
    let mut code = vec![
        Instruction::Getstatic(matches),
        id,
        Instruction::Baload,
        Instruction::Iconst_2,
        Instruction::If_icmpeq(6),
        Instruction::Return,
    ];
    code.extend(unless_off(on, code.len()));
    code.extend(loads);
    code.extend([Instruction::Invokestatic(native), Instruction::Return]);
    code
}

fn call(method: u16) -> Vec<Instruction> {
    vec![Instruction::Iload_0, Instruction::Invokestatic(method), Instruction::Return]
}

/// The instruction this many instructions after `at`.
pub(crate) fn target(at: usize, instructions: u16) -> u16 {
    u16::try_from(at).map_or(u16::MAX, |at| at + instructions)
}

/// A probe that `calls_of` calls.
pub(crate) enum Called {
    WithId(u16),
    /// With some object, too: the one in this static field.
    WithObject(u16, u16),
}

/// Calls probes of the method in the second parameter, as often as the first one says.
pub(crate) fn calls_of(probes: &[Called]) -> Vec<Instruction> {
    const LOOP: u16 = 0;
    let mut calls = Vec::new();
    for probe in probes {
        calls.push(Instruction::Iload_1);
        match probe {
            Called::WithId(probe) => calls.push(Instruction::Invokestatic(*probe)),
            Called::WithObject(probe, field) => {
                calls.extend([Instruction::Getstatic(*field), Instruction::Invokestatic(*probe)]);
            }
        }
    }
    let behind = target(calls.len(), 4);
    let mut code = vec![Instruction::Iload_0, Instruction::Ifle(behind)];
    code.extend(calls);
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
        Instruction::Getfield(trial.target),
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
