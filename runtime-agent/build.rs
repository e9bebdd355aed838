//! Generates the probe class: the guard in Java in front of the agent's native methods.
//!
//! ```java
//! public final class $TProfiler {               // package java.lang
//!     @Stable private static byte[] sealed;    // by method id; never another array
//!     @Stable private static MutableCallSite state;      // its target is one of these
//!     @Stable private static MethodHandle off, first, second;
//!     private static volatile boolean on;
//!     private static byte[] muted;             // by method id; the agent sets it before `on`
//!     @Hidden public static void Start(int id) {                        // and Threw, Caught, Initialized
//!         int method = id << 2 >>> 2;                                   // without BEFORE_INIT
//!         if (method < sealed.length && sealed[method] != 0) return;
//!         if (state.getTarget() == off) return;
//!         if (!on) return;
//!         byte[] muted = $TProfiler.muted;
//!         if (method >= muted.length || muted[method] == 0) start0(id);
//!     }
//!     @Hidden @ForceInline public static void End(int id) {
//!         int method = id << 2 >>> 2;
//!         if (method < sealed.length && sealed[method] != 0) return;
//!         endUnsealed(id);                                              // the rest
//!     }
//!     @Hidden private static native void start0(int id);                // and end0, threw0, ...
//!     private static void calibrate(int calls, int id) {                 // what a call costs here
//!         for (; calls > 0; calls--) { Start(id); End(id); }
//!     }
//!     private static void exercise(int calls, int id) {
//!         for (; calls > 0; calls--) { Start(id); End(id); Threw(id); Caught(id); Initialized(id); }
//!     }
//!     private static void prepare() {
//!         off = MethodHandles.constant(int.class, 1);                   // first, second: 2, 3
//!         state = new MutableCallSite(first);
//!     }
//!     private static void change(int isOff) {
//!         state.setTarget(isOff != 0 ? off : state.getTarget() == first ? second : first);
//!     }
//! }
//! ```
//! `on` is volatile, so that a loop that is running sees a change, of what is read after it too: an element
//! of an array alone would be read once. An element of `sealed` is read once, on purpose: what is compiled
//! while it is not 0 takes it for a constant, so that nothing is left of the probes, not even what keeps a
//! compiler from moving code across them (`on` alone makes a library whose methods are tiny half as fast).
//! To take a seal off again, what was compiled has to be thrown away, by retransforming the class.
//!
//! A call site's target is a constant as well, and what was compiled with it is thrown away when it changes: `state`
//! is `off` while recording is off for long, so that nothing is left of the probes then, and goes from `first` to
//! `second` and back for no other reason than to have all compiled anew that has probes in it. To redefine this
//! class would do that too, but HotSpot counts it against every method that it throws away, adds these counts up
//! for all that is inlined into one, and from 201 on (half of `PerMethodRecompilationCutoff`) leaves traps in what
//! it compiles that nothing is compiled anew for, however often they are met: a large program may be slow from then
//! on for good. What a call site throws away is not counted.
//!
//! The annotations are the JDK's own: `@Hidden` keeps the methods out of the service's stack traces.
//! `@ForceInline` is where it has to be and nowhere else: C1, which compiles first and everything, would put
//! three whole guards into each method and work nearly twice as long (javac: 2.3 s, not 1.3), while C2 puts those
//! that are called often into their callers anyway. But of a method's returns some are taken seldom, and there
//! C2 leaves a call where what is called is longer than 35 bytes (`MaxInlineSize`), sealed or not: these calls were 1
//! to 2% of H2's and Lucene's time. So the part of `End` that finds the seal is short and forced, and the part behind
//! it is too long for C1. What comes after an exception is dear anyway. Version 49 needs no frames.

use std::io::Cursor;
use std::path::Path;
use std::{env, error, fs};

use rewriter::probe::{self, BEFORE_INIT};
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
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("probe.class"), probe_class()?)?;
    Ok(())
}

fn probe_class() -> Result<Vec<u8>, Box<dyn error::Error>> {
    let mut pool = ConstantPool::default();
    let this_class = pool.add_class(probe::CLASS)?;
    let super_class = pool.add_class("java/lang/Object")?;
    let on = pool.add_field_ref(this_class, "on", "Z")?;
    let muted = pool.add_field_ref(this_class, "muted", "[B")?;
    let sealed = pool.add_field_ref(this_class, "sealed", "[B")?;
    let state = State::new(&mut pool, this_class)?;
    let code_name = pool.add_utf8("Code")?;
    let mut annotation = |name: &str| -> Result<Annotation, Box<dyn error::Error>> {
        Ok(Annotation { type_index: pool.add_utf8(name)?, elements: vec![] })
    };
    // The JDK moved it after 11.
    let hidden = vec![
        annotation("Ljdk/internal/vm/annotation/Hidden;")?,
        annotation("Ljava/lang/invoke/LambdaForm$Hidden;")?,
    ];
    let mut inlined = vec![annotation("Ljdk/internal/vm/annotation/ForceInline;")?];
    inlined.extend(hidden.iter().cloned());
    let stable = vec![annotation("Ljdk/internal/vm/annotation/Stable;")?];
    let name_index = pool.add_utf8("RuntimeVisibleAnnotations")?;
    let annotated = |annotations| Attribute::RuntimeVisibleAnnotations { name_index, annotations };
    let (inlined, hidden, stable) = (annotated(inlined), annotated(hidden), annotated(stable));
    let descriptor_index = pool.add_utf8(probe::DESCRIPTOR)?;
    let boolean = FieldType::Base(BaseType::Boolean);
    let bytes = FieldType::Array(Box::new(FieldType::Base(BaseType::Byte)));
    let (handle, site) = (FieldType::Object(HANDLE.into()), FieldType::Object(SITE.into()));
    let static_field = FieldAccessFlags::PRIVATE | FieldAccessFlags::STATIC;
    let mut fields = Vec::new();
    for (name, field_type, more, attributes) in [
        ("on", boolean, FieldAccessFlags::VOLATILE, vec![]),
        ("muted", bytes.clone(), FieldAccessFlags::empty(), vec![]),
        ("sealed", bytes, FieldAccessFlags::empty(), vec![stable.clone()]),
        ("state", site, FieldAccessFlags::empty(), vec![stable.clone()]),
        ("off", handle.clone(), FieldAccessFlags::empty(), vec![stable.clone()]),
        ("first", handle.clone(), FieldAccessFlags::empty(), vec![stable.clone()]),
        ("second", handle, FieldAccessFlags::empty(), vec![stable]),
    ] {
        fields.push(Field {
            access_flags: static_field | more,
            name_index: pool.add_utf8(name)?,
            descriptor_index: pool.add_utf8(field_type.descriptor())?,
            field_type,
            attributes,
        });
    }
    let mut methods = Vec::new();
    for name in PROBES {
        let native_name = format!("{}0", name.to_lowercase());
        let native = pool.add_method_ref(this_class, native_name.as_str(), probe::DESCRIPTOR)?;
        let public = MethodAccessFlags::PUBLIC;
        let guard = if name == probe::END {
            let end = pool.add_method_ref(this_class, "endUnsealed", probe::DESCRIPTOR)?;
            let (front, rest) = (front(sealed, end), rest_of_end(&state, on, muted, native));
            if length(&front)? > MAX_INLINE_SIZE || length(&rest)? <= MAX_INLINE_SIZE {
                return Err("C1 would put the wrong part of the guard into callers".into());
            }
            vec![
                (name, public, front, inlined.clone()),
                ("endUnsealed", MethodAccessFlags::PRIVATE, rest, hidden.clone()),
            ]
        } else {
            vec![(name, public, guard(sealed, &state, on, muted, native), hidden.clone())]
        };
        for (name, access, code, annotations) in guard {
            methods.push(Method {
                access_flags: access | MethodAccessFlags::STATIC,
                name_index: pool.add_utf8(name)?,
                descriptor_index,
                attributes: vec![
                    Attribute::Code {
                        name_index: code_name,
                        max_stack: 2,
                        max_locals: 3,
                        code,
                        exception_table: vec![],
                        attributes: vec![],
                    },
                    annotations,
                ],
            });
        }
        methods.push(Method {
            access_flags: MethodAccessFlags::PRIVATE
                | MethodAccessFlags::STATIC
                | MethodAccessFlags::NATIVE,
            name_index: pool.add_utf8(native_name.as_str())?,
            descriptor_index,
            attributes: vec![hidden.clone()],
        });
    }
    let mut probes = Vec::new();
    for name in PROBES {
        probes.push(pool.add_method_ref(this_class, name, probe::DESCRIPTOR)?);
    }
    for (name, descriptor, code) in [
        ("calibrate", "(II)V", calls_of(probes.get(..2).unwrap_or_default())),
        ("exercise", "(II)V", calls_of(&probes)),
        ("prepare", "()V", state.prepare()),
        ("change", "(I)V", state.change()),
    ] {
        methods.push(Method {
            access_flags: MethodAccessFlags::PRIVATE | MethodAccessFlags::STATIC,
            name_index: pool.add_utf8(name)?,
            descriptor_index: pool.add_utf8(descriptor)?,
            attributes: vec![Attribute::Code {
                name_index: code_name,
                max_stack: 3,
                max_locals: 2,
                code,
                exception_table: vec![],
                attributes: vec![],
            }],
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
        fields,
        methods,
        ..ClassFile::default()
    };
    let mut bytes = Vec::new();
    class.to_bytes(&mut bytes)?;
    Ok(bytes)
}

const PROBES: [&str; 5] =
    [probe::START, probe::END, probe::THREW, probe::CAUGHT, probe::INITIALIZED];

/// HotSpot's compilers put a method into callers that need not call it often if its code is no longer than this.
const MAX_INLINE_SIZE: usize = 35;

/// How long code is, in bytes.
fn length(code: &[Instruction]) -> Result<usize, Box<dyn error::Error>> {
    let mut bytes = Cursor::new(Vec::new());
    for instruction in code {
        instruction.to_bytes(&mut bytes)?;
    }
    Ok(bytes.into_inner().len())
}

// Two bits go: the sign, and what tells a constructor that is not initialized.
const _: () = assert!(BEFORE_INIT == 1 << 30);

/// The guard in front of a native method.
///
/// What turns a call away is the fall-through of each branch, on purpose: where HotSpot's C1 puts a probe into
/// its caller, it follows that first when it looks for null checks that are not needed, so that what comes
/// behind the probe is first seen with what all ways into it have in common. The other way round, with `muted`
/// known not to be null, it was looked at again for each probe before it: 0.7 s for a method that calls a
/// hundred small measured ones, 12 s for three hundred.
fn guard(sealed: u16, state: &State, on: u16, muted: u16, native: u16) -> Vec<Instruction> {
    let mut code = method_of_id();
    code.extend(unless_sealed(sealed, code.len()));
    code.extend(state.unless_off(code.len()));
    code.extend(unless_off(on, code.len()));
    code.extend(unless_muted(muted, code.len()));
    code.extend(call(native));
    code
}

/// The part of it that is put into every caller, and calls the rest.
fn front(sealed: u16, rest: u16) -> Vec<Instruction> {
    let mut code = method_of_id();
    code.extend(unless_sealed(sealed, code.len()));
    code.extend(call(rest));
    code
}

/// The rest.
fn rest_of_end(state: &State, on: u16, muted: u16, native: u16) -> Vec<Instruction> {
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

/// `if (method < sealed.length && sealed[method] != 0) return;` Like the others it is at an index of
/// instructions, which is what targets are.
fn unless_sealed(sealed: u16, at: usize) -> Vec<Instruction> {
    let behind = target(at, 9);
    vec![
        Instruction::Iload_1,
        Instruction::Getstatic(sealed),
        Instruction::Arraylength,
        Instruction::If_icmpge(behind),
        Instruction::Getstatic(sealed),
        Instruction::Iload_1,
        Instruction::Baload,
        Instruction::Ifeq(behind),
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

const SITE: &str = probe::CALL_SITE;
const HANDLE: &str = "java/lang/invoke/MethodHandle";

/// What `state` is made of: indices of the constant pool.
struct State {
    state: u16,
    off: u16,
    first: u16,
    second: u16,
    get: u16,
    set: u16,
    site: u16,
    new_site: u16,
    int: u16,
    integer: u16,
    constant: u16,
}

impl State {
    fn new(pool: &mut ConstantPool, this_class: u16) -> Result<Self, Box<dyn error::Error>> {
        let handle = format!("L{HANDLE};");
        let site = pool.add_class(SITE)?;
        let integer = pool.add_class("java/lang/Integer")?;
        let handles = pool.add_class("java/lang/invoke/MethodHandles")?;
        let constant = format!("(Ljava/lang/Class;Ljava/lang/Object;){handle}");
        Ok(Self {
            state: pool.add_field_ref(this_class, "state", &format!("L{SITE};"))?,
            off: pool.add_field_ref(this_class, "off", &handle)?,
            first: pool.add_field_ref(this_class, "first", &handle)?,
            second: pool.add_field_ref(this_class, "second", &handle)?,
            get: pool.add_method_ref(site, "getTarget", &format!("(){handle}"))?,
            set: pool.add_method_ref(site, "setTarget", &format!("({handle})V"))?,
            site,
            new_site: pool.add_method_ref(site, "<init>", &format!("({handle})V"))?,
            int: pool.add_field_ref(integer, "TYPE", "Ljava/lang/Class;")?,
            integer: pool.add_method_ref(integer, "valueOf", "(I)Ljava/lang/Integer;")?,
            constant: pool.add_method_ref(handles, "constant", constant.as_str())?,
        })
    }

    /// `if (state.getTarget() == off) return;`
    fn unless_off(&self, at: usize) -> Vec<Instruction> {
        vec![
            Instruction::Getstatic(self.state),
            Instruction::Invokevirtual(self.get),
            Instruction::Getstatic(self.off),
            Instruction::If_acmpne(target(at, 5)),
            Instruction::Return,
        ]
    }

    fn prepare(&self) -> Vec<Instruction> {
        let values = [Instruction::Iconst_1, Instruction::Iconst_2, Instruction::Iconst_3];
        let fields = [self.off, self.first, self.second];
        let handles = values.into_iter().zip(fields).flat_map(|(value, field)| {
            [
                Instruction::Getstatic(self.int),
                value,
                Instruction::Invokestatic(self.integer),
                Instruction::Invokestatic(self.constant),
                Instruction::Putstatic(field),
            ]
        });
        let site = [
            Instruction::New(self.site),
            Instruction::Dup,
            Instruction::Getstatic(self.first),
            Instruction::Invokespecial(self.new_site),
            Instruction::Putstatic(self.state),
            Instruction::Return,
        ];
        handles.chain(site).collect()
    }

    fn change(&self) -> Vec<Instruction> {
        const IS_ON: u16 = 5;
        const IS_SECOND: u16 = 11;
        const SET: u16 = 12;
        vec![
            Instruction::Getstatic(self.state),
            Instruction::Iload_0,
            Instruction::Ifeq(IS_ON),
            Instruction::Getstatic(self.off),
            Instruction::Goto(SET),
            Instruction::Getstatic(self.state),
            Instruction::Invokevirtual(self.get),
            Instruction::Getstatic(self.first),
            Instruction::If_acmpne(IS_SECOND),
            Instruction::Getstatic(self.second),
            Instruction::Goto(SET),
            Instruction::Getstatic(self.first),
            Instruction::Invokevirtual(self.set),
            Instruction::Return,
        ]
    }
}

fn call(method: u16) -> Vec<Instruction> {
    vec![Instruction::Iload_0, Instruction::Invokestatic(method), Instruction::Return]
}

/// What is so many instructions behind.
fn target(at: usize, instructions: u16) -> u16 {
    u16::try_from(at).map_or(u16::MAX, |at| at + instructions)
}

/// Calls probes of the method that the second parameter names, as often as the first one says.
fn calls_of(probes: &[u16]) -> Vec<Instruction> {
    const LOOP: u16 = 0;
    let behind = target(2 * probes.len(), 4);
    let mut code = vec![Instruction::Iload_0, Instruction::Ifle(behind)];
    for probe in probes {
        code.extend([Instruction::Iload_1, Instruction::Invokestatic(*probe)]);
    }
    code.extend([Instruction::Iinc(0, -1), Instruction::Goto(LOOP), Instruction::Return]);
    code
}
