//! The only table of instructions: names, operands, stack effect and what an instruction can do (JVMS chapter 6). All
//! code of this crate that looks at bytecode uses it.

use Operand::{
    Branch2, Branch4, Cp1, Cp2, Cp2Dims, Cp2Pad2, Iinc, Local, LookupSwitch, None, TableSwitch, U1,
    U2, Wide,
};

/// The operands after the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// Nothing.
    None,
    /// One byte: a constant or a type code.
    U1,
    /// Two bytes of constant.
    U2,
    /// A constant-pool index of one byte.
    Cp1,
    /// A constant-pool index of two bytes.
    Cp2,
    /// A constant-pool index and two further bytes.
    Cp2Pad2,
    /// A constant-pool index and a number of dimensions.
    Cp2Dims,
    /// A local variable of one byte; of two after `wide`.
    Local,
    /// A local variable and a constant of one byte; of two each after `wide`.
    Iinc,
    /// A branch offset of two bytes.
    Branch2,
    /// A branch offset of four bytes.
    Branch4,
    /// Padding, default, low, high, offsets.
    TableSwitch,
    /// Padding, default, number of pairs, pairs.
    LookupSwitch,
    /// Another instruction with wider operands.
    Wide,
}

/// It can throw, by itself or through the code that it runs.
pub(crate) const THROWS: u8 = 1;
/// It can run Java code: a call, a class initialiser, a class loader.
pub(crate) const RUNS_JAVA: u8 = 2;
const JAVA: u8 = THROWS | RUNS_JAVA;
/// Execution does not continue with the next instruction.
pub(crate) const ENDS: u8 = 4;
/// It returns from the method normally.
pub(crate) const RETURN: u8 = 8;
/// Its stack effect depends on its constant, not on the table.
pub(crate) const BY_CONSTANT: u8 = 16;

/// An instruction of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub name: &'static str,
    pub operand: Operand,
    /// Stack slots that it pops; a `long` or `double` counts as two.
    pub pop: u8,
    /// Stack slots that it then pushes.
    pub push: u8,
    pub flags: u8,
    /// For the test that checks the order of the table.
    #[cfg_attr(not(test), expect(dead_code))]
    code: u8,
}

impl Op {
    pub(crate) const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

const fn op(code: u8, name: &'static str, operand: Operand, pop: u8, push: u8, flags: u8) -> Op {
    Op { name, operand, pop, push, flags, code }
}

/// What a pass over code needs to know about an instruction, in one byte: the pass waits for this load at each step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Brief(u8);

impl Brief {
    const LENGTH: u8 = 7;
    const PLAIN: u8 = 8;
    const RUNS_JAVA: u8 = 16;
    const SHORT_BRANCH: u8 = 32;
    const RETURNS: u8 = 64;
    const MONITOR: u8 = 128;

    /// Length in bytes; 0 if it depends on more than the opcode.
    #[inline]
    pub(crate) fn length(self) -> u32 {
        u32::from(self.0 & Self::LENGTH)
    }

    /// It neither branches nor returns, so it is copied unchanged wherever it is.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        self.0 & Self::PLAIN != 0
    }

    /// A branch of three bytes.
    #[inline]
    pub(crate) fn is_short_branch(self) -> bool {
        self.0 & Self::SHORT_BRANCH != 0
    }

    /// A return: one byte.
    #[inline]
    pub(crate) fn is_return(self) -> bool {
        self.0 & Self::RETURNS != 0
    }

    /// A `monitorenter` or `monitorexit`.
    #[inline]
    pub(crate) fn is_monitor(self) -> bool {
        self.0 & Self::MONITOR != 0
    }

    /// See [`RUNS_JAVA`].
    #[inline]
    pub(crate) fn runs_java(self) -> bool {
        self.0 & Self::RUNS_JAVA != 0
    }
}

/// The brief of every byte. A byte that is not an opcode is not plain and has no length.
static BRIEFS: [Brief; 256] = briefs();

#[allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]
const fn briefs() -> [Brief; 256] {
    let mut briefs = [Brief(0); 256];
    let mut opcode = 0;
    while opcode < TABLE.len() {
        let op = &TABLE[opcode];
        let leads_elsewhere =
            matches!(op.operand, Branch2 | Branch4 | TableSwitch | LookupSwitch | Wide);
        let mut brief = fixed_length(op.operand) as u8;
        if !leads_elsewhere && op.flags & RETURN == 0 {
            brief |= Brief::PLAIN;
        }
        if op.flags & RETURN != 0 {
            brief |= Brief::RETURNS;
        }
        if opcode == MONITORENTER as usize || opcode == MONITOREXIT as usize {
            brief |= Brief::MONITOR;
        }
        if op.flags & RUNS_JAVA != 0 {
            brief |= Brief::RUNS_JAVA;
        }
        if matches!(op.operand, Branch2) {
            brief |= Brief::SHORT_BRANCH;
        }
        briefs[opcode] = Brief(brief);
        opcode += 1;
    }
    briefs
}

/// Length of an instruction with such an operand, or 0 if it varies.
pub(crate) const fn fixed_length(operand: Operand) -> usize {
    match operand {
        None => 1,
        U1 | Cp1 | Local => 2,
        U2 | Cp2 | Iinc | Branch2 => 3,
        Cp2Dims => 4,
        Cp2Pad2 | Branch4 => 5,
        TableSwitch | LookupSwitch | Wide => 0,
    }
}

/// The brief of a byte of code.
#[inline]
#[allow(clippy::indexing_slicing)]
pub(crate) fn brief(opcode: u8) -> Brief {
    // A byte is always a valid index.
    BRIEFS[usize::from(opcode)]
}

/// The instruction of an opcode, or `None` for one that a class file cannot contain.
#[inline]
pub(crate) fn lookup(opcode: u8) -> Option<&'static Op> {
    TABLE.get(usize::from(opcode))
}

// Opcodes that the crate uses by name.
pub(crate) const NOP: u8 = 0x00;
pub(crate) const ACONST_NULL: u8 = 0x01;
pub(crate) const SIPUSH: u8 = 0x11;
pub(crate) const LDC: u8 = 0x12;
pub(crate) const LDC_W: u8 = 0x13;
pub(crate) const LDC2_W: u8 = 0x14;
pub(crate) const ALOAD: u8 = 0x19;
pub(crate) const ALOAD_0: u8 = 0x2a;
pub(crate) const ALOAD_1: u8 = 0x2b;
pub(crate) const ALOAD_3: u8 = 0x2d;
pub(crate) const ISTORE: u8 = 0x36;
pub(crate) const ASTORE: u8 = 0x3a;
pub(crate) const ISTORE_0: u8 = 0x3b;
pub(crate) const ASTORE_0: u8 = 0x4b;
pub(crate) const ASTORE_3: u8 = 0x4e;
pub(crate) const DUP: u8 = 0x59;
pub(crate) const DUP_X1: u8 = 0x5a;
pub(crate) const DUP_X2: u8 = 0x5b;
pub(crate) const DUP2: u8 = 0x5c;
pub(crate) const DUP2_X1: u8 = 0x5d;
pub(crate) const DUP2_X2: u8 = 0x5e;
pub(crate) const SWAP: u8 = 0x5f;
pub(crate) const GOTO: u8 = 0xa7;
pub(crate) const JSR: u8 = 0xa8;
pub(crate) const RET: u8 = 0xa9;
pub(crate) const GETSTATIC: u8 = 0xb2;
pub(crate) const PUTSTATIC: u8 = 0xb3;
pub(crate) const GETFIELD: u8 = 0xb4;
pub(crate) const PUTFIELD: u8 = 0xb5;
pub(crate) const INVOKEVIRTUAL: u8 = 0xb6;
pub(crate) const INVOKESPECIAL: u8 = 0xb7;
pub(crate) const INVOKESTATIC: u8 = 0xb8;
pub(crate) const INVOKEDYNAMIC: u8 = 0xba;
pub(crate) const NEW: u8 = 0xbb;
pub(crate) const ANEWARRAY: u8 = 0xbd;
pub(crate) const ATHROW: u8 = 0xbf;
pub(crate) const MONITORENTER: u8 = 0xc2;
pub(crate) const MONITOREXIT: u8 = 0xc3;
pub(crate) const MULTIANEWARRAY: u8 = 0xc5;
pub(crate) const JSR_W: u8 = 0xc9;

#[rustfmt::skip]
const TABLE: [Op; 202] = [
    op(0x00, "nop", None, 0, 0, 0),
    op(0x01, "aconst_null", None, 0, 1, 0),
    op(0x02, "iconst_m1", None, 0, 1, 0),
    op(0x03, "iconst_0", None, 0, 1, 0),
    op(0x04, "iconst_1", None, 0, 1, 0),
    op(0x05, "iconst_2", None, 0, 1, 0),
    op(0x06, "iconst_3", None, 0, 1, 0),
    op(0x07, "iconst_4", None, 0, 1, 0),
    op(0x08, "iconst_5", None, 0, 1, 0),
    op(0x09, "lconst_0", None, 0, 2, 0),
    op(0x0a, "lconst_1", None, 0, 2, 0),
    op(0x0b, "fconst_0", None, 0, 1, 0),
    op(0x0c, "fconst_1", None, 0, 1, 0),
    op(0x0d, "fconst_2", None, 0, 1, 0),
    op(0x0e, "dconst_0", None, 0, 2, 0),
    op(0x0f, "dconst_1", None, 0, 2, 0),
    op(0x10, "bipush", U1, 0, 1, 0),
    op(0x11, "sipush", U2, 0, 1, 0),
    op(0x12, "ldc", Cp1, 0, 1, JAVA),
    op(0x13, "ldc_w", Cp2, 0, 1, JAVA),
    op(0x14, "ldc2_w", Cp2, 0, 2, JAVA),
    op(0x15, "iload", Local, 0, 1, 0),
    op(0x16, "lload", Local, 0, 2, 0),
    op(0x17, "fload", Local, 0, 1, 0),
    op(0x18, "dload", Local, 0, 2, 0),
    op(0x19, "aload", Local, 0, 1, 0),
    op(0x1a, "iload_0", None, 0, 1, 0),
    op(0x1b, "iload_1", None, 0, 1, 0),
    op(0x1c, "iload_2", None, 0, 1, 0),
    op(0x1d, "iload_3", None, 0, 1, 0),
    op(0x1e, "lload_0", None, 0, 2, 0),
    op(0x1f, "lload_1", None, 0, 2, 0),
    op(0x20, "lload_2", None, 0, 2, 0),
    op(0x21, "lload_3", None, 0, 2, 0),
    op(0x22, "fload_0", None, 0, 1, 0),
    op(0x23, "fload_1", None, 0, 1, 0),
    op(0x24, "fload_2", None, 0, 1, 0),
    op(0x25, "fload_3", None, 0, 1, 0),
    op(0x26, "dload_0", None, 0, 2, 0),
    op(0x27, "dload_1", None, 0, 2, 0),
    op(0x28, "dload_2", None, 0, 2, 0),
    op(0x29, "dload_3", None, 0, 2, 0),
    op(0x2a, "aload_0", None, 0, 1, 0),
    op(0x2b, "aload_1", None, 0, 1, 0),
    op(0x2c, "aload_2", None, 0, 1, 0),
    op(0x2d, "aload_3", None, 0, 1, 0),
    op(0x2e, "iaload", None, 2, 1, THROWS),
    op(0x2f, "laload", None, 2, 2, THROWS),
    op(0x30, "faload", None, 2, 1, THROWS),
    op(0x31, "daload", None, 2, 2, THROWS),
    op(0x32, "aaload", None, 2, 1, THROWS),
    op(0x33, "baload", None, 2, 1, THROWS),
    op(0x34, "caload", None, 2, 1, THROWS),
    op(0x35, "saload", None, 2, 1, THROWS),
    op(0x36, "istore", Local, 1, 0, 0),
    op(0x37, "lstore", Local, 2, 0, 0),
    op(0x38, "fstore", Local, 1, 0, 0),
    op(0x39, "dstore", Local, 2, 0, 0),
    op(0x3a, "astore", Local, 1, 0, 0),
    op(0x3b, "istore_0", None, 1, 0, 0),
    op(0x3c, "istore_1", None, 1, 0, 0),
    op(0x3d, "istore_2", None, 1, 0, 0),
    op(0x3e, "istore_3", None, 1, 0, 0),
    op(0x3f, "lstore_0", None, 2, 0, 0),
    op(0x40, "lstore_1", None, 2, 0, 0),
    op(0x41, "lstore_2", None, 2, 0, 0),
    op(0x42, "lstore_3", None, 2, 0, 0),
    op(0x43, "fstore_0", None, 1, 0, 0),
    op(0x44, "fstore_1", None, 1, 0, 0),
    op(0x45, "fstore_2", None, 1, 0, 0),
    op(0x46, "fstore_3", None, 1, 0, 0),
    op(0x47, "dstore_0", None, 2, 0, 0),
    op(0x48, "dstore_1", None, 2, 0, 0),
    op(0x49, "dstore_2", None, 2, 0, 0),
    op(0x4a, "dstore_3", None, 2, 0, 0),
    op(0x4b, "astore_0", None, 1, 0, 0),
    op(0x4c, "astore_1", None, 1, 0, 0),
    op(0x4d, "astore_2", None, 1, 0, 0),
    op(0x4e, "astore_3", None, 1, 0, 0),
    op(0x4f, "iastore", None, 3, 0, THROWS),
    op(0x50, "lastore", None, 4, 0, THROWS),
    op(0x51, "fastore", None, 3, 0, THROWS),
    op(0x52, "dastore", None, 4, 0, THROWS),
    op(0x53, "aastore", None, 3, 0, THROWS),
    op(0x54, "bastore", None, 3, 0, THROWS),
    op(0x55, "castore", None, 3, 0, THROWS),
    op(0x56, "sastore", None, 3, 0, THROWS),
    op(0x57, "pop", None, 1, 0, 0),
    op(0x58, "pop2", None, 2, 0, 0),
    op(0x59, "dup", None, 1, 2, 0),
    op(0x5a, "dup_x1", None, 2, 3, 0),
    op(0x5b, "dup_x2", None, 3, 4, 0),
    op(0x5c, "dup2", None, 2, 4, 0),
    op(0x5d, "dup2_x1", None, 3, 5, 0),
    op(0x5e, "dup2_x2", None, 4, 6, 0),
    op(0x5f, "swap", None, 2, 2, 0),
    op(0x60, "iadd", None, 2, 1, 0),
    op(0x61, "ladd", None, 4, 2, 0),
    op(0x62, "fadd", None, 2, 1, 0),
    op(0x63, "dadd", None, 4, 2, 0),
    op(0x64, "isub", None, 2, 1, 0),
    op(0x65, "lsub", None, 4, 2, 0),
    op(0x66, "fsub", None, 2, 1, 0),
    op(0x67, "dsub", None, 4, 2, 0),
    op(0x68, "imul", None, 2, 1, 0),
    op(0x69, "lmul", None, 4, 2, 0),
    op(0x6a, "fmul", None, 2, 1, 0),
    op(0x6b, "dmul", None, 4, 2, 0),
    op(0x6c, "idiv", None, 2, 1, THROWS),
    op(0x6d, "ldiv", None, 4, 2, THROWS),
    op(0x6e, "fdiv", None, 2, 1, 0),
    op(0x6f, "ddiv", None, 4, 2, 0),
    op(0x70, "irem", None, 2, 1, THROWS),
    op(0x71, "lrem", None, 4, 2, THROWS),
    op(0x72, "frem", None, 2, 1, 0),
    op(0x73, "drem", None, 4, 2, 0),
    op(0x74, "ineg", None, 1, 1, 0),
    op(0x75, "lneg", None, 2, 2, 0),
    op(0x76, "fneg", None, 1, 1, 0),
    op(0x77, "dneg", None, 2, 2, 0),
    op(0x78, "ishl", None, 2, 1, 0),
    op(0x79, "lshl", None, 3, 2, 0),
    op(0x7a, "ishr", None, 2, 1, 0),
    op(0x7b, "lshr", None, 3, 2, 0),
    op(0x7c, "iushr", None, 2, 1, 0),
    op(0x7d, "lushr", None, 3, 2, 0),
    op(0x7e, "iand", None, 2, 1, 0),
    op(0x7f, "land", None, 4, 2, 0),
    op(0x80, "ior", None, 2, 1, 0),
    op(0x81, "lor", None, 4, 2, 0),
    op(0x82, "ixor", None, 2, 1, 0),
    op(0x83, "lxor", None, 4, 2, 0),
    op(0x84, "iinc", Iinc, 0, 0, 0),
    op(0x85, "i2l", None, 1, 2, 0),
    op(0x86, "i2f", None, 1, 1, 0),
    op(0x87, "i2d", None, 1, 2, 0),
    op(0x88, "l2i", None, 2, 1, 0),
    op(0x89, "l2f", None, 2, 1, 0),
    op(0x8a, "l2d", None, 2, 2, 0),
    op(0x8b, "f2i", None, 1, 1, 0),
    op(0x8c, "f2l", None, 1, 2, 0),
    op(0x8d, "f2d", None, 1, 2, 0),
    op(0x8e, "d2i", None, 2, 1, 0),
    op(0x8f, "d2l", None, 2, 2, 0),
    op(0x90, "d2f", None, 2, 1, 0),
    op(0x91, "i2b", None, 1, 1, 0),
    op(0x92, "i2c", None, 1, 1, 0),
    op(0x93, "i2s", None, 1, 1, 0),
    op(0x94, "lcmp", None, 4, 1, 0),
    op(0x95, "fcmpl", None, 2, 1, 0),
    op(0x96, "fcmpg", None, 2, 1, 0),
    op(0x97, "dcmpl", None, 4, 1, 0),
    op(0x98, "dcmpg", None, 4, 1, 0),
    op(0x99, "ifeq", Branch2, 1, 0, 0),
    op(0x9a, "ifne", Branch2, 1, 0, 0),
    op(0x9b, "iflt", Branch2, 1, 0, 0),
    op(0x9c, "ifge", Branch2, 1, 0, 0),
    op(0x9d, "ifgt", Branch2, 1, 0, 0),
    op(0x9e, "ifle", Branch2, 1, 0, 0),
    op(0x9f, "if_icmpeq", Branch2, 2, 0, 0),
    op(0xa0, "if_icmpne", Branch2, 2, 0, 0),
    op(0xa1, "if_icmplt", Branch2, 2, 0, 0),
    op(0xa2, "if_icmpge", Branch2, 2, 0, 0),
    op(0xa3, "if_icmpgt", Branch2, 2, 0, 0),
    op(0xa4, "if_icmple", Branch2, 2, 0, 0),
    op(0xa5, "if_acmpeq", Branch2, 2, 0, 0),
    op(0xa6, "if_acmpne", Branch2, 2, 0, 0),
    op(0xa7, "goto", Branch2, 0, 0, ENDS),
    op(0xa8, "jsr", Branch2, 0, 0, 0),
    op(0xa9, "ret", Local, 0, 0, ENDS),
    op(0xaa, "tableswitch", TableSwitch, 1, 0, ENDS),
    op(0xab, "lookupswitch", LookupSwitch, 1, 0, ENDS),
    op(0xac, "ireturn", None, 1, 0, ENDS | RETURN | THROWS),
    op(0xad, "lreturn", None, 2, 0, ENDS | RETURN | THROWS),
    op(0xae, "freturn", None, 1, 0, ENDS | RETURN | THROWS),
    op(0xaf, "dreturn", None, 2, 0, ENDS | RETURN | THROWS),
    op(0xb0, "areturn", None, 1, 0, ENDS | RETURN | THROWS),
    op(0xb1, "return", None, 0, 0, ENDS | RETURN | THROWS),
    op(0xb2, "getstatic", Cp2, 0, 0, JAVA | BY_CONSTANT),
    op(0xb3, "putstatic", Cp2, 0, 0, JAVA | BY_CONSTANT),
    op(0xb4, "getfield", Cp2, 0, 0, JAVA | BY_CONSTANT),
    op(0xb5, "putfield", Cp2, 0, 0, JAVA | BY_CONSTANT),
    op(0xb6, "invokevirtual", Cp2, 0, 0, JAVA | BY_CONSTANT),
    op(0xb7, "invokespecial", Cp2, 0, 0, JAVA | BY_CONSTANT),
    op(0xb8, "invokestatic", Cp2, 0, 0, JAVA | BY_CONSTANT),
    op(0xb9, "invokeinterface", Cp2Pad2, 0, 0, JAVA | BY_CONSTANT),
    op(0xba, "invokedynamic", Cp2Pad2, 0, 0, JAVA | BY_CONSTANT),
    op(0xbb, "new", Cp2, 0, 1, JAVA),
    op(0xbc, "newarray", U1, 1, 1, THROWS),
    op(0xbd, "anewarray", Cp2, 1, 1, JAVA),
    op(0xbe, "arraylength", None, 1, 1, THROWS),
    op(0xbf, "athrow", None, 1, 0, ENDS | THROWS),
    op(0xc0, "checkcast", Cp2, 1, 1, JAVA),
    op(0xc1, "instanceof", Cp2, 1, 1, JAVA),
    op(0xc2, "monitorenter", None, 1, 0, THROWS),
    op(0xc3, "monitorexit", None, 1, 0, THROWS),
    op(0xc4, "wide", Wide, 0, 0, 0),
    op(0xc5, "multianewarray", Cp2Dims, 0, 1, JAVA | BY_CONSTANT),
    op(0xc6, "ifnull", Branch2, 1, 0, 0),
    op(0xc7, "ifnonnull", Branch2, 1, 0, 0),
    op(0xc8, "goto_w", Branch4, 0, 0, ENDS),
    op(0xc9, "jsr_w", Branch4, 0, 0, 0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_stands_at_its_opcode() {
        for (index, op) in TABLE.iter().enumerate() {
            assert_eq!(usize::from(op.code), index, "{}", op.name);
        }
        assert!(lookup(202).is_none());
    }

    #[test]
    fn named_opcodes_are_what_they_are_called() {
        for (opcode, name) in [
            (NOP, "nop"),
            (ACONST_NULL, "aconst_null"),
            (SIPUSH, "sipush"),
            (LDC, "ldc"),
            (LDC_W, "ldc_w"),
            (LDC2_W, "ldc2_w"),
            (ALOAD, "aload"),
            (ALOAD_0, "aload_0"),
            (ALOAD_1, "aload_1"),
            (ALOAD_3, "aload_3"),
            (ISTORE, "istore"),
            (ASTORE, "astore"),
            (ISTORE_0, "istore_0"),
            (ASTORE_0, "astore_0"),
            (ASTORE_3, "astore_3"),
            (DUP, "dup"),
            (DUP_X1, "dup_x1"),
            (DUP_X2, "dup_x2"),
            (DUP2, "dup2"),
            (DUP2_X1, "dup2_x1"),
            (DUP2_X2, "dup2_x2"),
            (SWAP, "swap"),
            (GOTO, "goto"),
            (JSR, "jsr"),
            (RET, "ret"),
            (GETSTATIC, "getstatic"),
            (PUTSTATIC, "putstatic"),
            (GETFIELD, "getfield"),
            (PUTFIELD, "putfield"),
            (INVOKEVIRTUAL, "invokevirtual"),
            (INVOKESPECIAL, "invokespecial"),
            (INVOKESTATIC, "invokestatic"),
            (INVOKEDYNAMIC, "invokedynamic"),
            (NEW, "new"),
            (ANEWARRAY, "anewarray"),
            (ATHROW, "athrow"),
            (MONITORENTER, "monitorenter"),
            (MONITOREXIT, "monitorexit"),
            (MULTIANEWARRAY, "multianewarray"),
            (JSR_W, "jsr_w"),
        ] {
            assert_eq!(lookup(opcode).unwrap().name, name);
        }
    }
}
