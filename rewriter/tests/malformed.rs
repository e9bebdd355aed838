//! Whatever the bytes are, the rewriter neither panics nor changes what it cannot read.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use rewriter::{
    ClassInfo, ErrorKind, MethodInfo, Mutf8, Outcome, ProbeId, Rewriter, Selector, Skip,
};
use ristretto_classfile::attributes::{
    Attribute, ExceptionTableEntry, Instruction, LineNumber, StackFrame, TableSwitch,
    VerificationType,
};
use ristretto_classfile::{
    ClassAccessFlags, ClassFile, ConstantPool, JAVA_8, Method, MethodAccessFlags,
};

struct All(u32);

impl Selector for All {
    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
        self.0 += 1;
        ProbeId::new(self.0)
    }
}

fn rewrite(class: &[u8]) -> Result<Outcome, rewriter::Error> {
    Rewriter::new().rewrite(class, &mut All(0))
}

/// A class with a switch, a handler, frames and line numbers.
fn class() -> Vec<u8> {
    class_with(ConstantPool::default())
}

/// The JVM hands out such a class when one with probes has lost them.
#[test]
fn a_class_that_has_only_the_probes_constants_is_rewritten_and_one_with_probes_is_not() {
    let mut pool = ConstantPool::default();
    let probe = pool.add_class(rewriter::probe::CLASS).unwrap();
    pool.add_method_ref(probe, rewriter::probe::START, rewriter::probe::DESCRIPTOR).unwrap();
    let Ok(Outcome::Rewritten(with)) = rewrite(&class_with(pool)) else { panic!("no probes") };
    assert_eq!(with.methods, 1);
    assert_eq!(rewrite(&with.bytes), Ok(Outcome::Unchanged));
}

/// The code of a method that calls `callee` and catches `throwable`.
fn code(pool: &mut ConstantPool, callee: u16, throwable: u16) -> Attribute {
    let code_name = pool.add_utf8("Code").unwrap();
    let same = |offset_delta: u8| StackFrame::SameFrame { frame_type: offset_delta };
    Attribute::Code {
        name_index: code_name,
        max_stack: 1,
        max_locals: 1,
        code: vec![
            Instruction::Iload_0,
            Instruction::Tableswitch(Box::new(TableSwitch {
                default: 3,
                low: 1,
                high: 2,
                offsets: vec![3, 3],
            })),
            Instruction::Nop,
            Instruction::Goto(2),
            Instruction::Iload_0,
            Instruction::Invokestatic(callee),
            Instruction::Ireturn,
            Instruction::Pop,
            Instruction::Iconst_0,
            Instruction::Ireturn,
        ],
        exception_table: vec![ExceptionTableEntry {
            range_pc: 4..6,
            handler_pc: 7,
            catch_type: throwable,
        }],
        attributes: vec![
            Attribute::StackMapTable {
                name_index: pool.add_utf8("StackMapTable").unwrap(),
                frames: vec![
                    same(2),
                    same(1),
                    StackFrame::SameLocals1StackItemFrame {
                        frame_type: 64 + 2,
                        stack: vec![VerificationType::Object { cpool_index: throwable }],
                    },
                ],
            },
            Attribute::LineNumberTable {
                name_index: pool.add_utf8("LineNumberTable").unwrap(),
                line_numbers: vec![
                    LineNumber { start_pc: 0, line_number: 7 },
                    LineNumber { start_pc: 4, line_number: 8 },
                ],
            },
        ],
    }
}

fn class_with(mut pool: ConstantPool) -> Vec<u8> {
    let this_class = pool.add_class("shop/Order").unwrap();
    let super_class = pool.add_class("java/lang/Object").unwrap();
    let callee = pool.add_method_ref(this_class, "other", "(I)I").unwrap();
    let throwable = pool.add_class("java/lang/Throwable").unwrap();
    let code = code(&mut pool, callee, throwable);
    let methods = vec![Method {
        access_flags: MethodAccessFlags::STATIC,
        name_index: pool.add_utf8("price").unwrap(),
        descriptor_index: pool.add_utf8("(I)I").unwrap(),
        attributes: vec![code],
    }];
    let attributes = vec![Attribute::SourceFile {
        name_index: pool.add_utf8("SourceFile").unwrap(),
        source_file_index: pool.add_utf8("Order.java").unwrap(),
    }];
    let class = ClassFile {
        version: JAVA_8,
        constant_pool: pool,
        access_flags: ClassAccessFlags::PUBLIC | ClassAccessFlags::SUPER,
        this_class,
        super_class,
        methods,
        attributes,
        ..ClassFile::default()
    };
    let mut bytes = Vec::new();
    class.to_bytes(&mut bytes).unwrap();
    bytes
}

#[test]
fn the_whole_class_gets_probes_and_another_reader_reads_it() {
    let Ok(Outcome::Rewritten(rewritten)) = rewrite(&class()) else { panic!("not rewritten") };
    assert_eq!(rewritten.methods, 1);
    let parsed = cafebabe::parse_class(&rewritten.bytes).unwrap();
    assert_eq!(parsed.methods[0].name, "price");
}

#[test]
fn every_truncation_is_an_error() {
    let class = class();
    for length in 0..class.len() {
        assert!(rewrite(&class[..length]).is_err(), "{length} bytes of {}", class.len());
    }
    let mut longer = class;
    longer.push(0);
    assert_eq!(rewrite(&longer).unwrap_err().kind, ErrorKind::TrailingBytes);
}

#[test]
fn no_changed_byte_makes_it_panic() {
    let class = class();
    let mut readable = 0;
    for at in 0..class.len() {
        for value in 0..=255 {
            let mut changed = class.clone();
            changed[at] = value;
            // What is still a class for the rewriter comes out as one.
            if let Ok(Outcome::Rewritten(rewritten)) = rewrite(&changed) {
                readable += 1;
                let again = Rewriter::new().rewrite(&rewritten.bytes, &mut Nothing);
                assert_eq!(again, Ok(Outcome::Unchanged), "byte {at} made {value}");
            }
        }
    }
    assert!(readable > 1000, "{readable}");
}

struct Nothing;

impl Selector for Nothing {
    fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
        None
    }
}

#[test]
fn code_from_before_version_45_3_is_left_alone() {
    struct Skips(Vec<Skip>);
    impl Selector for Skips {
        fn id(&mut self, _: &ClassInfo<'_>, _: &MethodInfo<'_>) -> Option<ProbeId> {
            ProbeId::new(1)
        }
        fn skipped(&mut self, _: &ClassInfo<'_>, _: Mutf8<'_>, _: Mutf8<'_>, why: Skip) {
            self.0.push(why);
        }
    }
    for (version, expected) in [([0, 0, 0, 45], Some(Skip::OldCodeFormat)), ([0, 3, 0, 45], None)] {
        let mut class = class();
        class[4..8].copy_from_slice(&version);
        let mut skips = Skips(vec![]);
        let outcome = Rewriter::new().rewrite(&class, &mut skips).unwrap();
        assert_eq!(skips.0.first().copied(), expected, "{version:?}");
        assert_eq!(outcome == Outcome::Unchanged, expected.is_some(), "{version:?}");
    }
}

#[test]
fn errors_say_where() {
    let mut class = class();
    // The opcode of the first instruction: iload_0, then a tableswitch.
    let at = class.windows(2).position(|w| w == [0x1a, 0xaa]).unwrap();
    class[at] = 0xff;
    let error = rewrite(&class).unwrap_err();
    assert_eq!(error.to_string(), format!("unknown opcode at byte {at} in method price(I)I"));
}
