//! Native frames on top of Java frames, and of threads that run no Java code.

use super::{End, Frames, LARGE_FRAME, Place, Walk};
use crate::memory::Memory;
#[cfg(target_arch = "x86_64")]
use crate::unwind_rows::FrameEnd;
use crate::unwind_rows::{self, Rule};

/// Most native frames above Java's, and of threads that run no Java code: the JIT recurses.
const MAX_ABOVE_JAVA: u32 = 64;
const MAX_NATIVE: u32 = 200;
/// How long a frame of a function without a rule may be.
const SMALL_FRAME: usize = 1 << 10;
/// How long any may be.
#[cfg(target_arch = "x86_64")]
const LONGEST: usize = 8 << 20;

/// Where an entry of a table of jumps has pushed its number, and how long an entry is.
#[cfg(target_arch = "x86_64")]
const PUSHED: usize = 11;
#[cfg(target_arch = "x86_64")]
const ENTRY: usize = 16;

impl<M: Memory> Walk<'_, M> {
    /// Passes a native frame on top: by its library's rows, or else by the thread's last Java frame, or by the frame
    /// pointer.
    pub(super) fn pass_native(&mut self, frames: &mut Frames<'_>) -> Result<(), End> {
        // Below Java frames, native code is behind a call stub, which has another way out.
        if frames.has_java() {
            return Err(End::Native);
        }
        let last_java = self.last_java_frame();
        let is_above = last_java.is_none_or(|place| self.at.sp <= place.sp);
        self.natives += 1;
        let most = if self.is_java_thread { MAX_ABOVE_JAVA } else { MAX_NATIVE };
        let is_one_more = is_above && self.natives <= most;
        if is_one_more {
            // The call is before the return address.
            let pc = if self.is_top { self.at.pc } else { self.at.pc.wrapping_sub(1) };
            if !self.is_guess {
                frames.push_native(pc)?;
            }
            let rule = unwind_rows::rule(pc).unwrap_or(Rule::UNKNOWN);
            if rule == Rule::OUTERMOST {
                return self.go_to_last_java_frame(End::NoJava);
            }
            if self.leave_by_rule(rule).is_some() || self.leave_top(rule).is_some() {
                return Ok(());
            }
        }
        if last_java.is_some() || !is_one_more || !self.is_java_thread {
            return self.go_to_last_java_frame(End::Native);
        }
        self.is_guess = true;
        self.guess_caller()
    }

    /// Goes on at the caller of a function on top that has no rule, if the caller has one: some in assembly have no
    /// frame, and the kernel's own keep a frame pointer.
    fn leave_top(&mut self, rule: Rule) -> Option<()> {
        if !self.is_top || rule != Rule::UNKNOWN {
            return None;
        }
        let Place { sp, fp, .. } = self.at;
        let has_rule = |returns: &usize| {
            unwind_rows::rule(returns.wrapping_sub(1)).is_some_and(|rule| rule != Rule::UNKNOWN)
        };
        if let Some(returns) = self.memory.word(sp).filter(has_rule) {
            return self.go_to(returns, sp.wrapping_add(8), fp).ok();
        }
        let is_near = fp >= sp && fp - sp < SMALL_FRAME && fp & 7 == 0;
        let at = if is_near { fp.wrapping_add(8) } else { return None };
        let returns = self.memory.word(at).filter(has_rule)?;
        let caller_fp = self.memory.word(fp)?;
        self.go_to(returns, fp.wrapping_add(16), caller_fp).ok()
    }

    /// Goes on at the caller as a rule says; `None` if that cannot be.
    #[cfg(target_arch = "x86_64")]
    fn leave_by_rule(&mut self, rule: Rule) -> Option<()> {
        let Place { pc, sp, fp } = self.at;
        let end = match rule.end()? {
            FrameEnd::AboveSp(words) => sp.wrapping_add(8 * words as usize),
            FrameEnd::AboveFp(words) => fp.wrapping_add(8 * words as usize),
            FrameEnd::JumpTable => sp.wrapping_add(8 + 8 * usize::from(pc % ENTRY >= PUSHED)),
        };
        let is_near = end > sp && end - sp <= LONGEST;
        if !is_near || end & 7 != 0 || end >= self.stack_end {
            return None;
        }
        let returns = self.memory.word(end.wrapping_sub(8)).filter(|pc| *pc >= 4096)?;
        let caller_fp = match rule.saved_fp() {
            0 => fp,
            words => self.memory.word(end.wrapping_sub(8 * words))?,
        };
        self.go_to(returns, end, caller_fp).ok()
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn leave_by_rule(&mut self, _rule: Rule) -> Option<()> {
        None
    }

    /// Goes on at the caller of a native function without rows, which may have kept a frame pointer.
    fn guess_caller(&mut self) -> Result<(), End> {
        let Place { sp, fp, .. } = self.at;
        // A leaf without a frame that compiled code called.
        if self.is_top && self.code_at(sp).is_some() {
            return self.leave_bare(End::Native);
        }
        if fp < sp || fp - sp >= LARGE_FRAME || fp >= self.stack_end || fp & 7 != 0 {
            return Err(End::Native);
        }
        let pc = self.word(fp + 8, End::Native)?;
        let caller_fp = self.word(fp, End::Native)?;
        if pc < 4096 {
            return Err(End::Native);
        }
        self.go_to(pc, fp + 16, caller_fp)
    }
}
