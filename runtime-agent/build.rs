//! Generates the probe class: the guard in Java in front of the agent's native methods.
//!
//! ```java
//! public final class $TProfiler {               // package java.lang
//!     private static volatile boolean on;
//!     private static volatile byte[] muted;    // by method id; the agent sets it before `on`
//!     @Hidden public static void Start(int id) {                        // and End, Threw, Caught, ...
//!         if (on) {
//!             byte[] muted = $TProfiler.muted;
//!             if (id >= muted.length || muted[id] == 0) start0(id);
//!         }
//!     }
//!     @Hidden private static native void start0(int id);                // and end0, threw0, ...
//!     private static void calibrate(int calls, int id) {                 // what a call costs here
//!         for (; calls > 0; calls--) { Start(id); End(id); }
//!     }
//! }
//! ```
//! The fields are volatile, so that a loop that is running sees a change: an element of the array alone
//! would be read once. The methods stay under 35 bytes of code, up to which HotSpot puts a method into
//! its caller without much ado. `@Hidden` is the JDK's own: it keeps them out of the service's stack
//! traces. Version 49 needs no frames.

use std::path::Path;
use std::{env, error, fs};

use rewriter::probe;
use ristretto_classfile::attributes::{Annotation, Attribute, Instruction};
use ristretto_classfile::{
    BaseType, ClassAccessFlags, ClassFile, ConstantPool, Field, FieldAccessFlags, FieldType,
    JAVA_5, Method, MethodAccessFlags,
};

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    // A JVM may close a library whose Agent_OnAttach did not do what was asked. Ours has callbacks and
    // native methods: it stays.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    let mut pool = ConstantPool::default();
    let this_class = pool.add_class(probe::CLASS)?;
    let super_class = pool.add_class("java/lang/Object")?;
    let on = pool.add_field_ref(this_class, "on", "Z")?;
    let muted = pool.add_field_ref(this_class, "muted", "[B")?;
    let code_name = pool.add_utf8("Code")?;
    let mut annotation = |name: &str| -> Result<Annotation, Box<dyn error::Error>> {
        Ok(Annotation { type_index: pool.add_utf8(name)?, elements: vec![] })
    };
    // The JDK moved it after 11.
    let annotations = vec![
        annotation("Ljdk/internal/vm/annotation/Hidden;")?,
        annotation("Ljava/lang/invoke/LambdaForm$Hidden;")?,
    ];
    let name_index = pool.add_utf8("RuntimeVisibleAnnotations")?;
    let hidden = Attribute::RuntimeVisibleAnnotations { name_index, annotations };
    let descriptor_index = pool.add_utf8(probe::DESCRIPTOR)?;
    let boolean = FieldType::Base(BaseType::Boolean);
    let bytes = FieldType::Array(Box::new(FieldType::Base(BaseType::Byte)));
    let mut fields = Vec::new();
    for (name, descriptor, field_type) in [("on", "Z", boolean), ("muted", "[B", bytes)] {
        fields.push(Field {
            access_flags: FieldAccessFlags::PRIVATE
                | FieldAccessFlags::STATIC
                | FieldAccessFlags::VOLATILE,
            name_index: pool.add_utf8(name)?,
            descriptor_index: pool.add_utf8(descriptor)?,
            field_type,
            attributes: vec![],
        });
    }
    let mut methods = Vec::new();
    for name in [probe::START, probe::END, probe::THREW, probe::CAUGHT, probe::INITIALIZED] {
        let native_name = format!("{}0", name.to_lowercase());
        let native = pool.add_method_ref(this_class, native_name.as_str(), probe::DESCRIPTOR)?;
        methods.push(Method {
            access_flags: MethodAccessFlags::PUBLIC | MethodAccessFlags::STATIC,
            name_index: pool.add_utf8(name)?,
            descriptor_index,
            attributes: vec![
                Attribute::Code {
                    name_index: code_name,
                    max_stack: 2,
                    max_locals: 2,
                    code: guard(on, muted, native),
                    exception_table: vec![],
                    attributes: vec![],
                },
                hidden.clone(),
            ],
        });
        methods.push(Method {
            access_flags: MethodAccessFlags::PRIVATE
                | MethodAccessFlags::STATIC
                | MethodAccessFlags::NATIVE,
            name_index: pool.add_utf8(native_name.as_str())?,
            descriptor_index,
            attributes: vec![hidden.clone()],
        });
    }
    let start = pool.add_method_ref(this_class, probe::START, probe::DESCRIPTOR)?;
    let end = pool.add_method_ref(this_class, probe::END, probe::DESCRIPTOR)?;
    methods.push(Method {
        access_flags: MethodAccessFlags::PRIVATE | MethodAccessFlags::STATIC,
        name_index: pool.add_utf8("calibrate")?,
        descriptor_index: pool.add_utf8("(II)V")?,
        attributes: vec![Attribute::Code {
            name_index: code_name,
            max_stack: 1,
            max_locals: 2,
            code: calibration(start, end),
            exception_table: vec![],
            attributes: vec![],
        }],
    });
    let class = ClassFile {
        version: JAVA_5,
        constant_pool: pool,
        access_flags: ClassAccessFlags::PUBLIC
            | ClassAccessFlags::FINAL
            | ClassAccessFlags::SUPER
            | ClassAccessFlags::SYNTHETIC,
        this_class,
        super_class,
        fields,
        methods,
        ..ClassFile::default()
    };
    let mut bytes = Vec::new();
    class.to_bytes(&mut bytes)?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("probe.class"), bytes)?;
    Ok(())
}

/// The guard in front of a native method. Targets are indices of instructions.
fn guard(on: u16, muted: u16, native: u16) -> Vec<Instruction> {
    const CALL: u16 = 12;
    const RETURN: u16 = 14;
    vec![
        Instruction::Getstatic(on),
        Instruction::Ifeq(RETURN),
        Instruction::Getstatic(muted),
        Instruction::Astore_1,
        Instruction::Iload_0,
        Instruction::Aload_1,
        Instruction::Arraylength,
        Instruction::If_icmpge(CALL),
        Instruction::Aload_1,
        Instruction::Iload_0,
        Instruction::Baload,
        Instruction::Ifne(RETURN),
        Instruction::Iload_0,
        Instruction::Invokestatic(native),
        Instruction::Return,
    ]
}

/// Calls a method that does nothing but begin and end, as often as the first parameter says.
fn calibration(start: u16, end: u16) -> Vec<Instruction> {
    const LOOP: u16 = 0;
    const RETURN: u16 = 8;
    vec![
        Instruction::Iload_0,
        Instruction::Ifle(RETURN),
        Instruction::Iload_1,
        Instruction::Invokestatic(start),
        Instruction::Iload_1,
        Instruction::Invokestatic(end),
        Instruction::Iinc(0, -1),
        Instruction::Goto(LOOP),
        Instruction::Return,
    ]
}
