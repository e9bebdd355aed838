//! Finds a constructor's call of `super(...)` or `this(...)`, and separates what runs before it from what runs after
//! it.
//!
//! `this` is uninitialized before the call and initialized after it, and the verifier accepts no exception handler
//! for both. The call is an `invokespecial` of an `<init>` whose object is `this`, and not something that the
//! constructor created with `new`. So the part before it is executed symbolically, with one bit per slot: does it
//! hold `this`? In verified code the answer is the same on every path, so each instruction is visited once.
//!
//! A handler for the part before the call has to see `this` in its own variable, the first. Where code has put
//! something else there (R8 does), or where a stack map frame does not say so, there can be no handler. Then an
//! exception leaves the constructor unseen, like one out of the call.

use crate::code::CodeAttribute;
use crate::code_layout::{OffsetMap, Part, branch_target};
use crate::constant_pool::{ConstantPool, CpIndex};
use crate::error::Skip;
use crate::instruction::{Instruction, Pc};
use crate::opcode::{
    ALOAD, ALOAD_0, ALOAD_3, ASTORE, ASTORE_0, ASTORE_3, DUP, DUP_X1, DUP_X2, DUP2, DUP2_X1,
    DUP2_X2, ENDS, INVOKESPECIAL, ISTORE, ISTORE_0, JSR, JSR_W, SWAP, THROWS,
};
use crate::reader::Result;
use crate::stack_effect::EffectCache;

/// Most bytes of states that wait to be visited. Compilers' code needs a few dozen; a constructor that needs more is
/// skipped.
const MAX_WAITING: usize = 1 << 20;

/// Most checks of an instruction against an exception table entry, for the same reason.
const MAX_CHECKS: usize = 1 << 24;

/// What was found in a constructor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Something before the call can throw: there is a range to protect.
    pub throws_before_init: bool,
    /// The call itself can throw.
    pub init_throws: bool,
}

/// Classes whose constructors only return.
const TRIVIAL: [&str; 3] = ["java/lang/Object", "java/lang/Record", "java/lang/Enum"];

/// One bit per slot: whether it holds the uninitialized `this`.
#[derive(Clone, Debug)]
struct State {
    stack: Vec<bool>,
    locals: Vec<bool>,
    /// Whether a handler would find `this` in the first variable.
    has_this: bool,
}

/// The code was not verified, or is too complex for this analysis.
struct Unclear;

/// Marks the parts of a constructor in `map`. `without_this` are the places whose stack map frame does not have
/// `this` in the first variable.
pub(crate) fn analyse(
    code: &CodeAttribute<'_>,
    without_this: &[Pc],
    pool: &ConstantPool<'_, '_>,
    effects: &mut EffectCache<'_>,
    map: &mut OffsetMap,
) -> Result<std::result::Result<Found, Skip>> {
    let mut analysis = Analysis {
        code,
        without_this,
        map,
        waiting: Vec::new(),
        waiting_bytes: 0,
        after_init: Vec::new(),
        found: Found::default(),
    };
    if code.exceptions().len().saturating_mul(code.bytecode.bytes.len()) > MAX_CHECKS {
        return Ok(Err(Skip::ConstructorCallUnclear));
    }
    let mut locals = vec![false; usize::from(code.max_locals)];
    match locals.first_mut() {
        Some(this) => *this = true,
        None => return Ok(Err(Skip::ConstructorCallUnclear)),
    }
    let stack = Vec::with_capacity(usize::from(code.max_stack));
    let start = State { stack, locals, has_this: true };
    let before = match analysis.go_to(Pc(0), true, || start) {
        Ok(()) => analysis.run_before_init(pool, effects)?,
        Err(unclear) => Err(unclear),
    };
    Ok(match before {
        Ok(()) if analysis.run_after_init()? => Ok(analysis.found),
        _ => Err(Skip::ConstructorCallUnclear),
    })
}

struct Analysis<'a, 'c, 'm> {
    code: &'c CodeAttribute<'a>,
    without_this: &'c [Pc],
    map: &'m mut OffsetMap,
    waiting: Vec<(Pc, State)>,
    waiting_bytes: usize,
    after_init: Vec<Pc>,
    found: Found,
}

impl Analysis<'_, '_, '_> {
    /// Marks an instruction as reached. Returns `None` if it was reached before, else whether a handler would find
    /// `this` there.
    fn reach(&mut self, pc: Pc, has_this: bool) -> std::result::Result<Option<bool>, Unclear> {
        let has_this = has_this && self.without_this.binary_search(&pc).is_err();
        if self.map.set_reachable(pc, Part::BeforeInit) {
            if !has_this {
                self.map.set_without_this(pc);
            }
            Ok(Some(has_this))
        } else if self.map.is_without_this(pc) == has_this {
            Err(Unclear)
        } else {
            Ok(None)
        }
    }

    fn go_to(
        &mut self,
        pc: Pc,
        has_this: bool,
        state: impl FnOnce() -> State,
    ) -> std::result::Result<(), Unclear> {
        if let Some(has_this) = self.reach(pc, has_this)? {
            let state = State { has_this, ..state() };
            self.waiting_bytes += state.stack.capacity() + state.locals.len();
            if self.waiting_bytes > MAX_WAITING {
                return Err(Unclear);
            }
            self.waiting.push((pc, state));
        }
        Ok(())
    }

    fn run_before_init(
        &mut self,
        pool: &ConstantPool<'_, '_>,
        effects: &mut EffectCache<'_>,
    ) -> Result<std::result::Result<(), Unclear>> {
        let mut popped = Vec::new();
        while let Some((mut pc, mut state)) = self.waiting.pop() {
            self.waiting_bytes -= state.stack.capacity() + state.locals.len();
            while let Some((instruction, next)) = self.code.bytecode.instruction(pc)? {
                if self.enter_handlers(pc, &state).is_err() {
                    return Ok(Err(Unclear));
                }
                if self.is_init_call(&instruction, pool, effects, &state)? {
                    self.map.set_init_call(pc);
                    let class = pool.member_class(CpIndex(instruction.u2()))?;
                    self.found.init_throws |= !TRIVIAL.iter().any(|trivial| class == **trivial);
                    self.after_init.push(next);
                    break;
                }
                if instruction.op.is(THROWS) {
                    // Without `this`, it counts as if the call had thrown.
                    let Found { throws_before_init, init_throws } = &mut self.found;
                    *(if state.has_this { throws_before_init } else { init_throws }) = true;
                }
                if step(&instruction, pool, effects, &mut state, &mut popped)?.is_err() {
                    return Ok(Err(Unclear));
                }
                if self.branch(&instruction, &state).is_err() {
                    return Ok(Err(Unclear));
                }
                if instruction.op.is(ENDS) {
                    break;
                }
                match self.reach(next, state.has_this) {
                    Ok(Some(has_this)) => state.has_this = has_this,
                    Ok(None) => break,
                    Err(unclear) => return Ok(Err(unclear)),
                }
                pc = next;
            }
        }
        Ok(Ok(()))
    }

    /// An exception may lead from here to each handler that protects this instruction.
    fn enter_handlers(&mut self, pc: Pc, state: &State) -> std::result::Result<(), Unclear> {
        for entry in self.code.exceptions().filter(|e| e.start <= pc && pc < e.end) {
            self.go_to(entry.handler, state.has_this, || State {
                stack: vec![false],
                locals: state.locals.clone(),
                has_this: state.has_this,
            })?;
        }
        Ok(())
    }

    fn branch(
        &mut self,
        instruction: &Instruction<'_>,
        state: &State,
    ) -> std::result::Result<(), Unclear> {
        instruction.branch_offsets(|offset| {
            let target = branch_target(instruction.pc, offset).ok_or(Unclear)?;
            self.go_to(target, state.has_this, || {
                let mut state = state.clone();
                if matches!(instruction.opcode, JSR | JSR_W) {
                    state.stack.push(false);
                }
                state
            })
        })
    }

    fn is_init_call(
        &self,
        instruction: &Instruction<'_>,
        pool: &ConstantPool<'_, '_>,
        effects: &mut EffectCache<'_>,
        state: &State,
    ) -> Result<bool> {
        if instruction.opcode != INVOKESPECIAL {
            return Ok(false);
        }
        let (name, _) = pool.member(CpIndex(instruction.u2()))?;
        if name != *"<init>" {
            return Ok(false);
        }
        // The object is below the parameters.
        let popped = usize::from(effects.of(pool, instruction)?.pop);
        let object = state.stack.len().checked_sub(popped).and_then(|i| state.stack.get(i));
        Ok(object.copied().unwrap_or(false))
    }

    /// Marks what is reachable after the calls. `false` if something is in both parts.
    fn run_after_init(&mut self) -> Result<bool> {
        while let Some(mut pc) = self.after_init.pop() {
            if !self.map.set_reachable(pc, Part::Body) {
                continue;
            }
            while let Some((instruction, next)) = self.code.bytecode.instruction(pc)? {
                if self.map.is_in_both_parts(pc) {
                    return Ok(false);
                }
                for entry in self.code.exceptions().filter(|e| e.start <= pc && pc < e.end) {
                    self.after_init.push(entry.handler);
                }
                // The error type is never constructed; the scan finds a target outside the code.
                let _ = instruction.branch_offsets::<()>(|offset| {
                    self.after_init.extend(branch_target(pc, offset));
                    Ok(())
                });
                if instruction.op.is(ENDS) || !self.map.set_reachable(next, Part::Body) {
                    break;
                }
                pc = next;
            }
        }
        Ok(true)
    }
}

/// Executes one instruction on the bits.
fn step(
    instruction: &Instruction<'_>,
    pool: &ConstantPool<'_, '_>,
    effects: &mut EffectCache<'_>,
    state: &mut State,
    popped: &mut Vec<bool>,
) -> Result<std::result::Result<(), Unclear>> {
    let effect = effects.of(pool, instruction)?;
    let (pop, push) = (usize::from(effect.pop), usize::from(effect.push));
    let Some(kept) = state.stack.len().checked_sub(pop) else { return Ok(Err(Unclear)) };
    let opcode = instruction.opcode;
    // Which of the popped slots, counted from the lowest, are pushed again.
    let pushed: &[usize] = match opcode {
        DUP => &[0, 0],
        DUP_X1 => &[1, 0, 1],
        DUP_X2 => &[2, 0, 1, 2],
        DUP2 => &[0, 1, 0, 1],
        DUP2_X1 => &[1, 2, 0, 1, 2],
        DUP2_X2 => &[2, 3, 0, 1, 2, 3],
        SWAP => &[1, 0],
        _ => &[],
    };
    popped.clear();
    popped.extend(state.stack.drain(kept..));
    if !pushed.is_empty() {
        state.stack.extend(pushed.iter().filter_map(|i| popped.get(*i).copied()));
        return Ok(Ok(()));
    }
    let loaded = match opcode {
        ALOAD => Some(instruction.local()),
        ALOAD_0..=ALOAD_3 => Some(u16::from(opcode - ALOAD_0)),
        _ => None,
    };
    if let Some(local) = loaded {
        let Some(bit) = state.locals.get(usize::from(local)) else { return Ok(Err(Unclear)) };
        state.stack.push(*bit);
        return Ok(Ok(()));
    }
    state.stack.extend(std::iter::repeat_n(false, push));
    let (stored, is_reference) = match opcode {
        ASTORE_0..=ASTORE_3 => (Some(u16::from(opcode - ASTORE_0)), true),
        // istore_0 to dstore_3 come in groups of four.
        ISTORE_0..ASTORE_0 => (Some(u16::from((opcode - ISTORE_0) % 4)), false),
        ASTORE => (Some(instruction.local()), true),
        ISTORE..ASTORE => (Some(instruction.local()), false),
        _ => (None, false),
    };
    if let Some(local) = stored {
        for (half, bit) in (usize::from(local)..).zip(popped.iter()) {
            let Some(slot) = state.locals.get_mut(half) else { return Ok(Err(Unclear)) };
            *slot = *bit && is_reference;
            if half == 0 {
                state.has_this = *slot;
            }
        }
    }
    Ok(Ok(()))
}
