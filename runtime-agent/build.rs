//! Generates the probe class: the guard in Java in front of the agent's native methods.
//!
//! ```java
//! public final class $TProfiler {               // package java.lang
//!     private static volatile boolean on;
//!     @Hidden public static void Start(int id) { if (on) start0(id); }  // and End, Threw, Caught, ...
//!     @Hidden private static native void start0(int id);                // and end0, threw0, ...
//! }
//! ```
//! The field is volatile, so that a loop that is running sees a change. `@Hidden` is the JDK's own: it
//! keeps the methods out of the service's stack traces. Version 49 needs no frames.

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
    let field = Field {
        access_flags: FieldAccessFlags::PRIVATE
            | FieldAccessFlags::STATIC
            | FieldAccessFlags::VOLATILE,
        name_index: pool.add_utf8("on")?,
        descriptor_index: pool.add_utf8("Z")?,
        field_type: FieldType::Base(BaseType::Boolean),
        attributes: vec![],
    };
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
                    max_stack: 1,
                    max_locals: 1,
                    code: vec![
                        Instruction::Getstatic(on),
                        // The index of the return below.
                        Instruction::Ifeq(4),
                        Instruction::Iload_0,
                        Instruction::Invokestatic(native),
                        Instruction::Return,
                    ],
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
    let class = ClassFile {
        version: JAVA_5,
        constant_pool: pool,
        access_flags: ClassAccessFlags::PUBLIC
            | ClassAccessFlags::FINAL
            | ClassAccessFlags::SUPER
            | ClassAccessFlags::SYNTHETIC,
        this_class,
        super_class,
        fields: vec![field],
        methods,
        ..ClassFile::default()
    };
    let mut bytes = Vec::new();
    class.to_bytes(&mut bytes)?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("probe.class"), bytes)?;
    Ok(())
}
